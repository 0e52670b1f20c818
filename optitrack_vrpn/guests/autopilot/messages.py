# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert a pose in ENU to messages of MAVLink and to the fields of DDS messages.

Input follows REP 103: position in ENU (m), rotation from FLU to ENU, twist in the body's FLU axes,
covariances of 36 numbers, row by row (x, y, z, then rotations about the same fixed axes). Output
follows the autopilots: position (N, E, D), rotation from FRD to NED as (w, x, y, z), velocity in
NED or in the body's FRD axes, covariances as the upper triangle, row by row. Rotation errors stay
about fixed axes (north, east, down), as in MAVROS; at level attitude these are the errors of roll,
pitch and yaw, rotated by the heading.

Messages of MAVLink are those of pymavlink, which is optional: the first one imports it.
"""

from __future__ import annotations

import importlib
import math
from typing import Any, Iterable, NamedTuple, Optional, Sequence

import numpy as np
from optitrack_vrpn.core.axes import enu_to_ned, Pose
from optitrack_vrpn.core.errors import BackendUnavailableError
from optitrack_vrpn.core.rotation import Angles, angles_from_quat, normalised, Quat, rotate, Vector
from optitrack_vrpn.guests.autopilot.settings import Plan

NAN = math.nan
_UNKNOWN_3: Vector = (NAN, NAN, NAN)
#: Axes of a 6 x 6 covariance: NED from ENU, and FRD from FLU, in the same way for both halves.
_NED_FROM_ENU = np.kron(np.eye(2), [[0, 1, 0], [1, 0, 0], [0, 0, -1]])
_FRD_FROM_FLU = np.kron(np.eye(2), np.diag([1, -1, -1]))
#: Quality (percent) of a pose that passed the node's validity gate; 0 would mean unknown.
_QUALITY = 100


class VisionSample(NamedTuple):
    """
    A pose of the body as received from the node.

    :ivar stamp_ns: capture time on the host's clock (ns).
    :ivar position: in ENU (m).
    :ivar quat_xyzw: rotation from FLU to ENU.
    :ivar pose_covariance: 36 numbers, or None if unknown.
    :ivar velocity: in the body's FLU axes (m/s), or None.
    :ivar angular_velocity: in the body's FLU axes (rad/s), or None.
    :ivar twist_covariance: 36 numbers, or None if unknown.
    """

    stamp_ns: int
    position: Vector
    quat_xyzw: Quat
    pose_covariance: Optional[Sequence[float]] = None
    velocity: Optional[Vector] = None
    angular_velocity: Optional[Vector] = None
    twist_covariance: Optional[Sequence[float]] = None


class VehicleState(NamedTuple):
    """
    A sample in the autopilot's axes.

    :ivar time_us: capture time on the host's clock (us).
    :ivar position: (N, E, D) in metres.
    :ivar quat_wxyz: attitude of FRD in NED.
    :ivar velocity_body: in FRD (m/s), NaN where unknown.
    :ivar velocity_ned: in NED (m/s), NaN where unknown.
    :ivar rates: in FRD (rad/s), NaN where unknown.
    :ivar pose_covariance: 6 x 6 in NED, or None.
    :ivar twist_covariance: 6 x 6 in FRD, or None.
    """

    time_us: int
    position: Vector
    quat_wxyz: tuple[float, float, float, float]
    velocity_body: Vector
    velocity_ned: Vector
    rates: Vector
    pose_covariance: Optional[np.ndarray[Any, Any]]
    twist_covariance: Optional[np.ndarray[Any, Any]]


def flip(vector: Vector) -> Vector:
    """Convert a vector from FLU to FRD axes, or back."""
    return (vector[0], -vector[1], -vector[2])


def euler_zyx(quat_wxyz: Sequence[float]) -> Angles:
    """Compute roll, pitch and yaw (rad) of an attitude."""
    w, x, y, z = quat_wxyz
    return angles_from_quat((x, y, z, w))


def usable(values: Iterable[float]) -> bool:
    """Return whether numbers are finite and far within the range of a message's float32."""
    return all(abs(value) < 1e12 for value in values)


def _turned(
    covariance: Optional[Sequence[float]], axes: np.ndarray[Any, Any],
) -> Optional[np.ndarray[Any, Any]]:
    """Turn the axes of a covariance; return None for an unknown one: zeros or NaN in ROS."""
    if covariance is None or not usable(covariance):
        return None
    matrix = np.reshape(covariance, (6, 6))
    if not (matrix.diagonal() > 0.0).any():
        return None
    turned: np.ndarray[Any, Any] = axes @ matrix @ axes.T
    return turned


def upper_triangle(matrix: Optional[np.ndarray[Any, Any]]) -> list[float]:
    """Convert a 6 x 6 matrix to 21 numbers, row by row; NaN first if unknown."""
    if matrix is None:
        return [NAN] + [0.0] * 20
    found: list[float] = matrix[np.triu_indices(6)].tolist()
    return found


def convert(sample: VisionSample) -> VehicleState:
    """Convert a sample to the autopilot's axes, and normalise its quaternion."""
    position, quat = enu_to_ned(Pose(sample.position, sample.quat_xyzw))
    quat = normalised(quat)
    body, rates = (
        flip(each) if each is not None and usable(each) else _UNKNOWN_3
        for each in (sample.velocity, sample.angular_velocity))
    return VehicleState(
        sample.stamp_ns // 1000, position, (quat[3], quat[0], quat[1], quat[2]), body,
        rotate(quat, body), rates,
        _turned(sample.pose_covariance, _NED_FROM_ENU),
        _turned(sample.twist_covariance, _FRD_FROM_FLU))


