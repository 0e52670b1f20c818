# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Subscribe to the messages of one publisher; see ``streams``."""

import time
from typing import Any, Callable, Generic, Sequence, TypeVar

from optitrack_vrpn.node.graph.conflicts import full_name, NAMELESS
from optitrack_vrpn.node.graph.streams import Binding, Reach, StreamMessage
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.subscription import Subscription

#: Period of the ticks of a binding (s); see ``AttendedTime``.
TICK_S = 0.1
#: Humble passes a message without information.
_INFORMED = hasattr(Subscription, 'get_publisher_count')

V = TypeVar('V')


def informed(callback: Callable[[Any, 'dict[str, Any]'], None]) -> Callable[..., None]:
    """Return a callback for a subscription that takes the message and its information."""
    return callback if _INFORMED else lambda message: callback(message, {})


def number_of(info: 'dict[str, Any]') -> 'int | None':
    """Return the number that the publisher gave a message; None if the middleware has none."""
    number = info.get('publication_sequence_number')
    return number if isinstance(number, int) and number > 0 else None


def pose_of(message: Any, info: 'dict[str, Any]') -> StreamMessage[Any]:
    """Return what identifies a geometry_msgs/PoseStamped or nav_msgs/Odometry."""
    pose, stamp = message.pose, message.header.stamp
    pose = getattr(pose, 'pose', pose)
    p, q = pose.position, pose.orientation
    return StreamMessage(number_of(info), stamp.sec * 1_000_000_000 + stamp.nanosec, (
        (p.x, p.y, p.z), (q.x, q.y, q.z, q.w)))


def joints_of(message: Any, info: 'dict[str, Any]') -> StreamMessage[Any]:
    """
    Return what identifies a sensor_msgs/JointState.

    Its stamp is that of the oldest measurement, which repeats: it has none of its own.
    """
    return StreamMessage(number_of(info), 0, (list(message.name), list(message.position)))


def publishers_of(node: Node, topic: str) -> str:
    """Name the nodes that publish a topic, for the user."""
    names = sorted({
        'a node without a name yet' if one.node_name == NAMELESS else
        full_name(one.node_name, one.node_namespace)
        for one in node.get_publishers_info_by_topic(topic)})
    return f'{" and ".join(names) if len(names) > 1 else "several nodes"} publish {topic}'


def describe(node: Node, topics: Sequence[str], bound: bool) -> tuple[str, str]:
    """
    Describe topics with several publishers.

    :param bound: whether the messages of one of them are used.
    :returns: why no message is used, and which are not, '' each.
    """
    text = '; '.join(publishers_of(node, topic) for topic in topics)
    if not text:
        return '', ''
    return ('', f'{text}: only those that continue the first are used') if bound else (text, '')


class BoundSubscription(Generic[V]):
    """
    Subscribe to one topic; ``use`` is called with the messages of one publisher.

    :param identify: returns what identifies a message.
    :param reach: whether the content of a message can follow that of another.
    :ivar problem: why no message is used, '' if they are; after ``look``.
    :ivar others: which messages are not used, '' if all are; after ``look``.
    """

    def __init__(
        self, node: Node, kind: Any, topic: str, use: Callable[[Any], None], qos: Any, *,
        identify: Callable[[Any, 'dict[str, Any]'], StreamMessage[V]], reach: Reach[V],
    ) -> None:
        self._node = node
        self._use = use
        self._identify = identify
        self._binding = Binding(reach)
        self.problem = self.others = ''
        self._subscription = node.create_subscription(kind, topic, informed(self._take), qos)
        self._timer = node.create_timer(
            TICK_S, self._tick, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self.topic: str = self._subscription.topic_name

    def look(self) -> None:
        """Name the publishers if there are several; call it about once a second."""
        several = [self.topic] if self._binding.several else []
        self.problem, self.others = describe(self._node, several, self._binding.bound)

    def _tick(self) -> None:
        self._binding.tick(time.monotonic_ns())

    def _take(self, message: Any, info: 'dict[str, Any]') -> None:
        if self._binding.accept(self._identify(message, info), time.monotonic_ns()) is not None:
            self._use(message)

    def destroy(self) -> None:
        """Unsubscribe."""
        self._node.destroy_timer(self._timer)
        self._node.destroy_subscription(self._subscription)
