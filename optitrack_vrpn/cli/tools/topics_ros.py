# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read the messages of a topic of any type."""

import importlib
import time
from typing import Any, Iterator

from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.node.base.tool_node import checked_topic, ToolNode
from optitrack_vrpn.node.graph.processes import without_shared_memory
from optitrack_vrpn.node.graph.processes_io import local_nodes
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy


def read(tool: ToolNode, topic: str, timeout_s: float) -> Iterator[Any]:
    """
    Read messages of a topic, one after the other.

    :param timeout_s: longest wait for the topic, and for its first message (s).
    :raises TransportError: if the topic has no publisher, or no message arrives.
    :raises ConfigurationError: if its name is wrong, or the package of its type is not installed.
    """
    topic = checked_topic(topic)
    deadline = time.monotonic() + timeout_s
    while not (offers := tool.node.get_publishers_info_by_topic(topic)):
        if time.monotonic() > deadline:
            raise TransportError(
                f'no node publishes on {topic} in this ROS domain; `topics` lists the existing '
                'topics, and ROS_DOMAIN_ID chooses the domain')
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
    taken: list[Any] = []
    tool.node.create_subscription(message_type, topic, taken.append, QoSProfile(
        depth=10, reliability=ReliabilityPolicy.RELIABLE if latched
        else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE))
    while True:
        tool.executor.spin_once(timeout_sec=0.2)
        if taken:
            deadline = float('inf')
            yield taken.pop(0)
        elif time.monotonic() > deadline:
            cause, remedy = without_shared_memory(local_nodes())
            raise TransportError(
                f'{topic} has {counted(len(offers), "publisher")}, but no message arrived: '
                + (f'{cause}; {remedy}' if cause else
                   'is the node active, and are its bodies in view?'))
