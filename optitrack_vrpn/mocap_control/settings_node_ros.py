# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A lifecycle node with settings and diagnostics: the base of the axis, gantry and RGB-D nodes."""

import traceback
from typing import Any, Generic, Mapping, Sequence, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from optitrack_vrpn.mocap_control.managed_node_ros import ManagedNode
from optitrack_vrpn.settings_ros import declare_settings, follow_settings, read_settings

S = TypeVar('S')

LEVELS = {'ok': DiagnosticStatus.OK, 'warn': DiagnosticStatus.WARN,
          'error': DiagnosticStatus.ERROR, 'stale': DiagnosticStatus.STALE}


def entry(
    name: str, level: str, message: str, values: Mapping[str, Any], hardware: str = '',
) -> DiagnosticStatus:
    """Create one diagnostic; the level is a key of ``LEVELS``."""
    return DiagnosticStatus(
        level=LEVELS[level], name=name, message=message, hardware_id=hardware,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])


class SettingsNode(ManagedNode, Generic[S]):
    """
    Pass the settings to ``prepare`` at configure, and publish diagnostics once a second.

    :param node_name: name before remapping.
    :param settings: class of its settings, with the fields autostart and activate.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, settings: type[S], **kwargs: Any) -> None:
        super().__init__(node_name, **kwargs)
        self._settings_class = settings
        declare_settings(self, settings)
        follow_settings(self, settings, configured=lambda: self._acquired)
        self._array = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._diagnostics_timer = self.create_timer(1.0, self._diagnose, clock=self._steady)
        self.start_by_parameters()

    def prepare(self, settings: S) -> None:
        """Create publishers, subscriptions and sockets."""

    def acquire(self) -> None:
        """Read and check the parameters, and acquire resources."""
        self.prepare(read_settings(self, self._settings_class))

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Return the diagnostics; called once a second while the node is configured."""
        return ()

    def _diagnose(self) -> None:
        if not self._acquired:
            return
        try:
            array = DiagnosticArray(status=list(self.diagnostics()))
            array.header.stamp = self.get_clock().now().to_msg()
            self._array.publish(array)
        except Exception:
            self._log('error', f'bug in the diagnostics:\n{traceback.format_exc()}', 'diagnose')
