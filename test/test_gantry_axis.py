# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One axis: the thesis's validation matrix, and the rules of each mode."""

from dataclasses import replace
import math

from gantry_kit import NAMES, Rig, settings_of
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import build
from optitrack_vrpn.guests.machine.gantry_settings import MachineSettings
from optitrack_vrpn.guests.machine.setpoints import AxisMotion, between, Limits, Planner
from optitrack_vrpn.guests.machine.states import Mode
from optitrack_vrpn.guests.machine.trajectory import make_trajectory, parse
import pytest

MODES = ('manual', 'stream', 'sine', 'trajectory', 'reference', 'stopping', 'lock')


def perfect(name='chaser_x', **changes):
    return Rig(settings_of(name, **changes), noise=False)


def drive(rig, mode, size, period):
    """Command a mode and let it end; gives the true positions meanwhile."""
    axis = rig.axis
    if mode == 'manual':
        assert axis.go_to(size) == ''
        return rig.run(4 * period)
    if mode == 'stream':
        assert axis.stream() == ''
        found = []
        for k in range(round(4 * period / rig.machine.dt)):
            axis.stream_target(min(1.0, k * rig.machine.dt / period) * size)
            rig.cycle()
            found.append(rig.position)
        return found
    if mode == 'sine':
        assert axis.sine(size, 1.0 / period) == ''
        found = rig.run(2 * period)
        assert axis.leave_sine() == ''
        return found + rig.run(3 * period)
    if mode == 'trajectory':
        n = round(period / 0.01)
        shape = [size * (1 - math.cos(math.pi * k / n)) / 2 for k in range(n + 1)]
        assert axis.follow(make_trajectory([0.01 * k for k in range(n + 1)], shape)) == ''
        return rig.run(2 * period)
    if mode == 'reference':
        assert axis.home() == ''
        return rig.run(46.0)
    if mode == 'stopping':
        axis.go_to(size)
        rig.run(0.1 * period)
        assert axis.stop() == ''
        return rig.run(period)
    axis.go_to(size)
    rig.run(0.1 * period)
    assert axis.lock() == ''
    return rig.run(period)


@pytest.mark.parametrize('name', NAMES)
@pytest.mark.parametrize('closed', [False, True], ids=['open', 'closed'])
@pytest.mark.parametrize('mode', MODES)
def test_validation_matrix_of_the_thesis(name, closed, mode):
    """Each mode, open and closed loop, each axis: where the load is, within 1 mm and 1 degree."""
    rig = Rig(settings_of(name))
    linear = rig.axis.settings.kind == 'linear'
    size, period = (0.2, 8.0) if linear else (8.0, 4.0)
    tolerance = 1e-3 if linear else 1.0
    rig.run(0.2)
    if closed:
        rig.close_loop(1.0)
    found = drive(rig, mode, size, period)
    axis = rig.axis
    assert not axis.warnings and axis.tracking == closed
    if mode == 'reference':
        switch = axis.settings.plant.reference
        assert axis.referenced and axis.mode is Mode.STOPPING and not axis.moving
        # zero of the count is where the switch was met, at either edge of it
        edges = (switch, switch + axis.settings.plant.reference_width)
        zero = rig.position - axis.state.position
        assert min(abs(zero - edge) for edge in edges) < (1e-3 if linear else 1.05)
        return
    if mode in ('stopping', 'lock'):
        assert axis.mode is Mode(mode) and not axis.moving
        assert 0.0 < axis.state.position < size
        # A lock corrects nothing: what the rule of the thesis took for an error remains.
        assert abs(rig.position - axis.state.position) < tolerance * (2 if mode == 'lock' else 1)
        return
    end = {'sine': 0.0}.get(mode, size)
    assert abs(found[-1] - end) < tolerance
    # The rule of the thesis takes the delay of mocap for an error while the axis moves.
    assert abs(max(found) - size) < (5e-3 if closed and linear else tolerance)
    assert axis.mode is {'sine': Mode.MANUAL, 'trajectory': Mode.STOPPING}.get(mode, Mode(mode))


# -- set points ---------------------------------------------------------------------------------

@settings(max_examples=40)
@given(st.floats(-2, 2), st.floats(-3, 3), st.floats(-5, 5), st.floats(-2, 2))
def test_a_motion_ends_at_its_target_within_the_limits(position, velocity, acceleration, target):
    planner = Planner(0.01, Limits(1.0, 2.0, 20.0))
    state = AxisMotion(position, velocity, acceleration)
    for _ in range(3000):
        new = planner.to_position(state, target)
        # beyond a limit it only comes back
        assert abs(new.velocity) <= max(1.0, abs(state.velocity)) + 1e-6
        assert abs(new.acceleration) <= 2.0 + 1e-6
        state = new
        if state == AxisMotion(target):
            return
    raise AssertionError(f'never at {target}: {state}')


