# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Invariants under random commands, faults, and losses of mocap and stream."""

from gantry_kit import Rig, settings_of
from hypothesis import example, given, settings, strategies as st
from optitrack_vrpn.gantry.modes import Mode, MOVING
from optitrack_vrpn.gantry.setpoints import State
from optitrack_vrpn.gantry.trajectory import make
import pytest

V, A, J = 0.25, 0.25, 2.5
MOTOR = 0.5
#: Time to take the acceleration back, then to brake from the motor's greatest velocity, then to
#: take that back: the stopping distance of the worst case of sine and trajectory.
A_SINE = 2.0


def stopping_distance(velocity, acceleration):
    """Bound the way of a stop with limited acceleration and jerk."""
    t = (abs(acceleration) + A) / J
    top = abs(velocity) + abs(acceleration) * t
    return top * t + top * top / (2 * A) + top * A / J + 1e-6


def reached_velocity(state):
    """Return the velocity at which limited jerk has taken the acceleration back, in magnitude."""
    return max(abs(state.velocity), abs(
        state.velocity + state.acceleration * abs(state.acceleration) / (2 * J)))


ramp = make([0.0, 1.0, 2.0], [0.0, 0.3, 0.5])


class Operator:
    """Do to a machine what users, cameras and networks do."""

    def __init__(self, **changes):
        self.rig = Rig(settings_of('chaser_x', **changes), noise=False)
        self.axis = self.rig.axis
        self.feeding = False
        self.target = 0.0

    def stream(self, target):
        self.axis.stream()
        self.target, self.feeding = target, True

    def cycle(self):
        if self.feeding:
            self.axis.stream_target(self.target)
        self.rig.cycle()


#: Values of an action, and what it does.
ACTIONS = {
    'go': (st.floats(-0.5, 3.0), lambda it, value: it.axis.go_to(value)),
    'jog': (st.floats(-1.0, 1.0), lambda it, value: it.axis.jog(value)),
    'sine': (st.tuples(st.floats(-0.5, 0.5), st.floats(0.05, 0.5)),
             lambda it, value: it.axis.sine(*value)),
    'stream': (st.floats(-0.6, 3.2), Operator.stream),
    'follow': (st.booleans(), lambda it, value: it.axis.follow(ramp._replace(loop=value))),
    'home': (st.none(), lambda it, _: it.axis.home()),
    'stop': (st.none(), lambda it, _: it.axis.stop()),
    'lock': (st.none(), lambda it, _: it.axis.lock()),
    'unlock': (st.none(), lambda it, _: it.axis.unlock()),
    'track': (st.booleans(), lambda it, value: it.axis.track(value)),
    'see': (st.booleans(), lambda it, value: setattr(
        it.rig.mocap[it.rig.name], 'visible', value)),
    'power': (st.booleans(), lambda it, value: setattr(it.rig.plant, 'power', value)),
    'reset': (st.none(), lambda it, _: it.rig.machine.reset()),
    'emergency': (st.none(), lambda it, _: it.rig.machine.emergency_stop()),
    'feed': (st.booleans(), lambda it, value: setattr(it, 'feeding', value)),
    'link': (st.booleans(), lambda it, value: setattr(it.rig, 'linked', value)),
}


def among(*names):
    """Draw one of these actions, its value, and the cycles after it."""
    return st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), ACTIONS[name][0], st.integers(1, 250)))


def closed_loop():
    """Give a machine whose axis is in closed loop, and the axis."""
    rig = Rig(settings_of('chaser_x'), noise=False)
    rig.close_loop(0.5)
    return rig, rig.axis


@settings(max_examples=30)
# What starts a long motion or the closed loop comes first, so that the rest meets a moving axis.
@given(st.floats(-0.5, 3.0),
       st.lists(among('sine', 'follow', 'stream', 'track', 'go'), min_size=1, max_size=3),
       st.lists(among(*sorted(ACTIONS)), max_size=10))
