# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The guided session: what to do next, what the motion so far is worth, what is still missing."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.stats import array_interval
from optitrack_vrpn.takes.calibrate.checks import AXES, LEAST_RATE
from optitrack_vrpn.takes.calibrate.coarse import body_rates, excitation
from optitrack_vrpn.takes.calibrate.data import Floats, Problem
from optitrack_vrpn.takes.calibrate.imu import LIMITS
from optitrack_vrpn.takes.calibrate.results import CalibrationResult
from rich.console import Group
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

#: Full bars: rate about an axis (rad/s rms), acceleration (m/s^2 rms), attitudes, share tracked.
_FULL_RATE, _FULL_ACCELERATION, _ATTITUDES = 1.0, 2.0, 6
#: Chosen: an attitude counts after this time of rest (s) with slower turns than this (rad/s).
_HOLD_S, _HOLD_RATE = 1.5, 0.15


class Stage(NamedTuple):
    """One step of the session, and how long it takes (s)."""

    text: str
    seconds: float


STAGES = (
    Stage('Put it down and let it rest.', 5.0),
    Stage('Turn it about all axes, +-45 degrees, about once a second, irregularly.', 20.0),
    Stage('Swing it 20 to 30 cm while you turn it.', 20.0),
    Stage('Hold it still in six attitudes for 2 s each: every side down once.', 20.0),
)


class GuidedProgress(NamedTuple):
    """
    The session so far.

    :ivar elapsed_s: since its begin; ``limit_s``: when it ends in any case.
    :ivar rates: of the body about roll, pitch and yaw (rad/s rms).
    :ivar acceleration: of the body (m/s^2 rms).
    :ivar attitudes: number of sides that were down at rest, of six.
    :ivar tracked: share of frames with a pose.
    :ivar result: of the last joint solution; None before the first.
    """

    elapsed_s: float
    limit_s: float
    rates: Floats
    acceleration: float
    attitudes: int
    tracked: float
    result: Optional[CalibrationResult]


def stage_at(elapsed_s: float) -> Optional[Stage]:
    """Return the present step; None after the last one."""
    for stage in STAGES:
        if elapsed_s < stage.seconds:
            return stage
        elapsed_s -= stage.seconds
    return None


def measure(
    problem: Problem, elapsed_s: float, limit_s: float, result: Optional[CalibrationResult],
) -> GuidedProgress:
    """Measure the motion so far."""
    _, rates, half = body_rates(problem)
    found = excitation(problem, rates, half)
    axes = np.sqrt(np.maximum(rates.var(axis=0) - found.noise**2, 0.0))
    interval = array_interval(np.diff(problem.times))
    expected = (problem.times[-1] - problem.times[0]) / interval + 1.0
    return GuidedProgress(elapsed_s, limit_s, axes, found.acceleration, attitudes(problem),
                          float(min(len(problem.times) / expected, 1.0)), result)


def attitudes(problem: Problem) -> int:
    """Count the sides of the IMU that were down at rest."""
    size = max(int(_HOLD_S / problem.interval), 2)
    count = len(problem.gyro) // size
    gyro = problem.gyro[:count * size].reshape(count, size, 3)
    forces = problem.accelerometer[:count * size].reshape(count, size, 3).mean(axis=1)
    moving = np.linalg.norm(gyro - np.median(problem.gyro, axis=0), axis=2)
    quiet = np.quantile(moving, 0.9, axis=1) < _HOLD_RATE
    sides = {(int(np.argmax(np.abs(force))), bool(force[np.argmax(np.abs(force))] > 0))
             for force in forces[quiet]}
    return len(sides)


def is_done(progress: GuidedProgress) -> bool:
    """Return whether all four passed after the last step, or the time is up."""
    if progress.elapsed_s >= progress.limit_s:
        return True
    return (stage_at(progress.elapsed_s) is None and progress.result is not None
            and not set(LIMITS) & set(progress.result.refused))


def advice(progress: GuidedProgress) -> str:
    """Return what to do now."""
    stage = stage_at(progress.elapsed_s)
    if stage is not None:
        return stage.text
    if progress.result is not None:
        for name in LIMITS:
            if name in progress.result.refused:
                return f'{name}: {progress.result.refused[name]}'
    return 'Keep moving it: the last solution is computed.'


def view(progress: GuidedProgress, title: str) -> Group:
    """Return the screen, for 80 columns and 24 lines."""
    bars = Table.grid(padding=(0, 1))
    bars.add_column(width=18)
    bars.add_column(width=30)
    bars.add_column(width=28, no_wrap=True)

    def bar(name: str, share: float, text: str, good: bool) -> None:
        colour = 'green' if good else 'red'
        bars.add_row(name, ProgressBar(
            100.0, 100.0 * float(np.clip(share, 0.0, 1.0)), width=30, complete_style=colour,
            finished_style=colour), text)

    for axis, rate in zip(AXES, progress.rates):
        bar(axis, rate / _FULL_RATE, f'{rate:.2f} of 1 rad/s', rate > LEAST_RATE)
    acceleration = progress.acceleration
    bar('swing', acceleration / _FULL_ACCELERATION, f'{acceleration:.1f} of 2 m/s^2',
        acceleration > 0.5)
    bar('sides down', progress.attitudes / _ATTITUDES, f'{progress.attitudes} of 6',
        progress.attitudes > 2)
    bar('tracked', progress.tracked, f'{progress.tracked:.0%} of the frames',
        progress.tracked > 0.9)
    bars.add_row('')
    for name, (limit, unit) in LIMITS.items():
        size = deviation_of(progress.result, name)
        text = f'no value yet, limit {limit:g} {unit}' if size is None else (
            f'+- {size:.2g} {unit}, limit {limit:g}')
        bar(name, 0.0 if size is None else 1.0 - np.log10(max(10.0 * size / limit, 1.0)) / 3.0,
            text, size is not None and size <= limit)
    return Group(
        Text(f'{title}   {progress.elapsed_s:.0f} of at most {progress.limit_s:.0f} s',
             style='bold', no_wrap=True, overflow='ellipsis'),
        Text(), Text(advice(progress), style='bold yellow'), Text(), bars)


def deviation_of(result: Optional[CalibrationResult], name: str) -> Optional[float]:
    """Return the largest deviation of a quantity in the unit of its limit; None if refused."""
    if result is None or name not in result.quantities:
        return None
    sd = np.max(np.asarray(result.quantities[name].sd)[..., :2]) if name == 'gravity' else np.max(
        result.quantities[name].sd)
    return float(np.degrees(sd / 9.80665)) if name == 'gravity' else float(sd)
