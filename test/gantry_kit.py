# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A simulated machine in closed loop on a simulated mocap, in simulated time."""

from dataclasses import replace
from pathlib import Path
import sys

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / 'bench')]

from gantry_mocap import NOISE_DEG, NOISE_M, SimulatedMocap  # noqa: E402
from optitrack_vrpn.guests.machine.gantry_settings import MachineSettings  # noqa: E402
from optitrack_vrpn.guests.machine.gantry_sim_io import SimulatedMachine  # noqa: E402
from optitrack_vrpn.guests.machine.machine import Feedback, Machine  # noqa: E402
from optitrack_vrpn.guests.machine.machine_io import load_machine  # noqa: E402

ORION = load_machine('gantry_orion')
#: The rule of the thesis, as changes to that of the shipped machines.
THESIS = {'action': 'thesis'}
NAMES = tuple(axis.name for axis in ORION.axes)


def settings_of(name, rule=None, **changes):
    """Take one axis of ORION, with another rule of correction."""
    axis = next(each for each in ORION.axes if each.name == name)
    if rule is not None:
        changes['correction'] = replace(axis.correction, **rule)
    return MachineSettings(axes=(replace(axis, **changes),))


class Rig:
    """
    Run a machine cycle by cycle.

    :param settings: the machine.
    """

    def __init__(self, settings, seed=0, noise=True):
        self.settings = settings
        self.machine = Machine(settings)
        self.plant = SimulatedMachine(settings)
        self.mocap = {
            axis.name: SimulatedMocap(
                (NOISE_M if axis.kind == 'linear' else NOISE_DEG) if noise else 0.0,
                self.machine.dt, seed + i, origin=3.0) for i, axis in enumerate(settings.axes)}
        self.now = 0.0
        self.axis = next(iter(self.machine.axes.values()))
        self.name = self.axis.settings.name
        self.linked = True

    @property
    def position(self):
        """Give the true position of the first axis."""
        return self.plant.axes[self.name].position

    def cycle(self, periods=1):
        """Run one cycle."""
        measured = {name: mocap.measure(self.now, self.plant.axes[name].position)
                    for name, mocap in self.mocap.items()}
        feedback = Feedback(self.plant.power, self.plant.switches()) if self.linked else None
        cubics = self.machine.step(self.now, measured, feedback, periods)
        self.plant.run(cubics, self.machine.dt)
        self.now += periods * self.machine.dt

    def close_loop(self, seconds):
        """Close the loop of the first axis, and run."""
        self.axis.track(True)
        self.run(seconds)

    def run(self, seconds):
        """Run; gives the true positions of the first axis."""
        found = []
        for _ in range(round(seconds / self.machine.dt)):
            self.cycle()
            found.append(self.position)
        return found
