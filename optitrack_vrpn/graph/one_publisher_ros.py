# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A subscription that uses the messages of one publisher only."""

from typing import Any, Callable

from optitrack_vrpn.graph.node_names import full_name, NAMELESS
from optitrack_vrpn.graph.one_publisher import Arrival, OnePublisher, Publisher
from rclpy.node import Node


def publishers_of(node: Node, topic: str) -> list[Publisher]:
    """Return the publishers of a topic in the ROS graph."""
    return [Publisher(
        'a node without a name yet' if one.node_name == NAMELESS else
        full_name(one.node_name, one.node_namespace), bytes(one.endpoint_gid))
        for one in node.get_publishers_info_by_topic(topic)]


class OneSubscription:
    """Subscribe to one topic; ``use`` is called with messages that may be used."""

    def __init__(self, node: Node, kind: Any, topic: str, use: Callable[[Any], None],
                 qos: Any) -> None:
        self._node = node
        self._use = use
        self._subscription = node.create_subscription(kind, topic, self._take, qos)
        self.topic: str = self._subscription.topic_name
        self._publishers = OnePublisher(
            (self.topic,), lambda name: publishers_of(node, name))

    @property
    def problem(self) -> str:
        """Return why messages are not used, '' if they are."""
        return self._publishers.problem

    def look(self) -> None:
        """Read the ROS graph; call it about once a second."""
        self._publishers.look()

    def _take(self, message: Any, info: 'dict[str, Any]') -> None:
        if self._publishers.accept(Arrival(
                self.topic, (self._subscription.get_publisher_count(),),
                info.get('publication_sequence_number'))) is not None:
            self._use(message)

    def destroy(self) -> None:
        """Unsubscribe."""
        self._node.destroy_subscription(self._subscription)
