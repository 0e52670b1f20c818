# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure ``calibrate imu`` on simulated data: errors, deviations, refusals, processor time.

``--vicon2gt FILE`` repeats the simulation of vicon2gt (Geneva and Huang, RPNG-2020-VICON2GT,
table 1) along a trajectory such as tum_corridor1_512_16_okvis.txt of open_vins, ov_data/sim.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
import os
import time
from typing import NamedTuple

import numpy as np
from optitrack_vrpn.sim.imu import enu_pose, gravity_of, ImuModel, SimulatedImu
from optitrack_vrpn.sim.motion import Handheld
from optitrack_vrpn.takes.calibrate.coarse import find_start
from optitrack_vrpn.takes.calibrate.data import ImuData, ImuNoise, make_problem
from optitrack_vrpn.takes.calibrate.imu import calibrate_imu
from optitrack_vrpn.takes.calibrate.solver import solve_jointly
from optitrack_vrpn.takes.trajectory import Trajectory
from scipy.interpolate import BSpline
from scipy.signal import lfilter
from scipy.spatial.transform import Rotation

#: White noise and walks of gyro and accelerometer, from data sheets.
BMI088 = (2.4e-4, 1.7e-3, 2e-5, 2e-4)
ICM42688 = (4.9e-5, 6.9e-4, 1e-5, 1e-4)
MPU9250 = (1.7e-4, 2.9e-3, 5e-5, 5e-4)
EUROC = (1.6968e-4, 2e-3, 1.9393e-5, 3e-3)
EPOCH_NS = 1_700_000_000_000_000_000
NAMES = ('latency_ms', 'rotation_xyzw', 'lever_arm_m', 'gravity')


class Case(NamedTuple):
    """One case: motion, noise of the poses and of the IMU, and what must be refused."""

    name: str
    angles_deg: tuple = (40.0, 26.0, 34.0)
    reach: tuple = (0.25, 0.2, 0.25)
    slowest: float = 0.15
    fastest: float = 1.6
    seconds: float = 60.0
    rate: float = 120.0
    position: float = 3e-4
    attitude_deg: float = 0.15
    correlated_s: float = 0.0
    outliers: float = 0.0
    noise: tuple = BMI088
    errors: float = 0.0
    accelerometer_delay_ms: float = 0.0
    jitter_ms: float = 0.1
    skew_ppm: float = 0.0
    refused: tuple = ()
    may: tuple = ()    # refused in some runs: gravity leans from the axis, or halves differ


CASES = (
    Case('base'),
    Case('hard: noise correlated over 50 ms, 1 % outliers, 1 % scale and cross-axis, 3 ms',
         correlated_s=0.05, outliers=0.01, errors=0.01, accelerometer_delay_ms=3.0),
    Case('good: 240 Hz, 0.1 mm, 0.05 deg, ICM-42688-P', rate=240.0, position=1e-4,
         attitude_deg=0.05, noise=ICM42688),
    Case('poor: 100 Hz, 1 mm, 0.3 deg, MPU-9250', rate=100.0, position=1e-3, attitude_deg=0.3,
         noise=MPU9250),
    Case('2 % scale and cross-axis, 3 ms, 0.5 % outliers', errors=0.02, outliers=0.005,
         accelerometer_delay_ms=3.0),
    Case('noise correlated over 50 ms', correlated_s=0.05),
    Case('1 % outliers of 30 mm and 11 deg', outliers=0.01),
    Case('20 s only', seconds=20.0),
    Case('1 ms of jitter of all stamps', jitter_ms=1.0),
    Case('slow: about 0.6, 0.4, 0.3 rad/s, 50 mm', angles_deg=(24.0, 16.0, 12.0),
         reach=(0.05, 0.05, 0.05), slowest=0.1, fastest=0.4, may=('latency_ms',)),
    Case('rest', angles_deg=(0.0, 0.0, 0.0), reach=(0.0, 0.0, 0.0), refused=NAMES),
    Case('translation only', angles_deg=(0.0, 0.0, 0.0), refused=NAMES),
    Case('vertical axis only', angles_deg=(40.0, 0.0, 0.0), reach=(0.0, 0.0, 0.0),
         refused=('rotation_xyzw', 'lever_arm_m'), may=('gravity',)),
    Case('horizontal axis only', angles_deg=(0.0, 35.0, 0.0), reach=(0.0, 0.0, 0.0),
         refused=('rotation_xyzw', 'lever_arm_m', 'gravity')),
    Case('planar robot: yaw and driving', angles_deg=(40.0, 0.0, 0.0), reach=(0.5, 0.0, 0.5),
         fastest=0.5, refused=('rotation_xyzw', 'lever_arm_m'), may=('gravity',)),
    Case('planar robot, 1 % scale and cross-axis', angles_deg=(40.0, 0.0, 0.0),
         reach=(0.5, 0.0, 0.5), fastest=0.5, errors=0.01,
         refused=('rotation_xyzw', 'lever_arm_m'), may=('gravity',)),
    Case('planar robot with 6 deg of tilt', angles_deg=(40.0, 6.0, 6.0), reach=(0.5, 0.0, 0.5)),
    Case('very slow: 0.05 rad/s', angles_deg=(10.0, 6.0, 6.0), reach=(0.05, 0.05, 0.05),
         slowest=0.02, fastest=0.1, refused=NAMES),
    Case('clocks drift by 10 ppm', skew_ppm=10.0, refused=('latency_ms',)),
)


