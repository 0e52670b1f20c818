# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Random sessions of the pipeline: restarts, steps, slews, backlogs, suspends, ticks."""

from dataclasses import replace
from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / 'bench')]

import clock  # noqa: E402
import clock_natnet  # noqa: E402
from clock_scenarios import scenarios  # noqa: E402
import clock_sessions  # noqa: E402
import pytest  # noqa: E402

SEEDS = range(1000, 1030)


@pytest.fixture(scope='module')
def outcomes():
    return [clock_sessions.run((seed, clock_sessions.FAMILIES[0])) for seed in SEEDS]


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


@pytest.mark.parametrize('seed', [0, 307, 353])
def test_an_uncertain_number_of_lost_frames_is_part_of_the_uncertainty(seed):
    """After a gap, ticks of nearly an interval fit two numbers: the error may be one interval."""
    outcome = clock_sessions.run((seed, clock_sessions.FAMILIES[0]))
    assert ' ticks of ' in outcome.name and outcome.excess_s < 1e-3


@pytest.mark.parametrize('family', clock_sessions.FAMILIES[1:], ids=lambda family: family.name[0])
def test_situations_hold(family):
    """The rows A, B, D and F of docs/evidence/stamps_measured.md, shortened."""
    outcomes = [clock_sessions.run((seed, family)) for seed in range(1, 7)]
    assert clock_sessions.missed(outcomes) == ''


@pytest.mark.parametrize('scenario', [
    each for each in scenarios(120.0) if each.name[1] == ':'], ids=lambda each: each.name)
def test_accuracy_of_situations_holds(scenario):
    """The rows C, G, H and I, shortened; J is a column of them."""
    # A sender is disciplined by up to 60 ppm after 100 s: some seconds of 0.5 ms in two minutes.
    row = clock.run((replace(scenario, aim_us=1.5 * scenario.aim_us), 120.0, 1))
    assert clock.missed(row) == ''


def test_round_trips_show_the_end_of_load_on_one_way():
    """The row E, shortened."""
    row = clock_natnet.run(clock_natnet.sessions(60.0)[-1], 60.0, 1)
    assert clock_natnet.sessions(60.0)[-1].load and row['p99'] < 150.0 and row['covered'] > 0.95
