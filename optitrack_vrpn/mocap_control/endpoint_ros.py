# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Publishers and subscription of one generation of mocap control, and its acknowledgements."""

from collections import deque
from typing import Any, Callable, Sequence

from optitrack_vrpn.mocap_control.messages_ros import CONTROL_QOS, Dialect, INFO_QOS
from optitrack_vrpn.mocap_control.protocol import Command, Kind
from rclpy.clock import Clock
from rclpy.node import Node

#: Longest wait of an acknowledgement for a controller that has not subscribed yet (ns). Chosen:
#: mocap4r2cli sends its command before it subscribes, and gives up 0.5 s after the command.
_LONGEST_WAIT_NS = 200_000_000
#: Chosen: period of the checks during that wait (s).
_RETRY_S = 0.005


def delay_timer(node: Node, period_s: float, callback: Callable[[], None], clock: Clock) -> Any:
    """
    Make a timer that calls back once, a period after each reset.

    Only its own callback cancels it: if another one cancels a timer that an executor of several
    threads has found ready, rclpy's ``spin`` raises.
    """
    def once() -> None:
        timer.cancel()
        callback()
    timer = node.create_timer(period_s, once, clock=clock)
    timer.cancel()
    return timer


class Endpoint:
    """
    Publishers and subscription of one generation in a controlled node.

    :param node: the node.
    :param dialect: the generation.
    :param absolute: topics in the root namespace.
    :param clock: a clock that does not follow simulated time.
    :param on_command: called with this endpoint and each message that arrives.
    """

    def __init__(
        self, node: Node, dialect: Dialect, absolute: bool, clock: Clock,
        on_command: Callable[['Endpoint', Command], None],
    ) -> None:
        self.generation = dialect.generation
        self._node = node
        self._dialect = dialect
        self._clock = clock
        self._due: deque[tuple[Kind, str, int]] = deque()
        control_topic, info_topic = dialect.generation.topics(absolute)
        # Plain publishers: those of a lifecycle node are silent until it is active.
        self._control = node.create_publisher(dialect.control_type, control_topic, CONTROL_QOS)
        self._info = node.create_publisher(dialect.info_type, info_topic, INFO_QOS)
        self._timer = delay_timer(node, _RETRY_S, self._send, clock)
        self._subscription = node.create_subscription(
            dialect.control_type, control_topic,
            lambda message: on_command(self, dialect.read(message)), CONTROL_QOS)

    def announce(self, topics: Sequence[str]) -> None:
        """Publish the topics of this system."""
        self._info.publish(self._dialect.write_info(self._node.get_name(), topics))

    def acknowledge(self, kind: Kind, session_id: str) -> None:
        """Send an acknowledgement as soon as all controllers have subscribed, in order."""
        self._due.append((kind, session_id, self._clock.now().nanoseconds + _LONGEST_WAIT_NS))
        self._send()

    def _send(self) -> None:
        while self._due:
            kind, session_id, deadline_ns = self._due[0]
            if self._clock.now().nanoseconds < deadline_ns and not self._all_listen():
                self._timer.reset()
                return
            self._due.popleft()
            self._control.publish(self._dialect.write(
                kind, self._node.get_clock().now().to_msg(), self._node.get_name(), session_id))

    def _all_listen(self) -> bool:
        """Return whether every node that publishes on the control topic also subscribes to it."""
        topic = self._control.topic_name
        listeners = self._node.get_subscriptions_info_by_topic(topic)
        nodes = {(entry.node_namespace, entry.node_name) for entry in listeners}
        return self._control.get_subscription_count() >= len(listeners) and all(
            (entry.node_namespace, entry.node_name) in nodes
            for entry in self._node.get_publishers_info_by_topic(topic))
