# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The last valid pose of a body, and how far it can have moved and turned since."""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.core.rotation import (
    angle_between, conjugate, from_rotation_vector, IDENTITY, multiply, Quat, to_rotation_vector,
    Vector)
from optitrack_vrpn.core.stats import GAP_INTERVALS
from optitrack_vrpn.stream.bodies.poses import NO_REACH_LIMIT, TimedPose
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import NEVER_NS
from optitrack_vrpn.stream.bodies.times import FrameRate

LATE_NS = 20_000_000
"""
Shortest time (ns) for which the limits of motion are computed, unless the frame interval is
shorter: a frame can have a late stamp, and the body then has moved for a whole interval until the
next one. Chosen: one interval at 50 Hz.
"""
SAMPLE_NS = 40_000_000
"""
Time (ns) between the two poses from which velocity and turn rate are measured. Chosen: noise of
0.3 mm then is 10 mm/s.
"""
SHORTEST_SAMPLE_NS = 20_000_000
"""
Shortest time (ns) between these two poses. A sender that was late sends frames almost at once, and
noise over their intervals would count as a fast turn. Chosen: half of SAMPLE_NS.
"""
EXPECTED_NS = 500_000_000
"""
Time (ns) for which a body out of sight is expected to continue its last motion. Chosen: a drone at
3 m/s brakes in about that time.
"""
SMALL_TURN: Final = math.radians(60.0)
"""
Turn (rad) below which an attitude is a bad fit, if the body has not turned: usual patterns of
markers have no smaller symmetry than 90 degrees, and the body may have turned back by a third.
"""
TURNING_NS = 2_000_000_000
"""Longest time (ns) out of sight for which a turn rate explains a turn. Chosen: two swings."""
NO_TURN_LIMIT = 4.9
"""Angle (rad) that stands for no limit: there the short form of 1 - cos(angle / 2) exceeds 1."""


class LastPose:
    """
    The last valid pose of a body, and its motion.

    :ivar now: sender time (ns), ``-NEVER_NS`` for none.
    :ivar position: (m), as sent.
    :ivar quat: attitude as published.
    :ivar raw: attitude as sent.
    :ivar velocity: (m/ns), None while it has not been measured.
    :ivar spin: angular velocity (rad/ns).
    :ivar turn_rate: the largest turn rate of late (rad/ns).
    :ivar mask: number of poses between two measurements, less one.
    :ivar count: number of valid poses so far.
    """

    __slots__ = ('now', 'position', 'quat', 'raw', 'velocity', 'spin', 'turn_rate', 'mask',
                 'count', '_sample_ns', '_sample_position', '_sample_quat')

    def __init__(self) -> None:
        self.now = -NEVER_NS
        self.position: Vector = (0.0, 0.0, 0.0)
        self.quat: Quat = IDENTITY
        self.raw: Quat = IDENTITY
        self.velocity: Vector | None = None
        self.spin: Vector = (0.0, 0.0, 0.0)
        self.turn_rate = 0.0
        self.mask = self.count = 0
        # The valid pose from which the next measurement starts.
        self._sample_ns = 0
        self._sample_position: Vector = (0.0, 0.0, 0.0)
        self._sample_quat: Quat | None = None

    def interrupt(self) -> None:
        """Begin a new measurement: the motion to the next pose is not that of the body."""
        self._sample_quat = None

    def shift(self, shift: int) -> None:
        """Shift all times after a step of the sender's clock (ns)."""
        if self.now > -NEVER_NS:
            self.now += shift
            self._sample_ns += shift
        self.interrupt()

    def measure(self, interval: float) -> None:
        """
        Measure the motion since the last sample, about every ``SAMPLE_NS``.

        :param interval: the frame interval (ns).
        """
        dt = self.now - self._sample_ns
        before = self._sample_quat
        # Decay with a time constant of 1 s (chosen: time between the swings of a hand).
        kept = math.exp(-1e-9 * max(dt, 0))
        if before is None:
            self.turn_rate *= kept
        elif dt >= SHORTEST_SAMPLE_NS:
            x, y, z = to_rotation_vector(multiply(self.quat, conjugate(before)))
            self.spin = x / dt, y / dt, z / dt
            self.turn_rate = max(math.hypot(x, y, z) / dt, self.turn_rate * kept)
            x, y, z = self.position
            lx, ly, lz = self._sample_position
            self.velocity = (x - lx) / dt, (y - ly) / dt, (z - lz) / dt
        if before is None or dt >= SHORTEST_SAMPLE_NS:
            self._sample_ns, self._sample_quat = self.now, self.quat
            self._sample_position = self.position
        mask = 1
        # Most frames between two measurements, for a sender whose frame interval seems short.
        # Chosen.
        while 0.0 < mask * interval < SAMPLE_NS and mask < 64:
            mask *= 2
        self.mask = mask - 1

    def expected(self, sender_time_ns: int, longest_ns: int = EXPECTED_NS) -> Vector | None:
        """
        Predict the position of the body at its last velocity.

        :param sender_time_ns: sender time of the prediction (ns).
        :param longest_ns: time after which the body is expected to stop (ns).
        :returns: position (m), as sent; None while its motion has not been measured.
        """
        if self.velocity is None:
            return None
        dt = min(max(0, sender_time_ns - self.now), longest_ns)
        x, y, z = self.position
        vx, vy, vz = self.velocity
        return x + vx * dt, y + vy * dt, z + vz * dt

    def expected_quat(self, sender_time_ns: int) -> Quat:
        """Predict the attitude of the body at its last angular velocity, as ``expected`` does."""
        dt = min(max(0, sender_time_ns - self.now), EXPECTED_NS)
        x, y, z = self.spin
        return multiply(from_rotation_vector((x * dt, y * dt, z * dt)), self.quat)