def simulate(case, seed):
    """Return poses, samples of the IMU and the truth of one run."""
    draws = np.random.default_rng(1000 + seed)
    motion = Handheld(angles_deg=case.angles_deg, reach=case.reach, slowest=case.slowest,
                      fastest=case.fastest, seed=seed)
    turned = Rotation.random(rng=draws)
    model = ImuModel(
        rotation=tuple(turned.as_rotvec()), lever_arm=tuple(draws.normal(0.0, 0.08, 3)),
        gyro_noise=case.noise[0], accelerometer_noise=case.noise[1], gyro_walk=case.noise[2],
        accelerometer_walk=case.noise[3], gyro_bias=tuple(draws.normal(0.0, 0.01, 3)),
        accelerometer_bias=tuple(draws.normal(0.0, 0.1, 3)), errors=case.errors,
        accelerometer_delay_ms=case.accelerometer_delay_ms, jitter_ms=case.jitter_ms,
        skew_ppm=case.skew_ppm, tilt_deg=tuple(draws.normal(0.0, 1.0, 2)), seed=seed)
    imu = SimulatedImu(motion, model)
    stamps, gyro, accelerometer = imu.sample(np.arange(-0.3, case.seconds + 0.3, 0.005))
    late = draws.uniform(-0.1, 0.1)
    times = np.arange(0.0, case.seconds, 1.0 / case.rate)
    positions, matrices = enu_pose(motion.at(times))
    sigma = (case.position, np.radians(case.attitude_deg))
    noise = [coloured(draws.normal(size=(len(times), 3)), case) * size for size in sigma]
    rotations = Rotation.from_matrix(matrices) * Rotation.from_rotvec(noise[1])
    positions = positions + noise[0]
    wrong = np.flatnonzero(draws.random(len(times)) < case.outliers)
    positions[wrong] += draws.normal(0.0, 0.03, (len(wrong), 3))
    quats = rotations.as_quat()
    if len(wrong):
        quats[wrong] = (rotations[wrong] * Rotation.from_rotvec(
            draws.normal(0.0, 0.2, (len(wrong), 3)))).as_quat()
    pose_stamps = times + late + draws.normal(0.0, case.jitter_ms * 1e-3, len(times))
    order = np.argsort(pose_stamps, kind='stable')
    truth = {'latency_ms': late * 1e3, 'rotation_xyzw': turned,
             'lever_arm_m': np.array(model.lever_arm), 'gravity': gravity_of(model)}
    return (Trajectory(to_ns(pose_stamps[order]), positions[order], quats[order]),
            ImuData(to_ns(stamps), gyro, accelerometer), truth)


def to_ns(seconds):
    """Convert times to stamps."""
    return EPOCH_NS + np.round(seconds * 1e9).astype(np.int64)


def coloured(white, case):
    """Return noise of unit deviation, correlated over the case's time."""
    if not case.correlated_s:
        return white
    share = np.exp(-1.0 / (case.rate * case.correlated_s))
    return lfilter([np.sqrt(1.0 - share**2)], [1.0, -share], white, axis=0)


