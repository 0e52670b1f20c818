# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node rgbd_mapper with real topics and services, on an odometry that drifts."""

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry, Path
import numpy as np
from optitrack_vrpn.rgbd.images import from_depth, from_rgb
from optitrack_vrpn.rgbd.map_io import load_keyframes
from optitrack_vrpn.rgbd.mapper_ros import RgbdMapper
from optitrack_vrpn.rgbd.messages_ros import (
    image_message, info_message, make_header, pose_message)
from optitrack_vrpn.rgbd.trajectories import camera_on_body
import pytest
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import NodeHere, wait_until
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_srvs.srv import Trigger
from test_rgbd_mapper import ate, CAMERA, drifting, images
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

pytestmark = [pytest.mark.ros, pytest.mark.network]

LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: rgbd_mapper's default mount.
BASE_FROM_CAMERA = camera_on_body()


class Robot:
    """Publish images and odometry, and collect what the mapper publishes."""

    def __init__(self, observer):
        create = observer.node.create_publisher
        self.publishers = [create(CameraInfo, 'rgbd/info', 10), create(Image, 'rgbd/rgb', 10),
                           create(Image, 'rgbd/depth', 10), create(Odometry, 'vo', 10)]
        self.poses = observer.listen(PoseArray, 'keyframe_poses', LATCHED)
        self.edges = observer.listen(MarkerArray, 'keyframe_associations', LATCHED)
        self.paths = observer.listen(Path, 'mapper_path', LATCHED)
        self.clouds = observer.listen(PointCloud2, 'map/cloud', LATCHED)
        self.keyframes = observer.listen(PointCloud2, 'keyframes', 200)
        self.transforms = observer.listen(TFMessage, '/tf', 200)
        self.diagnostics = observer.listen(DiagnosticArray, '/diagnostics', 100)
        self.observer = observer

    def show(self, number, odometry=None, offset_ns=0, variance=0.0):
        stamps, _, seen = images()
        stamp = int(stamps[number]) + offset_ns
        header = make_header(stamp, 'camera_rgb_optical_frame')
        colour, depth = seen[number]
        self.publishers[0].publish(info_message(header, CAMERA))
        self.publishers[1].publish(image_message(header, from_rgb(colour)))
        self.publishers[2].publish(image_message(header, from_depth(depth)))
        camera = drifting()[number] if odometry is None else odometry
        message = Odometry(header=make_header(stamp, 'odom'), child_frame_id='camera_link')
        message.pose.pose = pose_message(camera @ np.linalg.inv(BASE_FROM_CAMERA))
        message.pose.covariance = (variance * np.eye(6)).ravel()
        self.publishers[3].publish(message)

    def call(self, name):
        client = self.observer.node.create_client(Trigger, f'/rgbd_mapper/{name}')
        assert client.wait_for_service(10.0)
        future = client.call_async(Trigger.Request())
        wait_until(future.done, 30.0, name)
        self.observer.node.destroy_client(client)
        return future.result()


@pytest.fixture
def mapper(observer):
    """Give an active mapper that is connected, and the robot."""
    robot = Robot(observer)
    here = NodeHere({'control.generations': ['none'], 'solve': False}, cls=RgbdMapper)
    try:
        assert here.run(here.node.trigger_configure).name == 'SUCCESS'
        assert here.run(here.node.trigger_activate).name == 'SUCCESS'
        wait_until(lambda: all(each.get_subscription_count() for each in robot.publishers))
        # the camera must be known before the first pair
        wait_until(lambda: all(each.get_publisher_count() for each in here.node.subscriptions
                               if each.topic_name.startswith('/rgbd/')))
        robot.publishers[0].publish(info_message(make_header(1, 'x'), CAMERA))
        yield here, robot
    finally:
        here.close()


def frames(here):
    """Count the frames that the node has mapped."""
    status, = here.node.diagnostics()
    return next(int(each.value) for each in status.values if each.key == 'frames')


def drive(here, robot, numbers, **kwargs):
    """Show frames one after the other, each after the last was mapped."""
    for number in numbers:
        before = frames(here)
        robot.show(number, **kwargs)
        wait_until(lambda before=before: frames(here) > before, 10.0, f'frame {number}')


def graph_of(robot):
    """Give the number of keyframes and of edges of odometry in the last graph."""
    edges = robot.edges.messages()[-1].markers[0]
    return len(robot.poses.messages()[-1].poses), len(edges.points) // 2


def set_parameter(here, name, value):
    [result] = here.run(lambda: here.node.set_parameters([Parameter(name, value=value)]))
    assert result.successful, result.reason


