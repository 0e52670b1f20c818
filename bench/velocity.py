# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the error of estimated velocities on closed-form trajectories.

    python -m bench.velocity                 print the tables
    python -m bench.velocity --write-docs    and update docs/evidence/bodies.md

Every method is causal and is evaluated at the stamp of the newest pose, so that none has a delay.
Finite differences are also evaluated in the middle of their step, where their error is smallest;
Savitzky-Golay (second order, scipy) is fitted to a window that ends with the newest pose, with the
length of smallest error, chosen afterwards.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
import math
import time

from bench.bodies import DOCS, drone, Pose, rover, wand, write_block
import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.rotation import from_rotation_vector, multiply
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.motion.kalman import FilteredMotion
from optitrack_vrpn.stream.motion.lowpass import Lowpass, LowpassConfig
from optitrack_vrpn.stream.motion.rest import RestDetector
from optitrack_vrpn.stream.motion.settings import MotionConfig
from scipy import signal
from scipy.spatial.transform import Rotation

Array = NDArray[np.float64]
EVIDENCE = DOCS.parent / 'evidence' / 'bodies.md'
DURATION_S = 30.0
SETTLE_S = 1.0
ATTITUDE_PER_POSITION = 3.0
"""Attitude noise (rad) for each metre of position noise: markers some 30 cm apart."""


def sample(truth: Callable[[float], Pose], rate: float, noise: float,
           seed: int = 0) -> tuple[Array, Array, Array, Array, Array]:
    """
    Sample a trajectory.

    :returns: times (s), noisy positions and attitudes (x, y, z, w), true velocities and angular
        rates in world axes (by central differences of the closed form over 20 us).
    """
    draw = np.random.default_rng(seed)
    times = np.arange(round(DURATION_S * rate)) / rate
    poses = [truth(t) for t in times]
    positions = np.array([pose.position for pose in poses])
    turn = Rotation.from_rotvec(
        draw.normal(0.0, noise * ATTITUDE_PER_POSITION, positions.shape))
    quats = (turn * Rotation.from_quat([pose.quat for pose in poses])).as_quat()
    step = 1e-5
    after = [truth(t + step) for t in times]
    before = [truth(t - step) for t in times]
    velocities = np.array([
        np.subtract(a.position, b.position) for a, b in zip(after, before)]) / (2 * step)
    rates = (Rotation.from_quat([pose.quat for pose in after])
             * Rotation.from_quat([pose.quat for pose in before]).inv()).as_rotvec() / (2 * step)
    return times, positions + draw.normal(0.0, noise, positions.shape), quats, velocities, rates


def kalman(times: Array, positions: Array, quats: Array,
           config: MotionConfig) -> tuple[Array, Array]:
    """
    Run this package's filter.

    :returns: velocities and angular rates.
    """
    motion = FilteredMotion(config)
    velocities, rates = [], []
    for t, p, q in zip(times.tolist(), positions.tolist(), quats.tolist()):
        motion.update(round(t * 1e9), tuple(p), tuple(q))
        velocities.append(motion.velocity)
        rates.append(motion.angular_velocity)
    return np.array(velocities), np.array(rates)


def differences(values: Array, rate: float) -> Array:
    """Take the difference to the pose before."""
    return np.vstack((np.zeros(3), np.diff(values, axis=0) * rate))


def turning(quats: Array, rate: float) -> Array:
    """Take the rate of turning since the pose before."""
    attitudes = Rotation.from_quat(quats)
    return np.vstack((np.zeros(3), (attitudes[1:] * attitudes[:-1].inv()).as_rotvec() * rate))


def savitzky_golay(values: Array, rate: float, window: int) -> Array:
    """Fit parabolas to windows that end with the newest sample, and take their slope there."""
    taps = signal.savgol_coeffs(window, 2, deriv=1, delta=1 / rate, pos=window - 1)
    return signal.lfilter(taps, 1.0, values, axis=0)


def rms(error: Array, rate: float) -> float:
    """Take the root mean square of the errors' lengths once everything has settled."""
    settled = error[round(SETTLE_S * rate):]
    return math.sqrt((settled * settled).sum(axis=1).mean())


WINDOWS = (5, 7, 9, 11, 15, 19, 25, 31, 41, 61, 81, 121)


def row(name: str, truth: Callable[[float], Pose], rate: float, noise: float) -> str:
    """Measure all methods on one trajectory."""
    times, positions, quats, velocities, rates = sample(truth, rate, noise)
    known = MotionConfig(position_noise=noise, attitude_noise=noise * ATTITUDE_PER_POSITION)
    v, w = kalman(times, positions, quats, known)
    default, default_w = kalman(times, positions, quats, MotionConfig())
    difference = differences(positions, rate)
    middle = 0.5 * (velocities + np.vstack((velocities[:1], velocities[:-1])))
    fits = {window: rms(savitzky_golay(positions, rate, window) - velocities, rate)
            for window in WINDOWS}
    best = min(fits, key=fits.__getitem__)
    # The path turned through; near enough a vector for windows this short.
    path = np.cumsum(turning(quats, rate) / rate, axis=0)
    best_w = min(rms(savitzky_golay(path, rate, window) - rates, rate) for window in WINDOWS)
    return (
        f'| {name} | {rate:.0f} | {noise * 1e3:g} '
        f'| {rms(v - velocities, rate):.3f} | {rms(default - velocities, rate):.3f} '
        f'| {fits[best]:.3f} ({best}) | {rms(difference - velocities, rate):.3f} '
        f'| {rms(difference - middle, rate):.3f} '
        f'| {rms(w - rates, rate):.3f} | {rms(default_w - rates, rate):.3f} | {best_w:.3f} '
        f'| {rms(turning(quats, rate) - rates, rate):.3f} |')


