# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Joint least squares over the trajectory of the IMU and all quantities of the calibration.

Nodes every 25 ms hold the IMU's attitude, velocity and position in the world; preintegrated
samples connect them. A pose with stamp m is compared at the time m - delay, to which the IMU's
samples carry the node before it: no pose is interpolated or differentiated. The normal matrix is
block tridiagonal in the nodes with a dense border, which a banded Cholesky factor and a Schur
complement solve.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.core.space import (
    exponential, interpolate_rotations, interpolate_rows, logarithm, product, skew, transposed)
from optitrack_vrpn.takes.calibrate.coarse import Start
from optitrack_vrpn.takes.calibrate.data import Floats, Integers, LEAST_NOISE, pose_noise, Problem
from optitrack_vrpn.takes.calibrate.normal import (
    Imu, ParameterLayout, Poses, Prior, reduce_nodes, Reduced, solve)
from optitrack_vrpn.takes.calibrate.preintegration import (
    GYRO_ERRORS, ImuErrors, ImuIntervals, Samples)

#: What no model contains: delay (s), rotation (rad), lever arm (m), gravity (rad).
FLOORS = np.array((2e-5, *np.radians((0.01,) * 3), *(1e-4,) * 3, *np.radians((0.01,) * 2)))
#: Chosen: Huber's limit in standard deviations; it acts from this step on.
_HUBER, _HUBER_FROM = 2.5, 2
_MOST_STEPS = 15
#: Largest steps of delay (s), rotation (rad) and lever arm (m), and the step that ends, in sd.
_LARGEST = (0.02, 0.5, 0.5)
_DONE_SD = 0.1
#: Chosen: poses this close to the ends are not used (s), so that the delay can change.
_MARGIN_S = 0.1
#: Chosen: time between knots of the biases (s).
_KNOT_S = 10.0
#: Interpolated samples: factor of the deviation of their interval.
_FILLED = 100.0


@dataclass(frozen=True, eq=False)
class SolverState:
    """All that is estimated; names as in ``Solution``."""

    delay: float
    drift: float
    rotation: Floats
    lever: Floats
    gravity: Floats
    errors: ImuErrors
    attitudes: Floats
    velocities: Floats
    positions: Floats


class Solution(NamedTuple):
    """
    Result of the joint solution.

    :ivar state: delay (s) and drift (s/s) of the stamps of poses against the gyro, rotation (body
        from IMU), lever arm (IMU in the body, m), gravity (in the world, m/s^2), errors of the
        IMU, and the IMU's attitude, velocity and position at the nodes.
    :ivar covariance: of the common quantities, for white noise.
    :ivar sandwich: the same from the scatter of the scores of each second (White 1980).
    :ivar sigmas: residuals of position (m) and attitude (rad) per axis.
    :ivar assumed: noise of the poses from their third differences, likewise.
    :ivar halves: change of the common quantities if only the first, or second, half is used, and
        covariance of each.
    :ivar tangent: (3, 2) axes of the two angles of gravity.
    :ivar last_step: of the common quantities.
    :ivar rest: residuals of positions (m, world) with rate and acceleration of each.
    :ivar delays: stamps (s) of the poses, what each of them alone adds to the delay (s), and the
        weight of that (1/s^2).
    """

    state: SolverState
    layout: ParameterLayout
    covariance: Floats
    sandwich: Floats
    sigmas: tuple[float, float]
    assumed: tuple[float, float]
    halves: list[tuple[Floats, Floats]]
    tangent: Floats
    rest: tuple[Floats, Floats, Floats]
    delays: tuple[Floats, Floats, Floats]
    nodes: Floats
    steps: int
    converged: bool
    last_step: Floats


