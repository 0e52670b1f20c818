# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames, rotations, velocities, smoothing and noise of one body."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.motion.estimator import EstimateConfig, Estimator, MotionEstimate
    from optitrack_vrpn.motion.euler import Angles, angles_from_quat, quat_from_angles
    from optitrack_vrpn.motion.frames import (
        AxesConfig, enu_to_ned, frame_maps, FrameMaps, MOTIVE_X, Pose, position_to_enu_north,
        position_to_ned, QUAT_ENU_NED, quat_to_enu_north, quat_to_ned)
    from optitrack_vrpn.motion.gains import Gains
    from optitrack_vrpn.motion.kalman import diagonal, Motion
    from optitrack_vrpn.motion.lever_arm import acceleration_at, velocity_at
    from optitrack_vrpn.motion.lowpass import Lowpass, LowpassConfig
    from optitrack_vrpn.motion.quaternion import (
        angle_between, conjugate, from_rotation_vector, IDENTITY, multiply, normalised, Quat,
        rotate, to_rotation_vector, Vector)
    from optitrack_vrpn.motion.rest import RestDetector, small_rotation
    from optitrack_vrpn.motion.server_rate import angular_rate
    from optitrack_vrpn.motion.settings import MotionConfig
    from optitrack_vrpn.motion.stamp_error import with_stamp_error
    from optitrack_vrpn.motion.transform import (
        body_from_base, compose, Transform, world_from_mocap)
else:
    __all__, __getattr__ = lazy(globals())
