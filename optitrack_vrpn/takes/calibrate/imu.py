# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Calibrate a body against its IMU: solve, judge each quantity, refuse what is not determined."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.stats import array_interval
from optitrack_vrpn.takes.calibrate.checks import (
    check_samples, check_solution, check_start, delay_jump, missing_motion, moves_enough)
from optitrack_vrpn.takes.calibrate.coarse import find_start, Start
from optitrack_vrpn.takes.calibrate.data import (
    Floats, ImuData, ImuNoise, make_problem, Problem, STANDARD_GRAVITY)
from optitrack_vrpn.takes.calibrate.results import CalibrationResult, Quantity
from optitrack_vrpn.takes.calibrate.solver import FLOORS, Solution, solve_jointly
from scipy.spatial.transform import Rotation

#: What a calibration can find, in the order of its output.
NAMES = ('latency_ms', 'rotation_xyzw', 'lever_arm_m', 'gravity', 'tilt_deg', 'gyro_bias',
         'accelerometer_bias', 'accelerometer_delay_ms', 'clock_drift_ppm', 'gyro_errors',
         'accelerometer_errors')
#: The four that users ask for, with the largest deviation that passes and its unit.
LIMITS = {'latency_ms': (0.2, 'ms'), 'rotation_xyzw': (0.3, 'deg'), 'lever_arm_m': (0.003, 'm'),
          'gravity': (0.1, 'deg')}
#: Largest deviation of biases (rad/s, m/s^2), the accelerometer's delay (ms) and the drift (ppm).
_LIMITS = {'gyro_bias': 0.002, 'accelerometer_bias': 0.05, 'accelerometer_delay_ms': 0.5,
           'clock_drift_ppm': 20.0}
#: Deviation of the local gravity about the standard one: 9.78 at the equator, 9.83 at the poles.
_LOCAL_GRAVITY = 0.02
#: Halves further apart than this, in deviations, set the deviation.
_HALVES = 3.0
#: One axis of motion: least acceleration (m/s^2 rms) that determines the rotation about it, its
#: error for axes that are skew by 1.5 %, and that without acceleration: nothing is known (rad).
_ACCELERATION, _SKEW_RAD, _UNKNOWN_RAD = 0.3, np.radians(0.9), 1.0
#: A tilt of the ground plane (deg) that is reported: 0.1 is 17 mm/s^2 of false acceleration.
_TILT_DEG = 0.1
#: Error of the delay (s) that skew axes of the IMU cause where one axis turns (simulated, 1 %).
_ONE_AXIS_S = 4e-5
#: Chosen: longest part of a take that is used (s), and the step of the search for the best part.
_LONGEST_S, _SEARCH_S = 120.0, 20.0
#: No rate (rad/s) or force (m/s^2) of an IMU; squares of such numbers overflow.
_ABSURD = 1e6
#: A drift of the clocks that moves the stamps by more within the take is refused (s).
_DRIFT_S = 0.4e-3


class Options(NamedTuple):
    """
    Options of a calibration against an IMU.

    :ivar latency_ms: ``stamps.latency_ms`` that the poses were stamped with.
    :ivar gravity: local acceleration of gravity (m/s^2); None for the standard one.
    :ivar noise: of the IMU; None to estimate it.
    :ivar damage: what is wrong with the file of the take, or ''.
    """

    latency_ms: float = 0.0
    gravity: Optional[float] = None
    noise: Optional[ImuNoise] = None
    damage: str = ''


_DEFAULTS = Options()


