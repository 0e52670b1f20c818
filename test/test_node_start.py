# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a node loads at its start."""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ros

#: Modules that take long to import or much memory, and that few nodes use.
_HEAVY = ('lark', 'nav_msgs', 'numpy.random', 'optitrack_vrpn.drivers.natnet.client_io', 'scipy',
          'sensor_msgs', 'std_srvs', 'transforms3d')
_START = """
import json, sys
from optitrack_vrpn.node.node import OptitrackVrpnNode
import rclpy
rclpy.init(args=['node', '--ros-args', '-p', 'server:=127.0.0.1', '-p', 'port:=9'])
node = OptitrackVrpnNode()
node.trigger_configure()
print(json.dumps([name for name in {heavy!r} if name in sys.modules]), flush=True)
node.destroy_node()
rclpy.shutdown()
"""


def _output(code):
    done = subprocess.run(
        [sys.executable, '-c', code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_configured_node_has_loaded_nothing_heavy_that_it_does_not_use():
    leave_out = ('from optitrack_vrpn.node.base.node_command import *\n'
                 'assert leave_generator_out()\n')
    assert json.loads(_output(leave_out + _START.format(heavy=_HEAVY))) == []


def test_the_client_connects_before_the_messages_of_the_outputs_are_imported():
    assert _output("""
import sys
from optitrack_vrpn.node.node import OptitrackVrpnNode
from optitrack_vrpn.drivers.table import SourceKind, SOURCES
import rclpy


class Backend:
    def __init__(self, *arguments):
        self.stop = lambda: None

    def start(self):
        loaded.append('tf2_msgs' in sys.modules)


loaded = []
SOURCES['auto'] = SourceKind('__main__:Backend')
rclpy.init(args=['node', '--ros-args', '-p', 'server:=127.0.0.1'])
node = OptitrackVrpnNode()
node.trigger_configure()
print(loaded, 'tf2_msgs' in sys.modules)
node.destroy_node()
rclpy.shutdown()
""") == '[False] True'


def test_messages_work_without_their_generator_and_the_generator_on_request():
    assert _output("""
import sys
from optitrack_vrpn.node.base.node_command import leave_generator_out
assert leave_generator_out()
from geometry_msgs.msg import PoseStamped
from rclpy.serialization import deserialize_message, serialize_message
pose = PoseStamped()
pose.pose.position.x = 1.5
assert deserialize_message(serialize_message(pose), PoseStamped) == pose
assert 'rosidl_generator_py.generate_py_impl' not in sys.modules
from rosidl_generator_py.generate_py_impl import generate_py
print(generate_py.__name__)
""") == 'generate_py'


def test_a_generator_that_is_loaded_already_stays():
    assert _output("""
import rosidl_generator_py
from optitrack_vrpn.node.base.node_command import leave_generator_out
before = vars(rosidl_generator_py).copy()
assert not leave_generator_out()
print(vars(rosidl_generator_py) == before)
""") == 'True'
