# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A backend that uses the Python module of the VRPN library.

The module needs polling and cannot list trackers; the parameter ``trackers`` names them. It does
not report the state of the connection; the backend knows only whether reports arrive. The module
holds Python's global interpreter lock while it connects, and data of the server reaches C++ code
outside this package. The built-in client has neither limitation.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
import importlib
from typing import Any, Optional

from optitrack_vrpn.core.errors import BackendUnavailableError
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.client_io import ReconnectingClient
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import ServerFacts, Sink
from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.vrpn.codec import DEFAULT_PORT, Event, Motion, PoseReport
from optitrack_vrpn.drivers.vrpn.frames import to_frames

_EPOCH = datetime(1970, 1, 1)
#: A report of the module: its values by name.
_Report = Mapping[str, Any]
#: Chosen: polling period (ns), because the module cannot wait for data. It is the largest delay
#: that polling adds to a report.
_POLL_NS = NS_PER_MS
_NO_ROTATION = (0.0, 0.0, 0.0, 1.0)


def sender_time_ns(time: datetime) -> int:
    """
    Convert the module's time stamp to nanoseconds since the Unix epoch.

    :param time: UTC without time zone, with a resolution of 1 us.
    """
    past = time - _EPOCH
    return ((past.days * 86400 + past.seconds) * 1_000_000 + past.microseconds) * 1000


def tracker_address(name: str, config: ClientConfig) -> str:
    """Format a tracker's name and server as the library's address."""
    # With UDP the library repeats its request, and each request can block the server.
    prefix = '' if config.link.connection == 'udp' else 'tcp://'
    port = '' if config.port == DEFAULT_PORT else f':{config.port}'
    return f'{name}@{prefix}{config.server}{port}'


class PythonVrpnClient(ReconnectingClient):
    """
    Poll trackers of the ``vrpn`` module and forward their reports.

    :param config: the server and the trackers.
    :param sink: receives all items, from this client's thread.
    :raises BackendUnavailableError: if the module is not installed.
    """

    protocol = 'python_vrpn'
    known: Optional[ServerFacts] = None    # the module states nothing

    def __init__(self, config: ClientConfig, sink: Sink) -> None:
        try:
            self._tracker_class = importlib.import_module('vrpn').receiver.Tracker
        except (ImportError, AttributeError) as error:
            raise BackendUnavailableError(
                f"backend python_vrpn needs the VRPN library's Python module 'vrpn' ({error}); "
                'install python-vrpn or use backend: builtin') from None
        super().__init__(config, config.port, sink)
        self._link.transport = 'python_vrpn'
        self._pending: list[Event] = []
        self._reports = 0

    @contextmanager
    def _open(self) -> Iterator['PythonVrpnClient']:
        config = self._config
        self._change(LinkState.CONNECTING, (
            f'the vrpn module looks for {", ".join(config.trackers)} at {config.server} '
            f'port {config.port}'))
        self._reports = 0
        yield self

    def counters(self) -> dict[str, int]:
        """Return the number of reports since the trackers were created."""
        return {'reports': self._reports}

    def queue(self) -> dict[str, int]:
        """Return nothing: the module does not show its sockets."""
        return {}

    def run(self, waker: int, woken: Callable[[], None]) -> str:
        """Poll the trackers until the client is stopped; see ``loop_io.Conversation``."""
        trackers = []
        for name in self._config.trackers:
            tracker = self._tracker_class(tracker_address(name, self._config))
            tracker.register_change_handler(name, self._on_position, 'position')
            for kind in ('velocity', 'acceleration'):
                tracker.register_change_handler(name, partial(self._on_derivative, kind), kind)
            trackers.append(tracker)
        began_ns = now_ns = self._clock.now_ns()
        after_s = self._config.link.reconnect_after_s
        while True:
            self._waiting.wait(now_ns + _POLL_NS)
            for tracker in trackers:
                tracker.mainloop()
            now_ns = self._clock.now_ns()
            if self._pending:
                self._deliver(now_ns)
            self._report(self._link.check(now_ns))
            # The module reports no fault itself.
            if (self._link.state is LinkState.CONNECTING and after_s
                    and now_ns - began_ns > after_s * NS_PER_S):
                self._change(LinkState.LOST, (
                    f'no report within {after_s:g} s: check that the server runs, that VRPN is '
                    'enabled in its streaming settings and that trackers has the names of '
                    'Motive'), WARN)

    def _deliver(self, now_ns: int) -> None:
        events, self._pending = self._pending, []
        self._reports += len(events)
        if not self._link.sessions:
            self._link.established(now_ns)
        items = to_frames(events)
        if any(isinstance(item, Frame) for item in items):
            self._report(self._link.pose_received(now_ns))
        self._sink.receive(items, now_ns, self._clock.host_minus_arrival_ns())

    def _on_position(self, name: str, report: _Report) -> None:
        self._pending.append(PoseReport(
            name, report['sensor'], sender_time_ns(report['time']),
            tuple(report['position']), tuple(report['quaternion'])))

    def _on_derivative(self, kind: str, name: str, report: _Report) -> None:
        # The module's 'future delta' (dt) is wrong, and without dt the rotation has no meaning.
        self._pending.append(Motion(
            name, report['sensor'], sender_time_ns(report['time']), kind == 'velocity',
            tuple(report[kind]), _NO_ROTATION, 0.0))
