# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The command line of the node: help, and arguments that are not for ROS."""


from optitrack_vrpn.node.command import check
import pytest
from tool_kit import run_tool


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


@pytest.mark.parametrize('given, better', [
    (['--port=4000'], '--ros-args -p port:=4000'),
    (['server:=motive'], '--ros-args -p server:=motive'),
    (['-p', 'server:=motive', '-p', 'port:=1'], '--ros-args -p server:=motive -p port:=1'),
    (['__ns:=/lab'], '--ros-args -r __ns:=/lab'),
    (['--server', 'pc', '--ros-args', '-p', 'port:=1'], '--ros-args -p server:=pc'),
    (['--ros-args', '-p', 'port:=1', '--', '--autostart'], '--ros-args -p autostart:=...'),
    (['10.0.0.1'], '--ros-args -p server:=10.0.0.1'),
])
def test_what_to_write_instead_is_said(given, better, capsys):
    with pytest.raises(SystemExit) as ended:
        check(given)
    assert ended.value.code == 64
    assert capsys.readouterr().err.rstrip().endswith('optitrack_vrpn_node ' + better)


@pytest.mark.parametrize('given', [
    [], ['--ros-args'], ['--ros-args', '-p', 'server:=pc', '-r', '__ns:=/lab'],
    ['--ros-args', '--log-level', 'info', '--'],
    ['--ros-args', '-r', '__node:=a', '--params-file', 'x', '--ros-args', '-p', 'port:=1'],
])
def test_what_is_for_ros_is_left_to_it(given):
    check(given)
