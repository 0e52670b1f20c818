# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The closed loop: the thesis's rule, the filter, slip, noise, calibration."""

from dataclasses import replace
import math
import random
import threading

from gantry_kit import ORION, Rig, settings_of, THESIS
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.axis import Axis
from optitrack_vrpn.guests.machine.axis_bridge_io import load_table
from optitrack_vrpn.guests.machine.correction import Correction, Measurement, SlipEstimator
from optitrack_vrpn.guests.machine.gantry_settings import CorrectionSettings
from optitrack_vrpn.guests.machine.gantry_sim_io import carried, SimulatedMachine
from optitrack_vrpn.guests.machine.machine import Calibration
from optitrack_vrpn.guests.machine.setpoints import AxisMotion, Switches
from optitrack_vrpn.guests.machine.states import Mode, MOVING
from optitrack_vrpn.guests.machine.trajectory import make_trajectory
from optitrack_vrpn.sim.scenario_io import Scenario, scenario_from_mapping
from optitrack_vrpn.sim.world import World
import pytest


def corrected(settings, readings, position=0.0, dt=0.01):
    """Feed a correction with mocap values at rest; gives the offsets."""
    rule = Correction(settings)
    rule.enter()
    found = []
    for k, value in enumerate(readings):
        rule.commanded(k * dt, position, False, dt)
        rule.correct(None if value is None else Measurement(value, k * dt))
        found.append(rule.offset)
    return found


# -- the rule of the thesis ---------------------------------------------------------------------

@pytest.mark.parametrize('max_step, readings, offsets', [
    # The first valid value is the zero of mocap.
    (1e-4, [None, None, 7.3, 7.3005, 7.3], [0.0] * 5),
    # An error below the dead band counts as nothing, and above it as a whole.
    (1.0, [0.0, 9e-4, 1.1e-3], [0.0, 0.0, -1.1e-3]),
    # A correction is limited in each cycle.
    (1e-4, [0.0, 0.01, 0.01, -0.01], [0, -1e-4, -2e-4, -1e-4]),
    # The last value holds for a lost packet.
    (1e-4, [0.0, 0.01, None], [0.0, -1e-4, -2e-4])])
def test_the_rule_of_the_thesis(max_step, readings, offsets):
    rule = CorrectionSettings(
        dead_band=1e-3, max_step=max_step, limit=2.0, action='thesis')
    assert corrected(rule, readings) == pytest.approx(offsets, abs=1e-15)


@pytest.mark.parametrize('name', ['thesis', 'kalman'])
def test_an_angle_that_jumps_by_a_turn_is_the_same_position(name):
    """A bridge that restarts unwraps from another turn."""
    correction = Correction(CorrectionSettings(
        dead_band=0.1, max_step=0.01, limit=5.0, action=name), 360.0)
    correction.enter()
    for k in range(300):
        correction.commanded(0.01 * k, 10.0, False, 0.01)
        correction.correct(Measurement(370.0 if k < 100 else 10.0 if k < 200 else -350.0,
                                       0.01 * k))
    assert abs(correction.error) < 1e-9 and abs(correction.offset) < 1e-9


# -- beyond it ----------------------------------------------------------------------------------

def test_a_body_pushed_at_rest_is_brought_back_without_overshoot():
    rig = Rig(settings_of('chaser_y'), noise=False)
    rig.close_loop(2.0)
    rig.plant.axes['chaser_y'].position += 3e-3
    found = rig.run(40.0)
    # A push is no slip: the estimator blames slip and backlash first, and forgets that again.
    assert min(found) > -3e-3 and abs(found[-1]) < 1.05e-3


def test_latency_compensation_keeps_the_delay_of_mocap_from_counting_as_an_error():
    """The thesis's rule goes too far by the correction that it makes on the way."""
    ends = {}
    for name, rule in (('thesis', THESIS), ('kalman', None)):
        rig = Rig(settings_of('chaser_y', rule), noise=False)
        rig.close_loop(1.0)
        rig.axis.sine(0.4, 0.05)
        ends[name] = max(rig.run(30.0)) - 0.4
    assert ends['thesis'] > 2e-3
    assert abs(ends['kalman']) < 3e-4


def test_the_estimator_finds_slip_and_backlash():
    """Against the plant: slip in one direction and play, a sine, noise as after the filter."""
    rng = random.Random(2)
    axis = SimulatedMachine(settings_of('chaser_pitch')).axes['chaser_pitch']
    estimator = SlipEstimator(0.3)
    for k in range(12000):
        motor = 12.0 * math.sin(2 * math.pi * 0.32 * k * 0.01)
        axis.drive(motor)
        estimator.move(k * 0.01, motor)
        estimator.measure(k * 0.01, axis.position - motor + rng.gauss(0, 0.013))
    assert estimator.backlash == pytest.approx(1.0, abs=0.03)
    positive, negative = estimator.slips
    assert positive - negative == pytest.approx(1.95e-4, abs=5e-5)


