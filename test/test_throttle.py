# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Samples are selected by their stamps: rate, order, gaps and steps of the clock."""

from itertools import accumulate, pairwise

from hypothesis import given, strategies as st
from optitrack_vrpn.core.throttle import Decimator, FrameDecimator

MS = 1_000_000
START = 1_700_000_000 * 1000 * MS


def selected(decimator, stamps):
    return [stamp for stamp in stamps if decimator.take(stamp)]


def closed_form(first, frame, count, period):
    """Give the first frame that is at most a tenth of a period before each time of the grid."""
    if period <= frame:
        return [first + i * frame for i in range(count)]
    indices = (-((period // 10 - n * period) // frame) for n in range(count))
    return [first + max(0, i) * frame for i in indices if i < count]


@given(st.integers(MS, 40 * MS), st.integers(MS, 200 * MS), st.lists(
    st.tuples(st.booleans(), st.integers(3, 30), st.integers(1, 60)), min_size=1, max_size=5))
def test_each_time_of_the_grid_gets_its_first_frame_also_after_gaps_and_steps_of_the_clock(
        frame, period, segments):
    decimator = Decimator(period)
    begin = START
    for back, periods, count in segments:
        stamps = [begin + i * frame for i in range(count)]
        expected = closed_form(begin, frame, count, period)
        assert selected(decimator, stamps) == expected
        # Without a gap of two periods nothing begins anew; a step back of less is an old sample.
        begin = expected[-1] - periods * period if back else stamps[-1] + periods * period + frame


def test_without_a_rate_no_old_and_no_repeated_stamp_passes():
    stamps = [0, 10, 10, 5, 20, 19, 30]
    given_ = [START + stamp * MS for stamp in stamps]
    passed = [START + stamp * MS for stamp in (0, 10, 20, 30)]
    assert selected(Decimator(0), given_) == passed
    # The samples of one frame share its stamp.
    assert selected(FrameDecimator(0), given_) == sorted([*passed, START + 10 * MS])
    back = START - 2000 * MS    # the clock was set back
    assert selected(Decimator(0), [*given_, back, back + MS]) == [*passed, back, back + MS]


@given(st.integers(1, 4), st.integers(2 * MS, 20 * MS), st.data())
def test_jitter_below_the_slack_leaves_every_nth_frame(every, frame, data):
    jitter = every * frame // 20
    stamps = [START + i * frame + data.draw(st.integers(-jitter, jitter)) for i in range(40)]
    assert selected(Decimator(every * frame), stamps) == stamps[::every]


@given(st.integers(MS, 100 * MS), st.lists(st.integers(-300 * MS, 300 * MS), max_size=80))
def test_no_stamp_is_selected_twice_and_none_before_another_but_after_a_step_of_the_clock(
        period, steps):
    decimator = Decimator(period)
    runs = [[]]
    for stamp in selected(decimator, accumulate(steps, initial=START)):
        if runs[-1] and stamp < runs[-1][-1]:
            assert runs[-1][-1] - stamp > 2 * period
            runs.append([])
        runs[-1].append(stamp)
    for run in runs:
        assert all(one < later for one, later in pairwise(run))
        assert len(run) <= (run[-1] - run[0] + period // 10) // period + 1, 'the mean rate'


@given(st.integers(MS, 100 * MS), st.integers(MS, 100 * MS))
def test_a_new_period_begins_at_the_last_sample(period, other):
    decimator = Decimator(period)
    assert decimator.take(START)
    decimator.retime(other)
    due = START + other - other // 10
    assert selected(decimator, [START, due - 1, due]) == [due]


def test_the_rate_zero_selects_every_new_stamp():
    assert selected(Decimator(0), [START, START, START + 1, START + 1, START + 5]) == [
        START, START + 1, START + 5]


def test_all_samples_of_a_frame_are_selected_or_none():
    decimator = FrameDecimator(20 * MS)
    stamps = [START + 5 * MS * (i // 3) for i in range(60)]
    assert [stamp for stamp in stamps if decimator.take(stamp)] == [
        stamp for stamp in stamps if (stamp - START) % (20 * MS) == 0]
