# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""How far a body can have moved and turned since its last valid pose."""

from __future__ import annotations

import math

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.statistics import FrameStatistics, NEVER_NS
from optitrack_vrpn.motion.quaternion import angle_between, IDENTITY, Quat, Vector

LATE_NS = 20_000_000
"""
Shortest time (ns) for which the limits of motion are computed, unless the frame interval is
shorter: a frame can have a late stamp, and the body then has moved for a whole interval until the
next one. Chosen: one interval at 50 Hz. Halved, late stamps of slow senders are jumps; doubled,
slow senders have wider limits.
"""
SAMPLE_NS = 40_000_000
"""
Time (ns) between the two poses from which velocity and turn rate are measured. Chosen: noise of
0.3 mm then is 10 mm/s. Halved, noise doubles; doubled, a turn is recognised later.
"""
MAX_STRIDE = 64
"""
Most frames between two measurements, for a sender whose frame interval seems short. Chosen.
Halved, they cost more; doubled, the first one after such a time comes later.
"""
SHORTEST_SAMPLE_NS = 20_000_000
"""
Shortest time (ns) between these two poses. A sender that was late sends frames almost at once, and
noise over their intervals would count as a fast turn. Chosen: half of SAMPLE_NS. Halved, noise
doubles after a delay; doubled, frames that are slightly early delay a measurement.
"""
EXPECTED_NS = 500_000_000
"""
Time (ns) for which a body out of sight is expected to continue its last motion. Chosen: a drone at
3 m/s brakes in about that time. Halved or doubled, swaps after a gap are detected less reliably
for bodies that continue straight, or for those that turn.
"""
NO_TURN_LIMIT = 4.9
"""Angle (rad) that stands for no limit: there the short form of 1 - cos(angle / 2) exceeds 1."""
NO_REACH_LIMIT = 1e9
"""Distance (m) that stands for no limit, and from the origin that is not a position any more."""


class MotionLimits(FrameStatistics):
    """
    Compare poses with the motion that is possible for a body.

    :param config: thresholds.
    """

    __slots__ = (
        '_good_ns', '_position', '_quat', '_raw', '_turn_seen', '_velocity', '_sample_ns',
        '_sample_position', '_sample_quat', '_sample_mask', '_reach_margin', '_reach_speed',
        '_turn_margin', '_turn_rate', '_turn_cap', '_memory_ns')

    def __init__(self, config: BodyConfig) -> None:
        super().__init__(config)
        # The last valid pose: time, position, attitude as published and as sent.
        self._good_ns = -NEVER_NS
        self._position: Vector = (0.0, 0.0, 0.0)
        self._quat: Quat = IDENTITY
        self._raw: Quat = IDENTITY
        # The measured turn rate (rad/ns) and velocity (m/ns), the valid pose from which the next
        # measurement starts, and a mask: the number of poses between two, less one.
        self._turn_seen = 0.0
        self._velocity: Vector | None = None
        self._sample_ns = 0
        self._sample_position: Vector = (0.0, 0.0, 0.0)
        self._sample_quat: Quat | None = None
        self._sample_mask = 0
        self._set_limits(config)

    def _set_limits(self, config: BodyConfig) -> None:
        """Prepare the limits; one that is off becomes a limit that no finite value exceeds."""
        self.config = config
        self._reach_margin = config.position_margin if config.max_speed > 0 else NO_REACH_LIMIT
        self._reach_speed = config.max_speed * 1e-9
        self._turn_cap = config.max_turn if config.max_turn > 0 else NO_TURN_LIMIT
        self._turn_margin = (
            config.attitude_margin if config.max_angular_rate > 0 else NO_TURN_LIMIT)
        self._turn_rate = config.max_angular_rate * 1e-9
        self._memory_ns = round(config.memory_s * 1e9)
        self._measure_silence()

    @property
    def last_good(self) -> tuple[int, Vector, Quat] | None:
        """Return sender time (ns), position and attitude of the last valid pose, or None."""
        if self._good_ns == -NEVER_NS:
            return None
        return self._good_ns, self._position, self._quat

    def expected(self, sender_time_ns: int, longest_ns: int = EXPECTED_NS) -> Vector | None:
        """
        Predict the position of the body at its last velocity.

        :param sender_time_ns: sender time of the prediction (ns).
        :param longest_ns: time after which the body is expected to stop (ns).
        :returns: position (m), as sent; None while its motion has not been measured.
        """
        if self._velocity is None:
            return None
        dt = min(max(0, sender_time_ns - self._good_ns), longest_ns)
        x, y, z = self._position
        vx, vy, vz = self._velocity
        return x + vx * dt, y + vy * dt, z + vz * dt

    def _memory(self) -> float:
        """Return the time (ns) for which poses are compared with the last valid one."""
        return max(self._memory_ns, 4 * self._interval)

    def _reach(self, dt: int) -> float:
        """Return the largest distance (m) that the body can move in dt (ns)."""
        return self._reach_margin + self._reach_speed * dt

    def _turn_limit(self, dt: int) -> float:
        """Return the largest angle (rad) that the body can turn by in dt (ns)."""
        dt = max(dt, min(round(self._interval), LATE_NS))
        return min(self._turn_margin + self._turn_rate * dt,
                   max(self._turn_cap, 2.0 * self._turn_seen * dt))

    def _too_far(self, position: Vector, quat: Quat, dt: int, origin: Vector | None = None,
                 attitude: Quat | None = None) -> Disposition | None:
        """Explain why a body cannot be here dt (ns) after a pose; default: its last valid one."""
        reach = self._reach(max(dt, min(round(self._interval), LATE_NS)))
        if math.dist(position, origin or self._position) > reach:
            return Disposition.MOVED_TOO_FAR
        if angle_between(attitude or self._quat, quat) > self._turn_limit(dt):
            return Disposition.TURNED_TOO_FAR
        return None

    def _measure_motion(self) -> None:
        """Measure velocity and turn rate since the last sample, about every ``SAMPLE_NS``."""
        dt = self._good_ns - self._sample_ns
        before = self._sample_quat
        if before is not None and dt >= SHORTEST_SAMPLE_NS:
            rate = angle_between(before, self._quat) / dt
            # Decay with a time constant of 1 s (chosen: time between the swings of a hand).
            self._turn_seen = max(rate, self._turn_seen * math.exp(-1e-9 * dt))
            x, y, z = self._position
            lx, ly, lz = self._sample_position
            self._velocity = (x - lx) / dt, (y - ly) / dt, (z - lz) / dt
        if before is None or dt >= SHORTEST_SAMPLE_NS:
            self._sample_ns, self._sample_quat = self._good_ns, self._quat
            self._sample_position = self._position
        mask = 1
        while 0.0 < mask * self._interval < SAMPLE_NS and mask < MAX_STRIDE:
            mask *= 2
        self._sample_mask = mask - 1
        self._measure_silence()
