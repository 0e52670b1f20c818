# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A controlled system whose activation fails as the parameter `how` selects."""

from optitrack_vrpn.control.participant_ros import ControlledLifecycleNode
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.lifecycle import TransitionCallbackReturn


class FailingSystem(ControlledLifecycleNode):

    def __init__(self):
        super().__init__('failing_system')
        self.declare_parameter('how', '')

    def on_activate(self, state):
        how = self.get_parameter('how').value
        if how == 'failure':
            self.get_logger().error('no camera answers')
            return TransitionCallbackReturn.FAILURE
        if how == 'raise':
            raise RuntimeError('the lens cap is on')
        if how == 'none':
            return None
        return super().on_activate(state)

    def control_start(self, msg):
        raise RuntimeError('no disk to record to')


if __name__ == '__main__':
    rclpy.init()
    try:
        rclpy.spin(FailingSystem())
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    rclpy.try_shutdown()
