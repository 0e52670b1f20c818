# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The tracker of one rigid body or bone: decide for each pose whether it is valid.

VRPN has no validity flag, so the decision depends on the body's history. ``update`` returns the
quaternion to publish, or None and the reason in ``reason``. This file reads no clock and does not
log: changes of state are collected in ``changes``.

Two times are needed. The *sender time* orders frames and limits the motion between them; it does
not depend on the network. The *receive time* measures how long a body has been silent.

The tracker has parts: the times of the frames (``times.py``), the last valid pose and the reach
from it (``limits.py``), the numbers and their repetition (``poses.py``), the hypotheses on where
the body is (``hypotheses.py``), and the state (``states.py``).
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Final

from optitrack_vrpn.core.rotation import Quat, Vector
from optitrack_vrpn.core.stats import GAP_INTERVALS
from optitrack_vrpn.stream.bodies.hypotheses import Hypotheses, SwapCandidate
from optitrack_vrpn.stream.bodies.limits import LastPose, ReachLimits, Thresholds
from optitrack_vrpn.stream.bodies.poses import (
    continued, describe, fault_of, RepetitionDetector, TimedPose, unit, UNIT_ERROR)
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import (
    BodyStatus, Disposition, NEVER_NS, Observed, State, StateChange, StateMachine)
from optitrack_vrpn.stream.bodies.times import BodyTimes, Epoch

FAST_NORM_ERROR: Final = 1e-6
"""
Deviation of a squared norm from 1 that is corrected to first order: the error is below 4e-13.
Chosen: quaternions of 32-bit floats deviate by 1e-7.
"""