def error_of(name, value, truth):
    """Return the error of each component: ms, degrees, mm, degrees about two axes."""
    if name == 'latency_ms':
        return np.array([value - truth])
    if name == 'rotation_xyzw':
        return np.degrees((truth.inv() * Rotation.from_quat(value)).as_rotvec())
    if name == 'lever_arm_m':
        return 1e3 * (np.asarray(value) - truth)
    return np.degrees(np.asarray(value) - truth)[:2] / 9.80665


def run(job):
    """Calibrate once: errors and deviations by name, and seconds of the processor."""
    case, seed = job
    poses, imu, truth = simulate(case, seed)
    begin = time.process_time()
    result = calibrate_imu(poses, imu)
    spent = time.process_time() - begin
    found = {}
    for name, quantity in result.quantities.items():
        if name in truth:
            scale = {'lever_arm_m': 1e3, 'gravity': np.degrees(1.0 / 9.80665)}.get(name, 1.0)
            error = error_of(name, quantity.value, truth[name])
            found[name] = error, np.atleast_1d(quantity.sd)[:len(error)] * scale
    return found, dict(result.refused), spent


def row(case, runs, pool):
    """Print one row of the table."""
    results = list(pool.map(run, [(case, seed) for seed in range(runs)]))
    cells = []
    for name in NAMES:
        kept = [found[name] for found, _, _ in results if name in found]
        if not kept:
            cells.append('refused')
            continue
        size = np.sqrt(np.mean([(error**2).sum() for error, _ in kept]))
        inside = np.mean([np.abs(error) <= 2.0 * sd for error, sd in kept])
        cells.append(f'{size:.3f} ({inside:.0%})' + (
            f' {runs - len(kept)} refused' if len(kept) < runs else ''))
    expected = all(set(case.refused) == {
        name for name in NAMES if name in refused and name not in case.may}
                   for _, refused, _ in results)
    spent = np.median([spent for _, _, spent in results])
    print(f'| {case.name} ({runs}) | ' + ' | '.join(cells)
          + f' | {"yes" if expected else "NO"} | {spent:.1f} |', flush=True)


class Recorded:
    """A recorded trajectory as a motion: its poses are control points of a cubic B-spline."""

    def __init__(self, path):
        rows = np.loadtxt(path)
        spacing = (rows[-1, 0] - rows[0, 0]) / (len(rows) - 1)
        quats = rows[:, 4:8]
        signs = np.where((quats[1:] * quats[:-1]).sum(1) < 0, -1.0, 1.0)
        flips = np.cumprod(np.append(1.0, signs))
        knots = spacing * np.arange(-2, len(rows) + 2)
        self._place = BSpline(knots, rows[:, 1:4], 3)
        self._turn = BSpline(knots, quats * flips[:, None], 3)

    def at(self, time):
        """Return attitudes, rates (body), positions, and accelerations (world)."""
        ahead, behind = (Rotation.from_quat(self._turn(time + step)) for step in (1e-4, -1e-4))
        return (Rotation.from_quat(self._turn(time)), (behind.inv() * ahead).as_rotvec() / 2e-4,
                self._place(time), self._place(time, 2))


def vicon2gt_run(job):
    """Return rms of rotation (deg) and position (mm), aligned in position and yaw."""
    path, position, attitude, seed, seconds = job
    motion, draws = Recorded(path), np.random.default_rng(seed)
    start = 5.0
    times = np.arange(start, start + seconds, 0.005)
    attitudes, rates, places, accelerations = motion.at(times)
    gravity = Rotation.from_rotvec((0.25, -0.18, 0.0)).apply((0.0, 0.0, -9.81))
    gyro_noise, force_noise, gyro_walk, force_walk = EUROC
    step = np.sqrt(0.005)

    def measured(values, noise, walk):
        bias = np.cumsum(draws.normal(0.0, walk * step, values.shape), axis=0)
        return values + bias + draws.normal(0.0, noise / step, values.shape)

    tilt = Rotation.align_vectors([gravity], [(0.0, 0.0, -9.81)])[0]
    gyro = measured(rates, gyro_noise, gyro_walk)
    force = measured(attitudes.inv().apply(accelerations + (0.0, 0.0, 9.81)), force_noise,
                     force_walk)
    pose_times = np.arange(start + 0.1, start + seconds - 0.1, 0.01)
    own, _, place, _ = motion.at(pose_times)
    turn = Rotation.from_rotvec(draws.normal(0.0, 0.1, 3))
    arm = draws.normal(0.0, 0.2 / np.sqrt(3.0), 3)
    body = tilt * own * turn.inv()
    positions = tilt.apply(place) - body.apply(arm) + draws.normal(
        0.0, position, (len(place), 3))
    body = body * Rotation.from_rotvec(draws.normal(0.0, attitude, (len(place), 3)))
    problem = make_problem(
        Trajectory(to_ns(pose_times + 0.05), positions, body.as_quat()),
        ImuData(to_ns(times), gyro, force), ImuNoise(*EUROC), 9.81)
    solution = solve_jointly(problem, find_start(problem))
    state = solution.state
    nodes = solution.nodes + pose_times[0] + 0.05
    kept = (nodes > pose_times[0]) & (nodes < pose_times[-1])
    attitudes, _, places, _ = motion.at(nodes[kept])
    level = Rotation.align_vectors([(0.0, 0.0, -9.81)], [state.gravity])[0]
    ours, where = level * Rotation.from_matrix(state.attitudes[kept]), level.apply(
        state.positions[kept])
    aligned, shift = yaw_alignment(where, places)
    angle = (attitudes.inv() * aligned * ours).magnitude()
    away = places - aligned.apply(where) - shift
    return (np.degrees(np.sqrt((angle**2).mean())), 1e3 * np.sqrt((away**2).sum(1).mean()))


