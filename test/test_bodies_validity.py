# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses of a body are published only while they are plausible."""

import math

from body_kit import Feed, MS, OVER, STEP, times, tracked
from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.rotation import angle_between
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import BY_GATE, Disposition, State
from optitrack_vrpn.stream.bodies.times import Epoch, SETTLE_FRAMES
from optitrack_vrpn.stream.bodies.tracker import Tracker
import pytest

NAN = math.nan
S = 1000 * MS


@pytest.mark.parametrize('m', [1, 2, 3, 7])
def test_first_poses_are_withheld_until_m_agree(m):
    feed = Feed(BodyConfig(acquire_frames=m))
    assert feed.good(m + 3) == [False] * (m - 1) + [True] * 4
    assert feed.states() == [State.TRACKED]
    assert feed.body.resets == 0


def test_silence_makes_stale_by_the_bodys_own_rate():
    feed = tracked(BodyConfig(stale_min_s=0.0, stale_frames=10))
    last = feed.body.status(0)
    assert last.rate_hz == pytest.approx(200.0, rel=1e-3)
    now = (feed.frame - 1) * STEP + MS
    feed.body.tick(now + 10 * STEP - 2)
    assert feed.body.state is State.TRACKED
    feed.body.tick(now + 10 * STEP + 2)
    assert feed.body.state is State.STALE
    assert feed.body.status(now + 10 * STEP + 2).age_s == pytest.approx(0.05)
    # Poses that had arrived before the tick are those of a STALE body.
    assert feed.good(4) == [False, False, True, True]


def test_silence_may_be_given_in_seconds_or_switched_off():
    feed = tracked(BodyConfig(stale_after_s=0.5))
    feed.skip(95)
    assert feed.body.state is State.TRACKED
    feed.skip(10)
    assert feed.body.state is State.STALE
    # Less than an interval would make each frame the first one after a silence.
    feed = tracked(BodyConfig(stale_after_s=0.001))
    assert all(feed.good(10))
    feed.skip(2)
    assert feed.body.state is State.STALE
    feed = tracked(BodyConfig(stale_frames=0))
    feed.skip(100_000)
    assert feed.body.state is State.TRACKED


@pytest.mark.parametrize('delayed', [False, True])
def test_stale_is_noticed_without_a_tick(delayed):
    """Whether the sender or the network was silent."""
    feed = tracked()
    if delayed:
        t = feed.frame * STEP
        assert feed.update(t, t + S, *feed.pose()) is None
        feed.frame += 1
        assert [feed.update(t + i * STEP, t + S + i * STEP, *feed.pose(i - 1)) is not None
                for i in (1, 2, 3)] == [False, True, True]
    else:
        feed.skip(60, tick=False)
        assert feed.good(4) == [False, False, True, True]
    stale, again = feed.body.take_changes()
    assert (stale.after, again.after) == (State.STALE, State.TRACKED)
    assert stale.time_ns == 39 * STEP + MS + 100 * MS
    assert feed.body.resets == feed.body.status(0).gaps == 0


@pytest.mark.parametrize('tick', [True, False])
def test_frames_that_the_network_held_back_are_no_loss_of_tracking(tick):
    feed = tracked()
    assert all(feed.hold(150, tick=tick))
    assert feed.states() == tick * [State.STALE, State.TRACKED]
    # A frame is missing, the body was no longer valid, or the hold was too long to compare.
    feed.skip(25)
    assert feed.good(3) == [False, False, True]
    feed.send((0.0, 0.0, 0.0))
    assert feed.hold(150)[:3] == [False, False, True]
    assert feed.hold(1100)[:3] == [False, False, True]
    # The body may have moved while the network held the frames back.
    feed.body.tick(feed.frame * STEP + 150 * MS)
    t = feed.frame * STEP
    assert feed.update(t, t + 150 * MS, (9.0, 9.0, 9.0), (0.0, 0.0, 0.0, 1.0)) is None
    assert feed.body.state is State.JUMPED


@pytest.mark.parametrize('seen', [0, 1])    # frames after 0.5 s, too few to be acquired
def test_a_long_absence_counts_a_reset(seen):
    feed = tracked()
    feed.skip(100)
    feed.good(seen)
    feed.skip(200)
    assert feed.good(4) == [False, False, True, True]
    assert feed.body.resets == 1


def test_one_frame_a_second_is_slow_and_not_stale():
    body = Tracker('slow')
    out = []
    for i in range(20):
        body.tick(i * 1000 * MS - 1)
        out.append(body.update(i * 1000 * MS, i * 1000 * MS, (0.1 * i, 0.0, 1.0),
                               (0.0, 0.0, 0.0, 1.0)))
    assert [quat is not None for quat in out] == [False] * 2 + [True] * 18
    assert body.resets == 0


