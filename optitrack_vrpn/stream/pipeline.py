# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert frames to poses for publication: the stages between the wire and the publishers.

``Pipeline.process`` reads from top to bottom: body, stamp, age, time, validity gate, load
shedding, axes, estimate, order. ``node/receiver.py`` contains the stages from there to
``publish()``. Each pose that does not become a sample gets one ``Disposition``, which its channel
counts. Samples are in ENU; ``frames.enu_to_ned`` converts them to NED if that is published.

This module does not log: ``events`` collects the events for the user.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, Optional

from optitrack_vrpn.core.axes import frame_maps, pose_to_enu_north
from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import (
    Body, Frame, Item, Motion, Quaternion, RoundTrip, ServerText, Vector)
from optitrack_vrpn.stream.batch import divide_newest, Processed
from optitrack_vrpn.stream.bodies.poses import continued
from optitrack_vrpn.stream.bodies.states import Disposition, StateChange
from optitrack_vrpn.stream.bodies.times import Epoch
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import ClockStatus
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.load_shedding import LoadShedder, PROMPT_NS
from optitrack_vrpn.stream.motion.estimator import MotionEstimate
from optitrack_vrpn.stream.reports import ServerTexts, StateMonitor, StreamReports
from optitrack_vrpn.stream.roster import (
    FrameTimes, Roster, Sample, ServerMotion, StampedExtras, TrackedBody)
from optitrack_vrpn.stream.server_data import (
    LatestFrame, marker_cloud, MarkerCloud, server_motion)
from optitrack_vrpn.stream.shared_names import SharedNames

_new: Final = tuple.__new__
_FRAME: Final = Frame    # read without a look-up in the compiled module
#: After this time (ns) without a frame no frame is waiting to be read. Chosen: 2.5 periods of
#: the ticker.
_CATCHING_UP_NS: Final = 250_000_000
#: Limit of builtin_interfaces/Time (ns): seconds are signed 32-bit integers.
_END_OF_TIME_NS: Final = (1 << 31) * NS_PER_S
#: A limit (ns) that no age reaches.
_ANY_AGE_NS: Final = 1 << 63