class Thresholds:
    """
    The settings of one body, prepared for comparison.

    A limit that is off becomes one that no finite value exceeds, and a time of 0 ``NEVER_NS``.

    :param config: the settings.
    :ivar margin: distance (m) that noise may add.
    :ivar speed: largest speed (m/ns).
    :ivar turn_margin: angle (rad) that noise may add.
    :ivar turn_rate: largest turn rate (rad/ns).
    :ivar turn_cap: largest turn (rad) within ``memory_ns``.
    :ivar memory_ns: the setting ``memory_s`` (ns).
    :ivar frozen_ns: the setting ``frozen_after_s`` (ns).
    :ivar jump_ns: the setting ``jump_accept_s`` (ns).
    :ivar attitude_ns: the setting ``attitude_accept_s`` (ns).
    :ivar acquire_frames: the setting of this name.
    """

    __slots__ = ('config', 'margin', 'speed', 'turn_margin', 'turn_rate', 'turn_cap', 'memory_ns',
                 'frozen_ns', 'jump_ns', 'attitude_ns', 'acquire_frames')

    def __init__(self, config: BodyConfig) -> None:
        self.config = config
        self.margin = config.position_margin if config.max_speed > 0 else NO_REACH_LIMIT
        self.speed = config.max_speed * 1e-9
        self.turn_cap = config.max_turn if config.max_turn > 0 else NO_TURN_LIMIT
        self.turn_margin = (
            config.attitude_margin if config.max_angular_rate > 0 else NO_TURN_LIMIT)
        self.turn_rate = config.max_angular_rate * 1e-9
        self.memory_ns = round(config.memory_s * 1e9)
        self.frozen_ns = round(config.frozen_after_s * 1e9) or NEVER_NS
        self.jump_ns = round(config.jump_accept_s * 1e9) or NEVER_NS
        self.attitude_ns = round(config.attitude_accept_s * 1e9) or NEVER_NS
        self.acquire_frames = config.acquire_frames


class ReachLimits:
    """
    Compare poses with the motion that is possible for a body.

    :param last: the last valid pose.
    :param rate: the frame rate.
    :param thresholds: the settings of the body.
    :ivar thresholds: the settings, which all parts of a tracker read here.
    """

    __slots__ = ('last', 'rate', 'thresholds')

    def __init__(self, last: LastPose, rate: FrameRate, thresholds: Thresholds) -> None:
        self.last = last
        self.rate = rate
        self.thresholds = thresholds

    def memory(self) -> float:
        """Return the time (ns) for which poses are compared with the last valid one."""
        return max(self.thresholds.memory_ns, 4 * self.rate.interval)

    def reach(self, dt: int) -> float:
        """Return the largest distance (m) that the body can move in dt (ns)."""
        return self.thresholds.margin + self.thresholds.speed * dt

    def reach_late(self, dt: int) -> float:
        """Return ``reach`` for a frame dt (ns) after another that can have a late stamp."""
        return self.reach(max(dt, min(round(self.rate.interval), LATE_NS)))

    def possible_turn(self, dt: int) -> float:
        """Return the largest angle (rad) that the body can turn by in dt (ns)."""
        allowed = self.thresholds
        return min(allowed.turn_margin + allowed.turn_rate * dt,
                   max(allowed.turn_cap, 2.0 * self.last.turn_rate * dt))

    def turn_limit(self, dt: int) -> float:
        """
        Return the largest angle (rad) by which a turn in dt (ns) is believed without a hold.

        Within a frame interval it is what the body can turn by. For the time out of sight after
        it, it is what its turn rate of late explains: the body has stopped, or turned twice as
        fast as expected.
        """
        interval = self.rate.interval
        dt = max(dt, min(round(interval), LATE_NS))
        unseen = dt - GAP_INTERVALS * interval
        if interval <= 0.0 or unseen <= 0.0:
            return self.possible_turn(dt)
        frame = self.possible_turn(round(dt - unseen))
        return max(frame, min(
            frame + self.last.turn_rate * min(unseen, TURNING_NS), SMALL_TURN))

    def reaches(self, before: TimedPose, seen: TimedPose) -> bool:
        """Return whether a body can have come from one pose to another."""
        dt = seen.now - before.now
        return (math.dist(seen.position, before.position) <= self.reach_late(dt)
                and angle_between(before.quat, seen.quat) <= self.turn_limit(dt))
