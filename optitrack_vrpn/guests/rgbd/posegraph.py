# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Pose graph optimisation: find the poses that agree best with measurements between pairs of poses.

Node i has the pose (R_i, t_i). An edge measures (Z, z), the pose of node j in node i. Its error is

    r_t = R_i' (t_j - t_i) - z          (m)
    r_R = log(Z' R_i' R_j)              (rad)

With t <- t + d and R <- R exp(p), the derivatives are (Forster et al., "On-Manifold
Preintegration", T-RO 33 (2017), appendix; Jr is the right Jacobian of SO(3))

    dr_t/dd_j = R_i'    dr_t/dd_i = -R_i'    dr_t/dp_i = [R_i' (t_j - t_i)]x
    dr_R/dp_j = Jr^-1(r_R)                   dr_R/dp_i = -Jr^-1(r_R) R_j' R_i

The cost is the sum of Huber's function of the whitened errors (Huber, Ann. Math. Stat. 35 (1964)),
minimised by Levenberg-Marquardt with sparse factorisation. Node 0 is fixed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.space import skew
from optitrack_vrpn.guests.rgbd.geometry import Floats, rigid
from scipy.sparse import bsr_matrix, coo_matrix, csc_matrix, diags
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu
from scipy.spatial.transform import Rotation

#: Root of the 95 % quantile of chi-squared with six degrees of freedom: the cost of 19 of 20 right
#: edges is quadratic.
KNEE = 3.55


class Edge(NamedTuple):
    """
    A measured pose of one node in another.

    :ivar start: index i.
    :ivar end: index j.
    :ivar measured: 4x4, pose of j in i.
    :ivar information: (6, 6), inverse covariance of (r_t, r_R), in 1/m2, 1/(m rad), 1/rad2.
    :ivar robust: True: Huber's function of the error; False: half its square.
    """

    start: int
    end: int
    measured: Floats
    information: Floats
    robust: bool = False


class GraphSolution(NamedTuple):
    """
    Result of the optimisation.

    :ivar poses: (N, 4, 4).
    :ivar cost: sum of Huber's function and of half squares over the edges.
    :ivar weights: (E,), weight of each edge, 0 to 1; small for an edge that contradicts the
        others.
    """

    poses: Floats
    cost: float
    weights: Floats


def diagonal_information(stdev_m: float, stdev_rad: float) -> Floats:
    """Return the information matrix of independent errors in each axis."""
    return np.diag([stdev_m ** -2] * 3 + [stdev_rad ** -2] * 3)


class _GraphProblem:
    """Edges as arrays."""

    def __init__(self, count: int, edges: list[Edge]) -> None:
        self.count = count
        self.i = np.array([edge.start for edge in edges])
        self.j = np.array([edge.end for edge in edges])
        measured = np.array([edge.measured for edge in edges], float)
        self.z_rotation, self.z = measured[:, :3, :3], measured[:, :3, 3]
        information = np.array([edge.information for edge in edges], float)
        self.robust = np.array([edge.robust for edge in edges])
        try:
            # whitened error = root @ error
            self.root = np.linalg.cholesky(information).transpose(0, 2, 1)
        except np.linalg.LinAlgError:
            raise ConfigurationError(
                'the information matrix of an edge is not positive definite') from None

    def residuals(self, rotations: Floats, positions: Floats) -> tuple[Floats, Floats, Floats]:
        """Evaluate all edges: whitened errors, errors of rotation, and offsets in node i."""
        inverse = rotations[self.i].transpose(0, 2, 1)
        offsets = np.einsum('eab,eb->ea', inverse, positions[self.j] - positions[self.i])
        turned = self.z_rotation.transpose(0, 2, 1) @ inverse @ rotations[self.j]
        r_rotation = Rotation.from_matrix(turned).as_rotvec()
        errors = np.concatenate([offsets - self.z, r_rotation], axis=1)
        return np.einsum('eab,eb->ea', self.root, errors), r_rotation, offsets

    def robust_cost(self, whitened: Floats) -> tuple[float, Floats]:
        """Return cost and weights of whitened errors."""
        size = np.linalg.norm(whitened, axis=1)
        far = self.robust & (size > KNEE)
        costs = np.where(far, KNEE * (size - KNEE / 2), size * size / 2)
        return float(costs.sum()), np.where(far, KNEE / np.maximum(size, KNEE), 1.0)

    def normal_equations(
        self, rotations: Floats, weights: Floats, whitened: Floats, r_rotation: Floats,
        offsets: Floats,
    ) -> tuple[csc_matrix, Floats]:
        """Return matrix and right side for all nodes except the first, size 6 N - 6."""
        number = len(self.i)
        inverse = rotations[self.i].transpose(0, 2, 1)
        jr = inverse_right_jacobian(r_rotation)
        by_i, by_j = np.zeros((number, 6, 6)), np.zeros((number, 6, 6))
        by_i[:, :3, :3], by_j[:, :3, :3] = -inverse, inverse
        by_i[:, :3, 3:] = skew(offsets)
        by_i[:, 3:, 3:] = -jr @ rotations[self.j].transpose(0, 2, 1) @ rotations[self.i]
        by_j[:, 3:, 3:] = jr
        scale = np.sqrt(weights)
        blocks = scale[:, None, None, None] * self.root[:, None] @ np.stack([by_i, by_j], axis=1)
        jacobian = bsr_matrix(
            (blocks.reshape(-1, 6, 6), np.stack([self.i, self.j], axis=1).ravel(),
             np.arange(0, 2 * number + 1, 2)),
            shape=(6 * number, 6 * self.count)).tocsc()[:, 6:]
        return (jacobian.T @ jacobian).tocsc(), -jacobian.T @ (scale[:, None] * whitened).ravel()


def optimise(poses: Floats, edges: list[Edge], tolerance: float = 1e-8) -> GraphSolution:
    """
    Find the poses with the least cost.

    :param poses: (N, 4, 4), initial poses; node 0 does not change.
    :param edges: in any order and direction; edges must join each node to node 0.
    :param tolerance: relative decrease of the cost that ends the optimisation.
    :raises ConfigurationError: if an edge names a node that does not exist, an information matrix
        is not positive definite, or a node is not joined to node 0.
    """
    count = len(poses)
    _check(count, edges)
    if not edges:
        return GraphSolution(poses, 0.0, np.ones(0))
    problem = _GraphProblem(count, edges)
    rotations, positions = poses[:, :3, :3], poses[:, :3, 3]
    errors = problem.residuals(rotations, positions)
    cost, weights = problem.robust_cost(errors[0])
    damping = 1e-4
    for _ in range(50):
        matrix, right = problem.normal_equations(rotations, weights, *errors)
        diagonal, accepted = matrix.diagonal(), False
        while not accepted and damping < 1e10:    # beyond, steps are negligible
            step = splu(matrix + diags(damping * diagonal, format='csc')).solve(right)
            moves = np.concatenate([np.zeros((1, 6)), step.reshape(-1, 6)])
            new = (rotations @ Rotation.from_rotvec(moves[:, 3:]).as_matrix(),
                   positions + moves[:, :3])
            new_errors = problem.residuals(*new)
            new_cost, new_weights = problem.robust_cost(new_errors[0])
            accepted = new_cost <= cost
            # Nielsen 1999 uses 1/3 and 2, growing
            damping *= 0.2 if accepted else 5.0
        if not accepted:
            break
        decrease = cost - new_cost
        (rotations, positions), errors, weights, cost = new, new_errors, new_weights, new_cost
        if decrease <= tolerance * max(cost, 1e-12):
            break
    return GraphSolution(
        rigid(Rotation.from_matrix(rotations).as_matrix(), positions), cost, weights)


def optimise_without_outliers(
    poses: Floats, edges: list[Edge],
) -> tuple[GraphSolution, NDArray[np.bool_]]:
    """
    Optimise, and leave out robust edges that contradict the others.

    Huber's function limits the effect of a wrong edge, but not to zero, and several wrong edges
    can distort the graph. A wrong edge also lowers the weights of right edges, so the edges with
    the least weight are left out first and the rest is solved again.

    :returns: the solution, and for each edge True if it was left out; its weight is then 0.
    :raises ConfigurationError: under the conditions of ``optimise``.
    """
    used = np.ones(len(edges), bool)
    robust = np.array([edge.robust for edge in edges], bool)
    while True:
        [kept] = np.nonzero(used)
        solution = optimise(poses, [edges[index] for index in kept])
        weights = np.zeros(len(edges))
        weights[kept] = solution.weights
        # Chosen: an error of more than knee / weight = 18 standard deviations.
        uncertain = used & robust & (weights < 0.2)
        if not uncertain.any():
            return solution._replace(weights=weights), ~used
        used &= ~(uncertain & (weights <= 2 * weights[uncertain].min()))


def inverse_right_jacobian(rotation_vectors: Floats) -> Floats:
    """
    Return Jr^-1 of SO(3) for rotation vectors (N, 3) of less than pi.

    Jr^-1(p) = I + [p]x / 2 + (1 / a^2 - (1 + cos a) / (2 a sin a)) [p]x^2 with a = |p|
    (Chirikjian; Forster et al. 2017, equation 9).
    """
    angle = np.linalg.norm(rotation_vectors, axis=1)
    small = angle < 1e-3
    safe = np.where(small, 1.0, angle)
    # (1 + cos a) / sin a is 1 / tan(a / 2), which is accurate near pi
    factor = np.where(
        small, 1 / 12 + angle ** 2 / 720, 1 / safe ** 2 - 1 / (2 * safe * np.tan(safe / 2)))
    cross = skew(rotation_vectors)
    return np.eye(3) + cross / 2 + factor[:, None, None] * (cross @ cross)


def _check(count: int, edges: list[Edge]) -> None:
    for edge in edges:
        if not (0 <= edge.start < count and 0 <= edge.end < count and edge.start != edge.end):
            raise ConfigurationError(
                f'an edge joins nodes {edge.start} and {edge.end}, but the graph has nodes 0 to '
                f'{count - 1}, and an edge joins two different ones')
    joined = coo_matrix((np.ones(len(edges)), ([edge.start for edge in edges],
                                               [edge.end for edge in edges])), (count, count))
    _, labels = connected_components(joined, directed=False)
    [apart] = np.nonzero(labels != labels[0])
    if len(apart):
        raise ConfigurationError(
            f'no edges join node 0 to {len(apart)} of {count} nodes (node {apart[0]} is the '
            'first): their poses are not determined')
