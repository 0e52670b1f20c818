# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo's table on terminals of any size, and without a terminal."""

import os
import re

from hypothesis import given, strategies as st
from optitrack_vrpn.cli.terminal_io import Screen
from optitrack_vrpn.sim.demo.table import BodyRow, table
import pytest

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


class Terminal:
    """A few words of ECMA-48, enough for what is drawn; the rest fails."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.screen, self.gone, self.row = [''] * height, [], 0

    def write(self, text):
        for part in re.findall(r'\x1b\[\??\d*[A-Za-z]|[\n\r]|[^\x1b\n\r]+', text):
            if part == '\n':
                self.down()
            elif part == '\x1b[2K':
                self.screen[self.row] = ''
            elif part in ('\r', '\x1b[?25l', '\x1b[?25h'):
                pass
            elif part.startswith('\x1b'):
                assert part == '\x1b[1A' and self.row
                self.row -= 1
                continue
            else:
                assert len(part) <= self.width, 'a line wrapped'
                self.screen[self.row] = part + self.screen[self.row][len(part):]
                self.column = len(part)
                continue
            self.column = 0 if part in '\n\r' else self.column

    column = 0

    def down(self):
        self.row += 1
        if self.row == self.height:
            self.gone.append(self.screen.pop(0))
            self.screen.append('')
            self.row -= 1


def drawn(monkeypatch, width, height, steps):
    """Draw tables of so many bodies one after the other on a terminal."""
    terminal = Terminal(width, height)
    monkeypatch.setattr('sys.stdout', type('Output', (), {
        'isatty': staticmethod(lambda: True), 'fileno': staticmethod(lambda: 1),
        'write': staticmethod(terminal.write), 'flush': staticmethod(lambda: None)}))
    monkeypatch.setattr(os, 'get_terminal_size', lambda fd: os.terminal_size((width, height)))
    terminal.write('demo: the node is active\n\n')
    with Screen() as screen:
        for count in steps:
            screen.draw(table(rows(count), CLOCK, STATE, *screen.size()))
    return terminal


@pytest.mark.parametrize('steps', [(3, 3, 3), (30, 30, 30), (1, 30, 2), (0, 3, 30, 3)])
@pytest.mark.parametrize('width, height', [(80, 24), (60, 15), (200, 50), (40, 10)])
def test_a_table_is_drawn_over_the_last_one(monkeypatch, width, height, steps):
    terminal = drawn(monkeypatch, width, height, steps)
    everything = terminal.gone + terminal.screen
    assert sum(line.startswith('body ') for line in everything) == 1, '\n'.join(everything)
    names = [line.split()[0] for line in everything if line.startswith('Demo_Body_')]
    assert len(names) == len(set(names))


def test_what_is_piped_has_no_control_sequences(capsys):
    screen = Screen()
    screen.draw(table(rows(30), CLOCK, STATE, *screen.size()))
    screen.draw(table(rows(3), CLOCK, STATE, *screen.size()))
    text = capsys.readouterr().out
    assert '\x1b' not in text and text.count('Demo_Body_3 ') == 2
