# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert a pose in ENU to the fields of MAVLink messages and of DDS messages.

Input follows REP 103: position in ENU (m), rotation from FLU to ENU, twist in the body's FLU axes,
covariances of 36 numbers, row by row (x, y, z, then rotations about the same fixed axes). Output
follows the autopilots: position (N, E, D), rotation from FRD to NED as (w, x, y, z), velocity in
NED or in the body's FRD axes, covariances as the upper triangle, row by row. Rotation errors stay
about fixed axes (north, east, down), as in MAVROS; at level attitude these are the errors of roll,
pitch and yaw, rotated by the heading.

All functions are pure functions of numbers; ``codec_io.py`` converts the messages to bytes.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from optitrack_vrpn.autopilot.settings import BODY_FRD, Plan
from optitrack_vrpn.motion.euler import Angles, angles_from_quat
from optitrack_vrpn.motion.frames import enu_to_ned, Pose
from optitrack_vrpn.motion.quaternion import normalised, Quat, rotate, Vector

NAN = math.nan
_UNKNOWN_3: Vector = (NAN, NAN, NAN)
#: For each axis of NED: its index in ENU, and its sign.
_FROM_ENU = ((1, 1.0), (0, 1.0), (2, -1.0))
#: For each axis of FRD: its index in FLU, and its sign.
_FROM_FLU = ((0, 1.0), (1, -1.0), (2, -1.0))
#: MAV_ESTIMATOR_TYPE_VISION: PX4's estimator does not read ODOMETRY of type MOCAP, and ArduPilot
#: does not read the type.
_VISION = 2
#: Quality (percent) of a pose that passed the node's validity gate; 0 would mean unknown.
_QUALITY = 100


class Sample(NamedTuple):
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


class Outgoing(NamedTuple):
    """
    One message to be sent.

    :ivar name: name in MAVLink, as in ``ODOMETRY``.
    :ivar fields: values by MAVLink's field names.
    """

    name: str
    fields: Mapping[str, Any]


class State(NamedTuple):
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
    pose_covariance: Optional[list[list[float]]]
    twist_covariance: Optional[list[list[float]]]


def flip(vector: Vector) -> Vector:
    """Convert a vector from FLU to FRD axes, or back."""
    return (vector[0], -vector[1], -vector[2])


def euler_zyx(quat_wxyz: Sequence[float]) -> Angles:
    """Compute roll, pitch and yaw (rad) of an attitude."""
    w, x, y, z = quat_wxyz
    return angles_from_quat((x, y, z, w))


def known(covariance: Optional[Sequence[float]]) -> bool:
    """Return whether a covariance is known: zeros or NaN mean unknown in ROS."""
    return (covariance is not None and all(map(math.isfinite, covariance))
            and any(covariance[7 * i] > 0.0 for i in range(6)))


def turned(
    covariance: Sequence[float], axes: Sequence[tuple[int, float]],
) -> list[list[float]]:
    """
    Permute and flip the axes of a 6 x 6 covariance, in the same way for both halves.

    :param axes: for each new axis the index of the old one and its sign.
    """
    both = [*axes, *((axis + 3, sign) for axis, sign in axes)]
    return [[covariance[6 * row + column] * sign * other for column, other in both]
            for row, sign in both]


def upper_triangle(matrix: Optional[list[list[float]]]) -> list[float]:
    """Convert a 6 x 6 matrix to 21 numbers, row by row; NaN first if unknown."""
    if matrix is None:
        return [NAN] + [0.0] * 20
    return [matrix[row][column] for row in range(6) for column in range(row, 6)]


def convert(sample: Sample) -> State:
    """Convert a sample to the autopilot's axes, and normalise its quaternion."""
    position, quat = enu_to_ned(Pose(sample.position, sample.quat_xyzw))
    quat = normalised(quat)
    body = _UNKNOWN_3 if sample.velocity is None else flip(sample.velocity)
    return State(
        sample.stamp_ns // 1000, position, (quat[3], quat[0], quat[1], quat[2]), body,
        rotate(quat, body),
        _UNKNOWN_3 if sample.angular_velocity is None else flip(sample.angular_velocity),
        turned(sample.pose_covariance, _FROM_ENU)
        if sample.pose_covariance is not None and known(sample.pose_covariance) else None,
        turned(sample.twist_covariance, _FROM_FLU)
        if sample.twist_covariance is not None and known(sample.twist_covariance) else None)


