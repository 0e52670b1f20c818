# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find start values by comparing angular rates, and measure how the body moved.

Offset: correlation of the norms of mean rates. Rotation: Mair et al., Spatio-Temporal
Initialization for IMU to Camera Registration, ROBIO 2011, with Kabsch's solution.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.core.space import (
    best_rotation, interpolate_rotations, interpolate_rows, lag_correlations, lengths, logarithm,
    transposed)
from optitrack_vrpn.takes.calibrate.data import Floats, pose_noise, Problem
from scipy.ndimage import median_filter

#: Chosen: so many lags of this step (s) are searched on each side, with so much common time (s).
_LAGS, _STEP_S, _LEAST_S = 50, 0.01, 5.0
#: Windows (s) over which rates are averaged: the first whose noise is below _QUIET (rad/s).
_WINDOWS_S, _QUIET = (0.08, 0.16, 0.32, 0.64), 0.15
#: Chosen: distance (s) from the best lag within which there is no second peak.
_PEAK_S = 0.1
#: Chosen: another peak of the norms of at least this share of the highest can be the right one.
SECOND_PEAK = 0.9
#: Chosen: poses whose median replaces an outlier among them.
_MEDIAN = 5
#: Chosen: half of the time (s) over which positions are differentiated twice.
_HALF_S = 0.06
#: Chosen: weight of specific forces against rates when one axis turns (m/s^2).
_FORCE_SCALE = 0.3


class Excitation(NamedTuple):
    """
    How the body moved.

    :ivar rates: rates (rad/s rms) about three orthogonal axes without noise, the fastest first.
    :ivar axes: (3, 3) rows: these axes in the body.
    :ivar noise: noise of the rates (rad/s).
    :ivar acceleration: of the body in the world (m/s^2 rms) without its mean.
    """

    rates: Floats
    axes: Floats
    noise: float
    acceleration: float


class Start(NamedTuple):
    """
    Start values.

    :ivar delay: stamp of a pose minus its time on the clock of the gyro (s).
    :ivar rotation: (3, 3) body from IMU.
    :ivar bias: of the gyro (rad/s).
    :ivar correlation: of the norms of the rates at the best lag.
    :ivar second: residual of the rates at the best delay over that at the second best, if its
        norms correlate too.
    :ivar mirror: residual of the best reflection over that of the best rotation; below 1 the axes
        of one side are left-handed.
    :ivar gain: rates of the gyro over those of the poses.
    """

    delay: float
    rotation: Floats
    bias: Floats
    correlation: float
    second: float
    mirror: float
    gain: float
    excitation: Excitation


class _Means:
    """Mean rates of the gyro over a window, from their integral."""

    def __init__(self, problem: Problem, values: Floats, half: float) -> None:
        self.times, self._half = problem.imu_times, half
        steps = 0.5 * (values[1:] + values[:-1]) * problem.interval
        self._integral = np.vstack((np.zeros(3), np.cumsum(steps, axis=0)))

    def at(self, times: Floats) -> Floats:
        """Return the means around these times (s)."""
        return (interpolate_rows(self.times, self._integral, times + self._half)
                - interpolate_rows(self.times, self._integral, times - self._half)) / (
                    2.0 * self._half)

    def inside(self, times: Floats) -> Any:
        """Return at which times the window is within the samples."""
        return (times - self._half > self.times[0]) & (times + self._half < self.times[-1])


def body_rates(problem: Problem) -> tuple[Floats, Floats, float]:
    """
    Return times, mean rates of the body (rad/s, its own axes), and half the window (s).

    Times around and in gaps are left out.
    """
    _, attitude = pose_noise(problem)
    half = next((window for window in _WINDOWS_S if np.sqrt(2.0) * attitude / window < _QUIET),
                _WINDOWS_S[-1]) / 2.0
    times = np.arange(problem.times[0] + half, problem.times[-1] - half, _STEP_S)
    after = np.searchsorted(problem.times, times + half)
    before = np.searchsorted(problem.times, times - half, side='right') - 1
    gaps = np.append(0, np.cumsum(np.diff(problem.times) > 0.1))
    last = len(gaps) - 1
    times = times[gaps[np.minimum(after, last)] == gaps[np.minimum(before, last)]]
    first = interpolate_rotations(problem.times, problem.rotations, times - half)
    second = interpolate_rotations(problem.times, problem.rotations, times + half)
    return times, logarithm(transposed(first) @ second) / (2.0 * half), half


def excitation(problem: Problem, rates: Floats, half: float) -> Excitation:
    """Measure how a body turned and accelerated."""
    _, attitude = pose_noise(problem)
    noise = np.sqrt(2.0) * attitude / (2.0 * half)
    values, vectors = np.linalg.eigh(np.cov(rates.T))
    speeds = np.sqrt(np.maximum(values[::-1] - noise**2, 0.0))
    middle = np.arange(problem.times[0] + 0.1, problem.times[-1] - 0.1, 0.02)
    # Outliers of positions are no accelerations: each is a single pose.
    smooth = replace(problem, positions=median_filter(problem.positions, (_MEDIAN, 1)))
    away = _second_difference(smooth, middle, 0.1)
    position, _ = pose_noise(problem)
    spread = max(float((away.var(axis=0)).sum()) - 3 * 6.0 * (position / 0.1**2)**2, 0.0)
    return Excitation(speeds, vectors.T[::-1], noise, float(np.sqrt(spread)))


