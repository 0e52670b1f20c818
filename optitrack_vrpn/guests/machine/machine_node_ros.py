# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base class of axis_bridge and gantry_controller: inputs of one publisher each, cycles."""

import contextlib
import threading
from typing import Any, Callable, Optional, TypeVar

from optitrack_vrpn.control.participant_ros import MocapControl
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, WARN
from optitrack_vrpn.guests.machine.axis_bridge_io import CycleThread
from optitrack_vrpn.node.base.managed_node import SettingsNode
from optitrack_vrpn.node.graph.streams_ros import BoundSubscription

S = TypeVar('S')


class MachineNode(SettingsNode[S]):
    """
    A lifecycle node with a thread of cycles; it destroys at cleanup what ``own`` was given.

    Subclasses use ``_lock`` for what the thread and the callbacks share.

    :param node_name: name before remapping.
    :param kind: class of the settings.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, kind: type[S], **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._inputs: list[BoundSubscription[Any]] = []
        self._owned = contextlib.ExitStack()
        self._thread: Optional[CycleThread] = None
        super().__init__(node_name, kind, **kwargs)
        self._mocap_control = MocapControl(self)

    def own(self, entity: Any, destroy: Callable[[Any], object]) -> Any:
        """Return an entity that ``release`` destroys."""
        self._owned.callback(destroy, entity)
        return entity

    def bind(self, *arguments: Any, **options: Any) -> None:
        """Subscribe to the messages of one publisher; see ``BoundSubscription``."""
        self._inputs.append(self.own(
            BoundSubscription(self, *arguments, **options), BoundSubscription.destroy))

    def start_cycles(self, period_s: float, call: Callable[[int], None]) -> None:
        """Call a function every ``period_s`` seconds on a thread; see ``CycleThread``."""
        self._thread = CycleThread(period_s, call, self.get_name())
        self._thread.start()

    def release(self) -> None:
        """Destroy everything owned."""
        self._owned.close()
        self._inputs.clear()

    def look_at_inputs(self) -> list[Event]:
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
