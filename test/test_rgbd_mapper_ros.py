# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node rgbd_mapper with real topics and services, on an odometry that drifts."""

from geometry_msgs.msg import PoseArray
from nav_msgs.msg import Odometry, Path
import numpy as np
from optitrack_vrpn.guests.rgbd.camera_node_ros import make_header, pose_message
from optitrack_vrpn.guests.rgbd.files_io import load_keyframes
from optitrack_vrpn.guests.rgbd.mapper_ros import RgbdMapper
from optitrack_vrpn.guests.rgbd.room import camera_on_body
import pytest
from rclpy.parameter import Parameter
from rgbd_graph import active, Driver, LATCHED
from rosgraph import position, stamp_ns, wait_until
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import PointCloud2
from std_srvs.srv import Trigger
from test_rgbd_mapper import ate, CAMERA, drifting, images
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import MarkerArray

pytestmark = [pytest.mark.ros, pytest.mark.network]

#: rgbd_mapper's default mount.
BASE_FROM_CAMERA = camera_on_body()


class Robot(Driver):
    """Publish images and odometry, and collect what the mapper publishes."""

    def __init__(self, observer):
        super().__init__(observer)
        self.publishers.append(self.publisher(Odometry, 'vo'))
        self.poses = observer.listen(PoseArray, 'keyframe_poses', LATCHED)
        self.edges = observer.listen(MarkerArray, 'keyframe_associations', LATCHED)
        self.paths = observer.listen(Path, 'mapper_path', LATCHED)
        self.clouds = observer.listen(PointCloud2, 'map/cloud', LATCHED)
        self.keyframes = observer.listen(PointCloud2, 'keyframes', 200)
        self.transforms = observer.listen(TFMessage, '/tf', 200)

    def show(self, number, offset_ns=0):
        stamps, _, seen = images()
        self.stamp_ns = int(stamps[number]) + offset_ns
        self.describe(CAMERA)
        self.pair(*seen[number])
        message = Odometry(header=make_header(self.stamp_ns, 'odom'), child_frame_id='camera_link')
        message.pose.pose = pose_message(drifting()[number] @ np.linalg.inv(BASE_FROM_CAMERA))
        self.publishers[3].publish(message)

    def call(self, name):
        return self.observer.call(Trigger, f'/rgbd_mapper/{name}', Trigger.Request())


@pytest.fixture
def mapper(observer):
    """Give an active mapper that is connected, and the robot."""
    robot = Robot(observer)
    with active(RgbdMapper, solve=False) as here:
        wait_until(robot.connected)
        # the camera must be known before the first pair
        wait_until(lambda: all(each.get_publisher_count() for each in here.node.subscriptions
                               if each.topic_name.startswith('/rgbd/')))
        robot.describe(CAMERA)
        yield here, robot


def frames(here):
    """Count the frames that the node has mapped."""
    status, = here.node.diagnostics()
    return next(int(each.value) for each in status.values if each.key == 'frames')


def drive(here, robot, numbers, offset_ns=0):
    """Show frames one after the other, each after the last was mapped."""
    for number in numbers:
        before, shown = frames(here), [0]

        def mapped(number=number, before=before, shown=shown):
            # A camera goes on. Images are sent with best effort, and a busy machine loses some.
            if shown[0] % 400 == 0:
                robot.show(number, offset_ns + shown[0] * 1000)
            shown[0] += 1
            return frames(here) > before
        wait_until(mapped, what=f'frame {number}')


def graph_of(robot):
    """Give the number of keyframes and of edges of odometry in the last graph."""
    edges = robot.edges.messages()[-1].markers[0]
    return len(robot.poses.messages()[-1].poses), len(edges.points) // 2


def set_parameter(here, name, value):
    [result] = here.run(lambda: here.node.set_parameters([Parameter(name, value=value)]))
    assert result.successful, result.reason


def test_a_drifting_path_is_corrected(mapper):
    here, robot = mapper
    stamps, truth, _ = images()
    numbers = range(0, 72, 3)    # two rounds, in which each place is seen twice
    drive(here, robot, numbers)
    wait_until(lambda: graph_of(robot) == (24, 23))
    first = robot.paths.messages()[-1]
    answer = robot.call('solve_graph')
    assert answer.success and ' loops' in answer.message
    wait_until(lambda: robot.paths.messages()[-1] != first)
    last = robot.paths.messages()[-1]
    errors = [ate(np.array([position(each.pose) for each in path.poses]), truth[np.searchsorted(
        stamps, [stamp_ns(each) for each in path.poses], 'right') - 1, :3, 3])
        for path in (first, last)]
    assert errors[1] < errors[0] / 2
    assert last.header.frame_id == 'map'
    _, loops, outliers = robot.edges.messages()[-1].markers
    assert len(loops.points) >= 10 and not outliers.points
    # the transform from map to odometry follows the solution
    drive(here, robot, [71])
    transform = wait_until(lambda: next((
        each for message in robot.transforms.messages()[-1:] for each in message.transforms
        if stamp_ns(each) >= images()[0][71]), None))
    assert (transform.header.frame_id, transform.child_frame_id) == ('map', 'odom')
    q, t = transform.transform.rotation, transform.transform.translation
    odometry = drifting()[71][:3, 3]
    found = Rotation.from_quat((q.x, q.y, q.z, q.w)).apply(odometry) + (t.x, t.y, t.z)
    assert np.linalg.norm(found - truth[71, :3, 3]) < np.linalg.norm(
        odometry - truth[71, :3, 3]) / 2


def test_a_map_is_saved_loaded_and_published_on_request(mapper, tmp_path):
    here, robot = mapper
    drive(here, robot, range(0, 18, 3))
    cloud = wait_until(lambda: robot.clouds.messages()[-1:])[0]
    assert cloud.header.frame_id == 'map' and cloud.width > 1_000
    assert not robot.call('save_keyframes').success    # no folder is named
    set_parameter(here, 'folder', str(tmp_path / 'map'))
    set_parameter(here, 'pcd', str(tmp_path / 'map.pcd'))
    assert robot.call('save_keyframes').success
    assert not robot.call('save_keyframes').success    # nothing is overwritten
    assert robot.call('save_pcd_map').success
    assert (tmp_path / 'map.pcd').stat().st_size > 100_000
    keyframes, _ = load_keyframes(tmp_path / 'map')
    assert len(keyframes) == 6
    assert robot.call('load_keyframes').success
    count = len(robot.keyframes)
    set_parameter(here, 'pattern', '[0-4]')
    assert robot.call('publish_keyframes').success
    wait_until(lambda: len(robot.keyframes) == count + 5)
    set_parameter(here, 'pattern', '[')
    assert not robot.call('publish_keyframes').success
    # older images than those of the map: its keyframes would not be in the order of time
    drive(here, robot, [0])
    wait_until(lambda: graph_of(robot)[0] == 1)


def test_a_bug_in_the_mapper_is_logged_and_costs_one_frame(mapper, console):
    here, robot = mapper
    here.node._keep = lambda *_: 1 // 0
    drive(here, robot, [0])
    robot.diagnosis('a bug in the mapper')
    del here.node._keep
    assert 'ZeroDivisionError' in console.unread()
    drive(here, robot, [1])


def test_a_pause_of_the_odometry_leaves_the_motion_open(mapper):
    here, robot = mapper
    drive(here, robot, [0, 1, 2])
    drive(here, robot, [3, 4], offset_ns=5 * 10**9)
    wait_until(lambda: robot.poses.messages()[-1].header.stamp.sec > images()[0][3] / 1e9 + 2)
    keyframes, edges = graph_of(robot)
    assert edges == keyframes - 2
