# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What each parameter of the node accepts, and the settings of single bodies."""

from array import array
from pathlib import Path

from hypothesis import given, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import Transform
from optitrack_vrpn.core.settings.parameters import is_foreign, parameters_of, sift
from optitrack_vrpn.core.settings.peers import of_other_drivers, PEERS
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.node.body_settings import (
    BODY_PARAMETERS, check_body_change, doubtful, sift_body_settings)
from optitrack_vrpn.node.configuration import make_configuration
from optitrack_vrpn.node.settings import NodeSettings
import pytest

ROOT = Path(__file__).resolve().parent.parent
NAMES_OF_NODE = {row.name for row in parameters_of(NodeSettings)}


def body_settings(values):
    """Give the settings of single bodies; raises what is wrong."""
    found, wrong = sift_body_settings(values)
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    return found


@pytest.mark.parametrize(('name', 'value', 'said'), [
    ('outputs', ['tf', 'pose_nde'], "outputs[1] is 'pose_nde'; allowed: "),
    ('outputs', ['tf', 'pose_nde'], "mean 'pose_ned'"),
    ('port', 3883.0, 'a whole number (1 to 65535)'), ('load_shedding', 1, 'true or false'),
    # ROS has lists of numbers as arrays of Python's.
    ('bodies.allow', array('q', [1, 2]), 'bodies.allow is [1, 2]; '),
    ('world_offset.origin', array('d', [1.0]), 'origin is [1.0]; ')])
def test_wrong_values_are_named_with_what_is_allowed(name, value, said):
    (line,) = sift(NodeSettings, {name: value})[1]
    assert said in line


@pytest.mark.parametrize(('name', 'value', 'meant'), [
    ('up_axis', True, 'y'), ('bodies.allow', None, ()), ('bodies.allow', 'null', ()),
    ('bodies.allow', [''], ()), ('motion.position_noise', '1e-4', 1e-4)])
def test_what_yaml_and_ros_make_of_a_value_is_taken_as_it_was_meant(name, value, meant):
    settings, wrong = sift(NodeSettings, {name: value})
    assert not wrong
    assert {'up_axis': settings.axes.up_axis, 'bodies.allow': settings.bodies.allow,
            'motion.position_noise': settings.motion.position_noise}[name] == meant


@pytest.mark.parametrize(('name', 'value'), [
    ('up_axis', False), ('protocol', True),
    ('motion.position_noise', 'e4'), ('server', True), ('outputs', 'nul')])
def test_no_other_value_is_guessed(name, value):
    assert sift(NodeSettings, {name: value})[1]


def test_parameters_of_another_driver_are_recognised_and_docs_migrate_has_them():
    said = of_other_drivers(['frame_id', 'update_freq', 'mine'])
    assert 'docs/migrate.md: frame_id (here frames.world), update_freq (none: ' in said
    assert 'mine' not in said and not of_other_drivers(['mine'])
    assert of_other_drivers(['rigid_bodies.1.pose', 'rigid_bodies.2.tf']).endswith(
        'migrate.md: rigid_bodies (here bodies.allow, by name)')
    page = (ROOT / 'docs' / 'migrate.md').read_text()
    for rows in PEERS.values():
        for old, new in rows.items():
            assert f'| `{old}` | {new} |' in page
            here = new.partition(':')[0].partition(',')[0]
            assert here == 'none' or here in NAMES_OF_NODE or any(
                name.startswith(f'{here}.') for name in NAMES_OF_NODE), new


NAMES = st.text(min_size=1).filter(lambda name: name not in ('allow', 'deny', 'max'))


def test_an_offset_in_degrees_is_refused_and_a_long_one_is_doubtful():
    _, (line,) = sift_body_settings({'bodies.a.offset': [0.0, 0.0, 0.1, 0.0, 0.0, 90.0]})
    assert 'bodies.a.offset has the angle 90' in line and 'radians' in line
    found = body_settings({'bodies.a.offset': [0.0, 0.0, 50.0], 'bodies.b.offset': [
        1.0, 2.0, 3.0, 0.0, 0.0, -6.28]})
    (line,) = doubtful(found)
    assert line == 'bodies.a.offset is 50 m long: its unit is the metre'


