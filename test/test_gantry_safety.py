# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Invariants of the step function and of the machine, under random commands and faults."""

import math
import random

from gantry_kit import Rig, settings_of
from optitrack_vrpn.guests.machine.correction import Measurement
from optitrack_vrpn.guests.machine.gantry_settings import (
    ACTIONS, AxisSettings, CorrectionSettings, MachineSettings)
from optitrack_vrpn.guests.machine.machine import Feedback, Machine
from optitrack_vrpn.guests.machine.setpoints import (
    AxisMotion, halt_position, Limits, step, Switches)
from optitrack_vrpn.guests.machine.states import Mode
from optitrack_vrpn.guests.machine.trajectory import make_trajectory, Sine
import pytest

STOPS = (Mode.STOPPING, Mode.LOCK)
EPSILON = 1e-7


def near(one, other):
    """Compare as ``pytest.approx`` does; a tenth of its time, of which a run has a million."""
    return abs(one - other) <= EPSILON


def log_uniform(rng, low, high):
    return low * (high / low) ** rng.random()


def stopping_distance(velocity, limits):
    """
    Return the greatest way of a stop (unit).

    An acceleration that increases the speed is removed at once; then the deceleration builds up
    and ends with limited jerk.
    """
    speed, most, jerk = abs(velocity), limits.acceleration, limits.jerk
    return 0.5 * speed * (speed / most + most / jerk) if speed >= most * most / jerk else (
        speed * math.sqrt(speed / jerk))


# -- the step function --------------------------------------------------------------------------

def test_no_proposal_makes_the_step_function_leave_the_limits():
    """10 000 cases of arbitrary proposals; each state must permit a stop within the limits."""
    rng = random.Random(1)
    for _ in range(10_000):
        dt = log_uniform(rng, 1e-3, 0.1)
        limits = Limits(log_uniform(rng, 1e-2, 100), log_uniform(rng, 1e-2, 1000), 1.0,
                        -rng.random(), rng.random())
        state = AxisMotion(rng.uniform(limits.low, limits.high))
        favoured = rng.choice((-1, 1))
        for _ in range(15):
            switches = Switches(rng.random() < 0.1, rng.random() < 0.1)
            velocity = state.velocity + favoured * limits.acceleration * dt * rng.uniform(-0.5, 1)
            wanted = rng.choice((
                AxisMotion(state.position + 0.5 * dt * (state.velocity + velocity), velocity),
                AxisMotion(rng.uniform(-2, 2), rng.uniform(-3, 3) * limits.velocity),
                AxisMotion(math.nan, velocity), AxisMotion(state.position, math.inf), None)[
                    :1 if rng.random() < 0.8 else 5])
            after, reason = step(state, wanted, limits, dt, switches)
            assert limits.low - EPSILON <= after.position <= limits.high + EPSILON
            end = halt_position(after, limits.acceleration)
            assert limits.low - EPSILON <= end <= limits.high + EPSILON
            assert abs(after.velocity) <= limits.velocity + EPSILON
            assert abs(after.velocity - state.velocity) <= (
                limits.acceleration * dt * (1 + 1e-5) + EPSILON)
            if reason:      # it brakes: never faster, and never backwards
                assert abs(after.velocity) <= abs(state.velocity)
                assert after.velocity * state.velocity >= 0.0
            if (switches.high and after.velocity > 0) or (switches.low and after.velocity < 0):
                assert reason and abs(after.velocity) < abs(state.velocity)
            state = after


# -- one axis of a machine ----------------------------------------------------------------------

