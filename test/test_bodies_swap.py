# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names that move to other bodies, while tracked or lost, and bodies that only come close."""

import math
import random

from body_kit import Feed, OVER, STEP, times, tracked
from optitrack_vrpn.stream.bodies import swap
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.bodies.states import Disposition, State
from optitrack_vrpn.stream.bodies.tracker import Tracker
import pytest


def two_bodies(config=None):
    return tracked(config, name='a'), tracked(config, name='b', start=2.0)


def exchange_names(a, b, frames):
    out = []
    for _ in range(frames):
        pa, pb = a.pose(), b.pose()
        out.append(a.send(*pb))
        out.append(b.send(*pa))
        swap.review((a.body, b.body))
    return out


@pytest.mark.parametrize('frames, unseen, later, max_speed', [
    (2000, 0, 0, 15.0), (3, 40, 0, 15.0), (300, 40, 0, 15.0), (300, 100, 0, 15.0),
    (300, 5, 3, 100.0)])
def test_exchanged_names_are_never_accepted(frames, unseen, later, max_speed):
    """Where the names are right again, both return, however long they are out of sight before."""
    a, b = two_bodies(BodyConfig(max_speed=max_speed))
    assert not any(exchange_names(a, b, frames))
    assert a.body.swapped_with == 'b'
    assert b.body.swapped_with == 'a'
    assert "names with 'b'" in a.body.status(0).detail
    assert a.body.status(0).swapped_with == 'b'
    a.skip(unseen)
    b.skip(unseen + later)
    a.good(later)
    for _ in range(4):
        out = a.send(), b.send()
        swap.review((a.body, b.body))
    assert None not in out
    assert a.body.swapped_with == b.body.status(0).swapped_with == ''


def test_names_exchanged_for_a_few_frames_before_a_long_silence_stay_held():
    a, b = two_bodies()
    exchange_names(a, b, 4)
    a.skip(240)
    b.skip(240)
    assert not any(exchange_names(a, b, 1000))


def test_a_body_whose_partner_is_no_longer_selected_is_not_held():
    a, b = two_bodies()
    exchange_names(a, b, 100)
    assert a.body.swapped_with == 'b'
    out = []
    for _ in range(500):
        out.append(a.send(*b.pose()))
        b.skip(1, tick=False)
        swap.review((a.body,))
    assert out[-1] is not None and a.body.resets == 1


def test_one_frame_of_the_other_body_confirms_no_exchange():
    a, b = two_bodies()
    exchange_names(a, b, 1)
    out = []
    for _ in range(500):
        out.append(a.send(*b.pose()) is not None)
        b.skip(1)
        swap.review((a.body, b.body))
    assert out.index(True) == 399


def test_a_body_in_the_place_of_one_that_is_lost_is_held_for_a_minute_at_most():
    """As after an exchange that both have shown: nothing is held back for ever."""
    a, b = two_bodies()
    exchange_names(a, b, 50)
    out = []
    for _ in range(200 * 65):
        out.append(a.send(*b.pose()) is not None)
        b.skip(1, tick=False)
        swap.review((a.body, b.body))
    assert 60 * 200 <= out.index(True) <= 60 * 200 + 5


def test_a_body_in_anothers_old_place_is_released():
    a, b = two_bodies()
    for i in range(1000):
        p, q = b.pose()
        place = a.send((p[0], p[1] + 0.001 * i, p[2]), q)
        b.send()
        swap.review((a.body, b.body))
    assert place is not None
    assert a.body.resets == 1


def test_a_flip_beside_another_body_is_no_exchange():
    a, b = tracked(name='a'), tracked(name='b', start=0.04)
    for _ in range(10):
        a.elsewhere(1, turn=OVER)
        b.send()
        swap.review((a.body, b.body))
    assert a.body.state is State.JUMPED
    assert a.body.swapped_with == ''


@pytest.mark.parametrize('glitch', [(0.0, 1.0, 0.0), None])
def test_one_outlier_ends_no_hold_however_long_it_has_lasted(glitch):
    a, b = two_bodies()
    assert not any(exchange_names(a, b, 800))
    p, q = b.pose()
    wrong = (tuple(v + w for v, w in zip(p, glitch)), q) if glitch else (
        p, times(q, OVER))
    assert a.send(*wrong) is None
    b.send(*a.pose(-1))
    assert not any(exchange_names(a, b, 800))


def test_a_flip_in_anothers_place_does_not_end_a_hold():
    a, b = two_bodies()
    assert not any(exchange_names(a, b, 400))
    for _ in range(800):
        p, q = b.pose()
        assert a.send(p, times(q, OVER)) is None
        assert b.send(*a.pose(-1)) is None
        swap.review((a.body, b.body))


def watch(bodies):
    """Let bodies know of each other, as the pipeline does."""
    for body in bodies:
        body.compare_with(lambda body, *pose: swap.find_swap(body, bodies, *pose))


