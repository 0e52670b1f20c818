# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Keep the last UDP request to each server in a file; ``transport.remember`` decides about it."""

import datetime
import json
import os
from pathlib import Path
import threading

from optitrack_vrpn.core.state_io import state_folder
from optitrack_vrpn.drivers.vrpn.transport import describe_request, Remembered, Request


class RequestMemory:
    """
    The UDP request that one host sent to one server, in a file beyond the life of the process.

    It is written before the request is sent, so that a client that ends in between counts as well.
    Where the file cannot be written, all clients of this process share the entry.

    :param local, server: IPv4 addresses of the two hosts.
    :param port: port of the server; a request without a known answer concerns that port only.
    """

    _lock = threading.Lock()
    _unsaved: dict[Path, Remembered] = {}

    def __init__(self, local: str, server: str, port: int = 0) -> None:
        self._port = port
        self.path = state_folder() / f'udp_request_{local}_{server}.json'

    def read(self) -> Remembered:
        """
        Return the last request.

        An entry that cannot be understood counts as unanswered: the safe side.
        """
        try:
            entry = json.loads(self.path.read_text())
            request, time_s = Request(entry['request']), float(entry['time'])
            if request is Request.PENDING and entry.get('port', 0) not in (0, self._port):
                return Remembered()
            return Remembered(request, time_s)
        except (FileNotFoundError, NotADirectoryError):
            with self._lock:
                return self._unsaved.get(self.path, Remembered())
        except (OSError, ValueError, KeyError, TypeError):
            return Remembered(Request.UNANSWERED)

    def write(self, entry: Remembered) -> str:
        """
        Replace the entry.

        :returns: why the file could not be written, or ''.
        """
        with self._lock:
            self._unsaved.pop(self.path, None)
            try:
                if entry.request is Request.NONE:
                    self.path.unlink(missing_ok=True)
                    return ''
                self.path.parent.mkdir(parents=True, exist_ok=True)
                part = self.path.with_suffix(f'.{os.getpid()}.{threading.get_ident()}')
                part.write_text(json.dumps({
                    'request': entry.request.value, 'time': entry.time_s,
                    'port': self._port}) + '\n')
                part.replace(self.path)
            except OSError as error:
                self._unsaved[self.path] = entry
                return f'{self.path} ({error.strerror})'
        return ''

    def describe(self) -> str:
        """Describe the entry for the user; '' if there is none."""
        request, time_s = self.read()
        return describe_request(request, time_text(time_s), str(self.path))


def remembered_request(local: str, server: str) -> str:
    """Describe the UDP request that is remembered for a pair of hosts; '' if there is none."""
    return RequestMemory(local, server).describe()


def time_text(time_s: float) -> str:
    """Format a system time for the user."""
    if not time_s:
        return 'an unknown time'
    return datetime.datetime.fromtimestamp(time_s).strftime('%Y-%m-%d %H:%M:%S')