def test_a_repeated_pose_never_goes_out_twice_and_ends_frozen():
    feed = tracked()
    pose = feed.pose(-1)
    assert not any(feed.send(*pose) for _ in range(39))
    assert feed.body.state is State.TRACKED
    feed.send(*pose)
    assert feed.body.state is State.FROZEN
    assert feed.withheld['repeat'] == 40
    assert feed.good(4) == [False, False, True, True]


def test_a_repeated_pose_whose_sign_is_turned_is_repeated_all_the_same():
    feed = tracked()
    p, q = feed.pose()
    q = times(times(q, (math.sin(0.05), 0.0, 0.0, math.cos(0.05))),
              (0.0, math.sin(0.05), 0.0, math.cos(0.05)))
    assert feed.send(p, q) is not None
    assert not any(feed.send(p, tuple(sign * v for v in q)) for sign in 50 * (-1, 1))
    assert feed.body.state is State.FROZEN


def test_the_motion_of_a_body_whose_poses_are_sent_twice_is_measured():
    feed = Feed()
    for _ in range(100):
        feed.send()
        feed.send(*feed.pose(-1))
    now = feed.frame * STEP
    assert feed.body.hypotheses.expected(now + 50 * MS)[0] == pytest.approx(
        feed.pose(-2)[0][0] + 0.06, abs=1e-6)


@pytest.mark.parametrize('other', [((9.0, 0.5, 1.0), (0.0, 0.0, 0.0, 1.0)),
                                   ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
                                   ((NAN, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))])
@pytest.mark.parametrize('m', [1, 3])
def test_a_repeat_is_one_whatever_comes_in_between(other, m):
    feed = tracked(BodyConfig(acquire_frames=m))
    last = feed.pose(-1)
    assert not any(feed.send(*pose) for pose in 100 * (last, other))


def test_after_more_than_a_second_of_repeats_a_body_is_acquired_again():
    feed = tracked(BodyConfig(frozen_after_s=5.0))
    pose = feed.pose(-1)
    assert not any(feed.send(*pose) for _ in range(300))
    assert feed.states() == []
    assert feed.good(4) == [False, False, True, True]
    assert feed.states() == [State.STALE, State.TRACKED] and feed.body.resets == 1


def test_without_the_frozen_check_a_body_may_stand_still():
    feed = tracked(BodyConfig(frozen_after_s=0))
    pose = feed.pose(-1)
    assert all(feed.send(*pose) for _ in range(200))
    assert feed.body.state is State.TRACKED


@pytest.mark.parametrize('start', [0.0, -0.2])    # the body is 0.54 m from the origin, or at it
@pytest.mark.parametrize('quat', [(0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0),
                                  (-0.0, 0.0, -0.0, -1.0)])
def test_zeros_are_no_pose(quat, start):
    feed = tracked(start=start, origin=start != 0.0)
    assert feed.send((0.0, -0.0, 0.0), quat) is None
    assert feed.body.reason is Disposition.ZEROED
    assert feed.states() == [State.ZEROED]
    assert feed.good(4) == [False, False, True, True]


def test_a_body_at_the_origin_may_be_allowed():
    config = BodyConfig(detect_zeroed=False, frozen_after_s=0)
    body = Tracker('origin', config)
    out = [body.update(i * STEP, i * STEP, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))
           for i in range(5)]
    assert out[2:] == [(0.0, 0.0, 0.0, 1.0)] * 3


@pytest.mark.parametrize('where, value', [
    *((where, value) for where in range(7) for value in (NAN, math.inf, -math.inf)),
    (0, 1e308), (2, -1e10)])
@pytest.mark.parametrize('config', [
    BodyConfig(), BodyConfig(max_speed=0, max_angular_rate=0, max_turn=0, norm_tolerance=0)])
def test_what_is_not_finite_never_goes_out(where, value, config):
    feed = tracked(config)
    numbers = [*feed.pose()[0], *feed.pose()[1]]
    numbers[where] = value
    assert feed.send(tuple(numbers[:3]), tuple(numbers[3:])) is None
    assert feed.states() == [State.INVALID]
    assert feed.withheld['not_finite'] == 1
    assert feed.good(4) == [False, False, True, True]


def test_a_norm_is_restored_within_tolerance_and_refused_beyond():
    feed = tracked()
    p, q = feed.pose()
    out = feed.send(p, tuple(1.009 * v for v in q))
    assert math.hypot(*out) == pytest.approx(1.0, abs=1e-15)
    assert out == pytest.approx(q, abs=1e-12)
    p, q = feed.pose()
    assert feed.send(p, tuple(0.989 * v for v in q)) is None
    assert feed.states() == [State.INVALID]
    assert feed.body.reason is Disposition.NORM


