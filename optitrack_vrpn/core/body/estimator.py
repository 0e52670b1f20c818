# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What is made of a body's good poses: where its base is, smoothed, how it moves, how sure.

One ``Estimator`` a body, in the world that is published (east north up, forward left up). A pose
passes the fixed offsets, then the low-pass; the motion is estimated from the pose before the
low-pass, whose delay would be in the velocities too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from optitrack_vrpn.core.body.lowpass import Lowpass, LowpassConfig
from optitrack_vrpn.core.body.motion import diagonal, Motion, MotionConfig
from optitrack_vrpn.core.body.rest import RestConfig, RestDetector
from optitrack_vrpn.core.body.transform import compose, Transform
from optitrack_vrpn.core.quaternion import Quat, Vector


class MotionEstimate(NamedTuple):
    """
    How a body moves at one stamp.

    Covariances are 36 numbers, row by row, in the order of REP 103 (x, y, z, then about x, y, z).

    :ivar velocity, acceleration: in the world (m/s, m/s^2).
    :ivar angular_velocity, angular_acceleration: in world axes (rad/s, rad/s^2).
    :ivar body_velocity, body_angular_velocity: in the body's axes.
    :ivar world_twist_covariance: of velocity and angular velocity in world axes.
    :ivar body_twist_covariance: the same in the body's axes.
    :ivar pose_covariance: of the estimated pose, rotations about fixed axes.
    """

    velocity: Vector
    acceleration: Vector
    angular_velocity: Vector
    angular_acceleration: Vector
    body_velocity: Vector
    body_angular_velocity: Vector
    world_twist_covariance: list[float]
    body_twist_covariance: list[float]
    pose_covariance: list[float]


@dataclass(frozen=True)
class EstimateConfig:
    """
    Say what is made of a body's poses.

    :ivar world_from_mocap: the mocap world in the user's world.
    :ivar body_from_base: the robot's base in Motive's rigid body.
    :ivar lowpass: smoothing of the pose; off by default.
    :ivar motion: noises of the motion estimate.
    :ivar rest: when a body is at rest.
    :ivar learn_noise: take the measurement noise from the body at rest, once it has been.
    :ivar estimate_motion: whether velocities are wanted at all.
    """

    world_from_mocap: Transform = field(default_factory=Transform)
    body_from_base: Transform = field(default_factory=Transform)
    lowpass: LowpassConfig = field(default_factory=LowpassConfig)
    motion: MotionConfig = field(default_factory=MotionConfig)
    rest: RestConfig = field(default_factory=RestConfig)
    learn_noise: bool = True
    estimate_motion: bool = False

    def with_settings(self, settings: Mapping[str, Any]) -> EstimateConfig:
        """
        Apply what is set for one body.

        :param settings: ``offset`` (a transform: the base in Motive's body), and fields of
            ``LowpassConfig`` and ``MotionConfig`` as ``lowpass.<field>``, ``motion.<field>``.
        :returns: this configuration with them.
        :raises ConfigurationError: a value is not allowed.
        """
        parts: dict[str, dict[str, Any]] = {'lowpass': {}, 'motion': {}}
        for key, value in settings.items():
            if key != 'offset':
                section, _, leaf = key.partition('.')
                parts[section][leaf] = value
        return replace(
            self, body_from_base=settings.get('offset', self.body_from_base),
            lowpass=replace(self.lowpass, **parts['lowpass']),
            motion=replace(self.motion, **parts['motion']))


class Estimator:
    """
    Follow one body's good poses.

    :param config: what to make of them.
    :ivar idle: whether poses pass untouched and unwatched.
    """

    __slots__ = ('config', 'idle', 'lowpass', 'motion', 'rest', '_offset', '_resets')

    def __init__(self, config: EstimateConfig) -> None:
        self.config = config
        self._resets = 0
        self._offset = (config.world_from_mocap != Transform()
                        or config.body_from_base != Transform())
        self.lowpass = Lowpass(config.lowpass) if config.lowpass.cutoff_hz > 0.0 else None
        self.motion = Motion(config.motion) if config.estimate_motion else None
        self.rest = RestDetector(config.rest) if config.learn_noise else None
        self.idle = not (self._offset or self.lowpass or self.motion or self.rest)

    def update(
        self, stamp_ns: int, position: Vector, quat_xyzw: Quat, rate_hz: float, resets: int,
    ) -> tuple[int, Vector, Quat]:
        """
        Take in one good pose.

        :param stamp_ns: its stamp (ns).
        :param position: position in the mocap world (m).
        :param quat_xyzw: attitude of unit norm, its sign continuous.
        :param rate_hz: the body's own rate.
        :param resets: the body's count of discontinuities; when it grows, nothing of what came
            before continues.
        :returns: stamp, position and attitude to publish.
        """
        if resets != self._resets:
            self._resets = resets
            self.reset()
        if self._offset:
            position, quat_xyzw = self.place(position, quat_xyzw)
        if self.rest is not None and self.rest.update(position, quat_xyzw):
            noise = self.rest.noise()
            if noise is not None and self.motion is not None:
                self.motion.set_noise(*noise)
        if self.motion is not None:
            self.motion.update(stamp_ns, position, quat_xyzw)
        if self.lowpass is not None:
            return self.lowpass.update(stamp_ns, position, quat_xyzw, rate_hz)
        return stamp_ns, position, quat_xyzw

    def place(self, position: Vector, quat_xyzw: Quat) -> tuple[Vector, Quat]:
        """
        Apply the fixed offsets alone.

        :param position: position in the mocap world (m).
        :param quat_xyzw: attitude of unit norm.
        :returns: position and attitude of the base in the user's world.
        """
        if not self._offset:
            return position, quat_xyzw
        return compose(
            compose(self.config.world_from_mocap, Transform(position, quat_xyzw)),
            self.config.body_from_base)

    def reset(self) -> None:
        """Let nothing of what came before go on: the body jumped, or was unseen for long."""
        for part in (self.lowpass, self.motion, self.rest):
            if part is not None:
                part.reset()

    def new_epoch(self) -> None:
        """Begin anew what counts by stamps: these have stepped, while the body has not moved."""
        for part in (self.lowpass, self.motion):
            if part is not None:
                part.reset()

    @property
    def lowpass_delay_s(self) -> float:
        """Group delay of the low-pass at low frequencies (s); 0 without one."""
        return 0.0 if self.lowpass is None else self.lowpass.delay_s

    def motion_estimate(self) -> MotionEstimate | None:
        """Give the motion at the last pose, or None while it is not known."""
        motion = self.motion
        if motion is None or not motion.valid:
            return None
        return MotionEstimate(
            motion.velocity, motion.acceleration, motion.angular_velocity,
            motion.angular_acceleration, motion.body_velocity(), motion.body_angular_velocity(),
            motion.world_twist_covariance(), motion.body_twist_covariance(),
            motion.pose_covariance())

    def pose_covariance(self) -> list[float]:
        """
        Give the covariance of a measured pose: learned at rest, else as configured.

        :returns: 36 numbers, row by row, in the order of REP 103.
        """
        learned = self.rest.covariance() if self.rest is not None else None
        if learned is not None:
            return learned
        noise = self.config.motion
        return diagonal(noise.position_noise ** 2, noise.attitude_noise ** 2)