class Watched:
    """
    A machine of one axis in which each cycle is checked.

    :ivar visible: whether mocap sees the body; likewise ``answers`` of the machine, ``power``.
    """

    def __init__(self, settings):
        self.machine = Machine(settings)
        self.axis, = self.machine.axes.values()
        self.visible = self.answers = self.power = True
        self.switches = Switches()
        self.now = 0.0
        self._stop = None
        self._mode = self.axis.mode
        self._unseen = 0
        self.expected = self.axis.position

    def track(self, on):
        """Switch the closed loop."""
        self._unseen = 0 if on and not self.axis.tracking else self._unseen
        self.axis.track(on)

    def cycle(self, periods=1):
        """Run one cycle and check it."""
        axis, dt = self.axis, self.machine.dt
        limits, before, mode = axis.limits, axis.state, axis.mode
        offset, motor = axis.correction.offset, axis.position
        assert near(motor, self.expected)    # continuous between cycles
        name = axis.settings.name
        measured = Measurement(motor, self.now) if self.visible else None
        feedback = Feedback(self.power, {name: self.switches}) if self.answers else None
        cubic = self.machine.step(self.now, {name: measured}, feedback, periods)[name]
        self.now += periods * dt
        after = axis.state
        self.expected = cubic.at(dt)
        assert cubic.start == motor
        assert near(self.expected, axis.position)
        changed = axis.correction.offset - offset
        assert abs(changed) <= axis.settings.correction.max_step + EPSILON
        halted = axis.mode is Mode.EMERGENCY or periods * dt >= 1.0
        if halted:
            assert after.velocity == 0.0 and near(axis.position - changed, motor)
        else:
            assert abs(after.velocity - before.velocity) <= (
                limits.acceleration * dt * (1 + 1e-5) + EPSILON)
        assert abs(after.velocity) <= max(limits.velocity, abs(before.velocity)) + EPSILON
        if Mode.REFERENCE not in (mode, axis.mode):
            halt = halt_position(before, limits.acceleration)
            assert min(limits.low, halt, before.position) - EPSILON <= after.position
            assert after.position <= max(limits.high, halt, before.position) + EPSILON
        outward = (axis.switches.high and after.velocity > 0.0) or (
            axis.switches.low and after.velocity < 0.0)
        assert not outward or abs(after.velocity) < abs(before.velocity)
        if not self.power and self.answers:
            assert axis.mode is Mode.EMERGENCY
        # a stop is never faster than when it began, and no longer than its distance
        if axis.mode not in STOPS:
            self._stop = None
        elif self._stop is None or self._stop[2] != limits:
            self._stop = [motor, before.velocity, limits]
        if self._stop is not None:
            self._stop[0] += changed
            begin, speed, _ = self._stop
            most = stopping_distance(speed, limits)
            way = (axis.position - begin) * math.copysign(1.0, speed)
            assert abs(after.velocity) <= abs(before.velocity) + EPSILON
            assert after.velocity * speed >= -EPSILON
            assert -EPSILON <= way * (1 if speed else 0) <= most + EPSILON
        # only commands begin a motion; a lost signal ends one
        if mode in (*STOPS, Mode.EMERGENCY):
            assert axis.mode in (mode, Mode.EMERGENCY)
        self._unseen = 0 if self.visible else self._unseen + periods
        assert not axis.tracking or self._unseen < self.machine.settings.loss_cycles

    def rest(self, most=2000):
        """Run until the axis is at rest, for at most so many cycles."""
        for _ in range(most):
            self.cycle()
            if not self.axis.moving:
                return
        raise AssertionError(f'still moving: {self.axis.mode} {self.axis.state}')


def random_settings(rng):
    """Make a machine of one axis in which a stop takes some 10 cycles."""
    dt = rng.choice((0.01, 0.02, 0.05))
    velocity = log_uniform(rng, 0.02, 50.0)
    acceleration = velocity / (dt * rng.uniform(2, 15))
    jerk = acceleration / (dt * rng.uniform(0.5, 8))
    room = velocity * dt * rng.uniform(5, 60)
    limited = rng.random() < 0.8
    return MachineSettings(axes=(AxisSettings(
        'x', 1000.0, low=-room if limited else None, high=room if limited else None,
        max_velocity=velocity, max_acceleration=acceleration, max_jerk=jerk,
        reference_velocity=-0.3 * velocity, correction=CorrectionSettings(
            dead_band=1e-3 * room, max_step=1e-3 * velocity * dt, limit=room,
            action=rng.choice(ACTIONS))),),
        rate_hz=1.0 / dt, loss_cycles=20)


