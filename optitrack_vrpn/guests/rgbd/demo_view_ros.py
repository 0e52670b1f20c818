# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Subscribe to mocap and odometry, and compare them."""

import threading
from typing import Optional

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry
import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.guests.rgbd.camera_node_ros import pose_matrix, stamp_ns
from optitrack_vrpn.guests.rgbd.demo_view import Comparison, ViewRow
from optitrack_vrpn.node.base.tool_node import BackgroundNode
from rclpy.qos import DurabilityPolicy, qos_profile_sensor_data, QoSProfile
from std_msgs.msg import UInt32
from std_srvs.srv import Trigger


class RgbdView(BackgroundNode):
    """
    Compare odometry with mocap.

    :param pose_topic: of the body.
    :param odometry_topic: of odometry.
    :param body_from_camera: (4, 4).
    :ivar poses: poses of mocap so far.
    :ivar resets: interruptions of odometry so far.
    """

    def __init__(
        self, pose_topic: str, odometry_topic: str, body_from_camera: NDArray[np.float64],
    ) -> None:
        super().__init__('rgbd_demo_view')
        self._lock = threading.Lock()
        self._comparison = Comparison(body_from_camera)
        self.poses = 0
        self.resets = 0
        self.node.create_subscription(
            PoseStamped, pose_topic, self._on_mocap, qos_profile_sensor_data)
        self.node.create_subscription(
            Odometry, odometry_topic, self._on_odometry, qos_profile_sensor_data)
        self.node.create_subscription(
            UInt32, 'reset_count', self._on_resets, QoSProfile(
                depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))

    def last(self) -> Optional[ViewRow]:
        """Return the newest pair, or None."""
        with self._lock:
            return self._comparison.last

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
        with self._lock:
            self.poses += 1
            self._comparison.add_mocap(stamp_ns(message.header), pose_matrix(message.pose))

    def _on_resets(self, message: UInt32) -> None:
        self.resets = int(message.data)

    def _on_odometry(self, message: Odometry) -> None:
        with self._lock:
            self._comparison.add_odometry(stamp_ns(message.header), pose_matrix(message.pose.pose))
