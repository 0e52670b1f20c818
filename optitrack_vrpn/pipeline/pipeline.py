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

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Optional, Union

from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.states import StateChange
from optitrack_vrpn.clock import StampSource
from optitrack_vrpn.clock.types import HOST_STEPPED, UNUSABLE
from optitrack_vrpn.events import Event as UserEvent
from optitrack_vrpn.motion.frames import (
    frame_maps, position_to_enu_north, quat_to_enu_north)
from optitrack_vrpn.motion.stamp_error import with_stamp_error
from optitrack_vrpn.natnet.reports import (
    EchoReport, FrameReport, MarkersReport, RigidBodyReport)
from optitrack_vrpn.pipeline.channel import Channel, Sample, ServerMotion
from optitrack_vrpn.pipeline.coarse_clock import COARSE_NS, CoarseClock, Placed
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.freshness import divide_newest, FreshnessGate, LeastDelay
from optitrack_vrpn.pipeline.load_shedding import LoadShedder
from optitrack_vrpn.pipeline.markers import marker_cloud, MarkerCloud
from optitrack_vrpn.pipeline.reports import Reports
from optitrack_vrpn.pipeline.roster import Roster
from optitrack_vrpn.pipeline.server_motion import server_motion
from optitrack_vrpn.pipeline.state_monitor import StateMonitor
from optitrack_vrpn.units import NS_PER_S
from optitrack_vrpn.vrpn.messages import (
    AccelerationReport, Event, PoseReport, Quaternion, TextReport, Vector, VelocityReport)

_new: Final = tuple.__new__
#: After this time (ns) without VRPN events no event is waiting to be read. Chosen: 2.5 periods of
#: the ticker. Halved, silence of a body may be reported while its poses wait; doubled, it is
#: reported later.
_CATCHING_UP_NS: Final = 250_000_000
#: Limit of builtin_interfaces/Time (ns): seconds are signed 32-bit integers.
_LATEST_STAMP_NS: Final = (1 << 31) * NS_PER_S
#: A limit (ns) that no age reaches.
_ANY_AGE_NS: Final = 1 << 63