@given(*[st.floats(-3, 3)] * 4)
def test_the_cubic_joins_position_and_velocity(start, velocity, end, end_velocity):
    cubic = between(start, velocity, end, end_velocity, 0.01)
    assert cubic.at(0.0) == start and math.isclose(cubic.at(0.01), end, abs_tol=1e-9)
    slope = cubic.a + 0.02 * cubic.b + 3e-4 * cubic.c
    assert math.isclose(slope, end_velocity, abs_tol=1e-6)
    assert list(cubic.points(0.01))[-1] == cubic.at(0.01)


# -- modes --------------------------------------------------------------------------------------

def test_a_sine_is_the_closed_form_around_where_it_was_entered():
    rig = perfect()
    rig.axis.go_to(0.5)
    rig.run(10.0)
    rig.axis.sine(0.1, 0.1)
    for k in range(1, 2001):
        rig.cycle()
        assert rig.axis.state.position == pytest.approx(
            0.5 + min(1.0, 0.001 * k) * 0.1 * math.sin(2 * math.pi * 0.001 * k), abs=1e-12)


@pytest.mark.parametrize('follow_up', ['stream', 'home', 'sine'])
def test_leaving_a_sine_goes_back_to_its_middle_first(follow_up):
    rig = perfect()
    rig.axis.sine(0.1, 0.1)
    rig.run(12.5)
    assert rig.axis.state.position == pytest.approx(0.1, abs=1e-3)
    assert {'stream': rig.axis.stream, 'home': rig.axis.home,
            'sine': lambda: rig.axis.sine(0.05, 0.1)}[follow_up]() == ''
    assert rig.axis.mode is Mode.MANUAL
    for _ in range(2000):
        rig.cycle()
        if rig.axis.mode is not Mode.MANUAL:
            break
    assert rig.axis.state.position == pytest.approx(0.0, abs=1e-3)
    assert rig.axis.mode.value == {'home': 'reference'}.get(follow_up, follow_up)


@pytest.mark.parametrize('name, command, words', [
    ('chaser_x', lambda axis: axis.sine(1.0, 1.0), 'Largest'),
    ('chaser_x', lambda axis: axis.follow(make_trajectory([0.0, 0.01], [0.0, 0.1])), 'Largest'),
    ('chaser_x', lambda axis: axis.sine(1e-9, 100.0), 'Highest'),
    ('chaser_x', lambda axis: axis.go_to(3.5), 'soft limits'),
    ('chaser_x', lambda axis: axis.go_to(-0.6), 'soft limits'),
    ('chaser_x', lambda axis: axis.go_to(math.nan), '2 hours'),
    ('chaser_x', lambda axis: axis.go_to(math.inf), '2 hours'),
    # Ruckig refuses motions above 7600 s; the axis would not move, without a reason.
    ('chaser_yaw', lambda axis: axis.go_to(1e6), '2 hours'),
    ('target_yaw', lambda axis: axis.home(), 'no reference switch')])
def test_a_motion_that_cannot_be_is_refused(name, command, words):
    rig = perfect(name, **({'reference_velocity': 0.0} if name == 'target_yaw' else {}))
    assert words in command(rig.axis)
    assert rig.axis.mode is Mode.STOPPING


@pytest.mark.parametrize('name, command', [
    ('chaser_x', lambda axis: axis.sine(1e-5, 10.0)),
    ('chaser_yaw', lambda axis: axis.go_to(1.4e5))])
def test_a_motion_that_just_can_be_begins(name, command):
    rig = perfect(name)
    assert command(rig.axis) == ''
    rig.cycle()
    assert rig.axis.moving


def test_a_streamed_target_outside_the_soft_limits_stops_the_axis():
    rig = perfect()
    rig.axis.stream()
    rig.axis.stream_target(9.0)
    rig.run(0.1)
    assert rig.axis.mode is Mode.STOPPING and rig.axis.warnings == {'soft_limit'}


def test_a_lock_remembers_the_mode_and_unlock_goes_on():
    rig = perfect()
    rig.axis.go_to(1.0)
    rig.run(1.0)
    rig.axis.lock()
    assert 'decelerating' in rig.axis.unlock()
    assert 'locked' in rig.axis.go_to(0.5)
    rig.run(3.0)
    held = rig.axis.state.position
    assert rig.axis.remembered is Mode.MANUAL and 0.0 < held < 1.0
    assert rig.axis.unlock() == '' and rig.axis.mode is Mode.MANUAL
    rig.run(8.0)
    assert rig.axis.state.position == 1.0


