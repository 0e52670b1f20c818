# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The figures of many robots on one network, and a short run of the benchmark with two of them."""

import csv
from pathlib import Path
import subprocess
import sys

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parent.parent / 'bench'
sys.path[:0] = [str(BENCH)]

from swarm_figures import ages_ms, share_without  # noqa: E402

MS = 10**6
PERIOD_NS, LATENCY_NS, COUNT = 20 * MS, 3 * MS, 20_000


def heard(keep):
    """Give what arrives of periodic poses with a constant latency."""
    stamps = np.flatnonzero(keep) * PERIOD_NS
    return [(int(stamp) + LATENCY_NS, int(stamp)) for stamp in stamps]


def test_without_loss_the_age_is_uniform_over_one_period():
    found = heard(np.ones(COUNT, dtype=bool))
    ages = ages_ms(found, 5 * PERIOD_NS, COUNT * PERIOD_NS)
    for share in (0.01, 0.5, 0.99):
        assert np.quantile(ages, share) == pytest.approx(3.0 + 20.0 * share, abs=0.25)
    assert share_without(found, 5 * PERIOD_NS, COUNT * PERIOD_NS, PERIOD_NS) == 0.0


@pytest.mark.parametrize('loss', [0.05, 0.2])
def test_with_independent_loss_the_age_has_a_geometric_tail(loss):
    """The age exceeds the latency and k periods when the last k poses were lost: loss ** k."""
    found = heard(np.random.default_rng(3).random(COUNT) >= loss)
    ages = ages_ms(found, 0, COUNT * PERIOD_NS)
    for lost in (1, 2, 3):
        assert np.mean(ages > 3.0 + 20.0 * lost) == pytest.approx(loss**lost, rel=0.3, abs=5e-4)
    assert share_without(found, 0, COUNT * PERIOD_NS, PERIOD_NS) == pytest.approx(loss, rel=0.05)


# -- a run ----------------------------------------------------------------------------------------

def bench(*arguments, **options):
    return subprocess.Popen([sys.executable, str(BENCH / 'swarm.py'), *map(str, arguments)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def skip_without_namespaces(process, errors):
    if process.returncode == 2:
        assert len(errors.splitlines()) == 1
        pytest.skip(errors.strip())


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_two_robots_receive_their_poses_and_the_loss_is_seen(tmp_path):
    process = bench('--quick', '--outputs', 'pose', '--discovery', 'peer', '--losses', 0, 60,
                    '--output', tmp_path)
    text, errors = process.communicate(timeout=150)
    skip_without_namespaces(process, errors)
    assert process.returncode == 0, errors
    assert 'age p99 ms' in text
    (start,) = csv.DictReader((tmp_path / 'swarm_starts.csv').open())
    # Two robots announce themselves to four ports at least five times. Most frames are between a
    # robot and the ground station: one on the air, one at one card.
    assert 40 <= int(start['frames']) < 2000
    assert int(start['frames']) == pytest.approx(int(start['packets']), rel=0.3)
    calm, lossy = csv.DictReader((tmp_path / 'swarm_streams.csv').open())
    # 100 poses/s of 88 bytes; a UDP datagram of RTPS has 90 bytes of headers or more.
    assert 100 * (88 + 90) < 1e3 * float(calm['kilobytes_s']) < 100 * 400
    assert float(lossy['missed_percent']) > max(50.0, float(calm['missed_percent']))
    assert (tmp_path / 'swarm_curves.svg').read_text().count('currentColor')
