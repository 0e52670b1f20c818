# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What the launch files for device, recording and playing start."""

import pytest


def included(action):
    """Give package, file and arguments of an included launch file."""
    share, _, name = action.given[0].given[0].given[0]
    return share.given[0], name, dict(action.named['launch_arguments'])


@pytest.mark.parametrize('driver, package, depth', [
    ('realsense2', 'realsense2_camera', '/camera/camera/aligned_depth_to_color/image_raw'),
    ('openni2', 'openni2_camera', '/camera/depth/image')])
def test_a_driver_and_odometry_on_its_topics_are_started(load_launch, driver, package, depth):
    _, actions = load_launch('rgbd_device.launch.py', driver=driver)
    (driver_package, _, _), (own, name, given) = map(included, actions)
    assert driver_package == package
    assert (own, name) == ('optitrack_vrpn', 'rgbd_odometry.launch.py')
    assert given['depth'] == depth
    # each argument is one of the included file, whose own test checks its parameters
    declared, _ = load_launch('rgbd_odometry.launch.py')
    assert set(given) <= set(declared)


def test_aligned_depth_is_asked_of_the_realsense(load_launch):
    _, actions = load_launch('rgbd_device.launch.py', odometry='false')
    assert len(actions) == 1
    assert included(actions[0])[2]['align_depth.enable'] == 'true'


def test_a_recording_is_played_in_its_own_time(load_launch, tmp_path):
    _, (odometry, player) = load_launch('rgbd_play.launch.py', folder=str(tmp_path))
    _, name, given = included(odometry)
    declared, _ = load_launch('rgbd_odometry.launch.py')
    assert (name, given['use_sim_time']) == ('rgbd_odometry.launch.py', 'true')
    assert set(given) <= set(declared)
    command = player.named['cmd']
    assert command[:4] == ['ros2', 'bag', 'play', str(tmp_path)]
    assert '--clock' in command
