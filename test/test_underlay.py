# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The interface packages of underlay/ have the wire format of the real ones.

Field names, types and their order decide that; those of a real installation pass the same tests.
"""

import json
import os
from pathlib import Path
import subprocess
import sys

import pytest

# What rmw_zenoh and rmw_fastrtps of Jazzy show for /tf in `ros2 topic info --verbose`.
TF_MESSAGE_HASH = 'RIHS01_e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087'

FIELDS = """
import json

from {package}.msg import Control, MocapInfo
from rclpy.serialization import deserialize_message, serialize_message
message = Control(control_type=Control.ACK_STOP, {session}='take 1')
message.{targets} = ['drone', '']
assert deserialize_message(serialize_message(message), Control) == message
print(json.dumps([
    [[*kind.get_fields_and_field_types().items()] for kind in (Control, MocapInfo)],
    [Control.START, Control.ACK_START, Control.STOP, Control.ACK_STOP],
    [MocapInfo.ROS2, MocapInfo.ROS1]]))
"""


def check_control_messages(package, source, session, targets, variables=None):
    script = FIELDS.format(package=package, session=session, targets=targets)
    run = subprocess.run([sys.executable, '-c', script], env=variables, capture_output=True,
                         text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [
        [[['control_type', 'int8'], ['stamp', 'builtin_interfaces/Time'], [source, 'string'],
          [session, 'string'], [targets, 'sequence<string>']],
         [[source, 'string'], ['ros_version_source', 'int8'], ['topics', 'sequence<string>']]],
        [0, 1, 2, 3], [0, 1]]


@pytest.mark.parametrize('package, source, targets', [
    ('mocap4r2_control_msgs', 'mocap4r2_source', 'mocap4r2_systems'),
    ('mocap_control_msgs', 'mocap_source', 'mocap_systems')], ids=['humble', 'foxy'])
def test_control_messages_as_released(package, source, targets):
    pytest.importorskip(package)
    check_control_messages(package, source, 'session_id', targets)


def test_control_messages_of_2021_come_first_where_their_prefix_does(seed_environment):
    check_control_messages('mocap_control_msgs', 'system_source', 'capture_session_id',
                           'capture_systems', seed_environment)


def test_tf_messages_have_the_type_hash_that_real_installations_announce():
    pytest.importorskip('tf2_msgs')
    prefixes = [sys.prefix, *os.environ.get('AMENT_PREFIX_PATH', '').split(os.pathsep)]
    found = [path for prefix in prefixes
             if (path := Path(prefix, 'share/tf2_msgs/msg/TFMessage.json')).exists()]
    if not found:
        pytest.skip('ROS 2 before Iron hashes no types')
    hashes = {entry['type_name']: entry['hash_string']
              for entry in json.loads(found[0].read_text())['type_hashes']}
    assert hashes['tf2_msgs/msg/TFMessage'] == TF_MESSAGE_HASH


def test_autopilot_and_swarm_messages_have_the_fields_of_the_real_packages():
    vehicle = pytest.importorskip('px4_msgs.msg').VehicleOdometry
    assert list(vehicle.get_fields_and_field_types().items()) == [
        ('timestamp', 'uint64'), ('timestamp_sample', 'uint64'), ('pose_frame', 'uint8'),
        ('position', 'float[3]'), ('q', 'float[4]'), ('velocity_frame', 'uint8'),
        *((name, 'float[3]') for name in (
            'velocity', 'angular_velocity', 'position_variance', 'orientation_variance',
            'velocity_variance')), ('reset_counter', 'uint8'), ('quality', 'int8')]
    swarm = pytest.importorskip('motion_capture_tracking_interfaces.msg')
    assert list(swarm.NamedPoseArray.get_fields_and_field_types().items()) == [
        ('header', 'std_msgs/Header'),
        ('poses', 'sequence<motion_capture_tracking_interfaces/NamedPose>')]
    assert list(swarm.NamedPoseArrayV2.get_fields_and_field_types().items()) == [
        ('header', 'std_msgs/Header'), ('timestamp', 'uint64'),
        ('latencies', 'sequence<motion_capture_tracking_interfaces/LatencyInfo>'),
        ('poses', 'sequence<motion_capture_tracking_interfaces/NamedPose>')]
    bodies = pytest.importorskip('mocap4r2_msgs.msg').RigidBodies
    assert list(bodies.get_fields_and_field_types().items()) == [
        ('header', 'std_msgs/Header'), ('frame_number', 'uint32'),
        ('rigidbodies', 'sequence<mocap4r2_msgs/RigidBody>')]
    array = pytest.importorskip('mocap_interfaces.msg').RigidBodyArray
    assert list(array.get_fields_and_field_types().items()) == [
        ('header', 'std_msgs/Header'), ('seq', 'uint32'),
        ('rigid_bodies', 'sequence<mocap_interfaces/RigidBody>')]
    assert list(swarm.NamedPose.get_fields_and_field_types().items()) == [
        ('name', 'string'), ('pose', 'geometry_msgs/Pose')]