def solve_jointly(problem: Problem, start: Start, one_axis: bool = False) -> Solution:
    """
    Solve for everything at once, by Gauss-Newton steps with Huber's weights.

    :param one_axis: the body turns about one axis only: scale and axes of the IMU are fixed, and
        neither rotation nor lever arm need to converge.
    """
    used = slice(*np.searchsorted(problem.times - start.delay, (
        problem.imu_times[1] + _MARGIN_S, problem.imu_times[-2] - _MARGIN_S)))
    stamps = problem.times[used]
    samples = Samples(problem, stamps[0] - start.delay - _MARGIN_S,
                      stamps[-1] - start.delay + _MARGIN_S, _KNOT_S)
    layout = ParameterLayout(len(samples.knots))
    model = _Model(problem, samples, layout, used)
    prior = Prior.of(layout, samples, one_axis)
    state = _first_state(problem, start, samples)
    assumed = sigmas = pose_noise(problem)
    tested = [0] if one_axis else list(range(9))
    for step in range(_MOST_STEPS):
        intervals = samples.integrate(state.errors)
        tangent = np.linalg.svd(state.gravity[None])[2][1:].T
        imu = model.imu(state, intervals, tangent)
        robust = step >= _HUBER_FROM
        poses = model.poses(state, intervals, tangent, sigmas, _HUBER if robust else np.inf,
                            refit=robust)
        sigmas = poses.sigmas
        reduced = reduce_nodes(imu, poses, prior.at(vector_of(state, start)), len(samples.nodes))
        change, nodes = solve(reduced)
        sd = np.sqrt(np.diag(np.linalg.inv(reduced.schur)))
        largest = max(abs(change[0]) / _LARGEST[0], np.linalg.norm(change[1:4]) / _LARGEST[1],
                      np.linalg.norm(change[4:7]) / _LARGEST[2], 1.0)
        state = _moved(state, layout, tangent, change / largest, nodes / largest)
        rest = float(np.max(np.abs(change[tested]) / np.maximum(sd[tested], FLOORS[tested])))
        if robust and largest == 1.0 and rest < _DONE_SD:
            break
    # The last steps can alternate where a pose changes its node: the caller adds their size.
    converged = rest < 1.0
    covariance = np.linalg.inv(reduced.schur)
    middle = len(samples.nodes) // 2
    halves = []
    for part in (slice(0, middle), slice(middle, len(samples.nodes) - 1)):
        half = reduce_nodes(imu.part(part), poses.part(part), prior.at(
            vector_of(state, start)), part.stop - part.start + 1)
        halves.append((solve(half)[0], np.linalg.inv(half.schur)))
    return Solution(
        state, layout, covariance, _sandwich(imu, poses, reduced, covariance, samples.nodes),
        sigmas, assumed, halves, tangent, *model.scatter(state, intervals, poses), samples.nodes,
        step + 1, converged, change)


def vector_of(state: SolverState, start: Start) -> Floats:
    """Return the common quantities as far as a prior concerns them, relative to its mean."""
    errors = state.errors
    return np.concatenate((
        [state.delay - start.delay], np.zeros(3), state.lever, np.zeros(2),
        [state.drift, errors.accelerometer_delay],
        [errors.gyro_matrix[place] for place in GYRO_ERRORS], errors.accelerometer_matrix.ravel(),
        errors.gyro_bias.ravel(), errors.accelerometer_bias.ravel()))


def _first_state(problem: Problem, start: Start, samples: Samples) -> SolverState:
    at = samples.nodes + start.delay
    attitudes = interpolate_rotations(
        problem.times, problem.rotations, np.clip(at, problem.times[0], problem.times[-1])
    ) @ start.rotation
    positions = interpolate_rows(problem.times, problem.positions, at)
    interval = samples.nodes[1] - samples.nodes[0]
    width = max(1, round(0.04 / interval))
    velocities = np.empty_like(positions)
    velocities[width:-width] = (positions[2 * width:] - positions[:-2 * width]) / (
        2 * width * interval)
    velocities[:width], velocities[-width:] = velocities[width], velocities[-width - 1]
    forces = interpolate_rows(problem.imu_times, problem.accelerometer, samples.nodes)
    gravity = -product(attitudes, forces).mean(axis=0) + (velocities[-1] - velocities[0]) / (
        samples.nodes[-1] - samples.nodes[0])
    gravity *= problem.gravity / np.linalg.norm(gravity)
    knots = len(samples.knots)
    return SolverState(
        start.delay, 0.0, start.rotation, np.zeros(3), gravity,
        ImuErrors(np.tile(start.bias, (knots, 1)), np.zeros((knots, 3)), np.zeros((3, 3)),
                  np.zeros((3, 3)), 0.0), attitudes, velocities, positions)


def _moved(state: SolverState, layout: ParameterLayout, tangent: Floats, common: Floats,
           nodes: Floats) -> SolverState:
    """Apply a step; rotations are multiplied from the right, gravity is turned."""
    errors = state.errors
    gyro_matrix = errors.gyro_matrix.copy()
    for place, value in zip(GYRO_ERRORS, common[layout.gyro_matrix]):
        gyro_matrix[place] += value
    return SolverState(
        state.delay + common[0], state.drift + common[layout.drift],
        state.rotation @ exponential(common[1:4]), state.lever + common[4:7],
        exponential(tangent @ common[7:9]) @ state.gravity,
        ImuErrors(
            errors.gyro_bias + common[layout.gyro_bias].reshape(-1, 3),
            errors.accelerometer_bias + common[layout.accelerometer_bias].reshape(-1, 3),
            gyro_matrix,
            errors.accelerometer_matrix + common[layout.accelerometer_matrix].reshape(3, 3),
            errors.accelerometer_delay + float(np.clip(
                common[layout.accelerometer_delay], -0.01, 0.01))),
        state.attitudes @ exponential(nodes[:, :3]), state.velocities + nodes[:, 3:6],
        state.positions + nodes[:, 6:])


