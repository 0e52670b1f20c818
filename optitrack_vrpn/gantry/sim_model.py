# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A simulated stepper axis with slip, backlash, lost steps at reversals, switches and power.

The motor moves in whole steps, with play between motor and load. The load loses a share of its way
that depends on the direction (slip), and a fixed way after each turn to the positive direction.
"""

from typing import Mapping

from optitrack_vrpn.gantry.setpoints import Cubic, Switches
from optitrack_vrpn.gantry.settings import AxisSettings, MachineSettings


class SimulatedAxis:
    """
    One axis.

    :param settings: steps per unit, mechanics, switches.
    :ivar steps: position of the motor in steps.
    :ivar position: true position of the load (unit).
    """

    def __init__(self, settings: AxisSettings) -> None:
        self.settings = settings
        self.steps = 0
        self.position = settings.plant.start
        self._origin = 0
        self._load = 0.0      # load side of the play, in the motor's coordinate
        self._direction = 0
        self._owed = 0.0

    def recount(self, motor: float) -> None:
        """Take a set point (unit) as the count of the present position, without motion."""
        self._origin = self.steps - round(motor * self.settings.steps_per_unit)

    def drive(self, motor: float) -> None:
        """
        Move the motor to the nearest whole step of a position; fractions do not accumulate.

        :param motor: position in the coordinate of the controller (unit).
        """
        self.steps = round(motor * self.settings.steps_per_unit) + self._origin
        plant = self.settings.plant
        angle = self.steps / self.settings.steps_per_unit
        half = 0.5 * plant.backlash
        load = min(max(self._load, angle - half), angle + half)
        change = load - self._load
        if change == 0.0:
            return
        self._load = load
        direction = 1 if change > 0.0 else -1
        if direction != self._direction:
            if direction > 0 and self._direction < 0:
                self._owed += plant.reversal_loss
            self._direction = direction
        if direction > 0 and self._owed > 0.0:
            lost = min(change, self._owed)
            self._owed -= lost
            change -= lost
        slip = plant.slip_positive if direction > 0 else plant.slip_negative
        self.position += change * (1.0 - slip)

    @property
    def switches(self) -> Switches:
        """Return the state of the switches."""
        settings, plant = self.settings, self.settings.plant
        return Switches(
            settings.switch_low is not None and self.position <= settings.switch_low,
            settings.switch_high is not None and self.position >= settings.switch_high,
            settings.reference_velocity != 0.0
            and plant.reference <= self.position <= plant.reference + plant.reference_width)


class SimulatedMachine:
    """
    All axes of a machine, driven by the cubics of the controller.

    :param settings: settings of the machine.
    :ivar power: False after an emergency stop: the motors do not move.
    """

    def __init__(self, settings: MachineSettings) -> None:
        self.settings = settings
        self.power = True
        self._counted = False
        self._before: dict[str, float] = {}
        self._begun = self._dt = 0.0
        self.axes = {each.name: SimulatedAxis(each) for each in settings.axes}

    def recount(self) -> None:
        """Take the start of the next cubics as the count of the present positions."""
        self._counted = False

    def run(self, cubics: Mapping[str, Cubic], dt: float, now: float = 0.0) -> None:
        """
        Move every axis through one cycle, at ten points, as the stepper controller does.

        :param cubics: motion of each motor in units.
        :param dt: duration of the cycle (s).
        :param now: start of the cycle (s), for ``shown``.
        """
        self._before, self._begun, self._dt = self.positions(), now, dt
        if not self.power:
            self.recount()      # the controller's count can differ from where the motors halted
            return
        for name, cubic in cubics.items():
            axis = self.axes[name]
            if not self._counted:
                axis.recount(cubic.start)
            for point in cubic.points(dt):
                axis.drive(point)
        self._counted = True

    def positions(self) -> dict[str, float]:
        """Return the true position of each axis (unit)."""
        return {name: axis.position for name, axis in self.axes.items()}

    def shown(self, now: float) -> dict[str, float]:
        """
        Return the true positions at a time within the last cycle.

        :param now: time on the clock of ``run`` (s).
        """
        if not self._before or self._dt <= 0.0:
            return self.positions()
        share = min(max((now - self._begun) / self._dt, 0.0), 1.0)
        return {name: self._before[name] + share * (axis.position - self._before[name])
                for name, axis in self.axes.items()}

    def switches(self) -> dict[str, Switches]:
        """Return the switches of each axis."""
        return {name: axis.switches for name, axis in self.axes.items()}
