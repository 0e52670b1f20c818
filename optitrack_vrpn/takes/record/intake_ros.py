# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read serialised messages of many topics, with the time at which the middleware received each.

The executor reads one message per iteration and visits every entity in each, which is too slow for
about ten thousand messages per second. A thread of this module reads all waiting messages of all
topics twenty times per second; the receive times are the middleware's and do not depend on this
period.
"""

from collections.abc import Callable, Iterator, Sequence
import importlib
import threading
import time
from typing import Any, Optional

from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.node.base.node_parts import PolledGroup
from optitrack_vrpn.takes.cdr import definition
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_metadata import make_qos, Qos, TopicMetadata
from optitrack_vrpn.takes.record.losses import LossTimes, SequenceWatch
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy

#: Period (s) of reading all topics; messages wait in the readers meanwhile, twelve of a body at
#: 240 Hz. Chosen: reading 150 topics takes 1 ms, also without messages.
_TURN_S = 0.05
#: Chosen: messages that wait in a reader: four seconds of a body at 240 Hz. Those after a lost one
#: wait until the publisher has repeated it, with Fast DDS's defaults 3 s.
_DEPTH = 1000
#: Chosen: messages of one reader before the next one is served.
_MOST_AT_ONCE = 1000


class IntakeReader:
    """
    A subscription to one topic.

    :ivar key: its number, from 1.
    :ivar metadata: the topic's metadata in the bag.
    :ivar definition: definition of its message type.
    :ivar watch: counts lost messages.
    :ivar others: other types that publishers have on this topic.
    :ivar publishers: how many publishers it had at first.
    """

    def __init__(
        self, key: int, metadata: TopicMetadata, text: str, subscription: Any, raw_type: Any,
        publishers: int = 1,
    ) -> None:
        self.publishers = publishers
        self.key, self.metadata, self.definition = key, metadata, text
        self.subscription, self.raw_type = subscription, raw_type
        self.watch = SequenceWatch()
        self.others: set[str] = set()
        self.sequence = 0
        self.uncountable = ''


class Intake:
    """
    Subscribe to topics and read their messages in a thread.

    :param node: owns the subscriptions.
    :param wants: returns whether a topic of a type is recorded.
    :param announce: called with each new topic, before its first message.
    :param deliver: called in the thread with the messages of one iteration.
    :ivar loss_times: when messages were lost.
    :ivar fault: why no more messages are read; '' while they are.
    """

    def __init__(
        self, node: Node, wants: Callable[[str, str], bool],
        announce: Callable[[IntakeReader], None], deliver: Callable[[list[Message]], None],
    ) -> None:
        self._node = node
        self._wants = wants
        self._announce = announce
        self._deliver = deliver
        self._group = PolledGroup()
        self._lock = threading.Lock()
        self._readers: dict[str, IntakeReader] = {}
        self._unknown: set[str] = set()
        self.loss_times = LossTimes()
        self.fault = ''
        self._definitions: dict[str, str] = {}
        self._worker: Worker[None] = Worker(
            'intake', self._failed, turn=self._turn, period_s=_TURN_S)
        self._worker.start()

    @property
    def readers(self) -> list[IntakeReader]:
        """Return the readers of all topics, in the order in which they were added."""
        with self._lock:
            return list(self._readers.values())

    def look(self) -> Iterator[str]:
        """
        Subscribe to new topics of the graph, with the QoS that all publishers match.

        :returns: warnings about topics that are not recorded.
        """
        for topic, types in self._node.get_topic_names_and_types():
            if topic in self._readers or topic in self._unknown or not any(
                    self._wants(topic, type_name) for type_name in types):
                continue
            # A topic without publishers has no offered QoS yet.
            publishers = self._node.get_publishers_info_by_topic(topic)
            type_name = next((entry.topic_type for entry in publishers
                              if self._wants(topic, entry.topic_type)), '')
            if not type_name:
                continue
            try:
                self._add(topic, type_name, publishers)
            except Exception as error:    # each layer of the middleware has its own errors
                self._unknown.add(topic)
                yield (f'{topic} is not recorded: its type {type_name} is not installed here, not '
                       f'a message, or not the one of this topic ({error})')

    def follow(self) -> Iterator[str]:
        """
        Examine the publishers of all topics; an examination takes 30 us (measured).

        If the subscription does not match the QoS of a new publisher, as of a node that was
        restarted with other settings, another one replaces it.

        :returns: warnings about messages that are not recorded, or may be missing.
        """
        for reader in self.readers:
            topic, type_name = reader.metadata.name, reader.metadata.type_name
            publishers = self._node.get_publishers_info_by_topic(topic)
            if not publishers:
                with self._lock:
                    reader.watch.forget()
            if reader.watch.uncountable and reader.watch.uncountable != reader.uncountable:
                reader.uncountable = reader.watch.uncountable
                yield f'{topic}: lost messages are not counted: {reader.uncountable}'
            others = {entry.topic_type for entry in publishers} - {type_name} - reader.others
            if others:
                reader.others |= others
                yield (f'{topic}: a publisher has the type {", ".join(sorted(others))}, whose '
                       f'messages are not recorded, because this recording has {type_name} on '
                       'this topic; start another recording')
            offered = _distinct(publishers, type_name)
            profile = _matching(offered)
            if offered and not _receives(reader.subscription.qos_profile, profile):
                waiting: list[Message] = []
                with self._lock:
                    self._take(reader, waiting)
                    self._node.destroy_subscription(reader.subscription)
                    reader.subscription = self._subscribe(topic, reader.raw_type, profile)
                self._deliver(waiting)
                yield (f'{topic}: a publisher offers another QoS than those before, so that its '
                       'first messages are not recorded; from now on all are received as '
                       f'{profile.reliability.name.lower()} and {profile.durability.name.lower()}')

    def _add(self, topic: str, type_name: str, publishers: Sequence[Any]) -> None:
        """
        Subscribe to a topic.

        :raises Exception: if the type is not installed or the middleware refuses it.
        """
        message_type = load_type(type_name)
        if type_name not in self._definitions:
            self._definitions[type_name] = definition(type_name, fields_of)
        profiles = _distinct(publishers, type_name)
        hashes = [str(getattr(entry, 'topic_type_hash', None) or '') for entry in publishers
                  if entry.topic_type == type_name]
        reader = IntakeReader(
            len(self._readers) + 1, TopicMetadata(
                topic, type_name, profiles, next(filter(None, hashes), '')),
            self._definitions[type_name],
            self._subscribe(topic, message_type, _matching(profiles)), message_type,
            len(publishers))
        self._announce(reader)
        with self._lock:
            self._readers[topic] = reader

    def _subscribe(self, topic: str, message_type: Any, profile: QoSProfile) -> Any:
        return self._node.create_subscription(
            message_type, topic, lambda message: None, profile, raw=True,
            callback_group=self._group)

    def lost(self) -> dict[str, int]:
        """Return the number of messages that the middleware lost, by topic, without zeros."""
        return {reader.metadata.name: reader.watch.lost for reader in self.readers
                if reader.watch.lost}

    def uncounted(self) -> dict[str, str]:
        """Return the topics whose losses could not be counted, and why."""
        return {reader.metadata.name: reader.watch.uncountable for reader in self.readers
                if reader.watch.uncountable}

    def restart(self) -> None:
        """Begin to count losses for another recording."""
        with self._lock:
            for reader in self._readers.values():
                reader.watch.restart()
                reader.uncountable = ''
            self.loss_times = LossTimes()

    def close(self) -> None:
        """Stop the thread and destroy the subscriptions."""
        self._worker.stop(10.0)
        for reader in self.readers:
            self._node.destroy_subscription(reader.subscription)
        with self._lock:
            self._readers.clear()

    def _failed(self, error: Exception) -> bool:
        # Each layer of the middleware has its own errors.
        self.fault = f'messages can no longer be received: {error!r}'
        return False

    def _turn(self) -> None:
        """Read what waits in all readers, and pass it on."""
        found: list[Message] = []
        try:
            for reader in self.readers:
                with self._lock:    # ``follow`` replaces subscriptions
                    self._take(reader, found)
        finally:
            if found:
                self._deliver(found)

    def _take(self, reader: IntakeReader, found: list[Message]) -> None:
        # The inner loop runs for every message: what it needs is in local names.
        handle, raw_type, key = reader.subscription.handle, reader.raw_type, reader.key
        watch, sequence = reader.watch, reader.sequence
        with handle:
            take = handle.take_message
            for _ in range(_MOST_AT_ONCE):
                taken = take(raw_type, True)
                if taken is None:
                    break
                data, info = taken
                sequence += 1
                received_ns = info['received_timestamp'] or time.time_ns()
                number = info.get('publication_sequence_number')
                if number == watch.next:
                    watch.next += 1
                else:
                    self._note(reader, watch, number, received_ns)
                found.append(Message(
                    key, sequence, received_ns, info['source_timestamp'] or received_ns, data))
        reader.sequence = sequence

    def _note(
        self, reader: IntakeReader, watch: SequenceWatch, number: Optional[int], received_ns: int,
    ) -> None:
        """Take a number that does not follow the one before."""
        for count, at_ns in watch.note(number, received_ns):
            self.loss_times.note(reader.metadata.name, count, at_ns)


def load_type(type_name: str) -> Any:
    """
    Load a message class.

    :param type_name: type name, as in ``geometry_msgs/msg/PoseStamped``.
    :raises ImportError: if its package is not installed.
    :raises AttributeError: if the package has no such message.
    """
    package, _, name = type_name.partition('/msg/')
    return getattr(importlib.import_module(f'{package}.msg'), name)


def fields_of(type_name: str) -> dict[str, str]:
    """Return the fields of a message type; see ``definitions.py``."""
    fields: dict[str, str] = load_type(type_name).get_fields_and_field_types()
    return fields


def _distinct(publishers: Sequence[Any], type_name: str) -> list[Qos]:
    """Return the distinct QoS profiles that the publishers of a type offer."""
    offered = [make_qos(
        'best_effort' if entry.qos_profile.reliability is ReliabilityPolicy.BEST_EFFORT
        else 'reliable',
        'transient_local' if entry.qos_profile.durability is DurabilityPolicy.TRANSIENT_LOCAL
        else 'volatile') for entry in publishers if entry.topic_type == type_name]
    return [qos for at, qos in enumerate(offered) if qos not in offered[:at]]


def _matching(profiles: Sequence[Qos]) -> QoSProfile:
    """Return the strictest profile that matches all of these profiles."""
    reliable = all(profile['reliability'] == 'reliable' for profile in profiles)
    latched = bool(profiles) and all(
        profile['durability'] == 'transient_local' for profile in profiles)
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST, depth=_DEPTH,
        reliability=ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT,
        durability=DurabilityPolicy.TRANSIENT_LOCAL if latched else DurabilityPolicy.VOLATILE)


def _receives(own: QoSProfile, needed: QoSProfile) -> bool:
    """Return whether a subscription receives the messages of publishers with a profile."""
    return (own.reliability in (ReliabilityPolicy.BEST_EFFORT, needed.reliability)
            and own.durability in (DurabilityPolicy.VOLATILE, needed.durability))
