# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sequences in the format of the TUM RGB-D benchmark: written by hand, read, and published."""

import os
import signal
import subprocess
import sys
import time

from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.rgbd.files_io import Sequence
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.images import to_depth, to_rgb
import pytest
from rclpy.qos import qos_profile_sensor_data
from rosgraph import ROOT, stamp_ns
from sensor_msgs.msg import CameraInfo, Image

cv2 = pytest.importorskip('cv2')
#: The beginning of a real sequence of the benchmark; its stamps have six digits.
BEGIN_NS = 1_305_031_102_175_304_000
INTERVAL_NS = 33_000_000


def by_hand(folder, count=4, size=(64, 48)):
    """Write a folder as the benchmark's page describes it, without this package's writer."""
    random = np.random.default_rng(3)
    images = []
    for kind in ('rgb', 'depth'):
        (folder / kind).mkdir(parents=True)
    lists = {'rgb': '# color images\n# file: x.bag\n# timestamp filename\n',
             'depth': '# depth maps\n'}
    for number in range(count):
        stamps = {'rgb': BEGIN_NS + number * INTERVAL_NS}
        stamps['depth'] = stamps['rgb'] - 15_000_000
        bgr = random.integers(0, 256, (size[1], size[0], 3), np.uint8)
        depth = random.integers(0, 30000, (size[1], size[0])).astype(np.uint16)
        for kind, image in (('rgb', bgr), ('depth', depth)):
            stamp = f'{stamps[kind] // 10**9}.{stamps[kind] % 10**9 // 1000:06d}'
            cv2.imwrite(str(folder / kind / f'{stamp}.png'), image)
            lists[kind] += f'{stamp} {kind}/{stamp}.png\n'
        images.append((bgr[:, :, ::-1], depth / 5000.0))
    for kind, text in lists.items():
        (folder / f'{kind}.txt').write_text(text)
    (folder / 'groundtruth.txt').write_text('# ground truth trajectory\n' + ''.join(
        f'{(BEGIN_NS + at) // 10**9}.{(BEGIN_NS + at) % 10**9 // 100000:04d} '
        f'{1.3 + at / 1e9:.4f} 0.6 1.6 0.6573 0.6126 -0.2949 -0.3248\n'
        for at in range(-50_000_000, 150_000_000, 10_000_000)))
    return images


def test_a_folder_of_the_benchmark_is_read(tmp_path):
    images = by_hand(tmp_path)
    sequence = Sequence(tmp_path)
    assert [each.stamp_ns for each in sequence.pairs] == [
        BEGIN_NS + number * INTERVAL_NS for number in range(4)]
    for (rgb, depth), entry in zip(images, sequence.pairs):
        found_rgb, found_depth = sequence.load(entry)
        np.testing.assert_array_equal(found_rgb, rgb)
        np.testing.assert_allclose(found_depth, depth, atol=1e-6)
    assert len(sequence.truth) == 20
    np.testing.assert_allclose(sequence.truth.positions[5], (1.3, 0.6, 1.6))


def test_wrong_images_are_named(tmp_path):
    by_hand(tmp_path, 2)
    sequence = Sequence(tmp_path)
    first, second = sequence.pairs
    (tmp_path / first.colour).write_bytes(b'no image')
    with pytest.raises(ConfigurationError, match='not a PNG'):
        sequence.load(first)
    cv2.imwrite(str(tmp_path / second.depth), np.zeros((48, 64), np.uint8))
    with pytest.raises(ConfigurationError, match='uint16 with 1 channel'):
        sequence.load(second)
    (tmp_path / second.depth).unlink()
    with pytest.raises(ConfigurationError, match='is missing'):
        sequence.load(second)


@pytest.mark.ros
def test_a_sequence_is_published_with_its_ground_truth(tmp_path, observer):
    images = by_hand(tmp_path / 'freiburg1_mine')
    topics = [observer.listen(cls, topic, qos) for cls, topic, qos in (
        (Image, 'color/image_raw', qos_profile_sensor_data),
        (Image, 'aligned_depth_to_color/image_raw', qos_profile_sensor_data),
        (CameraInfo, 'color/camera_info', qos_profile_sensor_data),
        (PoseStamped, 'ground_truth/pose', 100))]
    before_ns = time.time_ns()
    player = subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', 'rgbd_play', str(tmp_path / 'freiburg1_mine'),
         '--wait', '1', '--rate', '0.1'], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        for topic, count in zip(topics, (4, 4, 4, 10)):
            topic.wait(count, 40.0)
        said, _ = player.communicate(timeout=20)
    finally:
        player.kill()
    colour, depth, info, truth = (topic.messages() for topic in topics)
    assert player.returncode == 0
    assert '4 of 4' in said
    assert (np.diff([stamp_ns(message) for message in colour]) == INTERVAL_NS).all()
    assert stamp_ns(colour[0]) > before_ns    # shifted to the time of playing
    for message, (rgb, _) in zip(colour, images):
        np.testing.assert_array_equal(to_rgb(message), rgb)
    for message, (_, metres) in zip(depth, images):
        assert message.encoding == '32FC1'
        np.testing.assert_allclose(to_depth(message), metres, atol=1e-6)
    assert Intrinsics.from_camera_info(info[0]).width == 64
    # the pose at the first image, by its place: x counts the seconds
    first = min(truth, key=lambda each: abs(stamp_ns(each) - stamp_ns(colour[0])))
    assert first.pose.position.x == pytest.approx(1.3, abs=0.011)


@pytest.mark.ros
@pytest.mark.parametrize('size', [(320, 240), (640, 480)])
def test_every_image_reaches_the_odometry_as_shipped(tmp_path, unused_domain, size):
    """
    A pair of QVGA does not fit the shared memory of Fast DDS's defaults; the player counts.

    The subscriptions keep five images: at 3 Hz the odometry may be starved for a second.
    """
    by_hand(tmp_path / 'freiburg1_mine', 15, size)
    environment = {name: value for name, value in os.environ.items()
                   if not name.endswith('_DEFAULT_PROFILES_FILE')}
    tool = [sys.executable, '-m', 'optitrack_vrpn']
    odometry = subprocess.Popen(
        [*tool, 'rgbd_odometry', '--ros-args', '-p', 'autostart:=true', '-p',
         'mount:=parameters', *(word for name, topic in (
             ('colour', 'color/image_raw'), ('depth', 'aligned_depth_to_color/image_raw'),
             ('info', 'color/camera_info')) for word in ('-p', f'{name}:={topic}'))],
        cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    try:
        played = subprocess.run(
            [*tool, 'rgbd_play', str(tmp_path / 'freiburg1_mine'), '--wait', '1', '--rate', '0.1'],
            cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    finally:
        odometry.send_signal(signal.SIGINT)
        odometry.wait(20)
    published, received = played.stdout.splitlines()
    assert published.startswith('15 of 15 pairs')
    assert received == 'rgbd_odometry received 15 colour and 15 depth images, 15 pairs'
