# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A usual bridge in Python: PyPI's ``motioncapture``, polled, to PoseStamped.

It polls at 100 Hz, the default of VRPN clients for ROS, and publishes changed poses.
"""

import sys

from geometry_msgs.msg import PoseStamped
import motioncapture
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile

_PERIOD_S = 0.01


class Polled(Node):
    """Poll motioncapture from a timer."""

    def __init__(self, port):
        super().__init__('polled')
        self._mocap = motioncapture.connect('vrpn', {'hostname': f'127.0.0.1:{port}'})
        self._poses = {}
        self._last = {}
        self.create_timer(_PERIOD_S, self._poll)

    def _poll(self):
        self._mocap.waitForNextFrame()
        stamp = self.get_clock().now().to_msg()
        for name, body in self._mocap.rigidBodies.items():
            position = tuple(map(float, body.position))
            if self._last.get(name) == position:
                continue
            self._last[name] = position
            if name not in self._poses:
                self._poses[name] = self.create_publisher(
                    PoseStamped, f'/{name}/pose', QoSProfile(depth=10))
            message = PoseStamped()
            message.header.stamp = stamp
            message.header.frame_id = 'optitrack'
            pose, rotation = message.pose, body.rotation
            pose.position.x, pose.position.y, pose.position.z = position
            pose.orientation.x, pose.orientation.y = rotation.x, rotation.y
            pose.orientation.z, pose.orientation.w = rotation.z, rotation.w
            self._poses[name].publish(message)


def main():
    """Poll the server on a port: ``latency_polled.py PORT``."""
    rclpy.init()
    try:
        rclpy.spin(Polled(int(sys.argv[1])))
    except (KeyboardInterrupt, ExternalShutdownException):
        pass


if __name__ == '__main__':
    main()
