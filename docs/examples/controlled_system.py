# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A capture system of one's own that mocap control starts and stops.

Run it, configure it, and start it from rqt's mocap control or from the command line:

  python3 docs/examples/controlled_system.py --ros-args -r __node:=imu_suit
  ros2 lifecycle set /imu_suit configure
  ros2 run optitrack_vrpn mocap_control start imu_suit --session take_1
"""

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.control.participant_ros import ControlledLifecycleNode
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.lifecycle import TransitionCallbackReturn


class ControlledSystem(ControlledLifecycleNode):
    """Publish a pose 50 times a second while active."""

    def __init__(self):
        super().__init__('controlled_system')
        self._publisher = None
        self._timer = None

    def on_configure(self, state):
        # Whatever takes time belongs here, so that a START is followed at once.
        self._publisher = self.create_lifecycle_publisher(PoseStamped, '~/pose', 10)
        self._timer = self.create_timer(0.02, self._publish)
        return super().on_configure(state)

    def on_cleanup(self, state):
        self.destroy_timer(self._timer)
        self.destroy_lifecycle_publisher(self._publisher)
        self._timer = self._publisher = None
        return TransitionCallbackReturn.SUCCESS

    def control_start(self, msg):
        self.get_logger().info(f'recording session {msg.session_id!r}')

    def control_stop(self, msg):
        self.get_logger().info('recording ends')

    def _publish(self):
        message = PoseStamped()
        message.header.stamp = self.get_clock().now().to_msg()
        message.header.frame_id = 'map'
        message.pose.orientation.w = 1.0
        self._publisher.publish(message)    # a lifecycle publisher: silent unless active


def main():
    rclpy.init()
    node = ControlledSystem()
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


if __name__ == '__main__':
    main()
