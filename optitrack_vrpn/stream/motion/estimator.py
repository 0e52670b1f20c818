# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Estimate from a body's valid poses: pose of the base, smoothed pose, motion, covariances.

One ``Estimator`` per body, in the published world (east north up, forward left up). Noise and
motion are estimated for the measured rigid body and then transferred to the robot's base
(``lever_arm.py``): at the base, the noises of attitude and position would be correlated.

The low-pass smooths the pose of the base only. The motion estimate does not use it: it has its
own stamp and the pose measured at that stamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from optitrack_vrpn.core.rotation import (
    compose, conjugate, IDENTITY, multiply, Quat, rotate, Transform, Vector)
from optitrack_vrpn.stream.motion import lever_arm as lever
from optitrack_vrpn.stream.motion.kalman import diagonal, FilteredMotion
from optitrack_vrpn.stream.motion.lowpass import Lowpass, LowpassConfig
from optitrack_vrpn.stream.motion.rest import RestDetector
from optitrack_vrpn.stream.motion.settings import MotionConfig

_new: Final = tuple.__new__


class MotionEstimate(NamedTuple):
    """
    Pose and motion of the robot's base at one stamp; no part of it is smoothed.

    Covariances are 36 numbers, row by row, in the order of REP 103 (x, y, z, then about x, y, z).

    :ivar stamp_ns: stamp (ns); a low-pass does not change it.
    :ivar position, quat_xyzw: the pose as measured (m).
    :ivar velocity, acceleration: in the world (m/s, m/s^2).
    :ivar angular_velocity, angular_acceleration: in world axes (rad/s, rad/s^2).
    :ivar body_velocity, body_angular_velocity: in the base's axes.
    :ivar body_twist_covariance: of these two.
    :ivar pose_covariance: of the pose, rotations about fixed axes.
    """

    stamp_ns: int
    position: Vector
    quat_xyzw: Quat
    velocity: Vector
    acceleration: Vector
    angular_velocity: Vector
    angular_acceleration: Vector
    body_velocity: Vector
    body_angular_velocity: Vector
    body_twist_covariance: list[float]
    pose_covariance: list[float]


@dataclass(frozen=True)
class EstimateConfig:
    """
    Configure what is estimated from a body's poses.

    :ivar world_from_mocap: the mocap world in the user's world.
    :ivar body_from_base: the robot's base in Motive's rigid body.
    :ivar lowpass: smoothing of the pose; off by default.
    :ivar motion: noises of the motion estimate.
    :ivar learn_noise: learn the measurement noise whenever the body is at rest.
    :ivar estimate_motion: whether velocities are estimated.
    """

    world_from_mocap: Transform = field(default_factory=Transform)
    body_from_base: Transform = field(default_factory=Transform)
    lowpass: LowpassConfig = field(default_factory=LowpassConfig)
    motion: MotionConfig = field(default_factory=MotionConfig)
    learn_noise: bool = True
    estimate_motion: bool = False

    def with_settings(self, settings: Mapping[str, Any]) -> EstimateConfig:
        """
        Apply the settings of one body.

        :param settings: ``offset`` (a transform: the base in Motive's body), and fields of
            ``LowpassConfig`` and ``MotionConfig`` as ``lowpass.<field>``, ``motion.<field>``;
            others are ignored.
        :returns: this configuration with these settings.
        :raises ConfigurationError: a value is not allowed.
        """
        parts: dict[str, dict[str, Any]] = {'lowpass': {}, 'motion': {}}
        for key, value in settings.items():
            section, _, leaf = key.partition('.')
            if section in parts:
                parts[section][leaf] = value
        return replace(
            self, body_from_base=settings.get('offset', self.body_from_base),
            lowpass=replace(self.lowpass, **parts['lowpass']),
            motion=replace(self.motion, **parts['motion']))