def random_path(rng, axis, dt):
    """Make a path within the limits of the axis, or at them."""
    limits, origin = axis.limits, axis.state.position
    room = min(origin - limits.low, limits.high - origin)
    scale = rng.choice((1.0, rng.random()))
    if rng.random() < 0.6:
        frequency = rng.uniform(0.01, 0.1) / dt
        rate = 2.0 * math.pi * frequency
        return Sine(rng.choice((-1, 1)) * scale * min(
            limits.velocity / rate, limits.acceleration / rate ** 2, room), frequency)
    times = [0.0]
    for _ in range(rng.randint(1, 5)):
        times.append(times[-1] + dt * rng.uniform(0.5, 15))
    shape = make_trajectory(times, [0.0, *(rng.uniform(-1, 1) for _ in times[1:])])
    if rng.random() < 0.5:
        shape = make_trajectory(times, shape.positions, [
            0.0, *(rng.uniform(-1, 1) for _ in times[2:]), 0.0])
    found = shape.bounds
    size = scale * 0.999999 * min(
        limits.velocity / found.velocity, limits.acceleration / found.acceleration,
        room / max(found.high, -found.low))
    closed = rng.random() < 0.3
    return make_trajectory(
        times, [p * size for p in shape.positions], [v * size for v in shape.velocities],
        loop=closed and shape.positions[-1] == 0.0)


def narrower(rng, it):
    limits = it.axis.limits
    return rng.choice((
        {'velocity': limits.velocity * rng.uniform(0.3, 1.5)},
        {'acceleration': limits.acceleration * rng.uniform(0.3, 1.5)},
        {'low': it.axis.state.position - rng.random() * stopping_distance(
            limits.velocity, limits)},
        {'high': it.axis.state.position + rng.random() * stopping_distance(
            limits.velocity, limits)}))


def target(rng, it):
    limits = it.axis.limits
    reach = 30 * limits.velocity * it.machine.dt
    return max(min(it.axis.state.position + rng.uniform(-reach, reach),
                   limits.high), limits.low)


#: What users, networks and machines do to an axis.
EVENTS = {
    'stop': lambda it, rng: it.axis.stop(),
    'lock': lambda it, rng: it.axis.lock(),
    'unlock': lambda it, rng: it.axis.unlock(),
    'go_to': lambda it, rng: it.axis.go_to(target(rng, it)),
    'jog': lambda it, rng: it.axis.jog(1.5 * (target(rng, it) - it.axis.state.position)),
    'move': lambda it, rng: it.axis.move(rng.uniform(-1, 1) * it.axis.limits.velocity),
    'stream': lambda it, rng: it.axis.stream(),
    'target': lambda it, rng: it.axis.stream_target(target(rng, it)),
    'path': lambda it, rng: it.axis.follow(random_path(rng, it.axis, it.machine.dt)),
    'home': lambda it, rng: it.axis.home(),
    'limit': lambda it, rng: it.axis.limit(**narrower(rng, it)),
    'track': lambda it, rng: it.track(rng.random() < 0.7),
    'switch': lambda it, rng: setattr(
        it, 'switches', Switches(*(rng.random() < 0.3 for _ in range(3)))),
    'mocap': lambda it, rng: setattr(it, 'visible', rng.random() < 0.3),
    'link': lambda it, rng: setattr(it, 'answers', rng.random() < 0.5),
    'power': lambda it, rng: setattr(it, 'power', rng.random() < 0.5),
    'emergency': lambda it, rng: it.machine.emergency_stop(),
    'reset': lambda it, rng: it.machine.reset(),
    'held': lambda it, rng: it.cycle(math.ceil(rng.uniform(1.0, 3.0) / it.machine.dt)),
    'late': lambda it, rng: it.cycle(rng.randint(2, 15)),
}
#: Those that must bring a path to an end.
ENDINGS = ('stop', 'lock', 'go_to', 'move', 'stream', 'switch', 'mocap', 'link', 'emergency',
           'power', 'held')