def yaw_alignment(ours, truth):
    """Return the rotation about up, and the shift, that align positions."""
    a, b = ours - ours.mean(0), truth - truth.mean(0)
    yaw = np.arctan2((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum(),
                     (a[:, :2] * b[:, :2]).sum())
    turn = Rotation.from_euler('z', yaw)
    return turn, truth.mean(0) - turn.apply(ours.mean(0))


#: Table 1 of vicon2gt: rotation (deg), position (mm) by noise of position (m), attitude (rad).
VICON2GT = {
    0.001: ((0.020, 1), (0.106, 7), (0.300, 21), (0.464, 45), (0.441, 45)),
    0.005: ((0.037, 2), (0.157, 9), (0.318, 20), (0.466, 45), (0.441, 45)),
    0.010: ((0.115, 6), (0.211, 12), (0.348, 24), (0.462, 45), (0.440, 45)),
    0.100: ((0.050, 22), (0.371, 29), (0.424, 32), (0.362, 35), (0.391, 40)),
}
ANGLES = (0.001, 0.005, 0.01, 0.05, 0.1)


def vicon2gt(path, runs, pool):
    """Print the table of vicon2gt's simulation beside its own figures."""
    print('| noise | ' + ' | '.join(f'{np.degrees(angle):.3g} deg' for angle in ANGLES) + ' |')
    print('|---' * (len(ANGLES) + 1) + '|')
    for position in (0.001, 0.005, 0.01, 0.05, 0.1):
        cells = []
        for number, angle in enumerate(ANGLES):
            found = np.array(list(pool.map(vicon2gt_run, [
                (path, position, angle, seed, 60.0) for seed in range(runs)])))
            ours = np.sqrt((found**2).mean(axis=0))
            theirs = VICON2GT.get(position)
            text = f'{ours[0]:.3f}/{ours[1]:.1f}'
            if theirs is not None:
                better = ours[0] <= theirs[number][0] and ours[1] <= theirs[number][1] + 0.5
                text = f'{theirs[number][0]:.3f}/{theirs[number][1]} > {text}' + (
                    '' if better else ' WORSE')
            cells.append(text)
        print(f'| {position * 1e3:g} mm | ' + ' | '.join(cells) + ' |', flush=True)


def main():
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument('--runs', type=int, default=200, help='of each case')
    parser.add_argument('--cases', default='',
                        help='only cases with one of these words, separated by commas')
    parser.add_argument('--workers', type=int, default=os.cpu_count())
    parser.add_argument('--vicon2gt', metavar='FILE', help='repeat its table')
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.workers) as pool:
        if arguments.vicon2gt:
            vicon2gt(arguments.vicon2gt, arguments.runs, pool)
            return
        print('rms error (share of components within 2 sd)\n')
        print('| case (runs) | latency, ms | rotation, deg | lever arm, mm | gravity, deg '
              '| refused as expected | processor, s |')
        print('|---|---|---|---|---|---|---|')
        for case in CASES:
            if any(part in case.name for part in arguments.cases.split(',')):
                row(case, arguments.runs, pool)


if __name__ == '__main__':
    main()