def calibrate_imu(trajectory: Any, imu: ImuData,
                  options: Options = _DEFAULTS) -> CalibrationResult:
    """
    Calibrate.

    :param trajectory: poses of the body in the world, a ``recording.Trajectory``.
    :returns: quantities in SI units but for the names that end in a unit; ``rotation_xyzw`` turns
        vectors of the IMU into the body, ``lever_arm_m`` is the IMU's origin in the body,
        ``gravity`` points down in the world.
    :raises ConfigurationError: if poses and samples have too little time in common.
    """
    result = CalibrationResult('imu')
    values = np.concatenate((imu.gyro, imu.accelerometer), axis=1)
    with np.errstate(invalid='ignore'):
        useless = int((~(np.abs(values) < _ABSURD)).any(axis=1).sum())
    if useless:    # before anything is computed from them
        result.refuse(NAMES, f'{useless} of {len(values)} samples of the IMU are not finite')
        return result
    problem = _best_part(make_problem(
        trajectory, imu, options.noise, options.gravity or STANDARD_GRAVITY))
    _describe(result, problem, imu)
    wrong = list(check_samples(imu, problem, options.damage))
    if not wrong:
        start = find_start(problem)
        result.record.update(
            eigen_rates_rad_s=start.excitation.rates, axes_in_body=start.excitation.axes,
            rate_noise_rad_s=start.excitation.noise, correlation=start.correlation,
            acceleration_m_s2=start.excitation.acceleration)
        wrong = list(check_start(problem, start))
    if wrong:
        result.refuse(NAMES, wrong[0])
        result.notes += wrong[1:]
        return result
    one_axis = not moves_enough(start)
    solution = solve_jointly(problem, start, one_axis)
    if not one_axis and not solution.converged:    # what one axis determines is left
        one_axis, solution = True, solve_jointly(problem, start, True)
    judge(result, problem, start, solution, options, one_axis)
    return result


def _best_part(problem: Problem) -> Problem:
    """Return the part of a long take in which the body turns most about its second axis."""
    begin, end = float(problem.times[0]), float(problem.times[-1])
    if end - begin <= _LONGEST_S:
        return problem
    parts = [problem.between(at, at + _LONGEST_S) for at in np.arange(
        begin, end - _LONGEST_S + _SEARCH_S, _SEARCH_S)]
    usable = [part for part in parts if len(part.times) > 1000 and len(part.gyro) > 1000]
    # Of the gyro: the body is the same.
    return max(usable or [problem], key=lambda part: np.linalg.eigvalsh(np.cov(part.gyro.T))[1])


def _describe(result: CalibrationResult, problem: Problem, imu: ImuData) -> None:
    result.record.update(
        origin_ns=problem.origin_ns, begin_s=problem.times[0], end_s=problem.times[-1],
        poses=len(problem.times), pose_rate_hz=1.0 / array_interval(np.diff(problem.times)),
        samples=len(problem.gyro), imu_rate_hz=1.0 / problem.interval, imu_frame=imu.frame_id,
        imu_stamp_jitter_ms=problem.jitter * 1e3, lost_samples=int(problem.filled.sum()),
        noise=problem.noise._asdict(), gravity_norm_m_s2=problem.gravity)


def deviations(problem: Problem, solution: Solution) -> tuple[Floats, list[str]]:
    """
    Return the deviations of all common quantities, and what the halves of the data show.

    The larger of the model's and the sandwich's, at least the floors; that of the delay contains
    the line through the IMU's stamps.
    """
    own = np.sqrt(np.maximum(np.diag(solution.covariance), np.diag(solution.sandwich)))
    own[0] = np.hypot(own[0], problem.jitter / np.sqrt(len(problem.gyro)))
    own[:9] = np.hypot(own[:9], np.minimum(np.abs(solution.last_step[:9]), FLOORS))
    floored = own.copy()
    floored[:9] = np.maximum(own[:9], FLOORS)
    notes = []
    (first, first_cov), (second, second_cov) = solution.halves
    growth = own / np.sqrt(np.diag(solution.covariance))
    spread = growth * np.sqrt(np.diag(first_cov) + np.diag(second_cov))
    apart = np.abs(first - second)
    for part, what, scale, unit in (
            (slice(0, 1), 'latency', 1e3, 'ms'), (slice(1, 4), 'rotation', 180 / np.pi, 'deg'),
            (slice(4, 7), 'lever arm', 1e3, 'mm'), (slice(7, 9), 'gravity', 180 / np.pi, 'deg')):
        if (apart[part] > _HALVES * np.hypot(spread[part], FLOORS[part])).any():
            floored[part] = np.maximum(floored[part], apart[part] / 2.0)
            notes.append(f'the halves of the take differ by {apart[part].max() * scale:.2g} '
                         f'{unit} in {what}, more than noise explains: stated as the accuracy')
    return floored, notes


