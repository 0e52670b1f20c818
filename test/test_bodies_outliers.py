# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Outliers, flips and jumps of a body are withheld until they last."""

import math

from body_kit import OVER, STEP, times, tracked
from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.bodies.validity import ValidityGate
import pytest

NAN = math.nan
AWAY = (0.0, 3.0, 0.0)


@pytest.mark.parametrize('offset', [(1.0, 0.0, 0.0), (0.0, -0.3, 0.0)])
def test_an_outlier_is_withheld_and_the_body_is_back_after_m(offset):
    feed = tracked()
    assert feed.elsewhere(1, offset) == [False]
    assert feed.body.reason is Disposition.MOVED_TOO_FAR
    assert feed.states() == [State.JUMPED]
    assert feed.good(4) == [False, False, True, True]
    assert feed.body.resets == 0


def test_a_jump_is_never_accepted_if_so_configured():
    assert not any(tracked(BodyConfig(jump_accept_s=0)).elsewhere(5000, AWAY))


def test_only_time_seen_counts_for_a_jump():
    feed = tracked(BodyConfig(jump_accept_s=0.5))
    feed.elsewhere(60, AWAY)
    feed.send((NAN, 0.0, 0.0))
    feed.skip(100)
    assert 35 < feed.elsewhere(60, AWAY).index(True) < 45


def test_a_body_that_spins_may_have_turned_far_unseen():
    def pose(t):
        return (math.sin(t), 0.0, 1.0), (0.0, 0.0, math.sin(4 * t), math.cos(4 * t))

    body = ValidityGate('spinning at 8 rad/s')
    for i in range(200):
        assert body.update(i * STEP, i * STEP, *pose(i * 0.005)) is not None or i < 2
    out = [body.update(i * STEP, i * STEP, *pose(i * 0.005)) for i in range(260, 265)]
    assert [quat is not None for quat in out] == [False, False, True, True, True]


def test_an_outlier_just_out_of_reach_is_not_followed():
    """The next true pose is within reach of outlier and last good pose; the latter is closer."""
    feed = tracked()
    p, _ = feed.pose(-1)
    assert feed.send((p[0] + 0.098, p[1], p[2])) is None
    assert feed.good(4) == [False, False, True, True]


def test_a_body_is_agile_only_while_it_was_lately_seen_to_be():
    feed = tracked()
    for i in range(252):    # two turns at 10 rad/s more than it turns anyway
        _, q = feed.pose()
        half = 2 * math.pi * i / 252
        feed.send(None, times(q, (0.0, 0.0, math.sin(half), math.cos(half))))
    feed.good(1000)
    assert feed.body.state is State.TRACKED
    feed.skip(60)
    assert not any(feed.elsewhere(20, turn=OVER))


def test_a_flip_that_was_accepted_makes_no_body_agile():
    feed = tracked()
    feed.elsewhere(21, turn=OVER)
    assert feed.body.accept_jump()
    feed.elsewhere(19, turn=OVER)
    assert feed.body.state is State.TRACKED
    feed.skip(60)
    assert not any(feed.good(20))


def test_max_turn_is_the_limit_within_a_frame_too():
    for angle, believed in ((1.395, True), (1.405, False)):
        feed = tracked(BodyConfig(max_angular_rate=1000.0))
        p, _ = feed.pose()
        _, q = feed.pose(-1)
        turned = times(q, (math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2)))
        assert (feed.send(p, turned) is not None) == believed