def test_with_learnt_slip_the_axis_stays_right_while_mocap_is_hidden():
    rig = Rig(settings_of('chaser_pitch'), seed=1)
    rig.close_loop(1.0)
    rig.axis.sine(12.0, 0.32)
    rig.run(60.0)
    rig.mocap[rig.name].visible = False
    hidden = rig.run(0.9)
    rig.mocap[rig.name].visible = True
    after = rig.run(3.2)
    assert rig.axis.mode is Mode.SINE and rig.axis.tracking
    assert max(after) == pytest.approx(12.0, abs=0.1) and max(map(abs, hidden)) < 12.1


@pytest.mark.parametrize('name', ['thesis', 'kalman'])
def test_closed_loop_holds_the_zero_where_open_loop_drifts(name):
    """Y with five times the slip for a minute: as much drift as the thesis saw in five."""
    axis = settings_of('chaser_y', {'action': name}).axes[0]
    slipping = replace(axis, plant=replace(axis.plant, slip_positive=5 * 1.133e-4))
    drift = {}
    for closed in (False, True):
        rig = Rig(replace(ORION, axes=(slipping,)), seed=4)
        rig.run(0.5)
        rig.axis.track(closed)
        rig.run(2.5)
        rig.axis.sine(0.5, 0.05)
        found = rig.run(80.0)[-2000:]
        drift[closed] = (max(found) + min(found)) / 2
    assert drift[False] == pytest.approx(-1.7e-3, abs=0.4e-3)
    # the rule with a dead band of 1 mm leaves up to as much
    assert abs(drift[True]) < (1.15e-3 if name == 'thesis' else 0.35e-3)


# -- calibration --------------------------------------------------------------------------------

def test_calibration_finds_the_steps_per_unit():
    """The controller's steps are 2 percent off those of the plant."""
    wrong = replace(settings_of('chaser_x').axes[0], steps_per_unit=170358 * 1.02)
    rig = Rig(replace(ORION, axes=(wrong,)))
    true = replace(wrong, steps_per_unit=170358.0)
    plant = SimulatedMachine(replace(ORION, axes=(true,)))
    drive = plant.axes['chaser_x'].drive
    plant.axes['chaser_x'].drive = lambda motor: drive(motor * 1.02)
    rig.plant = plant
    run = calibrate(rig, 0.5)
    assert run.reason == ''
    assert run.result.steps_per_unit == pytest.approx(170358, rel=3e-4)
    assert run.result.uncertainty < 3e-4 and abs(run.result.difference) < 1e-3


def calibrate(rig, distance, during=lambda rig, k: None):
    """Run a calibration to its end."""
    run = Calibration(rig.axis, distance)
    for k in range(20000):
        rig.cycle()
        during(rig, k)
        run.step(rig.machine.dt)
        if run.done:
            break
    return run


@pytest.mark.parametrize('rate_hz', [20.0, 1000.0])
def test_calibration_and_latency_compensation_work_at_any_rate_of_cycles(rate_hz):
    settings = replace(settings_of('chaser_x'), rate_hz=rate_hz)
    run = calibrate(Rig(settings, noise=False), 0.02)
    assert run.reason == '' and run.result.ratio == pytest.approx(1.0, abs=1e-3)
    axis, now = Axis(settings.axes[0], 1.0 / rate_hz), 0.0
    axis.track(True)
    while now < 3.0:        # the measurements are half a second old; the axis is pushed at 1.5 s
        axis.step(now, Measurement(0.0 if now < 1.5 else 0.01, now - 0.5), Switches())
        now += 1.0 / rate_hz
    assert axis.correction.offset < 0.0


def test_play_does_not_change_the_calibrated_steps_per_unit():
    """The pitch of ORION has 1 degree of play, a tenth of the way."""
    run = calibrate(Rig(settings_of('chaser_pitch'), noise=False), 10.0)
    assert run.reason == ''
    assert run.result.ratio == pytest.approx(1.0, abs=1e-3)
    assert run.result.backlash == pytest.approx(1.0, abs=0.01)
    assert 'play' in calibrate(
        Rig(settings_of('chaser_pitch'), noise=False), 3.5).reason


