# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The publishers of one body: created as the configuration says, prepared for the hot path."""

import importlib
from typing import Any, Callable, Optional

from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.configuration import PublishConfig
from optitrack_vrpn.node.topic_kinds import KINDS, MOTION_KINDS, ON_DEMAND, TopicKind
from optitrack_vrpn.pipeline.channel import Channel
from optitrack_vrpn.ros.cdr import (
    Fill, serialisation_template, transform_template, TransformWriter, UnsupportedCdr, Write)


def message_type(kind: TopicKind) -> Any:
    """Import the message type of a kind of output."""
    package, folder, name = kind.message.split('/')
    return getattr(importlib.import_module(f'{package}.{folder}'), name)


def fill_of(kind: TopicKind) -> Fill:
    """Find the function that fills the messages of a kind of output."""
    fill: Fill = getattr(messages, kind.fill)
    return fill


_MESSAGE_TYPES = {kind.name: message_type(kind) for kind in KINDS.values() if kind.per_body}


def supports_raw_cdr() -> bool:
    """Return whether all these messages can be made as bytes with this middleware."""
    try:
        for kind in KINDS.values():
            if kind.fill:
                serialisation_template(
                    _MESSAGE_TYPES[kind.name](), fill_of(kind), kind.sizes)
        transform_template(TransformStamped(), messages.fill_transform)
    except UnsupportedCdr:
        return False
    return True


def sender(publisher: Any, as_bytes: bool) -> Callable[[Any], None]:
    """
    Choose how to publish what the writers make.

    rclpy's ``publish`` guards its handle against destruction meanwhile, which takes longer than
    publishing; the node's lock does that already.
    """
    return publisher.handle.publish_raw if as_bytes else publisher.publish


class BodyOutput:
    """
    The publishers of one body; ``hot_path.py`` uses them.

    :param channel: the body.
    :param create: makes a publisher from message type, topic and kind.
    :param destroy: closes one.
    :param as_bytes: make messages as bytes; else they are objects that are filled again and
        again, since rclpy serialises them before ``publish`` returns.
    :ivar config: what the publishers were created for.
    :ivar publishers: by kind.
    :ivar heard: kinds on demand that have subscribers.
    :ivar send_pose: publishes a pose in ENU; None where that is off.
    :ivar write_pose: makes one from stamp, position and attitude.
    :ivar tf: whether the transform in ENU is broadcast.
    :ivar tf_ned: whether that in NED is.
    :ivar write_tf: makes the piece of a TFMessage in ENU.
    :ivar write_tf_ned: and in NED.
    """

    __slots__ = (
        'channel', 'config', 'publishers', 'heard', 'send_pose', 'write_pose', 'tf', 'tf_ned',
        'write_tf', 'write_tf_ned', '_create', '_destroy', '_as_bytes', '_writers', '_senders')

    write_pose: Write
    write_tf: TransformWriter
    write_tf_ned: TransformWriter

    def __init__(
        self, channel: Channel, create: Callable[[Any, str, str], Any],
        destroy: Callable[[Any], None], as_bytes: bool,
    ) -> None:
        self.channel = channel
        self.config: Optional[PublishConfig] = None
        self.publishers: dict[str, Any] = {}
        self.heard: set[str] = set()
        self.send_pose: Optional[Callable[[Any], None]] = None
        self.tf = self.tf_ned = False
        self._create = create
        self._destroy = destroy
        self._as_bytes = as_bytes
        self._writers: dict[str, Write] = {}
        self._senders: dict[str, Callable[[Any], None]] = {}

    def equip(self, config: PublishConfig) -> None:
        """Create or close publishers as the configuration wants it."""
        self.config = config
        names = self.channel.names
        for name, kind in KINDS.items():
            if not kind.per_body:
                continue
            present = self.publishers.get(name)
            if name not in config.outputs:
                if present is not None:
                    self._destroy(self.publishers.pop(name))
                continue
            if present is None:
                self.publishers[name] = self._create(
                    _MESSAGE_TYPES[name], names.topics[name], name)
            if kind.fill:
                self._writers[name] = self._writer(kind, config)
                self._senders[name] = sender(self.publishers[name], self._as_bytes)
        pose = self.publishers.get('pose')
        self.send_pose = None if pose is None else self._senders['pose']
        if pose is not None:
            self.write_pose = self._writers['pose']
        self.tf = 'tf' in config.outputs
        self.tf_ned = 'tf_ned' in config.outputs
        self.write_tf = self._transform(config.world, names.frames['body'])
        self.write_tf_ned = self._transform(config.world_ned, names.frames['body_ned'])
        self.listen()

    def _writer(self, kind: TopicKind, config: PublishConfig) -> Write:
        message = _MESSAGE_TYPES[kind.name]()
        message.header.frame_id = config.world if kind.world == 'enu' else config.world_ned
        if kind.name == 'odom':
            message.child_frame_id = self.channel.names.frames['body']
        fill = fill_of(kind)
        if self._as_bytes:
            return serialisation_template(message, fill, kind.sizes)
        return messages.keep(message, fill)

    def _transform(self, parent: str, child: str) -> TransformWriter:
        message = TransformStamped(child_frame_id=child)
        message.header.frame_id = parent
        if self._as_bytes:
            return transform_template(message, messages.fill_transform)
        write = messages.keep(message, messages.fill_transform)
        return TransformWriter(write, write)

    def listen(self) -> None:
        """Look which topics have subscribers; others on demand are not computed."""
        self.heard = {
            kind for kind in ON_DEMAND
            if kind in self.publishers and self.publishers[kind].get_subscription_count()}
        self.channel.wants_motion = not MOTION_KINDS.isdisjoint(self.heard)

    def send(self, kind: str, stamp: bytes, *numbers: Any) -> None:
        """
        Make one message and publish it.

        :param kind: which topic.
        :param numbers: the groups that the kind's message takes.
        """
        self._senders[kind](self._writers[kind](stamp, *numbers))

    def close(self) -> None:
        """Close every publisher."""
        self.send_pose = None
        for publisher in self.publishers.values():
            self._destroy(publisher)
        self.publishers.clear()
        self.heard = set()
        self.tf = self.tf_ned = False
