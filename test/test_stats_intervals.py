# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Regularity of frames, computed from hand-made sender times."""

import itertools
import random

from conftest import examples, memory_growth
from hypothesis import example, given, settings, strategies as st
import numpy as np
from optitrack_vrpn.core.stats import (
    array_interval, frame_interval, Intervals, IntervalStatistics)
import pytest

QUAT = (0.0, 0.0, 0.0, 1.0)


def intervals_of(times_s):
    statistics = IntervalStatistics()
    for number, time_s in enumerate(times_s):
        statistics.update(round(time_s * 1e9), (float(number), 0.0, 0.0), QUAT)
    return statistics.intervals()


def thinned(rate, seconds, share, seed=1):
    """Give the times of frames of which a share is missing at random."""
    draw = random.Random(seed).random
    return [100.0 + k / rate for k in range(round(rate * seconds)) if draw() >= share]


@pytest.mark.parametrize('rate', [10.0, 60.0, 120.0, 240.0, 1000.0])
@pytest.mark.parametrize('share', [0.0, 0.05, 0.3, 0.5, 0.6])
def test_frames_that_are_missing_are_counted_by_the_span(rate, share):
    times = thinned(rate, 4.0 if rate > 10 else 20.0, share)
    intervals = intervals_of(times)
    assert 1.0 / intervals.interval_s == pytest.approx(rate, rel=1e-6)
    sent = round((times[-1] - times[0]) * rate) + 1
    # Holes as long as a silence are not frames that got lost.
    silent = round(intervals.silent_s * rate) - intervals.silences
    assert intervals.frames == len(times)
    assert intervals.missing + silent == sent - len(times)
    assert intervals.span_s == pytest.approx(times[-1] - times[0])


def test_a_silence_is_none_of_the_missing_frames():
    intervals = intervals_of(
        [k / 100 for k in range(300) if not 100 < k < 150 and k not in (20, 230)])
    assert (intervals.missing, intervals.silences) == (2, 1)
    assert intervals.silent_s == intervals.longest_s == pytest.approx(0.5)


def test_neither_jitter_nor_coarse_times_make_frames_missing():
    draw = random.Random(2)
    assert intervals_of([k / 100 + draw.gauss(0.0, 0.0015) for k in range(1000)]).missing < 3
    assert intervals_of([k / 100 + draw.uniform(0.0, 0.009) for k in range(1000)]).missing == 0
    assert intervals_of([int(k / 240 * 1000) / 1000 for k in range(1000)]).missing == 0
    bursts = intervals_of([k // 2 * 0.02 + k % 2 * 0.0013 for k in range(1000)])
    assert (bursts.missing, bursts.silences) == (0, 0)


def test_doubles_repeats_of_the_time_and_late_ones_are_told_apart():
    statistics = IntervalStatistics()
    for time_s, x in ((1.0, 0), (1.01, 1), (1.01, 1), (1.02, 2), (1.02, 3), (1.02, 3), (1.01, 1),
                      (1.03, 4)):
        statistics.update(round(time_s * 1e9), (float(x), 0.0, 0.0), QUAT)
    intervals = statistics.intervals()
    assert (intervals.frames, intervals.doubled, intervals.stuck, intervals.late) == (4, 2, 1, 1)


def test_what_comes_late_is_not_missing():
    times = [k / 100 for k in range(400)]
    for k in range(10, 390, 5):
        times[k], times[k + 1] = times[k + 1], times[k]
    intervals = intervals_of(times)
    assert intervals.late == 76
    assert intervals.missing == 0


def test_a_clock_that_begins_anew_is_no_silence():
    intervals = intervals_of(
        [5000 + k / 100 for k in range(100)] + [k / 100 for k in range(100)]
        + [9e8 + k / 100 for k in range(100)])
    assert intervals.frames == 300
    assert (intervals.missing, intervals.silences, intervals.late) == (0, 0, 0)
    assert intervals.span_s == pytest.approx(2.97)


def test_hardly_any_frames_say_nothing():
    assert repr(IntervalStatistics().intervals()) == repr(Intervals())
    assert intervals_of([1.0]).interval_s == 0.0
    assert frame_interval([]) == 0.0


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**62), max_size=60))
def test_whatever_the_times_the_counts_add_up(times_ns):
    statistics = IntervalStatistics()
    for time_ns in times_ns:
        statistics.update(time_ns, (0.0, 0.0, 0.0), QUAT)
    intervals = statistics.intervals()
    assert intervals.frames + intervals.doubled + intervals.stuck + intervals.late == len(times_ns)
    assert intervals.missing >= 0 and 0.0 <= intervals.silent_s <= intervals.span_s + 1e-9


def test_memory_is_bounded():
    statistics = IntervalStatistics()
    assert memory_growth(
        lambda k: statistics.update(k * 1_000_000, (0.0, 0.0, 0.0), QUAT), 10_000) < 2000
    assert statistics.intervals().frames == 20_000
    assert statistics.intervals().missing == 0


STEPS = st.one_of(
    st.lists(st.floats(1e-4, 10.0), min_size=1, max_size=200),
    st.lists(st.sampled_from([0.0, 0.01, 0.02, 0.03, 0.5]), min_size=1, max_size=200),
    st.builds(lambda seed, share: [
        b - a for a, b in itertools.pairwise(thinned(240.0, 2.0, share, seed))],
        st.integers(0, 1000), st.floats(0.0, 0.8)))


@settings(deadline=None, max_examples=examples(400))
@given(STEPS)
@example([0.0] * 8 + [0.01] * 30 + [0.024] * 18 + [0.03] * 44)    # a step of 0 fits nothing
def test_the_interval_of_an_array_is_that_of_a_list(steps):
    assert array_interval(np.array(steps)) == frame_interval(steps)


def test_the_interval_of_whole_nanoseconds_is_found_in_an_array():
    steps = np.diff(np.array(thinned(240.0, 10.0, 0.6)) * 1e9).astype(np.int64)
    assert np.median(steps) > 6e6 and array_interval(steps) == pytest.approx(1e9 / 240, abs=2)
    assert array_interval(steps[:0]) == 0.0


@pytest.mark.parametrize('rate, tick_ms', [(120.0, 5.0), (60.0, 10.0), (240.0, 2.5)])
def test_coarse_ticks_are_not_taken_for_a_faster_sender_with_losses(rate, tick_ms):
    tick = tick_ms * 1e-3
    times = [int(k / rate / tick) * tick for k in range(2000)]
    assert intervals_of(times).interval_s > 0.8 / rate
