# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Output of commands on a terminal, by rich: lines that are redrawn in place, coloured words."""

import os
import sys
from typing import Any, Optional, Sequence

from rich.console import Console
from rich.live import Live
from rich.text import Text

#: For a terminal that does not report its size.
_COLUMNS, _LINES = 80, 24


def console(**options: Any) -> Console:
    """Return a console that changes no text; colours only on a terminal, without NO_COLOR."""
    return Console(highlight=False, markup=False, emoji=False, **options)


class Screen:
    """
    Draw lines in place of the last ones on a terminal; elsewhere print them.

    Use it as a context manager, or call ``close`` before other output.

    :ivar live: whether the output is a terminal that can move its cursor.
    """

    def __init__(self) -> None:
        self._console = console()
        self.live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live: Optional[Live] = None
        self._columns = 0

    def __enter__(self) -> 'Screen':
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

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
        """Show a line that stays, above what is drawn."""
        self._console.print(Text(f'{line}\n'), soft_wrap=True)

    def draw(self, lines: Sequence[str]) -> None:
        """Show lines in place of the last ones; on a terminal they must fit ``size``."""
        if not self.live:
            print('\n'.join(lines), flush=True)
            return
        columns, height = self.size()
        if columns < self._columns:
            # The terminal has wrapped the last lines, of which rich does not know.
            self.close()
            self._console.clear()
        self._columns = columns
        if self._live is None:
            self._live = Live(
                console=self._console, auto_refresh=False, vertical_overflow='crop')
            self._live.start()
        self._console.size = (columns, height)
        self._live.update(Text('\n'.join(lines), no_wrap=True, overflow='crop'), refresh=True)

    def close(self) -> None:
        """Leave the last lines where they are, and show the cursor; idempotent."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()
