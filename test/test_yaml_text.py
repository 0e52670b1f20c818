# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""YAML files: a key that is given twice is refused with both lines; all else is PyYAML's."""

import argparse
from pathlib import Path

from hypothesis import given, strategies as st
from optitrack_vrpn.cli.files_io import read_yaml
from optitrack_vrpn.cli.launch_file_ros import parameters_of_nodes
from optitrack_vrpn.cli.yaml_text import parse_yaml
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.axis_bridge_io import load_table
from optitrack_vrpn.guests.machine.machine_io import load_machine
from optitrack_vrpn.guests.rgbd.calibration import read_storage
from optitrack_vrpn.takes.bag_read_io import find_files, stated_messages
import pytest
import yaml


TWICE = [
    ('high: 1\nlow: 0\nhigh: 30\n', "'high' is given twice, in line 1 and in line 3"),
    ('axes:\n- {name: x, sign: 1,\n   sign: -1}\n',
     "'sign' is given twice, in line 2 and in line 3"),
    ('{a: 1, a: 1}', "'a' is given twice, in line 1 and in line 1"),
    ('16: x\n0x10: y\n', '16 is given twice, in line 1 and in line 2'),
    ('b: &one {c: 1, c: 2}\n', "'c' is given twice, in line 1 and in line 1"),
]


@pytest.mark.parametrize('text, lines', TWICE)
def test_a_key_twice_is_refused_with_both_lines(text, lines):
    with pytest.raises(ConfigurationError) as refused:
        parse_yaml(text, 'a.yaml')
    assert str(refused.value).startswith(f'a.yaml: {lines}: delete one')


@pytest.mark.parametrize('text', [
    'a: {x: 1}\nb: {x: 2}\n', '- x: 1\n- x: 2\n', '', '5', 'a: &k {x: 1}\nb: *k\nc: *k\n',
    # A merged key is a default that the mapping may replace.
    'base: &base {x: 1, y: 2}\none: &one\n  <<: *base\n  x: 3\ntwo:\n  <<: *one\n  y: 4\n',
    "1: a\n'1': b\n"])
def test_what_is_given_once_is_what_pyyaml_reads(text):
    assert parse_yaml(text, 'a.yaml') == yaml.safe_load(text)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab#: -', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text('abc.', min_size=1, max_size=3), inner, max_size=3), max_leaves=12)


@given(PLAIN)
def test_every_document_of_pyyaml_is_read_unchanged(data):
    assert parse_yaml(yaml.safe_dump(data), 'a.yaml') == data


@given(st.dictionaries(st.text('abc', min_size=1), PLAIN, min_size=1, max_size=4), st.randoms())
def test_every_repeated_key_is_found_wherever_it_stands(data, chance):
    lines = yaml.safe_dump(data, sort_keys=False).splitlines()
    key = chance.choice(list(data))
    at = [i for i, line in enumerate(lines) if not line.startswith((' ', '-'))]
    lines.insert(chance.choice([*at, len(lines)]), f'{yaml.safe_dump({key: 0}).strip()}')
    with pytest.raises(ConfigurationError, match='given twice'):
        parse_yaml('\n'.join(lines), 'a.yaml')


def test_a_parameter_in_two_spellings_is_given_twice():
    text = ('/**:\n  ros__parameters:\n    bodies.cf1.max_speed: 3.0\n    bodies:\n'
            '      cf1:\n        max_speed: 30.0\n')
    with pytest.raises(ConfigurationError, match=(
            "'bodies.cf1.max_speed' is given twice, in line 3 and in line 6")):
        parse_yaml(text, 'p.yaml', parameters=True)
    # Two nodes, or a node and all nodes, may set the same parameter.
    both = '/**:\n  ros__parameters: {a: 1}\n/x:\n  ros__parameters: {a: 2}\n'
    assert parse_yaml(both, 'p.yaml', parameters=True) == yaml.safe_load(both)


