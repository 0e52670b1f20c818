# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine without mocap, or with an attitude in doubt, does not move by it."""

from dataclasses import replace
import math
import random

from gantry_kit import settings_of
from optitrack_vrpn.core.doubt import Doubt
from optitrack_vrpn.guests.machine.axes_mapper import AxisMapper
from optitrack_vrpn.guests.machine.axes_settings import AxisRow, AxisTable
from optitrack_vrpn.guests.machine.axis import Axis
from optitrack_vrpn.guests.machine.correction import Measurement
from optitrack_vrpn.guests.machine.setpoints import Switches
from optitrack_vrpn.guests.machine.states import Mode
import pytest

DT = 0.01
MS = 1_000_000
#: Cycles without a signal after which the axis stops: short, so that a random run is short.
LOSS_CYCLES = 20


class Machine:
    """One axis, cycle by cycle; mocap follows it while it is in view."""

    def __init__(self, **correction):
        settings = settings_of('chaser_x').axes[0]
        self.axis = Axis(replace(
            settings, correction=replace(settings.correction, **correction)), DT, LOSS_CYCLES)
        self.cycle = 0
        self.visible = True

    def run(self, cycles, rest=10_000):
        """Run cycles, or until so many have passed at rest: nothing happens by itself then."""
        still = 0
        for _ in range(cycles):
            still = 0 if self.axis.moving else still + 1
            if still > rest:
                return
            self.cycle += 1
            now = self.cycle * DT
            self.axis.step(now, Measurement(
                self.axis.position, now) if self.visible else None, Switches())

    def lose(self):
        """Lose mocap in closed loop, and wait until the axis stands."""
        self.axis.track(True)
        self.run(20)
        self.visible = False
        self.run(400)


COMMANDS = {
    'go_to': lambda axis: axis.go_to(axis.state.position + 0.1),
    'jog': lambda axis: axis.jog(0.1), 'move': lambda axis: axis.move(0.05),
    'stream': Axis.stream, 'sine': lambda axis: axis.sine(0.05, 0.1)}


@pytest.mark.parametrize('name', COMMANDS)
def test_after_mocap_is_lost_no_command_moves_until_it_is_back(name):
    machine = Machine()
    machine.lose()
    axis, command = machine.axis, COMMANDS[name]
    assert 'mocap was lost' in command(axis)
    machine.run(50)
    assert axis.mode is Mode.STOPPING and not axis.moving
    assert 'mocap_lost' in axis.warnings, 'a command does not clear it'
    machine.visible = True
    machine.run(1)
    assert command(axis) == '' and 'mocap_lost' in axis.warnings, 'the loop is still open'


def test_the_user_may_say_otherwise():
    machine = Machine()
    machine.lose()
    assert machine.axis.track(False) == '' and machine.axis.go_to(0.1) == ''
    machine = Machine(require_mocap=False)
    machine.lose()
    assert machine.axis.go_to(0.1) == ''


def test_homing_and_motions_before_the_first_tracking_need_no_mocap():
    machine = Machine()
    machine.visible = False
    machine.run(300)
    assert machine.axis.go_to(0.1) == ''
    machine.lose()
    assert machine.axis.home() == ''


@pytest.mark.computes
@pytest.mark.parametrize('part', range(2))
def test_random_commands_move_nothing_while_mocap_is_lost(part):
    refused = moved = 0
    for seed in range(part * 400, part * 400 + 400):
        chance = random.Random(seed)
        machine = Machine()
        axis = machine.axis
        closed = lost = False
        for _ in range(chance.randrange(5, 25)):
            match chance.randrange(8):
                case 0 | 1:
                    machine.visible = not machine.visible
                case 2:
                    on = chance.random() < 0.7
                    if axis.track(on) == '':
                        closed, lost = on, False
                case 3:
                    axis.stop()
                case 4:
                    axis.lock() if chance.random() < 0.5 else axis.unlock()
                case _:
                    reason = chance.choice(list(COMMANDS.values()))(axis)
                    if lost and not machine.visible:
                        assert reason, 'no motion begins'
                        refused += 1
            machine.run(chance.choice([1, 20, 150, 400]), rest=LOSS_CYCLES + 10)
            if machine.visible:
                lost = False
            elif closed and not axis.tracking:
                closed, lost = False, 'mocap_lost' in axis.warnings
            if lost and not axis.moving:
                before = axis.state.position
                machine.run(30)
                assert axis.state.position == before and axis.mode in (Mode.STOPPING, Mode.LOCK)
            moved += axis.moving
    assert refused > 50 and moved > 500, (refused, moved)


# -- axes of a body whose attitude is in doubt ----------------------------------------------------

def mapper():
    return AxisMapper(AxisTable((
        AxisRow('x', 'a', 'x'), AxisRow('yaw', 'a', 'yaw', unit='deg'), AxisRow('y', 'b', 'x'))))


def pose(axes, body, at_ns):
    assert axes.pose(body, at_ns, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), at_ns, at_ns)


def test_axes_of_an_attitude_that_time_alone_accepted_are_invalid_until_it_is_certain():
    axes = mapper()
    now = 10**18
    for degrees, valid in ((0.0, True), (40.0, True), (90.0, False), (0.0, True)):
        now += 10 * MS
        axes.doubt('a', Doubt(round(degrees), degrees) if degrees else Doubt(90, 0.0))
        pose(axes, 'a', now)
        pose(axes, 'b', now)
        found = axes.sample(now).axes
        assert [each.valid for each in found] == [valid, valid, True], degrees
        if not valid:
            assert math.isnan(found[0].value) and 'by time alone' in found[0].reason
            assert 'accept_pose' in found[0].reason


@pytest.mark.parametrize('resets, valid', [(3, True), (4, False)])
def test_axes_that_began_in_doubt_go_on_when_the_user_accepts_the_attitude(resets, valid):
    axes, now = mapper(), 10**18
    for doubt, count in ((Doubt(1, 90.0), 3), (Doubt(1, 0.0), resets)):
        axes.doubt('a', doubt, count)
    pose(axes, 'a', now)
    assert axes.sample(now).axes[0].valid is valid


def test_random_doubt_gives_no_value_beyond_45_degrees():
    chance = random.Random(2)
    axes = mapper()
    now, times, doubt = 10**18, 0, Doubt()
    axes.doubt('a', doubt)
    invalid = 0
    for _ in range(5000):
        now += 10 * MS
        if chance.random() < 0.1:
            times += 1
            doubt = Doubt(times, chance.choice([0.0, 20.0, 44.0, 46.0, 90.0, 180.0]))
            axes.doubt('a', doubt)
        pose(axes, 'a', now)
        valid = axes.sample(now).axes[1].valid
        assert valid is (doubt.degrees <= 45.0)
        invalid += not valid
    assert 1000 < invalid < 4000
