# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The validity gate: decide for each pose of a rigid body whether it is valid.

VRPN has no validity flag, so the decision depends on the body's history. ``update`` returns the
quaternion to publish, or None and the reason in ``reason``. This file reads no clock and does not
log: changes of state are collected in ``changes``.

Two times are needed. The *sender time* orders frames and limits the motion between them; it does
not depend on the network. The *receive time* measures how long a body has been silent.

States and transitions are in ``transitions.py``. This file makes the observations from the times
of poses, ``numbers.py`` those from their numbers, ``jumps.py`` those from the motion.
"""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.jumps import JumpRules
from optitrack_vrpn.bodies.limits import NO_REACH_LIMIT
from optitrack_vrpn.bodies.numbers import (
    continued, describe, fault_of, negated, NORM_RANGE, unit, UNIT_ERROR)
from optitrack_vrpn.bodies.states import BodyStatus, State
from optitrack_vrpn.bodies.statistics import GAP_INTERVALS, NEVER_NS
from optitrack_vrpn.bodies.track import Origin, TimedPose, Track
from optitrack_vrpn.bodies.transitions import Observed
from optitrack_vrpn.motion.quaternion import normalised, Quat, Vector

EPOCH_STEP_NS = 1_000_000_000
"""
Decrease of the sender time (ns) that is a restart of its clock. Chosen: no network delays frames
by as much. Halved, a restart with a small step is detected sooner; doubled, only by the clock
model.
"""
ROLLBACK_FRAMES = 3
"""
Late frames in a row, in order among themselves, that mean a step back of the sender's clock.
Chosen. Halved, reordered datagrams count as one; doubled, it is reported later.
"""
FAST_NORM_ERROR: Final = 1e-6
"""
Deviation of a squared norm from 1 that is corrected to first order: the error is below 4e-13.
Chosen: quaternions of 32-bit floats deviate by 1e-7. Halved or doubled, the error by the square.
"""
FAST_RATE_GAIN: Final = 0.01
"""
Weight of a new interval in the mean, for frames that take the fast path. Chosen: a mean over 100
frames. Halved, the rate follows more slowly; doubled, it has more noise.
"""


class ValidityGate(JumpRules):
    """
    Validate the poses of one rigid body.

    Pass every pose of the body to ``update`` and call ``tick`` ten times a second.

    :ivar reason: why the last pose was withheld (valid after ``update`` returned None).
    :ivar steps_back: number of suspected steps back of the sender's clock that are smaller
        than a restart; the sender time between two poses is wrong there.
    """

    __slots__ = (
        'reason', 'steps_back', '_late_ns', '_late_run', '_last_receive', '_good_receive',
        '_last_ns', '_seen', '_seen_since', '_frozen_ns', '_shown', '_shared', '_restarted')

    def __init__(self, name: str, config: BodyConfig | None = None) -> None:
        """
        Begin with a body never seen.

        :param name: the body's name.
        :param config: thresholds; the defaults when None.
        """
        super().__init__(name, config if config is not None else BodyConfig())
        self.reason = Disposition.ACQUIRING
        self.steps_back = 0
        # Sender time of the last late frame, and the number of late frames in a row, in order.
        self._late_ns = -NEVER_NS
        self._late_run = 0
        self._last_receive = self._good_receive = -NEVER_NS
        # Time of the last pose; the last finite pose, and since when it has been the same.
        self._last_ns = -NEVER_NS
        self._seen: tuple[Vector, Quat] | None = None
        self._seen_since = NEVER_NS
        # Last result of ``untracked``, if no valid pose has come since, for a continuous sign.
        self._shown: Quat | None = None
        self._shared = False
        # The sender's clock has restarted since the last valid pose.
        self._restarted = False
        self.reconfigure(self.config)

    def reconfigure(self, config: BodyConfig) -> None:
        """
        Change the thresholds; the history of the body is kept.

        :param config: the new thresholds.
        """
        self._set_limits(config)
        self._frozen_ns = round(config.frozen_after_s * 1e9) or NEVER_NS
        self._settle_ns = round(config.jump_accept_s * 1e9) or NEVER_NS

    def update(self, sender_time_ns: int, receive_ns: int, position: Vector,
               quat_xyzw: Quat) -> Quat | None:
        """
        Validate one pose.

        :param sender_time_ns: the sender's time of the pose (ns, any epoch). Where sender times
            cannot be used (``stamps.mode: arrival``), pass the stamp.
        :param receive_ns: arrival (ns) on a clock that never steps.
        :param position: position (m), as sent.
        :param quat_xyzw: attitude, as sent.
        :returns: the attitude to publish, of unit norm and with the sign that continues the last
            one (the same tuple if nothing is corrected), or None when the pose must not be
            published.
        """
        # The fast path, which nearly every pose takes: the checks of _examine in their cheapest
        # form, never wider than those. A pose that fails here gets the full check.
        dt = sender_time_ns - self._good_ns
        if receive_ns - self._last_receive < self._fast_ns and 0 < dt < 1.5 * self._interval:
            x, y, z = position
            lx, ly, lz = self._position
            lx -= x
            ly -= y
            lz -= z
            moved = lx * lx + ly * ly + lz * lz
            reach = self._reach_margin + self._reach_speed * dt
            if 0.0 < moved <= reach * reach and (x or y or z):
                a, b, c, d = quat_xyzw
                la, lb, lc, ld = quat = self._quat
                excess = a * a + b * b + c * c + d * d - 1.0
                dot = a * la + b * lb + c * lc + d * ld
                turn = self._turn_margin + self._turn_rate * dt
                if turn > self._turn_cap:
                    turn = self._turn_cap
                # 1 - cos(turn / 2) >= u - u^2 / 6 where u = turn^2 / 8: no trigonometry.
                turn *= 0.125 * turn
                turn -= turn * turn / 6.0
                # 1 / sqrt(1 + excess) to first order.
                scale = 1.0 - 0.5 * excess if dot >= 0.0 else 0.5 * excess - 1.0
                if -FAST_NORM_ERROR < excess < FAST_NORM_ERROR and 1.0 - dot * scale <= turn:
                    self._good_ns = sender_time_ns
                    self._last_receive = receive_ns
                    self._interval += FAST_RATE_GAIN * (dt - self._interval)
                    self._position = position
                    self._raw = quat_xyzw
                    self.good = count = self.good + 1
                    if not count & self._sample_mask:
                        self._measure_motion()
                    if -UNIT_ERROR < excess < UNIT_ERROR and dot >= 0.0:
                        self._quat = quat_xyzw
                        return quat_xyzw
                    self._quat = quat = (a * scale, b * scale, c * scale, d * scale)
                    return quat
        outcome = self._examine(sender_time_ns, receive_ns, position, quat_xyzw)
        if isinstance(outcome, Disposition):
            self.reason = outcome
            return None
        return outcome

    def refuse(self, sender_time_ns: int, receive_ns: int, position: Vector, quat_xyzw: Quat,
               reason: Disposition) -> None:
        """
        Process a pose that the sender itself reports as bad; it is withheld.

        :param sender_time_ns: as for ``update``, like the next three.
        :param reason: ``NOT_TRACKED`` or ``MEAN_ERROR``.
        """
        outcome = self._examine(sender_time_ns, receive_ns, position, quat_xyzw, reason)
        assert isinstance(outcome, Disposition)
        self.reason = outcome

    def untracked(self, position: Vector, quat_xyzw: Quat) -> Quat | None:
        """
        Return the attitude that ``publish_untracked`` publishes for the pose just withheld.

        :param position: the position given to ``update``.
        :param quat_xyzw: the attitude given to ``update``.
        :returns: the attitude, normalised and with continuous sign, or None if the numbers are not
            a pose, or the frame is a duplicate or late.
        """
        if self.reason in (Disposition.DUPLICATE, Disposition.OUT_OF_ORDER) or not (
                NORM_RANGE[0] < math.hypot(*quat_xyzw) < NORM_RANGE[1]
                and math.hypot(*position) < NO_REACH_LIMIT):
            return None
        self._shown = continued(self._shown or self._quat, normalised(quat_xyzw))
        return self._shown

    def tick(self, now_ns: int) -> None:
        """
        Detect silence; a change of state is added to ``changes``.

        :param now_ns: the present on the clock of ``receive_ns``.
        """
        silent = now_ns - self._last_receive
        if silent >= self._silence_ns and self._last_receive > -NEVER_NS:
            self._leave_fast_path()
            self._observe(Observed.SILENT, now_ns, f'silent for {silent * 1e-9:.2f} s')

    def restart(self, sender_time_ns: int, receive_ns: int) -> None:
        """
        Continue on the sender's restarted clock; the next valid pose counts a reset.

        A jump continues, also that of a body out of sight. Any other body is acquired again,
        because a sender that begins another take has it in another place.

        :param sender_time_ns: a sender time (ns) of the new clock.
        :param receive_ns: its arrival (ns).
        """
        self._leave_fast_path()
        self._restarted = True
        self._follow_step(sender_time_ns, receive_ns)
        if self._track is None or self._track.origin is not Origin.FAR:
            self._good_ns = -NEVER_NS
            self._track = None
            if self.state is State.TRACKED:
                self._observe(Observed.RESTARTED, receive_ns, "the sender's clock restarted")

    def share_name(self, shared: bool) -> None:
        """Set whether two bodies of the sender have this name; then no pose of it is valid."""
        if shared:
            self._leave_fast_path()
        self._shared = shared

    # -- status of the body --------------------------------------------------------------------

    def status(self, now_ns: int) -> BodyStatus:
        """
        Return the status of the body.

        :param now_ns: the present on the clock of ``receive_ns``.
        """
        good = self._last_receive if self._fast_ns >= 0 else self._good_receive
        return BodyStatus(
            self.name, self.state, self._since, self.rate_hz,
            (now_ns - good) * 1e-9 if good > -NEVER_NS else math.nan,
            self.resets, self.good, self._gaps, self._lost,
            f'{self._detail}; {self.held}' if self.held else self._detail,
            self.swapped_with if self.state is State.JUMPED else '')

    @property
    def last_seen_ns(self) -> int:
        """Return the sender time (ns) of the last pose, valid or not; -NEVER_NS before one."""
        return self._good_ns if self._fast_ns >= 0 else self._last_ns

    @property
    def last_pose(self) -> tuple[Vector, Quat] | None:
        """Return position and attitude, as sent, of the last finite pose, valid or not."""
        return (self._position, self._raw) if self._fast_ns >= 0 else self._seen

    @property
    def last_receive_ns(self) -> int:
        """Return the arrival (ns) of the last pose, valid or not; -NEVER_NS before one."""
        return self._last_receive

    @property
    def is_behind(self) -> bool:
        """Return whether the last frame was late by its sender time."""
        return self._late_run > 0

    # -- the full check ------------------------------------------------------------------------

    def _leave_fast_path(self) -> None:
        """Store the values that the fast path does not update."""
        if self._fast_ns >= 0:
            self._fast_ns = -1
            self._last_ns = self._seen_since = self._good_ns
            self._good_receive = self._last_receive
            self._seen = self._position, self._raw

    def _follow_step(self, now: int, receive_ns: int) -> None:
        """
        Keep the history of the body over a step of the sender's clock.

        Its times are shifted so that as much time has passed by the sender's clock as by the
        clock of arrivals. So a flip or a swap outlasts a restart.
        """
        if self._last_ns > -NEVER_NS:
            shift = now - self._last_ns - max(receive_ns - self._last_receive, 1)
            self._last_ns += shift
            self._seen_since += shift
            if self._good_ns > -NEVER_NS:
                self._good_ns += shift
            self._sample_quat = None
            for track in (self._track, self._other):
                if track is not None:
                    track.began_ns += shift
                    track.last = track.last._replace(now=track.last.now + shift)

    def _examine(
        self, now: int, receive_ns: int, position: Vector, raw: Quat,
        refused: Disposition | None = None,
    ) -> Quat | Disposition:
        """
        Check a pose in full: its time, its numbers, then the motion that leads to it.

        :param refused: the sender's own reason to report it as bad, if any.
        :returns: the attitude to publish, or why the pose is withheld.
        """
        self._leave_fast_path()
        if now == self._last_ns:
            return Disposition.DUPLICATE
        if now < self._last_ns:
            if self._last_ns - now <= EPOCH_STEP_NS:
                self._late_run = self._late_run + 1 if now > self._late_ns else 1
                self._late_ns = now
                return Disposition.OUT_OF_ORDER
            self.restart(now, receive_ns)
        elif self._late_run >= ROLLBACK_FRAMES:
            self.steps_back += 1
            self._follow_step(now, receive_ns)
        self._late_run = 0
        unseen = self._follow_time(now, receive_ns)

        fault = refused or (Disposition.SHARED_NAME if self._shared
                            else fault_of(position, raw, self.config))
        if fault is not None:
            self._interrupt(unseen)
            observed, detail = _FAULTS.get(fault, (Observed.NOT_A_POSE, ''))
            self._observe(observed, receive_ns, detail or describe(position, raw))
            return fault
        if not self._is_repeat(position, raw):
            self._seen, self._seen_since = (position, raw), now
        elif self._frozen_ns != NEVER_NS:
            if self._track is not None:
                self._track.began_ns += unseen    # time out of sight does not count
            if now - self._seen_since >= self._frozen_ns:
                self._interrupt(0)
                self._observe(Observed.REPEATED, receive_ns,
                              'the sender repeats one pose bit for bit')
            return Disposition.REPEAT

        seen = TimedPose(now, position, unit(raw))
        outcome = (self._check_tracked(seen, receive_ns) if self.state is State.TRACKED
                   else self._check_untracked(seen, receive_ns))
        if isinstance(outcome, Disposition):
            return outcome
        return self._accept(seen, receive_ns, raw, outcome)

    def _follow_time(self, now: int, receive_ns: int) -> int:
        """
        Update rate, gaps and silence from the times of a frame.

        :returns: time (ns) for which the body was not seen and which no track includes yet.
        """
        since = now - self._last_ns if self._last_ns > -NEVER_NS else 0
        silent = receive_ns - self._last_receive
        if silent >= self._silence_ns:
            if self.state is not State.NEW:    # else it is seen for the first time
                self._observe(Observed.SILENT, self._last_receive + self._silence_ns,
                              f'silent for {silent * 1e-9:.2f} s')
            if since:
                self._measure_interval(since, silent=True)
        elif since:
            self._measure_interval(since)
        if max(silent, since) >= self._silence_ns:
            self._interrupt(since)
            since = 0
        self._last_ns = now
        self._last_receive = receive_ns
        if self._since == -NEVER_NS:
            self._since = receive_ns
        return since

    def _is_repeat(self, position: Vector, raw: Quat) -> bool:
        """
        Return whether the pose equals the last one, or the last valid one, bit for bit.

        A server that was restarted can repeat the last valid one after another pose.
        """
        if self._seen is not None and position == self._seen[0]:
            return raw in (self._seen[1], negated(self._seen[1]))
        return self.good > 0 and position == self._position and raw == self._raw

    def _interrupt(self, unseen: int) -> None:
        """
        Restart the track; but a jump continues, without the time out of sight.

        A jump of a single frame was an outlier.
        """
        track, self._other = self._track, None
        if track is None:
            return
        outlier = (
            track.count == 1 and track.began_ns == track.last.now and self.swapped is None)
        track.count = 0
        track.began_ns += unseen
        if track.origin is not Origin.FAR or outlier:
            self._track = None

    def _check_tracked(self, seen: TimedPose, receive_ns: int) -> Disposition | Observed | None:
        """
        Check a pose of a TRACKED body.

        :returns: why it is withheld, or None if it is good.
        """
        dt = seen.now - self._good_ns
        if dt >= self._memory():
            self._observe(Observed.UNSEEN, receive_ns, f'no good pose for {dt * 1e-9:.2f} s')
            return self._check_untracked(seen, receive_ns)
        reason = self._too_far(seen.position, seen.quat, dt)
        if reason is not None:
            return self._jump(seen, receive_ns, reason, self._flip_of(seen))
        if dt < GAP_INTERVALS * self._interval or self.find_swap(self, seen) is None:
            return None
        # A possible swap: wait until the places of the other bodies are known.
        self._observe(Observed.UNSEEN, receive_ns, f'not seen for {dt * 1e-9:.2f} s')
        return self._check_untracked(seen, receive_ns)

    def _check_untracked(self, seen: TimedPose, receive_ns: int) -> Disposition | Observed | None:
        """
        Check a pose of a body that is not TRACKED.

        :returns: why it is withheld, or what makes the body TRACKED.
        """
        track = self._track
        if track is not None and track.origin is Origin.FAR:
            return self._check_jumped(track, seen, receive_ns)
        if track is not None and self._follows(track, seen):
            track.add(seen)
        else:
            dt = seen.now - self._good_ns
            fresh = dt >= self._memory()
            reason = None if fresh else self._too_far(seen.position, seen.quat, dt)
            if reason is not None:
                return self._jump(seen, receive_ns, reason, self._flip_of(seen))
            self._track = track = Track(Origin.FRESH if fresh else Origin.NEAR, seen)
        if track.count < self.config.acquire_frames:
            return Disposition.ACQUIRING
        if self._is_swapped(seen):
            return self._jump(seen, receive_ns, Disposition.SWAPPED)
        return Observed.ACQUIRED

    def _accept(
        self, seen: TimedPose, receive_ns: int, raw: Quat, observed: Observed | None,
    ) -> Quat:
        """
        Accept a pose.

        :param observed: the observation that makes the body TRACKED, None if it already is.
        """
        quat = continued(self._shown or self._quat, seen.quat)
        self._shown = None
        reset, self._restarted = self._restarted, False
        if observed is not None:
            assert self._track is not None
            self._sample_quat = None
            if self._track.origin is not Origin.NEAR:
                reset = True
                self._velocity = None
            self._observe(observed, receive_ns, 'the user accepted the pose that it jumped to'
                          if observed is Observed.ACCEPTED else self._track.origin.value)
            self._track = self._other = None
            self.swapped, self.unconfirmed = None, False
        self.resets += reset and self.good > 0
        self._good_ns, self._position, self._quat, self._raw = seen.now, seen.position, quat, raw
        self._fast_ns = self._silence_ns
        self.good += 1
        if not self.good & self._sample_mask:
            self._measure_motion()
        return quat


_FAULTS = {
    Disposition.NOT_TRACKED: (
        Observed.REFUSED, 'the sender reports that it does not track it'),
    Disposition.MEAN_ERROR: (
        Observed.REFUSED, 'its markers are too far from their places in the model'),
    Disposition.ZEROED: (Observed.ZEROS, 'exactly zero position, no attitude'),
    Disposition.SHARED_NAME: (
        Observed.NOT_A_POSE, 'each frame has two poses of this name, in different places: two '
        'rigid bodies have it. Rename one of them in Motive'),
}
