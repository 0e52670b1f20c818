# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames, rotations, velocities, smoothing and noise of one body."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.motion.arrays import quat_multiply, quat_rotate
    from optitrack_vrpn.motion.estimator import (
        EstimateConfig, Estimator, MotionEstimate, with_stamp_error)
    from optitrack_vrpn.motion.frames import (
        AxesConfig, enu_to_ned, frame_maps, FrameMaps, MOTIVE_X, Pose, pose_to_enu_north,
        pose_to_ned, QUAT_ENU_NED)
    from optitrack_vrpn.motion.gains import Gains
    from optitrack_vrpn.motion.kalman import diagonal, Motion
    from optitrack_vrpn.motion.lever_arm import acceleration_at, angular_rate, velocity_at
    from optitrack_vrpn.motion.lowpass import Lowpass, LowpassConfig
    from optitrack_vrpn.motion.rest import RestDetector, small_rotation
    from optitrack_vrpn.motion.rotation import (
        angle_between, Angles, angles_from_quat, body_from_base, compose, conjugate,
        from_rotation_vector, IDENTITY, multiply, normalised, Quat, quat_from_angles, rotate,
        to_rotation_vector, Transform, Vector, world_from_mocap)
    from optitrack_vrpn.motion.settings import MotionConfig
else:
    __all__, __getattr__ = lazy(globals())