class Tracker:
    """
    Validate the poses of one rigid body or bone.

    Pass every pose of the body to ``update`` and call ``tick`` ten times a second.

    :param name: the body's name.
    :param config: thresholds; the defaults when None.
    :ivar config: the thresholds; the history of the body is kept when they are replaced.
    :ivar reason: why the last pose was withheld (valid after ``update`` returned None).
    :ivar resets: discontinuities so far, see ``BodyStatus``.
    :ivar hypotheses: where the body is.
    :ivar changes: changes of state that ``take_changes`` has not fetched yet.
    """

    __slots__ = (
        'reason', 'resets', '_times', '_limits', '_repetition', '_states',
        'hypotheses', 'changes', '_shared', '_restarted', '_refused')

    def __init__(self, name: str, config: BodyConfig | None = None) -> None:
        self.reason = Disposition.ACQUIRING
        self.resets = 0
        self._times = BodyTimes()
        self._limits = ReachLimits(LastPose(), self._times.rate, Thresholds(
            config if config is not None else BodyConfig()))
        self._repetition = RepetitionDetector()
        self._states = StateMachine(name)
        self.changes = self._states.changes
        self.hypotheses = Hypotheses(self._states, self._times, self._limits)
        self._shared = False
        # The sender's clock has restarted since the last valid pose.
        self._restarted = False
        # Frames in a row that the sender has reported as bad.
        self._refused = 0
        self._measure_silence()

    @property
    def config(self) -> BodyConfig:
        """Return the thresholds."""
        return self._limits.thresholds.config

    @config.setter
    def config(self, config: BodyConfig) -> None:
        self._limits.thresholds = Thresholds(config)
        if self.hypotheses.away is not None:    # a jump continues with its new hold
            self.hypotheses.judge.renew(self.hypotheses.away)
        self._measure_silence()

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
        limits = self._limits
        last = limits.last
        allowed = limits.thresholds
        times = self._times
        rate = times.rate
        dt = sender_time_ns - last.now
        if receive_ns - times.receive_ns < times.fast_ns and 0 < dt < 1.5 * rate.interval:
            x, y, z = position
            lx, ly, lz = last.position
            lx -= x
            ly -= y
            lz -= z
            moved = lx * lx + ly * ly + lz * lz
            reach = allowed.margin + allowed.speed * dt
            if 0.0 < moved <= reach * reach and (x or y or z):
                a, b, c, d = quat_xyzw
                la, lb, lc, ld = quat = last.quat
                excess = a * a + b * b + c * c + d * d - 1.0
                dot = a * la + b * lb + c * lc + d * ld
                turn = allowed.turn_margin + allowed.turn_rate * dt
                if turn > allowed.turn_cap:
                    turn = allowed.turn_cap
                # 1 - cos(turn / 2) >= u - u^2 / 6 where u = turn^2 / 8: no trigonometry.
                turn *= 0.125 * turn
                turn -= turn * turn / 6.0
                # 1 / sqrt(1 + excess) to first order.
                scale = 1.0 - 0.5 * excess if dot >= 0.0 else 0.5 * excess - 1.0
                if -FAST_NORM_ERROR < excess < FAST_NORM_ERROR and 1.0 - dot * scale <= turn:
                    last.now = sender_time_ns
                    times.receive_ns = receive_ns
                    rate.follow(dt)
                    last.position = position
                    last.raw = quat_xyzw
                    last.count = count = last.count + 1
                    if not count & last.mask:
                        self._measure_motion()
                    if -UNIT_ERROR < excess < UNIT_ERROR and dot >= 0.0:
                        last.quat = quat_xyzw
                        return quat_xyzw
                    last.quat = quat = (a * scale, b * scale, c * scale, d * scale)
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

    def hear(self, receive_ns: int) -> None:
        """
        Note a pose that arrived but cannot be validated yet: the body is not silent.

        :param receive_ns: its arrival.
        """
        self._times.heard_ns = receive_ns

    def tick(self, now_ns: int) -> None:
        """
        Detect silence; a change of state is added to ``changes``.

        :param now_ns: the present on the clock of ``receive_ns``.
        """
        times = self._times
        silent = now_ns - times.heard()
        if silent >= times.silence_ns and times.receive_ns > -NEVER_NS:
            self._leave_fast_path()
            self._states.observe(Observed.SILENT, now_ns, f'silent for {silent * 1e-9:.2f} s')

    def restart(self, epoch: Epoch) -> None:
        """
        Continue on the sender's restarted clock; the next valid pose counts a reset.

        Only the clock model recognises a restart (``StampSource``), for all bodies and bones at
        once; to the tracker a pose that is older than the last one is late. A jump continues, also
        that of a body out of sight. Any other body is acquired again, because a sender that begins
        another take has it in another place.

        :param epoch: the begin of the new clock.
        """
        self._leave_fast_path()
        self._restarted = True
        self._follow_step(epoch.time_ns, epoch.arrival_ns)
        if self.hypotheses.restart():
            self._limits.last.now = -NEVER_NS
            if self.state is State.TRACKED:
                self._states.observe(
                    Observed.RESTARTED, epoch.arrival_ns, "the sender's clock restarted")

    def share_name(self, shared: bool) -> None:
        """Set whether two bodies of the sender have this name; then no pose of it is valid."""
        if shared:
            self._leave_fast_path()
        self._shared = shared

    def accept_jump(self) -> bool:
        """
        Accept the place and attitude of the body, on request of the user.

        If the body has jumped, its next consistent pose is published and a reset is counted. The
        attitude of a TRACKED body that time alone has accepted becomes certain.

        :returns: whether there was anything to accept.
        """
        return self.hypotheses.accept_jump()

    def take_changes(self) -> list[StateChange]:
        """
        Fetch the changes of state since the last call.

        :returns: the changes, oldest first.
        """
        changes = [*self.changes]
        self.changes.clear()
        return changes

    # -- status of the body --------------------------------------------------------------------

    def status(self, now_ns: int) -> BodyStatus:
        """
        Return the status of the body.

        :param now_ns: the present on the clock of ``receive_ns``.
        """
        times, states = self._times, self._states
        good = times.receive_ns if self._times.fast_ns >= 0 else times.good_ns
        return BodyStatus(
            states.name, states.state, states.since_ns, times.rate.rate_hz,
            (now_ns - good) * 1e-9 if good > -NEVER_NS else math.nan,
            self.resets, self._limits.last.count, times.rate.gaps, times.rate.lost,
            f'{states.detail}; {self.held}' if self.held else states.detail,
            self.swapped_with if states.state is State.JUMPED else '', {},
            self.hypotheses.by_time, self.hypotheses.doubt_rad)

    @property
    def name(self) -> str:
        """Return the body's name."""
        return self._states.name

    @property
    def state(self) -> State:
        """Return the present state."""
        return self._states.state

    @property
    def good(self) -> int:
        """Return the number of poses that have passed."""
        return self._limits.last.count

    @property
    def rate_hz(self) -> float:
        """Return the body's own frame rate by sender time (Hz); 0 when not known yet."""
        return self._times.rate.rate_hz

    @property
    def held(self) -> str:
        """Explain why time alone does not end the jump of this body; '' if it does, or if none."""
        return self.hypotheses.held

    @property
    def last_pose(self) -> tuple[Vector, Quat] | None:
        """Return position and attitude, as sent, of the last finite pose, valid or not."""
        last = self._limits.last
        return (last.position, last.raw) if self._times.fast_ns >= 0 else self._repetition.pose

    @property
    def swapped_with(self) -> str:
        """Return the body with which this one has probably exchanged names; '' for none."""
        swapped = self.hypotheses.swapped
        return '' if swapped is None else swapped.name

    def compare_with(
        self, find_swap: Callable[[Tracker, TimedPose], SwapCandidate | None],
    ) -> None:
        """
        Set the function that finds the body that a pose probably belongs to.

        :param find_swap: takes this gate and a pose, see ``swap.find_swap``.
        """
        self.hypotheses.find_swap = lambda seen: find_swap(self, seen)

    # -- the full check ------------------------------------------------------------------------

    def _leave_fast_path(self) -> None:
        """Store the values that the fast path does not update."""
        if self._times.fast_ns >= 0:
            self._times.fast_ns = -1
            last, times, repetition = self._limits.last, self._times, self._repetition
            times.last_ns = repetition.since_ns = last.now
            times.good_ns = times.receive_ns
            repetition.pose = last.position, last.raw

    def _measure_silence(self) -> None:
        self._times.measure_silence(self.config)
        if self._times.fast_ns >= 0:
            self._times.fast_ns = self._times.silence_ns

    def _measure_motion(self) -> None:
        self._limits.last.measure(self._times.rate.interval)
        self._measure_silence()

    def _follow_step(self, now: int, receive_ns: int) -> None:
        """
        Keep the history of the body over a step of the sender's clock.

        Its times are shifted so that as much time has passed by the sender's clock as by the
        clock of arrivals. So a flip or a swap outlasts a restart.
        """
        times = self._times
        if times.last_ns > -NEVER_NS:
            shift = now - times.last_ns - max(receive_ns - times.receive_ns, 1)
            times.last_ns += shift
            self._repetition.since_ns += shift
            self._limits.last.shift(shift)
            self.hypotheses.shift(shift)

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
        times = self._times
        if now == times.last_ns:
            return Disposition.DUPLICATE
        if now < times.last_ns:
            times.heard_ns = receive_ns
            return Disposition.OUT_OF_ORDER
        unseen = self._follow_time(now, receive_ns)

        fault = refused or (Disposition.SHARED_NAME if self._shared
                            else fault_of(position, raw, self.config))
        self._refused = self._refused + 1 if refused else 0
        if self._refused == 1:
            # A flag that flickers costs the poses without it: two in a row are a fault.
            self.hypotheses.skip(unseen)
            return refused or Disposition.NOT_TRACKED
        if fault is not None:
            self.hypotheses.interrupt(unseen)
            observed, detail = _FAULTS.get(fault, (Observed.NOT_A_POSE, ''))
            self._states.observe(observed, receive_ns, detail or describe(position, raw))
            return fault
        last = self._limits.last
        frozen_ns = self._limits.thresholds.frozen_ns
        if self._repetition.repeats(
                now, position, raw, (last.position, last.raw) if last.count else None) and (
                frozen_ns != NEVER_NS):
            self.hypotheses.skip(unseen)
            if now - self._repetition.since_ns >= frozen_ns:
                self.hypotheses.interrupt(0)
                self._states.observe(
                    Observed.REPEATED, receive_ns, 'the sender repeats one pose bit for bit')
            return Disposition.REPEAT

        seen = TimedPose(now, position, unit(raw))
        outcome = (self._check_tracked(seen, receive_ns) if self.state is State.TRACKED
                   else self.hypotheses.check_untracked(seen, receive_ns))
        if isinstance(outcome, Disposition):
            return outcome
        return self._accept(seen, receive_ns, raw, outcome)

    def _follow_time(self, now: int, receive_ns: int) -> int:
        """
        Update rate, gaps and silence from the times of a frame.

        :returns: time (ns) for which the body was not seen and which no track includes yet.
        """
        times, states = self._times, self._states
        since = now - times.last_ns if times.last_ns > -NEVER_NS else 0
        silent = receive_ns - times.receive_ns
        is_silent = silent >= times.silence_ns
        memory_ns = self._limits.thresholds.memory_ns
        if is_silent and 0 < since < times.silence_ns and silent < memory_ns:
            # The network held the frames back (WiFi power save): none is missing.
            is_silent = False
            silent = since
            if states.state is State.STALE and self._limits.last.now == times.last_ns:
                states.observe(Observed.RESUMED, receive_ns, 'no frame was missing')
        # A NEW body is seen for the first time.
        elif receive_ns - times.heard() >= times.silence_ns and states.state is not State.NEW:
            states.observe(Observed.SILENT, times.receive_ns + times.silence_ns,
                           f'silent for {silent * 1e-9:.2f} s')
        # Frames came while the restart of the sender's clock was not known: none is missing.
        if since and times.rate.update(
                since, self._limits.last.count, self.config.memory_s * 1e9,
                is_silent or self._restarted):
            self._measure_silence()
        if max(silent, since) >= times.silence_ns:
            self.hypotheses.interrupt(since)
            since = 0
        times.last_ns = now
        times.receive_ns = receive_ns
        if states.since_ns == -NEVER_NS:
            states.since_ns = receive_ns
        return since

    def _check_tracked(self, seen: TimedPose, receive_ns: int) -> Disposition | Observed | None:
        """
        Check a pose of a TRACKED body.

        :returns: why it is withheld, or None if it is good.
        """
        hypotheses = self.hypotheses
        dt = seen.now - self._limits.last.now
        if dt < self._limits.memory():
            reason = hypotheses.check_tracked(seen, receive_ns)
            if reason is not None:
                return reason
            if dt < GAP_INTERVALS * self._times.rate.interval or hypotheses.find_swap(
                    seen) is None:
                return None
            # A possible swap: wait until the places of the other bodies are known.
        self._states.observe(Observed.UNSEEN, receive_ns, f'no good pose for {dt * 1e-9:.2f} s')
        return hypotheses.check_untracked(seen, receive_ns)

    def _accept(
        self, seen: TimedPose, receive_ns: int, raw: Quat, observed: Observed | None,
    ) -> Quat:
        """
        Accept a pose.

        :param observed: the observation that makes the body TRACKED, None if it already is.
        """
        last = self._limits.last
        quat = continued(last.quat, seen.quat)
        reset, self._restarted = self._restarted, False
        if observed is not None:
            last.interrupt()
            reason, jumped = self.hypotheses.accept(seen, observed)
            if jumped:
                reset = True
                last.velocity = None
            self._states.observe(observed, receive_ns, reason)
        self.resets += reset and last.count > 0
        last.now, last.position, last.quat, last.raw = seen.now, seen.position, quat, raw
        self._times.fast_ns = self._times.silence_ns
        last.count += 1
        if not last.count & last.mask:
            self._measure_motion()
        return quat


_FAULTS = {
    Disposition.NOT_TRACKED: (
        Observed.REFUSED, 'the sender reports that it does not track it; it is published again '
        'after as many consistent frames as acquire_frames says'),
    Disposition.MEAN_ERROR: (
        Observed.REFUSED, 'its markers are further from their places in the model than '
        'max_mean_error'),
    Disposition.ZEROED: (Observed.ZEROS, 'exactly zero position, no attitude'),
    Disposition.SHARED_NAME: (
        Observed.NOT_A_POSE, 'each frame has two poses of this name, in different places: two '
        'rigid bodies have it. Rename one of them in Motive'),
}
