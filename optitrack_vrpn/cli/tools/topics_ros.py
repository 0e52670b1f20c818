# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""List the topics of the ROS graph, and read one of any type."""

import importlib
import time
from typing import Any, Callable, NamedTuple

from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.node.base.tool_node import checked_topic, ToolNode
from optitrack_vrpn.node.graph.processes import without_shared_memory
from optitrack_vrpn.node.graph.processes_io import local_nodes
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy


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
                cause, remedy = without_shared_memory(local_nodes())
                raise TransportError(
                    f'{topic} has {counted(len(offers), "publisher")}, but no message arrived: '
                    + (f'{cause}; {remedy}' if cause else
                       'is the node active, and are its bodies in view?'))
