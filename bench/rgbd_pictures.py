# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Draw the pictures of docs/rgbd.md: the simulated room, and the odometry and the truth.

    make rgbd-pictures
"""

from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.images import grey_of
from optitrack_vrpn.guests.rgbd.odometry import Odometry, OdometrySettings
from optitrack_vrpn.guests.rgbd.room import camera_on_body, Room, Sensor, TRAJECTORIES
from optitrack_vrpn.takes.evaluate.evaluation import absolute_error
from optitrack_vrpn.takes.trajectory import Trajectory

IMAGES = Path(__file__).resolve().parent.parent / 'docs' / 'img'
CAMERA = Intrinsics(640, 480, 525.0, 525.0, 319.5, 239.5).scaled(0.5)
RATE = 15.0


def draw_room(room):
    """Draw colour and depth of three views."""
    sensor = Sensor()
    figure = Figure(figsize=(9.0, 4.6), layout='constrained')
    axes = figure.subplots(2, 3)
    for column, (name, seconds) in enumerate(
            (('loop', 2.5), ('rotation', 2.5), ('hand_held', 6.0))):
        pose = TRAJECTORIES[name].camera_poses(seconds)[0]
        exact, depth = room.render(CAMERA, pose)
        axes[0, column].imshow(sensor.image(exact))
        axes[0, column].set_title(f'{name}, {seconds:g} s', fontsize=10)
        measured = sensor.depth(depth)
        shown = axes[1, column].imshow(
            np.where(measured > 0, measured, np.nan), cmap='viridis', vmin=1.0, vmax=4.0)
        axes[1, column].set_facecolor('black')
    for each in axes.flat:
        each.set_xticks([])
        each.set_yticks([])
    figure.colorbar(shown, ax=axes[1], label='depth (m), black: none')
    figure.savefig(IMAGES / 'rgbd_room.png', dpi=80)


def follow(room, name):
    """Run the odometry; return truth and estimate."""
    path, sensor = TRAJECTORIES[name], Sensor()
    odometry = Odometry(OdometrySettings(), camera_on_body())
    times = np.arange(0.0, path.duration, 1 / RATE)
    stamps, poses = [], []
    for seconds, pose in zip(times, path.camera_poses(times)):
        image, depth = room.render(CAMERA, pose)
        frame = odometry.process(
            round(seconds * 1e9), grey_of(sensor.image(image)), sensor.depth(depth), CAMERA)
        if frame.good:
            stamps.append(frame.stamp_ns)
            poses.append(frame.pose)
    used = path.poses(np.array(stamps) / 1e9)
    return tuple(Trajectory.from_matrices(stamps, given) for given in (used, poses))


def draw_paths(room):
    """Draw odometry and truth from above, and the error over time."""
    matplotlib.rcParams.update({'svg.hashsalt': 'rgbd', 'font.size': 10})
    figure = Figure(figsize=(9.0, 3.8), layout='constrained')
    axes = figure.subplots(1, 3, gridspec_kw={'width_ratios': (1, 1, 1.4)})
    for each, name, colour in zip(axes, ('loop', 'hand_held'), ('#0a84c6', '#d55e00')):
        truth, estimate = follow(room, name)
        found = absolute_error(truth, estimate)
        each.plot(*truth.positions[:, :2].T, color='#999999', linewidth=3, label='truth')
        each.plot(*found.aligned.positions[:, :2].T, color=colour, linewidth=1,
                  label='odometry')
        each.set_aspect('equal', adjustable='datalim')
        each.set_title(f'{name}: ATE {1e3 * found.translation.rmse:.1f} mm', fontsize=10)
        each.set_xlabel('east (m)')
        each.legend(fontsize=8)
        axes[2].plot(found.stamps_ns / 1e9, 1e3 * found.distances, color=colour, label=name)
        print(f'{name}: ATE {1e3 * found.translation.rmse:.1f} mm, '
              f'{len(estimate)} of {len(truth)} frames')
    axes[0].set_ylabel('north (m)')
    axes[2].set_xlabel('time (s)')
    axes[2].set_ylabel('error (mm)')
    axes[2].set_ylim(bottom=0)
    axes[2].legend(fontsize=8)
    figure.savefig(IMAGES / 'rgbd_odometry.svg', metadata={'Date': None})


def main():
    """Write both pictures."""
    room = Room()
    draw_room(room)
    draw_paths(room)


if __name__ == '__main__':
    main()
