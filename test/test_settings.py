# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of any node: declared once, named as ROS parameters, checked and documented."""

from dataclasses import dataclass, replace
import math

from conftest import lacking, lacking_in_lines
from hypothesis import given, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.documents import parameter_file
from optitrack_vrpn.core.settings.parameters import parameters_of, sift, unknown
from optitrack_vrpn.core.settings.schema import Change, checked, section, setting
from optitrack_vrpn.node.settings import NodeSettings
import pytest
import yaml


@checked
@dataclass(frozen=True)
class Arm:
    """A section."""

    length: float = setting(
        1.5, unit='m', low=0.1, high=9.0, doc='its length', change=Change.ANY_TIME)
    joints: int = setting(6, low=1, high=9, doc='joints that it has')
    grip: str = setting('soft', choices=('soft', 'firm'), doc='how it grips',
                        change=Change.ANY_TIME)
    spare: float = 2.0    # a constant: not a parameter

    def check(self) -> None:
        """Refuse what no single field shows."""
        if self.length > self.joints:
            raise ConfigurationError(
                f'length is {self.length:g}; at most 1 m for each of the {self.joints} joints')


@checked
@dataclass(frozen=True)
class Robot:
    """Settings of a node."""

    name: str = setting('r2', doc='its name')
    wheels: tuple[str, ...] = setting((), doc='names of its wheels')
    origin: tuple[float, float, float] = setting(
        (0.0, 0.0, 0.0), unit='m', low=-100.0, high=100.0, doc='where it starts')
    arm: Arm = section(Arm())
    left: Arm = section(Arm(joints=4), name='')
    log: bool = setting(False, doc='write a log | or not', change=Change.START, name='logs.on')


NAMES = ['name', 'wheels', 'origin', 'arm.length', 'arm.joints', 'arm.grip',
         'length', 'joints', 'grip', 'logs.on']


def messages(cls, values, prefix=''):
    lines = sift(cls, values, prefix)[1]
    assert lines
    return lines


# -- names and values -----------------------------------------------------------------------------


def test_values_reach_the_field_that_their_name_says():
    made, wrong = sift(Robot, {
        'arm.length': 3, 'length': 2.0, 'wheels': ['', 'a'], 'origin': [1, 2.5, 3],
        'logs.on': True})
    assert not wrong
    assert made == Robot(
        wheels=('a',), origin=(1.0, 2.5, 3.0), arm=Arm(length=3.0), log=True,
        left=Arm(length=2.0, joints=4))
    assert isinstance(made.arm.length, float) and isinstance(made.origin[0], float)
    assert sift(Robot, {}) == (Robot(), [])


def test_all_wrong_values_are_reported_at_once():
    values = {'arm.length': 99, 'arm.grip': 'frim', 'name': 3, 'origin': [1.0, math.nan, 2.0],
              'wheels': 'left', 'joints': 9, 'length': 2.0, 'logs.no': True}
    lines = messages(Robot, values)
    assert not lacking_in_lines(
        lines, ['name is 3', 'a string'], ["wheels is 'left'", "such as ['a', 'b']"],
        ['origin[1] is nan; allowed: -100 to 100 m'], ['arm.length is 99.0; allowed: 0.1 to 9 m'],
        ["arm.grip is 'frim'; allowed: soft, firm", "mean 'firm'?"])
    assert sift(Robot, values)[0] == Robot(left=Arm(joints=9, length=2.0))


@pytest.mark.parametrize(('name', 'said'), [
    ('logs.no', "mean 'logs.on'?"), ('arms.length', "mean 'arm.length'?"),
    ('xyzzy', 'ros2 param list')])
def test_an_unknown_name_is_reported_with_the_most_similar_one(name, said):
    assert not lacking(unknown(name, NAMES), repr(name), said)


def test_a_rule_between_fields_is_reported_with_the_full_name():
    assert not lacking_in_lines(
        messages(Robot, {'x.arm.length': 8.0, 'x.arm.joints': 2}, 'x.'),
        ['x.arm.length is 8; at most 1 m', '2 joints'])


@pytest.mark.parametrize(('value', 'said'), [
    (True, 'length is True; it must be a number (0.1 to 9 m)'),
    ('3', "length is '3'; it must be a number (0.1 to 9 m)"),
    (None, 'length is nothing; it must be a number (0.1 to 9 m)'),
    (0.09, 'length is 0.09; allowed: 0.1 to 9 m'),
    (math.inf, 'length is inf; allowed: 0.1 to 9 m'),
    (10**400, '; allowed: 0.1 to 9 m')])
def test_a_number_out_of_range_or_of_another_type_is_refused(value, said):
    (line,) = messages(Robot, {'length': value})
    assert line.endswith(said)
    (length,) = [each for each in parameters_of(Robot) if each.name == 'length']
    assert [length.check(limit) for limit in (0.1, 9)] == [0.1, 9.0]


@given(value=st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(),
    st.dictionaries(st.text(), st.integers(), max_size=2),
    st.lists(st.one_of(st.floats(), st.integers(), st.text(), st.none()), max_size=4)))
def test_any_value_is_converted_or_refused_by_name(value):
    for each in (*parameters_of(Robot), *parameters_of(NodeSettings)):
        try:
            found = each.check(value)
        except ConfigurationError as error:
            assert str(error).startswith(each.name)
            continue
        assert type(found) is type(each.default)
        assert each.check(found) == found
        if each.rule.choices:
            assert ({*found} if each.is_list else {found}) <= {*each.rule.choices}
        if each.item_type in (int, float):
            numbers = found if each.is_list else [found]
            assert all(map(math.isfinite, numbers))
            low, high = each.rule.low, each.rule.high
            assert low is None or low <= min(numbers) <= max(numbers) <= high


def test_a_constructor_checks_what_python_code_passes():
    for wrong in ({'length': 0.0}, {'length': 'long'}, {'grip': 'none'}, {'joints': 2.0}):
        with pytest.raises(ConfigurationError, match=next(iter(wrong))):
            Arm(**wrong)
        with pytest.raises(ConfigurationError):
            replace(Arm(), **wrong)


# -- documents ------------------------------------------------------------------------------------

def test_the_yaml_file_holds_every_parameter_with_its_description_right_above():
    text = parameter_file('robot', Robot, {'arm': ['a note']})
    values = {}
    for key, value in yaml.safe_load(text)['/**']['ros__parameters'].items():
        values.update({f'{key}.{leaf}': each for leaf, each in value.items()}
                      if isinstance(value, dict) else {key: value})
    assert list(values) == NAMES
    assert sift(Robot, values) == (Robot(), [])
    lines = text.splitlines()
    assert 'the node robot' in lines[0]
    at = lines.index('      length: 1.5')
    assert lines[at - 1] == '      # its length (0.1 to 9 m)'
    assert '      # a note' in lines and max(map(len, lines)) <= 99
