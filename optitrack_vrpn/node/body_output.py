# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The publishers of one body, created for the settings and prepared for the hot path."""

import functools
import importlib
from typing import Any, Callable, Optional

from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.settings import FrameSettings, NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS, MOTION_KINDS, ON_DEMAND, TopicKind
from optitrack_vrpn.pipeline import TrackedBody
from optitrack_vrpn.ros import (
    Fill, serialisation_template, transform_template, TransformWriter, UnsupportedCdr, Write)

#: Functions that write and publish the messages of one topic.
Way = tuple[Write, Callable[[Any], None]]


@functools.cache
def message_type(kind: TopicKind) -> Any:
    """Import the message type of a kind of output; that of outputs in use only."""
    package, folder, name = kind.message.split('/')
    return getattr(importlib.import_module(f'{package}.{folder}'), name)


def fill_of(kind: TopicKind) -> Fill:
    """Find the function that fills the messages of a kind of output."""
    fill: Fill = getattr(messages, kind.fill)
    return fill


def supports_raw_cdr() -> bool:
    """
    Return whether this middleware accepts messages as bytes.

    Transforms are tested here; each other message when a body's publishers are prepared.
    """
    try:
        transform_template(TransformStamped(), messages.fill_transform)
    except UnsupportedCdr:
        return False
    return True


def sender(publisher: Any, as_bytes: bool) -> Callable[[Any], None]:
    """
    Return the function that publishes the output of the writers.

    rclpy's ``publish`` protects its handle against concurrent destruction, which takes longer than
    publishing; the node's lock already prevents that.
    """
    send: Callable[[Any], None] = (
        publisher.handle.publish_raw if as_bytes else publisher.publish)
    return send


class BodyOutput:
    """
    The publishers of one body; ``publishers.py`` uses them.

    :param channel: the body.
    :param create: creates a publisher from message type, topic and kind.
    :param destroy: destroys a publisher.
    :param as_bytes: write messages as bytes; else as objects that are reused, since rclpy
        serialises them before ``publish`` returns.
    :param tf_heard: returns whether /tf has subscribers.
    :ivar settings: the settings of the publishers.
    :ivar publishers: publishers by kind.
    :ivar heard: of each kind computed on demand that has subscribers, the function that writes a
        message from stamp and groups of numbers, and the one that publishes it.
    :ivar send_pose: publishes a pose in ENU; None if this output is off.
    :ivar write_pose: writes the message of this pose from stamp, position and attitude.
    :ivar tf: whether the transform in ENU is broadcast and heard.
    :ivar tf_ned: whether the transform in NED is broadcast and heard.
    :ivar write_tf: writes one transform of a TFMessage in ENU.
    :ivar write_tf_ned: the same in NED.
    """

    __slots__ = (
        'channel', 'settings', 'publishers', 'heard', 'send_pose', 'write_pose', 'tf', 'tf_ned',
        'write_tf', 'write_tf_ned', '_create', '_destroy', '_as_bytes', '_tf_heard', '_ways')

    write_pose: Write
    write_tf: TransformWriter
    write_tf_ned: TransformWriter

    def __init__(
        self, channel: TrackedBody, create: Callable[[Any, str, str], Any],
        destroy: Callable[[Any], None], as_bytes: bool,
        tf_heard: Callable[[], bool] = lambda: True,
    ) -> None:
        self.channel = channel
        self.settings: Optional[NodeSettings] = None
        self.publishers: dict[str, Any] = {}
        self.heard: dict[str, Way] = {}
        self.send_pose: Optional[Callable[[Any], None]] = None
        self.tf = self.tf_ned = False
        self._create = create
        self._destroy = destroy
        self._as_bytes = as_bytes
        self._tf_heard = tf_heard
        self._ways: dict[str, Way] = {}

    def create_publishers(self, settings: NodeSettings) -> None:
        """Create and destroy publishers for the settings."""
        self.settings = settings
        names = self.channel.names
        for name, kind in KINDS.items():
            if not kind.per_body:
                continue
            present = self.publishers.get(name)
            if name not in settings.outputs:
                if present is not None:
                    self._destroy(self.publishers.pop(name))
                continue
            if present is None:
                self.publishers[name] = self._create(
                    message_type(kind), names.topics[name], name)
            if kind.fill:
                write, as_bytes = self._writer(kind, settings.frames)
                self._ways[name] = write, sender(self.publishers[name], as_bytes)
        self.send_pose = None
        if 'pose' in self.publishers:
            self.write_pose, self.send_pose = self._ways['pose']
        self.write_tf = self._transform(settings.frames.world, names.frames['body'])
        self.write_tf_ned = self._transform(
            settings.frames.world_ned, names.frames['body_ned'])
        self.listen()

    def _writer(self, kind: TopicKind, frames: FrameSettings) -> tuple[Write, bool]:
        """Return the writer of a kind, and whether it writes bytes."""
        message = message_type(kind)()
        message.header.frame_id = frames.world if kind.world == 'enu' else frames.world_ned
        if kind.name == 'odom':
            message.child_frame_id = self.channel.names.frames['body']
        fill = fill_of(kind)
        if self._as_bytes:
            try:
                return serialisation_template(message, fill, kind.sizes), True
            except UnsupportedCdr:
                pass    # this one is published as an object
        return messages.keep(message, fill), False

    def _transform(self, parent: str, child: str) -> TransformWriter:
        message = TransformStamped(child_frame_id=child)
        message.header.frame_id = parent
        if self._as_bytes:
            return transform_template(message, messages.fill_transform)
        write = messages.keep(message, messages.fill_transform)
        return TransformWriter(write, write)

    def listen(self) -> None:
        """Find the topics with subscribers; other outputs on demand are not computed."""
        self.heard = {
            kind: self._ways[kind] for kind in ON_DEMAND
            if kind in self.publishers and self.publishers[kind].get_subscription_count()}
        self.channel.wants_motion = not MOTION_KINDS.isdisjoint(self.heard)
        outputs = self.settings.outputs if self.settings is not None and self._tf_heard() else ()
        self.tf = 'tf' in outputs
        self.tf_ned = 'tf_ned' in outputs

    def close(self) -> None:
        """Destroy all publishers."""
        self.send_pose = None
        for publisher in self.publishers.values():
            self._destroy(publisher)
        self.publishers.clear()
        self.heard = {}
        self.tf = self.tf_ned = False
