# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The publisher of the node on /diagnostics: diagnostic_updater or a plain one (REP 107).

If diagnostic_updater is installed, it publishes them and has its usual parameters
(``diagnostic_updater.period``, ``diagnostic_updater.use_fqn``); otherwise a plain publisher does.
"""

from typing import Any, Callable, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from optitrack_vrpn.mocap_control.endpoint_ros import idle_timer
from optitrack_vrpn.node.report import Entry
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

try:
    from diagnostic_updater import Updater
except ImportError:
    Updater = None

#: Period (s) by the convention of REP 107. Halved or doubled, the load of diagnostics doubles or
#: halves.
PERIOD_S = 1.0


def fill(status: Any, entry: Entry) -> Any:
    """Write an entry's level, message and values into a status."""
    status.level = bytes([entry.level])
    status.message = entry.message
    status.values = [KeyValue(key=key, value=value) for key, value in entry.values.items()]
    return status


class Diagnostics:
    """
    Publish entries on /diagnostics once a second.

    :param node: creates publisher and timer; one instance per node, for its whole life.
    :param collect: returns the present entries; empty while there is nothing to report.
    """

    def __init__(self, node: Node, collect: Callable[[], Sequence[Entry]]) -> None:
        self._node = node
        self._collect = collect
        self._hardware_id = ''
        self._latest: dict[str, Entry] = {}
        self._updater: Any = None
        self._publisher: Any = None
        self._timer: Any = None

    def open(self, hardware_id: str) -> None:
        """
        Begin to publish.

        :param hardware_id: the server.
        """
        if self._timer is None:    # not in the constructor: the client connects first
            self._create()
        self._hardware_id = hardware_id
        if self._updater is not None:
            self._updater.setHardwareID(hardware_id)
        self._timer.reset()

    def _create(self) -> None:
        period_s = PERIOD_S
        if Updater is None:
            self._publisher = self._node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        else:
            self._updater = Updater(self._node, PERIOD_S)
            self._updater.timer.cancel()    # it follows the system clock
            period_s = self._updater.period
        # A timer of the system clock stops for an hour when that clock is set back by an hour.
        self._timer = idle_timer(
            self._node, period_s, self._publish, Clock(clock_type=ClockType.STEADY_TIME))

    def close(self) -> None:
        """Stop publishing."""
        if self._timer is not None:
            self._timer.cancel()
        self._update([])

    def status(self, entry: Entry) -> DiagnosticStatus:
        """Return the message of one entry."""
        return fill(DiagnosticStatus(
            name=f'{self._node.get_name()}: {entry.name}', hardware_id=self._hardware_id), entry)

    def _publish(self) -> None:
        entries = self._collect()
        if self._updater is not None:
            self._update(entries)
            self._updater.update()
        elif entries and self._publisher.get_subscription_count():
            message = DiagnosticArray(status=[self.status(entry) for entry in entries])
            message.header.stamp = self._node.get_clock().now().to_msg()
            self._publisher.publish(message)

    def _update(self, entries: Sequence[Entry]) -> None:
        """Give the updater one task for each entry."""
        before, self._latest = self._latest, {entry.name: entry for entry in entries}
        for name in before.keys() - self._latest.keys():
            self._updater.removeByName(name)
        for name in [name for name in self._latest if name not in before]:
            self._updater.add(name, lambda status, name=name: fill(status, self._latest[name]))
