# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find nodes of the same full name and publishers on the same topics; mismatched subscribers."""

from typing import Optional, Sequence

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.node.graph.conflicts import (
    full_name, LINGERS, NAMELESS, ONE_NAME, ONE_TOPIC, qos_remedies)
from rclpy.node import Node
from rclpy.qos import qos_policy_name_from_kind

#: Times of the checks after the start (ns). Chosen: DDS discovery takes about 1 s, several seconds
#: on a busy computer.
CHECKS_NS = (1_000_000_000, 3_000_000_000, 8_000_000_000)
#: Period of the checks of one body's topics (ns), while the node runs. Chosen: a check takes 0.1
#: to 0.3 ms with Python's interpreter lock held.
TURN_NS = 2_000_000_000


class DuplicateNames:
    """Search for nodes with the name of this node, a few times after its start (ns)."""

    def __init__(self, node: Node, now_ns: int) -> None:
        self._node = node
        self._due_ns = [now_ns + after_ns for after_ns in CHECKS_NS]

    def look(self, now_ns: int) -> str:
        """Check the names, if due; return a warning about others of this name once, else ''."""
        if not self._due_ns or now_ns < self._due_ns[0]:
            return ''
        self._due_ns.pop(0)
        own = self._node.get_name(), self._node.get_namespace()
        others = self._node.get_node_names_and_namespaces().count(own) - 1
        if others < 1:
            return ''
        self._due_ns.clear()
        name = self._node.get_fully_qualified_name()
        return (
            f'{"another node is" if others == 1 else f"{others} other nodes are"} called {name} '
            'too, so that topics and transforms are published twice, and commands reach either '
            f'node: {ONE_NAME}; {LINGERS}')


class ConflictingPublishers:
    """Search every two seconds for other publishers on the topics of one body."""

    def __init__(self, node: Node, now_ns: int) -> None:
        self._node = node
        self._due_ns = now_ns + CHECKS_NS[0]
        self._turns = 0
        self._reported: set[str] = set()

    def turn(self, now_ns: int) -> Optional[int]:
        """Return the number of the next turn, or None while it is not due."""
        # Chosen: largest number of reported nodes.
        if now_ns < self._due_ns or len(self._reported) >= 8:
            return None
        self._due_ns = now_ns + TURN_NS
        self._turns += 1
        return self._turns - 1

    def look(self, topics: Sequence[str]) -> list[str]:
        """Check topics of this node; return a warning once for each other publisher."""
        own = self._node.get_name(), self._node.get_namespace()
        lines = []
        for topic in topics:
            for info in self._node.get_publishers_info_by_topic(topic):
                other = full_name(info.node_name, info.node_namespace)
                if (info.node_name, info.node_namespace) == own or other in self._reported or (
                        info.node_name == NAMELESS):
                    continue
                self._reported.add(other)
                lines.append(
                    f'{printable(other)} publishes on {topic} too, so that subscribers receive '
                    f'both: {ONE_TOPIC}; {LINGERS}')
        return lines


def describe_mismatch(topic: str, policy: int) -> str:
    """Describe by the event's policy why a subscriber receives nothing; the remedy."""
    try:
        name = qos_policy_name_from_kind(policy)
    except ValueError:    # a policy that this rclpy does not know
        name = f'of policy {policy}'
    return (f'a subscriber of {topic} receives nothing: it requests more {name} than this node '
            f'offers: {"; ".join(qos_remedies(name))}')