@pytest.mark.parametrize('spoil, distance, words', [
    (lambda axis: axis.track(True), 0.5, 'open loop'),
    (lambda axis: axis.go_to(1.0), 0.5, 'at rest'),
    (lambda axis: None, 0.0, 'distance')])
def test_calibration_is_refused_where_it_cannot_measure(spoil, distance, words):
    rig = Rig(settings_of('chaser_x'))
    spoil(rig.axis)
    rig.run(0.1)
    assert words in Calibration(rig.axis, distance).reason


# -- bodies on the machine ----------------------------------------------------------------------

def test_the_simulated_motive_sees_what_the_machine_carries():
    machine = SimulatedMachine(ORION)
    table = load_table('axes_orion')
    faults = scenario_from_mapping({'bodies': [
        {'name': 'target', 'faults': [{'type': 'occlusion', 'mode': 'silent', 'start': 0.5}]}],
        'rate': 100.0})
    world = World(*carried(faults, table, machine, threading.Lock()))
    first = {report.name: report for report in world.frame(0).reports}
    assert first['chaser'].position == (0.0, 1.0, 0.0)
    assert math.dist(first['chaser'].position, first['target'].position) >= 1.0
    machine.axes['chaser_x'].position = 0.5
    machine.axes['chaser_y'].position = 0.2
    second = {report.name: report for report in world.frame(1).reports}
    assert second['chaser'].position == pytest.approx((-0.2, 1.0, 0.5))
    assert {report.name for report in world.frame(60).reports} == {'chaser'}


def test_machine_and_axis_table_must_name_the_same_axes():
    with pytest.raises(ConfigurationError, match='target_inner_yaw'):
        carried(Scenario(), load_table('axes_racoon'), SimulatedMachine(ORION), threading.Lock())


def test_a_frozen_body_keeps_its_pose_while_the_machine_goes_on():
    machine = SimulatedMachine(ORION)
    faults = scenario_from_mapping({'bodies': [
        {'name': 'chaser', 'faults': [{'type': 'occlusion', 'mode': 'frozen', 'start': 0.1}]}],
        'rate': 100.0})
    world = World(*carried(faults, load_table('axes_orion'), machine, threading.Lock()))
    found = []
    for number in range(20):
        machine.axes['chaser_x'].position = 0.01 * number
        found.append({r.name: r for r in world.frame(number).reports}['chaser'].position[2])
    assert found[:10] == pytest.approx([0.01 * k for k in range(10)])
    assert set(found[10:]) == {found[9]}


# -- lost signals -------------------------------------------------------------------------------

def closed_loop():
    """Give a machine whose axis is in closed loop, and the axis."""
    rig = Rig(settings_of('chaser_x'), noise=False)
    rig.close_loop(0.5)
    return rig, rig.axis


@pytest.mark.parametrize('mode', MOVING)
def test_a_controller_that_was_held_for_a_second_starts_from_rest(mode):
    """The report and the measurement that wait for it do not show that nothing was missed."""
    rig = Rig(settings_of('chaser_x'), noise=False)
    axis = rig.axis
    axis.track(mode is not Mode.REFERENCE)
    axis.referenced = True
    rig.run(0.5)
    path = make_trajectory([0.0, 10.0], [0.0, 1.0])
    assert {'manual': lambda: axis.go_to(1.0), 'velocity': lambda: axis.move(0.1),
            'stream': axis.stream, 'sine': lambda: axis.sine(0.1, 0.1), 'reference': axis.home,
            'trajectory': lambda: axis.follow(path)}[mode.value]() == ''
    for _ in range(100):
        axis.stream_target(1.0)
        rig.cycle()
    rig.cycle(periods=50)
    assert axis.mode is mode and not axis.warnings and axis.moving
    before = rig.position
    rig.cycle(periods=101)
    assert axis.mode is Mode.STOPPING and 'machine_lost' in axis.warnings
    assert not axis.moving and rig.position == pytest.approx(before, abs=1e-5)
    assert not axis.tracking and not axis.referenced    # the machine counts anew
    rig.run(2.0)
    assert axis.mode is Mode.STOPPING and rig.position == pytest.approx(before, abs=1e-5)


def test_the_loop_opens_as_often_as_the_machine_is_lost():
    rig, axis = closed_loop()
    for _ in range(2):
        rig.linked = False
        rig.run(1.01)
        assert not axis.tracking and 'machine_lost' in axis.warnings
        rig.linked = True
        rig.run(0.1)
        assert axis.track(True) == ''
        rig.run(0.1)
        assert axis.tracking


