# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A lifecycle node with settings: what axis_bridge and gantry_controller have in common."""

import traceback
from typing import Any, Callable, Generic, Mapping, Sequence, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from optitrack_vrpn.errors import OptitrackVrpnError
from optitrack_vrpn.mocap_control.participant_ros import ControlledLifecycleNode
from optitrack_vrpn.settings_ros import declare_settings, follow_settings, read_settings
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

S = TypeVar('S')

_OK = TransitionCallbackReturn.SUCCESS
LEVELS = {'ok': DiagnosticStatus.OK, 'warn': DiagnosticStatus.WARN,
          'error': DiagnosticStatus.ERROR, 'stale': DiagnosticStatus.STALE}


def entry(
    name: str, level: str, message: str, values: Mapping[str, Any], hardware: str = '',
) -> DiagnosticStatus:
    """Write one diagnostic; the level is a key of ``LEVELS``."""
    return DiagnosticStatus(
        level=LEVELS[level], name=name, message=message, hardware_id=hardware,
        values=[KeyValue(key=key, value=str(value)) for key, value in values.items()])


class SettingsNode(ControlledLifecycleNode, Generic[S]):
    """
    Read the settings at configure, acquire and release resources, follow mocap control.

    Subclasses override ``acquire``, ``begin``, ``end`` and ``release``; an OptitrackVrpnError
    from them is logged and makes the transition fail with nothing half done.

    :param node_name: its name before any remapping.
    :param settings: the class of its settings, with the fields autostart and activate.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, settings: type[S], **kwargs: Any) -> None:
        super().__init__(node_name, **kwargs)
        self._settings_class = settings
        self._acquired = False
        declare_settings(self, settings)
        follow_settings(self, settings, configured=lambda: self._acquired)
        self._array = self.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._diagnostics_timer = self.create_timer(1.0, self._diagnose)
        self._autostart_timer: Any = None
        if self.get_parameter('autostart').value is True:
            self._autostart_timer = self.create_timer(0.0, self._autostart)

    # -- for subclasses ------------------------------------------------------------------------

    def acquire(self, settings: S) -> None:
        """Make publishers, subscriptions and sockets."""

    def begin(self) -> None:
        """Start to work."""

    def end(self) -> None:
        """Stop to work; called before ``release`` too where the node is active."""

    def release(self) -> None:
        """Give back what ``acquire`` took; may be called after half of it."""

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """List the diagnostics; called once a second while the node is configured."""
        return ()

    # -- transitions ---------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, and acquire what they ask for."""
        return self._guarded('configure', self._configure, super().on_configure, state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Start to work."""
        return self._guarded('activate', self.begin, super().on_activate, state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop to work."""
        return self._guarded('deactivate', self.end, super().on_deactivate, state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release everything."""
        return self._guarded('cleanup', self._release, super().on_cleanup, state)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release everything, for good."""
        return self._guarded('shutdown', self._release, super().on_shutdown, state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Go back to unconfigured after a bug in a transition."""
        self._release()
        return _OK

    def destroy_node(self) -> None:
        """Release everything, whatever the state."""
        self._release()
        super().destroy_node()

    def _guarded(
        self, name: str, work: Callable[[], None], rest: Callable[[LifecycleState], Any],
        state: LifecycleState,
    ) -> TransitionCallbackReturn:
        try:
            work()
        except OptitrackVrpnError as error:
            for line in str(error).splitlines():
                self.get_logger().error(f'cannot {name}: {line}')
            return TransitionCallbackReturn.FAILURE
        return rest(state)

    def _configure(self) -> None:
        settings = read_settings(self, self._settings_class)
        try:
            self.acquire(settings)
        except Exception:
            self.release()
            raise
        self._acquired = True

    def _release(self) -> None:
        if self._acquired:
            self.end()
            self._acquired = False
            self.release()

    def _autostart(self) -> None:
        self.destroy_timer(self._autostart_timer)
        self._autostart_timer = None
        try:
            if self.trigger_configure() is not _OK:
                self.get_logger().error(
                    'autostart ends here: configure failed; correct what is logged above and '
                    'start the node again')
            elif self.get_parameter('activate').value is True and (
                    self.trigger_activate() is not _OK):
                self.get_logger().error(
                    f'autostart ends here: activate failed; the node is {self.lifecycle_label}')
        except Exception as error:
            # Another client was quicker: the state that this began from has been left.
            self.get_logger().warning(f'autostart ends here: {error}')

    def _diagnose(self) -> None:
        if not self._acquired:
            return
        try:
            array = DiagnosticArray(status=list(self.diagnostics()))
            array.header.stamp = self.get_clock().now().to_msg()
            self._array.publish(array)
        except Exception:
            self._log('error', f'a bug in the diagnostics:\n{traceback.format_exc()}', 'diagnose')
