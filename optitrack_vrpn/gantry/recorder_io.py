# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write a recording as in the thesis, in a separate thread, so that a slow disk delays no cycle.

It is a CSV with semicolons, one row per cycle: time in ms; position, velocity and acceleration of
each axis; the three coefficients of the cubic of each axis; the mocap value of each axis, empty
without a valid one.
"""

import datetime
from pathlib import Path
import queue
import threading
from typing import Mapping, Optional, Sequence

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.gantry.control import AxisView
from optitrack_vrpn.gantry.setpoints import Cubic

#: Chosen: lines that wait for the disk (100 s at 100 Hz); further lines are dropped and counted.
_MOST_WAITING = 10_000
#: Chosen: time for the disk to take the last lines (s).
_CLOSE_S = 10.0


class Recorder:
    """
    Write lines to a file named by date and time; it stays open while recording.

    :param folder: folder of the file; created if it is missing.
    :param names: names of the axes.
    :raises ConfigurationError: if the file cannot be created.
    :ivar path: path of the file.
    :ivar dropped: number of lines that are missing because the disk was full or too slow.
    """

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        place = Path(folder).expanduser()
        stamp = datetime.datetime.now().strftime('%Y-%m-%d_%H-%M-%S')
        try:
            place.mkdir(parents=True, exist_ok=True)
            self.path = place / f'{stamp}.csv'
            number = 1
            while self.path.exists():
                number += 1
                self.path = place / f'{stamp}_{number}.csv'
            self._file = open(self.path, 'x', encoding='ascii')
        except OSError as error:
            raise ConfigurationError(
                f'record_folder {folder}: cannot be written ({error.strerror})') from None
        self.dropped = 0
        self._lines: queue.Queue[Optional[str]] = queue.Queue(_MOST_WAITING)
        self._lines.put(header(names))
        self._thread = threading.Thread(target=self._run, name='recorder', daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Add a line; never blocks."""
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.dropped += 1

    def _run(self) -> None:
        while True:
            line = self._lines.get()
            if line is None:
                return
            try:
                self._file.write(line)
                if self._lines.empty():
                    self._file.flush()
            except OSError:
                self.dropped += 1

    def close(self) -> None:
        """Write the waiting lines, and close the file."""
        try:
            self._lines.put(None, timeout=_CLOSE_S)
        except queue.Full:      # the disk does not answer: nothing more can be written
            self.dropped += self._lines.qsize()
            return
        self._thread.join(_CLOSE_S)
        try:
            self._file.close()
        except OSError:
            self.dropped += 1


def header(names: Sequence[str]) -> str:
    """Return the first line: the names of the columns."""
    cells = ['time_ms']
    for part in ('position', 'velocity', 'acceleration'):
        cells += [f'{name}_{part}' for name in names]
    for name in names:
        cells += [f'{name}_a', f'{name}_b', f'{name}_c']
    return ';'.join([*cells, *(f'{name}_mocap' for name in names)]) + '\n'


def row(time_ms: float, views: Sequence[AxisView], cubics: Mapping[str, Cubic]) -> str:
    """
    Return the line of a cycle.

    :param time_ms: time since the start of the recording (ms).
    :param views: state of each axis.
    :param cubics: cubic of each axis, by name.
    """
    cells = [f'{time_ms:.1f}']
    for part in ('position', 'velocity', 'acceleration'):
        cells += [f'{getattr(view, part):.9g}' for view in views]
    for view in views:
        cubic = cubics[view.name]
        cells += [f'{cubic.a:.9g}', f'{cubic.b:.9g}', f'{cubic.c:.9g}']
    cells += ['' if view.measured is None else f'{view.measured:.9g}' for view in views]
    return ';'.join(cells) + '\n'
