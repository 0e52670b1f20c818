# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The topics of one body: created as the configuration wants them, filled from samples."""

from typing import Any, Callable, Optional

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import (
    AccelStamped, PoseStamped, PoseWithCovarianceStamped, TransformStamped, TwistStamped)
from nav_msgs.msg import Odometry
from optitrack_vrpn.core.body.estimator import MotionEstimate
from optitrack_vrpn.core.body.quaternion import conjugate, Quat, rotate, Vector
from optitrack_vrpn.core.frames import enu_to_ned, Pose
from optitrack_vrpn.core.pipeline import Channel, Sample, ServerMotion
from optitrack_vrpn.ros import messages
from optitrack_vrpn.ros.settings import PublishConfig

#: Message type and world of each kind of topic.
KINDS: dict[str, tuple[Any, str]] = {
    'pose': (PoseStamped, 'enu'),
    'pose_ned': (PoseStamped, 'ned'),
    'pose_cov': (PoseWithCovarianceStamped, 'enu'),
    'odom': (Odometry, 'enu'),
    'twist': (TwistStamped, 'enu'),
    'accel': (AccelStamped, 'enu'),
    'status': (DiagnosticStatus, ''),
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


class BodyOutput:
    """
    Everything that one body sends out.

    Messages are kept and filled anew, since rclpy serialises them before ``publish`` returns.

    :param channel: the body.
    :param create: makes a publisher from message type, topic and kind.
    :param destroy: closes one.
    """

    def __init__(
        self, channel: Channel, create: Callable[[Any, str, str], Any],
        destroy: Callable[[Any], None],
    ) -> None:
        self._channel = channel
        self._create = create
        self._destroy = destroy
        self.publishers: dict[str, Any] = {}
        self._messages: dict[str, Any] = {}
        self._heard: set[str] = set()
        self._enu = TransformStamped()
        self._ned = TransformStamped()
        self._tf = False
        self._tf_ned = False

    def equip(self, config: PublishConfig) -> None:
        """Create or close publishers as the configuration wants it."""
        wanted = wanted_kinds(config)
        frames = self._channel.names.frames
        for kind, (message_type, world) in KINDS.items():
            present = self.publishers.get(kind)
            if kind not in wanted:
                if present is not None:
                    self._destroy(self.publishers.pop(kind))
                continue
            if present is None:
                self.publishers[kind] = self._create(
                    message_type, self._channel.names.topics[kind], kind)
            if world:
                message = self._messages[kind] = message_type()
                message.header.frame_id = config.world if world == 'enu' else config.world_ned
                if kind == 'odom':
                    message.child_frame_id = frames['body']
        self._tf = config.tf and config.enu
        self._tf_ned = config.tf and config.ned
        for transform, parent, child in (
                (self._enu, config.world, 'body'), (self._ned, config.world_ned, 'body_ned')):
            transform.header.frame_id = parent
            transform.child_frame_id = frames[child]
        self.listen()

    def listen(self) -> None:
        """Look who listens; what nobody hears is not computed."""
        self._heard = {
            kind for kind in _ON_DEMAND
            if kind in self.publishers and self.publishers[kind].get_subscription_count()}
        self._channel.wants_motion = not self._heard.isdisjoint(('odom', 'twist', 'accel'))

    def close(self) -> None:
        """Close every publisher."""
        for publisher in self.publishers.values():
            self._destroy(publisher)
        self.publishers.clear()
        self._heard.clear()

    def publish(
        self, sample: Sample, stamp: Time, transforms: list[TransformStamped],
    ) -> None:
        """
        Publish one pose and all that goes with it.

        :param transforms: gets the body's transforms.
        """
        _, _, position, quat, motion = sample
        pose = self.publishers.get('pose')
        if pose is not None:
            message = self._messages['pose']
            messages.fill_pose(message, stamp, position, quat)
            pose.publish(message)
        if self._tf:
            messages.fill_transform(self._enu, stamp, position, quat)
            transforms.append(self._enu)
        heard = self._heard
        if self._tf_ned or 'pose_ned' in heard:
            ned = enu_to_ned(Pose(position, quat))
            if 'pose_ned' in heard:
                message = self._messages['pose_ned']
                messages.fill_pose(message, stamp, *ned)
                self.publishers['pose_ned'].publish(message)
            if self._tf_ned:
                messages.fill_transform(self._ned, stamp, *ned)
                transforms.append(self._ned)
        if 'pose_cov' in heard:
            message = self._messages['pose_cov']
            messages.fill_pose_cov(
                message, stamp, position, quat, self._channel.estimator.pose_covariance())
            self.publishers['pose_cov'].publish(message)
        if motion is not None:
            self._publish_motion(stamp, position, quat, motion)

    def _publish_motion(
        self, stamp: Time, position: Vector, quat: Quat, motion: MotionEstimate,
    ) -> None:
        heard = self._heard
        if 'odom' in heard:
            self._publish_odometry(
                stamp, position, quat, motion.body_velocity, motion.body_angular_velocity,
                motion.body_twist_covariance)
        if 'twist' in heard:
            self._publish_twist(stamp, motion.velocity, motion.angular_velocity)
        if 'accel' in heard:
            self._publish_accel(stamp, motion.acceleration, motion.angular_acceleration)

    def publish_server_motion(self, moved: ServerMotion, stamp: Time) -> None:
        """Publish a velocity or acceleration that the server itself sent."""
        heard = self._heard
        angular = moved.angular or (0.0, 0.0, 0.0)
        if not moved.is_velocity:
            if 'accel' in heard:
                self._publish_accel(stamp, moved.linear, angular)
            return
        if 'twist' in heard:
            self._publish_twist(stamp, moved.linear, angular)
        if 'odom' in heard:
            channel = self._channel
            body_from_world = conjugate(channel.last_quat)
            self._publish_odometry(
                stamp, channel.last_position, channel.last_quat,
                rotate(body_from_world, moved.linear), rotate(body_from_world, angular), None)

    def _publish_odometry(
        self, stamp: Time, position: Vector, quat: Quat, linear: Vector, angular: Vector,
        twist_covariance: Optional[list[float]],
    ) -> None:
        message = self._messages['odom']
        messages.fill_odometry(
            message, stamp, position, quat, self._channel.estimator.pose_covariance(), linear,
            angular, twist_covariance)
        self.publishers['odom'].publish(message)

    def _publish_twist(self, stamp: Time, linear: Vector, angular: Vector) -> None:
        message = self._messages['twist']
        messages.fill_twist(message, stamp, linear, angular)
        self.publishers['twist'].publish(message)

    def _publish_accel(self, stamp: Time, linear: Vector, angular: Vector) -> None:
        message = self._messages['accel']
        messages.fill_accel(message, stamp, linear, angular)
        self.publishers['accel'].publish(message)
