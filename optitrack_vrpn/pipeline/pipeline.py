# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert events to poses for publication: the stages between the wire and the publishers.

``Pipeline.process`` reads from top to bottom: body, stamp, age, time, validity gate, load
shedding, axes, estimate, order. ``node/hot_path.py`` contains the stages from there to
``publish()``. Each pose that does not become a sample gets one ``Disposition``, which its channel
counts. Samples are in ENU; ``frames.enu_to_ned`` converts them to NED if that is published.

This module does not log: ``events`` collects the events for the user.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final, Optional, Union

from optitrack_vrpn.bodies import swap
from optitrack_vrpn.bodies.change_log import ChangeLog
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.jumps import SwapCandidate
from optitrack_vrpn.bodies.selection import Selection
from optitrack_vrpn.bodies.states import State, StateChange
from optitrack_vrpn.bodies.track import Seen
from optitrack_vrpn.bodies.validity import ValidityGate
from optitrack_vrpn.clock import StampSource
from optitrack_vrpn.clock.types import HOST_STEPPED
from optitrack_vrpn.events import Event as UserEvent
from optitrack_vrpn.motion.frames import (
    frame_maps, position_to_enu_north, quat_to_enu_north)
from optitrack_vrpn.motion.stamp_error import with_stamp_error
from optitrack_vrpn.names import printable
from optitrack_vrpn.natnet.reports import (
    EchoReport, FrameReport, MarkersReport, RigidBodyReport)
from optitrack_vrpn.pipeline.channel import Channel, how_to_accept, Sample, ServerMotion
from optitrack_vrpn.pipeline.coarse_clock import COARSE_NS, CoarseClock, Placed
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.freshness import FreshnessGate
from optitrack_vrpn.pipeline.load_shedding import LoadShedder, PATIENCE_NS, STANDING_NS
from optitrack_vrpn.pipeline.markers import marker_cloud, MarkerCloud
from optitrack_vrpn.pipeline.roster import Roster
from optitrack_vrpn.pipeline.server_motion import server_motion
from optitrack_vrpn.units import NS_PER_S
from optitrack_vrpn.vrpn.constants import CONTROL_SENDER, TEXT_ERROR, TEXT_WARNING
from optitrack_vrpn.vrpn.messages import (
    AccelerationReport, Event, PoseReport, Quaternion, TextReport, Vector, VelocityReport)

_new = tuple.__new__
#: A jump that only the user can end is reported after this time (s). Chosen: the default of
#: jump_accept_s. Halved, flips that end by themselves are reported; doubled, the user waits longer
#: for the remedy.
_HELD_S = 2.0
#: Maximum number of events that are kept until they are taken, as a limit for hostile servers.
#: Chosen: two events for each of 128 new bodies. Halved, fewer new bodies are reported; doubled, a
#: hostile server writes twice as many lines.
_MOST_EVENTS = 256
#: After this time (ns) without VRPN events no event is waiting to be read. Chosen: 2.5 periods of
#: the ticker. Halved, silence of a body may be reported while its poses wait; doubled, it is
#: reported later.
_CATCHING_UP_NS: Final = 250_000_000
#: Limit of builtin_interfaces/Time (ns): seconds are signed 32-bit integers.
_LATEST_STAMP_NS: Final = (1 << 31) * NS_PER_S
#: A limit (ns) that no age reaches.
_ANY_AGE_NS = 1 << 63