def unseen_bodies(frames, apart=2.0, *others):
    """Give two bodies that know of each other and have not been seen for some frames."""
    a, b = tracked(name='a'), tracked(name='b', start=apart)
    watch([feed.body for feed in (a, b, *others)])
    a.skip(frames)
    b.skip(frames)
    return a, b


@pytest.mark.parametrize('unseen', [1, 5, 20, 60, 100])    # frames of 5 ms
@pytest.mark.parametrize('apart', [0.4, 1.0, 3.0])
def test_names_exchanged_out_of_sight_are_never_accepted(unseen, apart):
    a, b = unseen_bodies(unseen, apart)
    assert not any(exchange_names(a, b, 1000))
    assert a.body.swapped_with == 'b' and b.body.swapped_with == 'a'
    assert a.withheld[Disposition.JUMPED.value] > 900
    # Where the labels are right again, that is no reset: nothing wrong was published.
    assert a.good(4) == b.good(4) == [False, False, True, True]
    assert a.body.resets == b.body.resets == 0


def test_a_name_that_returns_on_another_body_is_a_jump():
    a, b = unseen_bodies(0)
    a.skip(60)
    b.good(60)
    out = []
    for _ in range(600):
        out.append(a.send(*b.pose()) is not None)
        b.skip(1)
        swap.review((a.body, b.body))
    # jump_accept_s is 2 s: 400 frames.
    assert out.index(True) == 400
    assert a.body.resets == 1


@pytest.mark.parametrize('both_seen, held', [(1, False), (50, True)])
def test_a_seen_exchange_is_held_when_one_body_is_lost(both_seen, held):
    """One pose of the other body in the place of this one is no evidence: it may be an outlier."""
    a, b = unseen_bodies(60)
    exchange_names(a, b, both_seen)
    out = []
    for _ in range(1000):
        out.append(a.send(*b.pose()) is not None)
        b.skip(1)
        swap.review((a.body, b.body))
    assert any(out) is not held


def test_a_body_without_a_valid_pose_takes_no_part():
    other = Feed(name='c')
    a, b = unseen_bodies(60, 2.0, other)
    assert not any(exchange_names(a, b, 10))
    swap.review((other.body, a.body, b.body))
    assert (a.body.swapped_with, b.body.swapped_with) == ('b', 'a')


def test_names_exchanged_after_a_jump_of_one_body_are_not_accepted():
    a, b = unseen_bodies(0)
    a.elsewhere(10, (0.0, 3.0, 0.0))
    b.good(10)
    a.skip(60)
    b.skip(60)
    assert not any(exchange_names(a, b, 1000))


def test_a_body_that_turns_in_the_place_of_a_lost_one_stays_held():
    config = BodyConfig(max_speed=4.0)
    a, b = tracked(config, name='a'), tracked(config, name='b', start=20.0)
    watch([a.body, b.body])
    assert not any(exchange_names(a, b, 100))
    for turn in 240 * [(0.0, 0.0, 0.0, 1.0)] + 1000 * [OVER]:
        p, q = b.pose()
        b.skip(1)
        assert a.send(p, times(q, turn)) is None
        swap.review((a.body, b.body))


def test_a_body_that_leaves_the_place_of_a_lost_one_can_settle():
    a, b = unseen_bodies(0)
    assert not any(exchange_names(a, b, 20))
    out = []
    for _ in range(500):
        b.skip(1)
        out += a.elsewhere(1, (50.0, 0.0, 0.0))
        swap.review((a.body, b.body))
    assert out.index(True) == 400


@pytest.mark.parametrize('turned, accepted', [(False, False), (True, True)])
def test_the_attitude_tells_bodies_apart_too(turned, accepted):
    """A body comes back in the place of another, but not in its attitude."""
    a, b = tracked(name='a'), tracked(name='b', start=0.3)
    if turned:
        b.elsewhere(1, turn=OVER)
        b.body.accept_jump()
        b.elsewhere(40, turn=OVER)
        a.good(41)
    watch([a.body, b.body])
    a.skip(40)
    b.skip(40)
    assert any(a.elsewhere(10, (0.3, 0.0, 0.0))) is accepted


def test_a_swap_that_the_other_body_has_confirmed_is_held_when_that_is_lost():
    a, b = unseen_bodies(60)
    for _ in range(10):
        assert a.send(*b.pose()) is None
        b.skip(1)
        swap.review((a.body, b.body))
    assert not any(exchange_names(a, b, 10))
    for _ in range(1000):
        assert a.send(*b.pose()) is None
        b.skip(1)
        swap.review((a.body, b.body))


@pytest.mark.parametrize('apart, accepted', [(0.08, True), (0.2, False)])
def test_a_body_near_its_expected_place_is_not_suspected(apart, accepted):
    a, b = unseen_bodies(20, apart)
    out = []
    for _ in range(10):
        out.append(a.send(*b.pose()) is not None)
        b.skip(1)
    assert any(out) is accepted


