# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Outliers, flips and jumps of a body are withheld until they last."""

import math

from body_kit import STEP, times, tracked
from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.bodies.validity import ValidityGate
import pytest

NAN = math.nan


@pytest.mark.parametrize('offset', [(1.0, 0.0, 0.0), (0.0, -0.3, 0.0)])
def test_an_outlier_is_withheld_and_the_body_is_back_after_m(offset):
    feed = tracked()
    p, _ = feed.pose()
    assert feed.send(tuple(a + b for a, b in zip(p, offset))) is None
    assert feed.body.reason is Disposition.MOVED_TOO_FAR
    assert feed.states() == [State.JUMPED]
    assert feed.good(4) == [False, False, True, True]
    assert feed.body.resets == 0


@pytest.mark.parametrize('degrees', [90, 120, 180])
@pytest.mark.parametrize('axis', [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_a_flip_never_goes_out_while_it_lasts(degrees, axis):
    feed = tracked()
    half = math.radians(degrees) / 2
    turn = tuple(math.sin(half) * v for v in axis) + (math.cos(half),)
    for _ in range(300):
        p, q = feed.pose()
        assert feed.send(p, times(q, turn)) is None
        assert feed.body.state is State.JUMPED
    assert feed.good(4) == [False, False, True, True]
    assert feed.body.resets == 0


def test_a_teleported_body_is_not_believed_because_time_passes():
    # After 0.2 s the 3 m would be within 15 m/s; but it was not seen to go there.
    feed = tracked()
    for _ in range(300):
        p, _ = feed.pose()
        assert feed.send((p[0], p[1] + 3.0, p[2])) is None


def test_a_jump_that_lasts_becomes_the_truth_and_counts_a_reset():
    feed = tracked(BodyConfig(jump_accept_s=0.5))
    out = []
    for _ in range(110):
        p, _ = feed.pose()
        out.append(feed.send((p[0], p[1] + 3.0, p[2])) is not None)
    assert out == [False] * 100 + [True] * 10
    assert feed.states() == [State.JUMPED, State.TRACKED]
    assert feed.body.resets == 1


def test_a_jump_is_never_accepted_if_so_configured():
    feed = tracked(BodyConfig(jump_accept_s=0))
    for _ in range(5000):
        p, _ = feed.pose()
        assert feed.send((p[0], p[1] + 3.0, p[2])) is None


def test_only_time_seen_counts_for_a_jump():
    feed = tracked(BodyConfig(jump_accept_s=0.5))
    for _ in range(60):
        p, _ = feed.pose()
        feed.send((p[0], p[1] + 3.0, p[2]))
    feed.send((NAN, 0.0, 0.0))
    feed.skip(100)
    out = []
    for _ in range(60):
        p, _ = feed.pose()
        out.append(feed.send((p[0], p[1] + 3.0, p[2])) is not None)
    assert 35 < out.index(True) < 45


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


def flipped_after(feed, silent):
    feed.skip(silent)
    out = []
    for _ in range(20):
        p, q = feed.pose()
        out.append(feed.send(p, times(q, (1.0, 0.0, 0.0, 0.0))) is not None)
    return out


def test_a_flip_while_unseen_is_noticed():
    feed = tracked()
    assert not any(flipped_after(feed, 60))


def test_a_body_is_agile_only_while_it_was_lately_seen_to_be():
    feed = tracked()
    for i in range(252):    # two turns at 10 rad/s more than it turns anyway
        _, q = feed.pose()
        half = 2 * math.pi * i / 252
        feed.send(None, times(q, (0.0, 0.0, math.sin(half), math.cos(half))))
    feed.good(1000)
    assert feed.body.state is State.TRACKED
    assert not any(flipped_after(feed, 60))


def test_a_flip_that_was_accepted_makes_no_body_agile():
    feed = tracked()
    for frame in range(40):
        p, q = feed.pose()
        feed.send(p, times(q, (1.0, 0.0, 0.0, 0.0)))
        if frame == 20:
            assert feed.body.accept_jump()
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
