# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo's table on terminals of any size, and without a terminal."""

import re

from hypothesis import given, strategies as st
from optitrack_vrpn.sim.demo.table import BodyRow, table

CLOCK = {
    'mode': 'tracking', 'epoch': '0', 'skew_ppm': '-52.583', 'uncertainty_us': '235.2',
    'offset_s': '1795266572.228851795', 'sender_base': 'sender_start',
    'arrival_jitter_p99_us': '1961.3'}
STATE = 'streaming: poses are arriving'


def rows(count):
    return [BodyRow(f'Demo_Body_{number}', 99999, 240.0, (0.1, -0.2, 1.0), 123.0, True)
            for number in range(1, count + 1)]


@given(st.integers(0, 200), st.integers(20, 200), st.integers(6, 80), st.floats(0, 100))
def test_a_table_fits_every_terminal(count, width, height, elapsed_s):
    lines = table(rows(count), CLOCK, STATE, width, height, elapsed_s)
    assert all(len(line) <= width for line in lines)
    # One line stays for the cursor, or the terminal would scroll and leave a copy.
    assert len(lines) < height
    assert lines[0].startswith('body')


def test_thirty_bodies_take_turns_in_24_rows():
    seen = set()
    for turn in range(4):
        lines = table(rows(30), CLOCK, STATE, 80, 24, 3.0 * turn)
        assert len(lines) == 23 and lines[-1] == STATE
        assert re.search(r'^bodies \d+ to \d+ of 30$', '\n'.join(lines), re.MULTILINE)
        seen |= set(re.findall(r'^Demo_Body_\d+', '\n'.join(lines), re.MULTILINE))
    assert len(seen) == 30
