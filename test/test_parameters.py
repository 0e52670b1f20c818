# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What each parameter of the node accepts, and the settings of single bodies."""

from array import array
import math
import re

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.bodies.body_settings import is_fixed, sift_body_settings
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.settings import from_parameters, parameters_of
from optitrack_vrpn.settings.parameters import is_foreign
import pytest

TABLE = parameters_of(NodeSettings)
BY_NAME = {row.name: row for row in TABLE}
ROWS = pytest.mark.parametrize('row', TABLE, ids=[row.name for row in TABLE])
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.lists(st.text(), max_size=3), st.lists(st.floats(), max_size=7),
    st.lists(st.integers(), max_size=3), st.lists(st.none(), max_size=2))


def body_settings(values):
    """Give the settings of single bodies; raises what is wrong."""
    found, wrong = sift_body_settings(values)
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    return found


# -- what a row accepts ---------------------------------------------------------------------------

@ROWS
@settings(max_examples=30, deadline=None)
@given(value=ANYTHING)
def test_whatever_is_given_is_taken_in_the_own_type_or_refused_by_name(row, value):
    try:
        checked = row.check(value)
    except ConfigurationError as error:
        assert re.match(rf'{re.escape(row.name)}(\[\d+\])? is ', str(error))
        return
    assert type(checked) is type(row.default)
    if row.metadata['choices']:
        assert ({*checked} if row.is_list else {checked}) <= {*row.metadata['choices']}
    if isinstance(checked, (int, float)) and not isinstance(checked, bool):
        assert math.isfinite(checked)
        assert row.low is None or checked >= row.low
        assert row.high is None or checked <= row.high
    assert row.check(checked) == checked


@ROWS
def test_limits_belong_to_what_is_allowed_and_nothing_beyond(row):
    for limit, beyond in ((row.low, -1), (row.high, 1)):
        if limit is not None:
            of_its_type = type(row.default)
            assert row.check(of_its_type(limit)) == limit
            with pytest.raises(ConfigurationError, match=re.escape(row.allowed)):
                row.check(of_its_type(limit + beyond))


def test_whole_numbers_serve_as_fractions_but_not_the_other_way_round():
    row = BY_NAME
    assert row['validation.max_speed'].check(5) == 5.0
    assert isinstance(row['validation.max_speed'].check(5), float)
    for name, value in (('port', 3883.0), ('port', True), ('load_shedding', 1), ('port', '3883'),
                        ('validation.max_speed', True), ('validation.max_speed', math.nan),
                        ('server', None), ('bodies.deny', 'drone'), ('bodies.deny', [1])):
        with pytest.raises(ConfigurationError, match=name):
            row[name].check(value)


def test_outputs_are_chosen_from_a_list():
    row = BY_NAME['outputs']
    assert row.check(['odom', 'tf']) == ('odom', 'tf')
    assert row.check(['']) == ()
    with pytest.raises(ConfigurationError, match=r"outputs\[1\] is 'pose_nde'.*mean 'pose_ned'"):
        row.check(['tf', 'pose_nde'])


def test_a_near_miss_of_a_choice_or_a_name_is_suggested():
    with pytest.raises(ConfigurationError, match="mean 'reliable'"):
        from_parameters(NodeSettings, {'qos.reliability': 'relaible'})
    with pytest.raises(ConfigurationError, match="mean 'validation.max_speed'"):
        from_parameters(NodeSettings, {'validation.max_sped': 3.0})
    with pytest.raises(ConfigurationError, match='ros2 param list'):
        from_parameters(NodeSettings, {'xyzzy': 3.0})


def test_every_wrong_value_is_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        from_parameters(NodeSettings, {
            'port': 0, 'up_axis': 'x', 'serverr': '', 'validation.max_speed': -1.0})
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    for name in ('port', 'up_axis', 'serverr', 'validation.max_speed'):
        assert any(name in line for line in lines)


def test_a_value_is_shown_as_its_user_wrote_it():
    """ROS has lists of numbers as arrays of Python's."""
    rows = BY_NAME
    for name, value, said in (('bodies.allow', array('q', [1, 2]), 'bodies.allow is [1, 2]; '),
                              ('world_offset.origin', array('d', [1.0]), 'origin is [1.0]; ')):
        with pytest.raises(ConfigurationError, match=re.escape(said)):
            rows[name].check(value)
    for value, said in ((array('q', [1, 2]), '[1, 2]'), (3, '3'), ('abc', "'abc'")):
        with pytest.raises(ConfigurationError, match=re.escape(f'offset is {said}: give x')):
            body_settings({'bodies.a.offset': value})


