# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node rgbd_odometry with real topics: outputs, and what it reports about faults."""

import time

from geometry_msgs.msg import TransformStamped
from nav_msgs.msg import Odometry, Path
import numpy as np
from optitrack_vrpn.guests.rgbd.camera_node_ros import make_header, pose_matrix, stamp_ns
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.odometry_ros import RgbdOdometry
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rgbd_graph import active, Driver, LATCHED, OPTICAL
from rgbd_kit import CAMERA, FORWARD, path, PERIOD, pose, view, white_wall
from rosgraph import NodeProcess, silence, wait_until
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import PointCloud2
from std_msgs.msg import UInt32
from tf2_msgs.msg import TFMessage

pytestmark = [pytest.mark.ros, pytest.mark.network]


class Camera(Driver):
    """Show the corner of a room, and hear the odometry."""

    def __init__(self, observer, *topics):
        super().__init__(observer, *topics)
        self.odometry = observer.listen(Odometry, 'vo', 100)
        self.resets = observer.listen(UInt32, 'reset_count', LATCHED)
        self.noise = np.random.default_rng(2)

    def say(self, camera=CAMERA, **changes):
        self.describe(camera, **changes)

    def show(self, base=None, images=None, encoding='16UC1', periods=1, lag_ns=0, **kwargs):
        """Publish a pair of images."""
        grey, depth = images or view(pose() if base is None else base, self.noise)
        self.stamp_ns += periods * PERIOD
        self.pair(np.repeat(grey[..., None], 3, axis=2), depth, encoding, lag_ns, **kwargs)

    def track(self, base=None, **kwargs):
        """Publish a pair and give the odometry of it; best effort can lose one, then again."""
        count, due = len(self.odometry), 0.0

        def arrived():
            nonlocal due
            if len(self.odometry) > count:
                return True
            if time.monotonic() >= due:
                due = time.monotonic() + 3.0
                self.show(base, **kwargs)
            return False
        wait_until(arrived, 30.0, 'the odometry of a pair of images')
        return self.odometry.messages()[-1]


def tracking(camera=None, **parameters):
    """Start an active odometry in this process."""
    here = active(RgbdOdometry, **parameters)
    if camera is not None:
        wait_until(camera.connected)
        describe(here, camera)
    return here


def status_of(here):
    """Give the status of the node without the delay of its topic, and its values by name."""
    status, = here.node.diagnostics()
    return status.message, {each.key: each.value for each in status.values}


def describe(here, camera):
    """Publish a camera_info until the node has it: the first may precede the connection."""
    wait_until(lambda: camera.say(p=[0.0] * 12) or 'camera_info' in status_of(here)[0])
    wait_until(lambda: camera.say() or 'camera_info' not in status_of(here)[0])


def away(message, truth):
    return np.linalg.norm((np.linalg.inv(truth) @ pose_matrix(message.pose.pose))[:3, 3])


