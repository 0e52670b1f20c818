# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamp a whole recording, known from both sides: divide it into runs, place them on the floor.

The node's ``StampSource`` runs over the recording first; it finds epochs, refuses what cannot be
stamped, and gives the stamps of runs that are too short. Then each run of the clocks (one epoch,
or several with gaps between them) gets the floor of least cost under all of its minima
(``floor.py``). The promises of ``source.py`` hold: never later than arrival, rising with the
sender's time within an epoch, equal sender times equal stamps.

Frames that arrived after a step of a clock and before it was recognised belong to the epoch that
it began.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from optitrack_vrpn.clock.floor import find_floor, Floor
from optitrack_vrpn.clock.source import StampSource
from optitrack_vrpn.clock.types import GAP

REFUSED = -1
"""In place of a stamp."""
_LATE_NS = 10_000_000
_BLOCK_NS = 1_000_000_000
"""A frame this late for its epoch belongs to the next one; length of a block (as in
``tracking.py``)."""
_EARLY_NS = 1_000_000
"""A frame that is earlier than this for the next epoch does not belong to it. Chosen: above the
error of a floor; half of it or twice as much moves the border by single frames."""
_STEP_FRAMES = 200_000
"""Frames that are examined before a step is recognised. Chosen: 90 s at 2000 Hz; half of it leaves
late frames at 2000 Hz in the old epoch, twice as many change nothing."""


class _Run(NamedTuple):
    """Rows of one run of the clocks, and its floor."""

    begin: int
    end: int
    sender_ns: int
    """Zero of its times."""
    base_ns: int
    """Zero of its heights."""
    floor: Floor | None

    def place(self, placed_ns: Any) -> Any:
        """Return the places of frames on the arrival clock (ns)."""
        assert self.floor is not None
        height = self.floor.at((placed_ns - self.sender_ns) * 1e-9)
        return placed_ns + self.base_ns + (height * 1e3).astype(np.int64)


class Recording:
    """
    Pairs of times, in order of arrival; 40 bytes each.

    :param source: source of the stamps of the node, for this recording alone, in mode tracking.
    :ivar stamps: those of the node until ``smooth`` is called; ``REFUSED`` for none (ns).
    :ivar epochs: numbers of the epochs.
    """

    def __init__(self, source: StampSource) -> None:
        self.epochs = array('l')
        self._source = source
        self._sender = array('q')
        self._placed = array('q')
        self._arrival = array('q')
        self.stamps = array('q')
        # First row and reason of each epoch.
        self._begins: list[tuple[int, str]] = [(0, '')]

    def add(self, sender_ns: int, arrival_ns: int) -> list[str]:
        """
        Take a frame.

        :returns: what happened to the clocks, as text.
        """
        stamp = self._source.stamp(sender_ns, arrival_ns)
        events = self._source.events()
        for event in events:
            if event.data.kind == 'epoch_ended':
                self._begins.append((len(self.stamps), event.data.reason))
        self.epochs.append(len(self._begins) - 1)
        self._sender.append(sender_ns)
        self._arrival.append(arrival_ns)
        self.stamps.append(REFUSED if stamp is None else stamp)
        self._placed.append(
            sender_ns if stamp is None else self._source.placed_ns(sender_ns))
        return [event.text for event in events]

    def smooth(self, latency_ns: int = 0) -> array[int]:
        """
        Return the stamp of each frame (ns); ``REFUSED`` for one that has none.

        ``epochs`` is corrected where a step was recognised late.

        :param latency_ns: subtracted from every stamp, as the source does.
        """
        runs = [self._run(begin, end) for begin, end in self._runs()]
        for k in range(1, len(runs)):
            runs[k - 1], runs[k] = self._move_border(runs[k - 1], runs[k])
        for run in runs:
            if run.floor is not None:
                self._stamp(run, latency_ns)
        return self.stamps

    def _rows(self, begin: int, end: int) -> tuple[Any, Any, Any, Any]:
        """Return numbers, sender times, their places, and arrivals of the rows with a stamp."""
        sender, placed, arrival, stamps = (np.array(column[begin:end]) for column in (
            self._sender, self._placed, self._arrival, self.stamps))
        (rows,) = np.nonzero(stamps != REFUSED)
        return rows + begin, sender[rows], placed[rows], arrival[rows]

    def _runs(self) -> Iterator[tuple[int, int]]:
        begins = [row for row, reason in self._begins if reason != GAP]
        for begin, end in zip(begins, [*begins[1:], len(self.stamps)], strict=True):
            if end > begin:
                yield begin, end

    def _run(self, begin: int, end: int) -> _Run:
        """Find the floor of a run under the least of each second of the sender's time."""
        _, _, placed, arrival = self._rows(begin, end)
        if not len(placed):
            return _Run(begin, end, 0, 0, None)
        sender, base = int(placed[0]), int(arrival[0] - placed[0])
        height = arrival - placed - base
        block = (placed - sender) // _BLOCK_NS
        order = np.lexsort((height, block))
        least = order[np.unique(block[order], return_index=True)[1]]
        return _Run(begin, end, sender, base, find_floor(
            ((placed[least] - sender) * 1e-9).tolist(), (height[least] * 1e-3).tolist()))

    def _move_border(self, before: _Run, after: _Run) -> tuple[_Run, _Run]:
        """Give the frames between a step and its recognition to the epoch that it began."""
        if before.floor is None or after.floor is None:
            return before, after
        rows, _, placed, arrival = self._rows(
            max(before.begin, before.end - _STEP_FRAMES), before.end)
        old = rows[(arrival - before.place(placed) < _LATE_NS)
                   | (arrival - after.place(placed) < -_EARLY_NS)]
        border = int(old[-1]) + 1 if len(old) else before.begin
        for i in range(border, before.end):
            self.epochs[i] = self.epochs[before.end]
        return before._replace(end=border), after._replace(begin=border)

    def _stamp(self, run: _Run, latency_ns: int) -> None:
        """Stamp the frames of a run."""
        rows, sender, placed, arrival = self._rows(run.begin, run.end)
        times, frame = np.unique(sender, return_inverse=True)
        limit = np.full(len(times), np.iinfo(np.int64).max)
        np.minimum.at(limit, frame, np.minimum(arrival, run.place(placed) - latency_ns))
        # Where a newer frame arrived before its place, earlier ones advance at an eighth of
        # their rate, as in the node: none goes back, and none repeats.
        least = np.cumsum(np.diff(times, prepend=times[:1]) >> 3)
        limit = np.minimum.accumulate((limit - least)[::-1])[::-1] + least
        for row, stamp in zip(rows.tolist(), limit[frame].tolist(), strict=True):
            self.stamps[row] = stamp
