# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The clock chart of a report: which explanation is open while delays are longer."""

from optitrack_vrpn.takes.assess.charts import clock_picture, longer_delays
from optitrack_vrpn.takes.take import ClockRow, Take

S = 1_000_000_000


def take(*since_s):
    """Make a take with a report of the clock each second, whose delays are 2.1 ms longer."""
    made = Take('t', 'bag')
    made.clock += [ClockRow(at * S, 0, 1.0, 1.0, 30.0, 2100.0 if since else 0.0, since)
                   for at, since in enumerate(since_s)]
    return made


def seconds(at_ns):
    return f'{at_ns / S:g}'


def test_longer_delays_are_one_span_from_their_begin_to_the_last_report():
    found = longer_delays(take(0, 0, 0, 2, 3, 0, 0, 0, 1.5, 2.5))
    assert found == [(1 * S, 4 * S, 2.1), (6.5 * S, 9 * S, 2.1)]


def test_the_chart_says_which_explanation_is_open_and_when():
    picture = clock_picture(take(0, 0, 0, 2, 3, 0), seconds)
    assert '(2.1 ms from 1 until 4): load, or a longer route.' in picture.caption
    assert 'longer delays (ms)' in picture.svg
    assert 'load, or' not in clock_picture(take(0, 0, 0), seconds).caption
