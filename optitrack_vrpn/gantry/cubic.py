# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The cubic of one cycle for the stepper controller: three coefficients per axis."""

from typing import Iterator, NamedTuple

#: Points that the stepper controller interpolates per cycle: 1000 Hz at 100 Hz, as in the thesis.
#: Halved or doubled, limits are checked at fewer or more points.
POINTS = 10


class Cubic(NamedTuple):
    """
    Position over one cycle: start + a t + b t^2 + c t^3.

    :ivar start: position at the start of the cycle.
    :ivar a: velocity at the start of the cycle (unit/s).
    :ivar b: coefficient of t^2.
    :ivar c: coefficient of t^3.
    """

    start: float
    a: float
    b: float
    c: float

    def at(self, t: float) -> float:
        """Return the position at t (s from the start of the cycle)."""
        return self.start + t * (self.a + t * (self.b + t * self.c))

    def points(self, dt: float, count: int = POINTS) -> Iterator[float]:
        """Return the positions at the ends of equal parts of the cycle."""
        for k in range(1, count + 1):
            yield self.at(k * dt / count)


def between(start: float, velocity: float, end: float, end_velocity: float, dt: float) -> Cubic:
    """
    Join two states by the cubic Hermite polynomial, continuous in position and velocity.

    :param dt: time between the states (s).
    """
    mean = (end - start) / dt
    return Cubic(start, velocity, (3.0 * mean - 2.0 * velocity - end_velocity) / dt,
                 (velocity + end_velocity - 2.0 * mean) / (dt * dt))