class Pipeline:
    """
    Convert the events of one server to samples.

    :param config: the settings.
    :param discovered: called with each new channel, before its first sample.
    :ivar events: events for the user, until ``take_events``.
    :ivar server_motions: motions of the last call of ``process``, to be published after its
        samples.
    :ivar shedder: monitors whether this computer keeps up.
    :ivar markers: labelled markers of the last call of ``process``; None if there were none.
    :ivar ptp_minus_stamp_ns: PTP time of the latest frame minus its stamp (ns); None if the server
        sends no PTP time.
    :ivar max_age_ns: largest difference between the present and a stamp at publication (ns),
        including the ``latency_ms`` that the stamps subtract; without a limit, larger than any
        age.
    """

    def __init__(
        self, config: PipelineConfig,
        discovered: Callable[[Channel], None] = lambda channel: None,
    ) -> None:
        self.config = config
        self.stamps = StampSource(config.stamps)
        self._stamp_error = config.stamps.in_covariance
        self.shedder = LoadShedder()
        self.events: list[UserEvent] = []
        self.state_changes: list[StateChange] = []
        self.server_motions: list[ServerMotion] = []
        self._roster = Roster(config, self._report)
        self._coarse = CoarseClock(self.stamps)
        # From the beginning of a connection until its frames are live. None in mode ``sender``,
        # whose stamps are correct for a backlog too.
        self._freshness: Optional[FreshnessGate] = None
        self._unreported: list[StateChange] = []
        self._change_log = ChangeLog()
        self._maps = frame_maps(config.axes)
        self._usual_axes = self._maps.quat_to_enu is quat_to_enu_north
        self._discovered = discovered
        self._arrival_mode = config.stamps.mode == 'arrival'
        self._sender_mode = config.stamps.mode == 'sender'
        # The sender's clock cannot be compared with the host's clock.
        self.max_age_ns = _ANY_AGE_NS if self._sender_mode or not config.max_age_s else round(
            config.max_age_s * NS_PER_S + config.stamps.latency_ms * 1e6)
        self.markers: Optional[MarkerCloud] = None
        self.ptp_minus_stamp_ns: Optional[int] = None
        # Time of the last call of process, and its delay after the arrival of the events.
        self._taken_ns = -_CATCHING_UP_NS
        self._behind_ns = 0

    # -- the hot path --------------------------------------------------------------------------

    def process(
        self, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
        now_ns: Optional[int] = None,
    ) -> list[Sample]:
        """
        Process events that arrived together.

        :param events: events of VRPN (``vrpn.messages``) or NatNet (``natnet.reports``).
        :param arrival_ns: their arrival on the arrival clock (ns).
        :param host_minus_arrival_ns: host clock minus arrival clock at that time (ns).
        :param now_ns: present time on the arrival clock (ns), from which ages are computed; by
            default the arrival. Events can wait in the kernel between arrival and this call.
        :returns: the samples to be published, in order; ``server_motions`` belong to them.
        """
        samples: list[Sample] = []
        self.markers = None
        if self.server_motions:
            self.server_motions = []
        position_to_enu, quat_to_enu = self._maps
        usual_axes = self._usual_axes
        arrival_mode = self._arrival_mode
        channels = self._roster.channels
        stamps = self.stamps
        stamp_of = stamps.stamp
        if self._freshness is not None:
            events = self._admitted(self._freshness, events, arrival_ns)
        if arrival_mode and len(events) > 1:
            events = self._newest_poses(events)
        if now_ns is None:
            now_ns = arrival_ns
        self._taken_ns = now_ns
        self._behind_ns = now_ns - arrival_ns
        shedder = self.shedder
        if shedder.look(self._behind_ns, now_ns):
            self._report_load()
        shedding = shedder.shedding and self.config.keep_up
        oldest_ns = now_ns + host_minus_arrival_ns - self.max_age_ns
        processing_ns = ptp_ns = 0
        refused = None
        for event in events:
            # Report: of VRPN or NatNet.
            kind = event.__class__
            if kind is PoseReport:
                sender, sensor, sender_time_ns, position, quat_xyzw = event
            elif kind is RigidBodyReport:
                sender, sensor, sender_time_ns, position, quat_xyzw, valid, mean_error = event
                refused = None if valid else Disposition.NOT_TRACKED
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
            # Body: None for a name that is ignored.
            try:
                channel = channels[sender, sensor]
            except KeyError:
                channel = self._discover(sender, sensor)
            if channel is None:
                continue
            # Stamp: on the host's clock.
            stamp_ns = stamp_of(
                sender_time_ns, arrival_ns, host_minus_arrival_ns, processing_ns)
            if stamps.pending_events:
                self._follow_clock()
            if stamp_ns is None or stamp_ns >= _LATEST_STAMP_NS:
                channel.dropped[Disposition.UNSTAMPED] += 1
                continue
            if ptp_ns:
                self.ptp_minus_stamp_ns = ptp_ns - stamp_ns
            # Age: from the stamp.
            if stamp_ns < oldest_ns:
                channel.dropped[Disposition.TOO_OLD] += 1
                continue
            # Time: the gate computes motion from it. If the stamps are arrival times, no sender
            # time is used.
            time_ns = stamp_ns if arrival_mode else sender_time_ns
            if time_ns > channel.newest_ns:
                channel.newest_ns = time_ns
            else:
                time_ns, stamp_ns = self._coarse.place(
                    channel, Placed(time_ns, stamp_ns), event, arrival_ns,
                    arrival_ns + host_minus_arrival_ns)
                if arrival_mode:
                    time_ns = stamp_ns
            # Validity: None for a pose that is withheld.
            gate = channel.gate
            if kind is RigidBodyReport and refused is None and (
                    gate.config.max_mean_error > 0.0
                    and not mean_error <= gate.config.max_mean_error):    # nor NaN
                refused = Disposition.MEAN_ERROR
            if refused is None:
                quat = gate.update(time_ns, arrival_ns, position, quat_xyzw)
            else:
                quat = None
                gate.refuse(time_ns, arrival_ns, position, quat_xyzw, refused)
            if gate.changes:
                self._follow_gate(gate)
            # Load: leave out whole frames while this computer cannot keep up.
            shed = shedding and shedder.sheds(channel)
            if quat is None:
                self._withhold(channel, stamp_ns, position, quat_xyzw, shed, samples)
                continue
            # Axes: from Motive's to ENU.
            if usual_axes:
                # When compiled, a call by name creates no objects.
                position = position_to_enu_north(position)
                quat = quat_to_enu_north(quat)
            else:
                position = position_to_enu(position)
                quat = quat_to_enu(quat)
            # Estimate: offsets, low-pass, motion.
            estimator = channel.estimator
            motion = None
            if shed:
                self._shed(channel, stamp_ns, position, quat)
                continue
            if not estimator.idle:
                stamp_ns, position, quat = estimator.update(
                    stamp_ns, position, quat, gate.rate_hz, gate.resets + gate.time_falls)
                if channel.wants_motion:
                    motion = estimator.motion_estimate()
                    if motion is not None and self._stamp_error:
                        deviation_s = 0.5 * stamps.uncertainty_s()
                        if deviation_s == deviation_s:
                            motion = with_stamp_error(motion, deviation_s)
            # Order: stamps of one body rise.
            if stamp_ns <= channel.last_stamp_ns and not (
                    stamp_ns == channel.last_stamp_ns and channel.newest_ns == COARSE_NS):
                # Several frames that arrived together before their clock was known, a clock model
                # that restarted, or a low-pass that has just begun to subtract its delay.
                channel.dropped[Disposition.STAMP_NOT_RISING] += 1
                channel.last_sender_ns = -1
                continue
            channel.last_sender_ns = sender_time_ns
            channel.last_stamp_ns = stamp_ns
            channel.last_position = position
            channel.last_quat = quat
            # Equivalent to Sample(...), without its Python-level __new__.
            samples.append(_new(Sample, (channel, stamp_ns, position, quat, motion)))
        return samples

    # -- rarer stages --------------------------------------------------------------------------

    def _channel_of(self, event: PoseReport) -> Optional[Channel]:
        key = event.sender, event.sensor
        channels = self._roster.channels
        return channels[key] if key in channels else self._discover(*key)

    def _discover(self, sender: str, sensor: int) -> Optional[Channel]:
        channel = self._roster.discover(sender, sensor)
        if channel is not None:
            channel.gate.find_swap = self._find_swap
            self._discovered(channel)
        return channel

    def _admitted(
        self, freshness: FreshnessGate, events: Sequence[Any], arrival_ns: int,
    ) -> Sequence[Any]:
        """Remove the poses that arrive before the frames of the connection are live."""
        if events and events[0].__class__ is FrameReport:
            # NatNet: the socket was just opened, so there is no backlog, and round trips measure
            # the age of each frame.
            self._freshness = None
            return events
        kept: list[Event] = []
        for event in events:
            if not isinstance(event, PoseReport) or event.sender == CONTROL_SENDER or (
                    freshness.admits(event.sender_time_ns, arrival_ns)):
                kept.append(event)
                continue
            channel = self._channel_of(event)    # so that its topics are created already
            if channel is not None:
                channel.dropped[Disposition.BACKLOG] += 1
        if freshness.is_open:
            self._freshness = None
            if freshness.withheld:
                self._report('info', 'backlog at the beginning', (
                    f'the connection began with a backlog of {freshness.withheld} poses, up to '
                    f'{freshness.fallen_ns / 1e9:.2f} s old: none of them is published'))
        return kept

    def _newest_poses(self, events: Sequence[Event]) -> list[Event]:
        """
        Remove all but the newest pose of each body.

        In mode ``arrival``, events that arrive together have one stamp, and only one pose of a
        body can have it.
        """
        newest = {(event.sender, event.sensor): event for event in events
                  if isinstance(event, PoseReport)}
        kept: list[Event] = []
        for event in events:
            if isinstance(event, PoseReport):
                key = event.sender, event.sensor
                if event is not newest[key]:
                    channel = self._channel_of(event)
                    if channel is not None:
                        channel.dropped[Disposition.SUPERSEDED] += 1
                    continue
            kept.append(event)
        return kept

    def _withhold(
        self, channel: Channel, stamp_ns: int, position: Vector, quat_xyzw: Quaternion,
        shed: bool, samples: list[Sample],
    ) -> None:
        """
        Count a pose that the gate withheld, or make a sample of it.

        It becomes a sample if ``publish_untracked`` is set. Estimates do not use it. Its stamp
        must rise too: stamps of valid poses from which a low-pass subtracts its delay are older,
        so such poses are dropped until their stamp is later.
        """
        gate = channel.gate
        quat = None
        if gate.config.publish_untracked and not shed:
            quat = gate.untracked(position, quat_xyzw)
        if quat is None:
            channel.dropped[gate.reason] += 1
        elif stamp_ns <= channel.last_stamp_ns:
            channel.dropped[Disposition.STAMP_NOT_RISING] += 1
        else:
            channel.last_stamp_ns = stamp_ns
            channel.last_sender_ns = -1
            samples.append(Sample(channel, stamp_ns, *channel.estimator.place(
                self._maps.position_to_enu(position), self._maps.quat_to_enu(quat)), None))

    def _shed(
        self, channel: Channel, stamp_ns: int, position: Vector, quat: Quaternion,
    ) -> None:
        """Count a valid pose that is left out; only a low-pass uses it, the others accept gaps."""
        channel.dropped[Disposition.SHED] += 1
        channel.last_sender_ns = -1
        if channel.estimator.lowpass is not None:
            gate = channel.gate
            channel.estimator.update(
                stamp_ns, position, quat, gate.rate_hz, gate.resets + gate.time_falls)

    def _follow_clock(self) -> None:
        """Report the events of the clocks, and reset state that is invalid after them."""
        for event in self.stamps.events():
            change = event.data
            ended = change.kind == 'epoch_ended'
            self._report(event.severity, event.key, f'clock: {event.text}', change)
            if ended:
                self._coarse.reset()
            stepped = change.reason == HOST_STEPPED
            for channel in self.bodies:
                if ended:
                    channel.newest_ns = -1
                    # The interval across the step gives no velocity.
                    channel.estimator.new_epoch()
                if stepped if self._arrival_mode else change.fell:
                    # The times that the gate compares have fallen. If they rise instead, the gate
                    # sees a gap and acquires the body again.
                    channel.gate.restart()
                if stepped or (change.fell and self._sender_mode):
                    # Stamps before and after a step of their clock cannot be ordered.
                    channel.last_stamp_ns = 0

    def _follow_gate(self, gate: ValidityGate) -> None:
        """Collect changes of state; check for a swap after a jump."""
        changes = gate.take_changes()
        self.state_changes += changes
        self._unreported += changes
        if any(change.after is State.JUMPED for change in changes):
            swap.review([channel.gate for channel in self.bodies])

    def _find_swap(self, gate: ValidityGate, seen: Seen) -> Optional[SwapCandidate]:
        return swap.find_swap(gate, [channel.gate for channel in self.bodies], seen)

    def _take_markers(
        self, report: MarkersReport, stamp_ns: Optional[int], oldest_ns: int,
    ) -> None:
        """Keep the markers of a frame unless they are too old."""
        if stamp_ns is not None and oldest_ns <= stamp_ns < _LATEST_STAMP_NS:
            self.markers = marker_cloud(
                report, stamp_ns, self._maps.position_to_enu,
                self.config.estimate.world_from_mocap)

    def _take_other(self, event: Union[Event, EchoReport]) -> None:
        """Process an event that is not a pose."""
        if isinstance(event, EchoReport):
            self.stamps.echo(*event)
        elif isinstance(event, TextReport):
            if len(self.events) >= _MOST_EVENTS:
                return    # saves the conversion of the text
            severity = {TEXT_WARNING: 'warn', TEXT_ERROR: 'error'}.get(event.severity, 'info')
            text = (f'the server says for {printable(event.sender)!r}: '
                    f'{printable(event.text, 300)}')
            self._report(severity, text, text)
        elif self.config.server_motion and isinstance(
                event, (VelocityReport, AccelerationReport)):
            channel = self._roster.channels.get((event.sender, event.sensor))
            if channel is None:
                return
            motion = server_motion(
                channel, event, self._maps, self.config.estimate.world_from_mocap.quat_xyzw)
            if isinstance(motion, ServerMotion):
                self.server_motions.append(motion)
            elif motion is not None and motion not in channel.reported:
                channel.reported.add(motion)
                name = channel.names.motive
                self._report('warn', ('server motion', name, motion),
                             f'for body {printable(name)!r} the server sends {motion}')

    # -- between frames ------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """
        Detect silent bodies, and report; call it about ten times a second.

        While this process is late, recent poses of a body wait to be read: silence is measured up
        to the time of the events that are being read.

        :param now_ns: present time on the arrival clock (ns).
        """
        self._report_age(now_ns)
        if self.shedder.end(now_ns):    # even if no poses arrive
            self._report_load()
        if now_ns - self._taken_ns < _CATCHING_UP_NS:
            now_ns -= self._behind_ns
        gates = [channel.gate for channel in self.bodies]
        for gate in gates:
            gate.tick(now_ns)
            if gate.changes:
                self._follow_gate(gate)
        swap.review(gates)
        changes, self._unreported = self._unreported, []
        self.events += self._change_log.take(changes, (gate.state for gate in gates))
        self._report_held()
        event = self._coarse.take_event()
        if event is not None:
            self._report(*event)

    def reconnected(self) -> None:
        """
        Prepare for a new connection: the server may have been restarted.

        The clock model is kept if the next frame fits it, and restarts at once if not. The first
        frames may be a backlog: the clock model does not use them, and they are not published.
        """
        self.stamps.reconnected()
        if not self._sender_mode:
            self._freshness = FreshnessGate()

    def reconfigure(self, config: PipelineConfig) -> None:
        """
        Apply new thresholds, lists and estimate settings; the bodies keep their history.

        Bodies that are no longer selected are removed; newly selected bodies appear with their
        next pose. The estimate of a body restarts if its settings change.

        :param config: the new ``body``, ``overrides``, ``selection``, ``estimate``, ``estimates``
            and ``keep_up``; other fields are ignored.
        :raises ConfigurationError: if an override is wrong; then nothing has changed.
        """
        changed = replace(
            self.config, body=config.body, overrides=config.overrides,
            selection=config.selection, estimate=config.estimate, estimates=config.estimates,
            keep_up=config.keep_up)
        for channel in self._roster.reconfigure(changed):
            self._coarse.forget(channel)
        if changed.keep_up != self.config.keep_up:
            self.shedder = LoadShedder()
        self.config = changed

    # -- what others ask for -------------------------------------------------------------------

    @property
    def bodies(self) -> list[Channel]:
        """Return all selected bodies seen so far, in the order of their first poses."""
        return self._roster.bodies

    @property
    def channels(self) -> dict[tuple[str, int], Optional[Channel]]:
        """Return the channels by sender and sensor; None for a name that is ignored."""
        return self._roster.channels

    @property
    def refused_bodies(self) -> int:
        """Return the number of poses of bodies beyond ``max_bodies``."""
        return self._roster.refused

    def to_match(self, now_ns: int) -> Optional[tuple[Selection, list[str], list[str]]]:
        """Return the arguments of ``selection.unmatched`` once; see ``Roster.to_match``."""
        return self._roster.to_match(now_ns)

    @property
    def dropped(self) -> dict[str, int]:
        """Return the numbers of poses that were not published, by reason, over all bodies."""
        counts = dict.fromkeys((Disposition.TOO_OLD.value, Disposition.SHED.value,
                                Disposition.STAMP_NOT_RISING.value, Disposition.BACKLOG.value), 0)
        for channel in self.bodies:
            for reason, count in channel.dropped.items():
                counts[reason.value] = counts.get(reason.value, 0) + count
        if self.refused_bodies:
            counts['more_than_bodies_max'] = self.refused_bodies
        return counts

    def take_events(self) -> list[UserEvent]:
        """Return and clear the events for the user, oldest first."""
        events, self.events = self.events, []
        return events

    def take_state_changes(self) -> list[StateChange]:
        """Return and clear the bodies' changes of state, oldest first."""
        changes, self.state_changes = self.state_changes, []
        return changes

    # -- reports -------------------------------------------------------------------------------

    def _report(self, severity: str, key: Hashable, text: str, data: Any = None) -> None:
        if len(self.events) < _MOST_EVENTS:
            self.events.append(UserEvent(severity, key, text, data))

    def _report_age(self, now_ns: int) -> None:
        """Report bodies of which nothing is published because every pose is too old."""
        names = [channel.names.motive for channel in self.bodies
                 if channel.look_at_age(now_ns)]
        if names:
            more = f' and {len(names) - 3} more' if len(names) > 3 else ''
            self._report('warn', 'all too old', (
                f'no pose of {", ".join(map(repr, map(printable, names[:3])))}'
                f'{more} is published: each is more than {self.config.max_age_s:g} s old '
                '(stamps.max_age_s) before it can be published; check whether this computer or '
                'the network is overloaded'))

    def _report_held(self) -> None:
        """Report bodies with a jump that only the user can end."""
        for channel in self.bodies:
            held = channel.gate.held
            if not held:
                channel.held_reported = False
            elif not channel.held_reported and channel.gate.jumped_s >= _HELD_S:
                channel.held_reported = True
                name = channel.names.motive
                self._report('warn', ('held', name), (
                    f'body {printable(name)!r} is JUMPED for {_HELD_S:g} s and stays so: {held}. '
                    f'{how_to_accept(channel)}'))

    def _report_load(self) -> None:
        """Report that load shedding begins or ends."""
        if not self.config.keep_up:
            return
        if self.shedder.shedding:
            self._report('warn', 'load', (
                f'this computer cannot keep up: for {PATIENCE_NS / NS_PER_S:g} s every pose has '
                f'waited more than {STANDING_NS / 1e6:g} ms before it was read. From now on whole '
                'frames are left out as needed, so that the others are on time (load_shedding). '
                'Remedies: fewer bodies (bodies.allow), fewer topics or a lower rate'))
        else:
            self._report('info', 'load over', (
                f'this computer keeps up again; {self.dropped[Disposition.SHED.value]} poses '
                'have been left out so far'))
