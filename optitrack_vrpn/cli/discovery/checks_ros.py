# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the doctor: multicast between the computers, and the clocks of robots."""

from collections.abc import Callable, Sequence
import importlib
import os
import time
from typing import Any

from optitrack_vrpn.cli.discovery.judge import judge_clocks, judge_multicast
from optitrack_vrpn.cli.discovery.multicast_io import Announcements, ask, silent_cards
from optitrack_vrpn.core.checks import CheckResult, skip
from optitrack_vrpn.node.graph.conflicts import NAMELESS
from rclpy.qos import QoSProfile, ReliabilityPolicy

#: Fast DDS announces every 3 s, see config/fast_discovery.xml.
_PERIODS_S = 6.5
#: Time (s) to collect messages, and messages after which a node has sent enough. Chosen: DDS
#: repeats a lost announcement of a subscription after 3 s.
_COLLECT_S, _ENOUGH = 4.5, 10
#: Chosen: most nodes, and small messages that robots send often; images would load the WiFi.
_MOST_NODES = 30
_TYPES = ('nav_msgs/msg/Odometry', 'sensor_msgs/msg/Imu', 'sensor_msgs/msg/JointState',
          'sensor_msgs/msg/BatteryState', 'geometry_msgs/msg/PoseStamped',
          'geometry_msgs/msg/PoseWithCovarianceStamped', 'geometry_msgs/msg/TwistStamped',
          'geometry_msgs/msg/Twist', 'std_msgs/msg/Header', 'diagnostic_msgs/msg/DiagnosticArray')
#: Times in the information about a message, by the clocks of sender and receiver.
_TIMES = ('source_timestamp', 'received_timestamp')


def _limited() -> bool:
    """Return whether only programs of this computer are discovered."""
    return (os.environ.get('ROS_AUTOMATIC_DISCOVERY_RANGE') in ('LOCALHOST', 'OFF')
            or os.environ.get('ROS_LOCALHOST_ONLY') == '1')


class MulticastCheck:
    """
    Check whether announcements arrive by multicast.

    :param node: the doctor's.
    :param robots: addresses of computers that the user expects.
    """

    def __init__(self, node: Any, robots: Sequence[str] = ()) -> None:
        self._robots = robots
        self._domain = int(node.context.get_domain_id())
        self._why_not = (
            'discovery is limited to this computer' if _limited() else
            'a Discovery Server is used' if os.environ.get('ROS_DISCOVERY_SERVER') else '')
        self._began = time.monotonic()
        self._heard = None
        if not self._why_not:
            try:
                self._heard = Announcements(self._domain)
            except OSError as error:
                self._why_not = f'the port of announcements: {error.strerror}'

    def findings(self, spin: Callable[[float], None]) -> list[CheckResult]:
        """Return the findings; waits for two announcements where one is missing."""
        if self._heard is None:
            return [skip('multicast', self._why_not)] if self._robots else []
        while not set(self._robots) <= set(self._heard.heard()) and (
                time.monotonic() - self._began < _PERIODS_S):
            spin(0.1)
        heard = self._heard.heard()
        self._heard.close()
        missing = [robot for robot in self._robots if robot not in heard]
        answers = ask(missing, self._domain) if missing else {}
        return judge_multicast(self._domain, silent_cards(), heard, answers)


class ClockCheck:
    """
    Compare the times of sending of messages, by the clocks of their senders, with the clock here.

    :param node: the doctor's.
    :param robots: not used: every node that sends is compared.
    """

    def __init__(self, node: Any, robots: Sequence[str] = ()) -> None:
        self._node = node

    def findings(self, spin: Callable[[float], None]) -> list[CheckResult]:
        """Return the findings."""
        if _limited():
            return []
        delays: dict[str, list[int]] = {}
        subscriptions = [self._subscribe(topic, kind, delays)
                         for topic, kind in self._topics().items()]
        began = time.monotonic()
        while subscriptions and time.monotonic() - began < _COLLECT_S and (
                len(delays) < len(subscriptions) or min(map(len, delays.values())) < _ENOUGH):
            spin(0.05)
        for one in subscriptions:
            self._node.destroy_subscription(one)
        # Names of nodes may arrive later than their topics.
        return judge_clocks({self._sender(topic): found for topic, found in delays.items()})

    def _topics(self) -> dict[str, str]:
        """Find a topic, with its type, of each node that is the only publisher of one."""
        found: dict[str, tuple[str, str]] = {}
        for topic, kinds in self._node.get_topic_names_and_types():
            kind = next((kind for kind in kinds if kind in _TYPES), '')
            if kind and self._node.count_publishers(topic) == 1 and len(found) < _MOST_NODES:
                found.setdefault(self._sender(topic), (topic, kind))
        return dict(found.values())

    def _sender(self, topic: str) -> str:
        """Return the name of the node that publishes a topic; the topic if it is not known."""
        for info in self._node.get_publishers_info_by_topic(topic):
            if info.node_name != NAMELESS:
                return f'{info.node_namespace.rstrip("/")}/{info.node_name}'
        return f'the publisher of {topic}'

    def _subscribe(
        self, topic: str, kind: str, delays: dict[str, list[int]],
    ) -> Any:
        def note(_: bytes, info: Any) -> None:
            sent_ns, arrived_ns = (info[key] for key in _TIMES)
            if sent_ns and arrived_ns:
                delays.setdefault(topic, []).append(arrived_ns - sent_ns)

        package, folder, word = kind.split('/')
        message_type = getattr(importlib.import_module(f'{package}.{folder}'), word)
        return self._node.create_subscription(
            message_type, topic, note,
            QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT), raw=True)
