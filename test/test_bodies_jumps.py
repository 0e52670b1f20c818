# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Outliers, jumps and flips of a body are withheld until they have lasted."""

import math

from body_kit import OVER, STEP, times, tracked
from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.rotation import angle_between, from_rotation_vector, rotate
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import Disposition, State
from optitrack_vrpn.stream.bodies.tracker import Tracker
import pytest

NAN = math.nan
AWAY = (0.0, 3.0, 0.0)
#: No attitude is accepted by time, unless the body can have turned out of sight.
NEVER = BodyConfig(attitude_accept_s=0)


def turn(degrees, axis=(0.0, 0.0, 1.0)):
    half = math.radians(degrees) / 2 / math.hypot(*axis)
    length = math.hypot(*axis)
    return tuple(math.sin(half * length) * v / length for v in axis) + (math.cos(half * length),)


def flipped(feed, flip, shift=(0.0, 0.0, 0.0)):
    """Send a pose that is turned about the body's own axes; its origin is shifted likewise."""
    p, q = feed.pose()
    return feed.send(tuple(a + b for a, b in zip(p, rotate(q, shift))), times(q, flip))


@pytest.mark.parametrize('degrees, config, frames', [
    (40, BodyConfig(), 200), (40, BodyConfig(jump_accept_s=0.5), 100),
    (40, BodyConfig(jump_accept_s=0, attitude_accept_s=0), 200), (100, BodyConfig(), 400),
    (100, BodyConfig(attitude_accept_s=0.5), 100), (180, BodyConfig(jump_accept_s=0.5), 400)])
def test_an_attitude_is_accepted_by_time_and_the_body_is_in_doubt(degrees, config, frames):
    feed = tracked(config)
    out = [flipped(feed, turn(degrees, (1, 0, 0))) is not None for _ in range(frames + 5)]
    assert out == [False] * frames + [True] * 5
    status = feed.body.status(0)
    assert (status.resets, status.accepted_by_time) == (1, 1)
    assert math.degrees(status.accepted_by_time_rad) == pytest.approx(degrees, abs=1.0)
    change = feed.body.take_changes()[-1]
    assert change.doubtful and f'accepted by time, {degrees} degrees' in change.detail
    # A return to the attitude before, in place, is accepted at once.
    assert feed.good(4) == [False, False, True, True]
    status = feed.body.status(0)
    assert (status.resets, status.accepted_by_time, status.accepted_by_time_rad) == (2, 1, 0.0)


@pytest.mark.parametrize('after_s, at_once', [(50, True), (70, False)])
def test_the_hypothesis_before_is_remembered_for_a_minute(after_s, at_once):
    feed = tracked()
    for _ in range(round(200 * (after_s + 2))):
        flipped(feed, OVER)
    out = feed.good(410)
    assert out.index(True) == (2 if at_once else 400)
    assert feed.body.status(0).accepted_by_time_rad == 0.0


def test_an_attitude_that_time_has_accepted_becomes_certain_by_the_user():
    feed = tracked()
    for _ in range(410):
        flipped(feed, OVER)
    resets = feed.body.resets
    assert feed.body.accept_jump() and not feed.body.accept_jump()
    assert feed.body.resets == resets, 'bridges take a reset for a turn'
    assert feed.body.status(0).accepted_by_time_rad == 0.0
    assert feed.body.status(0).accepted_by_time == 1
    # The one before is a flip as any.
    assert feed.good(410).index(True) == 400


def test_a_changed_hold_is_that_of_the_present_jump_too():
    for config, shift, quat in ((BodyConfig(attitude_accept_s=0.5), (0.0, 0.0, 0.0), OVER),
                                (BodyConfig(jump_accept_s=0.5), AWAY, (0.0, 0.0, 0.0, 1.0))):
        feed = tracked(BodyConfig(jump_accept_s=0, attitude_accept_s=0))
        assert not any(feed.elsewhere(600, shift, quat))
        feed.body.config = config
        assert any(feed.elsewhere(2, shift, quat))


def test_turns_accepted_by_time_add_up():
    feed = tracked()
    for degrees in (70, 140):
        for _ in range(410):
            flipped(feed, turn(degrees))
        assert math.degrees(feed.body.status(0).accepted_by_time_rad) == pytest.approx(
            degrees, abs=3.0)
    assert feed.body.status(0).accepted_by_time == 2


@pytest.mark.parametrize('rate, step, frames', [
    (240, 6.3, 3), (240, 9.0, 3), (240, 15.0, 2), (120, 12.0, 3), (100, 20, 2), (60, 20.0, 2)])