class Pipeline:
    """
    Convert the events of one server to samples.

    :param config: the settings.
    :param discovered: called with each new channel, before its first sample.
    :ivar roster: the bodies, by name.
    :ivar reports: events for the user.
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
        self.reports = Reports()
        self.server_motions: list[ServerMotion] = []
        self.roster = Roster(config, self.reports.add)
        self._states = StateMonitor(self.roster)
        self._coarse = CoarseClock(self.stamps)
        # From the beginning of a connection, or of a sender's clock after a stall, until frames
        # are live. None in mode ``sender``, whose stamps are correct for a backlog too.
        self._freshness: Optional[FreshnessGate] = None
        self._maps = frame_maps(config.axes)
        self._usual_axes = self._maps.quat_to_enu is quat_to_enu_north
        self._discovered = discovered
        self._arrival_mode = config.stamps.mode == 'arrival'
        self._sender_mode = config.stamps.mode == 'sender'
        # The sender's clock cannot be compared with the host's clock.
        self.max_age_ns = _ANY_AGE_NS if self._sender_mode or not config.max_age_s else round(
            config.max_age_s * NS_PER_S + config.stamps.latency_ms * 1e6)
        self._delay = self._new_delay()
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
        channels = self.roster.channels
        stamps = self.stamps
        if self._freshness is not None:
            events = self._admitted(self._freshness, events, arrival_ns)
        if arrival_mode and len(events) > 1:
            events, superseded = divide_newest(events)
            self._count(superseded, Disposition.SUPERSEDED)
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
        # Declared for mypyc, which then unpacks without an iterator.
        fields: tuple[Any, ...]
        for event in events:
            # Report: of VRPN or NatNet.
            kind = type(event)
            if kind is PoseReport:
                fields = event
                sender, sensor, sender_time_ns, position, quat_xyzw = fields
            elif kind is RigidBodyReport:
                fields = event
                (sender, sensor, sender_time_ns, position, quat_xyzw, valid,
                 mean_error) = fields
                refused = None if valid else Disposition.NOT_TRACKED
            elif kind is FrameReport:
                processing_ns, ptp_ns = event.processing_ns, event.ptp_ns
                if not ptp_ns:
                    self.ptp_minus_stamp_ns = None
                continue
            elif kind is MarkersReport:
                stamp_ns = stamps.stamp(
                    event.sender_time_ns, arrival_ns, host_minus_arrival_ns, processing_ns)
                if self._delay is None or not self._delay.is_too_old(
                        event.sender_time_ns, arrival_ns, now_ns):
                    self._take_markers(event, stamp_ns, oldest_ns)
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
            stamp_ns = stamps.stamp(
                sender_time_ns, arrival_ns, host_minus_arrival_ns, processing_ns)
            if stamps.pending_events:
                self._follow_clock(stamp_ns if arrival_mode else sender_time_ns, arrival_ns)
                if self._freshness is not None:
                    # What arrived with this pose may be as old.
                    oldest_ns = _LATEST_STAMP_NS
            if stamp_ns is None or stamp_ns >= _LATEST_STAMP_NS:
                channel.dropped[Disposition.UNSTAMPED] += 1
                continue
            if ptp_ns:
                self.ptp_minus_stamp_ns = ptp_ns - stamp_ns
            # Age: from the stamp, and from the delay if stamps can be arrivals.
            if stamp_ns < oldest_ns or (self._delay is not None and self._delay.is_too_old(
                    sender_time_ns, arrival_ns, now_ns)):
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
                self._states.follow(gate)
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
            frame_ns = stamp_ns
            if shed:
                self._shed(channel, stamp_ns, position, quat)
                continue
            if not estimator.idle:
                stamp_ns, position, quat = estimator.update(
                    stamp_ns, position, quat, gate.rate_hz, gate.resets + gate.steps_back)
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
            samples.append(_new(Sample, (
                channel, stamp_ns, frame_ns, position, quat, motion)))
        return samples

    # -- rarer stages --------------------------------------------------------------------------

    def _discover(self, sender: str, sensor: int) -> Optional[Channel]:
        channel = self.roster.discover(sender, sensor)
        if channel is not None:
            channel.gate.find_swap = self._states.find_swap
            self._discovered(channel)
        return channel

    def _admitted(
        self, freshness: FreshnessGate, events: Sequence[Any], arrival_ns: int,
    ) -> Sequence[Any]:
        """Remove the poses that arrive before the frames are live."""
        if events and events[0].__class__ is FrameReport:
            # NatNet: the socket was just opened, so there is no backlog, and round trips measure
            # the age of each frame.
            self._freshness = None
            return events
        kept, withheld = freshness.divide(events, arrival_ns)
        self._count(withheld, Disposition.BACKLOG)    # so that their topics are created already
        if freshness.is_open:
            self._freshness = None
            if freshness.withheld:
                self.reports.add('info', 'backlog', (
                    f'a backlog of {freshness.withheld} poses arrived, up to '
                    f'{freshness.fallen_ns / 1e6:.0f} ms old: none of them is published'))
        return kept

    def _count(self, poses: Sequence[PoseReport], disposition: Disposition) -> None:
        """Count poses that are not processed; they create channels as others do."""
        for pose in poses:
            key = pose.sender, pose.sensor
            channels = self.roster.channels
            channel = channels[key] if key in channels else self._discover(*key)
            if channel is not None:
                channel.dropped[disposition] += 1

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
        channel.last_sender_ns = -1
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
            samples.append(Sample(channel, stamp_ns, stamp_ns, *channel.estimator.place(
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
                stamp_ns, position, quat, gate.rate_hz, gate.resets + gate.steps_back)

    def _new_delay(self) -> Optional[LeastDelay]:
        """Begin to measure the age of frames that are stamped by arrival, if any can be."""
        by_arrival = self.config.stamps.mode in ('arrival', 'min_offset')
        limit_ns = round(self.config.max_age_s * NS_PER_S)
        return LeastDelay(limit_ns) if by_arrival and limit_ns else None

    def _follow_clock(self, time_ns: Optional[int], arrival_ns: int) -> None:
        """
        Report the events of the clocks, and reset state that is invalid after them.

        :param time_ns: time of the present pose for the gate (ns), None if it has no stamp.
        :param arrival_ns: its arrival (ns).
        """
        for event in self.stamps.events():
            change = event.data
            ended = change.kind == 'epoch_ended'
            self.reports.add(event.severity, event.key, f'clock: {event.text}', change)
            if ended:
                self._coarse.reset()
                self._delay = None if change.reason == UNUSABLE else self._new_delay()
                if not (change.dated or self._sender_mode):
                    self._freshness = FreshnessGate()
            stepped = change.reason == HOST_STEPPED
            for channel in self.bodies:
                if ended:
                    channel.newest_ns = -1
                    # The interval across the step gives no velocity.
                    channel.estimator.new_epoch()
                if time_ns is not None and (stepped if self._arrival_mode else change.fell):
                    # The times that the gate compares have fallen. If they rise instead, the gate
                    # sees a gap and acquires the body again.
                    channel.gate.restart(time_ns, arrival_ns)
                if stepped or (change.fell and self._sender_mode):
                    # Stamps before and after a step of their clock cannot be ordered.
                    channel.last_stamp_ns = 0

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
            self.reports.server_text(event)
        elif self.config.server_motion and isinstance(
                event, (VelocityReport, AccelerationReport)):
            channel = self.roster.channels.get((event.sender, event.sensor))
            if channel is None:
                return
            motion = server_motion(
                channel, event, self._maps, self.config.estimate.world_from_mocap.quat_xyzw)
            if isinstance(motion, ServerMotion):
                self.server_motions.append(motion)
            elif motion is not None:
                self.reports.incomplete_motion(channel, motion)

    # -- between frames ------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """
        Detect silent bodies, and report; call it about ten times a second.

        While this process is late, recent poses of a body wait to be read: silence is measured up
        to the time of the events that are being read.

        :param now_ns: present time on the arrival clock (ns).
        """
        self.reports.limit_texts(now_ns)
        self.reports.ages(self.bodies, now_ns, self.config.max_age_s)
        if self.shedder.end(now_ns):    # even if no poses arrive
            self._report_load()
        if now_ns - self._taken_ns < _CATCHING_UP_NS:
            now_ns -= self._behind_ns
        self.reports.events += self._states.tick(now_ns)
        self.reports.held_jumps(self.bodies)
        self.reports.withheld(self.withheld_since_connection)
        event = self._coarse.take_event()
        if event is not None:
            self.reports.add(*event)

    def reconnected(self) -> None:
        """
        Prepare for a new connection: the server may have been restarted.

        The clock model is kept if the next frame fits it, and restarts at once if not. The first
        frames may be a backlog: the clock model does not use them, and they are not published.
        """
        self.stamps.reconnected()
        self._delay = self._new_delay()
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
        for channel in self.roster.reconfigure(changed):
            self._coarse.forget(channel)
        if changed.keep_up != self.config.keep_up:
            self.shedder = LoadShedder()
        self.config = changed

    @property
    def withheld_since_connection(self) -> str:
        """Return why all poses of the connection have been withheld for long, or ''."""
        return '' if self._freshness is None else self._freshness.trouble

    @property
    def bodies(self) -> list[Channel]:
        """Return all selected bodies seen so far, in the order of their first poses."""
        return self.roster.bodies

    @property
    def dropped(self) -> dict[str, int]:
        """Return the numbers of poses that were not published, by reason, over all bodies."""
        return self.roster.dropped()

    def take_events(self) -> list[UserEvent]:
        """Return and clear the events for the user, oldest first."""
        return self.reports.take()

    def take_state_changes(self) -> list[StateChange]:
        """Return and clear the bodies' changes of state, oldest first."""
        return self._states.take_changes()

    def _report_load(self) -> None:
        """Report that load shedding begins or ends."""
        if self.config.keep_up:
            self.reports.load(self.shedder.shedding, self.dropped[Disposition.SHED.value])
