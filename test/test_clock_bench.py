# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark of the stamps runs, and its simulator has the stated properties."""

from dataclasses import replace
import json
import os
from pathlib import Path
import subprocess
import sys

BENCH = Path(__file__).resolve().parent.parent / 'bench'
sys.path[:0] = [str(BENCH)]

import clock_ablation  # noqa: E402
from clock_baselines import BASELINES  # noqa: E402
import clock_bound  # noqa: E402
from clock_plot import error_svg  # noqa: E402
from clock_scenarios import main_scenarios, more_scenarios, WIFI, WIRED  # noqa: E402
from clock_sim import simulate  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from scipy import stats  # noqa: E402


def test_short_bench_prints_and_writes_its_tables(tmp_path):
    done = subprocess.run(
        [sys.executable, str(BENCH / 'clock.py'), '--hours', '0.03', '--only', 'wired 360',
         '--json', str(tmp_path / 'found.json')],
        capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert '| wired 360 Hz | **' in done.stdout and 'us a message' in done.stdout
    found = json.loads((tmp_path / 'found.json').read_text())
    (row,) = found['main']
    assert row['tracking']['p99'] < row['Olson 2010']['p99'] < row['original']['p99']
    smoothed = row['tracking']['smoothed']
    assert smoothed['worst'] < row['tracking']['worst']
    assert f'{smoothed["p99"]:.1f} / {smoothed["worst"]:.1f}' in done.stdout
    assert set(found['cost_us']) == {'tracking', 'restamp --smooth', 'longest', *BASELINES}


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
    for scenario in main_scenarios(200.0) + more_scenarios(200.0):
        frames = simulate(scenario, 200.0, 1)
        assert (frames.truth < 1.0).all(), scenario.name
        assert len(frames.arrival) == len(frames.sender_time) == len(frames.settled)


def test_picture_is_drawn():
    svg = error_svg('a', {'tracking': [5.0] * 300, 'original': [1e3 * i + 1 for i in range(300)]})
    assert svg.startswith('<svg') and svg.count('<polyline') == 2 and len(svg) < 50_000


def test_every_mechanism_of_the_ablation_is_found_in_the_source():
    for name, mechanism in clock_ablation.MECHANISMS.items():
        file, text, without = mechanism
        source = (clock_ablation.ROOT / 'optitrack_vrpn' / 'clock' / file).read_text()
        assert source.count(text) == 1, name
        compile(source.replace(text, without), file, 'exec')


def test_without_its_bounded_cost_the_path_follows_load():
    scenario = replace(WIRED, name='load', loads=((60.0, 30.0, 2.0),))
    whole, less = clock_ablation.run((scenario, 100.0, False, ['bounded cost of load']))
    assert whole.worst < 30.0 < 300.0 < less.worst
    assert 'p99' in clock_ablation.changes(whole, less)[1]


def test_the_oracle_of_polled_frames_has_bounded_errors():
    sizes = clock_bound.oracle_errors(4000.0, 4000.0, 25.0, 900.0)
    # At 10 s the wait is 3750 of 0 to 3750 us; the step is at 160 s, and nothing is unknown then.
    assert sizes[0] == pytest.approx(1875.0)
    assert sizes[1600:].max() == 0.0 < sizes[1480]
    assert clock_bound.oracle_errors(2000.0, 4000.0, 0.0, 20.0).max() == 0.0


@pytest.mark.parametrize('lag', [None, 4.0, 10.0, 1000.0])
def test_what_the_oracle_of_swells_gains_under_load_it_loses_under_a_slew(lag):
    load, slew = clock_bound.swell_errors(1500.0, 60.0, 300.0, lag)
    assert (load + slew).max() == pytest.approx(1500.0)
    assert (load + slew)[:11900].max() == 0.0
    assert slew.max() == pytest.approx({None: 750.0, 4.0: 200.0, 10.0: 500.0}.get(lag, 1500.0))
