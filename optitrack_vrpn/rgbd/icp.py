# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Iterative closest point: align points to a model without known correspondences.

Besl and McKay, "A Method for Registration of 3-D Shapes", PAMI 14 (1992). Rigid transform by SVD:
Arun, Huang, Blostein, PAMI 9 (1987), with the sign of Umeyama, PAMI 13 (1991).
"""

from dataclasses import dataclass
import math
from typing import Any, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.settings import checked, setting
from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]


@checked
@dataclass(frozen=True)
class IcpSettings:
    """Alignment of points to the model."""

    rounds: int = setting(10, low=1, high=100, doc='maximum number of ICP iterations')
    distance_m: float = setting(
        0.15, unit='m', low=0.001, high=10.0, doc='greatest distance of a pair of points')
    pairs: int = setting(
        15, low=3, high=1000, doc='fewest pairs; a frame with fewer is not used')
    stop_m: float = setting(
        1e-3, unit='m', low=0.0, high=1.0, doc='end when an iteration moves by less than '
        'this and turns by less than stop_rad')
    stop_rad: float = setting(
        1.7e-3, unit='rad', low=0.0, high=1.0, doc='end when an iteration turns by less '
        'than this and moves by less than stop_m')


class Registration(NamedTuple):
    """
    Result of ICP.

    :ivar transform: 4x4, model_from_points.
    :ivar rounds: number of iterations.
    """

    transform: Floats
    rounds: int


def rigid_transform(
    source: Floats, target: Floats, weights: Optional[Floats] = None,
) -> Floats:
    """
    Compute the rotation and translation from points to their partners, by least squares.

    :param source: (N, 3) with N of at least 3.
    :param target: (N, 3).
    :param weights: (N,), not negative; all 1 by default.
    :returns: 4x4, target_from_source; its determinant is always +1.
    :raises ConfigurationError: if the shapes differ or there are fewer than 3 points.
    """
    source, target = np.asarray(source, float), np.asarray(target, float)
    if source.shape != target.shape or source.ndim != 2 or source.shape[1] != 3:
        raise ConfigurationError(
            f'a rigid transform needs two arrays (N, 3), not {source.shape} and {target.shape}')
    if len(source) < 3:
        raise ConfigurationError(f'a rigid transform needs 3 points, not {len(source)}')
    share = np.full(len(source), 1.0 / len(source)) if weights is None \
        else np.asarray(weights, float) / np.sum(weights)
    centre, aim = share @ source, share @ target
    cross = ((source - centre) * share[:, None]).T @ (target - aim)
    left, _, right = np.linalg.svd(cross)
    sign = np.sign(np.linalg.det(left @ right)) or 1.0
    rotation = right.T @ np.diag([1.0, 1.0, sign]) @ left.T
    transform = np.eye(4)
    transform[:3, :3] = rotation
    transform[:3, 3] = aim - rotation @ centre
    return transform


def transformed(transform: Floats, points: Floats) -> Floats:
    """Apply a 4x4 transform to points (N, 3)."""
    moved: Floats = points @ transform[:3, :3].T + transform[:3, 3]
    return moved


def rotation_vector(rotation: Floats) -> Floats:
    """Return axis times angle (rad) of a rotation matrix, 10 times as fast as scipy."""
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0],
                     rotation[1, 0] - rotation[0, 1]])
    twice_sine = math.sqrt(skew @ skew)
    # atan2 is accurate at small angles, the arc cosine of the trace is not
    angle = math.atan2(twice_sine, float(rotation[0, 0] + rotation[1, 1] + rotation[2, 2]) - 1.0)
    if angle > 3.0:    # near pi, rounding destroys the axis in ``skew``
        return np.asarray(Rotation.from_matrix(rotation).as_rotvec())
    return skew * (0.5 if twice_sine < 1e-12 else angle / twice_sine)


def rotation_matrix(vector: Floats) -> Floats:
    """Return the rotation matrix of axis times angle (rad), by Rodrigues' formula."""
    x, y, z = (float(each) for each in vector)
    square = x * x + y * y + z * z
    angle = math.sqrt(square)
    small = angle < 1e-6
    sine = 1.0 - square / 6 if small else math.sin(angle) / angle
    rest = 0.5 - square / 24 if small else (1.0 - math.cos(angle)) / square
    return np.array([
        [1 - rest * (y * y + z * z), rest * x * y - sine * z, rest * x * z + sine * y],
        [rest * x * y + sine * z, 1 - rest * (x * x + z * z), rest * y * z - sine * x],
        [rest * x * z - sine * y, rest * y * z + sine * x, 1 - rest * (x * x + y * y)]])


def cross_matrices(vectors: Floats) -> Floats:
    """Return the matrices [v]x with [v]x w = v x w, (..., 3, 3), of vectors (..., 3)."""
    matrices = np.zeros((*vectors.shape, 3))
    x, y, z = vectors[..., 0], vectors[..., 1], vectors[..., 2]
    matrices[..., 0, 1], matrices[..., 0, 2], matrices[..., 1, 2] = -z, y, -x
    matrices[..., 1, 0], matrices[..., 2, 0], matrices[..., 2, 1] = z, -y, x
    return matrices


def motion_of(transform: Floats) -> tuple[float, float]:
    """Return the distance (m) and the angle (rad) of a transform."""
    turn = rotation_vector(transform[:3, :3])
    return (math.sqrt(transform[:3, 3] @ transform[:3, 3]), math.sqrt(turn @ turn))


def align(
    points: Floats, tree: Any, model: Floats, settings: IcpSettings,
    start: Optional[Floats] = None,
) -> tuple[Optional[Registration], str]:
    """
    Align points to the nearest points of a model.

    :param points: (N, 3).
    :param tree: scipy's cKDTree of ``model``.
    :param model: (M, 3).
    :param start: 4x4, initial model_from_points; identity by default.
    :returns: the registration and '', or None and the reason for the failure.
    """
    transform = np.eye(4) if start is None else start
    moved = transformed(transform, points)
    rounds = 0
    while True:
        rounds += 1
        distances, nearest = tree.query(
            moved, distance_upper_bound=settings.distance_m)
        [kept] = np.nonzero(np.isfinite(distances))
        if len(kept) < settings.pairs:
            return None, (f'{len(kept)} of {len(points)} points lie within '
                          f'{settings.distance_m:g} m of the model, {settings.pairs} are needed')
        step = rigid_transform(moved[kept], model[nearest[kept]])
        transform = step @ transform
        moved = transformed(transform, points)
        moved_m, turned_rad = motion_of(step)
        if rounds == settings.rounds or (
                moved_m < settings.stop_m and turned_rad < settings.stop_rad):
            return Registration(transform, rounds), ''
