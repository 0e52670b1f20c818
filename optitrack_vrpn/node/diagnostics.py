# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The publisher of the node on /diagnostics: diagnostic_updater or a plain one (REP 107).

If diagnostic_updater is installed, it publishes them and has its usual parameters
(``diagnostic_updater.period``, ``diagnostic_updater.use_fqn``); otherwise a plain publisher does.
"""

from typing import Any, Callable, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.node.report import Entry
from optitrack_vrpn.settings_ros import given_at_start
from rclpy.clock import Clock, ClockType
from rclpy.node import Node

try:
    from diagnostic_updater import Updater
except ImportError:
    Updater = None

#: Period (s) by the convention of REP 107.
PERIOD_S = 1.0
_PERIOD = 'diagnostic_updater.period'


class Diagnostics:
    """
    Publish entries on /diagnostics once a second, or with the updater's period.

    :param node: creates publisher and timer; one instance per node, for its whole life.
    :param collect: returns the present entries; empty while there is nothing to report.
    """

    def __init__(self, node: Node, collect: Callable[[], Sequence[Entry]]) -> None:
        self._node = node
        self._collect = collect
        self._hardware_id = ''
        self._updater: Any = None
        self._publisher: Any = None
        self._timer: Any = None

    def open(self, hardware_id: str) -> None:
        """
        Begin to publish.

        :param hardware_id: the server.
        :raises ConfigurationError: for a period that is no positive decimal.
        """
        self._hardware_id = hardware_id
        if self._timer is None:    # not in the constructor: the client connects first
            period_s = PERIOD_S
            if Updater is None:
                self._publisher = self._node.create_publisher(DiagnosticArray, '/diagnostics', 10)
            else:
                period_s = self._make_updater()
            # A timer of the system clock stops for an hour when that clock is set back by an hour.
            self._timer = self._node.create_timer(
                period_s, self._publish, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._timer.reset()

    def _make_updater(self) -> float:
        """Create the updater without its timer of the system clock; return its period (s)."""
        given = given_at_start(self._node).get(_PERIOD, PERIOD_S)
        if self._node.has_parameter(_PERIOD):    # set by a user before the updater declares it
            given = self._node.get_parameter(_PERIOD).value
            self._node.undeclare_parameter(_PERIOD)
        if not isinstance(given, float) or not given > 0.0:
            raise ConfigurationError(
                f'{_PERIOD} is {given!r}; allowed: a decimal number above 0, as in 1.0 (s)')
        self._updater = Updater(self._node, given)
        self._updater.timer.cancel()
        return given

    def status(self, entry: Entry) -> DiagnosticStatus:
        """Return the message of one entry."""
        return DiagnosticStatus(
            level=bytes([entry.level]), name=f'{self._node.get_name()}: {entry.name}',
            message=entry.message, hardware_id=self._hardware_id,
            values=[KeyValue(key=key, value=value) for key, value in entry.values.items()])

    def _publish(self) -> None:
        statuses = [self.status(entry) for entry in self._collect()]
        if not statuses:
            return
        if self._updater is not None:
            # Not as its tasks: it would announce each new one with level OK.
            for status in statuses:
                status.name = status.name.partition(': ')[2]    # it adds the node's name
            self._updater.publish(statuses)
        elif self._publisher.get_subscription_count():
            message = DiagnosticArray(status=statuses)
            message.header.stamp = self._node.get_clock().now().to_msg()
            self._publisher.publish(message)
