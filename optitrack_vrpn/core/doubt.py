# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Attitudes that only time made valid: not followed by what moves or flies.

The node publishes a pose that no motion in sight has led to when it has lasted for a time. The
status of the body counts this (``accepted_by_time``) and gives the angle of the rotation that was
accepted in this way since the last certain attitude (``accepted_by_time_deg``). Later motion of
the body does not change this angle. The angle becomes 0 when the body turns back in place within a
minute, or when the user accepts the attitude. A vehicle that flies, or a machine in closed loop,
must not follow a turn of more than ``MOST_DEG``: it could be a wrong solution.
"""

from collections.abc import Mapping
import math
from typing import NamedTuple

#: Angle (degrees) from which an uncertain attitude is not followed: the smallest symmetry of usual
#: marker patterns is 60 degrees; a smaller error does not turn a vehicle over.
MOST_DEG = 45.0


class Doubt(NamedTuple):
    """
    Uncertainty of an attitude, as the status of the body states it.

    :ivar times: how often time alone made a pose valid.
    :ivar degrees: angle of the rotation that time has accepted since the last certain attitude.
    """

    times: int = 0
    degrees: float = 0.0


def doubt_of(values: Mapping[str, str]) -> Doubt:
    """Read the values of a status; without them, as of another program, both are 0."""
    count, degrees = values.get('accepted_by_time', ''), values.get('accepted_by_time_deg', '')
    try:
        angle = float(degrees) if len(degrees) < 30 else 0.0
    except ValueError:
        angle = 0.0
    return Doubt(int(count) if count.isdecimal() and len(count) < 20 else 0,
                 angle if math.isfinite(angle) else 180.0)


class DoubtGuard:
    """
    Decide whether the attitude of one body is followed.

    :ivar lost: whether it is not.
    """

    def __init__(self) -> None:
        self._guarding = False
        self._base = self._now = Doubt()

    def guard(self, on: bool) -> None:
        """Begin or end to guard: armed or disarmed, loop closed or open."""
        if on != self._guarding:
            self._guarding = on
            self._base = self._now

    def report(self, doubt: Doubt, turned: bool = True) -> None:
        """
        Process the status of the body.

        :param turned: whether the published attitude can have changed with these values: the body
            has had a reset since the last status. If the uncertainty ends without a reset, the
            user has accepted the attitude that is followed.
        """
        accepted = not turned and doubt.times == self._now.times and (
            doubt.degrees == 0.0 < self._now.degrees)
        if accepted or doubt.times < self._now.times:
            # A lower count shows that the node was restarted: its earlier counts are void.
            self._base = Doubt(doubt.times, 0.0)
        self._now = doubt

    @property
    def lost(self) -> bool:
        """Return whether the attitude is uncertain, so that it must not be followed."""
        return self._guarding and (
            abs(self._now.degrees - self._base.degrees) > MOST_DEG
            or (self._now.times != self._base.times and self._base.degrees > MOST_DEG))

    @property
    def reason(self) -> str:
        """Return why it is not followed, '' if it is."""
        if not self.lost:
            return ''
        if self._now.degrees == 0.0:
            return (f'its attitude has turned back by {self._base.degrees:.0f} degrees from an '
                    'attitude that was accepted by time alone')
        return (f'its attitude was accepted by time alone, after a turn of '
                f'{self._now.degrees:.0f} degrees')

    @property
    def remedy(self) -> str:
        """Return how the user makes it certain; '' if the user cannot, or if it is followed."""
        return '' if not self.lost or self._now.degrees == 0.0 else (
            'if it is right, call the service accept_pose of the body')
