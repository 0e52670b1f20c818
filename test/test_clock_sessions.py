# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thirty random sessions of the benchmark with fixed seeds, and the benchmark itself."""

import os
from pathlib import Path
import subprocess
import sys

BENCH = Path(__file__).parent.parent / 'bench'
sys.path[len(sys.path):] = [str(BENCH)]

import clock_sessions  # noqa: E402
from clock_sim import cases, simulate  # noqa: E402
import pytest  # noqa: E402

SEEDS = range(2000, 2030)


@pytest.fixture(scope='module')
def outcomes():
    return [clock_sessions.run(seed) for seed in SEEDS]


@pytest.mark.slow
def test_no_session_publishes_an_old_pose(outcomes):
    assert max(outcome.oldest_s for outcome in outcomes) < 0.26


@pytest.mark.slow
def test_poses_are_within_their_uncertainty(outcomes):
    assert sum(outcome.excess_s > clock_sessions.BEYOND_S for outcome in outcomes) <= 2


@pytest.mark.slow
def test_live_frames_are_published_soon_or_the_log_says_why(outcomes):
    late = [s for outcome in outcomes for s in outcome.silences
            if s > clock_sessions.SILENCE_S + outcome.acquired_s]
    assert len(late) <= 3 and sum(outcome.unexplained for outcome in outcomes) <= 1


def test_a_session_is_repeated_by_its_seed():
    first, second = (clock_sessions.make_session(7) for _ in range(2))
    assert first.name == second.name and (first.sender == second.sender).all()


def test_nothing_arrives_before_it_is_sent():
    for case in cases(200.0):
        frames = simulate(case, 1)
        assert (frames.truth < 1.0).all(), case.name
        assert len(frames.arrival) == len(frames.sender) == len(frames.judged)


@pytest.mark.computes
@pytest.mark.timeout(300)
def test_a_short_bench_prints_its_tables():
    done = subprocess.run(
        [sys.executable, str(BENCH / 'clock.py'), '--seconds', '20', '--only', 'wired 240',
         '--sessions', '1'],
        capture_output=True, text=True, timeout=200, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert '| wired 240 Hz | ' in done.stdout and 'us a message' in done.stdout
    assert 'random sessions' in done.stdout