def test_a_stream_that_falls_silent_stops_the_axis_and_stays_stopped():
    rig = Rig(settings_of('chaser_x'), noise=False)
    axis = rig.axis
    axis.stream()

    def run(cycles, feeding):
        for _ in range(cycles):
            if feeding:
                axis.stream_target(1.0)
            rig.cycle()
    run(100, True)
    assert axis.moving
    run(101, False)
    assert axis.mode is Mode.STOPPING and 'stream_lost' in axis.warnings
    run(300, True)
    assert axis.mode is Mode.STOPPING and not axis.moving


@pytest.mark.parametrize('action_name', ['thesis', 'kalman'])
def test_a_wrong_sign_is_caught_at_the_limit_of_the_correction(action_name):
    """With the sign of the mocap wrong the loop runs away; the thesis warns of it."""
    rig = Rig(settings_of('chaser_y', {'action': action_name, 'limit': 0.01}))
    channel = rig.mocap[rig.name]
    measure = channel.measure
    channel.measure = lambda now, position: measure(now, -position)
    rig.close_loop(0.5)
    rig.axis.go_to(0.5)
    rig.run(20.0)
    assert rig.axis.mode is Mode.STOPPING and not rig.axis.tracking
    assert 'correction_limit' in rig.axis.warnings
    assert abs(rig.axis.correction.offset) < 0.01 + 1e-4


def test_no_correction_is_made_in_a_lock():
    rig, axis = closed_loop()
    axis.lock()
    offset = axis.correction.offset
    rng = random.Random(5)
    for _ in range(60):
        rig.plant.axes[rig.name].position += 1e-3
        rig.mocap[rig.name].visible = rng.random() < 0.5
        rig.cycle()
        assert axis.correction.offset == offset and not axis.moving


def one_axis(**correction):
    """Make an axis that stops after a second without a signal."""
    settings = settings_of('chaser_x', correction).axes[0]
    return Axis(settings, 0.01, 100)


@pytest.mark.parametrize('signal', ['mocap', 'stream'])
def test_cycles_that_were_skipped_count_as_cycles_without_a_signal(signal):
    """A controller that was held has had no signal in the meantime either."""
    axis = one_axis()
    assert (axis.track(True) if signal == 'mocap' else axis.stream()) == ''
    axis.step(0.0, Measurement(0.0, 0.0), Switches())
    axis.stream_target(0.1)
    axis.step(0.6, None, Switches(), 60)
    assert not axis.warnings
    axis.step(1.2, None, Switches(), 60)
    assert axis.warnings == {f'{signal}_lost'} and axis.mode is Mode.STOPPING


def test_a_command_clears_all_warnings_but_that_the_loop_is_open():
    axis = one_axis(require_mocap=False)
    axis.track(True)
    axis.step(0.0, None, Switches(), 100)
    axis.fail('soft_limit')
    assert axis.warnings == {'mocap_lost', 'soft_limit'}
    assert axis.go_to(0.1) == ''
    assert axis.warnings == {'mocap_lost'}
    axis.track(True)
    assert not axis.warnings


@pytest.mark.parametrize('moves_for_s', [0.0, 2.0])
def test_the_zero_of_mocap_after_a_search_is_measured_when_the_axis_has_settled(moves_for_s):
    """
    Mocap is late and filtered: what it shows while the axis settles is where it was.

    The axis has stood for a second before; the search moves it and gives it a new count.
    """
    correction = Correction(CorrectionSettings(dead_band=1e-3, max_step=1e-4))
    correction.enter()
    now = 0.0

    def cycles(seconds, moving, value):
        nonlocal now
        for _ in range(round(seconds * 100)):
            correction.commanded(now, 0.0, moving, 0.01)
            correction.correct(Measurement(value, now))
            now += 0.01
    cycles(1.0, False, 5.0)
    cycles(moves_for_s, True, 5.0)
    correction.shift()
    if moves_for_s:
        cycles(0.4, False, 5.3)     # still on its way
        assert correction.error is None
    cycles(1.0, False, 5.5)
    cycles(1.0, False, 5.5)
    assert abs(correction.error) < 1e-9 and abs(correction.offset) < 1e-9


def test_an_end_is_measured_for_a_second_after_the_axis_has_settled():
    """A hundred readings: the window of the thesis."""
    rig = Rig(settings_of('chaser_x'), noise=False)
    run = Calibration(rig.axis, 0.1)
    first, rest = rig.axis.target, 0
    while rig.axis.target == first:
        rig.cycle()
        rest += rig.axis.state == AxisMotion(first)
        run.step(rig.machine.dt)
    assert 155 <= rest <= 165