@given(name=NAMES, speed=st.floats(0, 1000), other=NAMES)
def test_a_body_of_any_name_has_settings_of_its_own(name, speed, other):
    found = body_settings({
        f'bodies.{name}.max_speed': speed, f'bodies.{name}.name': 'cf1',
        f'bodies.{other}.detect_zeroed': False, 'port': 3883, 'bodies.allow': ['*']})
    assert found[name]['max_speed'] == speed and found[name]['name'] == 'cf1'
    assert found[other]['detect_zeroed'] is False
    assert set(found) == {name, other}


def test_settings_of_a_body_may_stand_in_the_sections_of_the_table():
    found = body_settings({
        'bodies.a.b.validation.max_speed': 3, 'bodies.a.b.lowpass.cutoff_hz': 2,
        'bodies.a.b.motion.position_noise': 0.5, 'bodies.lowpass.max_speed': 1.0})
    assert found == {
        'a.b': {'max_speed': 3.0, 'lowpass.cutoff_hz': 2.0, 'motion.position_noise': 0.5},
        'lowpass': {'max_speed': 1.0}}
    with pytest.raises(ConfigurationError, match='twice'):
        body_settings({'bodies.a.validation.max_speed': 3.0, 'bodies.a.max_speed': 4.0})
    with pytest.raises(ConfigurationError, match=r"a\.lowpass\.cutof.*'lowpass.cutoff_hz'"):
        body_settings({'bodies.a.lowpass.cutof': 3.0})
    with pytest.raises(ConfigurationError, match=r'a\.lowpass\.cutoff_hz is -1.0; allowed'):
        body_settings({'bodies.a.lowpass.cutoff_hz': -1})
    for setting, value in (('name', 'b'), ('offset', [1.0, 0.0, 0.0]), ('lowpass.cutoff_hz', 3.0)):
        check_body_change(f'bodies.a.{setting}', value, False)
        with pytest.raises(ConfigurationError, match=f'a.{setting} is fixed'):
            check_body_change(f'bodies.a.{setting}', value, True)
    for setting in ('max_speed', 'validation.max_speed', 'motion.position_noise'):
        check_body_change(f'bodies.a.{setting}', 3.0, True)


def test_the_documented_defaults_of_a_body_can_be_given():
    defaults = {f'bodies.wand.{name}': row.default for name, row in BODY_PARAMETERS.items()}
    for name, value in defaults.items():
        check_body_change(name, value, False)
    config = make_configuration({
        **defaults, 'server': '192.0.2.20', 'bodies.drone.name': '', 'bodies.w*.name': 'other',
        'bodies.w*.offset': [1.0, 2.0, 3.0]}).pipeline
    assert config.titles_of('wand') == config.titles_of('drone') == (None, None)
    assert config.titles_of('wand 2') == ('other', 'other')
    assert config.estimate_of('wand').body_from_base == Transform()
    assert config.estimate_of('wand 2').body_from_base.position == (1.0, 2.0, 3.0)


@pytest.mark.parametrize('name, foreign', [
    ('sever', False), ('validation.max_sped', False), ('topics.psoe', False),
    ('stamps.foo', False),
    ('robot_description', True), ('wheel_radius', True), ('nav.planner.tolerance', True)])
def test_parameters_of_other_nodes_in_a_shared_file_are_no_typing_errors(name, foreign):
    assert is_foreign(name, NAMES_OF_NODE) is foreign


@pytest.mark.parametrize('server, words', [
    *((address, 'server is .* IPv4 address') for address in (
        '192.168.1.999', '1.2.3.4.5', '256.0.0.1')),
    *((address, 'one computer') for address in ('0.0.0.0', '239.255.42.99', '255.255.255.255'))])
def test_an_address_that_is_of_no_or_of_many_computers_is_refused(server, words):
    with pytest.raises(ConfigurationError, match=words):
        ClientConfig(server=server)


@pytest.mark.parametrize('server', ['192.168.1.99', 'motive.lab', '10.0.0.1.lab', '127.1'])
def test_addresses_and_names_that_can_be_are_taken(server):
    assert ClientConfig(server=server).server == server