@pytest.mark.computes
def test_every_path_is_followed_and_every_ending_of_it_keeps_the_invariants():
    """10 000 accepted sines and trajectories, at a random phase of each a random event."""
    rng = random.Random(2)
    for case in range(10_000):
        it = Watched(random_settings(rng))
        axis, dt = it.axis, it.machine.dt
        if rng.random() < 0.5:
            room = min(axis.limits.high, 100.0)
            axis.state = AxisMotion(rng.uniform(-room, room))
            it.expected = axis.position
        path = random_path(rng, axis, dt)
        ending = rng.choice(ENDINGS)
        axis.track(ending == 'mocap' or rng.random() < 0.2)
        assert axis.follow(path) == '', case
        mode = axis.mode
        length = 1.0 / path.frequency if isinstance(path, Sine) else path.times[-1]
        for _ in range(round(rng.uniform(0.05, 2.0 if rng.random() < 0.2 else 0.99)
                             * length / dt)):
            it.cycle()
            if path.duration > it.now:
                assert axis.mode is mode and not axis.warnings, (case, axis.warnings)
        EVENTS[ending](it, rng)
        if ending == 'switch':
            it.switches = Switches(True, True)
        it.visible &= ending != 'mocap'
        it.answers &= ending != 'link'
        it.power &= ending != 'power'
        for _ in range(22 if ending in ('mocap', 'link') else 2):
            it.cycle()
        if ending == 'move':
            axis.stop()
        it.rest()
        assert axis.mode is not mode, (case, ending)
        state = axis.state
        if axis.mode in (*STOPS, Mode.EMERGENCY):       # nothing starts it again
            it.visible = it.answers = it.power = True
            it.switches = Switches()
            it.cycle()
            assert axis.state == state


@pytest.mark.computes
def test_no_sequence_of_commands_and_faults_breaks_an_invariant():
    """1500 sequences of 12 random events."""
    rng = random.Random(3)
    names = sorted(EVENTS)
    seen = set()
    for _ in range(1500):
        it = Watched(random_settings(rng))
        for _ in range(12):
            mode = it.axis.mode
            name = rng.choice(names)
            EVENTS[name](it, rng)
            if mode is Mode.EMERGENCY and name != 'reset':
                assert it.axis.mode is Mode.EMERGENCY
            seen.add((mode, name))
            for _ in range(rng.randint(1, 12)):
                it.cycle()
            if rng.random() < 0.3:      # most faults pass
                it.visible = it.answers = it.power = True
                it.switches = Switches()
        it.visible = it.answers = it.power = True
        it.axis.stop()
        it.rest()
    assert len(seen) > 0.95 * len(Mode) * len(names)


@pytest.mark.parametrize('velocity', [1e-4, 0.01, 0.05, 0.25])
def test_the_way_of_a_stop_from_constant_velocity_is_the_stopping_distance(velocity):
    limits = settings_of('chaser_x').axes[0].limits
    it = Watched(settings_of('chaser_x'))
    assert it.axis.move(velocity) == ''
    for _ in range(200):
        it.cycle()
    begin = it.axis.state
    it.axis.stop()
    it.rest()
    assert begin.velocity == pytest.approx(velocity)
    assert it.axis.state.position - begin.position == pytest.approx(
        stopping_distance(velocity, limits), rel=1e-3, abs=1e-9)


# -- what a path needs --------------------------------------------------------------------------

@pytest.mark.parametrize('name, amplitude, frequency, accepted', [
    # those of the thesis
    ('chaser_y', 0.5, 0.05, True), ('chaser_x', 0.3, 0.05, True), ('chaser_yaw', 30.0, 0.1, True),
    ('chaser_pitch', 12.0, 0.32, True),
    # those that ran away after a stop
    ('chaser_y', 0.05, 1.0, False), ('chaser_pitch', 1.94, 3.0, False),
    ('chaser_pitch', 8.0, 0.7, False),
    # its acceleration alone
    ('chaser_pitch', 5.0, 0.7, False), ('chaser_y', 0.05, 0.4, False),
    # its position, its frequency
    ('chaser_x', 0.6, 0.01, False), ('chaser_x', 1e-6, 11.0, False)])
def test_a_sine_is_accepted_if_the_axis_can_follow_it_or_the_refusal_names_one(
        name, amplitude, frequency, accepted):
    rig = Rig(settings_of(name), noise=False)
    reason = rig.axis.sine(amplitude, frequency)
    assert (reason == '') is accepted
    if not accepted:
        for words in ('Largest amplitude at', 'Highest frequency at'):
            if words in reason:
                number = float(reason.split(words)[1].split(': ')[1].split()[0])
                given = (number, frequency) if 'amp' in words else (amplitude, number)
                assert rig.axis.sine(*given) == ''
                rig.axis.stop()
        assert 'Largest' in reason or 'Highest' in reason or frequency > 10


@pytest.mark.parametrize('times, positions, words', [
    ([0.0, 0.5], [0.0, 0.3], 'Stretch'), ([0.0, 60.0], [0.0, 3.5], 'Largest scale'),
    ([0.0, 2.0], [0.0, 0.3], '0.45 m/s^2')])
