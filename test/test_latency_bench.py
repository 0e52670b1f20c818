# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node accepts the data of the latency benchmark, which reads back what it sent."""

from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / 'bench')]

from hypothesis import given, strategies as st  # noqa: E402
from latency_mark import APART, mark, number_of, sent_at  # noqa: E402
from latency_tables import against_floor, aims, client_table, summary  # noqa: E402
from optitrack_vrpn.stream.bodies.tracker import Tracker  # noqa: E402
import pytest  # noqa: E402

NS = 1_000_000_000


@given(now=st.integers(0, 10**17), number=st.integers(0, 200_000), body=st.integers(0, 99),
       later=st.integers(0, 900 * NS))
def test_a_mark_tells_when_it_was_sent(now, number, body, later):
    x, y, z = mark(now, number)
    x += APART * body
    assert sent_at(x, y, now + later) == now
    assert number_of(z) == number


@pytest.mark.parametrize('rate', [240, 1000])
@pytest.mark.parametrize('start', [998 * NS, 999 * NS + NS // 2])
def test_what_is_marked_is_a_body_that_the_node_believes(rate, start):
    body = Tracker('marked')
    withheld = []
    for number in range(4 * rate):
        now = start + number * NS // rate
        if body.update(now, now, mark(now, number), (0.0, 0.6, 0.0, 0.8)) is None:
            withheld.append(number)
    assert withheld == [0, 1]    # until three frames agree
    assert body.resets == 0


def _turn(p99_us, cpu_us):
    return {'latencies_us': [p99_us] * 100, 'cpu_us': cpu_us, 'cpu_percent': 1.0,
            'resident_mb': 70.0, 'connected_s': 0.4, 'first_pose_s': 0.5, 'lost': 0,
            'expected': 100, 'tf_lost': 0, 'tf_expected': 100}


def test_a_machine_that_changes_its_speed_does_not_change_the_ratios():
    speeds = 1.0, 2.0, 4.0, 1.0, 3.0
    floor = [_turn(1000.0 * speed, 40.0 * speed) for speed in speeds]
    node = [_turn(1200.0 * speed, 48.0 * speed) for speed in speeds[:-1]] + [_turn(9e6, 144.0)]
    result = summary({(50, 240, 'floor'): floor, (50, 240, 'node'): node})
    lines = [*against_floor(result), *aims(result)]
    assert ('| 50 x 240 | 1.20 (1.20 to 3000.00) | 1.20 (1.20 to 3000.00) | 2250.00 '
            '| 1.20 (1.20 to 1.20) | 1.00 (1.00 to 1.00) |') in lines
    assert '| p99 at most 1.3 times | yes | 1.20 at 50 x 240 |' in lines
    # With few turns nothing is said about the aim.
    result = summary({(50, 240, 'floor'): floor[:4], (50, 240, 'node'): node[:4]})
    assert not [line for line in aims(result) if 'p99' in line]


def test_the_table_of_the_cpp_client_has_the_latest_poses_of_all_turns_and_the_floor_beside():
    def turns(p99_us, latest_us):
        turn = _turn(p99_us, 20.0)
        latest = {**turn, 'latencies_us': [*turn['latencies_us'][:-1], latest_us]}
        return [turn, latest, turn]

    result = summary({
        (20, 240, 'floor best effort'): turns(200.0, 500.0),
        (20, 240, 'node best effort'): turns(300.0, 600.0),
        (20, 240, 'vrpn_mocap 1000 best effort'): turns(600.0, 2000.0),
        (20, 240, 'vrpn_mocap 1000'): turns(600.0, 1000.0)})
    result['machine'] = {
        'processors': 2, 'machine': 'x86_64', 'system': 'Linux', 'python': '3', 'ros': 'jazzy',
        'node': 'compiled', 'repetitions': 3, 'seconds': 1.0, 'load_before': 0.0}
    rows = [[cell.strip() for cell in line.split('|')[1:-1]]
            for line in client_table(result).splitlines()]
    ratios = {row[1]: row[4] for row in rows if len(row) == 6 and row[0] == '20 x 240'}
    # One turn of three had the pose: neither the median of the turns nor a p99 has it.
    assert ratios == {'floor / vrpn_mocap 1000 best effort': '0.25',
                      'node / vrpn_mocap 1000 best effort': '0.30'}
    latest_ms = {row[1]: row[4] for row in rows if len(row) == 11 and row[0] == '20 x 240'}
    assert latest_ms['node best effort'] == '0.600'
    assert latest_ms['vrpn_mocap 1000'] == '1.000'
