# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The publishers of one body, created for the settings and prepared for the hot path."""

import functools
import importlib
from typing import Any, Callable, Optional

from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.core.throttle import Decimator, FrameDecimator, period_ns
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.base.cdr import (
    Fill, serialisation_template, transform_template, TransformWriter, UnsupportedCdr, Write)
from optitrack_vrpn.node.settings import FrameSettings, NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS, MOTION_KINDS, ON_DEMAND, OWN_ODOMETRY, TopicKind
from optitrack_vrpn.stream.roster import TrackedBody

#: Functions that write and publish the messages of one topic.
Way = tuple[Write, Callable[[Any], None]]


def _nothing(*_: Any) -> None:
    """Do nothing."""


#: Of /tf, whose message is not of one body.
_NO_WAY: Way = (_nothing, _nothing)


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
    :param tf_rate: returns what selects the frames of a rate (Hz) for /tf, one for all bodies of
        the rate, so that a message has all of them.
    :ivar settings: the settings of the publishers.
    :ivar publishers: publishers by kind.
    :ivar heard: of each kind computed on demand that has subscribers, the function that writes a
        message from stamp and groups of numbers, and the one that publishes it. Every kind with a
        rate is here, /tf too, so that outputs without a rate cost nothing more.
    :ivar limited: whether one of these has a rate.
    :ivar send_pose: publishes a pose in ENU; None if this output is off or has a rate.
    :ivar write_pose: writes the message of this pose from stamp, position and attitude.
    :ivar tf: whether the transform in ENU is broadcast and heard, with every frame.
    :ivar tf_ned: whether the transform in NED is broadcast and heard, with every frame.
    :ivar write_tf: writes one transform of a TFMessage in ENU.
    :ivar write_tf_ned: the same in NED.
    """

    __slots__ = (
        'channel', 'settings', 'publishers', 'heard', 'limited', 'send_pose', 'write_pose', 'tf',
        'tf_ned', 'write_tf', 'write_tf_ned', '_create', '_destroy', '_as_bytes', '_tf_heard',
        '_tf_rate', '_frames', '_ways', '_decimators')

    write_pose: Write
    write_tf: TransformWriter
    write_tf_ned: TransformWriter

    def __init__(
        self, channel: TrackedBody, create: Callable[[Any, str, str], Any],
        destroy: Callable[[Any], None], as_bytes: bool,
        tf_heard: Callable[[], bool] = lambda: True,
        tf_rate: Callable[[float], FrameDecimator] = lambda hz: FrameDecimator(period_ns(hz)),
    ) -> None:
        self.channel = channel
        self.settings: Optional[NodeSettings] = None
        self.publishers: dict[str, Any] = {}
        self.heard: dict[str, Way] = {}
        self.limited = False
        self.send_pose: Optional[Callable[[Any], None]] = None
        self.tf = self.tf_ned = False
        self._create = create
        self._destroy = destroy
        self._as_bytes = as_bytes
        self._tf_heard = tf_heard
        self._tf_rate = tf_rate
        self._frames: Optional[FrameDecimator] = None
        self._ways: dict[str, Way] = {}
        self._decimators: dict[str, Decimator] = {}

    def create_publishers(self, settings: NodeSettings) -> None:
        """Create and destroy publishers for the settings."""
        self.settings = settings
        names = self.channel.names
        for name, kind in KINDS.items():
            if not kind.per_body:
                continue
            if name == 'own' and settings.own_velocity:
                kind = OWN_ODOMETRY
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
                self._ways[kind.name] = write, sender(self.publishers[name], as_bytes)
        self._set_rates(settings)
        self.send_pose = None
        if 'pose' in self.publishers and 'pose' not in self._decimators:
            self.write_pose, self.send_pose = self._ways['pose']
        self.write_tf = self._transform(settings.frames.world, names.frames['body'])
        self.write_tf_ned = self._transform(
            settings.frames.world_ned, names.frames['body_ned'])
        self.listen()

    def _writer(self, kind: TopicKind, frames: FrameSettings) -> tuple[Write, bool]:
        """Return the writer of a kind, and whether it writes bytes."""
        message = message_type(kind)()
        if kind.world:
            message.header.frame_id = frames.world if kind.world == 'enu' else frames.world_ned
        if kind.name in ('odom', OWN_ODOMETRY.name):
            message.child_frame_id = self.channel.names.frames['body']
        fill = fill_of(kind)
        if self._as_bytes and kind.world:
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

    def _set_rates(self, settings: NodeSettings) -> None:
        """Begin and end decimation; of an output that had a rate, no stamp is selected again."""
        rates = settings.rates_of(self.channel.names.motive)
        tf_hz = rates.get('tf', rates.get('tf_ned', 0.0))
        self._frames = self._tf_rate(tf_hz) if tf_hz else None
        before, self._decimators = self._decimators, {}
        for name, hz in rates.items():
            if KINDS[name].per_body:
                one = before.get(name)
                if one is None:
                    one = Decimator(period_ns(hz))
                else:
                    one.retime(period_ns(hz))
                self._decimators[name] = one

    def listen(self) -> None:
        """Find the topics with subscribers; other outputs on demand are not computed."""
        settings = self.settings
        present = settings.computed if settings is not None else frozenset()
        heard: dict[str, Way] = {}
        for name, publisher in self.publishers.items():
            if name == 'pose':
                wanted = name in self._decimators
            else:
                wanted = name in ON_DEMAND and publisher.get_subscription_count() > 0
            if wanted:
                key = OWN_ODOMETRY.name if name == 'own' and OWN_ODOMETRY.name in present else name
                heard[key] = self._ways[key]
        self.channel.wants_motion = not MOTION_KINDS.isdisjoint(heard)
        tf_heard = self._tf_heard()
        self.tf = tf_heard and 'tf' in present
        self.tf_ned = tf_heard and 'tf_ned' in present
        if self._frames is not None:
            if self.tf:
                heard['tf'] = _NO_WAY
            if self.tf_ned:
                heard['tf_ned'] = _NO_WAY
            self.tf = self.tf_ned = False
        self.limited = self._frames is not None or not self._decimators.keys().isdisjoint(
            self.publishers)
        self.heard = heard

    def due(self, kind: str, stamp_ns: int) -> bool:
        """Return whether an output of a sample is to be published now; by its stamp (ns)."""
        decimator = self._decimators.get('own' if kind == OWN_ODOMETRY.name else kind)
        return decimator is None or decimator.take(stamp_ns)

    def frame_due(self, frame_ns: int) -> bool:
        """Return whether the transforms of a frame are to be published now; by its stamp (ns)."""
        return self._frames is None or self._frames.take(frame_ns)

    def close(self) -> None:
        """Destroy all publishers."""
        self.send_pose = None
        for publisher in self.publishers.values():
            self._destroy(publisher)
        self.publishers.clear()
        self.heard = {}
        self.tf = self.tf_ned = False
