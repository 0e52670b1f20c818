# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The normal equations of the joint solution: places of quantities, priors, reduction by nodes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.core.space import product, transposed
from optitrack_vrpn.takes.calibrate.data import Floats, Integers
from scipy.linalg import cho_solve_banded, cholesky_banded

#: Bands below the diagonal of two neighbouring nodes of 9 values.
_BANDS = 17
#: Prior deviations: delay about the start (s), lever arm (m). Those of the steps of rotation
#: and gravity (rad) damp them only.
_DELAY_S, _LEVER_M, _ROTATION, _GRAVITY = 0.05, 1.0, np.pi, 1.0
#: The same of lever arm, rotation, and of scale and axes, where the body turns about one axis.
_ONE_AXIS = (0.3, 0.02, 0.02)
#: Prior deviations of scale and cross-axis errors, delay of the accelerometer (s), drift (s/s).
_SCALE, _ACCELEROMETER_S, _DRIFT = 0.03, 0.02, 1e-4
#: Prior deviations of the biases: gyro (rad/s), accelerometer (m/s^2).
_BIASES = (0.2, 0.5)


class ParameterLayout:
    """
    Places of the common quantities.

    0 is the delay, 1 to 3 the rotation, 4 to 6 the lever arm, 7 and 8 the angles of gravity.
    """

    drift, accelerometer_delay = 9, 10
    gyro_matrix, accelerometer_matrix, matrices = slice(11, 17), slice(17, 26), slice(11, 26)

    def __init__(self, knots: int) -> None:
        self.gyro_bias = slice(26, 26 + 3 * knots)
        self.accelerometer_bias = slice(26 + 3 * knots, 26 + 6 * knots)
        self.size = 26 + 6 * knots


class Imu(NamedTuple):
    """Residuals (n, 9) between nodes, derivatives by both nodes and the common, weights."""

    residual: Floats
    by_first: Floats
    by_second: Floats
    common: Floats
    weight: Floats

    def part(self, nodes: slice) -> Imu:
        """Return the intervals of some nodes."""
        return Imu(*(values[nodes] for values in self))


class Poses(NamedTuple):
    """Residuals (m, 6) of poses, attitude first; the node before each, derivatives, weights."""

    node: Integers
    residual: Floats
    by_node: Floats
    common: Floats
    weight: Floats
    sigmas: tuple[float, float]

    def part(self, nodes: slice) -> Poses:
        """Return the poses of some nodes, whose numbers begin with 0."""
        kept = (self.node >= nodes.start) & (self.node < nodes.stop)
        return Poses(self.node[kept] - nodes.start, self.residual[kept], self.by_node[kept],
                     self.common[kept], self.weight[kept], self.sigmas)


class Prior(NamedTuple):
    """Information matrix of the common quantities, and its product with their distance."""

    information: Floats
    gradient: Floats

    @classmethod
    def of(cls, layout: ParameterLayout, samples: Any, one_axis: bool) -> Prior:
        """Return the prior: loose for what is asked for, random walks for the biases."""
        lever, rotation, scale = _ONE_AXIS if one_axis else (_LEVER_M, _ROTATION, _SCALE)
        deviations = np.concatenate((
            [_DELAY_S], np.full(3, rotation), np.full(3, lever), np.full(2, _GRAVITY),
            [_DRIFT, _ACCELEROMETER_S], np.full(15, scale)))
        information = np.zeros((layout.size, layout.size))
        information[:26, :26] = np.diag(deviations**-2)
        knots = len(samples.knots)
        spacing = samples.knots[1] - samples.knots[0]
        for place, first_sd, walk in (
                (layout.gyro_bias, _BIASES[0], samples.noise.gyro_walk),
                (layout.accelerometer_bias, _BIASES[1], samples.noise.accelerometer_walk)):
            steps = np.diff(np.eye(knots), axis=0) / (walk * np.sqrt(spacing))
            chain = steps.T @ steps
            chain[0, 0] += first_sd**-2
            information[place, place] = np.kron(chain, np.eye(3))
        return cls(information, np.zeros(layout.size))

    def at(self, vector: Floats) -> Prior:
        """Return the prior where the quantities are this far from its mean."""
        return Prior(self.information, self.information @ vector)


class Reduced(NamedTuple):
    """
    Normal equations after the elimination of the nodes.

    :ivar border: (nodes, 9, size) how the nodes follow the common quantities.
    :ivar own: (nodes, 9) step of the nodes if the common quantities stay.
    """

    schur: Floats
    right: Floats
    border: Floats
    own: Floats


def reduce_nodes(imu: Imu, poses: Poses, prior: Prior, count: int) -> Reduced:
    """
    Sum up the normal equations and eliminate the nodes.

    :param count: number of nodes.
    """
    size = imu.common.shape[2]
    diagonal = np.zeros((count, 9, 9))
    border = np.zeros((count, 9, size))
    gradient = np.zeros((count, 9))
    weighted = imu.weight @ imu.common
    first, second = transposed(imu.by_first), transposed(imu.by_second)
    force = product(imu.weight, imu.residual)
    diagonal[:-1] += first @ imu.weight @ imu.by_first
    diagonal[1:] += second @ imu.weight @ imu.by_second
    beside = first @ imu.weight @ imu.by_second
    border[:-1] += first @ weighted
    border[1:] += second @ weighted
    gradient[:-1] += product(first, force)
    gradient[1:] += product(second, force)
    flat = imu.common.reshape(-1, size)
    common = prior.information + flat.T @ weighted.reshape(-1, size)
    right = prior.gradient + flat.T @ force.ravel()
    root = np.sqrt(poses.weight)[:, :, None]
    by_node, by_common = poses.by_node * root, poses.common * root
    residual = poses.residual * root[:, :, 0]
    turned = transposed(by_node)
    starts = np.searchsorted(poses.node, np.arange(count))
    present = np.diff(np.append(starts, len(poses.node))) > 0
    for total, parts in ((diagonal, turned @ by_node), (border, turned @ by_common),
                         (gradient, product(turned, residual))):
        total[present] += np.add.reduceat(parts, starts[present], axis=0)
    flat = by_common.reshape(-1, size)
    common = common + flat.T @ flat
    right = right + flat.T @ residual.ravel()
    bands = np.zeros((_BANDS + 1, 9 * count))
    for row in range(9):
        for column in range(9):
            if row >= column:
                bands[row - column, column::9] = diagonal[:, row, column]
            bands[9 + row - column, column:9 * (count - 1):9] = beside[:, column, row]
    factor = cholesky_banded(bands, lower=True, check_finite=False, overwrite_ab=True)
    solved = cho_solve_banded(
        (factor, True), np.concatenate((border.reshape(-1, size), gradient.reshape(-1, 1)), 1),
        check_finite=False, overwrite_b=True)
    sides = border.reshape(-1, size).T
    return Reduced(common - sides @ solved[:, :size], right - sides @ solved[:, size],
                   solved[:, :size].reshape(count, 9, size), solved[:, size].reshape(count, 9))


def solve(reduced: Reduced) -> tuple[Floats, Floats]:
    """Return the step of the common quantities and of the nodes."""
    common = -np.linalg.solve(reduced.schur, reduced.right)
    return common, -reduced.own - reduced.border @ common
