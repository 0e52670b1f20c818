# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of the stamps runs, and its simulator has the stated properties."""

from dataclasses import replace
import os
from pathlib import Path
import subprocess
import sys

BENCH = Path(__file__).resolve().parent.parent / 'bench'
sys.path[:0] = [str(BENCH)]

from clock_scenarios import scenarios, WIFI, WIRED  # noqa: E402
from clock_sim import simulate  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from scipy import stats  # noqa: E402


def test_short_bench_prints_its_tables():
    done = subprocess.run(
        [sys.executable, str(BENCH / 'clock.py'), '--seconds', '30', '--only', 'wired 360',
         '--sessions', '1'],
        capture_output=True, text=True, timeout=200, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert '| wired 360 Hz | ' in done.stdout and 'us a message' in done.stdout
    assert '| NatNet, wired 360 Hz | ' in done.stdout
    assert '| all kinds of events | 1 | 0 |' in done.stdout


def test_simulated_delays_are_drawn_from_what_they_are_called():
    quiet = replace(WIRED, stall_every_s=0.0, poll_ms=0.0)
    delays = -simulate(quiet, 100.0, 1).truth / 1e3
    # Frames wait for those before them; at 4 ms from one to the next hardly any does.
    assert stats.kstest(delays, stats.gamma(3, scale=40.0).cdf).statistic < 0.02
    wifi = replace(WIFI, stall_every_s=0.0, loss=0.005)
    frames = simulate(wifi, 200.0, 1)
    assert len(frames.arrival) == pytest.approx(200 * 120 * 0.995, rel=0.003)
    assert np.median(-frames.truth / 1e3) == pytest.approx(1200, rel=0.1)


def test_simulated_clocks_differ_by_the_skew_and_sessions_repeat():
    still = replace(WIRED, thermal_ppm=0.0, walk=0.0, ntp_ppm=0.0, skew_ppm=80.0)
    frames = simulate(still, 500.0, 2)
    truth = frames.arrival + frames.truth
    slope = np.polyfit(frames.sender_time - frames.sender_time[0], truth - truth[0], 1)[0]
    assert slope - 1 == pytest.approx(80e-6, rel=1e-3)
    assert all((a == b).all() for a, b in zip(frames, simulate(still, 500.0, 2), strict=True))
    assert not (frames.truth[:100] == simulate(still, 500.0, 3).truth[:100]).any()


def test_every_scenario_can_be_simulated_and_nothing_arrives_before_it_is_sent():
    for scenario in scenarios(200.0):
        frames = simulate(scenario, 200.0, 1)
        assert (frames.truth < 1.0).all(), scenario.name
        assert len(frames.arrival) == len(frames.sender_time) == len(frames.settled)
