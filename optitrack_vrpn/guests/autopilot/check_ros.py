# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read the findings of a running bridge from /diagnostics, or run a bridge for some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import time

from diagnostic_msgs.msg import DiagnosticArray
from optitrack_vrpn.core.checks import CheckResult, ok, RESULT_WORDS, Value
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.guests.autopilot.bridge_ros import ADVICE, LEVEL, MavlinkBridge, NODE
from optitrack_vrpn.node.base.tool_node import ToolNode
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions

_SEVERITIES = {word: severity for severity, word in RESULT_WORDS.items()}


class BridgeReports:
    """
    Collect the reports of running bridges from /diagnostics.

    :param node: subscribes.
    :ivar latest: the last array of each bridge, by its full name without the first slash.
    """

    def __init__(self, node: Node) -> None:
        self.latest: dict[str, list[CheckResult]] = {}
        self._subscription = node.create_subscription(
            DiagnosticArray, '/diagnostics', self._take, 50)

    def _take(self, array: DiagnosticArray) -> None:
        found: dict[str, list[CheckResult]] = {}
        for status in array.status:
            report = StatusReport.of(status)
            if report.subject.startswith(f'{NODE} '):
                values: dict[str, Value] = dict(report.values)
                advice = str(values.pop(ADVICE, ''))
                found.setdefault(report.node, []).append(CheckResult(
                    report.subject[len(NODE) + 1:],
                    _SEVERITIES.get(str(values.pop(LEVEL, '')), ERROR),
                    status.message.removesuffix(f'; {advice}'), advice, values))
        self.latest.update(found)


class BridgeChecks:
    """Check the running bridges for the doctor; see ``doctor.Extensions``."""

    def __init__(self, node: Node, _: object = ()) -> None:
        self._node = node
        self._reports = BridgeReports(node)

    def findings(self, spin: Callable[[float], None]) -> list[CheckResult]:
        """Return the problems of each bridge; one line for a bridge without problems."""
        spin(0.2)    # messages that arrived while the doctor was busy
        names = {name for name, _ in self._node.get_node_names_and_namespaces()}
        if not self._reports.latest and any(NODE in name for name in names):
            spin(2.0)    # bridges report once a second
        found = []
        for name, checks in sorted(self._reports.latest.items()):
            bad = [one for one in checks if one.severity in (WARN, ERROR)]
            found += [one._replace(check='bridge', found=f'{name}: {one.check}: {one.found}')
                      for one in bad]
            if not bad:
                found.append(ok('bridge', f'{name}: {len(checks)} checks without problems'))
        return found


def running(ros_args: Sequence[str], seconds: float = 4.5,
            name: str = '') -> dict[str, list[CheckResult]]:
    """
    Read the reports of the running bridges.

    :param ros_args: ``--ros-args`` and what follows.
    :param seconds: duration (s). Chosen: ROS 2 nodes may take 3 s to discover each other, and a
        bridge reports once a second.
    :param name: full name of one bridge, without the first slash; '' for all, which takes the full
        time.
    :returns: findings by the bridge's name.
    """
    with ToolNode('mavlink_bridge_check', ros_args, use_global_arguments=False) as tool:
        reports = BridgeReports(tool.node)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not (name and name in reports.latest):
            tool.spin(0.1)
    return reports.latest


def examine(argv: Sequence[str], seconds: float, send: bool) -> list[CheckResult]:
    """
    Check one vehicle.

    :param argv: command line with the arguments for ROS.
    :param seconds: duration of the observation if no bridge runs (s).
    :param send: whether to send poses meanwhile if no bridge runs and the vehicle is disarmed.
    :raises ConfigurationError: if a parameter is wrong; the log contains the reasons.
    """
    # Without rclpy's handlers, whose shutdown raises another exception inside the executor.
    rclpy.init(args=list(argv), signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = _Checked()
        try:
            name = node.get_fully_qualified_name()[1:]
            found = running(argv[1:], name=name).get(name)
            return found if found else _watch(node, seconds, send)
        finally:
            node.destroy_node()
    finally:
        rclpy.try_shutdown()


class _Checked(MavlinkBridge):
    """The bridge of a check: it has no autostart and no mocap control."""

    def __init__(self) -> None:
        super().__init__(parameter_overrides=[
            rclpy.parameter.Parameter('control.generations', value=['none'])])

    def start_by_parameters(self) -> None:
        """Leave the transitions to the check."""


def _watch(node: MavlinkBridge, seconds: float, send: bool) -> list[CheckResult]:
    if node.trigger_configure() is not TransitionCallbackReturn.SUCCESS:
        raise ConfigurationError('the parameters do not allow a check: see the log above')
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)
    sending = False
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            executor.spin_once(timeout_sec=0.1)
            if send and node.firmware and sending == node.armed:
                sending = not sending
                (node.trigger_activate if sending else node.trigger_deactivate)()
        if send and node.armed:
            node.get_logger().error('the vehicle is armed: the check sends no pose')
        return node.findings()
    finally:
        executor.shutdown()
