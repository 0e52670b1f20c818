# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Motion of bodies of the simulated Motive that the simulated machine carries."""

from collections import OrderedDict
from dataclasses import replace
import threading
import time
from typing import Any

import numpy as np
from optitrack_vrpn.axes.table import AxisTable
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.gantry.settings import MachineSettings
from optitrack_vrpn.gantry.sim_model import SimulatedMachine
from optitrack_vrpn.sim.motion import Array, MotionState
from optitrack_vrpn.sim.scenario_io import Body, Scenario

#: Chosen: stored frames, so that a frozen body keeps its pose (8 s at 240 Hz). Halved, longer
#: freezes repeat a newer pose; doubled, memory only.
_REMEMBERED = 2000


class CarriedMotion:
    """
    Live motion, for the simulated Motive, of a body that the machine carries.

    :param table: maps axes to coordinates of the body.
    :param body: name of the body.
    :param machine: the simulated machine.
    :param lock: lock of the machine.
    """

    def __init__(self, table: AxisTable, body: str, machine: SimulatedMachine,
                 lock: threading.Lock) -> None:
        self._table = table
        self._body = body
        self._machine = machine
        self._lock = lock
        self._known: OrderedDict[float, tuple[Any, Any]] = OrderedDict()

    def at(self, time_s: Array) -> MotionState:
        """
        Return the present pose; for a time of an earlier call, the pose of that call.

        :param time_s: (n,) seconds of the scenario.
        """
        rows = [self._pose(float(each)) for each in time_s]
        zero = np.zeros((len(rows), 3))
        return MotionState(
            np.array([row[0] for row in rows], dtype=np.float64), zero, zero,
            np.array([row[1] for row in rows], dtype=np.float64), zero)

    def _pose(self, time_s: float) -> tuple[Any, Any]:
        found = self._known.get(time_s)
        if found is None:
            with self._lock:
                positions = self._machine.shown(time.monotonic())
            found = self._table.carried_pose(self._body, positions)
            self._known[time_s] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(time_s)
        return found


def check_names(table: AxisTable, settings: MachineSettings) -> None:
    """
    Check that machine and axis table contain the same axes.

    :raises ConfigurationError: with the names of the axes that only one of them contains.
    """
    machine = {axis.name for axis in settings.axes}
    only = machine.symmetric_difference(table.names)
    if only:
        raise ConfigurationError(
            f'the axis table and the machine differ in {", ".join(sorted(only))}: both must name '
            'the same axes')


def carried(
    scenario: Scenario, table: AxisTable, machine: SimulatedMachine, lock: threading.Lock,
) -> tuple[Scenario, dict[str, CarriedMotion]]:
    """
    Replace the motion of bodies in a scenario by that of a machine; noise and faults stay.

    :param scenario: bodies that are not in the table keep their motion.
    :returns: the scenario with the missing bodies added, and the motions of the carried bodies.
    :raises ConfigurationError: if the axes of table and machine differ.
    """
    check_names(table, machine.settings)
    values = dict.fromkeys(machine.axes, 0.0)
    for name in table.bodies:
        table.carried_pose(name, values)    # a mix of frames fails here, not in the first cycle
    given = [body.name for body in scenario.bodies]
    added = tuple(Body(name=name) for name in table.bodies if name not in given)
    return replace(scenario, bodies=scenario.bodies + added), {
        name: CarriedMotion(table, name, machine, lock) for name in table.bodies}