# It leaves the sine below the greatest velocity, with an acceleration that still increases it.
@example(0.0, [('sine', (0.3046875, 0.1953125), 182)], [('follow', False, 8)])
def test_nothing_that_users_or_networks_do_breaks_a_rule(start, beginnings, actions):
    operator = Operator()
    axis, rig = operator.axis, operator.rig
    axis.state = State(start)
    rig.plant.axes[rig.name].position = start
    low, high = axis.settings.low, axis.settings.high
    outside_since = None
    free = 0.0      # velocity left over from sine and trajectory, which know no limits
    searched = False
    without_mocap = without_stream = in_stream = 0
    for name, value, cycles in [*beginnings, *actions]:
        before_mode = axis.mode
        if name == 'track':
            without_mocap = 0
        ACTIONS[name][1](operator, value)
        if name == 'stream' or before_mode is not Mode.STREAM:
            in_stream = 0
        if before_mode is Mode.EMERGENCY and name != 'reset':
            assert axis.mode is Mode.EMERGENCY
        for _ in range(cycles):
            mode, before = axis.mode, axis.state
            operator.cycle()
            now = axis.state
            # emergency stop always wins
            if not rig.plant.power and rig.linked:
                assert axis.mode is Mode.EMERGENCY
            if axis.mode is Mode.EMERGENCY:
                assert now.velocity == 0.0 and now.position == before.position
            # no motion begins but by a command: a mode of motion is never entered in a cycle
            if mode in (Mode.STOPPING, Mode.LOCK, Mode.EMERGENCY):
                assert axis.mode in (mode, Mode.EMERGENCY)
                assert abs(now.velocity) <= abs(before.velocity) + abs(
                    before.acceleration) * 0.2 + 1e-9
            # limits of velocity outside sine and trajectory
            if axis.mode in (Mode.SINE, Mode.TRAJECTORY):
                free = MOTOR
            elif reached_velocity(now) <= V + 1e-9 and abs(now.acceleration) <= A + 1e-6:
                free = 0.0
            if not free and axis.mode is not Mode.EMERGENCY:
                assert abs(now.velocity) <= V + 1e-6
                assert abs(now.acceleration) <= A + 1e-5
            # soft limits are exceeded by the stopping distance at most
            inside = low <= now.position <= high
            # a search may end outside the soft limits, at a limit switch
            searched = axis.mode is Mode.REFERENCE or (searched and not inside)
            if inside or searched:
                outside_since = None
            else:
                if outside_since is None:
                    outside_since = stopping_distance(before.velocity, max(
                        abs(before.acceleration), abs(now.acceleration)))
                beyond = max(now.position - high, low - now.position)
                assert beyond <= outside_since
                outward = max(before.position - high, low - before.position) < beyond - 1e-9
                assert not outward or axis.mode not in MOVING
            # a lost signal ends in stopping within 1 s
            visible = rig.mocap[rig.name].visible
            without_mocap = 0 if visible else without_mocap + 1
            without_stream = 0 if operator.feeding else without_stream + 1
            in_stream += 1
            if without_mocap > 106:     # 1 s and the latency of what is on its way
                assert not axis.tracking
            if without_stream > 101 and axis.mode is Mode.STREAM:
                assert in_stream <= 101      # it was entered only now


@settings(max_examples=20)
@given(st.sampled_from([-1, 1]), st.floats(0.0, 0.2), st.floats(0.25, 0.5), st.floats(0.05, 0.15),
       st.booleans())
