# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The autopilot's own attitude and position, compared with the poses."""

import math

from conftest import memory_growth
from optitrack_vrpn.core.rotation import quat_from_angles
from optitrack_vrpn.guests.autopilot.exchanges import Agreement, judge_attitude, judge_position
from optitrack_vrpn.guests.autopilot.messages import VehicleState
import pytest
from vehicle_kit import MS, START

LEVEL, SENT = (0, 0, 0), (1.0, 2.0, -3.0)


@pytest.mark.parametrize(('own', 'sent', 'position', 'words'), [
    ((1, 2, 10), (0, 0, 14), (1.1, 2.1, -3.1), ''),
    ((0, 0, 90), LEVEL, SENT, "yaw differs by 90 degrees: the body's x axis in Motive does not"),
    ((0, 0, -175), (0, 0, 100), SENT, 'yaw differs by 90 degrees'),
    ((0, 0, 179), LEVEL, SENT, 'yaw differs by 180 degrees'),
    ((0, 0, 40), LEVEL, SENT, 'yaw differs by 40 degrees: the body was created'),
    ((0, 8, 0), LEVEL, SENT, 'was not level'),
    ((12, -9, 0), (-12, 9, 0), SENT, 'opposite sign'),
    ((12, 0, 0), (0, 12, 0), SENT, 'exchanged'),
    (LEVEL, LEVEL, (0.0, 0.0, 0.0), 'differs by 3.7 m'),
])
def test_verdicts_on_attitude_and_position(own, sent, position, words):
    made = Agreement()
    x, y, z, w = quat_from_angles(*map(math.radians, sent))
    for i in range(5):
        made.sent(VehicleState(START // 1000 + i * 20_000, SENT, (w, x, y, z),
                               *[(math.nan,) * 3] * 3, None, None))
        made.attitude(START + i * 20 * MS, tuple(map(math.radians, own)))
        made.position(START + i * 20 * MS, position)
    found = judge_attitude(made.attitudes) + judge_position(made.positions)
    assert bool(found) == bool(words)
    assert words in ' '.join(found)


@pytest.mark.parametrize(('apart_ms', 'compared'), [(35, True), (45, False), (500, False)])
def test_attitudes_of_another_time_are_not_compared(apart_ms, compared):
    """At 1 rad/s an attitude of 40 ms later differs by 2 degrees."""
    made = Agreement()
    made.sent(VehicleState(
        START // 1000, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0), *[(0.0,) * 3] * 3, None, None))
    made.sent(VehicleState(
        START // 1000 + 10**6, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0), *[(0.0,) * 3] * 3, None, None))
    made.attitude(START + apart_ms * MS, (0.0, 0.0, 1.0))
    assert bool(made.attitudes) is compared


def test_a_verdict_does_not_outlive_the_poses():
    made = Agreement()
    made.sent(VehicleState(
        START // 1000, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0), *[(0.0,) * 3] * 3, None, None))
    for ms in (0, 4000):
        made.attitude(START + ms * MS, (0.0, 0.0, 0.0))
        made.position(START + ms * MS, (0.0, 0.0, 0.0))
        assert made.attitudes and made.positions
    made.attitude(START + 6000 * MS, (0.0, 0.0, 0.0))
    assert not made.attitudes and not made.positions


def test_samples_for_comparison_are_bounded_after_the_clock_was_set_back():
    agreement = Agreement()

    def send(number):
        begin_s = 5000 if number < 500 else 0
        agreement.sent(VehicleState(
            begin_s * 1_000_000 + number * 20_000, (0.0,) * 3, (1.0, 0.0, 0.0, 0.0),
            *[(0.0,) * 3] * 3, None, None))
        agreement.attitude(begin_s * 10**9 + number * 20_000_000, (0.0, 0.0, 0.0))
    assert memory_growth(send, 1000) < 20_000


@pytest.mark.parametrize('age_ms', [0, 30, 80, 400])
def test_poses_of_any_age_are_compared_at_the_time_of_the_attitude(age_ms):
    """A vehicle turns by 1 rad/s; its attitude arrives at once, the poses at 50 Hz and late."""
    made = Agreement()
    for ms in range(0, 2000, 10):
        if ms % 20 == 0:
            x, y, z, w = quat_from_angles(0.0, 0.0, (ms - age_ms) * 1e-3)
            made.sent(VehicleState(
                (START + (ms - age_ms) * MS) // 1000, SENT, (w, x, y, z),
                *[(math.nan,) * 3] * 3, None, None))
        if ms % 100 == 50:
            made.attitude(START + ms * MS, (0.0, 0.0, ms * 1e-3))
            made.position(START + ms * MS, SENT)
    assert len(made.attitudes) >= 15 and len(made.positions) == len(made.attitudes)
    assert all(abs(own[2] - sent[2]) < 0.011 for own, sent in made.attitudes)
