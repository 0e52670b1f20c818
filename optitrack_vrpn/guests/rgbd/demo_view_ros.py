# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Count the poses of mocap and odometry, and call services of the mapper."""

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.node.base.tool_node import BackgroundNode
from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile
from std_msgs.msg import UInt32
from std_srvs.srv import Trigger


class RgbdView(BackgroundNode):
    """
    Watch mocap and odometry.

    :param pose_topic: of the body.
    :param odometry_topic: of odometry.
    :ivar poses: poses of mocap so far; ``odometry`` likewise.
    :ivar resets: interruptions of odometry so far.
    """

    def __init__(self, pose_topic: str, odometry_topic: str) -> None:
        super().__init__('rgbd_demo_view')
        self.poses = self.odometry = self.resets = 0
        self.node.create_subscription(
            PoseStamped, pose_topic, self._on_mocap, qos_profile_sensor_data)
        self.node.create_subscription(
            Odometry, odometry_topic, self._on_odometry, qos_profile_sensor_data)
        self.node.create_subscription(
            UInt32, 'reset_count', self._on_resets, QoSProfile(
                depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))

    def trigger(self, service: str) -> str:
        """
        Call a service of the type std_srvs/Trigger.

        :returns: its message.
        :raises TransportError: if it refuses or does not answer.
        """
        # Chosen: timeout of a service call (s); saving 100 keyframes takes 2 s.
        answer = self.call(Trigger, service, Trigger.Request(), 30.0)
        if answer is None or not answer.success:
            raise TransportError(f'{service}: {answer.message if answer else "no answer"}')
        return str(answer.message)

    def _on_mocap(self, message: PoseStamped) -> None:
        self.poses += 1

    def _on_odometry(self, message: Odometry) -> None:
        self.odometry += 1

    def _on_resets(self, message: UInt32) -> None:
        self.resets = int(message.data)