@given(st.lists(st.booleans(), min_size=5, max_size=60))
def test_the_sign_is_continuous_whatever_sign_is_sent(flips):
    feed = Feed(BodyConfig(acquire_frames=1))
    last = None
    for flip in flips:
        p, q = feed.pose()
        out = feed.send(p, tuple(-v for v in q) if flip else q)
        assert angle_between(out, q) < 1e-12
        if last is not None:
            assert sum(a * b for a, b in zip(last, out)) > 0
        last = out


def test_duplicates_and_late_frames_are_counted_and_disturb_nothing():
    feed = tracked()
    body = feed.body
    t = (feed.frame - 1) * STEP
    p, q = feed.pose(-1)
    assert feed.update(t, t + MS, p, q) is None
    assert body.reason is Disposition.DUPLICATE
    assert feed.update(t - STEP, t + MS, *feed.pose(-2)) is None
    assert body.reason is Disposition.OUT_OF_ORDER
    assert all(feed.good(5))
    assert feed.states() == []
    assert feed.withheld == {'acquiring': 2, 'duplicate': 1, 'out_of_order': 1}


@pytest.mark.parametrize('missing', [1, 3])
def test_gaps_are_counted_and_the_pose_after_one_goes_out(missing):
    feed = tracked()
    feed.skip(missing)
    assert all(feed.good(2 * SETTLE_FRAMES))
    status = feed.body.status(0)
    assert (status.gaps, status.lost, status.state) == (1, missing, State.TRACKED)
    assert status.rate_hz == pytest.approx(200.0, rel=1e-3)


def test_a_gap_right_after_the_first_frame_is_no_rate():
    feed = Feed()
    feed.send()
    feed.skip(60)
    feed.good(10)
    assert feed.body.rate_hz == pytest.approx(200.0, rel=1e-3)


def test_a_sender_that_slows_down_has_a_new_rate():
    feed = tracked()
    for _ in range(30):
        feed.skip(3)
        feed.send()
    assert feed.body.rate_hz == pytest.approx(50.0)
    assert feed.body.status(0).gaps < 12


def test_after_a_restart_of_the_senders_clock_a_body_is_new_and_counts_a_reset():
    feed = tracked()
    feed.body.restart(Epoch(-10**12, feed.frame * STEP))
    for i in range(5):
        t = feed.frame + i
        assert (feed.update(i * STEP - 10**12, t * STEP, *feed.pose(i)) is not None) == (i >= 2)
    assert feed.states() == [State.NEW, State.TRACKED]
    assert feed.body.resets == 1
    assert feed.body.rate_hz == pytest.approx(200, rel=0.05)


def test_a_body_that_returns_long_after_a_restart_counts_one_reset():
    feed = tracked()
    feed.body.restart(Epoch(-10**12, feed.frame * STEP))
    feed.skip(300)
    for i in range(4):
        t = feed.frame * STEP + i * STEP
        assert (feed.update(t - 10**12, t, *feed.pose(i)) is not None) == (i >= 2)
    assert feed.body.resets == 1


@pytest.mark.parametrize('shift, turn', [
    ((0.0, 0.0, 0.0), OVER), ((3.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0))])
@pytest.mark.parametrize('later', [-10**12, 10**12])
@pytest.mark.parametrize('unseen', ['', 'silent', 'zeroed'])
def test_a_step_of_the_senders_clock_ends_no_jump(shift, turn, later, unseen):
    feed = tracked()
    feed.elsewhere(10, shift, turn)
    if unseen == 'silent':
        feed.skip(40)
    elif unseen == 'zeroed':
        feed.send((0.0, 0.0, 0.0))

    feed.body.restart(Epoch(feed.frame * STEP + later, feed.frame * STEP))

    def send(count, shift, turn):
        out = []
        for _ in range(count):
            (x, y, z), q = feed.pose()
            t = feed.frame * STEP
            feed.frame += 1
            moved = x + shift[0], y + shift[1], z + shift[2]
            out.append(feed.update(t + later, t, moved, times(q, turn)) is not None)
        return out

    assert not any(send(50, shift, turn))
    assert feed.body.state is State.JUMPED
    assert send(4, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)) == [False, False, True, True]


