# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All axes of a machine, cycle by cycle: feedback, emergency stop, views and their table; pure."""

import math
from typing import Callable, Mapping, NamedTuple, Optional, Sequence

from optitrack_vrpn.cli import table as cli_table
from optitrack_vrpn.gantry.axis import Axis
from optitrack_vrpn.gantry.correction import Measurement
from optitrack_vrpn.gantry.modes import Mode
from optitrack_vrpn.gantry.setpoints import Cubic, Limits, Switches
from optitrack_vrpn.gantry.settings import MachineSettings

ALL = 'all'
#: Time between two cycles (s) after which the controller starts from rest: the motors have
#: stopped. Below the second after which a machine counts anew (docs/gantry.md): delay of UDP.
HELD_S = 0.9


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
    target_velocity: float
    motor: float
    offset: float
    error: Optional[float]
    measured: Optional[float]
    tracking: bool
    referenced: bool
    remembered: str
    limits: Limits
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
        held = periods * self.dt >= HELD_S
        lost = held or self._without_machine >= self.settings.loss_cycles
        if feedback is not None:
            self._without_machine = 0
        if feedback is not None and not feedback.power:
            self.emergency_stop()
        for name, axis in self.axes.items():
            if lost:
                axis.lose(held)
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
            axis.state.acceleration, axis.target, axis.target_velocity, axis.position,
            axis.correction.offset,
            axis.correction.error if axis.tracking else None, self.measured[name],
            axis.tracking, axis.referenced,
            axis.remembered.value if axis.remembered is not None else '', axis.limits,
            axis.switches, tuple(sorted(axis.warnings)),
        ) for name, axis in self.axes.items())


_HEAD = ('axis', 'mode', 'position', 'velocity', 'target', 'error', 'correction', 'limits',
         'fastest', 'switches', 'loop', 'lock', 'warnings')
_LEFT = ('axis', 'mode', *_HEAD[7:])
#: Columns in the order in which they are left out on a narrow terminal; warnings never are.
_DISPENSABLE = (
    'fastest', 'velocity', 'limits', 'correction', 'switches', 'target', 'loop', 'lock', 'error')


def cells(view: AxisView) -> dict[str, str]:
    """Return the displayed values of an axis as strings, for a message."""
    digits = 4 if view.unit == 'm' else 2

    def number(value: 'float | None') -> str:
        return '' if value is None else f'{value:.{digits}f}'

    return {
        'unit': view.unit, 'position': number(view.position),
        'target': f'{number(view.target_velocity)}/s' if view.mode == 'velocity' else number(
            view.target),
        'velocity': number(view.velocity), 'motor': number(view.motor),
        'measured': number(view.measured), 'error': number(view.error),
        'correction': number(view.offset),
        'limits': '..'.join('' if math.isinf(each) else f'{each:g}' for each in view.limits[3:]),
        'fastest': f'{view.limits.velocity:g}/s, {view.limits.acceleration:g}/s^2',
        'switches': ''.join(letter for letter, on in zip('LHR', view.switches) if on),
        'tracking': 'closed' if view.tracking else 'open',
        'referenced': 'yes' if view.referenced else 'no',
        'remembered': view.remembered, 'warnings': ', '.join(view.warnings)}


def table(
    axes: Sequence[tuple[str, str, Mapping[str, str]]], width: int = 0,
) -> list[str]:
    """
    Format the table.

    :param axes: name, mode and cells of each axis.
    :param width: columns of the terminal; 0 for no limit.
    :returns: lines without colours.
    """
    rows = []
    for name, mode, shown in axes:
        locked = f'locked ({shown["remembered"]})' if shown.get('remembered') else (
            'locked' if mode == 'lock' else '')
        rows.append((
            name, mode, f'{shown.get("position", "")} {shown.get("unit", "")}',
            *(shown.get(key, '') for key in (
                'velocity', 'target', 'error', 'correction', 'limits', 'fastest', 'switches',
                'tracking')),
            locked, shown.get('warnings', '')))
    return cli_table.table(_HEAD, rows, _LEFT, width, _DISPENSABLE)