def judge(
    result: CalibrationResult, problem: Problem, start: Start, solution: Solution,
    options: Options,
    one_axis: bool,
) -> None:
    """
    Add quantities, or why they are refused, to a result.

    :param one_axis: whether the body turned about one axis only.
    """
    state, layout = solution.state, solution.layout
    sd, notes = deviations(problem, solution)
    result.notes += notes + list(check_solution(problem, solution))
    if not solution.converged:
        result.refuse(NAMES, 'the motion does not determine a solution: '
                      f'{missing_motion(start, one_axis)}')
    jump, at = delay_jump(solution)
    if jump:    # all quantities are mixtures of two solutions
        result.refuse(NAMES, (
            f'the stamps of poses or IMU jump by {abs(jump) * 1e3:.2g} ms or more {at:.0f} s '
            'after the first pose: a clock was set, or a driver restarted; record again'))
    gravity_sd = sd[7:9].copy()
    reason = ('the body turned about one axis only: ' if not moves_enough(start) else
              'the turns about the other axes are too small for a solution: '
              ) + missing_motion(start, True)
    if one_axis:
        result.refuse(('rotation_xyzw', 'lever_arm_m', 'accelerometer_bias', 'gyro_errors',
                       'accelerometer_delay_ms', 'accelerometer_errors'), reason)
        sd[0] = np.hypot(sd[0], _ONE_AXIS_S)
        gravity_sd = np.hypot(gravity_sd, 3.0 * np.abs(solution.last_step[7:9]))
        gravity_sd = np.hypot(gravity_sd, _turned_gravity(problem, start, solution, sd))
    moved = abs(state.drift) * (problem.times[-1] - problem.times[0])
    drifts = abs(state.drift) > 5.0 * sd[layout.drift]
    if drifts:
        sd[0] = np.hypot(sd[0], moved / np.sqrt(12.0))
    down = state.gravity / np.linalg.norm(state.gravity)
    weights = np.ones(len(state.errors.gyro_bias)) / len(state.errors.gyro_bias)
    made = {
        'latency_ms': Quantity(options.latency_ms + state.delay * 1e3, sd[0] * 1e3, 'ms'),
        'rotation_xyzw': Quantity(
            _positive(Rotation.from_matrix(state.rotation).as_quat()), np.degrees(sd[1:4]), '',
            'deg about the axes of the IMU'),
        'lever_arm_m': Quantity(state.lever, sd[4:7], 'm'),
        'gravity': Quantity(
            state.gravity, np.sqrt((solution.tangent**2 @ gravity_sd**2) * problem.gravity**2
                                   + (down * _known(options))**2), 'm/s^2'),
        'tilt_deg': Quantity(
            np.degrees((down[1], -down[0])), np.degrees(gravity_sd), 'deg about east and north'),
        'gyro_bias': Quantity(
            weights @ state.errors.gyro_bias,
            _mean_sd(solution, layout.gyro_bias, weights), 'rad/s'),
        'accelerometer_bias': Quantity(
            weights @ state.errors.accelerometer_bias,
            _mean_sd(solution, layout.accelerometer_bias, weights), 'm/s^2'),
        'accelerometer_delay_ms': Quantity(
            state.errors.accelerometer_delay * 1e3, sd[layout.accelerometer_delay] * 1e3, 'ms'),
        'clock_drift_ppm': Quantity(state.drift * 1e6, sd[layout.drift] * 1e6, 'ppm'),
        'gyro_errors': Quantity(
            state.errors.gyro_matrix, _lower(sd[layout.gyro_matrix]), ''),
        'accelerometer_errors': Quantity(
            state.errors.accelerometer_matrix,
            sd[layout.accelerometer_matrix].reshape(3, 3), '')}
    result.quantities.update(
        (name, value) for name, value in made.items() if name not in result.refused)
    if moved > _DRIFT_S and drifts:
        result.refuse(['latency_ms'], (
            f'the clocks of poses and IMU drift by {state.drift * 1e6:.1f} ppm, {moved * 1e3:.2g} '
            'ms in this take: synchronise them first, as with chrony'))
    sizes = {'latency_ms': sd[0] * 1e3, 'rotation_xyzw': np.degrees(sd[1:4]).max(),
             'lever_arm_m': sd[4:7].max(), 'gravity': np.degrees(gravity_sd).max(),
             **{name: np.max(made[name].sd) for name in _LIMITS}}
    for name, size in sizes.items():
        limit, unit = LIMITS.get(name) or (_LIMITS[name], made[name].unit)
        if size > limit and one_axis and name == 'gravity':
            result.refuse([name, 'tilt_deg'], reason)
        elif size > limit:
            names = [name, 'tilt_deg'] if name == 'gravity' else [name]
            result.refuse(names, f'its deviation is {size:.2g} {unit}, above {limit:g} {unit}: '
                          f'{_remedy(name, start)}')
    tilt = float(np.degrees(np.hypot(down[0], down[1])))
    if 'tilt_deg' in result.quantities and tilt > _TILT_DEG:
        result.notes.append(f'gravity leans by {tilt:.2f} deg from the z axis of the mocap world: '
                            'set the ground plane in Motive, with a level')
    result.record.update(
        steps=solution.steps, residuals={'position_m': solution.sigmas[0],
                                         'attitude_rad': solution.sigmas[1]},
        pose_noise={'position_m': solution.assumed[0], 'attitude_rad': solution.assumed[1]},
        deviations={'model': np.sqrt(np.diag(solution.covariance))[:11],
                    'sandwich': np.sqrt(np.diag(solution.sandwich))[:11]},
        correlations=_correlations(solution.covariance[:11, :11]),
        halves=[change[:9] for change, _ in solution.halves],
        delay_s=state.delay, latency_in_force_ms=options.latency_ms)