@pytest.mark.parametrize('m', [1, 3])
@pytest.mark.parametrize('later', [-10**12, 10**12])
@pytest.mark.parametrize('between', [None, ((9.0, 0.5, 1.0), (0.0, 0.0, 0.0, 1.0))])
def test_a_body_frozen_over_a_restart_of_the_clock_is_not_published(m, later, between):
    """The server was restarted, and repeats the last pose of a body that it does not see."""
    feed = tracked(BodyConfig(acquire_frames=m))
    last = feed.pose(-1)
    if between is not None:    # the last valid pose is then not the last pose
        assert feed.send(*between) is None
    feed.body.restart(Epoch(later, feed.frame * STEP))
    for i in range(100):
        assert feed.update(i * STEP + later, (feed.frame + i) * STEP, *last) is None
    assert feed.body.state is State.FROZEN
    feed.start += 0.5
    assert [feed.update(later + i * STEP, (feed.frame + i) * STEP, *feed.pose(i)) is not None
            for i in range(100, 104)] == [i > m - 2 for i in range(4)]


def test_each_check_can_be_switched_off():
    feed = tracked(BodyConfig(max_speed=0))
    assert feed.send((50.0, 0.0, 0.0)) is not None
    feed = tracked(BodyConfig(max_angular_rate=0, max_turn=0))
    assert all(feed.elsewhere(10, turn=OVER))
    feed = tracked(BodyConfig(norm_tolerance=0))
    p, q = feed.pose()
    assert math.hypot(*feed.send(p, tuple(2 * v for v in q))) == pytest.approx(1.0)


numbers = st.floats(-3, 3) | st.sampled_from([0.0, 1.0, NAN, math.inf, 1e308])


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(-3, 300), st.integers(0, 300), st.tuples(*[numbers] * 7))))
def test_whatever_comes_only_finite_unit_attitudes_in_order_go_out(frames):
    body = Tracker('fuzzed')
    sender = receive = withheld = 0
    last = None
    for dt, delay, pose in frames:
        sender += dt * MS
        receive += delay * MS
        quat = body.update(sender, receive, pose[:3], pose[3:])
        body.tick(receive)
        if quat is None:
            withheld += 1
            assert body.reason in BY_GATE
            continue
        assert body.state is State.TRACKED
        assert abs(math.hypot(*quat) - 1.0) < 1e-11
        assert math.isfinite(sum(pose[:3]))
        if last is not None:
            assert sender > last[0]
            assert pose != last[1]
        last = sender, pose
    status = body.status(receive)
    assert status.good + withheld == len(frames)


@settings(max_examples=examples(200))
@given(st.floats(0, 6.28), st.floats(-1.57, 1.57), st.floats(1e-4, 0.2), st.floats(0.0, 0.5),
       st.integers(1, 100))
def test_the_bound_is_what_speed_rate_and_margins_allow(
        direction, elevation, distance, angle, gap):
    """Within a frame interval and beyond, by the short way or in full, there is one bound."""
    feed = tracked(BodyConfig(max_speed=10.0, max_angular_rate=20.0))
    p, q = feed.pose(-1)
    t = (feed.frame - 1) * STEP
    dt = gap * MS * 7 // 100
    flat = distance * math.cos(elevation)
    moved = (p[0] + flat * math.cos(direction), p[1] + flat * math.sin(direction),
             p[2] + distance * math.sin(elevation))
    out = feed.body.update(
        t + dt, t + dt, moved, times(q, (math.sin(angle / 2), 0.0, 0.0, math.cos(angle / 2))))
    dt = max(dt, 1e9 / feed.body.rate_hz)    # a frame may be late
    reach = 10.0 * dt * 1e-9 + 0.02
    turn = min(20.0 * dt * 1e-9 + 0.15, 1.4)
    if min(abs(distance - reach), abs(angle - turn)) > 1e-7:
        assert (out is not None) == (distance < reach and angle < turn)


def test_a_body_without_a_pose_is_new_for_any_time():
    body = Tracker('body')
    body.tick(1000 * S)
    assert body.state is State.NEW and math.isnan(body.status(1000 * S).age_s)
    body.update(1, 5, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0, 1.0))
    assert body.state is State.NEW and body.status(S).since_ns == 5
    body.update(2, 6, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
    assert body.state is State.ZEROED and math.isnan(body.status(S).age_s)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4))
def test_an_attitude_of_unit_norm_is_passed_on_bit_by_bit_from_the_first_pose_on(numbers):
    norm = math.hypot(*numbers)
    if norm > 0.1:
        quat = tuple(number / norm for number in numbers)
        sent = quat if quat[3] >= 0.0 else tuple(-number for number in quat)
        feed = Feed(BodyConfig(acquire_frames=1))
        assert feed.send(quat=sent) == sent


def test_a_pose_that_is_repeated_from_the_first_frame_on_is_not_published():
    feed = Feed()
    assert not any(feed.send((1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0)) for _ in range(100))
    assert feed.body.state is State.FROZEN