@pytest.mark.parametrize('text', ['a: [', 'a:\n\tb: 1', '&a [*a', '? [1]\n: 2\n? {}\n: 3'])
def test_what_is_not_yaml_is_one_error(text):
    with pytest.raises(ConfigurationError, match='a.yaml: '):
        parse_yaml(text, 'a.yaml')


@pytest.mark.parametrize('text', ['a: &x\n  b: *x\n', '- &y [1, {c: *y}]\n'])
def test_what_contains_itself_is_one_error_with_its_line(text):
    with pytest.raises(ConfigurationError, match='line 1: .* contains itself'):
        parse_yaml(text, 'a.yaml')
    assert parse_yaml('a: &x {b: 1}\nc: *x\nd: [*x, *x]\n', 'a.yaml')['d'] == [{'b': 1}] * 2


@pytest.mark.parametrize('value, line', [
    ('{b: &x 1, c: *x}', 3), ('[&x 1,\n    *x]', 4), ('&x\n    b: *x', 4),
    ('{b: &x {d: 1}, c: {<<: *x}}', 3)])
def test_a_parameter_file_with_an_alias_is_refused_as_by_rcl(value, line):
    text = f'/**:\n  ros__parameters:\n    a: {value}\n'
    with pytest.raises(ConfigurationError, match=rf'a.yaml: line {line}: .*\(\*x\): write the'):
        parse_yaml(text, 'a.yaml', parameters=True)


def test_an_anchor_without_an_alias_is_no_fault_of_a_parameter_file():
    text = '/**:\n  ros__parameters:\n    a: &x "*x & *y"   # & *x\n'
    assert parse_yaml(text, 'a.yaml', parameters=True) == yaml.safe_load(text)


def test_readers_of_the_package_refuse_a_key_twice(tmp_path):
    """Machine, axis table, calibration of a camera: each way to lose a limit or a sign."""
    file = tmp_path / 'x.yaml'
    for read, text in (
            (read_yaml, 'a: 1\na: 2\n'),
            (load_table, 'axes:\n- {name: x, body: b, quantity: x, sign: 1, sign: -1}\n'),
            (load_machine, 'axes:\n- {name: x, steps_per_unit: 1000, high: 1, high: 30}\n'),
            (lambda path: read_storage(Path(path).read_text(), str(path)),
             '%YAML:1.0\nd: {rows: 1, cols: 2, data: [1,\n 2]}\nd: 1\n')):
        file.write_text(text)
        with pytest.raises(ConfigurationError, match=f'{file}: .* is given twice, in line'):
            read(file)
    with pytest.raises(ConfigurationError, match='line 2 and in line 4'):
        read_storage(file.read_text(), 'x')


def test_a_launch_file_refuses_parameters_that_are_given_twice(tmp_path):
    file = tmp_path / 'x.yaml'
    for text in ('/**:\n  ros__parameters:\n    a: 1\n    a: 2\n', 'a: ['):
        file.write_text(text)
        with pytest.raises(argparse.ArgumentTypeError, match=str(file)):
            parameters_of_nodes(str(file))
    file.write_text('/**:\n  ros__parameters:\n    a: 1\n')
    assert parameters_of_nodes(str(file)) == str(file)


def test_metadata_of_a_bag_with_a_key_twice_is_refused_and_without_it_the_bag_is_read(tmp_path):
    (tmp_path / 'a.mcap').write_bytes(b'')
    metadata = tmp_path / 'metadata.yaml'
    row = 'rosbag2_bagfile_information:\n  relative_file_paths: [a.mcap]\n  message_count: 5\n'
    metadata.write_text(row)
    assert stated_messages(tmp_path, find_files(tmp_path, '.mcap'))[0] == 5
    metadata.write_text(f'{row}  message_count: 7\n')
    with pytest.raises(ConfigurationError) as refused:
        find_files(tmp_path, '.mcap')
    assert "'message_count' is given twice, in line 3 and in line 4" in str(refused.value)
    metadata.write_text('{')
    assert find_files(tmp_path, '.mcap') == [tmp_path / 'a.mcap']
