# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Output on a terminal, by rich: tables, lines that are redrawn in place, progress."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
import os
import sys
import time
from typing import Any, Optional, TypeVar

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

    def __enter__(self) -> Screen:
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


def format_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str] = (),
    width: int = 0, dispensable: Sequence[str] = (),
) -> list[str]:
    """
    Format rows below a head and a rule.

    :param head: names of the columns.
    :param rows: cells of each row.
    :param left: columns that are aligned at the left.
    :param width: columns of the terminal; 0 for no limit.
    :param dispensable: columns in the order in which they are left out on a narrow terminal.
    :returns: lines without colours; wider than the terminal if the other columns are.
    """
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    kept = list(range(len(head)))
    for name in dispensable:
        if width and sum(widths[i] + 2 for i in kept) - 2 > width:
            kept.remove(head.index(name))
    lines = ['  '.join(
        row[i].ljust(widths[i]) if head[i] in left else row[i].rjust(widths[i])
        for i in kept).rstrip() for row in cells]
    lines.insert(1, '  '.join('-' * widths[i] for i in kept))
    return lines


T = TypeVar('T')

#: Least time between two lines, and before the first one (s).
_PERIOD_S, _FIRST_S = 0.2, 1.0


class Progress:
    """A line on the terminal, rewritten for each step, and removed at the end."""

    def __init__(self, what: str, steps: int = 1) -> None:
        self._what, self._steps = what, steps
        self._began = time.monotonic()
        self._due = self._began + _FIRST_S
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self._shown:
            sys.stderr.write('\r\x1b[K')
            sys.stderr.flush()

    def show(self, share: float) -> None:
        """Show the fraction that is done, 0 to 1."""
        now = time.monotonic()
        if now < self._due or not sys.stderr.isatty():
            return
        self._due, self._shown = now + _PERIOD_S, True
        left = (now - self._began) * (1.0 - share) / share if share > 0.0 else 0.0
        sys.stderr.write(f'\r{self._what} {100 * share:.0f} %, {left:.0f} s left\x1b[K')
        sys.stderr.flush()

    def over(self, values: Iterable[T]) -> Iterator[T]:
        """Give values, and show the progress after each."""
        for number, value in enumerate(values, 1):
            yield value
            self.show(number / self._steps)
