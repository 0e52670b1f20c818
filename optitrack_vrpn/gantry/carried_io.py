# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bodies of the simulated Motive that the simulated machine carries."""

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
    Where a body is that the machine carries: a motion of the simulated Motive that is live.

    :param table: which axis shows as which quantity of the body.
    :param body: its name.
    :param machine: that carries it.
    :param lock: of the machine.
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
        Return the pose now; for a time that was asked before, the pose of then.

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
    Check that machine and axis table speak of the same axes.

    :raises ConfigurationError: naming those that are in one alone.
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
    Let a machine carry the bodies of a scenario; their noise and faults stay.

    :param scenario: bodies that the table does not name keep their own motion.
    :returns: the scenario, with bodies added that it lacks, and the motions of those carried.
    :raises ConfigurationError: if the table and the machine differ.
    """
    check_names(table, machine.settings)
    values = dict.fromkeys(machine.axes, 0.0)
    for name in table.bodies:
        table.carried_pose(name, values)    # refuses a mix of frames now
    given = [body.name for body in scenario.bodies]
    added = tuple(Body(name=name) for name in table.bodies if name not in given)
    return replace(scenario, bodies=scenario.bodies + added), {
        name: CarriedMotion(table, name, machine, lock) for name in table.bodies}