@pytest.mark.parametrize('frames', [60, 15])    # the second is too short to be STALE
def test_a_doubt_ends_when_the_other_body_is_seen_elsewhere(frames):
    """One of two that fly in a row comes back first, where the other one was last seen."""
    a, b = unseen_bodies(frames, 0.3)

    def along(feed):
        p, q = feed.pose()
        return (p[0] + 0.3, p[1], p[2]), q      # both sped up out of sight
    assert [a.send(*along(a)) for _ in range(5)] == [None] * 5
    assert a.body.state is State.JUMPED
    swap.review((a.body, b.body))
    b.skip(5)
    out = []
    for _ in range(10):
        b.send(*along(b))
        out.append(a.send(*along(a)) is not None)
        swap.review((a.body, b.body))
    assert out.index(True) <= 3 and all(out[3:])
    assert a.body.resets == 0


def wander(draw, size):
    """Make a path through a hall (m), at up to some 3 m/s, and a slow turn of the nose."""
    middle = [draw.uniform(-size, size) / 4 for _ in range(3)]
    waves = [[(draw.uniform(0.1, 0.3) * size, draw.uniform(0.2, 1.3), draw.uniform(0, 6.3))
              for _ in range(3)] for _ in range(3)]
    rate, phase = draw.uniform(0.1, 1.5), draw.uniform(0, 6.3)

    def pose(t):
        yaw = 0.75 * math.sin(rate * t + phase)
        return tuple(
            m + sum(a * math.sin(w * t + f) for a, w, f in three)
            for m, three in zip(middle, waves)), (0.0, 0.0, math.sin(yaw), math.cos(yaw))
    return pose


@pytest.mark.parametrize('seed', range(4))
def test_bodies_that_pass_out_of_sight_are_not_suspected(seed):
    """Eight bodies cross a hall; all, or two of them, are unseen for up to 0.9 s, often."""
    draw = random.Random(seed)
    paths = [wander(draw, 4.0) for _ in range(8)]
    bodies = [Tracker(str(number)) for number in range(8)]
    watch(bodies)
    back = [0.0] * 8
    absences = suspected = 0
    for frame in range(40 * 100):
        t = frame * 0.01
        if draw.random() < 0.007:
            absences += 1
            for number in draw.choice([range(8), draw.sample(range(8), 2)]):
                back[number] = t + draw.uniform(0.02, 0.9)
        for number, body in enumerate(bodies):
            if t >= back[number]:
                body.update(2 * frame * STEP, 2 * frame * STEP, *paths[number](t))
        swap.review(bodies)
        for body in bodies:
            body.tick(2 * frame * STEP)
            suspected += any(
                e.after is State.JUMPED for e in body.take_changes()) and bool(body.swapped_with)
    assert absences > 15
    assert suspected <= 1


@pytest.mark.parametrize('unseen', range(4, 190, 6))
def test_bodies_that_circle_one_behind_the_other_are_not_suspected(unseen):
    """All are unseen, as when the network stops; none comes back where it was expected."""
    bodies = [Tracker(str(number)) for number in range(5)]
    watch(bodies)
    withheld = 0
    for frame in range(400):
        if 100 <= frame < 100 + unseen:
            continue
        t = frame * STEP * 1e-9
        for number, body in enumerate(bodies):
            phase, radius = (1.9 - 0.1 * number) * t + 0.5 * number, 0.5 + 0.25 * number
            quat = body.update(
                frame * STEP, frame * STEP,
                (radius * math.cos(phase), radius * math.sin(phase), 1.0 + 0.1 * number),
                (0.0, 0.0, math.sin(phase / 2), math.cos(phase / 2)))
            withheld += quat is None
            assert not any(event.after is State.JUMPED for event in body.take_changes())
        swap.review(bodies)
    assert withheld <= 5 * (2 + 2)


@pytest.mark.parametrize('apart', [0.0, 0.05, 0.2])
def test_bodies_fixed_to_each_other_are_not_suspected(apart):
    """Both turn off while they are unseen: each comes to where the other one may have been."""
    feeds = [tracked(name='a'), tracked(name='b', start=apart)]
    watch([feed.body for feed in feeds])
    withheld = 0
    for back in range(20):
        for feed in feeds:
            feed.skip(15 + back)
        aside = 0.3 * math.sin(2.4 * back)
        for _ in range(20):
            poses = [feed.pose() for feed in feeds]
            for feed, (p, q) in zip(feeds, poses):
                withheld += feed.send((p[0] + aside, p[1] + 0.3 * back, p[2]), q) is None
            swap.review([feed.body for feed in feeds])
    assert [feed.body.resets for feed in feeds] == [0, 0]
    assert withheld < 20 * 2 * 5
