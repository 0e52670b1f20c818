# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node's own reports on /diagnostics (REP 107)."""

from typing import Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from optitrack_vrpn.core.report import Entry
from rclpy.node import Node


def status_message(entry: Entry, prefix: str, hardware_id: str) -> DiagnosticStatus:
    """
    Turn an entry into a message.

    :param prefix: the node's name, which stands before the entry's.
    :param hardware_id: the server.
    """
    return DiagnosticStatus(
        level=bytes([entry.level]), name=f'{prefix}: {entry.name}', message=entry.message,
        hardware_id=hardware_id,
        values=[KeyValue(key=key, value=value) for key, value in entry.values.items()])


class Diagnostics:
    """
    Publish entries on /diagnostics.

    :param node: creates the publisher.
    :param hardware_id: the server.
    """

    def __init__(self, node: Node, hardware_id: str) -> None:
        self._node = node
        self._prefix = node.get_fully_qualified_name().lstrip('/')
        self._hardware_id = hardware_id
        self._publisher = node.create_publisher(DiagnosticArray, '/diagnostics', 10)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Publish all entries under one stamp."""
        message = DiagnosticArray(status=[self.status(entry) for entry in entries])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)

    def status(self, entry: Entry) -> DiagnosticStatus:
        """Make the message of one entry."""
        return status_message(entry, self._prefix, self._hardware_id)

    def close(self) -> None:
        """Close the publisher."""
        self._node.destroy_publisher(self._publisher)
