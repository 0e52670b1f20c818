# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Lost frames are counted against time: jitter of the sender is none."""

import random

from conftest import examples
from hypothesis import given, settings, strategies as st
from optitrack_vrpn.stream.bodies.times import FrameRate, SETTLE_FRAMES
import pytest

RATES = st.sampled_from([25.0, 60.0, 120.0, 240.0, 1000.0])
SEEDS = st.integers(0, 2**32)
NEVER_NS = 1e18
# Frames that are not counted, or by mistake, when the rate is not known yet.
UNCERTAIN = 25


def follow(times_ns, rate=None):
    """Pass the frames on, each of which is good, and return the rate."""
    rate = rate or FrameRate()
    for good, (before, now) in enumerate(zip(times_ns, times_ns[1:], strict=False)):
        rate.update(now - before, good, NEVER_NS)
    return rate


def in_order(times):
    """Round to nanoseconds; no frame is sent before the last one."""
    last, ordered = 0, []
    for time in times:
        last = max(last + 1000, round(time))
        ordered.append(last)
    return ordered


def thinned(times, share, draw):
    """Drop frames at random: those left, and how many were lost among them."""
    left = [number for number in range(len(times) - 2 * SETTLE_FRAMES)
            if draw.random() >= share]
    left += range(len(times) - 2 * SETTLE_FRAMES, len(times))
    return [times[n] for n in left], left[-1] - left[0] + 1 - len(left)


@settings(max_examples=examples(60), deadline=None)
@given(hz=RATES, seed=SEEDS, jitter=st.floats(0.0, 1.5))
def test_jitter_loses_no_frame(hz, seed, jitter):
    """
    ``jitter`` is the width of the distribution in intervals.

    Beyond one interval frames look lost: 28 of 3000 at most in 240 cases with 1.5.
    """
    draw = random.Random(seed)
    step = 1e9 / hz
    rate = follow(in_order(
        1e9 + (n + draw.uniform(0.0, jitter)) * step for n in range(3000)))
    assert rate.lost <= (0 if jitter <= 0.5 else 5 if jitter <= 1.0 else 60)
    assert rate.rate_hz == pytest.approx(hz, rel=0.02)


@settings(max_examples=examples(120), deadline=None)
@given(hz=RATES, seed=SEEDS, shares=st.one_of(
    st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 0.07)),
    st.tuples(st.floats(0.0, 0.02), st.floats(0.1, 1.0))))
def test_lost_frames_are_counted_once_in_spite_of_jitter(hz, seed, shares):
    share, jitter = shares
    draw = random.Random(seed)
    step = 1e9 / hz
    times, lost = thinned(in_order(
        1e9 + (n + draw.uniform(0.0, jitter)) * step for n in range(3000)), share, draw)
    assert abs(follow(times).lost - lost) <= UNCERTAIN + 0.01 * lost


@settings(max_examples=examples(60), deadline=None)
@given(hz=RATES, seed=SEEDS, share=st.floats(0.0, 0.02), most=st.floats(1.0, 100.0))
def test_a_sender_that_stalls_and_catches_up_loses_none(hz, seed, share, most):
    """It sends the frames of a stall at once; its rate is known before."""
    draw = random.Random(seed)
    step, free, times = 1e9 / hz, 0.0, []
    for n in range(4000):
        if n > 64 and draw.random() < 0.005:
            free = (n + draw.uniform(1.0, most)) * step
        times.append(1e9 + max(n * step, free))
    times, lost = thinned(in_order(times), share, draw)
    assert abs(follow(times).lost - lost) <= UNCERTAIN + 0.1 * lost


@pytest.mark.parametrize('hz, tick_ms', [
    (240.0, 1.0), (100.0, 1.0), (120.0, 5.0), (60.0, 10.0)])
def test_ticks_of_the_sender_lose_none(hz, tick_ms):
    tick = tick_ms * 1e6
    assert follow([round((1e9 + n * 1e9 / hz) // tick * tick) for n in range(5000)]).lost == 0


@pytest.mark.parametrize('before', [60.0, 120.0, 240.0])
@pytest.mark.parametrize('after', [30.0, 100.0, 180.0, 240.0])
def test_another_rate_is_followed_without_a_lost_frame(before, after):
    change = round(2000 * 1e9 / before)
    rate = follow([
        *(round(n * 1e9 / before) for n in range(2000)),
        *(change + round(n * 1e9 / after) for n in range(2000))])
    assert rate.rate_hz == pytest.approx(after, rel=1e-3)
    assert rate.lost <= 10


def test_a_silence_of_the_sender_loses_none():
    rate = follow([n * 5_000_000 for n in range(100)])
    rate.update(2_000_000_000, 100, NEVER_NS, silent=True)
    rate.update(15_000_000, 101, NEVER_NS)
    assert follow([n * 5_000_000 for n in range(100)], rate).lost == 2