def test_a_bad_fit_that_builds_up_does_not_lock_the_body_out(rate, step, frames):
    """As found (case F7a): published within the limits of a frame, then one step back."""
    flight = Flight(rate, 0.0)
    flight.fly(2.0)
    for k in range(1, frames + 1):
        errors, withheld = flight.fly(1 / rate, turn(step * k, (0.8, 0.6, 0.0)))
        assert not withheld
    errors, withheld = flight.fly(10.0)
    assert withheld <= rate + 2
    assert max(errors) < 1e-6


@pytest.mark.parametrize('rate', [50, 100, 240])
@pytest.mark.parametrize('frames', [2, 3, 4])
def test_the_hold_of_a_flip_that_builds_up_is_that_of_the_whole_turn(rate, frames):
    flight = Flight(rate, 0.0)
    flight.fly(2.0)
    for k in range(1, frames):
        flight.fly(1 / rate, turn(170.0 * k / frames, (0.0, 0.0, 1.0)))
    errors, _ = flight.fly(1.9, turn(170.0, (0.0, 0.0, 1.0)))
    assert not errors
    assert flight.fly(0.5, turn(170.0, (0.0, 0.0, 1.0)))[0]


def test_a_flip_that_begins_like_a_bad_fit_has_the_hold_of_a_flip():
    flight = Flight(100, 0.0)
    flight.fly(2.0)
    for degrees in (50.0, 72.0):
        flight.fly(0.01, turn(degrees, (0.0, 0.0, 1.0)))
    errors, _ = flight.fly(1.9, turn(94.0, (0.0, 0.0, 1.0)))
    assert not errors


@pytest.mark.parametrize('first_s', [0.1, 0.5, 3.0])
def test_a_body_that_is_first_seen_flipped_is_not_locked_out(first_s):
    flight = Flight(100)
    flight.fly(first_s, OVER)
    errors, withheld = flight.fly(4.0)
    assert withheld == 200 and max(errors) < 1e-6


@pytest.mark.parametrize('gap, degrees, hold_s', [
    (0.3, 75, 1.0), (0.3, 90, 2.0), (0.8, 98, 2.0), (1.2, 98, 1.0), (0.05, 45, 1.0),
    (1.0, 60, 1.0), (4.0, 45, 1.0), (0.3, 55, 1.0)])
def test_a_turn_out_of_sight_is_withheld_for_the_time_that_the_status_says(gap, degrees, hold_s):
    flight = Flight(100, 0.0)
    for start in (0.0, 0.05):    # the attitude of the body alone is nearly constant
        flight.frame = round(100 * start)
    flight.truth = lambda t: ((1e-4 * math.sin(50.0 * t), 0.0, 1.0), turn(0.5 * math.sin(t)))
    flight.fly(2.0)
    flight.fly(gap, seen=False)
    real = turn(degrees, (1, 0, 0))
    errors, _ = flight.fly(hold_s - 0.02, real)
    assert not errors and f'withheld for {hold_s:g} s' in flight.body.status(0).detail
    errors, withheld = flight.fly(1.0, real)
    assert withheld <= 5


def test_a_body_that_turned_before_a_gap_is_seen_again_after_m():
    """As before: 84 degrees after 0.9 s cost two poses."""
    flight = Flight(100, 0.0)
    flight.truth = lambda t: ((1e-4 * math.sin(50.0 * t), 0.0, 1.0), turn(57.0 * t))
    flight.fly(2.0)
    flight.fly(0.9, seen=False)
    assert flight.fly(1.0, turn(32.0))[1] == 2


@pytest.mark.parametrize('apart_ns', [STEP, 2000, 1])    # between frames of a sender that was late
@pytest.mark.parametrize('gap', [2, 10, 60, 150])
def test_a_flip_out_of_sight_is_never_valid_by_time_if_so_configured(gap, apart_ns):
    feed = tracked(NEVER)
    for ahead in range(40):
        t = feed.frame * STEP + ahead * apart_ns
        assert feed.update(t, t, *feed.pose(ahead)) is not None
    feed.frame += 40
    feed.skip(gap)
    assert not any(flipped(feed, turn(180, (1, 0, 0))) for _ in range(3000))
    feed.skip(gap)
    assert not any(flipped(feed, turn(180, (1, 0, 0))) for _ in range(1000))
    assert feed.good(4) == [False, False, True, True]


def test_a_flip_is_remembered_through_silence_and_outliers():
    feed = tracked(NEVER)
    flip = turn(120, (1, 1, 1))
    for k in range(3000):
        if k == 500:
            feed.skip(150)
        if k % 100 == 50:
            assert feed.send((math.nan, 0.0, 0.0)) is None
        elif k % 100 == 75:
            assert feed.send((40.0, 0.0, 0.0)) is None
        else:
            assert flipped(feed, flip) is None
    assert feed.body.state is State.JUMPED


