# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The folder of takes: their list with the verdicts of their reports, which are made here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
import contextlib
import functools
import json
import math
import os
from pathlib import Path
import sys
import tempfile
import time
from typing import Any, IO

from optitrack_vrpn.cli.child_io import Child, start_program
from optitrack_vrpn.core.names import printable

#: Chosen: longest time for a report (s): one of 2 h of 20 bodies takes two minutes.
_REPORT_S = 900.0
#: Chosen: period of the check whether it has ended (s).
_TURN_S = 0.1
#: Chosen: takes that the page lists, and period of reading the folder (s).
_MOST, _LOOK_S = 50, 1.0
#: Chosen: longest time (s) from the activation of a recorder until the page knows of it.
_NOTICED_S = 3.0
#: What the page gets of a take.
_SHOWN = ('name', 'time', 'seconds', 'megabytes', 'level', 'verdict')
#: The output of ``report --json``, in the folder of its take.
_VERDICT = 'report.json'


class Takes:
    """
    List the recordings in a folder, and assess them.

    :param folder: holds one folder per take.
    :param changed: called when something that the page shows has changed.
    """

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self.folder = folder
        self._changed = changed
        self._active: dict[str, Any] = {}
        #: Folders of takes that were being recorded, until they are closed.
        self._open: set[str] = set()
        self._reporting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rows: list[dict[str, Any]] = []
        self._due = -math.inf
        self._recording = False
        self._since = math.inf
        #: Folder of the take that was recorded last, by the present recording or the one before.
        self._last = ''

    async def close(self) -> None:
        """End the reports."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def page(self, name: str) -> Path:
        """
        Return the path of the report of a take.

        :raises ValueError: if there is no such take; a link to another folder is not accepted.
        """
        folder = self.folder / name
        try:
            if name != folder.name or name.startswith('.') or (
                    folder.resolve() != self.folder.resolve() / name):
                raise ValueError(f'{printable(name)} is no folder in {self.folder}')
            if not any(path.suffix in ('.mcap', '.db3') or path.name == 'metadata.yaml'
                       for path in folder.iterdir()):
                raise ValueError(f'{printable(name)} holds no recording')
        except (OSError, RuntimeError) as error:    # a loop of links is a RuntimeError
            raise ValueError(f'{printable(name)} cannot be read: {printable(str(error))}') \
                from error
        return folder / 'report.html'

    async def report(self, name: str) -> str:
        """
        Write the report of a take if there is none.

        :returns: why there is none, '' if there is one.
        """
        try:
            page, problem = self.page(name), ''
        except ValueError as error:    # removed meanwhile
            return str(error)
        folder = page.parent
        async with self._reporting:    # one at a time: it takes a core
            if not page.is_file():
                with tempfile.TemporaryFile() as file:
                    code, errors = await self._assess(folder, page, file)
                    output = os.pread(file.fileno(), 1 << 24, 0)
                if code:
                    problem = f'cannot be assessed: {errors.strip()[-200:]}'
                    output = json.dumps({'severity': 'error', 'verdict': problem,
                                         'duration_s': None}).encode()
                with contextlib.suppress(OSError):
                    (folder / _VERDICT).write_bytes(output)
        self._due = -math.inf
        self._changed()
        return problem

    async def _assess(self, folder: Path, page: Path, output: IO[bytes]) -> tuple[int, str]:
        """Run a report; return its exit code and its errors."""
        children: list[Child] = []
        end = time.monotonic() + _REPORT_S
        try:
            child = start_program([
                'nice', '-n', '10', sys.executable, '-m', 'optitrack_vrpn', 'report',
                str(folder), '--json', '-o', str(page)], children, output)
            while child.process.poll() is None and time.monotonic() < end:
                await asyncio.sleep(_TURN_S)
            code = child.process.poll()
            return (1, f'it takes more than {_REPORT_S:g} s') if code is None else (
                code, child.text())
        finally:
            for child in children:
                child.stop(0.5)

    def update(self, recording: bool, now: float) -> None:
        """
        Read the folder from time to time; assess a take when its recorder has closed it.

        :param recording: whether a recorder is active. It may write to another folder: only a
            take that has grown since is the one that is being recorded.
        """
        if recording is not self._recording:
            self._recording, self._due = recording, now
            if recording:
                self._since, self._last = time.time() - _NOTICED_S, ''
        if now >= self._due:
            self._due = now + _LOOK_S
            rows: list[dict[str, Any]] = []
            with contextlib.suppress(OSError):
                for folder in self.folder.iterdir():
                    if folder.is_dir() and not folder.name.startswith('.'):
                        with contextlib.suppress(OSError):    # renamed or removed meanwhile
                            rows += _rows(folder)
            rows.sort(key=lambda row: -row['time'])
            self._rows = rows[:_MOST]
            for row in rows:
                if row['closed'] and row['folder'] in self._open:
                    self._open.discard(row['folder'])
                    task = asyncio.ensure_future(self.report(row['folder']))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        self._active = next((row for row in self._rows if recording and not row['closed']
                             and row['time'] >= self._since), {})
        if self._active:
            self._last = self._active['folder']
            self._open.add(self._last)

    @property
    def unfinished(self) -> str:
        """Return the take that was recorded last if it is open and nobody records, or ''."""
        return next((row['name'] for row in self._rows if row['folder'] == self._last
                     and not row['closed'] and not self._recording), '')

    def status(self) -> dict[str, Any]:
        """Describe the recording and the takes for the page."""
        active = self._active and {
            'name': self._active['name'], 'megabytes': self._active['megabytes'],
            'seconds': round(max(time.time() - self._active['begin'], 0.0), 1)}
        return {'active': active or None, 'folder': str(self.folder),
                'takes': [{key: row[key] for key in _SHOWN} for row in self._rows
                          if row is not self._active]}


def _rows(folder: Path) -> list[dict[str, Any]]:
    """Describe the take of a folder by its files and its report; empty if there is none."""
    files = [path.stat() for path in folder.glob('*.mcap')]
    if not files:
        return []
    verdict, found = folder / _VERDICT, {}
    with contextlib.suppress(OSError):
        found = _verdict(verdict, verdict.stat().st_mtime_ns)
    closed = (folder / 'metadata.yaml').is_file()
    return [{
        'name': printable(folder.name), 'folder': folder.name, 'closed': closed,
        'begin': folder.stat().st_mtime, 'time': max(one.st_mtime for one in files),
        'seconds': found.get('duration_s'),
        'megabytes': round(sum(one.st_size for one in files) / 1e6, 2),
        'level': found.get('severity', '' if closed else 'error'),
        'verdict': printable(str(found.get('verdict', 'not assessed yet' if closed else (
            'not closed: record --recover repairs it'))), 300)}]


@functools.lru_cache(maxsize=2 * _MOST)
def _verdict(path: Path, changed_ns: int) -> dict[str, Any]:
    """Read a verdict; {} if it is none."""
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
