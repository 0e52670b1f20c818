# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base class of axis_bridge and gantry_controller: inputs of one publisher each, cycles, view."""

import contextlib
import threading
from typing import Any, Callable, Optional, Sequence, TypeVar

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from optitrack_vrpn.control.participant_ros import MocapControl
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.guests.machine.axis_bridge_io import CycleThread
from optitrack_vrpn.guests.machine.view import AxisView, changes
from optitrack_vrpn.node.base.managed_node import entry, SettingsNode
from optitrack_vrpn.node.graph.streams_ros import BoundSubscription

S = TypeVar('S')


class MachineNode(SettingsNode[S]):
    """
    A lifecycle node with a thread of cycles; it destroys at cleanup what ``own`` was given.

    Subclasses use ``_lock`` for what the thread and the callbacks share. They publish what
    ``views`` returns on ~/axes and /diagnostics, and log its changes.

    :param node_name: name before remapping.
    :param kind: class of the settings.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, kind: type[S], **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._inputs: list[BoundSubscription[Any]] = []
        self._owned = contextlib.ExitStack()
        self._thread: Optional[CycleThread] = None
        self._view: Any = None
        self._viewed: Sequence[AxisView] = ()
        super().__init__(node_name, kind, **kwargs)
        self._mocap_control = MocapControl(self)

    # -- for subclasses ------------------------------------------------------------------------

    def views(self) -> Sequence[AxisView]:
        """Return the present state of every axis; ``_lock`` is held."""
        raise NotImplementedError

    def summary(self) -> tuple[Severity, str, dict[str, Any]]:
        """Return level, text and values of the diagnostic of the cycles; ``_lock`` is held."""
        raise NotImplementedError

    def own(self, entity: Any, destroy: Callable[[Any], object]) -> Any:
        """Return an entity that ``release`` destroys."""
        self._owned.callback(destroy, entity)
        return entity

    def bind(self, *arguments: Any, **options: Any) -> None:
        """Subscribe to the messages of one publisher; see ``BoundSubscription``."""
        self._inputs.append(self.own(
            BoundSubscription(self, *arguments, **options), BoundSubscription.destroy))

    def show_axes(self) -> None:
        """Publish the axes on ~/axes ten times a second from now on."""
        self._viewed = ()
        self._view = self.own(
            self.create_publisher(DiagnosticArray, '~/axes', 10), self.destroy_publisher)
        self.own(self.create_timer(0.1, self._show, clock=self._steady), self.destroy_timer)

    def start_cycles(self, period_s: float, call: Callable[[int], None]) -> None:
        """Call a function every ``period_s`` seconds on a thread; see ``CycleThread``."""
        self._log.repetition.restart()
        self._thread = CycleThread(period_s, call, self.get_name())
        self._thread.start()

    def release(self) -> None:
        """Destroy everything owned."""
        self._owned.close()
        self._inputs.clear()

    # -- the view ------------------------------------------------------------------------------

    def _show(self) -> None:
        """Publish the axes, and log those that have changed."""
        with self._lock:
            views = self.views()
        if not views:
            return
        array = DiagnosticArray(status=[
            entry(each.name, each.severity, each.state,
                  {**each.cells, 'warnings': each.warnings}) for each in views])
        array.header.stamp = self.get_clock().now().to_msg()
        self._view.publish(array)
        for change in changes(self._viewed, views):
            names = ', '.join(change.names)
            self._log(WARN if change.worse else INFO,
                      f'axis {names}: {change.text}', (names, change.state, change.faults))
        self._viewed = views

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Return the diagnostics of the cycles, the axes and the inputs while it is active."""
        inputs = self._look_at_inputs()
        with self._lock:
            thread = self._thread
            if thread is None:
                return ()       # the state of an earlier activation is not the present one
            severity, text, values = self.summary()
            views = self.views()
        self._log.state(severity, text, 'cycles')
        name = self.get_name()
        return [
            entry(f'{name}: cycles', severity, text, {**thread.cycle.figures(), **values}),
            *(entry(f'{name}: axis {each.name}', each.severity, each.text,
                    {**each.cells, 'warnings': each.warnings}) for each in views),
            *(entry(f'{name}: {one.key}', one.severity, one.text, {}) for one in inputs)]

    def _look_at_inputs(self) -> list[Event]:
        """Return and log which topics have several publishers; the key is the topic."""
        found = []
        for one in self._inputs:
            one.look()
            if one.problem:
                found.append(Event(
                    ERROR, one.topic, f'{one.problem}: its values are not used; end all but one'))
            elif one.others:
                found.append(Event(WARN, one.topic, f'{one.others}; end all but one'))
        for each in found:
            self._log(each.severity, each.text, each.key)
        return found
