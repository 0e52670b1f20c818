# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Random sessions of the pipeline: restarts, steps, slews, backlogs, suspends, ticks."""

from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / 'bench')]

import clock_sessions  # noqa: E402
import pytest  # noqa: E402

SEEDS = range(1000, 1030)


@pytest.fixture(scope='module')
def outcomes():
    return [clock_sessions.run(seed) for seed in SEEDS]


def test_no_session_publishes_an_old_pose(outcomes):
    assert max(outcome.oldest_s for outcome in outcomes) < 0.51


def test_no_session_is_silent_for_2_s(outcomes):
    longest = [max(outcome.silences) for outcome in outcomes]
    assert max(longest) < clock_sessions.SILENCE_S
    assert sorted(longest)[len(longest) // 2] < 0.5


def test_stamps_are_within_the_uncertainty_in_95_percent_of_the_sessions(outcomes):
    covered = sum(outcome.wrong <= clock_sessions.WRONG for outcome in outcomes)
    assert covered >= 0.95 * len(outcomes)


def test_a_session_is_repeated_by_its_seed():
    first, second = (clock_sessions.make_session(7) for _ in range(2))
    assert first.name == second.name and (first.sender == second.sender).all()
