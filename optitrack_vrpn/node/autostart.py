# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Configure and activate a node without a lifecycle manager."""

from optitrack_vrpn.mocap_control.participant_ros import ControlledLifecycleNode
from rclpy.lifecycle import TransitionCallbackReturn


class Autostart:
    """
    Make the transitions that ``autostart`` and ``activate`` ask for, as soon as the node spins.

    :param node: has both parameters.
    """

    def __init__(self, node: ControlledLifecycleNode) -> None:
        self._node = node
        self._timer = node.create_timer(0.0, self._run)

    def _run(self) -> None:
        node = self._node
        node.destroy_timer(self._timer)
        log = node.get_logger()
        try:
            if node.trigger_configure() is not TransitionCallbackReturn.SUCCESS:
                log.error(
                    'autostart stops: configure failed; correct the errors above and '
                    'start the node again, or set it with ros2 param set and configure with ros2 '
                    f'lifecycle set {node.get_fully_qualified_name()} configure')
            elif node.get_parameter('activate').value is True and (
                    node.trigger_activate() is not TransitionCallbackReturn.SUCCESS):
                log.error(
                    f'autostart stops: activate failed; the node is {node.lifecycle_label}')
        except Exception as error:
            # Another client made a transition meanwhile.
            log.warning(f'autostart stops: {error}')