class Estimator:
    """
    Estimate pose and motion from the valid poses of one body.

    :param config: what to estimate.
    :ivar idle: whether poses pass unchanged and nothing is estimated.
    :ivar placed: stamp (ns), position (m) and attitude of the base at the last pose, before the
        low-pass.
    :ivar lever: lever arm from the origin of Motive's body to the base, in the base's axes (m).
    """

    __slots__ = ('config', 'idle', 'lowpass', 'motion', 'rest', 'placed', 'lever', '_world',
                 '_base', '_resets', '_covariance', '_covariance_of')

    def __init__(self, config: EstimateConfig) -> None:
        self.config = config
        self._resets = 0
        self._covariance: list[float] | None = None
        self._covariance_of = 0
        world, base = config.world_from_mocap, config.body_from_base
        self._world = world if world != Transform() else None
        self._base = base if base != Transform() else None
        self.lever = rotate(conjugate(base.quat_xyzw), base.position)
        self.placed: tuple[int, Vector, Quat] = (0, (0.0, 0.0, 0.0), IDENTITY)
        self.lowpass = Lowpass(config.lowpass) if config.lowpass.cutoff_hz > 0.0 else None
        self.motion = FilteredMotion(config.motion) if config.estimate_motion else None
        self.rest = RestDetector() if config.learn_noise else None
        self.idle = not (
            self._world or self._base or self.lowpass or self.motion or self.rest)

    def update(
        self, stamp_ns: int, position: Vector, quat_xyzw: Quat, rate_hz: float, resets: int,
    ) -> tuple[int, Vector, Quat]:
        """
        Process one valid pose.

        :param stamp_ns: its stamp (ns).
        :param position: position in the mocap world (m).
        :param quat_xyzw: attitude of unit norm, its sign continuous.
        :param rate_hz: the body's own rate.
        :param resets: the body's count of discontinuities; when it grows, the estimates restart.
        :returns: stamp, position and attitude to publish.
        """
        if resets != self._resets:
            self._resets = resets
            self.reset()
        if self._world is not None:
            position, quat_xyzw = compose(self._world, Transform(position, quat_xyzw))
        if self.rest is not None and self.rest.update(position, quat_xyzw):
            noise = self.rest.noise()
            if noise is not None and self.motion is not None:
                self.motion.set_noise(*noise)
        if self.motion is not None:
            self.motion.update(stamp_ns, position, quat_xyzw)
        if self._base is not None:
            position, quat_xyzw = compose(Transform(position, quat_xyzw), self._base)
        self.placed = (stamp_ns, position, quat_xyzw)
        if self.lowpass is not None:
            return self.lowpass.update(stamp_ns, position, quat_xyzw, rate_hz)
        return stamp_ns, position, quat_xyzw

    def place(self, position: Vector, quat_xyzw: Quat) -> tuple[Vector, Quat]:
        """Apply the fixed offsets alone: mocap world (m) to the base in the user's world."""
        return compose(
            compose(self.config.world_from_mocap, Transform(position, quat_xyzw)),
            self.config.body_from_base)

    def reset(self) -> None:
        """Restart all estimates: the body jumped, or was out of sight for too long."""
        for part in (self.lowpass, self.motion, self.rest):
            if part is not None:
                part.reset()

    def new_epoch(self) -> None:
        """Restart the estimates that use stamps: these have stepped, the body has not moved."""
        for part in (self.lowpass, self.motion):
            if part is not None:
                part.reset()

    def move_stamps(self, step_ns: int) -> None:
        """Continue on stamps that have moved by a step (ns), while the body's motion has not."""
        if self.lowpass is not None:
            self.lowpass.stamp_ns += step_ns
        if self.motion is not None:
            self.motion.stamp_ns += step_ns

    @property
    def lowpass_delay_s(self) -> float:
        """Group delay of the low-pass at low frequencies (s); 0 without one."""
        return 0.0 if self.lowpass is None else self.lowpass.delay_s

    def motion_estimate(self) -> MotionEstimate | None:
        """Return the motion at the last pose, or None while it is not known."""
        motion = self.motion
        stamp_ns, position, quat = self.placed
        if motion is None or not motion.valid or motion.stamp_ns != stamp_ns:
            return None
        velocity, acceleration = motion.velocity, motion.acceleration
        rate, change = motion.angular_velocity, motion.angular_acceleration
        if self._base is None:
            body_velocity, body_rate = motion.body_velocity(), motion.body_angular_velocity()
            # Equivalent to MotionEstimate(...), without its Python-level __new__.
            return _new(MotionEstimate, (
                stamp_ns, position, quat, velocity, acceleration, rate, change, body_velocity,
                body_rate, motion.body_twist_covariance(body_velocity, body_rate),
                self.pose_covariance(quat)))
        world_from_base = multiply(motion.quat, self._base.quat_xyzw)
        base_from_world = conjugate(world_from_base)
        arm = rotate(world_from_base, self.lever)
        velocity = lever.velocity_at(arm, velocity, rate)
        body_velocity = rotate(base_from_world, velocity)
        body_rate = rotate(base_from_world, rate)
        return MotionEstimate(
            stamp_ns, position, quat, velocity,
            lever.acceleration_at(arm, acceleration, rate, change), rate, change,
            body_velocity, body_rate,
            lever.twist_covariance_at(
                self.lever, motion.linear, motion.angular, body_velocity, body_rate),
            self.pose_covariance(quat))

    def pose_covariance(self, quat_xyzw: Quat) -> list[float]:
        """Return the covariance (36 numbers, REP 103) of a measured pose of the base."""
        rest = self.rest
        learned = rest.learned if rest is not None else 0
        covariance = self._covariance
        if covariance is None or learned != self._covariance_of:
            covariance = rest.covariance() if rest is not None else None
            if covariance is None:
                noise = self.config.motion
                covariance = diagonal(noise.position_noise ** 2, noise.attitude_noise ** 2)
            # The same list while it holds the same, which is then serialised once.
            self._covariance, self._covariance_of = covariance, learned
        if self._base is None:
            return covariance
        return lever.pose_covariance_at(rotate(quat_xyzw, self.lever), covariance)