def test_a_second_flip_does_not_end_the_first():
    """A body with four arms: each quarter turn fits its markers as well as any other."""
    feed = tracked(NEVER)
    for quarters in (1, 2, 3, 2, 1, 3):
        assert not any(flipped(feed, turn(90 * quarters)) for _ in range(600))
    assert feed.good(4) == [False, False, True, True]


class Flight:
    """A body that flies and turns on closed forms, with a flip that goes with it."""

    def __init__(self, rate, speed=2.0, config=None):
        self.body = Tracker('drone', config)
        self.rate, self.speed = rate, speed
        self.frame = 0

    def truth(self, t):
        return ((self.speed * math.sin(t), self.speed * math.cos(0.7 * t), 1.0 + 0.1 * t),
                times(from_rotation_vector((0.0, 0.0, 1.3 * t)),
                      from_rotation_vector((0.2 * math.sin(2.0 * t), 0.0, 0.0))))

    def fly(self, seconds, flip=None, shift=(0.0, 0.0, 0.0), seen=True):
        """Return the errors (rad) of the poses that are published, and how many are withheld."""
        errors, withheld = [], 0
        for _ in range(round(seconds * self.rate)):
            t = self.frame / self.rate
            self.frame += 1
            if not seen:
                continue
            p, q = self.truth(t)
            sent = q
            if flip is not None:
                p = tuple(a + b for a, b in zip(p, rotate(q, shift)))
                sent = times(q, flip)
            out = self.body.update(round(t * 1e9), round(t * 1e9), p, sent)
            withheld += out is None
            if out is not None:
                errors.append(angle_between(out, q))
        return errors, withheld


@settings(max_examples=examples(40), deadline=None)
@given(rate=st.sampled_from([60, 100, 240]), degrees=st.sampled_from([90, 120, 180]),
       axis=st.sampled_from([(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)]),
       lasts=st.floats(0.1, 12.0), shift=st.floats(0.0, 0.25), gap=st.floats(0.0, 0.5),
       speed=st.floats(0.0, 2.5))
def test_no_flipped_pose_is_published_in_flight(
        rate, degrees, axis, lasts, shift, gap, speed):
    """However far it flies and turns meanwhile: 12 s are a turn of 900 degrees."""
    flight = Flight(rate, speed, NEVER)
    flight.fly(2.0)
    flight.fly(gap, seen=False)
    errors, _ = flight.fly(lasts, turn(degrees, axis), (shift, 0.0, 0.0))
    assert not errors
    errors, withheld = flight.fly(1.0)
    assert withheld == 2
    assert max(errors) < 1e-6
    assert flight.body.resets == 0


# -- outliers and limits --------------------------------------------------------------------------

@pytest.mark.parametrize('offset', [(1.0, 0.0, 0.0), (0.0, -0.3, 0.0)])
def test_an_outlier_is_withheld_and_the_body_is_back_after_m(offset):
    feed = tracked()
    p, q = feed.pose(-1)
    assert feed.send(tuple(a + b for a, b in zip(p, offset)), q) is None    # with its attitude
    assert feed.body.reason is Disposition.MOVED_TOO_FAR
    assert feed.states() == [State.JUMPED]
    assert feed.good(4) == [False, False, True, True]
    assert feed.body.resets == 0


def test_a_jump_of_one_frame_before_a_long_silence_is_an_outlier():
    feed = tracked()
    feed.elsewhere(1, AWAY)
    feed.skip(300)
    feed.start += 5.0
    assert feed.good(4) == [False, False, True, True]


def test_a_jump_is_never_accepted_if_so_configured():
    assert not any(tracked(BodyConfig(jump_accept_s=0)).elsewhere(5000, AWAY))


@pytest.mark.parametrize('repeats', [0, 60])    # of the last pose: FROZEN
def test_only_time_seen_counts_for_a_jump(repeats):
    feed = tracked(BodyConfig(jump_accept_s=0.5))
    feed.elsewhere(60, AWAY)
    if repeats:
        p, q = feed.pose(-1)
        last = tuple(a + b for a, b in zip(p, AWAY)), q
        assert not any(feed.send(*last) for _ in range(repeats))
        assert feed.body.state is State.FROZEN
    else:
        feed.send((NAN, 0.0, 0.0))
        feed.skip(100)
    assert 35 < feed.elsewhere(60, AWAY).index(True) < 45


