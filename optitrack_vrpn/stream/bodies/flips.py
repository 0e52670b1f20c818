# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Flips: rotations in place that a body cannot have made, or that happened out of sight.

A jump that turns the body further than it can turn, but leaves it in its place, is a *flip*: the
sender fits the markers to the wrong ones. Such a fit can last for minutes, so time alone never
makes it valid. It ends when the body turns back by the same angle about the same body axis,
wherever it has moved meanwhile, or when the user accepts it (``accept_jump``).

After a gap in which the body can have turned, both the attitude before the gap and the new one can
be right. A body that reappears in place, turned by more than ``TURNED_UNSEEN``, is withheld until
it has stayed so for ``TURNED_HELD_NS``. When it is accepted, the attitude before the gap is
remembered for ``REMEMBERED_NS``, and a return to it is accepted at once.
"""

from __future__ import annotations

import math

from optitrack_vrpn.core.rotation import angle_between, conjugate, multiply, Quat, Vector
from optitrack_vrpn.stream.bodies.limits import NO_TURN_LIMIT, ReachLimits
from optitrack_vrpn.stream.bodies.poses import Flip, TimedPose, Track
from optitrack_vrpn.stream.bodies.states import Disposition, NEVER_NS, Observed
from optitrack_vrpn.stream.bodies.times import FrameTimes

IN_PLACE_M = 0.3
"""
A flip moves the reported origin by less than this (m): twice its distance from the centroid of the
markers. Chosen for bodies of up to 0.3 m.
"""
TURNED_UNSEEN = math.radians(60.0)
"""
Turn (rad) in a gap that may be a flip: flips by a body's symmetry have 90 degrees or more, and the
body itself may have turned back by a third of it.
"""
TURNED_HELD_NS = 1_000_000_000
"""Time (ns) for which such a body is withheld. Chosen: most flips at reappearance end earlier."""
REMEMBERED_NS = 60_000_000_000
"""
Time (ns) for which the attitude before the gap is remembered after the new one was accepted.
Chosen: a wrong marker solution can last for a minute; later, a flip by the same angle is likelier.
"""


class FlipDetector:
    """
    Recognise flips of one body, and returns from them.

    :param times: the times of its frames.
    :param limits: how far it can have moved.
    """

    __slots__ = ('_times', '_limits', '_turned')

    def __init__(self, times: FrameTimes, limits: ReachLimits) -> None:
        self._times = times
        self._limits = limits
        # Turns from attitudes before a gap to the present one, and how long each is remembered.
        self._turned: list[tuple[Quat, int]] = []

    def shift(self, shift: int) -> None:
        """Shift all times after a step of the sender's clock (ns)."""
        self._turned = [(turn, until + shift) for turn, until in self._turned]

    def find(self, track: Track | None, seen: TimedPose) -> Flip | None:
        """
        Determine the flip between the body and a pose.

        :param track: the present track of the body, if any.
        :returns: None if there is none, or if the pose is elsewhere.
        """
        if not self._limits.last.count:
            return None
        held_ns = NEVER_NS
        if track is not None and track.flip is not None:
            places: list[Vector | None] = [track.last.position]
            attitude, at = track.true_quat, track.last.now
            held_ns = track.flip.held_ns
        else:
            places = self._places(seen.now)
            attitude, at = self._limits.last.quat, self._limits.last.now
        dt = seen.now - at
        angle = angle_between(attitude, seen.quat)
        limit = self._limits.turn_limit(dt)
        slack = min(limit, self._limits.turn_cap)
        if dt >= self._limits.memory() or angle <= limit:
            # The body can have turned.
            if not self.is_gap(dt) or not self._is_turned(attitude, seen):
                return None
            held_ns = TURNED_HELD_NS
        if not self._is_in_place(seen, places, dt):
            return None
        before = [turn for turn, until in self._turned if seen.now < until]
        if before:
            # The present attitude is not certain.
            held_ns = 0 if any(
                angle_between(multiply(attitude, conjugate(turn)), seen.quat) <= TURNED_UNSEEN
                for turn in before) else TURNED_HELD_NS
        if held_ns < NEVER_NS:
            slack = TURNED_UNSEEN
        return Flip(multiply(conjugate(attitude), seen.quat), slack, held_ns)

    def not_back(self, track: Track, seen: TimedPose) -> Disposition | None:
        """
        Explain why a pose is not a flipped body's return from its flip; None if it is.

        The track of a flipped body continues: its place is known, and its attitude up to the flip.
        """
        if track.flip is None:
            return None
        dt = seen.now - track.last.now
        if math.dist(seen.position, track.last.position) > IN_PLACE_M + self._limits.reach(dt):
            return Disposition.MOVED_TOO_FAR
        limit = max(self._limits.turn_limit(dt), track.flip.slack)
        if angle_between(track.true_quat, seen.quat) > limit:
            return Disposition.TURNED_TOO_FAR
        return None

    def remember(self, track: Track, seen: TimedPose, observed: Observed) -> None:
        """Remember the attitude before a gap when another one is accepted after it."""
        flip = track.flip
        if observed is Observed.ACCEPTED or (flip is not None and flip.held_ns == 0):
            self._turned = []    # confirmed by the user, or by a second observation
        if not self._limits.last.count or observed is Observed.ACCEPTED or (
                flip is not None and observed is Observed.RETURNED):
            return
        before = self._limits.last.quat
        if flip.held_ns == 0 if flip is not None else not self._is_turned(before, seen):
            return
        turn = flip.turn if flip is not None else multiply(conjugate(before), seen.quat)
        dt = seen.now - self._limits.last.now
        places = self._places(seen.now)
        # Gap (ns) after which the attitude of a body that has also moved on is not remembered: it
        # was carried. Chosen.
        if dt >= 10_000_000_000 and not self._is_in_place(seen, places, dt):
            self._turned = []
            return
        self._turned = [
            (turn, seen.now + REMEMBERED_NS),
            *((multiply(older, turn), until) for older, until in self._turned
              if seen.now < until)]

    def is_gap(self, dt: int) -> bool:
        """Return whether a body was out of sight in dt (ns), longer than a few lost frames."""
        return dt >= min(self._times.silence_ns, self._limits.memory())

    def _is_turned(self, attitude: Quat, seen: TimedPose) -> bool:
        """Return whether a pose is turned far from an attitude, and from the expected one."""
        return self._limits.turn_cap < NO_TURN_LIMIT and self._limits.turn_rate > 0.0 and min(
            angle_between(attitude, seen.quat), angle_between(
                self._limits.last.expected_quat(seen.now), seen.quat)) > TURNED_UNSEEN

    def _places(self, now: int) -> list[Vector | None]:
        """Return the last and the expected place of the body."""
        last = self._limits.last
        return [last.position, last.expected(now, self._limits.memory_ns)]

    def _is_in_place(self, seen: TimedPose, places: list[Vector | None], dt: int) -> bool:
        """Return whether a pose is near a place, dt (ns) after the body was there."""
        # Increase (m/ns) of that distance with the time out of sight, up to ``memory_s``. Chosen:
        # a drone that brakes or turns at 3.5 m/s^2 is no further from its course after 0.9 s.
        radius = IN_PLACE_M + 1.5e-9 * min(dt, self._limits.memory_ns)
        return any(math.dist(seen.position, place) <= radius
                   for place in places if place is not None)
