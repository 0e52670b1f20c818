# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Monitor and command a gantry_controller from another process."""

import time
from typing import Any, Mapping, Optional, Sequence, Union

from diagnostic_msgs.msg import DiagnosticArray
from optitrack_vrpn.ros import BackgroundNode, checked_topic
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from std_srvs.srv import Trigger

Value = Union[bool, float, str, Sequence[float]]


class GantryClient(BackgroundNode):
    """
    A small node on a thread; use it as a context manager.

    :param node: full name of the controller.
    :param ros_args: arguments for ROS.
    :raises ConfigurationError: if ROS does not accept them.
    """

    def __init__(self, node: str = '/gantry_controller', ros_args: Sequence[str] = ()) -> None:
        self._name = '/' + node.strip('/')
        axes = checked_topic(f'{self._name}/axes')
        super().__init__('gantry_client', ros_args)
        self._axes: Optional[DiagnosticArray] = None
        self._seen_s = 0.0
        self.node.create_subscription(DiagnosticArray, axes, self._take, 10)

    def _take(self, message: DiagnosticArray) -> None:
        self._axes, self._seen_s = message, time.monotonic()

    def axes(self) -> tuple[list[tuple[str, str, Mapping[str, str]]], float]:
        """Return name, mode and cells of each axis, and their age (s)."""
        if self._axes is None:
            return [], float('inf')
        return [(status.name, status.message, {pair.key: pair.value for pair in status.values})
                for status in self._axes.status], time.monotonic() - self._seen_s

    def command(self, service: str, values: Mapping[str, Value]) -> list[str]:
        """Call a service with values; return the refusals."""
        request = SetParameters.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
        results = self._ask(SetParameters, service, request).results
        return [result.reason or 'refused' for result in results if not result.successful]

    def trigger(self, service: str) -> str:
        """Call stop, emergency_stop or reset; return '' or the reason of the refusal."""
        response = self._ask(Trigger, service, Trigger.Request())
        return '' if response.success else response.message or 'refused'

    def _ask(self, kind: Any, service: str, request: Any) -> Any:
        return self.call(kind, f'{self._name}/{service}', request, 5.0)    # s; chosen