def test_a_drifting_path_is_corrected_and_the_map_saved_and_loaded(mapper, tmp_path):
    here, robot = mapper
    _, truth, _ = images()
    drive(here, robot, range(0, 72, 3))
    wait_until(lambda: len(robot.poses.messages()[-1].poses) >= 20)
    first = robot.paths.messages()[-1]
    answer = robot.call('solve_graph')
    assert answer.success and ' loops' in answer.message
    wait_until(lambda: robot.paths.messages()[-1] != first)
    last = robot.paths.messages()[-1]
    errors = [ate(np.array([[p.pose.position.x, p.pose.position.y, p.pose.position.z]
                            for p in path.poses]), truth[0:72:3][:len(path.poses), :3, 3])
              for path in (first, last)]
    assert errors[1] < errors[0] / 2
    assert last.header.frame_id == 'map'
    odometry, loops, outliers = robot.edges.messages()[-1].markers
    assert len(odometry.points) == 2 * (len(robot.poses.messages()[-1].poses) - 1)
    assert len(loops.points) >= 10 and not outliers.points
    # files
    assert not robot.call('save_keyframes').success    # no folder is named
    set_parameter(here, 'file.folder', str(tmp_path / 'map'))
    set_parameter(here, 'file.pcd', str(tmp_path / 'map.pcd'))
    assert robot.call('save_keyframes').success
    assert not robot.call('save_keyframes').success    # nothing is overwritten
    assert robot.call('save_pcd_map').success
    assert (tmp_path / 'map.pcd').stat().st_size > 100_000
    keyframes, _ = load_keyframes(tmp_path / 'map')
    assert len(keyframes) == len(robot.poses.messages()[-1].poses)
    assert robot.call('load_keyframes').success
    # clouds on request
    count = len(robot.keyframes)
    set_parameter(here, 'file.pattern', '[0-4]')
    assert robot.call('publish_keyframes').success
    wait_until(lambda: len(robot.keyframes) == count + 5)
    set_parameter(here, 'file.pattern', '[')
    assert not robot.call('publish_keyframes').success


def test_the_transform_from_map_to_odometry_follows_the_solution(mapper):
    here, robot = mapper
    drive(here, robot, range(0, 48, 4))
    robot.call('solve_graph')
    drive(here, robot, [48])
    wait_until(lambda: robot.transforms.messages() and
               robot.transforms.messages()[-1].transforms[0].header.stamp.sec
               == images()[0][48] // 10**9)
    transform = robot.transforms.messages()[-1].transforms[0]
    assert (transform.header.frame_id, transform.child_frame_id) == ('map', 'odom')
    q, t = transform.transform.rotation, transform.transform.translation
    odometry, truth = drifting()[48][:3, 3], images()[1][48][:3, 3]
    found = Rotation.from_quat((q.x, q.y, q.z, q.w)).apply(odometry) + (t.x, t.y, t.z)
    print('XX', found, odometry, truth)
    assert np.linalg.norm(found - truth) < np.linalg.norm(odometry - truth) / 2


def test_a_pause_of_the_odometry_leaves_the_motion_open(mapper):
    here, robot = mapper
    drive(here, robot, [0, 1, 2])
    drive(here, robot, [3, 4], offset_ns=5 * 10**9)
    wait_until(lambda: robot.poses.messages()[-1].header.stamp.sec > images()[0][3] / 1e9 + 2)
    keyframes, edges = graph_of(robot)
    assert edges == keyframes - 2


def test_a_restart_of_a_recording_begins_a_new_map(mapper):
    here, robot = mapper
    drive(here, robot, range(0, 20, 2))
    wait_until(lambda: graph_of(robot)[0] > 3)
    robot.show(0)
    wait_until(lambda: graph_of(robot)[0] == 1, 10.0)


def test_a_keyframe_is_taken_on_request(mapper):
    here, robot = mapper
    drive(here, robot, [0])
    assert robot.call('add_manual_keyframe').success
    drive(here, robot, [0], offset_ns=10**7)
    wait_until(lambda: graph_of(robot)[0] == 2)


def test_missing_odometry_is_named_in_the_diagnostics(mapper):
    _, robot = mapper
    robot.publishers.pop()
    stamps, _, seen = images()
    header = make_header(int(stamps[0]), 'camera_rgb_optical_frame')
    robot.publishers[1].publish(image_message(header, from_rgb(seen[0][0])))
    robot.publishers[2].publish(image_message(header, from_depth(seen[0][1])))

    def found():
        return [status for array in robot.diagnostics.messages() for status in array.status
                if status.name == 'rgbd_mapper: map' and status.level == status.ERROR
                and ' vo ' in status.message]
    wait_until(found, 10.0)


def test_services_work_while_inactive_and_a_new_configuration_has_no_map(mapper):
    here, robot = mapper
    drive(here, robot, [0, 6])
    assert here.run(here.node.trigger_deactivate).name == 'SUCCESS'
    assert robot.call('generate_graph').success
    assert here.run(here.node.trigger_cleanup).name == 'SUCCESS'
    assert here.run(here.node.trigger_configure).name == 'SUCCESS'
    assert not robot.call('solve_graph').success    # a new map has no keyframe
