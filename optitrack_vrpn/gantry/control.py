# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All axes of a machine, cycle by cycle: feedback, emergency stop, views; pure."""

from typing import Callable, Mapping, NamedTuple, Optional

from optitrack_vrpn.gantry.axis import Axis, Switches
from optitrack_vrpn.gantry.correction import Measurement
from optitrack_vrpn.gantry.cubic import Cubic
from optitrack_vrpn.gantry.modes import Event, Mode
from optitrack_vrpn.gantry.settings import MachineSettings

ALL = 'all'


class Feedback(NamedTuple):
    """
    Report of the machine.

    :ivar power: False while the power is cut: an emergency stop.
    :ivar switches: switches by axis.
    """

    power: bool = True
    switches: Mapping[str, Switches] = {}


class AxisView(NamedTuple):
    """State of one axis for the user; lengths in its unit."""

    name: str
    unit: str
    mode: str
    position: float
    velocity: float
    acceleration: float
    target: float
    motor: float
    offset: float
    error: Optional[float]
    measured: Optional[float]
    tracking: bool
    referenced: bool
    remembered: str
    low: Optional[float]
    high: Optional[float]
    switches: Switches
    warnings: tuple[str, ...]


class Machine:
    """
    Control every axis.

    :param settings: the axes.
    :ivar axes: axes by name, in order.
    :ivar cubics: cubics of the last cycle, by name.
    """

    def __init__(self, settings: MachineSettings) -> None:
        self.settings = settings
        self.dt = 1.0 / settings.rate_hz
        self.axes = {each.name: Axis(each, self.dt, settings.loss_cycles)
                     for each in settings.axes}
        self.cubics: dict[str, Cubic] = {}
        self.measured: dict[str, Optional[float]] = dict.fromkeys(self.axes)
        self._without_machine = 0

    def command(self, name: str, act: Callable[[Axis], str]) -> dict[str, str]:
        """
        Command one axis, or all.

        :param name: name of an axis, or 'all'.
        :param act: the command; returns '' or the reason why it is refused.
        :returns: the refusals by axis, '' where there is none.
        """
        if name == ALL:
            return {each: act(axis) for each, axis in self.axes.items()}
        if name not in self.axes:
            return {name: f'no axis {name!r}; allowed: {", ".join(self.axes)}, {ALL}'}
        return {name: act(self.axes[name])}

    def emergency_stop(self) -> None:
        """Halt every axis at once, until ``reset``."""
        for axis in self.axes.values():
            axis.emergency()

    def reset(self) -> str:
        """
        End the emergency of every axis; they hold.

        :returns: '' or the reason why it is refused.
        """
        return '; '.join(filter(None, (
            axis.reset() for axis in self.axes.values() if axis.mode is Mode.EMERGENCY)))

    @property
    def emergency(self) -> bool:
        """Return whether an axis is in an emergency."""
        return any(axis.mode is Mode.EMERGENCY for axis in self.axes.values())

    def step(
        self, now: float, measurements: Mapping[str, Optional[Measurement]],
        feedback: Optional[Feedback], periods: int = 1,
    ) -> dict[str, Cubic]:
        """
        Compute the next cycle of all axes.

        :param now: begin of the cycle (s).
        :param measurements: valid measurements by axis; None or absent without one.
        :param feedback: report of the machine, None if none arrived since the last cycle.
        :param periods: number of cycles since the last call.
        :returns: motion of each motor during the cycle, in units.
        """
        # Skipped cycles count also if a report waited meanwhile: the machine has stopped.
        self._without_machine += periods - (feedback is not None)
        lost = self._without_machine >= self.settings.loss_cycles
        if feedback is not None:
            self._without_machine = 0
        if feedback is not None and not feedback.power:
            self.emergency_stop()
        for name, axis in self.axes.items():
            if lost:
                axis.fail(Event.FAULT, 'machine_lost')
                axis.tracking = axis.referenced = False     # where the motors are is unknown
            measurement = measurements.get(name)
            self.measured[name] = None if measurement is None else measurement.value
            switches = axis.switches if feedback is None else feedback.switches.get(
                name, Switches())
            self.cubics[name] = axis.step(now, measurement, switches, periods)
        return self.cubics

    def view(self) -> tuple[AxisView, ...]:
        """Return the state of every axis."""
        return tuple(AxisView(
            name, axis.settings.unit, axis.mode.value, axis.state.position, axis.state.velocity,
            axis.state.acceleration, axis.target, axis.position, axis.correction.offset,
            axis.correction.error if axis.tracking else None, self.measured[name],
            axis.tracking, axis.referenced,
            axis.remembered.value if axis.remembered is not None else '', axis.settings.low,
            axis.settings.high, axis.switches, tuple(sorted(axis.warnings)),
        ) for name, axis in self.axes.items())
