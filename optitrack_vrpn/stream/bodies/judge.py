# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compare a pose with the hypothesis ``home``: whether it can have come there, or must last.

See ``hypotheses.py`` for the rules.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from optitrack_vrpn.core.rotation import angle_between, conjugate, IDENTITY, multiply, Quat, Vector
from optitrack_vrpn.core.stats import GAP_INTERVALS
from optitrack_vrpn.stream.bodies.limits import ReachLimits, SMALL_TURN
from optitrack_vrpn.stream.bodies.poses import TimedPose
from optitrack_vrpn.stream.bodies.states import Disposition, NEVER_NS
from optitrack_vrpn.stream.bodies.times import BodyTimes

IN_PLACE_M: Final = 0.3
"""
A wrong marker solution moves the reported origin by less than this (m): twice its distance from
the centroid of the markers. Chosen for bodies of up to 0.3 m.
"""
DRIFT: Final = 1.5e-9
"""
Increase (m/ns) of that distance with the time out of sight, up to ``memory_s``. Chosen: a drone
that brakes or turns at 3.5 m/s^2 is no further from its course after 0.9 s.
"""
TURNED_HOLD_NS: Final = 1_000_000_000
"""Largest hold (ns) of a turn that is possible or small. Chosen: most flips end earlier."""


class Verdict(NamedTuple):
    """
    How a pose relates to ``home``.

    :ivar reason: why ``home`` cannot have come there; None if it can.
    :ivar hold_ns: time (ns) for which it must last; ``NEVER_NS`` for ever.
    :ivar in_place: whether it is turned in the place of ``home``.
    :ivar turn: rotation about the body's own axes: attitude = attitude of ``home`` * turn.
    :ivar slack: angle (rad) by which the body itself may have turned meanwhile.
    :ivar fresh: whether ``home`` was not seen for ``memory_s``.
    :ivar before: whether it is the hypothesis before ``home``.
    :ivar unseen_ns: time (ns) since the latest pose of ``home``, or of a body in its place.
    """

    reason: Disposition | None
    hold_ns: int
    in_place: bool
    turn: Quat
    slack: float
    fresh: bool
    before: bool
    unseen_ns: int


class PoseRun:
    """
    A run of poses, each consistent with the one before.

    :ivar verdict: on its first pose; its turn on the first ``BUILD_UP_FRAMES``.
    :ivar began_ns: sender time of its first pose (ns), plus the time out of sight since.
    :ivar base: attitude of ``home`` at its first pose.
    :ivar last: its latest pose.
    :ivar count: its poses since it was last interrupted.
    :ivar builds_up: whether it has not been interrupted yet.
    :ivar left: whether its first pose was out of reach from the ``away`` of that time.
    """

    __slots__ = ('verdict', 'began_ns', 'base', 'last', 'count', 'builds_up', 'left')

    def __init__(self, first: TimedPose, verdict: Verdict, left: bool = True) -> None:
        self.verdict = verdict
        self.began_ns = first.now
        self.base = multiply(first.quat, conjugate(verdict.turn))
        self.last = first
        self.count = 1
        self.builds_up = True
        self.left = left

    def add(self, seen: TimedPose) -> None:
        """Add a pose that is consistent with the latest one."""
        self.last = seen
        self.count += 1

    @property
    def is_jump(self) -> bool:
        """Return whether ``home`` cannot have come here."""
        return self.verdict.reason is not None

    @property
    def true_quat(self) -> Quat:
        """Return the attitude of ``home`` if the body has been turned in place."""
        return multiply(self.last.quat, conjugate(self.verdict.turn))


class Before(NamedTuple):
    """
    The hypothesis before ``home``.

    :ivar turn: rotation about the body's axes from it to ``home``.
    :ivar until_ns: sender time (ns) until which it is remembered.
    :ivar doubt: the value of ``Hypotheses.doubt`` at that time.
    """

    turn: Quat
    until_ns: int
    doubt: Quat