def _odometry(state: State, plan: Plan, reset_counter: int) -> Outgoing:
    x, y, z = state.position
    vx, vy, vz = state.velocity_body
    roll, pitch, yaw = state.rates
    return Outgoing('ODOMETRY', {
        'time_usec': state.time_us, 'frame_id': plan.frame_id, 'child_frame_id': BODY_FRD,
        'x': x, 'y': y, 'z': z, 'q': list(state.quat_wxyz), 'vx': vx, 'vy': vy, 'vz': vz,
        'rollspeed': roll, 'pitchspeed': pitch, 'yawspeed': yaw,
        'pose_covariance': upper_triangle(state.pose_covariance),
        'velocity_covariance': upper_triangle(state.twist_covariance),
        'reset_counter': reset_counter, 'estimator_type': _VISION,
        'quality': _QUALITY})


def _vision_position_estimate(state: State, plan: Plan, reset_counter: int) -> Outgoing:
    x, y, z = state.position
    roll, pitch, yaw = euler_zyx(state.quat_wxyz)
    return Outgoing('VISION_POSITION_ESTIMATE', {
        'usec': state.time_us, 'x': x, 'y': y, 'z': z, 'roll': roll, 'pitch': pitch, 'yaw': yaw,
        'covariance': upper_triangle(state.pose_covariance), 'reset_counter': reset_counter})


def _vision_speed_estimate(state: State, plan: Plan, reset_counter: int) -> Optional[Outgoing]:
    x, y, z = state.velocity_ned
    if not math.isfinite(x + y + z):
        return None
    return Outgoing('VISION_SPEED_ESTIMATE', {
        'usec': state.time_us, 'x': x, 'y': y, 'z': z,
        'covariance': _velocity_covariance_ned(state), 'reset_counter': reset_counter})


def _velocity_covariance_ned(state: State) -> list[float]:
    """Rotate the velocity's 3 x 3 covariance from FRD to NED: R C R', row by row; or NaN first."""
    if state.twist_covariance is None:
        return [NAN] + [0.0] * 8
    w, x, y, z = state.quat_wxyz
    quat = (x, y, z, w)
    body = [(row[0], row[1], row[2]) for row in state.twist_covariance[:3]]
    # C is symmetric: rotating its rows gives C R', rotating the columns of that gives R C R'.
    rows = [rotate(quat, row) for row in body]
    columns = [rotate(quat, (rows[0][i], rows[1][i], rows[2][i])) for i in range(3)]
    return [columns[column][row] for row in range(3) for column in range(3)]


def _att_pos_mocap(state: State, plan: Plan, reset_counter: int) -> Outgoing:
    x, y, z = state.position
    return Outgoing('ATT_POS_MOCAP', {
        'time_usec': state.time_us, 'q': list(state.quat_wxyz), 'x': x, 'y': y, 'z': z,
        'covariance': upper_triangle(state.pose_covariance)})


_MAKERS: dict[str, Callable[[State, Plan, int], Optional[Outgoing]]] = {
    'odometry': _odometry,
    'vision_position_estimate': _vision_position_estimate,
    'vision_speed_estimate': _vision_speed_estimate,
    'att_pos_mocap': _att_pos_mocap,
}


def make(state: State, plan: Plan, reset_counter: int) -> list[Outgoing]:
    """
    Create the messages of one sample.

    :param reset_counter: 0 to 255.
    :returns: one message for each of ``plan.messages``, but no speed if the velocity is unknown.
    """
    made = (_MAKERS[name](state, plan, reset_counter) for name in plan.messages)
    return [message for message in made if message is not None]


def px4_odometry(state: State, plan: Plan, reset_counter: int) -> dict[str, Any]:
    """
    Create the fields of px4_msgs/VehicleOdometry (PX4 1.14 and later).

    pose_frame is FRD (2) or NED (1), velocity_frame BODY_FRD (3); NaN is unknown.
    """
    def diagonal(matrix: Optional[list[list[float]]], begin: int) -> list[float]:
        if matrix is None:
            return [NAN, NAN, NAN]
        return [matrix[i][i] for i in range(begin, begin + 3)]

    return {
        'timestamp': state.time_us, 'timestamp_sample': state.time_us,
        'pose_frame': 1 if plan.frame_id == 1 else 2,
        'position': list(state.position), 'q': list(state.quat_wxyz), 'velocity_frame': 3,
        'velocity': list(state.velocity_body), 'angular_velocity': list(state.rates),
        'position_variance': diagonal(state.pose_covariance, 0),
        'orientation_variance': diagonal(state.pose_covariance, 3),
        'velocity_variance': diagonal(state.twist_covariance, 0),
        'reset_counter': reset_counter, 'quality': _QUALITY}


def ardupilot_transform(state: State) -> Pose:
    """
    Create the transform from odom to base_link that AP_DDS reads.

    ArduPilot takes (x, -y, -z) of the translation and (w, x, -y, -z) of the rotation for NED, so
    that odom is x north, y west, z up, and base_link is FLU.
    """
    w, x, y, z = state.quat_wxyz
    return Pose(flip(state.position), (x, -y, -z, w))