class Pipeline:
    """
    Convert the frames of one source to samples.

    :param config: the settings.
    :param discovered: called with each new channel, before its first sample.
    :ivar roster: the bodies, by name.
    :ivar reports: events for the user.
    :ivar texts: the last texts of the server.
    :ivar shedder: monitors whether this computer keeps up.
    :ivar ptp_minus_stamp_ns: PTP time of the latest frame minus its stamp (ns); None if the server
        sends no PTP time.
    :ivar max_age_ns: largest difference between the present and a stamp at publication (ns),
        including the ``latency_ms`` that the stamps subtract; without a limit, larger than any
        age.
    """

    def __init__(
        self, config: PipelineConfig,
        discovered: Callable[[TrackedBody], None] = lambda channel: None,
    ) -> None:
        self.config = config
        self.stamps = StampSource(config.stamps)
        self.shedder = LoadShedder()
        self.reports = StreamReports()
        self.texts = ServerTexts()
        self.roster = Roster(config, self.reports.add)
        self._states = StateMonitor(self.roster)
        self._shared_names = SharedNames()
        self._maps = frame_maps(config.axes)
        self._raw = config.axes.axes == 'raw'
        self._usual_axes = self._maps.to_enu is pose_to_enu_north
        self._discovered = discovered
        self._sender_mode = config.stamps.mode == 'sender'
        # Bodies of the present frame of a sender whose times are too coarse.
        self._in_frame: set[tuple[str, int]] = set()
        self.max_age_ns = _ANY_AGE_NS if not config.max_age_s else round(
            config.max_age_s * NS_PER_S + config.stamps.latency_ms * 1e6)
        # The begin of the sender's present clock, if it has restarted.
        self._epoch: Optional[Epoch] = None
        self._latest = LatestFrame()
        self.ptp_minus_stamp_ns: Optional[int] = None
        # Time of the last call of process, and its delay after the arrival of the events.
        self._taken_ns = -_CATCHING_UP_NS
        self._behind_ns = 0
        # Stamps before and after these times (ns) are not published in this call of process; why
        # the last frame has no stamp.
        self._oldest_ns = self._newest_ns = 0
        self._unstamped = Disposition.UNSTAMPED
        self._every = 1

    # -- the hot path --------------------------------------------------------------------------

    def process(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
        now_ns: Optional[int] = None,
    ) -> Processed:
        """
        Process frames, and what else a source delivers, that arrived together.

        :param arrival_ns: their arrival on the arrival clock (ns).
        :param host_minus_arrival_ns: host clock minus arrival clock at that time (ns).
        :param now_ns: present time on the arrival clock (ns), from which ages are computed; by
            default the arrival. Frames can wait in the kernel between arrival and this call.
        :returns: what is to be published.
        """
        samples: list[Sample] = []
        times: list[FrameTimes] = []
        motions: list[ServerMotion] = []
        cloud: Optional[MarkerCloud] = None
        extras: Optional[StampedExtras] = None
        stamps = self.stamps
        if stamps.by_arrival and len(items) > 1:
            items, superseded = divide_newest(items)
            self._count(superseded, Disposition.SUPERSEDED)
        if now_ns is None:
            now_ns = arrival_ns
        self._taken_ns = now_ns
        self._behind_ns = now_ns - arrival_ns
        shedder = self.shedder
        if self._behind_ns <= PROMPT_NS and not shedder.shedding and shedder.every == 1:
            shedder.idle_ns = now_ns
        else:
            shedder.update(self._behind_ns, now_ns)
        self._every = shedder.every if self.config.keep_up else 1
        shedding = shedder.shedding and self.config.keep_up
        self._oldest_ns = now_ns + host_minus_arrival_ns - self.max_age_ns
        self._newest_ns = now_ns + host_minus_arrival_ns + self.max_age_ns
        if self._behind_ns > self.max_age_ns:
            # It waited too long in this computer, for whatever reason: no clock needs to be asked.
            for item in items:
                if isinstance(item, Frame):
                    self._count(item.bodies, Disposition.TOO_OLD)
            items = ()
        # Declared for mypyc, which then unpacks without an iterator.
        fields: tuple[Any, ...]
        stamp_ns: Optional[int]
        for item in items:
            if type(item) is not _FRAME:
                self._take_other(item, motions)
                continue
            fields = item
            sender_time_ns, bodies, processing_ns, ptp_ns, markers, more, camera_ns = fields
            if not (bodies or markers or more is not None):
                continue
            # Stamp: once for all that the frame contains.
            stamp_ns = stamps.stamp(
                sender_time_ns, arrival_ns, host_minus_arrival_ns, processing_ns,
                stamps.coarse and self._begins(item))
            if stamps.changes:
                self._follow_clock(
                    stamp_ns if stamps.by_arrival else sender_time_ns, arrival_ns)
            if stamp_ns is None or stamp_ns >= _END_OF_TIME_NS:
                stamp_ns = None
                self._unstamped = Disposition(stamps.refusal)
            else:
                self.ptp_minus_stamp_ns = ptp_ns - stamp_ns if ptp_ns else None
                if processing_ns:
                    # Equivalent to FrameTimes(...), without its Python-level __new__.
                    times.append(_new(
                        FrameTimes, (stamp_ns, sender_time_ns, camera_ns, processing_ns)))
            if bodies:
                self._take_bodies(
                    bodies, sender_time_ns, stamp_ns, arrival_ns, stamps.times is not None and (
                        not processing_ns), shedding, samples)
            if (markers or more is not None) and stamp_ns is not None and (
                    self._oldest_ns <= stamp_ns - stamps.lag_ns
                    and stamp_ns <= self._newest_ns and self._latest.follow(stamp_ns)):
                if markers:
                    cloud = marker_cloud(markers, stamp_ns, self._maps.position_to_enu,
                                         self.config.estimate.world_from_mocap)
                if more is not None:
                    extras = StampedExtras(
                        stamp_ns, stamp_ns if stamps.by_arrival else sender_time_ns, more,
                        arrival_ns, self._epoch)
        return _new(Processed, (cloud, samples, times, motions, extras))

    def _take_bodies(
        self, bodies: Sequence[Body], sender_time_ns: int, frame_ns: Optional[int],
        arrival_ns: int, judging: bool, shedding: bool, samples: list[Sample],
    ) -> None:
        """
        Append the samples of the bodies of one frame.

        It is one loop, because a call takes longer than most of these stages.

        :param sender_time_ns: time of the frame on the sender's clock.
        :param frame_ns: its stamp; None without one.
        :param judging: whether its time is to be judged.
        """
        channels = self.roster.channels
        motion: Optional[MotionEstimate]
        position: Any
        quat: Any
        # Declared for mypyc, which then unpacks without an iterator.
        fields: tuple[Any, ...]
        stamps = self.stamps
        oldest_ns = self._oldest_ns
        for body in bodies:
            fields = body
            name, sensor, _, position, quat_xyzw, valid, mean_error = fields
            # Body: None for a name that is ignored.
            try:
                channel = channels[name, sensor]
            except KeyError:
                channel = self._discover(name, sensor)
            if channel is None:
                continue
            if judging:
                stamps.judge(
                    channel, position, sender_time_ns, arrival_ns, frame_ns is not None)
            if frame_ns is None:
                channel.dropped[self._unstamped] += 1
                channel.gate.hear(arrival_ns)
                continue
            # Time: the gate computes motion from it; the stamp if the stamps are arrival times.
            stamp_ns = frame_ns
            time_ns = stamp_ns if stamps.by_arrival else sender_time_ns
            if time_ns != channel.newest_ns:
                channel.newest_ns = time_ns
                if self._shared_names.evidence:
                    self._shared_names.begin_frame(channel)
            elif len(bodies) > 1:
                self._shared_names.repeated(channel, bodies, body)
            # Age: with the delay of arrivals.
            if stamp_ns - stamps.lag_ns < oldest_ns or stamp_ns > self._newest_ns:
                channel.dropped[Disposition.TOO_OLD] += 1
                continue
            # Validity: None for a pose that is withheld.
            gate = channel.gate
            if valid and mean_error == 0.0:
                quat = gate.update(time_ns, arrival_ns, position, quat_xyzw)
            else:
                quat = _validate_rated(gate, time_ns, arrival_ns, body)
            if gate.changes:
                self._states.follow(gate)
            # Load: leave out whole frames while this computer cannot keep up.
            shed = shedding and self.shedder.sheds(channel)
            if quat is None:
                channel.last_sender_ns = -1
                channel.dropped[gate.reason] += 1
                continue
            # Axes: from Motive's to ENU.
            if self._usual_axes:
                # When compiled, a call by name creates no objects.
                position, quat = pose_to_enu_north(position, quat)
            else:
                if self._raw and channel.estimator.idle:    # filters need continuous numbers
                    quat = continued(quat_xyzw, quat)    # with the sign as sent
                position, quat = self._maps.to_enu(position, quat)
            if shed:
                self._shed(channel, stamp_ns, position, quat)
                continue
            # Estimate: offsets, low-pass, motion.
            motion = None
            lean = False
            if self._every > 1 and channel.has_more:
                channel.turn_of_outputs += 1
                lean = channel.turn_of_outputs % self._every != 0
            if not channel.estimator.idle:
                if lean and channel.estimator.lowpass is None:
                    position, quat = channel.estimator.place(position, quat)
                else:
                    stamp_ns, position, quat, motion = self._estimate(
                        channel, stamp_ns, position, quat)
            # Order: stamps of one body rise.
            if stamp_ns <= channel.last_stamp_ns:
                # The host's clock was set back a little.
                channel.dropped[Disposition.STAMP_NOT_RISING] += 1
                channel.last_sender_ns = -1
                continue
            channel.last_sender_ns = sender_time_ns
            if lean:
                self.shedder.lean_poses += 1
                channel.last_sender_ns = -1    # no motion of the server belongs to it
            channel.last_stamp_ns = stamp_ns
            channel.last_position = position
            channel.last_quat = quat
            # Equivalent to Sample(...), without its Python-level __new__.
            samples.append(
                _new(Sample, (channel, stamp_ns, frame_ns, position, quat, motion, lean)))

    def _begins(self, frame: Frame) -> bool:
        """Return whether a body repeats, so that this is another frame, whatever its time."""
        bodies = {(body.name, body.sensor) for body in frame.bodies}
        begins = not bodies.isdisjoint(self._in_frame)
        self._in_frame = bodies if begins else self._in_frame | bodies
        return begins

    def _estimate(
        self, channel: TrackedBody, frame_ns: int, position: Any, quat: Any,
    ) -> tuple[int, Any, Any, Optional[MotionEstimate]]:
        """
        Filter a pose, and estimate motion from it.

        :param frame_ns: stamp (ns), as ``position`` and ``quat`` of the measured pose in ENU.
        :returns: stamp and pose of the base, and the estimate if it has a subscriber.
        """
        gate, estimator = channel.gate, channel.estimator
        stamp_ns, position, quat = estimator.update(
            frame_ns, position, quat, gate.rate_hz, gate.resets)
        motion = estimator.motion_estimate() if channel.wants_motion else None
        return stamp_ns, position, quat, motion

    # -- rarer stages --------------------------------------------------------------------------

    def _discover(self, sender: str, sensor: int) -> Optional[TrackedBody]:
        channel = self.roster.discover(sender, sensor)
        if channel is not None:
            channel.gate.compare_with(self._states.find_swap)
            self._discovered(channel)
        return channel

    def _count(self, bodies: Sequence[Body], disposition: Disposition) -> None:
        """Count poses that are not processed; they create channels as others do."""
        for body in bodies:
            key = body.name, body.sensor
            channels = self.roster.channels
            channel = channels[key] if key in channels else self._discover(*key)
            if channel is not None:
                channel.dropped[disposition] += 1

    def _shed(
        self, channel: TrackedBody, stamp_ns: int, position: Vector, quat: Quaternion,
    ) -> None:
        """Count a valid pose that is left out; only a low-pass uses it, the others accept gaps."""
        channel.dropped[Disposition.SHED] += 1
        channel.last_sender_ns = -1
        if channel.estimator.lowpass is not None:
            gate = channel.gate
            channel.estimator.update(
                stamp_ns, position, quat, gate.rate_hz, gate.resets)

    def _follow_clock(self, time_ns: Optional[int], arrival_ns: int) -> None:
        """
        Reset state that is invalid after changes of the clocks.

        :param time_ns: time of the present pose for the gate (ns), None if it has no stamp.
        :param arrival_ns: its arrival (ns).
        """
        changes = self.stamps.changes
        while changes:
            change = changes.popleft()
            if change.run_ended:
                self._shared_names.clear()
                self._in_frame.clear()
            epoch = None
            if time_ns is not None and (
                    change.moved_ns != 0 if self.stamps.by_arrival and not change.run_ended
                    else change.run_ended and change.fell):
                # The times that the trackers compare have fallen or moved. If they rise instead,
                # a tracker sees a gap and acquires the body again.
                epoch = self._epoch = Epoch(time_ns, arrival_ns)
            for channel in self.bodies:
                if change.run_ended:
                    channel.newest_ns = -1
                    channel.estimator.new_epoch()
                elif change.moved_ns:
                    channel.estimator.move_stamps(change.moved_ns)
                if epoch is not None:
                    channel.gate.restart(epoch)
                if change.fell and (self._sender_mode or not change.run_ended):
                    # Stamps before and after cannot be ordered.
                    channel.last_stamp_ns = 0

    def _take_other(self, item: Item, motions: list[ServerMotion]) -> None:
        """Process what is not a frame; append motions that belong to a sample."""
        if isinstance(item, RoundTrip):
            self.stamps.echo(*item)
        elif isinstance(item, ServerText):
            self.texts.add(item)
        elif self.config.server_motion and isinstance(item, Motion):
            channel = self.roster.channels.get((item.name, item.sensor))
            if channel is None:
                return
            motion = server_motion(
                channel, item, self._maps, self.config.estimate.world_from_mocap.quat_xyzw)
            if isinstance(motion, ServerMotion):
                motions.append(motion)
            elif motion is not None:
                channel.lacking.add(motion)

    # -- between frames ------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """
        Detect silent bodies, and report; call it about ten times a second.

        While this process is late, recent poses of a body wait to be read: silence is measured up
        to the time of the events that are being read.

        :param now_ns: present time on the arrival clock (ns).
        """
        self.texts.tick(now_ns)
        for channel in self.bodies:
            channel.look_at_age(now_ns)
        self.shedder.end(now_ns)    # even if no poses arrive
        if now_ns - self._taken_ns < _CATCHING_UP_NS:
            now_ns -= self._behind_ns
        self.reports.events += self._states.tick(now_ns)

    def reconnected(self) -> None:
        """
        Prepare for a new connection: the server may have been restarted.

        The line of the clock is kept if the next frames fit it. They are withheld until they
        arrive as fast as they were sent: until then they may come out of a buffer.
        """
        self.stamps.reconnected()

    def apply(self, config: PipelineConfig) -> list[TrackedBody]:
        """
        Replace the settings; the bodies keep their history.

        Bodies that are no longer selected are removed; newly selected bodies appear with their
        next pose. The estimate of a body restarts if its settings change.

        :param config: the new settings; what is fixed while the node is configured has not
            changed.
        :returns: the removed bodies.
        """
        gone = self.roster.apply(config)
        for channel in gone:
            self._shared_names.forget(channel)
        if config.keep_up != self.config.keep_up:
            self.shedder = LoadShedder()
        self.config = config
        return gone

    def clock_status(self) -> ClockStatus:
        """Return the facts of the sender's clock at the last call of ``process``."""
        return self.stamps.status(self._taken_ns)

    @property
    def bodies(self) -> list[TrackedBody]:
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


def _validate_rated(
    gate: Tracker, time_ns: int, arrival_ns: int, body: Body,
) -> Optional[Quaternion]:
    """Validate a pose that the sender itself rates (NatNet); see ``Tracker.update``."""
    limit = gate.config.max_mean_error
    if body.valid and (limit <= 0.0 or body.mean_error <= limit):    # not NaN
        return gate.update(time_ns, arrival_ns, body.position, body.quat_xyzw)
    gate.refuse(time_ns, arrival_ns, body.position, body.quat_xyzw, (
        Disposition.MEAN_ERROR if body.valid else Disposition.NOT_TRACKED))
    return None
