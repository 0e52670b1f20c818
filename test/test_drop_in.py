# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The node in place of other drivers: topics, types, quality of service, frames, numbers.

The expectations are those of the drivers' source code, as docs/migrate.md lists
them; no peer runs here.
"""

import ast

from conftest import examples
from geometry_msgs.msg import Vector3
from hypothesis import given, settings, strategies as st
from launch_kit import LAUNCH
from natnet_kit import simulated
from optitrack_vrpn.core.axes import AxesConfig, frame_maps
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.parameters import parameters_of
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, NatNetFrame, NatNetMarker, SkeletonDefinition)
from optitrack_vrpn.drivers.natnet.reports import name_table, seen_markers
from optitrack_vrpn.node.configuration import make_configuration
from optitrack_vrpn.node.settings import NodeSettings
import pytest
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rosgraph import NodeHere, Observer, stamp_ns, wait_until
from std_msgs.msg import Header
import yaml

pytestmark = [pytest.mark.ros, pytest.mark.network]
FOLDER = LAUNCH.parent / 'config' / 'drop_in'
PEERS = sorted(path.stem for path in FOLDER.glob('*.yaml'))
POSE = 'geometry_msgs/msg/PoseStamped'
RELIABLE, BEST = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
#: The first body of the simulator hovers at (2, 0.6, 0) in Motive's axes, level.
RAW = (2.0, 0.6, 0.0)
EAST = (2.0, 0.0, 0.6)
NORTH = (0.0, 2.0, 0.6)
#: Topic, type, reliability, frame, position of the body there.
TABLE = {
    'vrpn_client_ros': [('/vrpn_client_node/cf1/pose', POSE, RELIABLE, 'world', RAW),
                        ('/tf', 'tf2_msgs/msg/TFMessage', RELIABLE, 'world', RAW)],
    'vrpn_mocap': [('/vrpn_mocap/cf1/pose', POSE, BEST, 'world', RAW)],
    'mocap4r2_optitrack': [
        ('/rigid_bodies', 'mocap4r2_msgs/msg/RigidBodies', RELIABLE, 'map', RAW),
        ('/markers', 'mocap4r2_msgs/msg/Markers', RELIABLE, 'map', None)],
    'natnet_ros2': [('/cf1/pose', POSE, RELIABLE, 'world', RAW),
                    ('/tf', 'tf2_msgs/msg/TFMessage', RELIABLE, 'world', RAW)],
    'airstack': [
        ('/robot_1/perception/optitrack/cf1', POSE, RELIABLE, 'world', RAW),
        ('/robot_1/perception/optitrack/cf1/pose_cov',
         'geometry_msgs/msg/PoseWithCovarianceStamped', RELIABLE, 'world', RAW)],
    'motion_capture_tracking': [
        ('/poses', 'motion_capture_tracking_interfaces/msg/NamedPoseArray', RELIABLE, 'world',
         RAW),
        ('/pointCloud', 'sensor_msgs/msg/PointCloud2', RELIABLE, 'world', None),
        ('/tf', 'tf2_msgs/msg/TFMessage', RELIABLE, 'world', RAW)],
    'crazyswarm2': [
        ('/poses', 'motion_capture_tracking_interfaces/msg/NamedPoseArray', BEST, 'mocap', RAW),
        ('/tf', 'tf2_msgs/msg/TFMessage', RELIABLE, 'mocap', RAW)],
    'mocap_optitrack': [('/cf1/pose', POSE, RELIABLE, 'world', EAST),
                        ('/cf1/ground_pose', 'geometry_msgs/msg/Pose2D', RELIABLE, None, EAST),
                        ('/cf1/Odom', 'nav_msgs/msg/Odometry', RELIABLE, 'world', EAST),
                        ('/tf', 'tf2_msgs/msg/TFMessage', RELIABLE, 'world', EAST)],
    'ros2_vicon_receiver': [('/vicon/cf1/cf1', POSE, RELIABLE, 'vicon', RAW),
                            ('/tf', 'tf2_msgs/msg/TFMessage', RELIABLE, 'vicon', RAW)],
    'mavros': [('/mavros/vision_pose/pose', POSE, RELIABLE, 'map', NORTH)],
}
CHILDREN = {'crazyswarm2': 'cf1_mocap', 'mocap_optitrack': 'cf1/base_link',
            'ros2_vicon_receiver': 'cf1_cf1'}


@pytest.fixture(scope='module')
def observer():
    with Observer('drop_in_user') as observer:
        yield observer


def parameters_for(peer):
    """Read a file as ROS does: one flat list of parameters."""
    (found,) = yaml.safe_load((FOLDER / f'{peer}.yaml').read_text()).values()
    values = found['ros__parameters']
    return {**values, **({'bodies.allow': ['cf1']} if peer == 'mavros' else {})}


def message_class(name):
    package, folder, kind = name.split('/')
    return getattr(pytest.importorskip(f'{package}.{folder}'), kind)


def first_pose(message):
    """Find header, name and pose of the body in a message of any of these types."""
    if hasattr(message, 'transforms'):
        one = message.transforms[0]
        return one.header, one.child_frame_id, one.transform.translation, one.transform.rotation
    if hasattr(message, 'rigidbodies'):
        one = message.rigidbodies[0]
        return message.header, one.rigid_body_name, one.pose.position, one.pose.orientation
    if hasattr(message, 'poses'):
        one = message.poses[0]
        return message.header, one.name, one.pose.position, one.pose.orientation
    if hasattr(message, 'theta'):
        return Header(frame_id=''), None, Vector3(x=message.x, y=message.y, z=EAST[2]), None
    pose = getattr(message.pose, 'pose', message.pose)
    return message.header, None, pose.position, pose.orientation


def test_every_file_has_its_row_and_is_an_argument_of_the_launch_file():
    assert sorted(TABLE) == PEERS
    text = (LAUNCH / 'optitrack_vrpn.launch.py').read_text()
    listed = text.partition('DROP_INS = (')[2].partition(')')[0]
    assert sorted(ast.literal_eval(f'[{listed}]')) == PEERS


@pytest.mark.parametrize('peer', PEERS)
def test_topics_types_qos_frames_and_numbers_are_those_of_the_peer(observer, peer):
    given = parameters_for(peer)
    known = {each.name: each for each in parameters_of(NodeSettings)}
    assert set(given) <= set(known)
    kinds = [message_class(row[1]) for row in TABLE[peer]]
    with simulated(['cf1'], rate=100, motion='hover', protocol='both',
                   natnet={'markers': 2}) as server:
        topics = [observer.listen(kind, topic, QoSProfile(depth=50, reliability=reliability))
                  for kind, (topic, _, reliability, _, _) in zip(kinds, TABLE[peer])]
        protocol = given.get('protocol', 'natnet')
        with NodeHere({**given, 'protocol': protocol, 'server': '127.0.0.1', 'autostart': True,
                       'port': server.port, 'natnet.port': server.port_of('natnet')}):
            for topic, (name, _, reliability, _, _) in zip(topics, TABLE[peer]):
                topic.wait(3)
                (offer,) = observer.node.get_publishers_info_by_topic(name)
                assert offer.qos_profile.reliability == reliability
    for topic, (_, _, _, frame, position) in zip(topics, TABLE[peer]):
        message = topic.messages()[-1]
        if position is None:
            assert message.header.frame_id == frame
            continue
        header, name, place, turn = first_pose(message)
        assert header.frame_id == (frame or '')
        assert name in (None, 'cf1', CHILDREN.get(peer))
        assert (place.x, place.y, place.z) == pytest.approx(position, abs=0.1)
        if position == RAW:    # Motive's attitude unchanged: level to some degrees
            assert abs(turn.w) > 0.99


pose = st.tuples(*[st.floats(-10, 10)] * 3), st.tuples(*[st.floats(-1, 1)] * 4)


@settings(max_examples=examples(50))
@given(*pose)
def test_raw_axes_change_no_bit(position, quat):
    maps = frame_maps(AxesConfig(axes='raw', up_axis='z', motive_x='east'))
    assert maps.position_to_enu(position) == position and maps.quat_to_enu(quat) == quat


@pytest.mark.parametrize(('values', 'reason'), [
    ({'axes': 'raw', 'outputs': ['pose', 'pose_ned']}, 'axes is raw'),
    ({'topics.pose': '/fixed'}, 'topics.pose is .* bodies.allow'),
    ({'frames.body': 'base_link', 'bodies.allow': ['cf*']}, 'frames.body'),
    ({'frames.body': 'optitrack', 'bodies.allow': ['cf1']}, 'same as'),
    ({'topics.markers': 'poses'}, 'same topic'), ({'topics.poses': 'a b'}, 'topics.poses'),
    ({'frames.parent': 'optitrack'}, 'same as')])
def test_what_cannot_be_is_refused_with_its_reason(values, reason):
    with pytest.raises(ConfigurationError, match=reason):
        make_configuration(values)


def test_raw_axes_leave_the_ned_outputs_of_the_defaults_out():
    raw, enu = (make_configuration({'axes': axes}).settings.outputs for axes in ('raw', 'enu'))
    assert [name for name in enu if name not in raw] == [name for name in enu if 'ned' in name]
    assert 'pose' in raw and 'pose_ned' in enu


def test_a_fixed_name_serves_one_body_at_a_time(observer):
    with simulated(['cf1', 'cf2'], rate=100, motion='hover') as server:
        topic = observer.poses('/vehicle')
        static = observer.transforms(static=True)
        with NodeHere({
                'server': '127.0.0.1', 'protocol': 'natnet', 'autostart': True,
                'natnet.port': server.port_of('natnet'), 'bodies.allow': ['cf1'],
                'topics.pose': '/vehicle', 'frames.body': 'base_link', 'frames.parent': 'mocap',
                'outputs': ['pose', 'tf']}):
            topic.wait(5)
            static.wait(1)
            assert topic.messages()[-1].pose.position.y == pytest.approx(2.0, abs=0.1)
            observer.set(**{'bodies.allow': ['cf2']})
            wait_until(lambda: topic.messages()[-1].pose.position.y < 0.0)
    (link,) = static.messages()[-1].transforms
    assert (link.header.frame_id, link.child_frame_id) == ('mocap', 'optitrack')


def test_the_covariance_for_airstack_is_constant_and_bodies_of_mocap4r2_have_their_markers(
        observer):
    covariance = message_class('geometry_msgs/msg/PoseWithCovarianceStamped')
    bodies = message_class('mocap4r2_msgs/msg/RigidBodies')
    qos = QoSProfile(depth=50)
    with simulated(['cf1', 'cf2'], rate=100, motion='hover', natnet={'markers': 3}) as server:
        given = {'server': '127.0.0.1', 'autostart': True,
                 'natnet.port': server.port_of('natnet')}
        with NodeHere({**parameters_for('airstack'), **given}):
            topic = observer.listen(
                covariance, '/robot_1/perception/optitrack/cf1/pose_cov', qos)
            topic.wait(150)    # a body at rest for a second: its noise is not learned
            found = topic.messages()[-1].pose.covariance
        with NodeHere({**parameters_for('mocap4r2_optitrack'), **given}):
            topic = observer.listen(bodies, '/rigid_bodies', qos)
            topic.wait(10)
            message = topic.messages()[-1]
    assert [found[7 * i] for i in range(6)] == pytest.approx([1e-6] * 3 + [3e-6] * 3, rel=1e-6)
    assert sum(map(abs, found)) == pytest.approx(12e-6, rel=1e-6)
    for number, body in enumerate(message.rigidbodies, 1):
        assert [one.marker_name for one in body.markers] == [f'{number}_{i}' for i in (1, 2, 3)]
        middle = [sum(getattr(one.translation, axis) for one in body.markers) / 3
                  for axis in 'xyz']
        place = body.pose.position
        assert middle == pytest.approx([place.x, place.y, place.z], abs=0.1)


def test_the_odometry_for_robot_localization_has_the_frames_of_its_file(observer):
    odometry = message_class('nav_msgs/msg/Odometry')
    text = (FOLDER.parent / 'robot_localization.yaml').read_text()
    ekf = yaml.safe_load(text)['ekf_filter_node']['ros__parameters']
    with simulated(['drone'], rate=100, motion='circle') as server:
        topic = observer.listen(odometry, ekf['odom0'], QoSProfile(depth=50))
        transforms = observer.transforms()
        with NodeHere({
                'server': '127.0.0.1', 'protocol': 'natnet', 'autostart': True,
                'natnet.port': server.port_of('natnet'), 'outputs': ['pose', 'odom'],
                'bodies.drone.frame': ekf['base_link_frame']}):
            topic.wait(20)
    assert not transforms.messages(), 'the filter publishes this transform'
    message = topic.messages()[-1]
    # The filter drops a twist in a frame without a transform to its own, and says nothing.
    assert message.child_frame_id == ekf['base_link_frame']
    assert message.header.frame_id == ekf['world_frame'] == ekf['odom_frame']
    states = [message.pose.covariance[7 * i] for i in range(6)] + [
        message.twist.covariance[7 * i] for i in range(6)]
    fused = ekf['odom0_config'][:12]
    assert fused == [True] * 9 + [False] * 3
    # It takes a variance below 1e-9 for 1e-9.
    assert all(variance > 1e-9 for variance, use in zip(states, fused) if use)


def test_a_marker_whose_number_two_models_share_has_no_owner():
    definitions = [BodyDefinition('wand', 7), BodyDefinition('box', 8)]
    marked = NatNetFrame(1, [], [NatNetMarker(number << 16 | 1, 0.0, 0.0, 0.0, 0.01, 0, 0.0)
                                 for number in (7, 8)], 0.0, 0, 0, 1.0, 0, 0, 1, 0, 0, 0)
    skeleton = SkeletonDefinition('Bob', 8, ())
    names = name_table(Definitions(tuple(definitions), skeletons=(skeleton,))).names
    assert [one.owner for one in seen_markers(marked, names)] == ['wand', '']


def test_the_second_version_of_poses_has_exposure_and_latencies(observer):
    kind = message_class('motion_capture_tracking_interfaces/msg/NamedPoseArrayV2')
    with simulated(['cf1', 'cf2'], rate=100) as server:
        topic = observer.listen(kind, '/poses_v2', QoSProfile(depth=50))
        with NodeHere({
                'server': '127.0.0.1', 'protocol': 'natnet', 'autostart': True,
                'natnet.port': server.port_of('natnet'), 'outputs': ['poses_v2'],
                'qos.poses': 'reliable', 'rates.poses': 0.0}):
            topic.wait(60)
    messages = topic.messages()[20:]
    for message in messages:
        assert [one.name for one in message.poses] == ['cf1', 'cf2']
        # As captured from Motive 2.1: 4.6 of 5.4 ms until it has the data of the cameras.
        assert [one.source for one in message.latencies] == ['Camera', 'Motive']
        camera, motive = (one.latency for one in message.latencies)
        assert camera / (camera + motive) == pytest.approx(4.6 / 5.4, abs=0.02)
    steps = [later.timestamp - former.timestamp for former, later in zip(messages, messages[1:])]
    assert all(round(step / 10_000) >= 1 and abs(step - 10_000 * round(step / 10_000)) < 500
               for step in steps)
    offsets = [stamp_ns(message) // 1000 - message.timestamp for message in messages]
    assert max(offsets) - min(offsets) < 2000, 'both are the time of exposure'


def test_messages_of_the_draft_count_and_stamp_each_element(observer):
    messages = pytest.importorskip('mocap_interfaces.msg')
    with simulated(['cf1', 'cf2'], rate=100, natnet={'markers': 2, 'unlabelled': 1}) as server:
        qos = QoSProfile(depth=50)
        bodies = observer.listen(messages.RigidBodyArray, '/rigid_body_array', qos)
        markers = observer.listen(messages.MarkerArray, '/marker_array', qos)
        with NodeHere({
                'server': '127.0.0.1', 'protocol': 'natnet', 'autostart': True,
                'natnet.port': server.port_of('natnet'),
                'outputs': ['rigid_body_array', 'marker_array']}):
            bodies.wait(5)
            markers.wait(5)
    for topic in (bodies, markers):
        numbers = [message.seq for message in topic.messages()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    last = bodies.messages()[-1]
    # The array has the time of publication, each element that of capture.
    assert 0 < stamp_ns(last) - stamp_ns(last.rigid_bodies[0]) < 250_000_000
    assert [len(one.markers) for one in last.rigid_bodies] == [2, 2]
    assert [one.rigid_body_name for one in last.rigid_bodies] == ['cf1', 'cf2']
    assert all(one.header.stamp.sec and one.header.frame_id == 'optitrack'
               for one in last.rigid_bodies)
    kind = messages.Marker
    assert [(one.id_type, one.marker_name, one.marker_index)
            for one in markers.messages()[-1].markers] == [
        (kind.USE_BOTH, '1_1', 1), (kind.USE_BOTH, '1_2', 2), (kind.USE_BOTH, '2_1', 1),
        (kind.USE_BOTH, '2_2', 2), (kind.USE_INDEX, '', 1001)]
