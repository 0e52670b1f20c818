# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find other nodes of one name, on the same topics or TF frames; mismatched subscribers."""

from typing import Any, Callable, Mapping, Optional, Sequence

from optitrack_vrpn.node.base.node_parts import PolledGroup
from optitrack_vrpn.node.graph.conflicts import full_name, NAMELESS, qos_remedies
from rclpy.node import Node
from rclpy.qos import (
    DurabilityPolicy, qos_policy_name_from_kind, QoSProfile, ReliabilityPolicy)
from rclpy.serialization import deserialize_message

#: Times of the checks after the start (ns). Chosen: DDS discovery takes about 1 s, several seconds
#: on a busy computer.
CHECKS_NS = (1_000_000_000, 3_000_000_000, 8_000_000_000)
#: Period of the checks of one body's topics (ns), while the node runs. Chosen: a check takes 0.1
#: to 0.3 ms with Python's interpreter lock held.
TURN_NS = 2_000_000_000
#: Chosen: other publishers that are kept.
_MOST_OTHERS = 8
#: How long TF is read (ns). Chosen: discovery of the reader takes up to a second.
TF_NS = 3_000_000_000
#: Chosen: messages that are kept between two reads, enough for some of each publisher; messages of
#: the same frames that are decoded.
_TF_DEPTH, _DECODED = 50, 5


class DuplicateNames:
    """Search for nodes with the name of this node, a few times after its start (ns)."""

    def __init__(self, node: Node, now_ns: int) -> None:
        self._node = node
        self._due_ns = [now_ns + after_ns for after_ns in CHECKS_NS]
        self._others = 0

    def look(self, now_ns: int) -> int:
        """Check the names, if due; return the number of other nodes of this name."""
        if self._due_ns and now_ns >= self._due_ns[0]:
            self._due_ns.pop(0)
            own = self._node.get_name(), self._node.get_namespace()
            self._others = max(
                self._others, self._node.get_node_names_and_namespaces().count(own) - 1)
        return self._others


class ConflictingPublishers:
    """Search every two seconds for others on the topics of one body, and check a known one."""

    def __init__(self, node: Node, now_ns: int) -> None:
        self._node = node
        self._due_ns = now_ns + CHECKS_NS[0]
        self._turns = 0
        self._found: dict[str, str] = {}

    def turn(self, now_ns: int) -> Optional[int]:
        """Return the number of the next turn, or None while it is not due."""
        if now_ns < self._due_ns:
            return None
        self._due_ns = now_ns + TURN_NS
        self._turns += 1
        return self._turns - 1

    def look(self, topics: Sequence[str]) -> dict[str, str]:
        """Check topics of this node; return all other publishers known, with a topic of each."""
        known = [*self._found.values()]
        # A publisher that has ended is removed after at most as many turns as are known.
        again = [known[self._turns % len(known)]] if known else []
        for topic in dict.fromkeys([*topics, *again]):
            others = self._others(topic)
            for name in [name for name, its in self._found.items() if its == topic]:
                if name not in others:
                    del self._found[name]
            for name in others[:_MOST_OTHERS - len(self._found)]:
                self._found.setdefault(name, topic)
        return self._found.copy()

    def _others(self, topic: str) -> list[str]:
        """List the full names of other nodes that publish on a topic."""
        if self._node.count_publishers(topic) < 2:    # the list of them takes far longer
            return []
        own = self._node.get_name(), self._node.get_namespace()
        return [full_name(one.node_name, one.node_namespace)
                for one in self._node.get_publishers_info_by_topic(topic)
                if (one.node_name, one.node_namespace) != own and one.node_name != NAMELESS]


class ForeignParents:
    """
    Search for transforms of other publishers to the frames of this node: TF is a tree.

    TF is read for some seconds when the number of its publishers or of the frames has changed:
    to read it all the time would cost as much as to publish it.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._group = PolledGroup()
        self._own: Mapping[str, str] = {}
        self._seen: tuple[object, ...] = ()
        # What the last reading has found, and what the one before had found.
        self._found: dict[str, tuple[str, str]] = {}
        self._before: dict[str, tuple[str, str]] = {}
        self._readers: list[Any] = []
        self._decoded: dict[tuple[int, bytes], int] = {}
        self._until_ns = 0

    def begin(self, own: Callable[[], Mapping[str, str]], of: object, now_ns: int) -> None:
        """
        Begin to read if something has changed; call it every few seconds.

        :param own: returns the parent of each frame that this node broadcasts.
        :param of: a value that changes when the result of ``own`` may change.
        """
        counts = tuple(map(self._node.count_publishers, ('/tf', '/tf_static')))
        seen = (*counts, of)
        if self._readers or seen == self._seen:
            return
        self._seen = seen
        self._found, self._before = {}, self._found
        if max(counts) < 2:    # this node has one publisher of each
            self._before = {}
            return
        self._own = own()
        if not self._own:
            self._before = {}
            return
        from tf2_msgs.msg import TFMessage    # with numpy, which the start does not wait for
        self._until_ns = now_ns + TF_NS
        for topic, durability in (('/tf', DurabilityPolicy.VOLATILE),
                                  ('/tf_static', DurabilityPolicy.TRANSIENT_LOCAL)):
            self._readers.append(self._node.create_subscription(
                TFMessage, topic, lambda message: None, QoSProfile(
                    depth=_TF_DEPTH, durability=durability,
                    reliability=ReliabilityPolicy.BEST_EFFORT
                    if durability is DurabilityPolicy.VOLATILE else ReliabilityPolicy.RELIABLE),
                raw=True, callback_group=self._group))

    def look(self, now_ns: int) -> dict[str, tuple[str, str]]:
        """
        Read the transforms that wait; call it about ten times a second.

        :returns: by frame, its parent of this node and that of the other one. What was found
            before stays until the present reading has ended.
        """
        for reader in self._readers:
            with reader.handle:
                for _ in range(_TF_DEPTH):
                    taken = reader.handle.take_message(reader.msg_type, True)
                    if taken is None:
                        break
                    self._read(taken[0], reader.msg_type)
        if self._readers and now_ns >= self._until_ns:
            self._before = {}
            self.close()
        return {**self._before, **self._found}

    def _read(self, data: bytes, kind: Any) -> None:
        # The size, and what follows the first stamp, which are its frames.
        key = len(data), data[16:80]
        decoded = self._decoded[key] = self._decoded.get(key, 0) + 1
        if decoded > _DECODED:
            return
        for one in deserialize_message(data, kind).transforms:
            child, parent = one.child_frame_id.lstrip('/'), one.header.frame_id.lstrip('/')
            own = self._own.get(child, parent)
            if own != parent:
                self._found.setdefault(child, (own, parent))

    def close(self) -> None:
        """End reading."""
        self._decoded.clear()
        while self._readers:
            self._node.destroy_subscription(self._readers.pop())


def describe_mismatch(topic: str, policy: int) -> str:
    """Describe by the event's policy why a subscriber receives nothing; the remedy."""
    try:
        name = qos_policy_name_from_kind(policy)
    except ValueError:    # a policy that this rclpy does not know
        name = f'of policy {policy}'
    return (f'a subscriber of {topic} receives nothing: it requests more {name} than this node '
            f'offers: {"; ".join(qos_remedies(name))}')
