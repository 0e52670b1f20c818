# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
From VRPN events and NatNet reports to poses worth publishing.

Every pose passes ``Pipeline.process`` once, in the order body, stamp, age, validity, axes,
estimate. What comes out is in ENU; ``frames.enu_to_ned`` makes NED of it where that is published.

Nothing here logs: what people should read is left in ``notices``.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
import math
from typing import Any, Optional, Union

from optitrack_vrpn.bodies import swap as exchange
from optitrack_vrpn.bodies.change_log import ChangeLog
from optitrack_vrpn.bodies.selection import Selection
from optitrack_vrpn.bodies.states import Reason, State, StateChange
from optitrack_vrpn.bodies.validity import Body, Rival
from optitrack_vrpn.clock import StampSource
from optitrack_vrpn.clock.types import HOST_STEPPED, RECONNECTED
from optitrack_vrpn.events import Event as UserEvent
from optitrack_vrpn.motion.estimator import Estimator
from optitrack_vrpn.motion.frames import frame_maps
from optitrack_vrpn.motion.lever_arm import acceleration_at, velocity_at
from optitrack_vrpn.motion.quaternion import rotate
from optitrack_vrpn.motion.server_rate import angular_rate
from optitrack_vrpn.names import NameTable, printable
from optitrack_vrpn.natnet.reports import (
    EchoReport, FrameReport, MarkersReport, RigidBodyReport)
from optitrack_vrpn.pipeline.channel import (
    body_name, Channel, how_to_accept, Sample, ServerMotion)
from optitrack_vrpn.pipeline.coarse_clock import COARSE_NS, CoarseClock, Placed
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.freshness import FreshnessGate
from optitrack_vrpn.pipeline.load_shedding import Backlog, PATIENCE_NS, STANDING_NS
from optitrack_vrpn.pipeline.markers import marker_cloud, MarkerCloud
from optitrack_vrpn.vrpn.constants import CONTROL_SENDER, TEXT_ERROR, TEXT_WARNING
from optitrack_vrpn.vrpn.messages import (
    AccelerationReport, Event, PoseReport, Quaternion, TextReport, Vector, VelocityReport)

_NS = 1_000_000_000
#: A body that only the user can release is reported after this long (s): the default of
#: jump_accept_s, after which a body that was carried would have been released.
_HELD_S = 2.0
_new = tuple.__new__
_MOST_NOTICES = 256
#: Names of ignored bodies that are kept; those beyond are looked up with every pose.
_MOST_IGNORED = 1000
#: After this long without events nothing can be waiting unread.
_CATCHING_UP_NS = 250_000_000
#: Bodies that are there at all have come so long after the first.
_ALL_SEEN_NS = 5_000_000_000
#: What builtin_interfaces/Time can hold: seconds are 32 bits with a sign.
_LATEST_STAMP_NS = (1 << 31) * _NS


