# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The topics of one body: created as the configuration wants them, prepared for the hot path."""

from typing import Any, Callable, NamedTuple, Optional

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import (
    AccelStamped, PoseStamped, PoseWithCovarianceStamped, TransformStamped, TwistStamped)
from nav_msgs.msg import Odometry
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.configuration import PublishConfig
from optitrack_vrpn.pipeline.channel import Channel
from optitrack_vrpn.ros.cdr import (
    CannotLayDown, Fill, lay_down, lay_down_transform, TransformWriter, Write)


class Kind(NamedTuple):
    """
    A kind of topic.

    :ivar message_type: what goes over it.
    :ivar world: 'enu', 'ned', or '' for what has no frame.
    :ivar fill: writes a stamp and groups of numbers into a message.
    :ivar sizes: of these groups.
    """

    message_type: Any
    world: str
    fill: Optional[Fill] = None
    sizes: tuple[int, ...] = ()


KINDS: dict[str, Kind] = {
    'pose': Kind(PoseStamped, 'enu', messages.fill_pose, (3, 4)),
    'pose_ned': Kind(PoseStamped, 'ned', messages.fill_pose, (3, 4)),
    'pose_cov': Kind(PoseWithCovarianceStamped, 'enu', messages.fill_pose_cov, (3, 4, 36)),
    'odom': Kind(Odometry, 'enu', messages.fill_odometry, (3, 4, 36, 3, 3, 36)),
    'twist': Kind(TwistStamped, 'enu', messages.fill_twist, (3, 3)),
    'accel': Kind(AccelStamped, 'enu', messages.fill_accel, (3, 3)),
    'status': Kind(DiagnosticStatus, ''),
}
#: What is made only while somebody listens; poses in ENU go out in any case.
_ON_DEMAND = ('pose_ned', 'pose_cov', 'odom', 'twist', 'accel')


def wanted_kinds(config: PublishConfig) -> set[str]:
    """Tell which kinds of topics a configuration asks for."""
    switches = {
        'pose': config.enu, 'pose_ned': config.ned, 'pose_cov': config.pose_cov,
        'odom': config.odom, 'twist': config.twist, 'accel': config.accel,
        'status': config.status}
    return {kind for kind, wanted in switches.items() if wanted}


def understood() -> bool:
    """Tell whether all these messages can be laid down as bytes with this middleware."""
    try:
        for kind in KINDS.values():
            if kind.fill is not None:
                lay_down(kind.message_type(), kind.fill, kind.sizes)
        lay_down_transform(TransformStamped(), messages.fill_transform)
    except CannotLayDown:
        return False
    return True


def sender(publisher: Any, as_bytes: bool) -> Callable[[Any], None]:
    """
    Choose how to publish what the writers make.

    rclpy's ``publish`` guards its handle against being destroyed meanwhile, which takes longer
    than the publishing; here the node's lock does that already.
    """
    return publisher.handle.publish_raw if as_bytes else publisher.publish


class BodyOutput:
    """
    Everything that one body sends out; ``hot_path.py`` does the sending.

    :param channel: the body.
    :param create: makes a publisher from message type, topic and kind.
    :param destroy: closes one.
    :param as_bytes: lay messages down as bytes; else they are objects, kept and filled anew,
        since rclpy serialises them before ``publish`` returns.
    :ivar config: what it was equipped for.
    :ivar publishers: by kind.
    :ivar heard: kinds on demand that somebody listens to.
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
        wanted = wanted_kinds(config)
        names = self.channel.names
        for name, kind in KINDS.items():
            present = self.publishers.get(name)
            if name not in wanted:
                if present is not None:
                    self._destroy(self.publishers.pop(name))
                continue
            if present is None:
                self.publishers[name] = self._create(
                    kind.message_type, names.topics[name], name)
            if kind.fill is not None:
                self._writers[name] = self._writer(kind, config)
                self._senders[name] = sender(self.publishers[name], self._as_bytes)
        pose = self.publishers.get('pose')
        self.send_pose = None if pose is None else self._senders['pose']
        if pose is not None:
            self.write_pose = self._writers['pose']
        self.tf = config.tf and config.enu
        self.tf_ned = config.tf and config.ned
        self.write_tf = self._transform(config.world, names.frames['body'])
        self.write_tf_ned = self._transform(config.world_ned, names.frames['body_ned'])
        self.listen()

    def _writer(self, kind: Kind, config: PublishConfig) -> Write:
        message = kind.message_type()
        message.header.frame_id = config.world if kind.world == 'enu' else config.world_ned
        if kind.message_type is Odometry:
            message.child_frame_id = self.channel.names.frames['body']
        assert kind.fill is not None
        if self._as_bytes:
            return lay_down(message, kind.fill, kind.sizes)
        return messages.keep(message, kind.fill)

    def _transform(self, parent: str, child: str) -> TransformWriter:
        message = TransformStamped(child_frame_id=child)
        message.header.frame_id = parent
        if self._as_bytes:
            return lay_down_transform(message, messages.fill_transform)
        write = messages.keep(message, messages.fill_transform)
        return TransformWriter(write, write)

    def listen(self) -> None:
        """Look who listens; what nobody hears is not computed."""
        self.heard = {
            kind for kind in _ON_DEMAND
            if kind in self.publishers and self.publishers[kind].get_subscription_count()}
        self.channel.wants_motion = not self.heard.isdisjoint(('odom', 'twist', 'accel'))

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
