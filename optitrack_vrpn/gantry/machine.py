# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All axes of a machine, cycle by cycle: feedback, emergency stop, views and their table; pure."""

import math
from typing import Callable, Mapping, NamedTuple, Optional, Sequence

from optitrack_vrpn.cli import format_table
from optitrack_vrpn.gantry.axis import Axis
from optitrack_vrpn.gantry.correction import Measurement
from optitrack_vrpn.gantry.modes import Mode
from optitrack_vrpn.gantry.setpoints import Cubic, State, Switches
from optitrack_vrpn.gantry.settings import MachineSettings


class Feedback(NamedTuple):
    """Report of the machine: power (False in an emergency stop), switches by axis."""

    power: bool = True
    switches: Mapping[str, Switches] = {}


class Sample(NamedTuple):
    """One axis in one cycle: set point, motion of the motor, mocap value if there is one."""

    axis: Axis
    state: State
    cubic: Cubic
    measured: Optional[float]


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
        self._without_machine = 0

    def command(self, name: str, act: Callable[[Axis], str]) -> dict[str, str]:
        """
        Command one axis, or all.

        :param name: name of an axis, or 'all'.
        :param act: the command; returns '' or the reason why it is refused.
        :returns: the refusals by axis, '' where there is none.
        """
        if name == 'all':
            return {each: act(axis) for each, axis in self.axes.items()}
        if name not in self.axes:
            return {name: f'no axis {name!r}; allowed: {", ".join(self.axes)}, all'}
        return {name: act(self.axes[name])}

    def emergency_stop(self) -> None:
        """Halt every axis at once, until ``reset``."""
        for axis in self.axes.values():
            axis.emergency()

    def reset(self) -> None:
        """End the emergency of every axis; they hold."""
        for axis in self.axes.values():
            axis.reset()

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
        # From 0.9 s on it starts from rest: the motors have stopped. Below the second after which
        # a machine counts anew (docs/gantry.md): delay of UDP.
        held = periods * self.dt >= 0.9
        lost = held or self._without_machine >= self.settings.loss_cycles
        if feedback is not None:
            self._without_machine = 0
        if feedback is not None and not feedback.power:
            self.emergency_stop()
        for name, axis in self.axes.items():
            if lost:
                axis.lose(held)
            switches = axis.switches if feedback is None else feedback.switches.get(
                name, Switches())
            self.cubics[name] = axis.step(
                now, measurements.get(name), switches, periods)
        return self.cubics

    def samples(self) -> list[Sample]:
        """Return the last cycle of every axis."""
        return [Sample(axis, axis.state, self.cubics[name], axis.measured)
                for name, axis in self.axes.items()]


#: Columns of the table beside name and mode: keys of ``cells``. Then those that are left out on a
#: narrow terminal, in this order; warnings never are.
_COLUMNS = ('position', 'unit', 'velocity', 'target', 'error', 'correction', 'limits', 'fastest',
            'switches', 'tracking', 'lock', 'warnings')
_DISPENSABLE = ('fastest', 'velocity', 'limits', 'correction', 'switches', 'target', 'tracking',
                'lock', 'error', 'unit')


def cells(axis: Axis) -> dict[str, str]:
    """Return the displayed values of an axis as strings, for a message."""
    digits = 4 if axis.settings.unit == 'm' else 2

    def number(value: Optional[float]) -> str:
        return '' if value is None else f'{value:.{digits}f}'

    limits, remembered = axis.limits, axis.remembered
    return {
        'unit': axis.settings.unit, 'position': number(axis.state.position),
        'target': f'{number(axis.target_velocity)}/s' if axis.mode is Mode.VELOCITY else number(
            axis.target),
        'velocity': number(axis.state.velocity), 'motor': number(axis.position),
        'measured': number(axis.measured),
        'error': number(axis.correction.error if axis.tracking else None),
        'correction': number(axis.correction.offset),
        'limits': '..'.join('' if math.isinf(each) else f'{each:g}' for each in limits[3:]),
        'fastest': f'{limits.velocity:g}/s, {limits.acceleration:g}/s^2',
        'switches': ''.join(letter for letter, on in zip('LHR', axis.switches) if on),
        'tracking': 'closed' if axis.tracking else 'open',
        'referenced': 'yes' if axis.referenced else 'no',
        'lock': '' if axis.mode is not Mode.LOCK else 'locked' if remembered is None else (
            f'locked ({remembered.value})'),
        'warnings': ', '.join(sorted(axis.warnings))}


def table(
    axes: Sequence[tuple[str, str, Mapping[str, str]]], width: int = 0,
) -> list[str]:
    """Format name, mode and cells of each axis; ``width`` 0 is no limit."""
    rows = [(name, mode, *(shown.get(key, '') for key in _COLUMNS)) for name, mode, shown in axes]
    return format_table(('axis', 'mode', *_COLUMNS), rows, (
        'axis', 'mode', 'unit', *_COLUMNS[6:]), width, _DISPENSABLE)
