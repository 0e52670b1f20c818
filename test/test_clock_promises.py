# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The guarantees of every mode but ``sender``, under arbitrary clocks and networks."""

import gc
import random
import sys

from conftest import examples
from hypothesis import example, given, settings, strategies as st
from optitrack_vrpn.stream.clock.limits import JUDGED, LIMIT_NS
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig
import pytest

PROMISING = ('tracking', 'min_offset', 'arrival')
MS = 1_000_000
S = 1_000 * MS

steps_ns = st.one_of(
    st.just(4_166_667), st.integers(0, 10 * MS), st.integers(-30 * MS, 60 * MS),
    st.integers(-3 * S, 40 * S), st.just(0),
)
delays_ns = st.one_of(
    st.integers(0, 300_000), st.integers(0, 30 * MS), st.integers(0, 5 * S), st.just(0))
frames = st.lists(st.tuples(steps_ns, steps_ns, delays_ns), min_size=1, max_size=120)
times = st.one_of(st.integers(0, LIMIT_NS - 1), st.integers(), st.integers(0, 10 * S))


class Judge:
    """Checks each stamp against the one before, until an epoch ends with a fall."""

    def __init__(self, source):
        self.source = source
        self.sent = self.stamped = -1

    def stamp(self, sent, arrival, host=0):
        stamp = self.source.stamp(sent, arrival, host)
        fell = any(change.fell for change in self.source.changes)
        self.source.changes.clear()
        if fell:
            self.sent = -1
            if not self.source.status().restarts.get('sender_restarted'):
                self.stamped = -1
        if stamp is None:
            return
        assert stamp <= arrival + host
        if sent == self.sent:
            assert stamp == self.stamped, 'equal sender times, other stamp'
        else:
            assert sent > self.sent, 'an older frame'
            if stamp <= self.stamped:
                assert self.source.status().restarts.get('host_stepped'), 'stamps do not rise'
        self.sent, self.stamped = sent, stamp


@pytest.mark.parametrize('mode', PROMISING)
@given(moves=frames, latency=st.sampled_from((0.0, 3.5)), slew=st.integers(-20_000, 20_000))
@settings(max_examples=examples(150), deadline=None)
def test_stamps_are_never_late_and_rise(mode, moves, latency, slew):
    judge = Judge(StampSource(StampConfig(mode=mode, offset_samples=7, latency_ms=latency)))
    sent, now, host = 1_000 * S, 5_000 * S, 1_700_000_000 * S
    for sender_step, host_step, delay in moves:
        sent, now, host = max(0, sent + sender_step), max(0, now + host_step), host + slew
        judge.stamp(sent, now + delay, host)


@pytest.mark.parametrize('mode', PROMISING)
@given(seed=st.integers(0, 2**32), tick=st.sampled_from((1, MS, 15_625_000)))
@settings(max_examples=examples(40), deadline=None)
def test_promises_hold_in_a_real_stream_with_everything_going_wrong(mode, seed, tick):
    rnd = random.Random(seed)
    judge = Judge(StampSource(StampConfig(mode=mode)))
    true, offset, pairs = 1_000 * S, 4_000 * S, []
    for _ in range(1500):
        true += 4_166_667
        chance = rnd.random()
        if chance < 0.002:
            true += rnd.randrange(-400 * MS, 400 * MS)
        elif chance < 0.004:
            offset += rnd.randrange(-60 * MS, 60 * MS)
        elif chance < 0.005:
            true = rnd.randrange(10 * S)
        sent = true - true % tick
        delay = int(rnd.gammavariate(3, 40e3))
        delay += rnd.randrange(40 * MS) if rnd.random() < 0.02 else 0
        pairs += [(true + offset + delay, sent)] * rnd.choice((1, 1, 1, 2))
        if rnd.random() < 0.02:
            # Repeated, or one that was overtaken.
            late = rnd.choice(pairs[-200:])[1] - rnd.choice((0, rnd.randrange(20 * MS)))
            pairs.append((true + offset + delay + rnd.randrange(20 * MS), max(0, late)))
    for arrival, sent in pairs:
        judge.stamp(sent, arrival)


@example(calls=[(0, 0, 0), (0, -1, 1)], mode='min_offset')
@given(calls=st.lists(st.tuples(times, times, times), max_size=60),
       mode=st.sampled_from((*PROMISING, 'sender')))
@settings(max_examples=examples(200), deadline=None)
def test_any_numbers_give_a_stamp_or_none(calls, mode):
    source = StampSource(StampConfig(mode=mode, offset_samples=3))
    for sent, arrival, host in calls:
        stamp = source.stamp(sent, arrival, host)
        if not (0 <= sent < LIMIT_NS and 0 <= arrival < LIMIT_NS
                and 0 <= arrival + host < LIMIT_NS):
            assert stamp is None
    source.status()


@pytest.mark.parametrize('mode', PROMISING)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(25), deadline=None)
def test_repeated_and_overtaken_frames_teach_nothing(mode, seed):
    rnd = random.Random(seed)
    plain, mixed = StampSource(StampConfig(mode=mode)), StampSource(StampConfig(mode=mode))
    waiting = []
    for i in range(1200):
        sent = 77 * S + i * 4_166_667
        arrival = 99 * S + i * 4_166_500 + int(rnd.gammavariate(3, 40e3))
        if rnd.random() < 0.05:
            waiting.append(sent)
            continue
        expected = plain.stamp(sent, arrival)
        assert mixed.stamp(sent, arrival) == expected
        if rnd.random() < 0.1:
            assert mixed.stamp(sent, arrival + rnd.randrange(3 * MS)) == expected
        if waiting and rnd.random() < 0.5:
            assert mixed.stamp(waiting.pop(), arrival + 100_000) is None
    assert mixed.status().epoch == plain.status().epoch == 0


def _footprint(source):
    """Return the bytes of everything that a source holds."""
    seen, todo, total = set(), [source], 0
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, type) or callable(thing):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        todo.extend(gc.get_referents(thing))
    return total


@pytest.mark.slow
@pytest.mark.parametrize('mode', [*PROMISING, 'sender'])
def test_memory_is_constant(mode):
    rnd = random.Random(3)
    source = StampSource(StampConfig(mode=mode))
    sizes = []
    for part in range(3):
        for i in range(part * 40_000, part * 40_000 + 40_000):
            # 60 Hz: long enough for all windows of minutes to be full from the second part on.
            lift = 2 * MS if i % 30_000 > 20_000 else 0
            source.stamp(i * 16_666_667, 5 * S + i * 16_666_000 + rnd.randrange(MS) + lift)
        sizes.append(_footprint(source))
    # The stamps alone of all frames would take 4 MB.
    assert max(sizes) < 150_000, sizes


def test_unread_changes_are_bounded():
    source = StampSource(StampConfig())
    for i in range(1000):
        # The host's clock is set each second.
        source.stamp(i * S, i * S, (i % 2) * 100 * S)
    assert source.status().epoch > 500
    assert len(source.changes) == JUDGED
