# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The short form of the soak test runs and detects growth."""

import os
from pathlib import Path
import random
import subprocess
import sys

BENCH = Path(__file__).resolve().parent.parent / 'bench'
sys.path[:0] = [str(BENCH)]

import pytest  # noqa: E402
from soak import Reading, verdict  # noqa: E402


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_soak_survives_restarts_and_stays_flat():
    # A restart, found by UDP after a second of silence, takes more than a quarter of 8 s.
    done = subprocess.run(
        [sys.executable, str(BENCH / 'soak.py'), '--seconds', '16', '--bodies', '4', '--rate',
         '100', '--protocol', 'natnet'],
        capture_output=True, text=True, timeout=100, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '\nflat' in done.stdout
    assert 'rss_mb: ' in done.stdout and ' threads, ' in done.stdout


def readings(rss_mb=lambda t: 90.0, threads=lambda t: 12, files=lambda t: 30, poses=lambda t: t):
    draw = random.Random(1)
    return [Reading(5.0 * i, rss_mb(5 * i) + draw.gauss(0, 0.2), threads(5 * i), files(5 * i),
                    0.0, poses(5 * i)) for i in range(720)]


def test_an_hour_of_the_same_is_flat():
    assert verdict(readings()) == []
    # more or less for a moment in each minute, and a start that takes its time
    assert verdict(readings(
        lambda t: 90.0 - 20.0 * 0.99 ** t, files=lambda t: 33 if t % 60 < 5 else 30)) == []
    assert verdict(readings(files=lambda t: 28 if t in (1205, 3000) else 30)) == []


@pytest.mark.parametrize('grows, said', [
    ({'rss_mb': lambda t: 90.0 + 5.0 * t / 3600}, 'memory (MB) grew'),
    ({'threads': lambda t: 12 + t // 900}, 'threads grew'),
    ({'files': lambda t: 30 + t // 60}, 'files grew'),
    ({'poses': lambda t: min(t, 2000)}, 'no poses came'),
])
def test_what_grows_or_ends_is_noticed(grows, said):
    found = verdict(readings(**grows))
    assert len(found) == 1 and said in found[0]