def test_unlock_repeats_a_sine_from_the_beginning():
    rig = perfect()
    assert rig.axis.sine(0.2, 0.1) == ''
    rig.run(3.0)
    rig.axis.lock()
    rig.run(3.0)
    held = rig.axis.state.position
    assert rig.axis.unlock() == '' and rig.axis.mode is Mode.SINE
    assert max(rig.run(20.0)) == pytest.approx(held + 0.2, abs=1e-3)


def test_what_goes_wrong_in_a_lock_is_not_started_again_by_unlock():
    rig = perfect()
    rig.close_loop(0.5)
    rig.axis.go_to(1.0)
    rig.run(1.0)
    rig.axis.lock()
    rig.mocap[rig.name].visible = False
    rig.run(3.0)
    assert rig.axis.unlock() == '' and rig.axis.mode is Mode.STOPPING


def test_a_search_without_switch_ends_at_the_limit_switch():
    rig = perfect(plant=replace(settings_of('chaser_x').axes[0].plant, reference=-5.0))
    rig.axis.home()
    rig.run(40.0)
    assert rig.axis.mode is Mode.STOPPING
    assert rig.axis.warnings == {'limit_switch', 'not_found'}
    assert not rig.axis.referenced


def test_a_search_for_a_defective_switch_ends_after_a_turn():
    plant = replace(settings_of('chaser_yaw').axes[0].plant, reference=1e4)
    rig = perfect('chaser_yaw', plant=plant, reference_velocity=-20.0)
    assert rig.axis.home() == ''
    rig.run(19.0)
    assert rig.axis.mode is Mode.REFERENCE
    rig.run(4.0)
    assert rig.axis.mode is Mode.STOPPING and not rig.axis.moving
    assert 'not_found' in rig.axis.warnings and not rig.axis.referenced


@pytest.mark.parametrize('begin', [0.0, -0.351, -0.375, -0.399])
def test_a_search_finds_the_same_zero_from_everywhere_on_the_switch_and_again(begin):
    """The switch of ORION's axis is on from -0.4 to -0.35 m and is approached from above."""
    rig = perfect()
    rig.plant.axes[rig.name].position = begin
    for _ in range(2):
        assert rig.axis.home() == ''
        rig.run(40.0)
        assert rig.axis.referenced and rig.axis.mode is Mode.STOPPING
        assert rig.position - rig.axis.state.position == pytest.approx(-0.35, abs=3e-4)


# -- trajectories -------------------------------------------------------------------------------

def test_the_file_of_the_thesis_is_read():
    text = '0,00;1,0;5\n0,01;1,1;5\n0,02;1,3;5\n'
    found = parse(text, ['x', 'y'])
    assert found['x'].positions == pytest.approx((0.0, 0.1, 0.3))
    assert found['y'].positions == (0.0, 0.0, 0.0)
    named = parse('t;y\n0;1\n0.01;2;\n', ['x', 'y'], loop=True)
    assert list(named) == ['y'] and named['y'].loop
    assert named['y'].at(0.015).position == pytest.approx(1.5)


@pytest.mark.parametrize('text, words', [
    ('0;1\n0.02;1', 'does not follow'), ('0;1\n0.01', 'expected 2 numbers'), ('0;1', 'two rows'),
    ('t;q\n0;1\n0.01;1', 'not axes'), ('0;1\n0.01;nan', 'expected'), ('', 'two rows'),
    ('0;1\nfoo;1', 'line 2'), ('t\n0\n0.01\n', 'not axes'),
    ('t;x\n0;0\n0.01;1e308\n0.02;-1e308\n0.03;0\n', 'no number of at most'),
])
def test_a_wrong_file_is_refused_with_its_line(text, words):
    with pytest.raises(ConfigurationError, match=words):
        parse(text, ['x'], 'move.csv')


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text):
    try:
        parse(text, ['x'])
    except ConfigurationError:
        pass


# -- settings -----------------------------------------------------------------------------------

@pytest.mark.parametrize('change, words', [
    ({'low': 1, 'high': 0}, 'low must be below'),
    ({'name': 'a b'}, 'is no name'), ({'name': 'all'}, 'is no name'),
    ({'reference_velocity': 5}, 'reference_velocity'), ({'kind': 'round'}, 'kind'),
    ({'correction': {'limit': 0.0001}}, 'limit'), ({'steps': 1}, 'steps'),
    # 2 m/s in a closed loop: somebody gave the velocity of the correction.
    ({'correction': {'max_step': 0.02}}, 'max_step'),
])
def test_a_wrong_machine_is_refused_by_name(change, words):
    with pytest.raises(ConfigurationError, match=words):
        build(MachineSettings, {'axes': [{'name': 'x', 'steps_per_unit': 1000, **change}]}, '')
