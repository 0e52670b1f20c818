# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""List the topics of the ROS graph, read one of any type, and collect the stamps of one."""

import importlib
import math
import time
from typing import Any, Callable, NamedTuple, Sequence

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.errors import ConfigurationError, TransportError
from optitrack_vrpn.ros import checked_topic, ToolNode
from optitrack_vrpn.units import NS_PER_S
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


class TopicInfo(NamedTuple):
    """A topic of the graph: name, types, numbers of publishers and subscriptions."""

    name: str
    kinds: tuple[str, ...]
    publishers: int
    subscriptions: int


class TopicReader(ToolNode):
    """A ROS node that lists and reads topics; use it in a ``with`` block."""

    def __init__(self) -> None:
        super().__init__(
            'optitrack_vrpn_topics', start_parameter_services=False, enable_rosout=False)

    def list(self, look_s: float) -> list[TopicInfo]:
        """List the topics after a time for discovery."""
        time.sleep(look_s)
        return [
            TopicInfo(name, tuple(kinds), self.node.count_publishers(name),
                      self.node.count_subscribers(name))
            for name, kinds in sorted(self.node.get_topic_names_and_types())]

    def read(
        self, topic: str, count: int, timeout_s: float, take: Callable[[Any], None],
    ) -> None:
        """
        Read messages of a topic.

        :param count: number of messages.
        :param timeout_s: longest wait for the topic, and for its first message (s).
        :param take: called with each message.
        :raises TransportError: if the topic has no publisher, or no message arrives.
        :raises ConfigurationError: if its name is wrong, or the package of its type is not
            installed.
        """
        topic = checked_topic(topic)
        deadline = time.monotonic() + timeout_s
        offers: list[Any] = []
        while not (offers := self.node.get_publishers_info_by_topic(topic)):
            if time.monotonic() > deadline:
                raise TransportError(
                    f'no node publishes on {topic} in this ROS domain; `topics` lists the '
                    'existing topics, and ROS_DOMAIN_ID chooses the domain')
            time.sleep(0.05)
        kind = offers[0].topic_type
        package, _, name = kind.partition('/msg/')
        try:
            message_type = getattr(importlib.import_module(f'{package}.msg'), name)
        except (ImportError, AttributeError):
            raise ConfigurationError(
                f'{topic} has the type {kind}, which is not installed here') from None
        # The QoS that the publishers offer: compatible with all, transient local where offered.
        latched = all(offer.qos_profile.durability == DurabilityPolicy.TRANSIENT_LOCAL
                      for offer in offers)
        taken = 0

        def note(message: Any) -> None:
            nonlocal taken
            if taken < count:
                taken += 1
                take(message)
        self.node.create_subscription(message_type, topic, note, QoSProfile(
            depth=10, reliability=ReliabilityPolicy.RELIABLE if latched
            else ReliabilityPolicy.BEST_EFFORT,
            durability=DurabilityPolicy.TRANSIENT_LOCAL if latched
            else DurabilityPolicy.VOLATILE))
        while taken < count:
            self.executor.spin_once(timeout_sec=0.2)
            if not taken and time.monotonic() > deadline:
                raise TransportError(
                    f'{topic} has {len(offers)} publishers, but no message arrived; is the node '
                    'active, and are its bodies in view?')


# -- the stamps of a topic -----------------------------------------------------------------------

_TYPE = 'geometry_msgs/msg/PoseStamped'


class Collected(NamedTuple):
    """The received stamps, in order of arrival (ns since 1970)."""

    stamps_ns: list[int]
    arrivals_ns: list[int]
    frame_id: str
    publishers: int


def _other_type(node: Node, topic: str) -> str:
    """Return the type of a topic that has publishers, but none of poses; '' otherwise."""
    types = {info.topic_type for info in node.get_publishers_info_by_topic(topic)}
    return '' if _TYPE in types else min(types, default='')


def _explain(node: Node, topic: str, other: str) -> str:
    """Describe a topic of another type, with the pose topics that exist, most similar first."""
    found = [
        name for name, types in node.get_topic_names_and_types()
        if _TYPE in types and any(
            info.topic_type == _TYPE for info in node.get_publishers_info_by_topic(name))]
    parent = topic.rpartition('/')[0]
    found.sort(key=lambda name: (name.rpartition('/')[0] != parent, name))
    instead = (f'try {", ".join(found[:5])}' if found else
               'no topic of this type exists now')
    return f'{topic} is of type {other}, and stamps are read from {_TYPE}: {instead}'


def collect(topic: str, seconds: float, wait_s: float, ros_args: list[str]) -> Collected:
    """
    Listen to a topic from its first message; Ctrl-C after that ends the measurement early.

    :param seconds: duration from the first message (s).
    :param wait_s: longest wait for the first message (s).
    :param ros_args: ROS arguments of the command line.
    :raises ConfigurationError: if ROS rejects the arguments or the topic, or the topic has
        another type.
    :raises KeyboardInterrupt: on Ctrl-C before the first message.
    """
    stamps: list[int] = []
    arrivals: list[int] = []
    frames: list[str] = ['']

    def take(message: PoseStamped) -> None:
        arrivals.append(time.time_ns())
        stamp = message.header.stamp
        stamps.append(stamp.sec * NS_PER_S + stamp.nanosec)
        frames[0] = message.header.frame_id

    # Best effort matches every publisher; the depth buffers messages while this thread is busy.
    qos = QoSProfile(
        depth=1000, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
    with ToolNode('analyze_stamps', ros_args) as tool:
        tool.node.create_subscription(PoseStamped, checked_topic(topic), take, qos)
        try:
            _listen(tool, topic, seconds, wait_s, stamps)
        except KeyboardInterrupt:
            if not stamps:
                raise
        publishers = tool.node.count_publishers(topic)
    return Collected(stamps, arrivals, frames[0], publishers)


def _listen(
    tool: ToolNode, topic: str, seconds: float, wait_s: float, stamps: Sequence[int],
) -> None:
    """Spin until the time from the first message is over, or none has arrived in time."""
    end = time.monotonic() + wait_s
    started = False
    other_since = math.inf
    while (left := end - time.monotonic()) > 0:
        tool.spin(min(left, 0.1))    # s between two checks for signals
        if started:
            continue
        now = time.monotonic()
        if stamps:
            started = True
            end = now + seconds
        elif other := _other_type(tool.node, topic):
            other_since = min(other_since, now)
            # In a second DDS can discover publishers of the right type.
            if now - other_since > min(1.0, wait_s / 2):
                raise ConfigurationError(_explain(tool.node, topic, other))
