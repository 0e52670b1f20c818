# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Iterative closest point: align points to a model without known correspondences.

Besl and McKay, "A Method for Registration of 3-D Shapes", PAMI 14 (1992).
"""

from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.transforms import motion_of, rigid_transform, transformed
from optitrack_vrpn.settings import checked, setting

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


def align(
    points: Floats, tree: Any, model: Floats, settings: IcpSettings,
    start: Optional[Floats] = None,
) -> tuple[Optional[Floats], str]:
    """
    Align points to the nearest points of a model.

    :param points: (N, 3).
    :param tree: scipy's cKDTree of ``model``.
    :param model: (M, 3).
    :param start: 4x4, initial model_from_points; identity by default.
    :returns: model_from_points and '', or None and the reason for the failure.
    """
    transform = np.eye(4) if start is None else start
    moved = transformed(transform, points)
    for _ in range(settings.rounds):
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
        if moved_m < settings.stop_m and turned_rad < settings.stop_rad:
            break
    return transform, ''
