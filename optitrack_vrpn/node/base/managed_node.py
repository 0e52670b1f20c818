# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Base classes of the package's nodes.

``ManagedNode`` holds resources while it is configured, and can start by itself. ``SettingsNode``
also has settings and diagnostics.
"""

import traceback
from typing import Any, Generic, Mapping, Sequence, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from optitrack_vrpn.core.severity import ERROR, Severity
from optitrack_vrpn.node.base.lifecycle_node import SafeLifecycleNode
from optitrack_vrpn.node.base.node_parts import ros_is_up
from optitrack_vrpn.node.base.settings_ros import declare_settings, follow_settings, read_settings
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

S = TypeVar('S')
#: Name, severity, message, values and hardware_id of a DiagnosticStatus.
StatusFields = tuple[str, Severity, str, Mapping[str, str], str]


def entry(
    name: str, severity: Severity, message: str, values: Mapping[str, Any], hardware: str = '',
) -> DiagnosticStatus:
    """Create one diagnostic."""
    return DiagnosticStatus(
        level=bytes([severity]), name=name, message=message, hardware_id=hardware,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])


class ManagedNode(SafeLifecycleNode):
    """
    Acquire and release resources in the transitions of the lifecycle.

    Subclasses override ``acquire``, ``begin``, ``end`` and ``release``. An OptitrackVrpnError
    that they raise is logged and makes the transition fail with nothing half done.

    :param node_name: its name before any remapping.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, **kwargs: Any) -> None:
        self._acquired = self._begun = False
        super().__init__(node_name, **kwargs)

    # -- for subclasses ------------------------------------------------------------------------

    def acquire(self) -> None:
        """Read the parameters; create publishers, subscriptions, sockets and threads."""

    def begin(self) -> None:
        """Start to work."""

    def end(self) -> None:
        """Stop to work; called once after each ``begin``, before ``release`` at the latest."""

    def release(self) -> None:
        """Release what ``acquire`` created; also called after an ``acquire`` that raised."""

    def start_by_parameters(self) -> None:
        """
        Make the transitions that the parameters ``autostart`` and ``activate`` ask for.

        Call it at the end of the constructor; the transitions follow as soon as the node spins.
        """
        if self.get_parameter('autostart').value is True:
            self._autostart_timer = self.create_timer(
                0.0, self._autostart, clock=self._steady)
        else:
            self.get_logger().info(
                'unconfigured; bring it up with ros2 lifecycle set '
                f'{self.get_fully_qualified_name()} configure, then activate, or set the '
                'parameter autostart')

    # -- transitions ---------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, and acquire resources."""
        try:
            self.acquire()
        except Exception:
            self.release()    # FAILURE leaves a node that has nothing
            raise
        self._acquired = True
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to work."""
        self._begun = True
        try:
            self.begin()
        except Exception:
            self._stop_work()
            raise
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop to work; keep the resources."""
        self._stop_work()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release all resources."""
        self._release()
        return super().on_cleanup(state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release all resources permanently."""
        self._release()
        return super().on_shutdown(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Return to unconfigured after a bug in a transition."""
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """Release all resources in any state."""
        with self._transition_lock:
            self._release()
            super().destroy_node()

    def _stop_work(self) -> None:
        if self._begun:
            self._begun = False
            self.end()

    def _release(self) -> None:
        self._stop_work()
        if self._acquired:
            self._acquired = False
            self.release()

    def _autostart(self) -> None:
        self.destroy_timer(self._autostart_timer)
        log = self.get_logger()
        try:
            if self.trigger_configure() is not TransitionCallbackReturn.SUCCESS:
                log.error(
                    'autostart stops: configure failed; correct the errors above and '
                    'start the node again, or correct the parameter with ros2 param set and then '
                    f'run ros2 lifecycle set {self.get_fully_qualified_name()} configure')
            elif self.get_parameter('activate').value is True and (
                    self.trigger_activate() is not TransitionCallbackReturn.SUCCESS):
                log.error(
                    f'autostart stops: activate failed; the node is {self.lifecycle_label}')
        except Exception as error:
            # Another client made a transition meanwhile, a signal ended ROS, or another thread
            # destroyed the node.
            if ros_is_up(self) and not self._ended:
                log.warning(f'autostart stops: {error}')


class SettingsNode(ManagedNode, Generic[S]):
    """
    Pass the settings to ``prepare`` at configure, and publish diagnostics once a second.

    :param node_name: name before remapping.
    :param settings: class of its settings, with the fields autostart and activate.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, settings: type[S], **kwargs: Any) -> None:
        super().__init__(node_name, **kwargs)
        self._settings_class = settings
        declare_settings(self, settings)
        follow_settings(self, settings, configured=lambda: self._acquired)
        self._array = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._diagnostics_timer = self.create_timer(1.0, self._diagnose, clock=self._steady)
        self.start_by_parameters()

    def prepare(self, settings: S) -> None:
        """Create publishers, subscriptions and sockets."""

    def acquire(self) -> None:
        """Read and check the parameters, and acquire resources."""
        self.prepare(read_settings(self, self._settings_class))

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Return the diagnostics; called once a second while the node is configured."""
        return ()

    def _diagnose(self) -> None:
        if not self._acquired:
            return
        try:
            array = DiagnosticArray(status=list(self.diagnostics()))
            array.header.stamp = self.get_clock().now().to_msg()
            self._array.publish(array)
        except Exception:
            self._log(ERROR, f'bug in the diagnostics:\n{traceback.format_exc()}', 'diagnose')