def test_a_trajectory_beyond_the_limits_is_refused_with_a_scale_that_is_accepted(
        times, positions, words):
    axis = Watched(settings_of('chaser_x')).axis
    reason = axis.follow(make_trajectory(times, positions))
    assert words in reason
    scale = float(reason.split('positions: ')[1])
    assert axis.follow(make_trajectory(times, [scale * p for p in positions])) == ''
    axis.stop()
    if 'Stretch' in reason:
        stretch = 1.001 * float(reason.split(' by ')[1].split()[0])
        assert axis.follow(make_trajectory([stretch * t for t in times], positions)) == ''


def test_the_bounds_of_a_trajectory_are_those_of_its_states():
    rng = random.Random(4)
    for _ in range(100):
        times, count = [0.0], rng.randint(2, 6)
        for _ in range(count - 1):
            times.append(times[-1] + rng.uniform(0.01, 1.0))
        velocities = [0.0, *(rng.uniform(-2, 2) for _ in times[2:]), 0.0]
        path = make_trajectory(
            times, [rng.uniform(-2, 2) for _ in times], rng.choice((None, velocities)))
        found = path.bounds
        # A short piece has the largest acceleration at its ends.
        at = sorted({begin + (end - begin) * k / 500 for begin, end in zip(times, times[1:])
                     for k in range(500)})
        states = [path.at(t) for t in at]
        for values, most in (
                ([abs(s.velocity) for s in states], found.velocity),
                ([abs(b.velocity - a.velocity) / (t - s) for a, b, s, t in zip(
                    states, states[1:], at, at[1:])], found.acceleration),
                ([s.position for s in states], found.high),
                ([-s.position for s in states], -found.low)):
            assert max(values) <= most + 1e-9
            assert max(values) == pytest.approx(most, rel=0.15, abs=0.02)


# -- changing limits, moving at a velocity ------------------------------------------------------

@pytest.mark.parametrize('change, words', [
    ({'velocity': 0.3}, '0.25'), ({'velocity': 0.0}, 'velocity must'),
    ({'velocity': math.nan}, 'velocity must'), ({'acceleration': 0.3}, 'up to 0.25'),
    ({'low': -0.6}, 'within -0.5'), ({'low': 1.0, 'high': 0.5}, 'must rise'),
    ({'low': 0.1}, 'outside 0.1 to 3')])
def test_limits_change_only_within_those_of_the_machine(change, words):
    axis = Watched(settings_of('chaser_x')).axis
    assert words in axis.limit(**change)
    assert axis.limits == axis.settings.limits


def test_limits_change_while_the_axis_moves_if_it_can_keep_them():
    it = Watched(settings_of('chaser_x'))
    assert it.axis.go_to(2.0) == ''
    for _ in range(200):
        it.cycle()
    assert 'stop at' in it.axis.limit(high=it.axis.state.position + 0.1)
    assert it.axis.limit(velocity=0.1, high=1.0) == ''
    for _ in range(100):
        it.cycle()
    assert it.axis.mode is Mode.STOPPING and it.axis.warnings == {'soft_limit'}
    assert it.axis.go_to(1.0) == ''
    for _ in range(1000):
        it.cycle()
        assert abs(it.axis.state.velocity) <= 0.1 + EPSILON
    assert it.axis.state == AxisMotion(1.0)
    assert it.axis.sine(0.1, 0.2) != '' and it.axis.go_to(1.5) != ''


def test_an_axis_moves_at_a_velocity_until_the_soft_limit_and_stops_there():
    it = Watched(settings_of('chaser_y'))
    assert 'too fast' in it.axis.move(0.3)
    assert it.axis.move(-0.2) == '' and it.axis.mode is Mode.VELOCITY
    for _ in range(200):
        it.cycle()
    assert it.axis.state.velocity == -0.2
    for _ in range(400):
        it.cycle()
    assert it.axis.mode is Mode.STOPPING and it.axis.warnings == {'soft_limit'}
    assert it.axis.state.position == pytest.approx(-1.0, abs=0.01)
    assert it.axis.move(0.1) == ''
    it.cycle()
    assert it.axis.mode is Mode.VELOCITY
