# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Progress of long commands: a line on a terminal, nothing in a pipe."""

import io

from optitrack_vrpn.cli.terminal_io import Progress
import pytest


class Stream(io.StringIO):

    def __init__(self, terminal):
        super().__init__()
        self._terminal = terminal

    def isatty(self):
        return self._terminal


@pytest.mark.parametrize('terminal', [True, False])
def test_a_terminal_shows_percent_and_seconds_left_and_is_clean_afterwards(terminal):
    stream, now = Stream(terminal), [0.0]
    with Progress('reading', 100, stream, lambda: now[0]) as bar:
        for value in bar.over(range(100)):
            now[0] += 0.1
            assert value < 11 or not terminal or 'reading' in stream.getvalue()
    lines = stream.getvalue().split('\r')
    assert ('reading 51 %, 5 s left\x1b[K' in lines) == terminal
    assert lines[-1] == ('\x1b[K' if terminal else '')
    assert len(lines) <= 48    # five a second are enough


def test_the_part_of_a_file_that_was_read_is_known(tmp_path):
    path, stream, now = tmp_path / 'a.csv', Stream(True), [0.0]
    path.write_text('x' * 99 + '\n' + ('y' * 99 + '\n') * 9999)
    with open(path) as file, Progress('stamping', 1, stream, lambda: now[0]) as bar:
        for number, _ in enumerate(bar.over_file(file, file)):
            now[0] += 0.001
            if number == 5000:
                (percent,) = {line.split()[1] for line in stream.getvalue().split('\r')[-1:]}
    assert 48 <= int(percent) <= 52