def test_soft_limits_stop_a_sine_and_a_trajectory_that_leave_them(side, margin, size, rate, sine):
    """The limit is exceeded by no more than the stopping distance from there."""
    operator = Operator(switch_low=None, switch_high=None)
    axis, rig = operator.axis, operator.rig
    limit = axis.settings.high if side > 0 else axis.settings.low
    axis.state = State(limit - side * margin)
    if sine:
        assert axis.sine(side * size, rate) == ''
    else:
        assert axis.follow(make([0.0, 2.0, 4.0], [0.0, side * 0.3, side * 0.8])) == ''
    allowed, most = None, 0.0
    for _ in range(1500):
        before = axis.state
        rig.cycle()
        if axis.mode is Mode.STOPPING and allowed is None:
            assert side * (before.position - limit) <= 1e-9
            allowed = stopping_distance(before.velocity, before.acceleration)
        most = max(most, side * (axis.state.position - limit))
    assert axis.mode is Mode.STOPPING and not axis.moving and 'soft_limit' in axis.warnings
    assert most <= allowed


@settings(max_examples=20)
@given(st.integers(0, 400), st.booleans())
def test_loss_of_mocap_stops_an_axis_in_closed_loop_within_one_second(lead, returns):
    rig, axis = closed_loop()
    axis.sine(0.3, 0.1)
    rig.run(0.01 * lead)
    rig.mocap[rig.name].visible = False
    rig.run(1.06)
    assert axis.mode is Mode.STOPPING and 'mocap_lost' in axis.warnings and not axis.tracking
    rig.run(2.5)
    assert not axis.moving
    rig.mocap[rig.name].visible = returns
    held = (axis.state, axis.position)
    rig.run(1.0)
    assert (axis.state, axis.position) == held      # a returning signal starts nothing


def test_a_single_lost_packet_changes_nothing():
    rig, axis = closed_loop()
    axis.go_to(0.5)
    rig.run(0.5)
    rig.mocap[rig.name].visible = False
    rig.cycle()
    rig.mocap[rig.name].visible = True
    rig.run(6.0)
    assert axis.mode is Mode.MANUAL and axis.tracking and not axis.warnings


def test_late_cycles_count_towards_the_loss():
    rig, axis = closed_loop()
    axis.go_to(0.5)
    rig.mocap[rig.name].visible = False
    rig.run(0.06)
    rig.cycle(periods=100)
    assert axis.mode is Mode.STOPPING


@pytest.mark.parametrize('closed', [False, True], ids=['open', 'closed'])
def test_a_controller_that_was_held_for_a_second_does_not_continue_its_motion(closed):
    """The report and the measurement that wait for it do not show that nothing was missed."""
    rig = Rig(settings_of('chaser_x'), noise=False)
    axis = rig.axis
    axis.track(closed)
    axis.referenced = True
    rig.run(0.5)
    axis.sine(0.1, 0.1)
    rig.run(1.0)
    rig.cycle(periods=50)
    assert axis.mode is Mode.SINE and not axis.warnings
    rig.cycle(periods=101)
    assert axis.mode is Mode.STOPPING and 'machine_lost' in axis.warnings
    assert not axis.tracking and not axis.referenced    # the machine counts anew
    rig.run(2.0)
    assert axis.mode is Mode.STOPPING and not axis.moving


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
    operator = Operator()
    axis = operator.axis
    axis.stream()

    def feed(feeding, cycles):
        operator.feeding = feeding
        for _ in range(cycles):
            operator.cycle()
    operator.target = 1.0
    feed(True, 100)
    assert axis.moving
    feed(False, 101)
    assert axis.mode is Mode.STOPPING and 'stream_lost' in axis.warnings
    feed(True, 300)
    assert axis.mode is Mode.STOPPING and not axis.moving


@pytest.mark.parametrize('action_name', ['thesis', 'integral', 'kalman'])
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


@settings(max_examples=20)
@given(st.lists(st.booleans(), max_size=60))
def test_no_correction_is_made_in_a_lock(visible):
    rig, axis = closed_loop()
    axis.lock()
    offset = axis.correction.offset
    for seen in visible:
        rig.plant.axes[rig.name].position += 1e-3
        rig.mocap[rig.name].visible = seen
        rig.cycle()
        assert axis.correction.offset == offset and not axis.moving
