# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Runs of consistent poses of a body that is not TRACKED; flips; distance of poses."""

from __future__ import annotations

from enum import Enum
import math
from typing import NamedTuple

from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.motion import angle_between, conjugate, multiply, Quat, Vector

NEVER_NS = 1 << 62
"""Longer than any time (ns); negated, earlier than any time."""
NO_REACH_LIMIT = 1e9
"""Distance (m) that stands for no limit, and from the origin that is not a position any more."""
LEVER_ARM = 0.1
"""
Metres per radian when the distances of a pose from two places are compared. Chosen: markers are
about 0.1 m from the origin of a body.
"""


class Origin(Enum):
    """Where a track began; the value is the reason reported when the body becomes TRACKED."""

    NEAR = 'seen again'
    """Where the body can be, by its last valid pose."""
    FRESH = 'seen'
    """With no valid pose to compare with."""
    FAR = 'the jump has lasted: the body was carried'
    """Where the body cannot be: a jump."""


class TimedPose(NamedTuple):
    """
    One pose.

    :ivar now: sender time (ns).
    :ivar position: (m), as sent.
    :ivar quat: attitude of unit norm.
    """

    now: int
    position: Vector
    quat: Quat


class Flip(NamedTuple):
    """
    A rotation in place that the body cannot have made, or that nobody saw.

    :ivar turn: the rotation about the body's own axes: flipped attitude = true attitude * turn.
    :ivar slack: angle (rad) by which the body itself may have turned meanwhile.
    :ivar held_ns: time (ns) after which the new attitude is accepted; ``NEVER_NS`` for never.
    """

    turn: Quat
    slack: float
    held_ns: int


class Track:
    """
    A run of poses, each consistent with the one before.

    :ivar origin: where it began.
    :ivar began_ns: sender time of its first pose (ns), plus the time out of sight since.
    :ivar last: its latest pose.
    :ivar count: its poses since it was last interrupted.
    :ivar flip: the rotation in place, if the track is a flip.
    """

    __slots__ = ('origin', 'began_ns', 'last', 'count', 'flip')

    def __init__(self, origin: Origin, first: TimedPose, flip: Flip | None = None) -> None:
        self.origin = origin
        self.began_ns = first.now
        self.last = first
        self.count = 1
        self.flip = flip

    def add(self, seen: TimedPose) -> None:
        """Add a pose that is consistent with the latest one."""
        self.last = seen
        self.count += 1

    @property
    def true_quat(self) -> Quat:
        """Return the latest attitude without the flip."""
        if self.flip is None:
            return self.last.quat
        return multiply(self.last.quat, conjugate(self.flip.turn))


class Return(Track):
    """
    Poses of a body that has jumped that do not continue the jump.

    :ivar left: whether the first of them was out of reach from the jump's place.
    :ivar reason: why they are not a return from a flip; None if they can be.
    """

    __slots__ = ('left', 'reason')

    def __init__(
        self, first: TimedPose, flip: Flip | None, left: bool, reason: Disposition | None,
    ) -> None:
        super().__init__(Origin.FAR, first, flip)
        self.left = left
        self.reason = reason


def pose_distance(p: Vector, a: Quat, q: Vector, b: Quat) -> float:
    """
    Return the distance (m) of two poses as one number.

    :param p, a: position (m) and attitude of one.
    :param q, b: those of the other.
    :returns: the distance of the positions plus ``LEVER_ARM`` times the angle (rad).
    """
    return math.dist(p, q) + LEVER_ARM * angle_between(a, b)
