# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run the RGB-D odometry on simulated sequences and compare it with the truth.

    make bench-rgbd                        accuracy and processor time per frame
    make bench-rgbd ARGS=--methods         also variants of the method on the hand-held sequence
    make bench-rgbd ARGS=--transform       error of the transform from body to camera
    make bench-rgbd ARGS='--topics 30'     the node rgbd_odometry in its own process: images on
                                           real topics at 30 Hz for 30 seconds

The recording package computes ATE and RPE (over 1 s). The sequence rotation does not determine the
rotation of the alignment, so its ATE is that of poses aligned at the first frame. NEES is the mean
of e^T C^-1 e / 6 with the error e of a pose and its covariance C: 1 is exact, below 1 the
covariance is too large. ms is the median of the processor time per frame.
"""

import argparse
from dataclasses import replace
import os
from pathlib import Path
import signal
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
from optitrack_vrpn.cli.signals_io import with_parent
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics, opencv
from optitrack_vrpn.guests.rgbd.images import grey_of
from optitrack_vrpn.guests.rgbd.odometry import FrameStatus, Odometry, OdometrySettings
from optitrack_vrpn.guests.rgbd.room import Room, Sensor, TRAJECTORIES
from optitrack_vrpn.takes.evaluate.evaluation import absolute_error, relative_error
from optitrack_vrpn.takes.evaluate.evaluation_odometry import evaluate_odometry
from optitrack_vrpn.takes.trajectory import Trajectory
from scipy.spatial.transform import Rotation

ROOT = Path(__file__).resolve().parent.parent
CAMERA = Intrinsics(640, 480, 525.0, 525.0, 319.5, 239.5).scaled(0.5)
RATE = 30
LEAST_FRAMES = 240
SECOND = 1_000_000_000
DEFAULT = OdometrySettings()
METHODS = {
    'default': DEFAULT,
    '150 keypoints': replace(DEFAULT, keypoints=150),
    'ORB': replace(DEFAULT, detector='orb'),
}


class Sequence(NamedTuple):
    """Images of a simulated camera, and the true poses."""

    name: str
    stamps_ns: list
    poses: np.ndarray
    grey: list
    depth: list


def render(name, seed, every=1, start=0.0, seconds=0.0):
    """Render the images of a motion, with the errors of a Kinect."""
    motion = TRAJECTORIES[name]
    count = max(LEAST_FRAMES, round((seconds or motion.duration) * RATE))
    times = start + np.arange(0, count, every) / RATE
    poses = motion.camera_poses(times)
    room, sensor = Room(), Sensor(seed=seed)
    grey, depth = [], []
    for pose in poses:
        image, exact = room.render(CAMERA, pose)
        grey.append(grey_of(sensor.image(image)))
        depth.append(sensor.depth(exact))
    return Sequence(name, [round(each * SECOND) for each in times], poses, grey, depth)


def nees(frame, truth):
    """Return the normalised squared error of a pose; the fixed frame is the first camera frame."""
    error = np.concatenate([
        truth[:3, 3] - frame.pose[:3, 3],
        Rotation.from_matrix(truth[:3, :3] @ frame.pose[:3, :3].T).as_rotvec()])
    return error @ np.linalg.solve(frame.covariance, error) / 6


def evaluate(sequence, settings):
    """Run the odometry and return a row of the table."""
    odometry = Odometry(settings)
    frames, cost = [], []
    for stamp, grey, depth in zip(sequence.stamps_ns, sequence.grey, sequence.depth):
        begin = time.process_time()
        frames.append(odometry.process(stamp, grey, depth, CAMERA))
        cost.append(1e3 * (time.process_time() - begin))
    good = [k for k, frame in enumerate(frames) if frame.good]
    stamps = [sequence.stamps_ns[k] for k in good]
    truth, found = sequence.poses[good], np.array([frames[k].pose for k in good])
    reference = Trajectory.from_matrices(stamps, truth)
    if sequence.name == 'rotation':
        # positions in one point determine no alignment: that of the first pose is used
        moved = (truth[0] @ np.linalg.inv(found[0]) @ found - truth)[:, :3, 3]
        ate_m = statistics.fmean(np.sum(moved ** 2, axis=1)) ** 0.5
    else:
        ate_m = absolute_error(
            reference, Trajectory.from_matrices(stamps, found)).translation.rmse
    rpe = relative_error(reference, Trajectory.from_matrices(stamps, found), seconds=1.0)
    from_first = np.linalg.inv(sequence.poses[0]) @ sequence.poses
    squares = [nees(frames[k], from_first[k]) for k in good
               if frames[k].status is FrameStatus.TRACKED]
    length = np.sum(np.linalg.norm(np.diff(sequence.poses[:, :3, 3], axis=0), axis=1))
    return (len(frames), f'{length:.1f}', f'{1e3 * ate_m:.1f}',
            f'{1e3 * rpe.translation.rmse:.1f}', f'{rpe.rotation_deg.rmse:.3f}',
            odometry.counters.failed,
            round(statistics.mean(len(frames[k].features) for k in good)),
            f'{statistics.mean(squares):.2f}', f'{statistics.median(cost):.1f}')


def transform_errors(seed, seconds):
    """Print the errors of the estimated transform, which is the identity here."""
    for every in (2, 3):
        errors = []
        for turn in range(6):
            sequence = render('calibration', seed + turn, every, 5.3 * turn, seconds)
            odometry = Odometry(DEFAULT)
            frames = [odometry.process(*each, CAMERA) for each in zip(
                sequence.stamps_ns, sequence.grey, sequence.depth)]
            good = [k for k, frame in enumerate(frames) if frame.good]
            times = np.arange(sequence.stamps_ns[0] - SECOND, sequence.stamps_ns[-1] + SECOND,
                              SECOND // 100)
            found = evaluate_odometry(
                Trajectory.from_matrices(
                    times, TRAJECTORIES['calibration'].camera_poses(times / SECOND)),
                Trajectory.from_matrices([sequence.stamps_ns[k] for k in good],
                                         np.array([frames[k].pose for k in good]))).hand_eye
            errors.append((1e3 * np.linalg.norm(found.translation),
                           np.degrees(found.rotation.magnitude())))
        print(f'{seconds:g} s at {RATE // every} Hz: ' + ', '.join(
            f'{millimetres:.1f} mm {degrees:.2f} deg' for millimetres, degrees in errors),
            flush=True)


HEAD = ('frames', 'm', 'ATE mm', 'RPE mm/s', 'deg/s', 'failed', 'keypoints', 'NEES', 'ms')


def table(title, rows):
    print(f'{title:24}' + ''.join(f'{name:>10}' for name in HEAD))
    for name, row in rows:
        print(f'{name:24}' + ''.join(f'{value!s:>10}' for value in row), flush=True)


def topics(seconds):
    """Send images to the node in its own process, and measure its poses."""
    sys.path[:0] = [str(ROOT), str(ROOT / 'test')]
    from conftest import claim_domain
    domain, claim = claim_domain()
    os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST')
    sequence = render('hand_held', 1)
    node = subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', 'rgbd_odometry', '--ros-args', '-p',
         'autostart:=true', '-p', 'control.generations:=[none]'], cwd=ROOT,
        env=with_parent(os.environ))
    try:
        measure(seconds, sequence, node)
    finally:
        node.send_signal(signal.SIGINT)
        node.wait(20.0)
        claim.close()


def measure(seconds, sequence, node):
    """Publish the sequence forwards and backwards in real time, and print the result."""
    from nav_msgs.msg import Odometry as OdometryMessage
    from optitrack_vrpn.guests.rgbd.camera_node_ros import (
        image_message, info_message, make_header, stamp_ns)
    from optitrack_vrpn.guests.rgbd.images import from_depth, from_rgb
    from rclpy.qos import qos_profile_sensor_data
    from rosgraph import Observer, wait_until
    from sensor_msgs.msg import CameraInfo, Image
    fields = [(from_rgb(np.repeat(grey[..., None], 3, axis=2)), from_depth(depth))
              for grey, depth in zip(sequence.grey, sequence.depth)]
    order = [*range(len(fields)), *range(len(fields) - 2, 0, -1)]
    sent, delays = {}, []
    with Observer('camera') as observer:
        create = observer.node.create_publisher
        colour, depth, info = (create(kind, f'rgbd/{name}', qos_profile_sensor_data) for kind, name
                               in ((Image, 'rgb'), (Image, 'depth'), (CameraInfo, 'info')))
        observer.node.create_subscription(
            OdometryMessage, 'vo', lambda message: delays.append(
                time.monotonic() - sent[stamp_ns(message.header)]), 100)
        wait_until(lambda: all(each.get_subscription_count() for each in (colour, depth, info)))
        time.sleep(2.0)
        begin, cpu = time.monotonic(), processor_s(node.pid)
        for number in range(seconds * RATE):
            time.sleep(max(0.0, begin + number / RATE - time.monotonic()))
            # regular stamps, as of a camera, independent of the scheduling of this process
            stamp = 1_700_000_000_000_000_000 + number * SECOND // RATE
            header = make_header(stamp, 'camera')
            rgb, metres = fields[order[number % len(order)]]
            sent[stamp] = time.monotonic()
            info.publish(info_message(header, CAMERA))
            colour.publish(image_message(header, rgb))
            depth.publish(image_message(header, metres))
        wait_until(lambda: len(delays) == len(sent) or time.monotonic() > begin + seconds + 2)
        cpu = processor_s(node.pid) - cpu
    milliseconds = sorted(1e3 * each for each in delays)
    print(f'{len(sent)} pairs at {RATE} Hz, {len(delays)} poses '
          f'({100 * len(delays) / len(sent):.1f} %); processor time of the whole node '
          f'{1e3 * cpu / len(sent):.1f} ms a frame ({100 * cpu / seconds:.0f} % of a core); delay '
          f'from image to pose: median {statistics.median(milliseconds):.1f}, '
          f'99 % {milliseconds[int(0.99 * len(milliseconds))]:.1f}, '
          f'greatest {milliseconds[-1]:.1f} ms')


def processor_s(pid):
    """Return the processor time of a process (s)."""
    fields = Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seed', type=int, default=1, help='seed of the camera errors (1)')
    parser.add_argument('--methods', action='store_true')
    parser.add_argument('--transform', action='store_true')
    parser.add_argument('--sequence', choices=tuple(TRAJECTORIES), action='append')
    parser.add_argument('--topics', type=int, metavar='SECONDS', default=0)
    arguments = parser.parse_args()
    opencv().setNumThreads(1)
    if arguments.topics:
        topics(arguments.topics)
        return
    if arguments.transform:
        for seconds in (25.0, 40.0):
            transform_errors(arguments.seed, seconds)
        return
    names = arguments.sequence or list(TRAJECTORIES)
    table('sequence', ((name, evaluate(render(name, arguments.seed), DEFAULT)) for name in names))
    if arguments.methods:
        sequence = render('hand_held', arguments.seed)
        table('hand_held, method', ((name, evaluate(sequence, settings))
                                    for name, settings in METHODS.items()))
        table('hand_held, fewer images', (
            (f'{RATE // every} Hz, {name}', evaluate(
                render('hand_held', arguments.seed, every), settings))
            for every in (3, 6) for name, settings in METHODS.items()))


if __name__ == '__main__':
    main()
