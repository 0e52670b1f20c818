# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Where the robot's base is in the body, and the user's world in the mocap world, without an IMU.

A turn on the spot keeps a point of the body at rest: R_i c + p_i = C for all poses. This is linear
in the point c of the body and the point C of the world.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.space import rigid_transform
from optitrack_vrpn.takes.calibrate.data import attitude_noise, Floats, third_difference_sd
from optitrack_vrpn.takes.calibrate.results import CalibrationResult, Quantity
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

#: Least angle between two attitudes (rad): below, noise in the attitudes shrinks c (simulated:
#: 2 sd hold from 45 degrees on).
_LEAST_TURN = np.radians(45.0)
#: Singular values below this multiple of the noise are undetermined.
_CUT = 10.0
#: Largest deviation of a coordinate that passes (m), of a heading (rad).
_LIMIT_M, _LIMIT_YAW = 0.003, np.radians(0.5)
#: Chosen: the centre moved by more (m), and its mean square over parts of the turn is so many
#: times that of their noise: something slipped. Simulated: 3.2 is the most in 700 turns without
#: slip, with noise up to 1 mm and 0.3 degrees that is correlated over up to 0.2 s.
_SLIP_M, _SLIPS, _PARTS = 0.0005, 4.0, 8
#: A scale between two mocap systems beyond this is an error of one.
_SCALE = 0.002
#: Chosen: blocks for the scatter of scores.
_BLOCKS = 20
#: Mean direction of headings above which they are alike: within +-45 degrees.
_ALIKE = 0.7
#: Least angle of the turns that align two systems (rad).
_LEAST_TILT = np.radians(15.0)


class FixedPoint(NamedTuple):
    """
    A point of the body that stays at rest.

    :ivar point: in the body (m); undetermined directions are zero.
    :ivar world: the same in the world (m).
    :ivar covariance: (3, 3) of the point.
    :ivar free: (k, 3) directions of the body that are undetermined.
    :ivar scatter: of the residuals (m).
    :ivar slip: how far the point moved slowly, more than noise explains (m, root mean square).
    """

    point: Floats
    world: Floats
    covariance: Floats
    free: Floats
    scatter: float
    slip: float