# -- settings of single bodies --------------------------------------------------------------------

NAMES = st.text(min_size=1).filter(lambda name: name not in ('allow', 'deny', 'max'))


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
        'bodies.a.b.validation.max_speed': 3, 'bodies.a.b.lowpass.order': 2,
        'bodies.a.b.motion.position_noise': 0.5, 'bodies.lowpass.max_speed': 1.0})
    assert found == {
        'a.b': {'max_speed': 3.0, 'lowpass.order': 2, 'motion.position_noise': 0.5},
        'lowpass': {'max_speed': 1.0}}
    with pytest.raises(ConfigurationError, match='twice'):
        body_settings({'bodies.a.validation.max_speed': 3.0, 'bodies.a.max_speed': 4.0})
    with pytest.raises(ConfigurationError, match=r"a\.lowpass\.cutof.*'lowpass.cutoff_hz'"):
        body_settings({'bodies.a.lowpass.cutof': 3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.lowpass\.order is 99; allowed'):
        body_settings({'bodies.a.lowpass.order': 99})
    fixed = ('name', 'offset', 'lowpass.order')
    changing = ('max_speed', 'validation.max_speed', 'motion.position_noise')
    assert all(is_fixed(f'bodies.a.{setting}') for setting in fixed)
    assert not any(is_fixed(f'bodies.a.{setting}') for setting in changing)


def test_a_wrong_setting_of_a_body_is_named_in_full():
    with pytest.raises(ConfigurationError, match=r"bodies\.a\.b c\.max_spede.*'max_speed'"):
        body_settings({'bodies.a.b c.max_spede': 3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.b c\.max_speed is -3'):
        body_settings({'bodies.a.b c.max_speed': -3.0})
    with pytest.raises(ConfigurationError, match=r'bodies\.a\.name'):
        body_settings({'bodies.a.name': ''})


def test_every_wrong_setting_of_a_body_is_told_at_once():
    with pytest.raises(ConfigurationError) as caught:
        body_settings({'bodies.a.offset': [1, 2], 'bodies.b.max_sped': 1, 'bodies.c.name': ''})
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize('name, foreign', [
    ('sever', False), ('validation.max_sped', False), ('topics.psoe', False),
    ('stamps.foo', False),
    ('robot_description', True), ('wheel_radius', True), ('nav.planner.tolerance', True)])
def test_parameters_of_other_nodes_in_a_shared_file_are_no_typing_errors(name, foreign):
    assert is_foreign(name, BY_NAME) is foreign


@pytest.mark.parametrize(('name', 'value', 'said'), [
    ('port', 'x', 'it must be a whole number (1 to 65535)'),
    ('bodies.deny', 3, "it must be a list of strings, such as ['a', 'b']"),
    ('world_offset.origin', 3, 'it must be a list of 3 numbers'),
    ('validation.max_speed', 'x', 'it must be a number')])
def test_types_are_named_in_plain_words(name, value, said):
    with pytest.raises(ConfigurationError) as refused:
        BY_NAME[name].check(value)
    assert said in str(refused.value)


def test_a_setting_of_a_body_that_resembles_none_is_told_all_that_are_allowed():
    _, (line,) = sift_body_settings({'bodies.a.enabled': True})
    assert 'did you mean' not in line
    assert 'allowed: name, topic, frame, offset, validation.*, lowpass.*, motion.*' in line
    _, (line,) = sift_body_settings({'bodies.a.max_sped': 1.0})
    assert "mean 'max_speed'?" in line


@pytest.mark.parametrize('server', ['192.168.1.999', '1.2.3.4.5', '256.0.0.1'])
def test_an_address_that_cannot_be_is_not_taken_for_a_name(server):
    with pytest.raises(ConfigurationError, match='server is .* IPv4 address'):
        ClientConfig(server=server)


@pytest.mark.parametrize('server', ['192.168.1.99', 'motive.lab', '10.0.0.1.lab', '127.1'])
def test_addresses_and_names_that_can_be_are_taken(server):
    assert ClientConfig(server=server).server == server
