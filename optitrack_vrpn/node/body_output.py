# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The publishers of one body, created for the settings and prepared for the hot path."""

import functools
import importlib
from typing import Any, Callable, Optional

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import TransformStamped
from optitrack_vrpn.core.throttle import Decimator, FrameDecimator, period_ns
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.base.cdr import (
    check_status, Fill, PoseWriter, serialisation_template, transform_template, TransformWriter,
    UnsupportedCdr, Write)
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import Computed, Content, KINDS, SERVER_CONTENTS, TopicKind
from optitrack_vrpn.stream.roster import TrackedBody

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

    Transforms and statuses are tested here; each other message when a body's publishers are
    prepared.
    """
    try:
        transform_template(TransformStamped(), messages.fill_transform)
        check_status(DiagnosticStatus(level=b'\1', name='name', message='a', values=[
            KeyValue(key='key', value=''), KeyValue(key='k', value='text')]))
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


def counter(publisher: Any) -> Callable[[], int]:
    """Return the function that counts the subscribers of a publisher; see ``sender``."""
    count: Callable[[], int] = publisher.handle.get_subscription_count
    return count


class OutputRow:
    """
    One output of a body that is written from a sample, while it has subscribers.

    :ivar content: what its message is filled with; see ``topic_kinds.Content``.
    :ivar other: whether this is more than a pose, in ENU or NED.
    :ivar later: whether another row is published before this one.
    :ivar from_server: whether the server's own motion fills it in place of the sample.
    :ivar write: writes a message from stamp and groups of numbers.
    :ivar before, names, pack: of a ``PoseWriter``, which do the same; ``pack`` is None for others.
    :ivar send: publishes it.
    :ivar count: counts its subscribers; None if it is written without them too.
    :ivar rate: selects samples by stamp; None for all.
    """

    __slots__ = ('before', 'content', 'count', 'from_server', 'later', 'names', 'other', 'pack',
                 'rate', 'send', 'write')

    def __init__(
        self, content: int, from_server: bool, write: Write, send: Callable[[Any], None],
        count: Optional[Callable[[], int]],
    ) -> None:
        self.content = content
        self.count = count
        self.other = content > Content.NED
        self.later = False
        self.from_server = from_server
        self.write = write
        self.before = self.names = b''
        self.pack: Optional[Callable[..., bytes]] = None
        if isinstance(write, PoseWriter):
            self.before, self.names, self.pack = write.before, write.names, write.pack
        self.send = send
        self.rate: Optional[Decimator] = None


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
    :ivar rows: the outputs to be written from each sample: the pose, and others with subscribers.
    :ivar tf_heard: whether one of both transforms is broadcast and heard.
    :ivar tf: whether the transform in ENU is broadcast and heard.
    :ivar tf_ned: whether the transform in NED is broadcast and heard.
    :ivar tf_rate: selects the frames of both; None for all.
    :ivar write_tf: writes one transform of a TFMessage in ENU.
    :ivar write_tf_ned: the same in NED.
    """

    __slots__ = (
        'channel', 'publishers', 'rows', 'settings', 'tf', 'tf_heard', 'tf_ned', 'tf_rate',
        'write_tf', 'write_tf_ned', '_as_bytes', '_create', '_destroy', '_find_tf_rate', '_heard',
        '_rows', '_tf_heard')

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
        self.rows: list[OutputRow] = []
        self.tf = self.tf_ned = self.tf_heard = False
        self.tf_rate: Optional[FrameDecimator] = None
        self._create = create
        self._destroy = destroy
        self._as_bytes = as_bytes
        self._tf_heard = tf_heard
        self._find_tf_rate = tf_rate
        self._rows: dict[str, OutputRow] = {}
        # Which of the rows, and /tf, had subscribers; empty before the first look.
        self._heard: list[bool] = []

    def create_publishers(self, settings: NodeSettings) -> None:
        """Create and destroy publishers for the settings."""
        self.settings = settings
        names, rates = self.channel.names, settings.rates_of(self.channel.names.motive)
        before, self._rows = self._rows, {}
        for name in KINDS:
            kind = KINDS[name]
            if not kind.per_body:
                continue
            if name not in settings.outputs:
                if name in self.publishers:
                    self._destroy(self.publishers.pop(name))
                continue
            if name not in self.publishers:
                self.publishers[name] = self._create(message_type(kind), names.topics[name], name)
            if kind.content:
                self._rows[name] = self._row(kind, settings)
                hz = rates.get(name, 0.0)
                if hz:
                    # Of an output that had a rate, no stamp is selected again.
                    old = before.get(name)
                    rate = (old.rate if old is not None else None) or Decimator(period_ns(hz))
                    rate.retime(period_ns(hz))
                    self._rows[name].rate = rate
        tf_hz = rates.get('tf', rates.get('tf_ned', 0.0))
        self.tf_rate = self._find_tf_rate(tf_hz) if tf_hz else None
        self.write_tf = messages.transform_writer(
            settings.frames.world, names.frames['body'], self._as_bytes)
        self.write_tf_ned = messages.transform_writer(
            settings.frames.world_ned, names.frames['body_ned'], self._as_bytes)
        self._heard = []
        self.listen()

    def _row(self, kind: TopicKind, settings: NodeSettings) -> OutputRow:
        """Make the row of a kind whose publisher exists."""
        frames, message = settings.frames, message_type(kind)()
        if kind.world:
            message.header.frame_id = frames.world if kind.world == 'enu' else frames.world_ned
        if kind.content is Content.ODOMETRY:
            message.child_frame_id = self.channel.names.frames['body']
        fill, as_bytes = fill_of(kind), False
        write = messages.keep(message, fill)
        if self._as_bytes and kind.world:
            try:
                write = serialisation_template(message, fill, kind.sizes)
                as_bytes = True
            except UnsupportedCdr:
                pass    # this one is published as an object
        return OutputRow(
            int(kind.content),
            settings.velocity_source == 'server' and kind.content in SERVER_CONTENTS,
            write, sender(self.publishers[kind.name], as_bytes),
            None if kind.computed is Computed.EVERY_POSE else counter(self.publishers[kind.name]))

    def listen(self) -> None:
        """Find the topics with subscribers; other outputs are not computed."""
        heard = [row.count is None or row.count() > 0 for row in self._rows.values()]
        heard.append(self._tf_heard())
        if heard == self._heard:
            return
        self._heard = heard
        self.rows = [row for row, is_heard in zip(self._rows.values(), heard) if is_heard]
        for row in self.rows:
            row.later = row is not self.rows[0]
        self.channel.has_more = len({row.other for row in self.rows}) == 2
        self.channel.wants_motion = any(
            row.content >= Content.ODOMETRY and not row.from_server for row in self.rows)
        outputs = self.settings.outputs if self.settings is not None else ()
        self.tf = heard[-1] and 'tf' in outputs
        self.tf_ned = heard[-1] and 'tf_ned' in outputs
        self.tf_heard = self.tf or self.tf_ned

    def close(self) -> None:
        """Destroy all publishers."""
        for publisher in self.publishers.values():
            self._destroy(publisher)
        self.publishers.clear()
        self._rows = {}
        self.rows = []
        self.tf = self.tf_ned = self.tf_heard = False
