# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The recorder and the reports, as processes of their own, and the folder of takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
import contextlib
import json
import os
from pathlib import Path
import re
import signal
import sys
import time
from typing import Any, Optional

from optitrack_vrpn.cli.signals_io import with_parent
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.takes.topics import safe_name

#: Chosen: time for a recorder to close its file (s): a slow disk needs some seconds. It is then
#: killed; ``record --recover`` repairs the file.
_CLOSING_S = 20.0
#: Chosen: longest time for a report (s): one of 2 h of 20 bodies takes two minutes.
_REPORT_S = 900.0
#: Chosen: takes that the page lists.
_MOST = 50
#: The output of ``report --json``, in the folder of its take.
_VERDICT = 'report.json'


class Takes:
    """
    Record into a folder, and assess the recordings.

    :param folder: holds one folder per take.
    :param changed: called when something that the page shows has changed.
    """

    def __init__(self, folder: Path, changed: Callable[[], None]) -> None:
        self.folder = folder
        self._changed = changed
        self._process: Optional[asyncio.subprocess.Process] = None
        self._active: dict[str, Any] = {}
        self._began = 0.0
        self._last = ''
        self._reporting = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._rows: list[dict[str, Any]] = []
        self.look()

    async def start(self, name: str, by: str) -> str:
        """
        Start the recorder.

        :returns: '' or why it was not started.
        """
        if self._active:    # also while the recorder of another page is being started
            return f'{self._active["name"]} is being recorded'
        name = '_'.join(filter(None, (
            safe_name(printable(name, 60)), time.strftime('%Y%m%d-%H%M%S'))))
        self._active = {'name': name, 'by': printable(by, 80), 'stopping': False}
        self._began, self._last = time.monotonic(), ''
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._process = await self._run('record', '-o', str(self.folder / name))
        except OSError as error:
            self._active = {}
            return f'cannot record: {error}'
        self._spawn(self._watch(self._process, name))
        self._changed()
        return ''

    async def stop(self) -> str:
        """
        Ask the recorder to close its file.

        :returns: '' or why not.
        """
        process = self._process
        if process is None:
            return 'the recorder is being started' if self._active else 'nothing is being recorded'
        self._active['stopping'] = True
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        self._changed()
        return ''

    async def close(self) -> None:
        """End recorder and reports, and wait for the recorder's file."""
        process = self._process
        if process is not None:
            await self.stop()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), _CLOSING_S)
            if process.returncode is None:
                process.kill()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def report(self, name: str) -> Optional[Path]:
        """
        Write the report of a take if there is none.

        :returns: its page; None if there is no such take, or it cannot be assessed.
        """
        folder = self.folder / name
        if name != folder.name or name.startswith('.') or not folder.is_dir():
            return None
        page = folder / 'report.html'
        async with self._reporting:    # one at a time: it takes a core
            if not page.is_file():
                process = await self._run('report', str(folder), '--json', '-o', str(page))
                try:
                    output, errors = await asyncio.wait_for(process.communicate(), _REPORT_S)
                except (asyncio.TimeoutError, asyncio.CancelledError):
                    process.kill()
                    raise
                if process.returncode:
                    output = json.dumps({'severity': 'error', 'verdict': (
                        f'cannot be assessed: {errors.decode(errors="replace").strip()[-200:]}'),
                        'duration_s': None}).encode()
                with contextlib.suppress(OSError):
                    (folder / _VERDICT).write_bytes(output)
        self.look()
        self._changed()
        return page if page.is_file() else None

    def look(self) -> None:
        """Read the list of takes."""
        rows = []
        with contextlib.suppress(OSError):
            for folder in self.folder.iterdir():
                if folder.is_dir() and folder.name != self._active.get('name') and not (
                        folder.name.startswith('.')) and any(folder.glob('*.mcap')):
                    rows.append(self._row(folder))
        rows.sort(key=lambda row: -row['time'])
        self._rows = rows[:_MOST]

    def _row(self, folder: Path) -> dict[str, Any]:
        """Describe a take by what ``report`` has written about it."""
        found: dict[str, Any] = {}
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((folder / _VERDICT).read_bytes())
        closed = (folder / 'metadata.yaml').is_file()
        files = [path.stat() for path in folder.glob('*.mcap')]
        return {
            'name': printable(folder.name), 'time': max(one.st_mtime for one in files),
            'seconds': found.get('duration_s'),
            'megabytes': round(sum(one.st_size for one in files) / 1e6, 1),
            'level': found.get('severity', '' if closed else 'error'),
            'verdict': printable(str(found.get('verdict', 'not assessed yet' if closed else (
                'not closed: record --recover repairs it'))), 300)}

    def status(self) -> dict[str, Any]:
        """Describe the recording and the takes for the page."""
        active = None
        if self._process is not None:
            size = 0
            with contextlib.suppress(OSError):
                size = sum(path.stat().st_size for path in (
                    self.folder / self._active['name']).glob('*.mcap'))
            active = {**self._active, 'seconds': round(time.monotonic() - self._began, 1),
                      'megabytes': round(size / 1e6, 2)}
        return {'active': active, 'problem': self._last, 'takes': self._rows,
                'folder': str(self.folder)}

    async def _watch(self, process: asyncio.subprocess.Process, name: str) -> None:
        """Wait for the end of a recording, then assess it."""
        _, errors = await process.communicate()
        lines = errors.decode(errors='replace').strip().splitlines()
        self._last = f'{name}: {unstamped(lines[-1])}' if process.returncode and lines else ''
        self._process, self._active = None, {}
        self.look()
        self._changed()
        if (self.folder / name).is_dir():
            await self.report(name)

    async def _run(self, *arguments: str) -> asyncio.subprocess.Process:
        # A session of its own: Ctrl-C in the terminal reaches this process alone. The main thread
        # starts it, which ends together with this process.
        return await asyncio.create_subprocess_exec(
            *(('nice', '-n', '10') if arguments[0] == 'report' else ()), sys.executable, '-m',
            'optitrack_vrpn', *arguments, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env=dict(with_parent(os.environ)), start_new_session=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def unstamped(line: str) -> str:
    """Return the text of a line of a log, without severity, time and name."""
    return printable(re.sub(r'^(\[[^\]]*\][ :]*)+', '', line), 300)