class Judge:
    """
    Compare poses with ``home``.

    :param times: the times of the body's frames.
    :param limits: ``home``, and how far the body can have moved.
    :ivar before: the hypothesis before ``home``, if it is remembered.
    """

    __slots__ = ('before', '_times', '_limits')

    def __init__(self, times: BodyTimes, limits: ReachLimits) -> None:
        self.before: Before | None = None
        self._times = times
        self._limits = limits

    def judge(self, seen: TimedPose, away: PoseRun | None, swapped: bool = False) -> Verdict:
        """
        Determine whether ``home`` can have come to a pose, and if not, how long it must last.

        While ``away`` is a turn in place, ``home`` is where ``away`` is, without the turn.

        :param swapped: whether the body has the name of another.
        """
        limits, last = self._limits, self._limits.last
        if not last.count:
            return Verdict(None, 0, False, IDENTITY, 0.0, True, False, NEVER_NS)
        if away is not None and away.verdict.in_place and away.is_jump:
            return self._verdict(
                seen, seen.now - away.last.now, away.last.position, None, away.true_quat,
                away.true_quat, IN_PLACE_M, away.verdict.slack, swapped)
        dt, memory_ns = seen.now - last.now, limits.thresholds.memory_ns
        is_next = dt <= GAP_INTERVALS * self._times.rate.interval
        return self._verdict(
            seen, dt, last.position, last.expected(seen.now, memory_ns), last.quat,
            last.quat if is_next else last.expected_quat(seen.now), 0.0, 0.0, swapped)

    def _verdict(
        self, seen: TimedPose, dt: int, place: Vector, expected: Vector | None, quat: Quat,
        expected_quat: Quat, margin: float, slack: float, swapped: bool,
    ) -> Verdict:
        """
        Compare a pose with ``home``; see ``judge``.

        :param place, quat: where ``home`` was seen dt (ns) before; ``expected`` where it is now.
        :param margin: distance (m), and ``slack`` angle (rad), of ``home`` that is unknown.
        """
        limits = self._limits
        fresh = dt >= limits.memory()
        limit = max(limits.turn_limit(dt), slack)
        away_m = math.dist(seen.position, place)
        off_m = away_m if expected is None else min(away_m, math.dist(seen.position, expected))
        off = min(angle_between(quat, seen.quat), angle_between(expected_quat, seen.quat))
        far = not fresh and away_m > margin + limits.reach_late(dt)
        # A body that was seen in the place of another has turned meanwhile.
        turned = off > limit and not (fresh and swapped)
        memory_ns = limits.thresholds.memory_ns
        in_place = turned and off_m <= IN_PLACE_M + DRIFT * min(dt, memory_ns)
        reason, hold_ns, before = None, 0, False
        if in_place or (turned and not far):
            reason = Disposition.TURNED_TOO_FAR
            hold_ns, before = self._hold_of_turn(off, quat, seen, dt, fresh, limit)
        elif far:
            reason, hold_ns = Disposition.MOVED_TOO_FAR, limits.thresholds.jump_ns
        return Verdict(reason, hold_ns, in_place, multiply(conjugate(expected_quat), seen.quat),
                       limit, fresh, before, dt)

    def _hold_of_turn(
        self, off: float, quat: Quat, seen: TimedPose, dt: int, fresh: bool, limit: float,
    ) -> tuple[int, bool]:
        """
        Determine how long a turn in place must last.

        :param off: its angle (rad) from the attitude of ``home`` dt (ns) before.
        :param limit: angle (rad) by which the body may have turned meanwhile.
        :returns: the time (ns), and whether it leads to the hypothesis before ``home``.
        """
        before = self.before
        if before is not None and seen.now <= before.until_ns:
            away = angle_between(multiply(quat, conjugate(before.turn)), seen.quat)
            if away < off and away <= limit:
                return 0, True
        return self._hold(off, dt, fresh), False

    def _hold(self, off: float, dt: int, fresh: bool) -> int:
        """Return the time (ns) for which a turn by an angle (rad) must last."""
        set_to = self._limits.thresholds
        if off < SMALL_TURN:
            return min(TURNED_HOLD_NS, set_to.jump_ns)
        if self._is_gap(dt) and (fresh or off <= self._limits.possible_turn(dt)):
            return min(TURNED_HOLD_NS, set_to.attitude_ns)
        return set_to.attitude_ns

    def renew(self, away: PoseRun) -> None:
        """Determine the hold of ``away`` again: the settings have changed."""
        verdict = away.verdict
        if verdict.reason is Disposition.TURNED_TOO_FAR and not verdict.before:
            away.verdict = verdict._replace(hold_ns=self._hold(
                angle_between(IDENTITY, verdict.turn), verdict.unseen_ns, verdict.fresh))
        elif verdict.reason is not None and not verdict.before:
            away.verdict = verdict._replace(hold_ns=self._limits.thresholds.jump_ns)

    def _is_gap(self, dt: int) -> bool:
        """Return whether a body was out of sight in dt (ns), longer than a few lost frames."""
        return dt >= min(self._times.silence_ns, self._limits.memory())

    def measure_turn(self, away: PoseRun) -> None:
        """Measure the turn of ``away`` again: it can have begun with a part of it."""
        verdict, quat = away.verdict, away.last.quat
        off = angle_between(away.base, quat)
        hold_ns, before = self._hold_of_turn(
            off, away.base, away.last, verdict.unseen_ns, verdict.fresh, verdict.slack)
        away.verdict = verdict._replace(
            hold_ns=hold_ns, before=before, turn=multiply(conjugate(away.base), quat))
