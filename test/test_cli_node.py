# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the node: help, and arguments that are not for ROS."""

from optitrack_vrpn.node.base.node_command import for_ros
import pytest
from tool_kit import run_tool


def test_what_was_meant_for_ros_is_shown_in_its_form():
    assert for_ros(['--server=a', 'port:=5', '__ns:=/lab', '/x:=/y', 'word', '--max', '3']) == (
        '-p server:=a -p port:=5 -r __ns:=/lab -r /x:=/y -p max:=3')


def test_an_argument_that_the_node_would_not_notice_is_refused():
    done = run_tool('optitrack_vrpn_node', '--server', '10.0.0.1')
    assert done.returncode == 64
    assert 'there is no argument --server 10.0.0.1' in done.stderr
    assert 'optitrack_vrpn_node --ros-args -p server:=10.0.0.1' in done.stderr


@pytest.mark.ros
@pytest.mark.parametrize('text, remedy', [
    ('/**:\n  ros__parameters:\n    bodies:\n      a:\n        offset: [0, 0, -0.05]\n',
     'a list must be all decimals or all whole numbers: write 0.0 for 0'),
    ('/**:\n  ros__parameters:\n\tport: 3883\n', 'line 3: found character'),
    ('optitrack_vrpn:\n  port: 3883\n', 'parameters stand below the name of the node and ros__'),
    ('- port\n', 'parameters stand below the name of the node and ros__'),
], ids=['mixed list', 'tab', 'no ros__parameters', 'list'])
def test_a_parameter_file_that_ros_cannot_read_is_explained(tmp_path, text, remedy):
    file = tmp_path / 'mine.yaml'
    file.write_text(text)
    done = run_tool('optitrack_vrpn_node', '--ros-args', '--params-file', str(file))
    assert done.returncode == 64, done.stderr
    assert str(file) in done.stderr
    assert remedy in done.stderr.rstrip().splitlines()[-1]
    assert 'Traceback' not in done.stderr
