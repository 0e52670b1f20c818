# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parameter files and tables that are generated from the settings."""

from pathlib import Path

from conftest import lacking
from optitrack_vrpn.cli.rows_io import nodes
from optitrack_vrpn.cli.tools import parameters_command
from optitrack_vrpn.cli.tools.parameters_command import main, parameter_file, settings_class
from optitrack_vrpn.core.settings.parameters import parameters_of, sift
from optitrack_vrpn.node.base.parameter_files import dotted_keys
from optitrack_vrpn.node.body_settings import sift_body_settings
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent


def flat(tree, prefix=''):
    """Give the leaves of a parameter file as ROS names them."""
    leaves = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            leaves.update(flat(value, f'{prefix}{name}.'))
        else:
            leaves[prefix + name] = value
    return leaves


NODES = nodes()
NODE_IDS = pytest.mark.parametrize('node', NODES, ids=[node.name for node in NODES])


@NODE_IDS
def test_a_file_contains_every_default_of_its_node(node):
    """Read by another YAML reader than ROS's."""
    given_ = flat(yaml.safe_load(parameter_file(node))['/**']['ros__parameters'])
    cls = settings_class(node)
    assert set(given_) == {row.name for row in parameters_of(cls)}
    assert sift(cls, given_) == (cls(), [])


def test_the_command_prints_the_file_of_a_node_or_its_table(capsys):
    for node in NODES:
        assert parameters_command.main(['--node', node.name]) == 0
        assert capsys.readouterr().out == parameter_file(node)
        assert parameters_command.main(['--node', node.name, '--markdown']) == 0
        shown = capsys.readouterr().out
        assert all(f'`{row.name}`' in shown for row in parameters_of(settings_class(node)))


def test_the_example_of_a_body_is_valid_once_it_is_uncommented():
    lines = parameter_file(NODES[0]).splitlines()
    at = next(i for i, line in enumerate(lines) if "# 'Rigid Body 1'" in line)
    for i in range(at, at + 4):
        lines[i] = lines[i].replace('# ', '', 1)
    tree = yaml.safe_load('\n'.join(lines))['/**']['ros__parameters']
    assert sift_body_settings(flat(tree))[0] == {'Rigid Body 1': {
        'name': 'cf1', 'max_speed': 30.0, 'lowpass.cutoff_hz': 5.0}}


@pytest.mark.ros
@pytest.mark.parametrize(('text', 'code', 'said'), [
    ('/**: {ros__parameters: {server: 10.0.0.1, outputs: [pose, tf]}}', 0,
     ['publishes pose on {body}/pose', 'connects to 10.0.0.1']),
    ('/**: {ros__parameters: {protocol: natnet, outputs: [tf_ned, tf_view, skeletons, wrench]}}',
     0, ['publishes tf_ned on /tf\n', 'publishes tf_view on _tf_view\n',
         'publishes skeletons on skeletons\n', 'publishes wrench on {model}/wrench\n']),
    ('/**: {ros__parameters: {bodies: {drone.1: {name: a}}, frames: {world: w}}}', 0,
     ["'drone.1' has a dot", "write 'drone?1'"]),
    ('/**: {ros__parameters: {outputs: [pose], frame_id: x}}', 0, ['frame_id', 'docs/migrate.md']),
    ('/**: {ros__parameters: {up_axis: x}}', 64, ["up_axis is 'x'; allowed: y, z"]),
    ('/**: {ros__parameters: {outputs: [pose], stamps: {mod: x}}}', 64, ["'stamps.mod'", 'mean']),
    ('/**: {ros__parameters: {bodies: {a: {offset: [1.0, 2.0]}}}}', 64, ['bodies.a.offset']),
    *((text, 64, ['has no parameters of a node', 'below it ros__parameters:']) for text in (
        '- server', '', '/**: {server: a}', '/**: {ros__parameters: [server]}')),
    ('/other: {ros__parameters: {server: a}}', 64, ['is for /optitrack_vrpn', '/other']),
    # Of other drivers: names alike and unlike those of this node, nested ones, another node.
    ('/**: {ros__parameters: {serverIP: a, serverType: unicast, odd: 1}}', 0,
     ['connects to localhost', 'ignores parameters of another driver, see docs/migrate.md: '
      'serverIP (here server), serverType', 'ignores odd']),
    ('/**: {ros__parameters: {hostname: a, topics: {poses: {qos: {mode: sensor}}}}}', 0,
     ['docs/migrate.md', 'topics.poses.qos.mode (here qos.poses)']),
    ('mocap_node: {ros__parameters: {optitrack_config: {command_port: 1}}}', 64,
     ['/mocap_node', 'docs/migrate.md', 'natnet.port'])])
def test_a_file_is_checked_without_a_node(text, code, said, tmp_path, capsys):
    pytest.importorskip('rclpy')
    path = tmp_path / 'mine.yaml'
    path.write_text(text)
    assert main(['--check', str(path)]) == code
    out, err = capsys.readouterr()
    assert not lacking(err if code else out, *said) and 'Traceback' not in err


def test_a_dot_in_the_first_name_is_read_by_ros_as_it_is_meant():
    assert [*dotted_keys(yaml.safe_load(
        '/**: {ros__parameters: {bodies.wand: {name: a}, bodies: {a.b: {name: c}, d.e: 1}}}'
    ))] == ['a.b']


def test_the_files_of_the_package_pass_their_own_check(capsys):
    pytest.importorskip('rclpy')
    for node in nodes():
        path = ROOT / 'config' / f'{node.name}.yaml'
        assert main(['--node', node.name, '--check', str(path)]) == 0, capsys.readouterr().err
