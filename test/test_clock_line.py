# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The line under the lags, against an exact lower hull and sessions of known truth."""

from dataclasses import replace
from pathlib import Path
import sys

sys.path[len(sys.path):] = [str(Path(__file__).parent.parent / 'bench')]

from clock import run  # noqa: E402
from clock_sim import Case, cases, every  # noqa: E402
import numpy as np  # noqa: E402
from optitrack_vrpn.stream.clock.line import Line  # noqa: E402
import pytest  # noqa: E402
from scipy.spatial import ConvexHull  # noqa: E402

S = 1_000_000_000
SHORT = Case('short', seconds=400.0, loads=every(150.0, 30.0, 400.0, 60.0, 2.0))


def test_the_line_is_the_lower_hull_of_the_least_lags():
    rng = np.random.default_rng(1)
    line, least = Line(), []
    line.begin(0, 0)
    sent = np.arange(0, 320 * S, S // 50)
    lags = 40e-6 * sent + rng.gamma(2.0, 100e3, len(sent))
    lags[0] = 0.0
    for k in range(1, len(sent)):
        line.add(int(sent[k]), int(lags[k]), int(lags[k]) - line.lag(int(sent[k])))
    # The edge of the convex hull 90 s ago, by another implementation.
    second = sent // S
    least = np.array([(sent[k], lags[k]) for s in range(20, 320)
                      for k in [np.flatnonzero(second == s)[lags[second == s].argmin()]]])
    hull = ConvexHull(least)
    lower = [e for e in hull.equations if e[1] < 0.0]
    at = 230.0 * S
    height = max(-(e[2] + e[0] * at) / e[1] for e in lower)
    assert line.lag(round(at)) == pytest.approx(height, abs=25e3)
    assert line.skew == pytest.approx(40e-6, abs=1e-6)


def test_load_of_30_s_does_not_lift_the_line():
    for spread in (False, True):
        row = run((replace(SHORT, spread=spread), 1))
        assert row['p99'] < 60.0 and row['covered'] > 0.95 and row['published'] > 0.99


@pytest.mark.parametrize('name, most_us', [
    ('WiFi, 30 s of load', 300.0), ('waves of 5 ppm, 30 s of load', 500.0),
    ('polls of 10 ms, 30 s of load', 600.0), ('bursts of 20 lost frames, 30 s of load', 60.0),
    ('NatNet round trips, 30 s of load', 200.0), ('ticks of 1 ms', 1100.0)])
def test_rows_of_the_table_hold(name, most_us):
    case = next(each for each in cases(300.0) if each.name == name)
    row = run((case, 2))
    assert row['p99'] < most_us and row['covered'] > 0.9 and row['restarts'] == {}


def test_a_change_of_the_floor_is_stated_before_it_is_followed():
    row = run((Case('route', seconds=120.0, events=((100.0, 'route', 3e-3),), settle_s=5.0), 1))
    assert row['covered'] > 0.98 and row['worst'] > 2000.0


def test_what_is_known_of_the_sender_is_used_after_a_new_line():
    """Load begins 5 s after a clock was set: the skew is known, the line stays down."""
    case = Case('set', seconds=300.0, events=((200.0, 'route', 0.05),),
                loads=((210.0, 30.0, 2.0),))
    row = run((case, 1))
    assert row['worst'] < 100.0 and row['restarts'] == {'offset_changed': 1}


@pytest.mark.parametrize('ppm', [50, 200, 500])
def test_the_uncertainty_contains_a_line_below_lags_that_rise(ppm):
    """As found by the cases of a stranger: a sender that is slewed by 500 ppm, 50 % covered."""
    rng = np.random.default_rng(3)
    line, beyond = Line(), []
    line.begin(0, 0)
    for k in range(1, 120 * 100):
        sent = k * S // 100
        ideal = max(0, sent - 60 * S) * ppm * 1e-6
        lag = round(ideal + rng.gamma(2.0, 30e3))
        line.add(sent, lag, lag - line.lag(sent))
        if sent > 66 * S:
            beyond.append(ideal - line.lag(sent) - line.uncertainty_ns)
    assert np.mean(np.array(beyond) <= 0.0) > 0.97
