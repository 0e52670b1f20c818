# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The VRPN library's own Python module as a backend, for those who have it.

The module must be polled and cannot list trackers, so that they are named in the parameter
``trackers``. It tells nothing of connections: what is known is whether reports arrive.
"""

from datetime import datetime
import importlib
import threading
from typing import Any, Optional

from optitrack_vrpn.core.link import Link, LinkState
from optitrack_vrpn.errors import BackendUnavailableError
from optitrack_vrpn.transport.backend import ClientConfig, LinkStatus, Sink
from optitrack_vrpn.transport.hostclock import HostClock
from optitrack_vrpn.vrpn.constants import DEFAULT_PORT
from optitrack_vrpn.vrpn.messages import AccelerationReport, Event, PoseReport, VelocityReport

_EPOCH = datetime(1970, 1, 1)
#: The module offers no way to wait for data; this pause is what a report may be late by.
_POLL_S = 0.001


def sender_time_ns(time: datetime) -> int:
    """
    Turn the module's time stamp into nanoseconds.

    :param time: naive UTC, microseconds.
    """
    past = time - _EPOCH
    return ((past.days * 86400 + past.seconds) * 1_000_000 + past.microseconds) * 1000


def tracker_address(name: str, config: ClientConfig) -> str:
    """Write a tracker's name and server as the library wants it."""
    prefix = 'tcp://' if config.link.connection == 'tcp' else ''
    port = '' if config.port == DEFAULT_PORT else f':{config.port}'
    return f'{name}@{prefix}{config.server}{port}'


class PythonVrpnBackend:
    """
    Poll trackers of the ``vrpn`` module and pass their reports on.

    :param config: which server and trackers.
    :param sink: told everything, from this backend's thread.
    :raises BackendUnavailableError: if the module is not installed.
    """

    def __init__(self, config: ClientConfig, sink: Sink) -> None:
        try:
            self._vrpn = importlib.import_module('vrpn')
            self._vrpn.receiver.Tracker
        except (ImportError, AttributeError) as error:
            raise BackendUnavailableError(
                f"backend python_vrpn needs the VRPN library's Python module 'vrpn' ({error}); "
                "install python-vrpn or use backend: builtin") from None
        self._config = config
        self._sink = sink
        self._clock = HostClock()
        self._link = Link(config.link, self._clock.now_ns())
        self._stop = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._pending: list[Event] = []
        self._trackers: list[Any] = []
        self._reports = 0

    def start(self) -> None:
        """Begin to poll; returns at once."""
        self._thread = threading.Thread(target=self._run, name='python_vrpn', daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and let the trackers go; idempotent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def status(self) -> LinkStatus:
        """Tell whether reports arrive."""
        link = self._link
        return LinkStatus(
            link.state, link.reason, link.since_ns, 'python_vrpn',
            f'{self._config.server}:{self._config.port}', '', link.sessions, link.failures, 0,
            {'poses': self._reports})

    def _run(self) -> None:
        self._change(LinkState.CONNECTING, (
            f'the vrpn module looks for {", ".join(self._config.trackers)} at '
            f'{self._config.server}'))
        for name in self._config.trackers:
            tracker = self._vrpn.receiver.Tracker(tracker_address(name, self._config))
            tracker.register_change_handler(name, self._on_position, 'position')
            tracker.register_change_handler(name, self._on_velocity, 'velocity')
            tracker.register_change_handler(name, self._on_acceleration, 'acceleration')
            self._trackers.append(tracker)
        while not self._stop.wait(_POLL_S):
            for tracker in self._trackers:
                tracker.mainloop()
            if self._pending:
                self._deliver()
            change = self._link.check(self._clock.now_ns())
            if change is not None:
                self._sink.link_changed(change)
        self._trackers.clear()
        self._change(LinkState.STOPPED, 'stopped')

    def _deliver(self) -> None:
        events, self._pending = self._pending, []
        now_ns = self._clock.now_ns()
        self._reports += len(events)
        change = self._link.pose_received(now_ns)
        if change is not None:
            self._sink.link_changed(change)
        self._sink.receive(events, now_ns, self._clock.host_minus_arrival_ns())

    def _change(self, state: LinkState, reason: str) -> None:
        change = self._link.to(state, reason, self._clock.now_ns())
        if change is not None:
            self._sink.link_changed(change)

    def _on_position(self, name: str, report: dict[str, Any]) -> None:
        self._pending.append(PoseReport(
            name, report['sensor'], sender_time_ns(report['time']),
            tuple(report['position']), tuple(report['quaternion'])))

    def _on_velocity(self, name: str, report: dict[str, Any]) -> None:
        # The module's own 'future delta' is broken; without it the rotation means nothing.
        self._pending.append(VelocityReport(
            name, report['sensor'], sender_time_ns(report['time']),
            tuple(report['velocity']), (0.0, 0.0, 0.0, 1.0), 0.0))

    def _on_acceleration(self, name: str, report: dict[str, Any]) -> None:
        self._pending.append(AccelerationReport(
            name, report['sensor'], sender_time_ns(report['time']),
            tuple(report['acceleration']), (0.0, 0.0, 0.0, 1.0), 0.0))