def _known(options: Options) -> float:
    """Return the deviation of the norm of gravity (m/s^2)."""
    return _LOCAL_GRAVITY if options.gravity is None else 0.001


def _turned_gravity(
    problem: Problem, start: Start, solution: Solution, sd: Floats,
) -> Floats:
    """
    Return how far gravity is unknown because the rotation about the only axis is (rad).

    A rotation of the IMU about that axis turns gravity about it too, by no angle if they are
    parallel.
    """
    axis = start.excitation.axes[0]
    mean = Rotation.from_matrix(problem.rotations[::10]).apply(axis).mean(axis=0)
    steady = float(np.linalg.norm(mean))
    down = solution.state.gravity / np.linalg.norm(solution.state.gravity)
    sine = float(np.linalg.norm(np.cross(mean / max(steady, 1e-9), down)))
    if steady < 0.9:
        return np.full(2, _UNKNOWN_RAD)
    unknown = max(float(sd[1:4].max()), _SKEW_RAD) \
        if start.excitation.acceleration > _ACCELERATION else _UNKNOWN_RAD
    return np.full(2, sine * unknown)


def _remedy(name: str, start: Start) -> str:
    if name == 'gravity' or name == 'accelerometer_bias':
        return 'hold it in six attitudes for 2 s each, and turn it about all axes'
    return missing_motion(start) if start.excitation.rates[2] < 0.5 else (
        'move it faster (1 rad/s), or record for longer')


def _mean_sd(solution: Solution, place: slice, weights: Floats) -> Floats:
    """Return the deviation of the mean of a bias over its knots."""
    found = np.zeros(3)
    for covariance in (solution.covariance, solution.sandwich):
        block = covariance[place, place].reshape(len(weights), 3, len(weights), 3)
        found = np.maximum(found, np.sqrt(np.maximum(
            np.einsum('i,iajb,j->ab', weights, block, weights).diagonal(), 0.0)))
    return found


def _lower(values: Floats) -> Floats:
    made = np.zeros((3, 3))
    made[np.tril_indices(3)] = values
    return made


def _positive(quat_xyzw: Floats) -> Floats:
    return quat_xyzw if quat_xyzw[3] >= 0 else -quat_xyzw


def _correlations(covariance: Floats) -> Floats:
    size = np.sqrt(np.diag(covariance))
    found: Floats = covariance / np.outer(size, size)
    return found
