# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Redraw lines in place on a terminal."""

import os
import sys
from typing import Sequence

from optitrack_vrpn.demo.view import rows_taken

#: For a terminal that does not report its size.
_COLUMNS, _LINES = 80, 24


class Screen:
    """
    Draw lines in place of the last ones on a terminal; elsewhere print them.

    :ivar live: whether the output is a terminal.
    """

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._drawn: Sequence[str] = ()

    def size(self) -> tuple[int, int]:
        """Return columns and lines; for a file or a pipe COLUMNS, or 80, and no limit (0)."""
        if not self.live:
            text = os.environ.get('COLUMNS', '')
            return int(text) if text.isdecimal() else _COLUMNS, 0
        try:
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        except OSError:
            return _COLUMNS, _LINES
        return columns or _COLUMNS, lines or _LINES

    def say(self, line: str) -> None:
        """Show a line that stays, above what is drawn next."""
        self.draw([line, ''])
        self._drawn = ()

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines in place of the last ones; on a terminal they must fit ``size``."""
        text = '\n'.join(lines) + '\n'
        if self.live:
            columns, height = self.size()
            # A terminal that became narrower has wrapped the last lines.
            up = min(rows_taken(self._drawn, columns), height - 1)
            # One write, so that the terminal shows complete frames. Each line is cleared
            # separately: some terminals scroll a screen that is cleared from its top into history.
            text = (f'\x1b[{up}F' if up else '') + text.replace('\n', '\x1b[K\n') + '\x1b[J'
        sys.stdout.write(text)
        sys.stdout.flush()
        self._drawn = list(lines)
