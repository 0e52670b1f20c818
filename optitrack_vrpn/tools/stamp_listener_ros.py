# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Collect the stamps of a PoseStamped topic for a given time."""

import math
import time
from typing import NamedTuple, Sequence

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.ros.tool_node import checked_topic, ToolNode
from optitrack_vrpn.units import NS_PER_S
from rclpy.node import Node
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

_TYPE = 'geometry_msgs/msg/PoseStamped'
#: Chosen: longest wait between two checks for signals (s).
_SLICE_S = 0.1
#: Chosen: time for which a topic may have publishers of other types only (s), in which DDS can
#: discover further publishers and topics.
_GRACE_S = 1.0
_MOST_NAMED = 5


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
    instead = (f'try {", ".join(found[:_MOST_NAMED])}' if found else
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
        tool.spin(min(left, _SLICE_S))
        if started:
            continue
        now = time.monotonic()
        if stamps:
            started = True
            end = now + seconds
        elif other := _other_type(tool.node, topic):
            other_since = min(other_since, now)
            if now - other_since > min(_GRACE_S, wait_s / 2):
                raise ConfigurationError(_explain(tool.node, topic, other))
