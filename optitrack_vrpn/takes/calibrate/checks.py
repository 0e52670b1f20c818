# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of an IMU's data before and after the solution: units, signs, axes, losses, mounts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from optitrack_vrpn.takes.calibrate.coarse import Start
from optitrack_vrpn.takes.calibrate.data import Floats, ImuData, Problem
from optitrack_vrpn.takes.calibrate.solver import Solution

#: Chosen: lowest rate of an IMU (Hz).
_LEAST_HZ = 50.0
#: Chosen: norm of the mean specific force in the world (m/s^2): biases and scale within 8 %.
_FORCE = (9.0, 10.6)
#: Chosen: correlation of rates (0.03 at rest and in translation, 0.98 in usable motion), and the
#: largest residual (squared) as a share of that of another delay.
LEAST_CORRELATION, _SECOND = 0.7, 0.25
#: Chosen: most lost samples.
_MOST_LOST = 0.05
#: Least rate about the second axis (rad/s), also as a multiple of its noise.
LEAST_RATE, _RATE_NOISE = 0.15, 4.0
AXES = ('roll', 'pitch', 'yaw')
#: A jump of the stamps: least size (s), and in deviations (simulated: below 2.5 without a jump in
#: all cases of bench/calibrate.py, 30 with one of 1 ms); blocks of data (s) and least number of
#: them on each side.
_JUMP_S, _JUMP_SD, _BLOCK_S, _SIDE = 1e-4, 8.0, 1.0, 4


def check_samples(imu: ImuData, problem: Problem, damage: str = '') -> Iterator[str]:
    """
    Return what makes the samples useless, one line each.

    :param damage: what is wrong with the file that they are from, or ''.
    """
    rate = 1.0 / problem.interval
    measured = len(imu.stamps_ns) / max((imu.stamps_ns.max() - imu.stamps_ns.min()) * 1e-9, 1e-9)
    if measured < _LEAST_HZ:
        yield f'the IMU has {measured:.0f} Hz: set its rate to 100 Hz or more'
    values = np.concatenate((imu.gyro, imu.accelerometer), axis=1)
    moving = np.linalg.norm(imu.gyro - np.median(imu.gyro, axis=0), axis=1)[1:] > LEAST_RATE
    same = (np.diff(values, axis=0) == 0).all(axis=1)
    repeated = float(same[moving].mean()) if moving.any() else 0.0
    if repeated > 0.05:
        yield (f'{repeated:.0%} of the samples repeat the one before: the driver publishes faster '
               f'({rate:.0f} Hz) than the sensor measures')
    for name, part in (('gyro', imu.gyro), ('accelerometer', imu.accelerometer)):
        for axis in range(3):
            column = np.abs(part[:, axis])
            top = column.max()
            if (column == top).sum() > 5 and top > 1.5 * np.median(column) and top > 1.0:
                yield (f'axis {"xyz"[axis]} of the {name} saturates at {top:.3g}: set a wider '
                       'range, or move more gently')
    lost = float(problem.filled.mean())
    if lost > _MOST_LOST:
        yield f'{lost:.0%} of the samples of the IMU are lost: ' + (
            damage or 'subscribe with a deeper queue, or use a wire')


def moves_enough(start: Start) -> bool:
    """Return whether the body turns fast enough about two axes."""
    return bool(start.excitation.rates[1] > least_rate(start))


def least_rate(start: Start) -> float:
    """Return the least rate about an axis that determines anything (rad/s)."""
    return max(LEAST_RATE, _RATE_NOISE * start.excitation.noise)


def missing_motion(start: Start, one_axis: bool = False) -> str:
    """Return how to move the body about the axes about which it moved least."""
    main, last = np.abs(start.excitation.axes[0]), np.abs(start.excitation.axes[2])
    chosen = np.flatnonzero(main < 0.6) if one_axis else np.flatnonzero(last > 0.6)
    names = ' and '.join(AXES[at] for at in chosen) or 'turn'
    return f'{names} it, +-45 degrees, once a second, irregularly'