def test_a_frame_elsewhere_cancels_ten_in_the_new_place():
    feed = tracked()
    assert not any(feed.elsewhere(200, AWAY))
    assert feed.good(1) == [False]
    assert feed.elsewhere(300, AWAY).index(True) == 400 + 10 - 201


@pytest.mark.parametrize('home, away', [(1, 9), (2, 5), (2, 1)])
def test_a_body_that_is_seen_in_two_places_by_turns_is_in_neither(home, away):
    feed = tracked()
    for _ in range(100):
        assert not any(feed.elsewhere(away, AWAY))
        assert not any(feed.good(home))


def test_a_body_in_another_place_each_frame_has_not_returned():
    """Nor when it has been away for so long that it can have come to each of them."""
    feed = tracked()
    feed.elsewhere(350, AWAY)
    for k in range(100):
        assert not any(feed.elsewhere(1, (0.0, -1.0 - k % 7, 0.5 * (k % 3))))


@pytest.mark.parametrize('place', [AWAY, (0.0, -5.0, 0.0)])
def test_a_jumped_body_is_jumped_again_after_silence(place):
    feed = tracked()
    feed.elsewhere(10, AWAY)
    feed.skip(60)
    assert feed.body.state is State.STALE
    assert not any(feed.elsewhere(1, place))
    assert feed.body.state is State.JUMPED


def test_a_body_that_returns_to_its_course_out_of_sight_is_back_after_m():
    """The true place is closer to that of the jump than to that before; but it is expected."""
    feed = tracked()
    feed.elsewhere(10, (0.25, 0.0, 0.0))
    feed.skip(80)
    assert feed.good(4) == [False, False, True, True]
    assert feed.body.resets == 0


def test_a_body_that_spins_may_have_turned_far_unseen():
    def pose(t):
        return (math.sin(t), 0.0, 1.0), (0.0, 0.0, math.sin(4 * t), math.cos(4 * t))

    body = Tracker('spinning at 8 rad/s')
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


def test_a_fast_turn_is_forgotten_after_some_time():
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


# -- what the user can do -------------------------------------------------------------------------

def test_status_says_what_has_happened():
    feed = tracked()
    flipped(feed, turn(120, (1, 1, 1)))
    assert 'withheld for 2 s unless it returns' in feed.body.status(0).detail
    feed = tracked(NEVER)
    flipped(feed, turn(120, (1, 1, 1)))
    status = feed.body.status(feed.frame * STEP)
    assert 'by 120 degrees' in status.detail
    assert 'wrong marker solution' in status.detail
    feed = tracked()
    flipped(feed, turn(0.0), (3.0, 0.0, 0.0))
    assert feed.body.held == '' and 'in place' not in feed.body.status(0).detail


def test_a_redefined_orientation_can_be_accepted():
    feed = tracked(NEVER)
    new = turn(90)
    for _ in range(1000):
        assert flipped(feed, new) is None
    assert feed.body.held
    assert feed.body.accept_jump()
    assert [flipped(feed, new) is not None for _ in range(100)] == [True] * 100
    assert feed.body.resets == 1
    assert feed.body.held == ''
    assert [change.after for change in feed.body.take_changes()] == [State.JUMPED, State.TRACKED]
    # The old orientation is the flip now.
    assert not any(feed.good(1000))


def test_only_the_pose_that_is_there_is_accepted():
    """The request is for what the user sees; a further flip is none of it."""
    feed = tracked(NEVER)
    for _ in range(100):
        flipped(feed, turn(90))
    feed.body.accept_jump()
    assert not any(flipped(feed, turn(-90)) for _ in range(1000))


def test_nothing_is_accepted_of_a_body_that_has_not_jumped():
    feed = tracked(NEVER)
    assert not feed.body.accept_jump()
    assert not any(flipped(feed, turn(180)) for _ in range(1000))


def test_names_that_were_exchanged_on_purpose_are_accepted():
    feed = tracked(BodyConfig())
    for _ in range(1000):
        flipped(feed, turn(0.0), (3.0, 0.0, 0.0))
        feed.body.hypotheses.swapped = Tracker('other').hypotheses
    assert 'exchanged names' in feed.body.held
    assert feed.body.accept_jump()
    assert flipped(feed, turn(0.0), (3.0, 0.0, 0.0)) is not None
    assert feed.body.held == ''


def test_after_an_interruption_a_new_place_needs_consistent_frames_again():
    feed = tracked(BodyConfig(jump_accept_s=0.5))
    assert not any(feed.elsewhere(100, AWAY))
    for _ in range(5):
        feed.send((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0))
    assert feed.elsewhere(4, AWAY) == [False, False, True, True]
