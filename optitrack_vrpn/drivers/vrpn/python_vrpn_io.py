# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A backend that uses the Python module of the VRPN library.

The module needs polling and cannot list trackers; the parameter ``trackers`` names them. It does
not report the state of the connection; the backend knows only whether reports arrive. The module
holds Python's global interpreter lock while it connects, and data of the server reaches C++ code
outside this package. The built-in client has neither limitation.
"""

from datetime import datetime
from functools import partial
import importlib
import logging
import threading
from typing import Any, Optional

from optitrack_vrpn.core.errors import BackendUnavailableError, TransportError
from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import (
    LinkStatus, report_change, Sink, use_default_scheduling)
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.link import Link, LinkState
from optitrack_vrpn.drivers.vrpn.codec import DEFAULT_PORT, Event, Motion, PoseReport
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

_LOG = logging.getLogger(__name__)
_EPOCH = datetime(1970, 1, 1)
#: Chosen: polling period (s), because the module cannot wait for data. It is the largest delay
#: that polling adds to a report.
_POLL_S = 0.001


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


class PythonVrpnBackend:
    """
    Poll trackers of the ``vrpn`` module and forward their reports.

    :param config: the server and the trackers.
    :param sink: receives all events, from this backend's thread.
    :raises BackendUnavailableError: if the module is not installed.
    """

    def __init__(self, config: ClientConfig, sink: Sink) -> None:
        try:
            self._tracker_class = importlib.import_module('vrpn').receiver.Tracker
        except (ImportError, AttributeError) as error:
            raise BackendUnavailableError(
                f"backend python_vrpn needs the VRPN library's Python module 'vrpn' ({error}); "
                'install python-vrpn or use backend: builtin') from None
        self._config = config
        self._sink = sink
        self._clock = HostClock()
        self._link = Link(config.link, self._clock.now_ns())
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._pending: list[Event] = []
        self._trackers: list[Any] = []
        self._reports = 0
        self._last_bug = ''
        self._polling_since_ns = 0

    def start(self) -> None:
        """
        Start to poll; return immediately.

        :raises TransportError: if the backend was started or stopped before.
        """
        if self._thread is not None or self._stop.is_set():
            raise TransportError('a backend can be started only once; create a new one')
        self._thread = threading.Thread(target=self._run, name='python_vrpn', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and release the trackers; idempotent."""
        self._stop.set()
        thread = self._thread
        # It is not alive if start() has failed.
        if thread is not None and thread is not threading.current_thread() and thread.is_alive():
            thread.join()

    def status(self) -> LinkStatus:
        """Return the state of the connection: whether reports arrive."""
        link = self._link
        return LinkStatus(
            link.state, link.reason, link.since_ns, 'python_vrpn',
            f'{self._config.server}:{self._config.port}', '', link.sessions, link.failures,
            link.last_failure, 0, {'reports': self._reports})

    def _run(self) -> None:
        use_default_scheduling()
        config = self._config
        while not self._stop.is_set():
            self._change(LinkState.CONNECTING, (
                f'the vrpn module looks for {", ".join(config.trackers)} at {config.server} '
                f'port {config.port}'))
            try:
                self._poll()
                break
            except Exception as error:
                # The module or the sink raised the exception; the trackers are created again.
                reason = f'the vrpn module failed: {error!r}'
                if reason != self._last_bug:
                    self._last_bug = reason
                    _LOG.exception('the vrpn module or the sink failed; restarting')
                self._change(LinkState.LOST, reason, ERROR)
                pause_s = self._link.attempt_failed()
            finally:
                self._trackers.clear()
            self._stop.wait(pause_s)
        self._change(LinkState.STOPPED, 'stopped')

    def _poll(self) -> None:
        """Poll the trackers until the backend is stopped."""
        for name in self._config.trackers:
            tracker = self._tracker_class(tracker_address(name, self._config))
            tracker.register_change_handler(name, self._on_position, 'position')
            for kind in ('velocity', 'acceleration'):
                tracker.register_change_handler(name, partial(self._on_derivative, kind), kind)
            self._trackers.append(tracker)
        self._polling_since_ns = self._clock.now_ns()
        while not self._stop.wait(_POLL_S):
            for tracker in self._trackers:
                tracker.mainloop()
            if self._pending:
                self._deliver()
            self._report(self._link.check(self._clock.now_ns()))
            self._check_first_report()

    def _check_first_report(self) -> None:
        """Report what to check when no report has arrived; the module reports no fault itself."""
        after_s = self._config.link.reconnect_after_s
        if (self._link.state is LinkState.CONNECTING and after_s
                and self._clock.now_ns() - self._polling_since_ns > after_s * NS_PER_S):
            self._change(LinkState.LOST, (
                f'no report within {after_s:g} s: check that the server runs, that VRPN is '
                'enabled in its streaming settings and that trackers has the names of Motive'),
                WARN)

    def _deliver(self) -> None:
        events, self._pending = self._pending, []
        now_ns = self._clock.now_ns()
        self._reports += len(events)
        if not self._link.sessions:
            self._link.established(now_ns)
        if any(event.__class__ is PoseReport for event in events):
            self._report(self._link.pose_received(now_ns))
        self._sink.receive(events, now_ns, self._clock.host_minus_arrival_ns())

    def _change(self, state: LinkState, reason: str, severity: Severity = INFO) -> None:
        self._report(self._link.to(state, reason, self._clock.now_ns(), severity))

    def _report(self, change: Optional[UserEvent]) -> None:
        report_change(self._sink, change)

    def _on_position(self, name: str, report: dict[str, Any]) -> None:
        self._pending.append(PoseReport(
            name, report['sensor'], sender_time_ns(report['time']),
            tuple(report['position']), tuple(report['quaternion'])))

    def _on_derivative(self, kind: str, name: str, report: dict[str, Any]) -> None:
        # The module's 'future delta' (dt) is wrong, and without dt the rotation has no meaning.
        self._pending.append(Motion(
            name, report['sensor'], sender_time_ns(report['time']), kind == 'velocity',
            tuple(report[kind]), (0.0, 0.0, 0.0, 1.0), 0.0))