def _second_difference(problem: Problem, times: Floats, step: float) -> Floats:
    def at(shift: float) -> Floats:
        return interpolate_rows(problem.times, problem.positions, times + shift)

    return (at(step) - 2.0 * at(0.0) + at(-step)) / step**2


def find_start(problem: Problem) -> Start:
    """Find start values of the joint solution; the caller judges whether they are good."""
    times, rates, half = body_rates(problem)
    found = excitation(problem, rates, half)
    means = _Means(problem, problem.gyro, half)
    lags = _STEP_S * np.arange(-_LAGS, _LAGS + 1)
    places = np.rint((times - times[0]) / _STEP_S).astype(int)
    grid = times[0] + _STEP_S * np.arange(-_LAGS, places[-1] + _LAGS + 1)
    norms, gyro_norms = np.full(places[-1] + 1, np.nan), np.full(len(grid), np.nan)
    norms[places] = lengths(rates)
    known = means.inside(grid)
    gyro_norms[known] = lengths(means.at(grid[known]))
    scores = lag_correlations(norms, gyro_norms, round(_LEAST_S / _STEP_S))
    best = int(np.argmax(scores))
    delay = float(lags[best])
    peaks = np.flatnonzero((scores[1:-1] > scores[:-2]) & (scores[1:-1] > scores[2:])) + 1
    others = peaks[np.abs(lags[peaks] - delay) > _PEAK_S]

    def compare(at: float, determinant: float = 1.0) -> tuple[float, Floats, Floats, Floats]:
        inside = means.inside(times - at)
        ours, theirs = rates[inside], means.at(times[inside] - at)
        ours_0, theirs_0 = ours - ours.mean(0), theirs - theirs.mean(0)
        rotation = best_rotation(ours_0, theirs_0, determinant)
        return float(((ours_0 - theirs_0 @ rotation.T)**2).mean()), rotation, ours, theirs

    def refine(at: float) -> float:
        step = 0.004
        for _ in range(3):
            left, middle, right = (compare(at + shift)[0] for shift in (-step, 0.0, step))
            if (curvature := left - 2.0 * middle + right) <= 0:
                break
            at += float(np.clip(0.5 * step * (left - right) / curvature, -_STEP_S, _STEP_S))
            step = 0.002
        return at

    # Norms repeat twice per swing; the vectors tell the swings apart.
    close = [float(lags[at]) for at in others if scores[at] > SECOND_PEAK * scores[best]]
    found_at = sorted((refine(at) for at in (delay, *close)), key=lambda at: compare(at)[0])
    delay = found_at[0]
    residual, rotation, ours, theirs = compare(delay)
    second = residual / max(compare(found_at[1])[0], 1e-12) if close else 0.0
    mirror = compare(delay, -1.0)[0] / max(residual, 1e-12)
    gain = float(np.sqrt(theirs.var(axis=0).sum() / max(ours.var(axis=0).sum(), 1e-12)))
    if 0.5 < gain < 2.0:
        # Outliers of attitudes are turns about all axes; the gyro, on the same body, has none.
        felt = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(theirs.T))[::-1], 0.0))
        found = found._replace(rates=np.minimum(found.rates, felt))
    if found.rates[1] < 0.15:
        rotation = _with_forces(problem, delay, ours, theirs, max(np.sqrt(residual), 1e-3))
    bias = theirs.mean(0) - ours.mean(0) @ rotation
    return Start(delay, rotation, bias, float(scores[best]), second, mirror, gain, found)


def _with_forces(
    problem: Problem, delay: float, rates: Floats, gyro: Floats, scatter: float,
) -> Floats:
    """Return the rotation from rates and specific forces, which one axis of rotation needs."""
    forces = _Means(problem, problem.accelerometer, _HALF_S / 2.0)
    margin = _HALF_S + 0.05
    times = np.arange(problem.times[0] + margin, problem.times[-1] - margin, _STEP_S)
    times = times[forces.inside(times - delay)]
    world = _second_difference(problem, times, _HALF_S) + (0.0, 0.0, problem.gravity)
    attitudes = interpolate_rotations(problem.times, problem.rotations, times)
    body = np.einsum('nji,nj->ni', attitudes, world)
    measured = forces.at(times - delay)
    # The mean force stays: it points up in both, whatever turns.
    return best_rotation(
        np.concatenate(((rates - rates.mean(0)) / scatter, body / _FORCE_SCALE)),
        np.concatenate(((gyro - gyro.mean(0)) / scatter, measured / _FORCE_SCALE)))
