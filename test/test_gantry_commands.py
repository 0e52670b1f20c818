# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""No value of a command ends the controller."""

import functools
import math
import random

from gantry_kit import ORION, Rig
from optitrack_vrpn.guests.machine.services_ros import COMMANDS, serve
from rcl_interfaces.msg import Parameter
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import get_parameter_value

EXTREME = (0.0, -0.0, 5e-324, 1e-308, 1e-200, 1e-9, 1e-4, 0.1, 1.0, 30.0, 1e9, 1e154, 1e308,
           math.inf, math.nan)


def test_random_and_extreme_values_are_accepted_or_refused_and_the_limits_hold():
    rng = random.Random(1)
    kinds = {'mode': lambda: rng.choice(('manual', 'reference', 'stopping', 'lock', 'x', 1.0)),
             **dict.fromkeys(('home', 'tracking', 'lock'), lambda: rng.random() < 0.5)}

    def number():
        value = rng.choice(EXTREME) if rng.random() < 0.7 else rng.uniform(-2.0, 2.0)
        return -value if rng.random() < 0.3 else value

    for _ in range(150):
        rig = Rig(ORION, noise=False)
        for _ in range(30):
            name = rng.choice(list(COMMANDS))
            value = kinds[name]() if name in kinds else [number(), number()] if name in (
                'sine', 'soft_limits') else number()
            rig.machine.command(rng.choice((*rig.machine.axes, 'all')), functools.partial(
                COMMANDS[name], value=value))
            for _ in range(rng.randrange(5)):
                rig.cycle()
            for axis in rig.machine.axes.values():
                assert all(map(math.isfinite, axis.state))
                assert abs(axis.state.velocity) <= axis.settings.limits.velocity + 1e-9


def test_a_sine_is_refused_where_the_largest_amplitude_is_the_least_number():
    axis = Rig(ORION, noise=False).machine.axes['chaser_pitch']
    axis.state = axis.state._replace(position=5e-324)
    assert axis.limit(low=0.0, high=1e-4) == ''
    assert 'Largest amplitude at 1 Hz: 0 deg' in axis.sine(1e-4, 1.0)


def test_a_bug_in_a_command_is_answered_and_stops_the_axes(monkeypatch):
    rig = Rig(ORION, noise=False)
    rig.cycle()
    name = next(iter(rig.machine.axes))
    rig.machine.command(name, lambda axis: axis.move(0.1))
    for _ in range(20):
        rig.cycle()
    monkeypatch.setitem(COMMANDS, 'jog', lambda axis, value: 1 / 0)
    request = SetParameters.Request(
        parameters=[Parameter(name=name, value=get_parameter_value('1.0'))])
    result, = serve(lambda: rig.machine, 'jog', request, SetParameters.Response()).results
    assert not result.successful and 'ZeroDivisionError' in result.reason
    for _ in range(400):
        rig.cycle()
    assert rig.machine.axes[name].state.velocity == 0.0