def accuracy() -> str:
    """Make the table of velocity errors, in Markdown."""
    lines = [
        'Root mean square error over 30 s; noise of one axis (attitude: 3 mrad for each mm). '
        'Kalman: with the true noise as a setting / with default settings.',
        '',
        '| Body | Hz | Noise (mm) | v Kalman (m/s) | default | Savitzky-Golay (window) '
        '| Differences | at mid-step | w Kalman (rad/s) | default | Savitzky-Golay '
        '| Differences |',
        '|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|']
    for name, truth in (('drone', drone), ('wand', wand), ('rover', rover)):
        for rate in (100.0, 240.0):
            for noise in (0.0001, 0.001):
                lines.append(row(name, truth, rate, noise))
    return '\n'.join(lines)


def thesis(rate: float = 100.0, cutoff: float = 5.0, order: int = 5) -> tuple[float, ...]:
    """
    Filter a body at rest that is as noisy as the thesis measured: 3 sigma 1 mm and 0.11 degrees.

    :returns: 3 sigma of the filtered position (m) and attitude (rad), group delay at 0 Hz (s).
    """
    draw = np.random.default_rng(7)
    count = 20_000
    positions = draw.normal((1.0, -2.0, 0.5), 0.001 / 3, (count, 3))
    turn = draw.normal(0.0, math.radians(0.11) / 3, (count, 3))
    base = from_rotation_vector((0.3, -1.2, 2.0))
    lowpass = Lowpass(LowpassConfig(cutoff_hz=cutoff, order=order))
    filtered, left = [], []
    for k in range(count):
        x, y, z = turn[k].tolist()
        _, p, q = lowpass.update(
            round(k * 1e9 / rate), tuple(positions[k].tolist()),
            multiply(from_rotation_vector((x, y, z)), base), rate)
        filtered.append(p)
        left.append(q)
    error = (Rotation.from_quat(left) * Rotation.from_quat(base).inv()).as_rotvec()
    settled = slice(200, None)
    return (3 * float(np.std(np.array(filtered)[settled], axis=0).mean()),
            3 * float(np.std(error[settled], axis=0).mean()), lowpass.delay_s)


def smoothing() -> str:
    """Make the table of the thesis's figures, in Markdown."""
    position, attitude, delay = thesis()
    return '\n'.join((
        '| At rest, 100 Hz, order 5, 5 Hz | raw | filtered |', '|---|--:|--:|',
        f'| position, 3 sigma (mm) | 1.00 | {position * 1e3:.2f} |',
        f'| attitude, 3 sigma (degrees) | 0.110 | {math.degrees(attitude):.3f} |',
        f'| group delay at low frequencies (s) | 0 | {delay:.3f} |'))


def costs() -> str:
    """Measure the processor time of each part for one pose, in Markdown."""
    rate = 240.0
    times, positions, quats, _, _ = sample(drone, rate, 0.0003)
    poses = list(zip([round(t * 1e9) for t in times.tolist()],
                     [tuple(p) for p in positions.tolist()], [tuple(q) for q in quats.tolist()]))
    motion = FilteredMotion()
    lowpass = Lowpass(LowpassConfig(5.0))
    rest = RestDetector()
    odd = FilteredMotion()
    fixed = FilteredMotion(MotionConfig(adaptive=False))
    parts: tuple[tuple[str, Callable[..., object]], ...] = (
        ('validity (`Tracker.update`)', lambda t, p, q: body.update(t, t, p, q)),
        ('motion, settled', motion.update),
        ('motion, not adaptive, settled', fixed.update),
        ('motion, every interval another',
         lambda t, p, q: odd.update(t + (t // 4_000_000) % 2 * 200_000, p, q)),
        ('low-pass, order 5', lambda t, p, q: lowpass.update(t, p, q, rate)),
        ('rest', lambda t, p, q: rest.update(p, q)))
    lines = ['| Part | us a pose |', '|---|--:|']
    for name, call in parts:
        best = math.inf
        for _ in range(5):
            body = Tracker('drone')
            motion.reset()
            odd.reset()
            fixed.reset()
            start = time.process_time()
            for t, p, q in poses:
                call(t, p, q)
            took = time.process_time() - start
            start = time.process_time()
            for t, p, q in poses:
                _nothing(t, p, q)
            best = min(best, took - (time.process_time() - start))
        lines.append(f'| {name} | {best / len(poses) * 1e6:.1f} |')
    return '\n'.join(lines)


def _nothing(t: int, p: object, q: object) -> None:
    """Cost what a call costs."""


def main() -> None:
    """Print the tables; write them into the documentation if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--write-docs', action='store_true', help='update docs/evidence/bodies.md')
    arguments = parser.parse_args()
    print(accuracy(), end='\n\n')
    for marker, make in (('smoothing', smoothing), ('costs', costs)):
        text = make()
        print(text, end='\n\n')
        if arguments.write_docs:
            write_block(EVIDENCE, f'bench/velocity.py {marker}', text)


if __name__ == '__main__':
    main()