def check_start(problem: Problem, start: Start) -> Iterator[str]:
    """Return why start values cannot be used, one line each."""
    speeds = start.excitation.rates
    if speeds[0] < least_rate(start):
        yield (f'the body turned with {speeds[0]:.2f} rad/s only: turn it about two axes or more, '
               '+-45 degrees, once a second, irregularly')
        return
    if start.correlation < LEAST_CORRELATION:
        yield (f'the rates of gyro and body do not match (correlation {start.correlation:.2f}): '
               'is this the IMU on this body, and was no clock set meanwhile? Turn it faster, '
               '1 rad/s, about two axes or more')
        return
    if not 0.75 < start.gain < 1.33:
        unit = ' (it is in degrees per second)' if 40.0 < start.gain < 80.0 else ''
        cause = 'wrong unit' if start.gain > 1.0 else 'wrong unit, or its range is too small'
        yield f'the gyro measures {start.gain:.2f} times the rate of the body{unit}: {cause}'
    if start.second > _SECOND:
        yield ('the motion repeats itself, so that several delays fit: turn it irregularly, with '
               'changes of speed')
    if start.mirror < 0.5:
        yield ('the axes of the gyro are left-handed: one of them has the wrong sign, see REP 103 '
               'and REP 145')
        return
    up = _mean_force(problem, start)
    norm = float(np.linalg.norm(up))
    if moves_enough(start) and not _FORCE[0] < norm < _FORCE[1]:
        cause = ('it is in g: multiply by 9.80665' if 0.85 < norm < 1.2 else
                 'gravity was removed: use the raw topic, as imu/data_raw' if norm < 0.5 else
                 'its scale or unit is wrong, or its axes are not those of the gyro: one has the '
                 'wrong sign, or two are swapped')
        yield f'the accelerometer measures {norm:.2f} m/s^2 in the mean instead of 9.8: {cause}'
        return
    tilt = float(np.degrees(np.arccos(np.clip(up[2] / np.linalg.norm(up), -1.0, 1.0))))
    if tilt > 150.0:
        yield ('the accelerometer has the wrong sign: at rest it must measure +9.8 on the axis '
               'that points up (REP 145)')
    elif tilt > 40.0 and moves_enough(start):
        yield (f'the accelerometer sees up {tilt:.0f} degrees from the z axis of the mocap world: '
               'its axes are not those of the gyro, or the world of the poses is not z-up')


def _mean_force(problem: Problem, start: Start) -> Floats:
    at = np.clip(np.searchsorted(problem.imu_times, problem.times - start.delay), 0,
                 len(problem.gyro) - 1)
    mean: Floats = np.einsum('nij,jk,nk->i', problem.rotations, start.rotation,
                             problem.accelerometer[at]) / len(at)
    return mean


def delay_jump(solution: Solution) -> tuple[float, float]:
    """
    Return size (s) and stamp (s) of a jump of the delay within the take; 0 and 0 without one.

    A line and a step are fitted to what the delay is in each second; its residuals give the
    deviation. The line of the clocks' drift hides a part of a jump: the size is a lower limit.
    """
    stamps, delays, weights = solution.delays
    block = ((stamps - stamps[0]) / _BLOCK_S).astype(int)
    total = np.bincount(block, weights)
    good = np.flatnonzero(total > 0.2 * np.median(total))
    means = np.bincount(block, weights * delays)[good] / total[good]
    weight = np.sqrt(total[good])
    found = (0.0, 0.0, 0.0)
    for at in range(_SIDE, len(good) - _SIDE + 1):
        design = np.column_stack((np.ones(len(good)), good, good >= good[at])) * weight[:, None]
        inverse = np.linalg.pinv(design)
        fit = inverse @ (means * weight)
        rest = means * weight - design @ fit
        sd = max(1.4826 * float(np.median(np.abs(rest))), 1.0) * float(np.linalg.norm(inverse[2]))
        if abs(fit[2]) / sd > found[2]:
            found = float(fit[2]), float(stamps[0] + good[at] * _BLOCK_S), abs(fit[2]) / sd
    return found[:2] if abs(found[0]) > _JUMP_S and found[2] > _JUMP_SD else (0.0, 0.0)


def check_solution(problem: Problem, solution: Solution) -> Iterator[str]:
    """Return warnings about the fit, one line each."""
    for what, found, assumed, unit, scale in (
            ('positions', solution.sigmas[0], solution.assumed[0], 'mm', 1e3),
            ('attitudes', solution.sigmas[1], solution.assumed[1], 'deg', 180.0 / np.pi)):
        if found > 1.3 * assumed:
            yield (f'{what} differ from the fit by {found * scale:.2g} {unit}, '
                   f'{found / assumed:.1f} times their noise: smoothing, stamps that jitter, or a '
                   'body that bends')
    residual, rates, forces = solution.rest
    size = (residual**2).sum(axis=1)
    for what, motion in (('turns', np.linalg.norm(rates, axis=1)),
                         ('accelerates', np.abs(np.linalg.norm(forces, axis=1) - 9.8))):
        low, high = np.quantile(motion, (0.5, 0.9))
        fast, slow = np.median(size[motion > high]), np.median(size[motion < low])
        growth = np.sqrt(fast / max(slow, 1e-18))
        if growth > 1.6 and solution.sigmas[0] > 1.1 * solution.assumed[0]:
            yield (f'the residuals are {growth:.1f} times as large while the body {what} fast: '
                   'the IMU or the markers are on a soft mount, or the stamps jitter')
            break
    if problem.bends > 0.3e-3:
        yield (f'the stamps of the IMU leave a straight line by {problem.bends * 1e3:.1f} ms: its '
               'driver stamps late or its clock was set')
    lost = int(problem.filled.sum())
    if lost:
        yield f'{lost} samples of the IMU were lost and bridged'
