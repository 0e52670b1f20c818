# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Conflicts in the ROS graph: names, topics, quality of service, several publishers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Optional

#: Name of a node of which ROS 2 knows an endpoint but not the name: discovery has not finished, or
#: the participant is not a ROS node.
NAMELESS = '_NODE_NAME_UNKNOWN_'


def full_name(name: str, namespace: str) -> str:
    """Join a node's base name and namespace."""
    return f'{namespace.rstrip("/")}/{name}'


def base_name(name: str) -> str:
    """Return a full name without its namespace."""
    return name.rpartition('/')[2]


def state_services(
    services: Iterable[tuple[str, Sequence[str]]],
) -> list[tuple[str, str]]:
    """List the lifecycle nodes: full names, and services that report their states."""
    return [(name.rpartition('/')[0], name) for name, types in services
            if name.endswith('/get_state') and 'lifecycle_msgs/srv/GetState' in types]


#: Topics depend on the namespace, not on the node's name; transforms depend on neither.
_APART = 'another namespace (-r __ns:=/NAME) and other frames (frames.body, frames.body_ned)'
#: Remedy for two nodes with one full name; their services conflict too.
ONE_NAME = f'end one, or give one {_APART}'
#: Remedy for two nodes with different names that publish on one topic.
ONE_TOPIC = (
    f'end one, select different bodies for each (bodies.allow), or give one {_APART}')
#: A killed node stays in the graph until DDS's participant lease expires.
LINGERS = 'a killed node stays visible for about 20 s'

#: Words of a policy's name or of the middleware's reason (rmw_dds_common, qos.cpp); the remedy.
_QOS_REMEDIES = {
    ('reliab',): 'request best effort in the subscriber, or set qos.reliability: reliable for the '
                 'node and configure it again',
    ('durability', 'transient local'): 'request durability volatile in the subscriber: poses are '
                                       'not kept for late subscribers',
    ('deadline',): 'request no deadline in the subscriber: the node offers none',
    ('liveliness',): 'request liveliness automatic without lease in the subscriber: the node '
                     'offers no other',
}


def qos_remedies(reason: str) -> list[str]:
    """Return the remedy for each policy that does not match."""
    return [remedy for words, remedy in _QOS_REMEDIES.items()
            if any(word in reason.lower() for word in words)] or [
        'request the default quality of service in the subscriber']


#: Consecutive messages with continuous numbers that show a single sender: more than the queues of
#: subscriptions hold (10), 0.25 s at 100 Hz.
STEADY = 25


class Publisher(NamedTuple):
    """A publisher in the ROS graph: the full name of its node, and its GID."""

    node: str
    gid: bytes


class Arrival(NamedTuple):
    """
    What a subscription knows about the publisher of a message.

    :ivar topic: topic of the message.
    :ivar matched: number of publishers that match the subscription to each watched topic.
    :ivar sequence: number of the message, counted by its publisher; None if unknown.
    """

    topic: str
    matched: tuple[int, ...]
    sequence: Optional[int]


@dataclass
class _Stream:
    sequence: Optional[int] = None
    steady: int = 0
    accepted: frozenset[bytes] = frozenset()


class OnePublisher:
    """
    Accept the messages of one publisher only; ``look`` reads the ROS graph.

    rclpy does not give the GID of a message's publisher. It gives the number of matched publishers
    and the sequence number, which each publisher counts for itself. While both continue, the
    publisher is the same; otherwise the GIDs are read from the ROS graph:

    - Publishers of different nodes: nothing is accepted.
    - Several publishers of one full name: a node that was killed and started again (the dead one
      stays in the graph until its lease ends, 10 to 20 s), or two nodes of one name. Messages are
      accepted once ``STEADY`` of them have continuous numbers, which two senders never have.
    """

    def __init__(
        self, topics: Sequence[str], look: Callable[[str], Sequence[Publisher]],
    ) -> None:
        self._topics = tuple(topics)
        self._look = look
        self._gids: dict[str, frozenset[bytes]] = {}
        self._matched: tuple[int, ...] = ()
        self._streams = {topic: _Stream() for topic in topics}
        self._several = self._doubt = ''
        self._refused = False

    @property
    def problem(self) -> str:
        """Return why messages are not accepted, '' if they are."""
        return self._several or self._doubt

    def look(self) -> None:
        """Read the ROS graph; call it about once a second, too."""
        graph = {topic: self._look(topic) for topic in self._topics}
        self._gids = {topic: frozenset(one.gid for one in found) for topic, found in graph.items()}
        self._several = next((
            f'{" and ".join(names)} publish {topic}' for topic, found in graph.items()
            if len(names := sorted({one.node for one in found})) > 1), '')

    def accept(self, arrival: Arrival) -> Optional[bool]:
        """Return None for a message that may not be used, else whether it begins a stream."""
        topic, stream = arrival.topic, self._streams[arrival.topic]
        before, stream.sequence = stream.sequence, arrival.sequence
        # Largest step of the numbers within one stream; best-effort messages can be lost.
        follows = before is not None and arrival.sequence is not None and (
            0 < arrival.sequence - before <= 10)
        stream.steady = stream.steady + 1 if follows else 0
        if arrival.matched != self._matched:
            self._matched = arrival.matched
            for one in self._streams.values():
                one.steady = 0
            self.look()
        elif not follows or stream.steady < STEADY:
            # The numbers of two young streams are alike.
            self.look()
        gids = self._gids[topic]
        count = max(len(gids), arrival.matched[self._topics.index(topic)])
        if not gids:
            self._doubt = f'the publisher of {topic} is not in the ROS graph yet'
        elif count > 1 and stream.steady < STEADY:
            self._doubt = f'{count} nodes of one name publish {topic}'
        else:
            self._doubt = ''
        if self.problem:
            self._refused = True
            return None
        known, stream.accepted = stream.accepted, gids
        replaced = bool(known) and known != gids and (
            not follows or len(known) == len(gids) == 1)
        fresh, self._refused = self._refused or replaced, False
        return fresh
