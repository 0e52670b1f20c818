# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which stamped values bridge and controller use, and what they log of their axes."""

import math
import random

from gantry_kit import ORION
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.guests.machine.freshness import AHEAD_NS, Freshness, StampOrder
from optitrack_vrpn.guests.machine.machine import Machine
from optitrack_vrpn.guests.machine.view import AxisView, changes, table, view_of

MS = 1_000_000


def test_random_stamps_are_used_in_order_and_give_the_age():
    """Delays, repetitions, stamps of other clocks, and a host whose clock is set back."""
    used = dict.fromkeys(StampOrder, 0)
    for seed in range(300):
        chance = random.Random(seed)
        rule = Freshness(0.15)
        assert rule.age_s(0) == math.inf and rule.stale(0)
        now, host, newest = 10**9, 10**18, None
        for _ in range(60):
            step = chance.randrange(30) * MS
            now, host = now + step, host + step
            set_back = chance.random() < 0.03
            if set_back:
                host -= 3600 * 10**9
            stamp = host + chance.choice((0, -5, -100, -400, 40, 60, 9000)) * MS
            if newest is not None and chance.random() < 0.2:
                stamp = newest
            before = rule.age_s(now)
            arrival = rule.take(stamp, now, host)
            used[arrival] += 1
            assert arrival.used is (stamp - host <= AHEAD_NS and (
                newest is None or stamp >= newest or newest - host > AHEAD_NS))
            if arrival in (StampOrder.NEWER, StampOrder.SET_BACK):
                newest = stamp
                assert rule.age_s(now) == (host - stamp) * 1e-9
            else:
                assert rule.age_s(now) == before, 'a repeated or refused one changes no age'
            later = now + chance.randrange(400) * MS
            assert rule.stale(later) is (rule.age_s(later) > 0.15)
    assert min(used.values()) > 50, used


def view(name, fault=None, state='not valid'):
    return AxisView(name, WARN if fault else INFO, state if fault else 'valid',
                    frozenset((fault,) if fault else ()), fault or '', {})


def test_axes_that_change_in_the_same_way_are_one_line_and_only_new_faults_are_worse():
    first = [view('x', 'no_pose'), view('y', 'no_pose'), view('yaw')]
    assert [(each.names, each.worse) for each in changes((), first)] == [
        (['x', 'y'], False), (['yaw'], False)], 'the first state is no change for the worse'
    then = [view('x'), view('y', 'stale'), view('yaw', 'stale')]
    assert [(each.names, each.text, each.worse) for each in changes(first, then)] == [
        (['x'], 'valid', False), (['y', 'yaw'], 'not valid: stale', True)]
    assert changes(then, then) == []
    aged = [each._replace(warnings='measured 9.1 s ago') for each in then]
    assert changes(then, aged) == [], 'a figure in the text is no change'


def test_one_table_shows_axes_of_the_bridge_and_of_the_controller():
    control = Machine(ORION)
    views = [view_of(axis) for axis in control.axes.values()]
    views += [view('x', 'range')._replace(cells={'value': '1.5', 'unit': 'm', 'body': 'b'})]
    lines = table([(each.name, each.state, {**each.cells, 'warnings': each.warnings})
                   for each in views])
    assert len(lines) == 2 + len(views) and '1.5' in lines[-1] and 'range' in lines[-1]
    bridge = table([('x', 'valid', {'value': '1.5', 'unit': 'm', 'warnings': ''})])
    assert 'position' not in bridge[0], 'no column without a value'