class _Model:
    """
    Residuals and derivatives.

    :param used: the poses that are compared.
    """

    def __init__(
        self, problem: Problem, samples: Samples, layout: ParameterLayout, used: slice,
    ) -> None:
        self._samples, self._layout = samples, layout
        self._stamps = problem.times[used]
        self._rotations, self._positions = problem.rotations[used], problem.positions[used]
        self._middle = 0.5 * (self._stamps[0] + self._stamps[-1])
        self._slow = np.where(samples.good, 1.0, _FILLED**2)[:, None, None]

    def imu(self, state: SolverState, intervals: ImuIntervals, tangent: Floats) -> Imu:
        """Compare neighbouring nodes with the samples between them."""
        layout, shares = self._layout, self._samples.shares
        time = self._samples.nodes[1] - self._samples.nodes[0]
        first, second = state.attitudes[:-1], state.attitudes[1:]
        back = transposed(first)
        speed, place, g = state.velocities, state.positions, state.gravity
        gained = product(back, speed[1:] - speed[:-1] - g * time)
        moved = product(back, place[1:] - place[:-1] - speed[:-1] * time - 0.5 * g * time**2)
        residual = np.concatenate((
            logarithm(transposed(intervals.rotation[:, -1]) @ back @ second),
            gained - intervals.velocity[:, -1], moved - intervals.position[:, -1]), axis=1)
        count = len(first)
        by_first, by_second = np.zeros((2, count, 9, 9))
        by_first[:, :3, :3], by_second[:, :3, :3] = -transposed(second) @ first, np.eye(3)
        by_first[:, 3:6, :3], by_first[:, 6:, :3] = skew(gained), skew(moved)
        by_first[:, 3:6, 3:6], by_first[:, 6:, 3:6] = -back, -time * back
        by_first[:, 6:, 6:] = -back
        by_second[:, 3:6, 3:6] = by_second[:, 6:, 6:] = back
        common = np.zeros((count, 9, layout.size))
        turned = back @ (-skew(g) @ tangent)
        common[:, 3:6, 7:9], common[:, 6:, 7:9] = -time * turned, -0.5 * time**2 * turned
        common[:, :, layout.accelerometer_delay] = -intervals.by_delay
        common[:, :, layout.matrices] = -intervals.by_matrix
        for place_in, part in ((layout.gyro_bias, slice(0, 3)),
                               (layout.accelerometer_bias, slice(3, 6))):
            common[:, :, place_in] = -(shares[:, None, :, None] * intervals.by_bias[
                :, :, None, part]).reshape(count, 9, -1)
        return Imu(residual, by_first, by_second, common,
                   np.linalg.inv(intervals.covariance * self._slow))

    def _carried(self, state: SolverState, intervals: ImuIntervals) -> tuple[Any, ...]:
        """Carry nodes to the times of the poses, and return what the residuals need."""
        samples, h = self._samples, self._samples.interval
        at = self._stamps - state.delay - state.drift * (self._stamps - self._middle)
        time = samples.nodes[1] - samples.nodes[0]
        node = np.floor((at - samples.nodes[0]) / time).astype(int)
        good = np.asarray(samples.good)
        inside = (node >= 0) & (node < len(good))
        inside[inside] = good[node[inside]]
        kept = np.flatnonzero(inside)
        node = node[kept]
        since = at[kept] - samples.nodes[node]
        sample = np.clip((since / h).astype(int), 0, samples.steps - 1)
        rest = (since - sample * h)[:, None]
        rates, forces = intervals.rates, intervals.forces
        rate, next_rate = rates[node, sample], rates[node, sample + 1]
        force, next_force = forces[node, sample], forces[node, sample + 1]
        turned = intervals.rotation[node, sample]
        rotation = turned @ exponential((rate + (next_rate - rate) * rest / (2 * h)) * rest)
        push = product(turned, force + (next_force - force) * rest / (2 * h))
        velocity = intervals.velocity[node, sample] + push * rest
        position = (intervals.position[node, sample]
                    + intervals.velocity[node, sample] * rest + 0.5 * push * rest**2)
        return (kept, node, since[:, None], rate + (next_rate - rate) * rest / h, rotation,
                velocity, position)

    def poses(
        self, state: SolverState, intervals: ImuIntervals, tangent: Floats,
        sigmas: tuple[float, float],
        huber: float, refit: bool,
    ) -> Poses:
        """Compare the poses with the nodes, carried to their times by the samples."""
        layout = self._layout
        kept, node, since, rate, turned, gained, moved = self._carried(state, intervals)
        attitude = state.attitudes[node]
        imu = attitude @ turned
        body = imu @ state.rotation.T
        speed = state.velocities[node] + state.gravity * since + product(attitude, gained)
        place = (state.positions[node] + state.velocities[node] * since
                 + 0.5 * state.gravity * since**2 + product(attitude, moved))
        angle = logarithm(transposed(self._rotations[kept]) @ body)
        distance = place - product(body, state.lever[None]) - self._positions[kept]
        count = len(kept)
        by_node = np.zeros((count, 6, 9))
        common = np.zeros((count, 6, layout.size))
        arm = body @ skew(state.lever)
        turn = state.rotation @ transposed(turned)
        by_node[:, :3, :3] = turn
        by_node[:, 3:, :3] = -attitude @ skew(moved) + arm @ turn
        by_node[:, 3:, 3:6] = since[:, :, None] * np.eye(3)
        by_node[:, 3:, 6:] = np.eye(3)
        backwards = -rate @ state.rotation.T
        common[:, :3, 0] = backwards
        common[:, 3:, 0] = -speed + product(arm, backwards)
        common[:, :, layout.drift] = common[:, :, 0] * (
            self._stamps[kept] - self._middle)[:, None]
        common[:, :3, 1:4], common[:, 3:, 1:4] = -state.rotation, -arm @ state.rotation
        common[:, 3:, 4:7] = -body
        common[:, 3:, 7:9] = 0.5 * (since**2)[:, :, None] * (-skew(state.gravity) @ tangent)
        shares = self._samples.shares[node][:, None, :, None]
        by_gyro = -since[:, :, None] * state.rotation
        by_force = -0.5 * (since**2)[:, :, None] * imu
        for rows, place_in, derivative in (
                (slice(0, 3), layout.gyro_bias, by_gyro),
                (slice(3, 6), layout.gyro_bias, arm @ by_gyro),
                (slice(3, 6), layout.accelerometer_bias, by_force)):
            common[:, rows, place_in] = (shares * derivative[:, :, None, :]).reshape(count, 3, -1)
        if refit:
            sigmas = (max(1.4826 * float(np.median(np.abs(distance))), LEAST_NOISE[0]),
                      max(1.4826 * float(np.median(np.abs(angle))), LEAST_NOISE[1]))
        weights = []
        for residual, sigma in ((angle, sigmas[1]), (distance, sigmas[0])):
            size = np.linalg.norm(residual, axis=1) / (sigma * np.sqrt(3.0))
            weights.append(np.minimum(1.0, huber / np.maximum(size, 1e-9)) / sigma**2)
        return Poses(node, np.concatenate((angle, distance), axis=1), by_node, common,
                     np.repeat(np.stack(weights, axis=1), 3, axis=1), sigmas)

    def scatter(
        self, state: SolverState, intervals: ImuIntervals, poses: Poses,
    ) -> tuple[tuple[Floats, Floats, Floats], tuple[Floats, Floats, Floats]]:
        """Return what ``Solution`` has as ``rest`` and ``delays``."""
        kept, node, _, rate, _, _, _ = self._carried(state, intervals)
        by_delay = poses.weight * poses.common[:, :, 0]
        weight = np.maximum((by_delay * poses.common[:, :, 0]).sum(axis=1), 1e-12)
        return ((poses.residual[:, 3:], rate, intervals.forces[node, 0]),
                (self._stamps[kept], -(by_delay * poses.residual).sum(axis=1) / weight, weight))


def _sandwich(
    imu: Imu, poses: Poses, reduced: Reduced, covariance: Floats, nodes: Floats,
) -> Floats:
    """
    Estimate the covariance from the scatter of scores per second, for noise of any correlation.

    White, Econometrica 48, 1980; clusters: Liang and Zeger, Biometrika 73, 1986.
    """
    border = reduced.border
    seconds = max(int(nodes[-1] - nodes[0]), 2)

    def block(index: Integers) -> Integers:
        found: Integers = np.minimum((nodes[index] - nodes[0]).astype(int), seconds - 1)
        return found

    scores = np.zeros((seconds, len(covariance)))
    of_poses = poses.common - poses.by_node @ border[poses.node]
    np.add.at(scores, block(poses.node), np.einsum(
        'nic,ni->nc', of_poses, poses.weight * poses.residual))
    of_imu = imu.common - imu.by_first @ border[:-1] - imu.by_second @ border[1:]
    np.add.at(scores, block(np.arange(len(imu.residual))), np.einsum(
        'nic,ni->nc', of_imu, product(imu.weight, imu.residual)))
    found: Floats = covariance @ (scores.T @ scores) @ covariance * seconds / (seconds - 1)
    return found
