# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Measure the effect of loop closure on two rounds through simulated rooms.

Each row shows the absolute trajectory error (RMSE of positions after rigid alignment, mm) of the
odometry and of the map. The odometry closes loops itself while its model contains the landmarks of
the whole round; rows with a small model show loops that only the map closes.
"""

import argparse
import math
from statistics import median
import time
from typing import NamedTuple

import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.images import grey_of
from optitrack_vrpn.guests.rgbd.mapper import Mapper
from optitrack_vrpn.guests.rgbd.odometry import Odometry, OdometrySettings
from optitrack_vrpn.guests.rgbd.room import (
    Box, CameraPath, Harmonic, Room, RoomLayout, Sensor, TRAJECTORIES)
from optitrack_vrpn.takes.evaluate.evaluation import absolute_error
from optitrack_vrpn.takes.trajectory import Trajectory as Path

CAMERA = Intrinsics(320, 240, 262.5, 262.5, 159.75, 119.75)
#: A hall of 10 x 8 m, for two rounds of a circle of 2.3 m radius.
HALL = RoomLayout(
    room=Box((-5.0, -4.0, 0.0), (5.0, 4.0, 2.8)),
    boxes=(Box((3.7, -1.5, 0.0), (4.9, 0.4, 1.3)), Box((-1.0, 3.1, 0.0), (0.6, 3.95, 1.6)),
           Box((-4.9, -0.7, 0.0), (-3.9, 0.8, 0.9)), Box((-0.8, -3.95, 0.0), (0.7, -3.2, 1.9)),
           Box((-0.6, -0.7, 0.0), (0.8, 0.5, 1.5))))
#: A corridor around a block; two rounds see more landmarks than the default model can contain.
CORRIDOR = RoomLayout(
    room=Box((-6.8, -6.8, 0.0), (6.8, 6.8, 2.8)),
    boxes=(Box((-3.0, -3.0, 0.0), (3.0, 3.0, 2.8)), Box((5.9, -1.5, 0.0), (6.7, 0.4, 1.3)),
           Box((-1.0, 6.0, 0.0), (0.6, 6.7, 1.6)), Box((-6.7, -0.7, 0.0), (-5.9, 0.8, 0.9)),
           Box((-0.8, -6.7, 0.0), (0.7, -6.0, 1.9))))
_SWAY = math.radians(8.0)


def around(radius_m: float, round_s: float) -> CameraPath:
    """Make two rounds of a circle, facing forward, with pitch and roll oscillations."""
    return CameraPath(
        2 * round_s, f'two rounds of a circle of {radius_m} m',
        x=Harmonic(0.0, 0.0, ((radius_m, round_s, math.pi / 2),)),
        y=Harmonic(0.0, 0.0, ((radius_m, round_s, 0.0),)),
        z=Harmonic(1.2, 0.0, ((0.1, round_s / 2, 0.0),)),
        yaw=Harmonic(math.pi / 2, 2 * math.pi / round_s),
        pitch=Harmonic(math.radians(5.0), 0.0, ((_SWAY, 4.0, 0.4),)),
        roll=Harmonic(0.0, 0.0, ((_SWAY, 5.0, 0.0),)))


class Row(NamedTuple):
    """One run."""

    scene: str
    landmarks: int
    odometry_m: float
    map_m: float
    keyframes: int
    loops: int
    left_out: int
    keyframe_ms: float
    solve_ms: float


def run(scene: str, layout: RoomLayout, trajectory: CameraPath, landmarks: int, rate: float,
        seed: int) -> tuple[Row, tuple[Path, Path, Path]]:
    """Map a scene, and return the row and the paths: truth, odometry, map."""
    times = np.arange(0.0, trajectory.duration, 1.0 / rate)
    truth = trajectory.camera_poses(times)
    room, sensor = Room(layout), Sensor(seed=seed)
    odometry = Odometry(OdometrySettings(landmarks=landmarks))
    mapper, took, used = Mapper(), [], []
    for number, (when, pose) in enumerate(zip(times, truth)):
        colour, depth = room.render(CAMERA, pose)
        colour, depth = sensor.image(colour), sensor.depth(depth)
        frame = odometry.process(1 + round(when * 1e9), grey_of(colour), depth, CAMERA)
        if not frame.good:
            continue
        used.append(number)
        mapper.add_pose(frame.stamp_ns, frame.pose)
        if mapper.is_due(frame.pose):
            variance = np.diag(frame.covariance)
            began = time.perf_counter()
            keyframe = mapper.add_keyframe(
                frame.stamp_ns, frame.pose, (variance[:3].mean(), variance[3:].mean()), colour,
                depth, CAMERA)
            mapper.find_loops(keyframe.number)
            took.append(time.perf_counter() - began)
    path = mapper.path()
    true = Path.from_matrices(path.stamps_ns, truth[used])
    before = absolute_error(true, path).translation.rmse
    began = time.perf_counter()
    solved = mapper.solve()
    solve_s = time.perf_counter() - began
    after = absolute_error(true, mapper.path()).translation.rmse
    row = Row(scene, landmarks, before, after, solved.keyframes, solved.loops, solved.outliers,
              1e3 * median(took), 1e3 * solve_s)
    return row, (true, path, mapper.path())


def draw(file: str, true: Path, before: Path, after: Path) -> None:
    """Draw the paths from above, and their errors over time, as SVG."""
    import matplotlib
    matplotlib.use('svg')
    matplotlib.rcParams.update({'svg.hashsalt': 'rgbd', 'svg.fonttype': 'none', 'font.size': 9})
    from matplotlib import pyplot
    figure, (plan, error) = pyplot.subplots(1, 2, figsize=(8.0, 3.6), width_ratios=(1, 1.2))
    seconds = (true.stamps_ns - true.stamps_ns[0]) / 1e9
    for name, path, colour in (('odometry', before, 'tab:orange'), ('map', after, 'tab:blue')):
        found = absolute_error(true, path)
        plan.plot(*found.aligned.positions[:, :2].T, color=colour, lw=1.2, label=name)
        error.plot(seconds, 1e3 * found.distances, color=colour, lw=1.2,
                   label=f'{name}: ATE {1e3 * found.translation.rmse:.0f} mm')
    plan.plot(*true.positions[:, :2].T, color='black', lw=0.6, label='truth')
    plan.set(aspect='equal', xlabel='x (m)', ylabel='y (m)', title='from above')
    error.set(xlabel='time (s)', ylabel='error (mm)', title='distance from the truth',
              ylim=(0, None))
    plan.legend(loc='center', frameon=False)
    error.legend(loc='upper left', frameon=False)
    figure.tight_layout()
    figure.savefig(file, metadata={'Date': None}, facecolor='white')


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rate', type=float, default=15.0, help='frames per second (15)')
    parser.add_argument('--seed', type=int, default=2, help='seed of the noise (2)')
    parser.add_argument('--picture', help='draw the last row into this SVG file')
    given = parser.parse_args()
    print('| scene | landmarks of the model | ATE odometry (mm) | ATE map (mm) | ratio '
          '| keyframes | loops | left out | ms a keyframe | ms to solve |')
    print('|---|---|---|---|---|---|---|---|---|---|')
    small, hall, corridor = TRAJECTORIES['loop'], around(2.3, 24.0), around(5.0, 40.0)
    for scene, layout, trajectory, landmarks in (
            ('room, 2 x 5 m', RoomLayout(), small, 5000), ('room, 2 x 5 m', RoomLayout(), small,
                                                           1000),
            ('hall, 2 x 14 m', HALL, hall, 5000), ('hall, 2 x 14 m', HALL, hall, 1000),
            ('corridor, 2 x 31 m', CORRIDOR, corridor, 5000)):
        row, paths = run(scene, layout, trajectory, landmarks, given.rate, given.seed)
        print(f'| {row.scene} | {row.landmarks} | {1e3 * row.odometry_m:.1f} '
              f'| {1e3 * row.map_m:.1f} | {row.odometry_m / row.map_m:.1f} | {row.keyframes} '
              f'| {row.loops} | {row.left_out} | {row.keyframe_ms:.0f} '
              f'| {row.solve_ms:.0f} |', flush=True)
    if given.picture:
        draw(given.picture, *paths)


if __name__ == '__main__':
    main()