class Pipeline:
    """
    Turn the events of one server into samples.

    :param config: the settings.
    :param discovered: called with each new channel, before its first sample.
    :ivar backlog: watches whether this computer keeps up.
    :ivar backlogged: poses of all bodies withheld at the beginning of conversations.
    :ivar markers: labelled markers of the latest frame, where the server sends them; the
        publisher sets it to None.
    :ivar ptp_minus_stamp_ns: PTP time of the latest frame less its stamp, None where no PTP
        time is sent.
    :ivar max_age_ns: how far behind the present a stamp may be when its pose is published (ns),
        what ``latency_ms`` takes off it included; beyond all ages where any may.
    """

    def __init__(
        self, config: PipelineConfig,
        discovered: Callable[[Channel], None] = lambda channel: None,
    ) -> None:
        self.config = config
        self.stamps = StampSource(config.stamps)
        self._coarse = CoarseClock()
        self.backlog = Backlog()
        self.channels: dict[tuple[str, int], Optional[Channel]] = {}
        self.notices: list[UserEvent] = []
        self.state_changes: list[StateChange] = []
        self._unreported: list[StateChange] = []
        self._change_log = ChangeLog()
        self.server_motions: list[ServerMotion] = []
        self.refused_bodies = 0
        self.backlogged = 0
        # From the beginning of a conversation until its frames are live; a sender's own times are
        # as right for a backlog as for live frames.
        self._gate: Optional[FreshnessGate] = None
        self.markers: Optional[MarkerCloud] = None
        self.ptp_minus_stamp_ns: Optional[int] = None
        # Of the channels, those that are bodies; the others' names are known to be ignored.
        self._wanted = 0
        self._maps = frame_maps(config.axes)
        self._discovered = discovered
        self._names = NameTable(config.templates, config.reserved_frames)
        # What the sender's clock says cannot be compared with this host's.
        self.max_age_ns = 1 << 63 if config.stamps.mode == 'sender' else (
            round(config.max_age_s * _NS + config.stamps.latency_ms * 1e6)
            if config.max_age_s else 1 << 63)
        self._arrival_mode = config.stamps.mode == 'arrival'
        self._sender_mode = config.stamps.mode == 'sender'
        # When events were last taken, and how long after their arrival.
        self._taken_ns = -_CATCHING_UP_NS
        self._behind_ns = 0
        # When the first body was there, until it is asked which settings match none, and what
        # was asked last.
        self._seen_from_ns: Optional[int] = None
        self._asked = False
        self._last_asked: Optional[tuple[Selection, list[str]]] = None

    @property
    def bodies(self) -> list[Channel]:
        """All bodies seen so far that are wanted, in the order of their appearance."""
        return [channel for channel in self.channels.values() if channel is not None]

    def process(
        self, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
        now_ns: Optional[int] = None,
    ) -> list[Sample]:
        """
        Take the events that arrived together.

        :param events: of VRPN (``vrpn.messages``) or NatNet (``natnet.reports``).
        :param arrival_ns: when, on the arrival clock.
        :param host_minus_arrival_ns: host clock less arrival clock at that time.
        :param now_ns: the present on the arrival clock, which ages are measured against; the
            arrival where not given. What waited in the kernel while the process stood still
            arrived long ago.
        :returns: what is to be published, in order; ``server_motions`` holds what goes with it.
        """
        samples: list[Sample] = []
        if self.server_motions:
            self.server_motions = []
        position_to_enu, quat_to_enu = self._maps
        arrival_mode = self._arrival_mode
        channels = self.channels
        stamps = self.stamps
        stamp_of = stamps.stamp
        if self._gate is not None:
            if events and events[0].__class__ is FrameReport:
                # Datagrams to a socket that was just opened: there is no backlog, and round trips
                # tell the age of each frame.
                self._gate = None
            else:
                events = self._admitted(self._gate, events, arrival_ns)
        if arrival_mode and len(events) > 1:
            events = self._newest_poses(events)
        if now_ns is None:
            now_ns = arrival_ns
        self._taken_ns = now_ns
        self._behind_ns = now_ns - arrival_ns
        backlog = self.backlog
        if backlog.look(self._behind_ns, now_ns):
            self._follow_backlog()
        thinning = backlog.thinning and self.config.keep_up
        oldest_ns = now_ns + host_minus_arrival_ns - self.max_age_ns
        processing_ns = ptp_ns = 0
        refused = None
        for event in events:
            kind = event.__class__
            if kind is PoseReport:
                sender, sensor, sender_time_ns, position, quat_xyzw = event
            elif kind is RigidBodyReport:
                sender, sensor, sender_time_ns, position, quat_xyzw, valid, mean_error = event
                refused = None if valid else Reason.NOT_TRACKED
            elif kind is FrameReport:
                processing_ns, ptp_ns = event.processing_ns, event.ptp_ns
                continue
            elif kind is MarkersReport:
                self._take_markers(event, stamp_of(
                    event.sender_time_ns, arrival_ns, host_minus_arrival_ns, processing_ns),
                    oldest_ns)
                continue
            else:
                self._take_other(event)
                continue
            try:
                channel = channels[sender, sensor]
            except KeyError:
                channel = self._discover(sender, sensor)
            if channel is None:
                continue
            stamp_ns = stamp_of(
                sender_time_ns, arrival_ns, host_minus_arrival_ns, processing_ns)
            if stamps.news:
                self._follow_clock()
            if stamp_ns is None:
                channel.too_old += 1
                continue
            if ptp_ns:
                self.ptp_minus_stamp_ns = ptp_ns - stamp_ns
            truth = channel.truth
            if not oldest_ns <= stamp_ns < _LATEST_STAMP_NS:
                channel.too_old += 1
                continue
            # A sender whose times are not to be trusted may not move its clock at all.
            time_ns = stamp_ns if arrival_mode else sender_time_ns
            if time_ns > channel.newest_ns:
                channel.newest_ns = time_ns
            else:
                time_ns, stamp_ns = self._coarse.place(
                    channel, Placed(time_ns, stamp_ns), event, arrival_ns,
                    arrival_ns + host_minus_arrival_ns)
            if kind is RigidBodyReport and refused is None and (
                    0.0 < truth.config.max_mean_error < mean_error):
                refused = Reason.MEAN_ERROR
            if refused is None:
                quat = truth.update(
                    stamp_ns if arrival_mode else time_ns, arrival_ns, position, quat_xyzw)
            else:
                quat = None
                truth.refuse(stamp_ns if arrival_mode else time_ns, arrival_ns, position,
                             quat_xyzw, refused)
            if truth.events:
                self._follow_truth(truth)
            left_out = thinning and backlog.leaves_out(channel)
            if quat is None:
                if left_out or not truth.config.publish_untracked:
                    continue
                quat = truth.untracked(position, quat_xyzw)
                if quat is not None:
                    samples += self._untracked(channel, stamp_ns, position, quat)
                continue
            estimator = channel.estimator
            if left_out:
                channel.left_out += 1
                channel.last_sender_ns = -1
                if estimator.lowpass is None:    # all others bear gaps
                    continue
            position = position_to_enu(position)
            quat = quat_to_enu(quat)
            motion = None
            if not estimator.idle:
                stamp_ns, position, quat = estimator.update(
                    stamp_ns, position, quat, truth.rate_hz, truth.resets + truth.breaks)
                if channel.wants_motion:
                    motion = estimator.motion_estimate()
            if left_out:
                continue
            if stamp_ns <= channel.last_stamp_ns and not (
                    stamp_ns == channel.last_stamp_ns and channel.newest_ns == COARSE_NS):
                # Frames that arrived as one before anything was known of their clock, a clock
                # learnt anew, a low-pass that has just begun to take its delay off.
                channel.not_rising += 1
                channel.last_sender_ns = -1
                continue
            channel.last_sender_ns = sender_time_ns
            channel.last_stamp_ns = stamp_ns
            channel.last_position = position
            channel.last_quat = quat
            # What Sample(...) does, without the detour through Python.
            samples.append(_new(Sample, (channel, stamp_ns, position, quat, motion)))
        return samples

    def reconnected(self) -> None:
        """
        Take note of a new conversation: the server may be another run of itself.

        Its clock goes on as learnt if the next frame fits, and is learnt anew at once if not. What
        it sends first may be a backlog: nothing is learnt from it and nothing of it published.
        """
        self.stamps.reset(RECONNECTED)
        if not self._sender_mode:
            self._gate = FreshnessGate()

    def tick(self, now_ns: int) -> None:
        """
        Let silence be noticed; call it some ten times a second.

        While this process is behind, what a body has sent lately waits unread: nobody is silent
        but those who were not heard of by the time that is being read.

        :param now_ns: the present on the arrival clock.
        """
        choking = [channel.names.motive for channel in self.bodies if channel.chokes(now_ns)]
        if choking:
            more = f' and {len(choking) - 3} more' if len(choking) > 3 else ''
            self._notice('warn', 'all too old', (
                f'nothing is published of {", ".join(map(repr, map(printable, choking[:3])))}'
                f'{more}: every pose is more than {self.config.max_age_s:g} s old '
                '(stamps.max_age_s) when it is to go out; look whether this computer or the '
                'network is overloaded'))
        if self.backlog.thinning and self.backlog.look(0, now_ns):    # nothing comes any more
            self._follow_backlog()
        if now_ns - self._taken_ns < _CATCHING_UP_NS:
            now_ns -= self._behind_ns
        bodies = [channel.truth for channel in self.bodies]
        for truth in bodies:
            truth.tick(now_ns)
            if truth.events:
                self._note_changes(truth)
        exchange.review(bodies)
        self._report_bodies()
        event = self._coarse.take_event()
        if event is not None:
            self._notice(*event)

    def to_match(self, now_ns: int) -> Optional[tuple[Selection, list[str], list[str]]]:
        """
        Give what ``selection.unmatched`` takes, once, some seconds after the first body.

        Only the question comes from here: the answer takes long enough for a pose to notice.

        :param now_ns: the present on the arrival clock.
        :returns: None until then, and where not every name has been kept.
        """
        if self._asked or not self.channels:
            return None
        if self._seen_from_ns is None:
            self._seen_from_ns = now_ns
        if now_ns - self._seen_from_ns < _ALL_SEEN_NS:
            return None
        self._asked = True
        config = self.config
        asked = config.selection, [*config.titles, *config.overrides, *config.estimates]
        if asked == self._last_asked or self.refused_bodies or (
                len(self.channels) - self._wanted >= _MOST_IGNORED):
            return None
        self._last_asked = asked
        return (*asked, [body_name(*key) for key in self.channels])

    @property
    def dropped(self) -> dict[str, int]:
        """Poses that were not published, by reason, over all bodies."""
        counts = {'too_old': 0, 'left_out': 0, 'stamp_not_rising': 0, 'backlog': self.backlogged}
        for channel in self.bodies:
            counts['too_old'] += channel.too_old
            counts['left_out'] += channel.left_out
            counts['stamp_not_rising'] += channel.not_rising + channel.outdone
            for reason, count in channel.truth.status(0).withheld.items():
                counts[reason] = counts.get(reason, 0) + count
        if self.refused_bodies:
            counts['more_than_bodies_max'] = self.refused_bodies
        return counts

    def take_notices(self) -> list[UserEvent]:
        """Fetch what people should read, oldest first."""
        notices, self.notices = self.notices, []
        return notices

    def take_state_changes(self) -> list[StateChange]:
        """Fetch the bodies' changes of state, oldest first."""
        changes, self.state_changes = self.state_changes, []
        return changes

    def reconfigure(self, config: PipelineConfig) -> None:
        """
        Take new thresholds, lists and estimates without losing a body.

        Bodies that are wanted no longer are forgotten; those wanted now appear with their next
        pose. A body's estimate begins anew where its settings change.

        :param config: ``body``, ``overrides``, ``selection``, ``estimate``, ``estimates`` and
            ``keep_up`` are taken from it; all else stays as it is.
        :raises ConfigurationError: if an override is wrong; nothing has changed then.
        """
        self._asked, self._seen_from_ns = False, None
        if config.keep_up != self.config.keep_up:
            self.backlog = Backlog()
        names = [channel.names.motive for channel in self.bodies]
        thresholds = {name: config.thresholds(name) for name in names}
        estimates = {name: config.estimate_of(name) for name in names}
        self.config = replace(
            self.config, body=config.body, overrides=config.overrides,
            selection=config.selection, estimate=config.estimate, estimates=config.estimates,
            keep_up=config.keep_up)
        for key, channel in list(self.channels.items()):
            if channel is None:
                del self.channels[key]
                continue
            if not config.selection.wanted(channel.names.motive):
                del self.channels[key]
                self._coarse.forget(channel)
                self._wanted -= 1
                continue
            channel.truth.reconfigure(thresholds[channel.names.motive])
            if estimates[channel.names.motive] != channel.estimator.config:
                channel.estimator = Estimator(estimates[channel.names.motive])
                channel.last_sender_ns = -1    # what it knows of the latest pose is gone

    # -- the rarer paths -----------------------------------------------------------------------

    def _discover(self, sender: str, sensor: int) -> Optional[Channel]:
        if sender == CONTROL_SENDER:
            return None
        name = body_name(sender, sensor)
        why_not = self.config.selection.why_not(name)
        if why_not:
            self._ignore(sender, sensor, printable(name), why_not)
            return None
        if self._wanted >= self.config.max_bodies:
            self.refused_bodies += 1
            if self.refused_bodies == 1:
                self._notice('error', 'too many bodies', (
                    f'the server sends more bodies than {self.config.max_bodies}, the most that '
                    'are followed; the others are ignored'))
            return None
        shown = printable(name)
        names = self._names.assign(name, *self.config.titles_of(name))
        truth = Body(name, self.config.thresholds(name))
        truth.rival = self._rival
        channel = Channel(names, truth, Estimator(self.config.estimate_of(name)))
        self._discovered(channel)
        self._notice('info', ('new body', name), (
            f'new body {shown!r} is {names.ros} in ROS: topic {names.topics["pose"]}, '
            f'frame {names.frames["body"]}'))
        if names.clash is not None:
            self._notice('warn', ('name taken', name), (
                f'body {shown!r} is called {names.ros!r}, since its plain ROS name belongs '
                f'to {printable(names.clash)!r}; rename one of the two'))
        self.channels[sender, sensor] = channel
        self._wanted += 1
        return channel

    def _ignore(self, sender: str, sensor: int, shown: str, why_not: str) -> None:
        """Note that a body is not wanted, as long as there is room for more names."""
        room = _MOST_IGNORED - (len(self.channels) - self._wanted)
        if room <= 0:
            return
        self._notice('info', ('ignored', shown), f'body {shown!r} is ignored: {why_not}')
        if room == 1:
            self._notice('warn', 'ignored', (
                f'{_MOST_IGNORED} bodies are ignored; what becomes of more is not told'))
        self.channels[sender, sensor] = None

    def _untracked(
        self, channel: Channel, stamp_ns: int, position: Vector, quat_xyzw: Quaternion,
    ) -> list[Sample]:
        """
        Make a sample of a pose that is not believed; no estimate may learn from it.

        Its stamp is its own, and must rise like all: good poses of a low-pass that takes its
        delay off are behind it, and wait until they have caught up.
        """
        channel.untracked += 1
        if stamp_ns <= channel.last_stamp_ns:
            channel.not_rising += 1
            return []
        channel.last_stamp_ns = stamp_ns
        channel.last_sender_ns = -1
        return [Sample(channel, stamp_ns, *channel.estimator.place(
            self._maps.position_to_enu(position), self._maps.quat_to_enu(quat_xyzw)), None)]

    def _follow_clock(self) -> None:
        for event in self.stamps.events():
            ended = event.kind == 'epoch_ended'
            self._notice('warn' if ended else 'info', ('clock', event.text),
                         f'clock: {event.text}', event)
            if ended:
                self._coarse.reset()
                for channel in self.bodies:
                    channel.newest_ns = -1
                # The interval across the step is none that a velocity may be made of.
                for channel in self.bodies:
                    channel.estimator.new_epoch()
            stepped = event.reason == HOST_STEPPED
            if stepped if self._arrival_mode else event.fell:
                # What bodies are judged by fell. Times ahead of the last need no word: a body
                # unseen for long is acquired anew.
                for channel in self.bodies:
                    channel.truth.new_epoch()
            if stepped or (event.fell and self._sender_mode):
                # Stamps before and after a step of their own clock have no order.
                for channel in self.bodies:
                    channel.last_stamp_ns = 0

    def _follow_backlog(self) -> None:
        backlog = self.backlog
        if not self.config.keep_up:
            return
        if backlog.thinning:
            self._notice('warn', 'load', (
                f'this computer does not keep up: for {PATIENCE_NS / _NS:g} s every pose has '
                f'waited more than {STANDING_NS / 1e6:g} ms until it was read. From now on whole '
                'frames are left out as needed, so that the others are fresh (load_shedding); '
                'fewer bodies (bodies.allow), fewer topics or a lower rate would help'))
        else:
            self._notice('info', 'load over', (
                f'this computer keeps up again; {self.dropped["left_out"]} poses have been left '
                'out so far'))

    def _admitted(
        self, gate: FreshnessGate, events: Sequence[Event], arrival_ns: int,
    ) -> Sequence[Event]:
        """Leave out the poses that arrive before the frames of the conversation are live."""
        kept: list[Event] = []
        for event in events:
            if isinstance(event, PoseReport) and event.sender != CONTROL_SENDER and (
                    not gate.admits(event.sender_time_ns, arrival_ns)):
                self.backlogged += 1
                if (event.sender, event.sensor) not in self.channels:
                    self._discover(event.sender, event.sensor)    # its topics can be made already
            else:
                kept.append(event)
        if gate.is_open:
            self._gate = None
            if gate.withheld:
                self._notice('info', 'backlog at the beginning', (
                    f'the connection began with a backlog of {gate.withheld} poses, up to '
                    f'{gate.fallen_ns / 1e9:.2f} s old: none of them is published'))
        return kept

    def _newest_poses(self, events: Sequence[Event]) -> list[Event]:
        """
        Leave out all but the newest pose of each body.

        What arrives as one has one stamp where arrivals give it, and one pose can have it.
        """
        newest = {(event.sender, event.sensor): event for event in events
                  if isinstance(event, PoseReport)}
        kept: list[Event] = []
        for event in events:
            if isinstance(event, PoseReport):
                key = event.sender, event.sensor
                if event is not newest[key]:
                    channel = self.channels[key] if key in self.channels else (
                        self._discover(*key))
                    if channel is not None:
                        channel.outdone += 1
                    continue
            kept.append(event)
        return kept

    def _rival(
        self, truth: Body, now: int, position: Vector, quat_xyzw: Quaternion,
    ) -> Optional[Rival]:
        return exchange.rival(
            truth, [channel.truth for channel in self.bodies], now, position, quat_xyzw)

    def _note_changes(self, truth: Body) -> list[StateChange]:
        changes = truth.take_events()
        self.state_changes += changes
        self._unreported += changes
        return changes

    def _report_bodies(self) -> None:
        """Report the bodies' changes of state, and what only the user can end."""
        changes, self._unreported = self._unreported, []
        for event in self._change_log.take(
                changes, (channel.truth.state for channel in self.bodies)):
            self._notice(*event)
        for channel in self.bodies:
            held = channel.truth.held
            if not held:
                channel.held_reported = False
            elif not channel.held_reported and channel.truth.jumped_s >= _HELD_S:
                channel.held_reported = True
                self._notice('warn', ('held', channel.names.motive), (
                    f'body {printable(channel.names.motive)!r} is JUMPED for {_HELD_S:g} s and '
                    f'stays so: {held}. {how_to_accept(channel)}'))

    def _follow_truth(self, truth: Body) -> None:
        changes = self._note_changes(truth)
        if any(change.after.value == 'JUMPED' for change in changes):
            exchange.review([channel.truth for channel in self.bodies])

    def _take_markers(
        self, report: MarkersReport, stamp_ns: Optional[int], oldest_ns: int,
    ) -> None:
        """Keep the markers of a frame, unless they are too old to be shown as fresh."""
        if stamp_ns is not None and oldest_ns <= stamp_ns < _LATEST_STAMP_NS:
            self.markers = marker_cloud(
                report, stamp_ns, self._maps.position_to_enu,
                self.config.estimate.world_from_mocap)

    def _take_other(self, event: Union[Event, EchoReport]) -> None:
        if isinstance(event, EchoReport):
            self.stamps.echo(*event)
        elif isinstance(event, TextReport):
            if len(self.notices) >= _MOST_NOTICES:
                return    # a flood must not cost what cleaning its texts does
            severity = {TEXT_WARNING: 'warn', TEXT_ERROR: 'error'}.get(event.severity, 'info')
            text = (f'the server says for {printable(event.sender)!r}: '
                    f'{printable(event.text, 300)}')
            self._notice(severity, text, text)
        elif self.config.server_motion and isinstance(
                event, (VelocityReport, AccelerationReport)):
            self._take_motion(event)

    def _take_motion(self, event: Union[VelocityReport, AccelerationReport]) -> None:
        """
        Keep a motion that belongs to the pose before it; one without a good pose is no news.

        Server velocities come in the tracker's world, and so does the rotation over dt, which
        turns the attitude from the left. They are those of the rigid body; its base is on an arm.
        """
        channel = self.channels.get((event.sender, event.sensor))
        if (channel is None or channel.last_sender_ns != event.sender_time_ns
                or channel.truth.state is not State.TRACKED):
            return
        estimator = channel.estimator
        placed = (channel.last_stamp_ns, channel.last_position, channel.last_quat)
        if not estimator.idle:
            placed = estimator.placed
        stamp_ns, _, quat = placed
        is_velocity = isinstance(event, VelocityReport)
        vector, quat_xyzw, dt = event[3:]
        turn = self.config.estimate.world_from_mocap.quat_xyzw
        linear = rotate(turn, self._maps.position_to_enu(vector))
        angular = angular_rate(quat_xyzw, dt)
        if stamp_ns == channel.moved_ns[is_velocity]:
            return
        if angular is None:
            # Messages cannot say that half of them is unknown, and zero would be believed.
            self._tell_once(channel, (
                'a velocity without an angular rate (a rotation over no time): neither twist '
                'nor odometry is published' if is_velocity else
                'an acceleration without an angular one (a rotation over no time): none is '
                'published'))
            return
        angular = rotate(turn, self._maps.position_to_enu(angular))
        if any(estimator.lever):
            arm = rotate(quat, estimator.lever)
            if is_velocity:
                linear = velocity_at(arm, linear, angular)
            elif stamp_ns == channel.moved_ns[True]:
                linear = acceleration_at(arm, linear, channel.moved_rate, angular)
            else:
                self._tell_once(channel, (
                    'an acceleration, but no velocity before it: that of the base, which is '
                    'away from the body, cannot be known and is not published'))
                return
        if not all(map(math.isfinite, linear + angular)):
            return
        channel.moved_ns[is_velocity] = stamp_ns
        if is_velocity:
            channel.moved_rate = angular
        self.server_motions.append(
            ServerMotion(channel, *placed, is_velocity, linear, angular))

    def _tell_once(self, channel: Channel, what: str) -> None:
        """Say what the server sends of a body, unless that has been said."""
        if what not in channel.told:
            channel.told.add(what)
            self._notice(
                'warn', ('server motion', channel.names.motive, what),
                f'for body {printable(channel.names.motive)!r} the server sends {what}')

    def _notice(self, severity: str, key: Hashable, text: str, data: Any = None) -> None:
        if len(self.notices) < _MOST_NOTICES:
            self.notices.append(UserEvent(severity, key, text, data))