def points_of(cloud):
    """Read a cloud as its fields say."""
    assert [field.name for field in cloud.fields] == ['x', 'y', 'z']
    return np.frombuffer(cloud.data, '<f4').reshape(-1, cloud.point_step // 4)[:, :3]


def test_images_become_odometry_tf_path_and_clouds(observer):
    camera = Camera(observer)
    transforms = observer.transforms()
    features = observer.listen(PointCloud2, 'feature/cloud', 10)
    model = observer.listen(PointCloud2, 'model/cloud', 10)
    paths = observer.listen(Path, 'path', 10)
    with tracking(camera, timeout_s=30.0):
        wait_until(lambda: all(each.matched for each in (transforms, features, model, paths)))
        for number, base in enumerate(path(15)):
            message = camera.track(base, encoding='32FC1' if number % 2 else '16UC1',
                                   lag_ns=5_000_000 if number % 3 else 0)
            assert stamp_ns(message.header) == camera.stamp_ns
            assert away(message, base) < 0.012
        assert (message.header.frame_id, message.child_frame_id) == ('odom', 'camera_link')
        covariance = np.array(message.pose.covariance).reshape(6, 6)
        assert (np.linalg.eigvalsh(covariance) > 0).all()
        assert 1e-4 < np.sqrt(covariance[0, 0]) < 0.05
        assert message.twist.twist.linear.x == pytest.approx(0.3, abs=0.15)
        assert 0 < message.twist.covariance[0] < 1
        first = camera.odometry.messages()[0]
        assert first.twist.covariance[0] > 1e5    # no velocity is known yet
        wait_until(lambda: len(transforms) == 15)
        transform = transforms.messages()[-1].transforms[0]
        assert transform.header == message.header
        assert transform.child_frame_id == 'camera_link'
        assert transform.transform.translation.x == message.pose.pose.position.x
        features.wait(15)
        for each in (features.messages()[-1], model.messages()[-1]):
            assert each.header.frame_id == 'odom'
            points = points_of(each)
            assert len(points) == each.width > 100
            # each point lies on one of the three planes of the scene
            assert np.mean(np.min(np.abs(points - (3.0, 1.5, -1.0)), axis=1) < 0.05) > 0.95
        assert paths.messages()[0].header.frame_id == 'odom'
        assert camera.resets.messages()[-1].data == 0
        camera.diagnosis('tracking', tracked='15', failed='0', reset_count='0')


def test_a_failed_frame_publishes_nothing_and_says_why(observer):
    camera = Camera(observer)
    transforms = observer.transforms()
    with tracking(camera, timeout_s=30.0):
        wait_until(lambda: transforms.matched)
        for _ in range(3):
            camera.track()
        wait_until(lambda: len(transforms) == 3)
        grey, depth = view(pose())
        camera.show(images=(grey, 0 * depth))
        camera.diagnosis('no pixel of')
        camera.show(images=white_wall(camera.noise))
        camera.diagnosis('too little texture')
        camera.show(pose(yaw=25))
        camera.diagnosis('not tracking: ')
        camera.show(images=(grey[::2, ::2], depth[::2, ::2]))
        camera.diagnosis('the images have 160 x 120 pixels, camera_info has 320 x 240')
        silence([camera.odometry, transforms])
        assert len(camera.odometry) == len(transforms) == 3
        message = camera.track()
        assert away(message, pose()) < 0.01
        assert camera.resets.messages()[-1].data == 1
        camera.show(pose(), periods=-1)
        camera.diagnosis('tracking', late_images='2')
        assert len(camera.odometry) == 4
        camera.track(pose(), periods=7)
        camera.diagnosis('tracking', reset_count='1', missed_frames='5', failed='4')


def test_wrong_and_missing_camera_info_are_named(observer):
    camera = Camera(observer)
    with tracking(tf=False, timeout_s=30.0) as here:
        wait_until(camera.connected)
        wait_until(lambda: camera.show() or int(status_of(here)[1]['pairs']))
        camera.diagnosis('no camera_info on rgbd/info')
        camera.say(p=[0.0] * 12)
        camera.diagnosis('camera_info on rgbd/info (matrix P)')
        camera.say(width=160, height=120)
        camera.diagnosis('another resolution?')
        camera.say(Intrinsics(640, 480, 525, 525, 319.5, 239.5))
        wait_until(lambda: 'camera_info' not in status_of(here)[0])
        camera.show()
        camera.diagnosis('camera_info has 640 x 480')
        assert len(camera.odometry) == 0
        wait_until(lambda: camera.say() or camera.show() or len(camera.odometry))
        camera.track()


def test_missing_images_are_named(observer):
    camera = Camera(observer)
    with tracking(camera, timeout_s=0.2, tolerance_s=0.005):
        camera.diagnosis('images on rgbd/rgb and rgbd/depth')
        camera.pair(np.zeros((240, 320), np.uint8), None)
        camera.diagnosis('images on rgbd/depth')
        for _ in range(4):
            camera.show(lag_ns=10_000_000)
        camera.diagnosis('within 0.005 s')
        camera.track()
        camera.diagnosis('no new pair')
        camera.show(periods=0)
        camera.diagnosis('one before: 2')


def test_a_new_activation_begins_at_the_origin_and_counts_as_reset(observer):
    camera = Camera(observer)
    with tracking(camera) as here:
        camera.track(pose())
        message = camera.track(pose(0.03))
        assert message.pose.pose.position.x == pytest.approx(0.03, abs=0.01)
        assert here.run(here.node.trigger_deactivate).name == 'SUCCESS'
        wait_until(lambda: not any(p.get_subscription_count() for p in camera.publishers))
        assert here.run(here.node.trigger_activate).name == 'SUCCESS'
        wait_until(camera.connected)
        describe(here, camera)
        message = camera.track(pose(0.03))
        assert message.pose.pose.position.x == 0.0
        wait_until(lambda: [each.data for each in camera.resets.messages()][-1:] == [1])


def test_images_of_half_the_size_and_the_mount_from_tf(observer):
    camera = Camera(observer)
    static = observer.node.create_publisher(TFMessage, '/tf_static', QoSProfile(
        depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    quat = Rotation.from_matrix(FORWARD[:3, :3]).as_quat().tolist()
    with tracking(camera, mount='tf', scale=0.5, timeout_s=30.0,
                  base_frame='base_link') as here:
        camera.show()
        camera.diagnosis(f'no transform from base_link to {OPTICAL}')
        count = len(camera.diagnostics)
        for _ in range(3):    # drivers repeat it, some after the images
            camera.say()
        camera.diagnostics.wait(count + 2)
        camera.diagnosis(f'no transform from base_link to {OPTICAL}')
        assert status_of(here)[0].startswith('/tf_static has no')
        chain = [TransformStamped(child_frame_id='camera_link'),
                 TransformStamped(child_frame_id=OPTICAL)]
        chain[0].header.frame_id, chain[1].header.frame_id = 'base_link', 'camera_link'
        # the camera stands 0.2 m ahead of the base, and the base turns
        chain[0].transform.translation.x = 0.2
        rotation = chain[1].transform.rotation
        rotation.x, rotation.y, rotation.z, rotation.w = quat
        static.publish(TFMessage(transforms=chain))
        ahead = pose(0.2)
        wait_until(lambda: camera.show() or len(camera.odometry))
        for k in range(10):
            base = pose(yaw=1.5 * k)
            message = camera.track(np.linalg.inv(ahead) @ base @ ahead)
        assert message.child_frame_id == 'base_link'
        assert away(message, base) < 0.012
        chain[0].transform.translation.x = 0.3
        static.publish(TFMessage(transforms=chain))
        camera.diagnosis('has changed since', repeat=camera.show)
        count = len(camera.odometry)
        camera.show()
        silence([camera.odometry])
        assert len(camera.odometry) == count


def test_images_and_camera_info_of_a_second_camera_are_not_used(observer):
    camera = Camera(observer)
    with tracking(camera, timeout_s=30.0) as here:
        camera.track()
        for stream in ('colour images', 'depth images'):
            camera.show(frames={stream: 'other'})
            camera.diagnosis(f'frame of the {stream} was')
        camera.track()
        wait_until(lambda: camera.say(header=make_header(camera.stamp_ns, 'other'))
                   or 'frame of the camera_info of the colour camera was' in status_of(here)[0])
        camera.show()
        describe(here, camera)
        silence([camera.odometry])
        assert len(camera.odometry) == 2
        message = camera.track()
        assert away(message, pose()) < 0.01
        # nothing of the second camera has interrupted the path of the first
        assert camera.resets.messages()[-1].data == 0


def test_a_base_with_another_parent_gets_no_second_one(observer, console):
    """Its parent is the robot here; with two, the frame jumps between both."""
    camera = Camera(observer)
    transforms = observer.transforms()
    static = observer.node.create_publisher(TFMessage, '/tf_static', QoSProfile(
        depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL))
    robot = TransformStamped(child_frame_id='camera_link')
    robot.header.frame_id, robot.transform.rotation.w = 'base_link', 1.0
    static.publish(TFMessage(transforms=[robot]))
    with tracking(camera):
        wait_until(lambda: transforms.matched and static.get_subscription_count())
        said = []

        def refused():
            camera.track()
            said.append(console.unread())
            return 'child of base_link' in ''.join(said)
        wait_until(refused)
        silence([transforms])
        before = len(transforms)
        camera.track()
        silence([transforms])
        assert len(transforms) == before


def test_the_process_starts_by_itself_and_ends_on_interrupt(observer):
    camera = Camera(observer, 'camera/color/image_raw', 'camera/depth', 'camera/color/camera_info')
    with NodeProcess('-p', 'autostart:=true', '-p', 'control.generations:=[none]',
                     '-p', 'colour:=camera/color/image_raw', '-p',
                     'depth:=camera/depth', '-p', 'info:=camera/color/camera_info',
                     '-p', 'rectified:=false', tool='rgbd_odometry') as process:
        wait_until(camera.connected)
        camera.say()

        def seen():
            camera.show()
            camera.say()
            return len(camera.odometry) > 2
        wait_until(seen)
        code, _ = process.end()
        assert code == 0, process.log
        assert 'Traceback' not in process.log