def fixed_point(trajectory: Any) -> FixedPoint:
    """
    Find the point of a body that stays at rest; along the axis of a turn it may stay undetermined.

    :raises ConfigurationError: if the body turned too little.
    """
    matrices = trajectory.rotations.as_matrix()
    positions = np.asarray(trajectory.positions)
    count = len(positions)
    turn = float((trajectory.rotations[0].inv() * trajectory.rotations).magnitude().max())
    if count < 100 or turn < _LEAST_TURN:
        raise ConfigurationError(
            f'the body turned by {np.degrees(turn):.0f} degrees in {count} poses: turn it by 180 '
            'degrees or more, slowly')
    noise = max(attitude_noise(trajectory.rotations), 1e-5)
    # C is the mean of R c + p: only c remains.
    design = (matrices - matrices.mean(axis=0)).reshape(-1, 3)
    right = -(positions - positions.mean(axis=0)).reshape(-1)
    left, values, axes = np.linalg.svd(design, full_matrices=False)
    used = values > _CUT * noise * np.sqrt(count)
    blocks = np.array_split(np.arange(count), _BLOCKS)
    ends = trajectory.rotations[::max(1, count // 200)]
    half_turns = max(0.25, float((ends[:-1].inv() * ends[1:]).magnitude().sum()) / np.pi)
    while True:
        point = axes.T[:, used] / values[used] @ left[:, used].T @ right
        rest = (right - design @ point).reshape(-1, 3)
        scatter = float(np.sqrt((rest**2).sum() / (3 * count - 3)))
        normal = axes.T[:, used] / values[used]**2 @ axes[used]
        scores = np.stack([design.reshape(-1, 3, 3)[block].reshape(-1, 3).T
                           @ rest[block].reshape(-1) for block in blocks])
        covariance = np.maximum(
            1.0, _BLOCKS / (_BLOCKS - 1)) * normal @ (scores.T @ scores) @ normal
        # Slip is slow: the point explains most of it, once in half a turn.
        slow = np.mean([rest[block].mean(axis=0)**2 for block in blocks])
        slow = max(0.0, slow - 1.5 * scatter**2 * _BLOCKS / count)
        model = normal * (scatter**2 + 4.0 * slow * count / half_turns)
        if np.trace(model) > np.trace(covariance):
            covariance = model
        if not used.all() or axes[2] @ covariance @ axes[2] < _LIMIT_M**2:
            break
        used[2] = False    # slow noise of attitudes only
    return FixedPoint(point, matrices.mean(axis=0) @ point + positions.mean(axis=0), covariance,
                      axes[~used], scatter, _slip(rest))


def _slip(rest: Floats) -> float:
    """
    Return the root mean square of slow residuals (m); 0 where noise explains them.

    Noise is correlated over a fraction of a second, so that the halves of a part of a turn differ
    by as much as parts do. Slip goes on.

    :param rest: (n, 3) residuals of the point in the world.
    """
    halves = np.stack([part.mean(axis=0) for part in np.array_split(rest, 2 * _PARTS)])
    first, second = halves[::2], halves[1::2]
    noise = float(np.mean((first - second)**2)) / 4.0
    slow = float(np.mean((0.5 * (first + second))**2))
    slip = float(np.sqrt(max(3.0 * (slow - noise), 0.0)))
    return slip if slow > _SLIPS * noise and slip > _SLIP_M else 0.0


def turn_result(trajectory: Any, height: float | None, body: str) -> CalibrationResult:
    """
    Find the base of a robot that turns on the spot: its z axis is the axis of the wheels' turn.

    :param height: of the base's origin in the mocap world (m), 0 on the floor; None if unknown.
    """
    found = fixed_point(trajectory)
    result = CalibrationResult('base')
    result.record.update(scatter_m=found.scatter, undetermined=found.free)
    point, sd = found.point.copy(), np.sqrt(np.diag(found.covariance))
    if len(found.free) > 1:
        result.refuse(['offset'], 'the body turned too little: turn it by 180 degrees or more')
        return result
    if len(found.free) == 1:
        if height is None:
            result.refuse(['offset'], (
                'a turn does not determine the height: give --height, that of the base in the '
                'mocap world, as 0 for the floor'))
            return result
        up = trajectory.rotations.apply(found.free[0]).mean(axis=0)
        if abs(up[2]) < 0.9:
            result.refuse(['offset'], 'the axis of the turn is not vertical: turn it on the floor')
            return result
        point += found.free[0] * (height - found.world[2]) / up[2]
        result.notes.append(f'the height is that of --height {height:g}, not measured')
    result.record.update(slip_m=found.slip)
    if found.slip:
        result.notes.append(f'slip of the wheels: the centre moved by {found.slip * 1e3:.1f} mm '
                            'more than noise explains')
    _offset(result, body, point, np.maximum(sd, 1e-4))
    return result


def _offset(
    result: CalibrationResult, body: str, point: Floats, sd: Floats,
    quat_xyzw: Sequence[float] = (),
    remedy: str = 'turn further, or repeat',
) -> None:
    """Add ``bodies.NAME.offset``: the pose of the base in the body."""
    if float(np.max(sd)) > _LIMIT_M:
        result.refuse(['offset'], f'its deviation is {float(np.max(sd)) * 1e3:.1f} mm, above '
                      f'{_LIMIT_M * 1e3:g} mm: {remedy}')
        return
    result.quantities['offset'] = Quantity([*point, *quat_xyzw], sd, 'm')
    result.rows[f'bodies.{body}.offset'] = [float(part) for part in (*point, *quat_xyzw)]


class Placement(NamedTuple):
    """
    The base at rest on a mark.

    :ivar position: mean of the body (m); ``rotation`` likewise.
    :ivar mark: x, y (m) and yaw (rad) of the mark in the mocap world.
    """

    position: Floats
    rotation: Rotation
    mark: tuple[float, float, float]


def rest_pose(trajectory: Any, at_s: float) -> tuple[Floats, Rotation]:
    """
    Return the mean pose of one second of rest.

    :param at_s: time in the middle of it, since the first pose (s).
    :raises ConfigurationError: if there is none, or the body moved.
    """
    seconds = (trajectory.stamps_ns - trajectory.stamps_ns[0]) * 1e-9
    near = np.abs(seconds - at_s) < 0.5
    if near.sum() < 10:
        raise ConfigurationError(f'the take has no poses at {at_s:g} s')
    part = trajectory.at(near)
    if float(np.ptp(part.positions, axis=0).max()) > max(
            0.005, 8.0 * third_difference_sd(part.positions)):
        raise ConfigurationError(f'the body moved at {at_s:g} s: give the middle of a rest of 1 s')
    return part.positions.mean(axis=0), part.rotations.mean()


def placements_result(placements: Sequence[Placement], body: str) -> CalibrationResult:
    """Find the base from placements on marks that are known in the mocap world, on its floor."""
    result = CalibrationResult('base')
    if len(placements) < 2:
        result.refuse(['offset'], 'give two placements or more, with different headings')
        return result
    points, turns = [], []
    for place in placements:
        x, y, yaw = place.mark
        points.append(place.rotation.inv().apply(np.array((x, y, 0.0)) - place.position))
        turns.append(place.rotation.inv() * Rotation.from_euler('z', yaw))
    point = np.mean(points, axis=0)
    turn = Rotation.concatenate(turns).mean()
    count = len(points)
    sd = np.maximum(np.std(points, axis=0, ddof=1) / np.sqrt(count), 1e-3 / np.sqrt(count))
    spread = np.array([(turn.inv() * one).magnitude() for one in turns])
    result.record.update(placements=count, scatter_rad=float(np.sqrt((spread**2).mean())))
    result.notes.append(f'attitude: the placements differ by {np.degrees(spread.max()):.2f} deg')
    headings = np.array([place.mark[2] for place in placements])
    if float(np.hypot(np.cos(headings).mean(), np.sin(headings).mean())) > _ALIKE:
        result.notes.append('the headings are alike: a tilt of the floor is in the attitude; turn '
                            'the robot by 180 degrees on one of the marks')
    away = np.linalg.norm(np.asarray(points) - np.median(points, axis=0), axis=1)
    worst = int(np.argmax(away))
    _offset(result, body, point, sd, turn.as_quat(), (
        f'mark {worst + 1} of the file is {away[worst] * 1e3:.0f} mm from the others: measure its '
        'x, y, yaw again'))
    return result


def odometry_result(hand_eye: Any, body: str) -> CalibrationResult:
    """
    Convert the result of ``estimate_hand_eye``: the frame of the odometry in the body.

    :param hand_eye: planar motion leaves the height at zero, as its warnings say.
    """
    result = CalibrationResult('base')
    result.notes += hand_eye.warnings
    off = hand_eye.size - 1.0
    if abs(off) > 0.01 and abs(off) > 4.0 * hand_eye.size_std:
        result.notes.append(f'the odometry is {hand_eye.size:.3f} times as large as the path by '
                            'mocap: check its wheel radius or unit')
    result.record.update(rotation_std_deg=hand_eye.rotation_std_deg,
                         offset_ns=hand_eye.offset_ns)
    if hand_eye.rotation_std_deg > 1.0:
        result.refuse(['offset'], f'its rotation is known to {hand_eye.rotation_std_deg:.2g} deg '
                      'only: drive figures of eight')
        return result
    _offset(result, body, hand_eye.translation, np.full(3, hand_eye.translation_std_m),
            hand_eye.rotation.as_quat())
    return result


def world_result(origin: Floats, ahead: Floats, hand_m: float = 0.002) -> CalibrationResult:
    """
    Find the user's world from a body that was put on its origin and on its x axis.

    :param origin: position in the mocap world (m) of the body on the origin.
    :param ahead: the same on the x axis.
    :param hand_m: deviation of a placement by hand (m).
    """
    result = CalibrationResult('world')
    along = ahead[:2] - origin[:2]
    length = float(np.linalg.norm(along))
    sd = np.sqrt(2.0) * hand_m / max(length, 1e-9)
    result.quantities['origin'] = Quantity(origin, np.full(3, hand_m), 'm')
    result.rows['world_offset.origin'] = [float(part) for part in origin]
    if sd > _LIMIT_YAW:
        result.refuse(['yaw'], f'the placements are {length:.2f} m apart: take 1 m or more')
        result.rows.clear()
        return result
    yaw = float(np.arctan2(along[1], along[0]))
    result.quantities['yaw'] = Quantity(yaw, sd, 'rad')
    result.rows['world_offset.yaw'] = yaw
    rise = float(np.degrees(np.arctan2(ahead[2] - origin[2], length)))
    result.notes.append(f'the x axis rises by {rise:.2f} deg: a tilt has no parameter; '
                        'set the ground plane in Motive')
    return result


def reference_result(ours: Any, theirs: Any) -> CalibrationResult:
    """
    Align two mocap systems that saw one wand: A_i X = Z B_i.

    :param ours: poses A of the wand in this system, at the times of the others.
    :param theirs: poses B of the wand in the other system.
    :returns: Z, the other world in this one, as 4 parameters, with the tilt as a note.
    """
    result = CalibrationResult('world')
    a, b = ours.rotations, theirs.rotations
    turned = float((a[0].inv() * a).magnitude().max())
    tilts = (a.mean().inv() * a).as_rotvec()
    if turned < _LEAST_TILT or np.linalg.svd(tilts)[1][1] < 0.1 * np.sqrt(len(tilts)):
        result.refuse(['origin', 'yaw'], 'turn the wand by 30 degrees about all axes')
        return result
    p, q = np.asarray(ours.positions), np.asarray(theirs.positions)
    turn, shift = rigid_transform(p, q)
    start = Rotation.from_matrix(turn)
    wand = (a.inv() * start * b).mean()
    first = np.concatenate((start.as_rotvec(), shift,
                            wand.as_rotvec(), np.zeros(3), [0.0]))

    def residuals(values: Floats) -> Floats:
        z, x = Rotation.from_rotvec(values[:3]), Rotation.from_rotvec(values[6:9])
        away = p + a.apply(values[9:12]) - (1.0 + values[12]) * z.apply(q) - values[3:6]
        angle = ((a * x).inv() * (z * b)).as_rotvec()
        return np.concatenate((away.ravel() / 1e-3, angle.ravel() / 5e-3))

    fit = least_squares(residuals, first, loss='soft_l1')
    count = 3 * len(p)
    rest = residuals(fit.x)
    scale = np.repeat([max(float(np.sqrt((rest[:count]**2).mean())), 1e-3),
                       max(float(np.sqrt((rest[count:]**2).mean())), 1e-3)], count)
    jacobian = least_squares(residuals, fit.x, max_nfev=1).jac
    # Residuals are alike for about a second: an error of the time between both systems, for one.
    rows = rest[:, None] * jacobian
    scores = np.stack([
        rows.reshape(2, len(p), 3, -1)[:, block].sum(axis=(0, 1, 2))
        for block in np.array_split(np.arange(len(p)), _BLOCKS)])
    bread = np.linalg.inv(jacobian.T @ jacobian)
    scatter = _BLOCKS / (_BLOCKS - 1) * bread @ (scores.T @ scores) @ bread
    jacobian = jacobian / scale[:, None]
    sd = np.sqrt(np.maximum(np.diag(np.linalg.inv(jacobian.T @ jacobian)), np.diag(scatter)))
    angles = Rotation.from_rotvec(fit.x[:3]).as_euler('ZYX')
    if abs(fit.x[12]) > _SCALE:
        result.refuse(['origin', 'yaw'], f'the systems differ in scale by {fit.x[12]:+.2%}: '
                      'calibrate their cameras again')
        return result
    result.quantities['origin'] = Quantity(fit.x[3:6], np.maximum(sd[3:6], 1e-4), 'm')
    result.quantities['yaw'] = Quantity(angles[0], max(float(sd[:3].max()), 1e-4), 'rad')
    result.rows.update({'world_offset.origin': [float(part) for part in fit.x[3:6]],
                        'world_offset.yaw': float(angles[0])})
    result.notes.append(
        f'the worlds lean by {np.degrees(np.hypot(angles[1], angles[2])):.2f} deg against each '
        'other, which has no parameter; set both ground planes alike')
    result.record.update(scale=float(fit.x[12]), wand_xyz=fit.x[9:12])
    return result