def _velocity_covariance_ned(state: VehicleState) -> list[float]:
    """Rotate the velocity's 3 x 3 covariance from FRD to NED, row by row; NaN first if unknown."""
    if state.twist_covariance is None:
        return [NAN] + [0.0] * 8
    w, x, y, z = state.quat_wxyz
    columns = [rotate((x, y, z, w), axis) for axis in (
        (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))]
    ned_from_frd = np.transpose(columns)
    found: list[float] = (
        ned_from_frd @ state.twist_covariance[:3, :3] @ ned_from_frd.T).ravel().tolist()
    return found


def dialect() -> Any:
    """Import pymavlink's dialect; BackendUnavailableError says how to install it."""
    try:
        # ArduPilot's dialect contains all common messages and EKF_STATUS_REPORT.
        return importlib.import_module('pymavlink.dialects.v20.ardupilotmega')
    except ImportError as error:
        raise BackendUnavailableError(
            f'transport mavlink needs pymavlink, which is not installed ({error}): pip '
            'install pymavlink, or rosdep install python3-pymavlink-pip; transport dds does '
            'without') from None


def make_message(name: str, **given: Any) -> Any:
    """
    Create one of pymavlink's messages; fields that are not given are zero.

    :param given: fields by MAVLink's names; a text is ASCII.
    """
    kind = getattr(dialect(), f'MAVLink_{name.lower()}_message')
    zeros = {field: [0] * length if length else 0
             for field, length in zip(kind.ordered_fieldnames, kind.array_lengths)}
    return kind(**zeros | {
        field: value.encode('ascii') if isinstance(value, str) else value
        for field, value in given.items()})


def make(state: VehicleState, plan: Plan, reset_counter: int) -> list[Any]:
    """
    Create the messages of one sample.

    :param reset_counter: 0 to 255.
    :returns: one message for each of ``plan.messages``, but no speed if the velocity is unknown.
    """
    quat = list(state.quat_wxyz)
    position = dict(zip('xyz', state.position))
    counted = {'reset_counter': reset_counter}
    pose_covariance = upper_triangle(state.pose_covariance)
    made = []
    for name in plan.messages:
        fields: dict[str, Any]
        if name == 'odometry':
            # Frame 12 is MAV_FRAME_BODY_FRD, of the twist. Estimator 2 is
            # MAV_ESTIMATOR_TYPE_VISION: PX4's estimator does not read ODOMETRY of type MOCAP, and
            # ArduPilot does not read the type.
            fields = {
                'time_usec': state.time_us, 'frame_id': plan.frame_id, 'child_frame_id': 12,
                **position, 'q': quat, **dict(zip(('vx', 'vy', 'vz'), state.velocity_body)),
                **dict(zip(('rollspeed', 'pitchspeed', 'yawspeed'), state.rates)),
                'pose_covariance': pose_covariance,
                'velocity_covariance': upper_triangle(state.twist_covariance), **counted,
                'estimator_type': 2, 'quality': _QUALITY}
        elif name == 'vision_position_estimate':
            fields = {
                'usec': state.time_us, **position,
                **dict(zip(('roll', 'pitch', 'yaw'), euler_zyx(state.quat_wxyz))),
                'covariance': pose_covariance, **counted}
        elif name == 'att_pos_mocap':
            fields = {'time_usec': state.time_us, 'q': quat, **position,
                      'covariance': pose_covariance}
        elif all(map(math.isfinite, state.velocity_ned)):
            fields = {'usec': state.time_us, **dict(zip('xyz', state.velocity_ned)),
                      'covariance': _velocity_covariance_ned(state), **counted}
        else:
            continue
        made.append(make_message(name, **fields))
    return made


def px4_odometry(state: VehicleState, plan: Plan, reset_counter: int) -> dict[str, Any]:
    """
    Create the fields of px4_msgs/VehicleOdometry (PX4 1.14 and later).

    pose_frame is FRD (2) or NED (1), velocity_frame BODY_FRD (3); NaN is unknown.
    """
    unknown = np.full((6, 6), NAN)
    pose, twist = (
        (unknown if matrix is None else matrix).diagonal().tolist()
        for matrix in (state.pose_covariance, state.twist_covariance))
    return {
        'timestamp': state.time_us, 'timestamp_sample': state.time_us,
        'pose_frame': 1 if plan.frame_id == 1 else 2,
        'position': list(state.position), 'q': list(state.quat_wxyz), 'velocity_frame': 3,
        'velocity': list(state.velocity_body), 'angular_velocity': list(state.rates),
        'position_variance': pose[:3], 'orientation_variance': pose[3:],
        'velocity_variance': twist[:3],
        'reset_counter': reset_counter, 'quality': _QUALITY}


def ardupilot_transform(state: VehicleState) -> Pose:
    """
    Create the transform from odom to base_link that AP_DDS reads.

    ArduPilot takes (x, -y, -z) of the translation and (w, x, -y, -z) of the rotation for NED, so
    that odom is x north, y west, z up, and base_link is FLU.
    """
    w, x, y, z = state.quat_wxyz
    return Pose(flip(state.position), (x, -y, -z, w))
