# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which nodes a parameter file addresses."""

from optitrack_vrpn.node.base.parameter_files import files_given, is_for, nodes_of, values_for
import pytest
import yaml


@pytest.mark.parametrize('argv, files', [
    ([], []),
    (['node', '--ros-args', '--params-file', 'a.yaml'], ['a.yaml']),
    (['node', '--ros-args', '-p', 'x:=1', '--params-file', 'a', '--params-file', 'b'], ['a', 'b']),
    (['node', '--params-file', 'a'], []),
    (['--ros-args', '--', '--params-file', 'a', '--ros-args', '--params-file', 'b'], ['b']),
    (['node', '--ros-args', '--params-file'], []),
])
def test_the_files_of_a_command_line(argv, files):
    assert files_given(argv) == files


@pytest.mark.parametrize('text, nodes', [
    ('', []), ('5', []), ('[1, 2]', []), ('a: 5', []),
    ('a: {ros__parameters: {x: 1}}', ['/a']),
    ('/lab/a: {ros__parameters: {x: {ros__parameters: 1}}}', ['/lab/a']),
    ('lab: {a: {ros__parameters: }, b: {ros__parameters: {}}}', ['/lab/a', '/lab/b']),
    ('"/**": {ros__parameters: {}}\n"*": {ros__parameters: {}}', ['/**', '/*']),
    ('ros__parameters: {x: 1}', ['/']),
    ('1: {ros__parameters: {}}', ['/1']),
])
def test_the_nodes_of_a_file(text, nodes):
    assert nodes_of(yaml.safe_load(text)) == nodes


@pytest.mark.parametrize('pattern, in_root, in_lab', [
    ('/**', True, True), ('/*', True, False), ('/lab/*', False, True), ('/lab/**', False, True),
    ('/**/node', True, True), ('/*/node', False, True), ('/node', True, False),
    ('/lab/node', False, True), ('/other', False, False), ('/', False, False),
    ('/nod.', False, False), ('/node2', False, False), ('/(', False, False),
])
def test_names_and_wildcards_are_matched_as_rcl_does(pattern, in_root, in_lab):
    """Seen so in rclpy 7.1, with a file of each."""
    assert (is_for(pattern, '/node'), is_for(pattern, '/lab/node')) == (in_root, in_lab)


def test_the_values_of_a_node_are_flat_and_those_of_other_nodes_are_left_out():
    content = yaml.safe_load("""
/**: {ros__parameters: {server: a, bodies: {allow: [x], 'Rigid Body 1': {name: cf1}}}}
/lab/mc: {ros__parameters: {server: b}}
/mc: {ros__parameters: {server: c, stamps.mode: arrival}}
""")
    assert values_for(content, '/mc') == {
        'server': 'c', 'bodies.allow': ['x'], 'bodies.Rigid Body 1.name': 'cf1',
        'stamps.mode': 'arrival'}
    assert values_for(content, '/other')['server'] == 'a' and not values_for(None, '/mc')
