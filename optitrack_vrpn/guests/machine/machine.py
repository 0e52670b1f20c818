# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
All axes of a machine, cycle by cycle; what takes many cycles: a calibration, a goal; no IO.

The calibration of the steps per unit commands a distance and measures it with mocap. The axis
moves back and forth several times in open loop. After each reversal it moves a quarter of the
distance before the stroke that counts, so that the play is not measured as a part of it. Upward
and downward strokes are averaged separately: a difference between them is caused by slip, not by
the steps per unit.
"""

import math
import statistics
from typing import Callable, Literal, Mapping, NamedTuple, Optional

from optitrack_vrpn.guests.machine.axis import Axis, AxisRun
from optitrack_vrpn.guests.machine.correction import Measurement, SETTLED_S
from optitrack_vrpn.guests.machine.gantry_settings import MachineSettings
from optitrack_vrpn.guests.machine.setpoints import AxisMotion, Cubic, Switches
from optitrack_vrpn.guests.machine.states import Mode, ModeEvent


class Feedback(NamedTuple):
    """Report of the machine: power (False in an emergency stop), switches by axis."""

    power: bool = True
    switches: Mapping[str, Switches] = {}


class AxisSample(NamedTuple):
    """One axis in one cycle: set point, motion of the motor, mocap value if there is one."""

    axis: Axis
    state: AxisMotion
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

    def samples(self) -> list[AxisSample]:
        """Return the last cycle of every axis."""
        return [AxisSample(axis, axis.state, self.cubics[name], axis.measured)
                for name, axis in self.axes.items()]


#: Ends of the motions of one period, as shares of the distance: after each reversal a quarter,
#: then the stroke that counts. Chosen.
_ENDS = (0.25, 1.0, 0.75, 0.0)
#: Share of the distance that a stroke covers, by ``_ENDS``.
_STROKE = 0.75


class ScaleResult(NamedTuple):
    """
    Result of a calibration.

    :ivar steps_per_unit: corrected steps per unit.
    :ivar ratio: measured distance per commanded distance, without the play.
    :ivar uncertainty: standard error of the ratio.
    :ivar difference: ratio of the upward minus ratio of the downward strokes.
    :ivar backlash: way lost at a reversal (unit).
    """

    steps_per_unit: float
    ratio: float
    uncertainty: float
    difference: float
    backlash: float


class Calibration:
    """
    Calibrate one axis; call ``step`` after each cycle.

    :param axis: axis in open loop, at rest.
    :param distance: distance from the start to the turning point (unit), signed.
    :ivar result: the result, at the end.
    :ivar reason: reason of a failure, or ''.
    """

    def __init__(self, axis: Axis, distance: float) -> None:
        self.axis = axis
        self.result: Optional[ScaleResult] = None
        self.reason = ''
        self._rest_s = self._missing_s = 0.0
        self._readings: list[float] = []
        self._ends: list[float] = []
        self._distance = distance
        start = axis.state.position
        self._targets = [start + share * distance for share in _ENDS * 3]
        if axis.tracking:
            self.reason = 'calibration needs the open loop: switch tracking off first'
        elif axis.moving or axis.mode is Mode.EMERGENCY:
            self.reason = 'calibration starts at rest: stop the axis first'
        elif not math.isfinite(distance) or distance == 0.0:
            self.reason = 'give a distance other than 0'
        else:       # the first call checks the limits
            self.reason = axis.go_to(start + distance) or axis.go_to(self._targets[0])

    @property
    def done(self) -> bool:
        """Return whether it has ended, successfully or not."""
        return self.result is not None or bool(self.reason)

    def step(self, dt: float) -> None:
        """Execute a cycle of ``dt`` seconds."""
        if self.done:
            return
        if self.axis.mode is not Mode.MANUAL:
            self.reason = f'the axis left the mode manual ({self.axis.mode.value})'
            return
        if self.axis.target != self._targets[len(self._ends)] or self.axis.tracking:
            self.reason = 'the axis received another command'
            return
        if self.axis.moving or self.axis.state.position != self.axis.target:
            self._rest_s = self._missing_s = 0.0
            self._readings.clear()
            return
        self._rest_s += dt
        if self._rest_s < SETTLED_S:
            return
        self._missing_s += dt
        if self.axis.measured is not None:
            self._missing_s = 0.0
            self._readings.append(self.axis.measured)
        if len(self._readings) >= 100:      # the window of the thesis
            self._ends.append(statistics.fmean(self._readings))
            self._readings.clear()
            self._rest_s = 0.0
            self._next()
        elif self._missing_s > 5.0:
            self.axis.stop()
            self.reason = 'mocap gave too few valid values: check that the body is in view'

    def _next(self) -> None:
        if len(self._ends) < len(self._targets):
            self.reason = self.axis.go_to(self._targets[len(self._ends)])
            return
        # ways between neighbouring ends: stroke, reversal, stroke, reversal, ...
        ways = [(b - a) / self._distance for a, b in zip(self._ends, self._ends[1:])]
        up, down = ([way / stroke for way in ways[k::4]]
                    for k, stroke in ((0, _STROKE), (2, -_STROKE)))
        ratio = statistics.fmean(up + down)
        reversals = [abs(way) / (1.0 - _STROKE) for way in ways[1::2]]
        if not 0.5 < ratio < 2.0:
            self.reason = (f'mocap measured {ratio:.3f} of the commanded distance: wrong axis, '
                           'sign or body; check the axis table with axis_bridge --teach')
        elif min(reversals) < 0.1:
            self.reason = 'the play exceeds a quarter of the distance: give a larger distance'
        else:
            self.result = ScaleResult(
                self.axis.settings.steps_per_unit / ratio, ratio,
                statistics.stdev(up + down) / math.sqrt(len(up + down)),
                statistics.fmean(up) - statistics.fmean(down),
                (1.0 - statistics.fmean(reversals) / ratio) * (1.0 - _STROKE)
                * abs(self._distance))


class GoalOutcome(NamedTuple):
    """Result of a goal; its code is the name of a constant in FollowJointTrajectory."""

    code: Literal[
        'SUCCESSFUL', 'INVALID_GOAL', 'PATH_TOLERANCE_VIOLATED', 'GOAL_TOLERANCE_VIOLATED']
    text: str
    canceled: bool = False


class Tolerances(NamedTuple):
    """
    Tolerances of a goal, in the units of the axes.

    :ivar path: greatest deviation from the path, by axis; absent: not checked.
    :ivar end: greatest deviation at the end, by axis; infinite: not checked.
    :ivar time_s: time after the end to reach the tolerance (s).
    """

    path: Mapping[str, float]
    end: Mapping[str, float]
    time_s: float


class Goal:
    """
    Supervise the axes of a goal; create it when they begin to follow their trajectories.

    :param axes: axes by name.
    :param tolerances: tolerances of the goal.
    """

    def __init__(self, axes: Mapping[str, Axis], tolerances: Tolerances) -> None:
        self.axes = axes
        self._tolerances = tolerances
        self._runs: dict[str, AxisRun] = {
            name: axis.run for name, axis in axes.items() if axis.run is not None}
        self._closed = {name for name, axis in axes.items() if axis.tracking}
        self._ended_s: Optional[float] = None
        self._canceling = False

    def cancel(self) -> None:
        """Stop the axes; the goal ends when they are at rest."""
        self._canceling = True
        self.stop()

    def stop(self) -> None:
        """Stop every axis that still follows the goal, within its limits."""
        for name, run in self._runs.items():
            if run.ended_by is None:
                self.axes[name].stop()

    def poll(self, now_s: float) -> Optional[GoalOutcome]:
        """Check the axes; return the result of the goal, or None while it is active."""
        if self._canceling:
            if any(axis.moving and axis.run is self._runs[name]
                   for name, axis in self.axes.items()):
                return None
            return GoalOutcome('SUCCESSFUL', 'canceled; the axes are at rest', canceled=True)
        reason = self._broken()
        if reason:
            self.stop()
            return GoalOutcome('PATH_TOLERANCE_VIOLATED', reason)
        if any(run.ended_by is None for run in self._runs.values()):
            return None
        if self._ended_s is None:
            self._ended_s = now_s
        outside = []
        for name, axis in self.axes.items():
            apart = abs(axis.state.position + axis.deviation - self._runs[name].end)
            if not apart <= self._tolerances.end[name]:
                outside.append(
                    f'{name}: {apart:.4g} {axis.settings.unit} from the last point, tolerance '
                    f'{self._tolerances.end[name]:.4g}')
        if not outside and not any(axis.moving for axis in self.axes.values()):
            return GoalOutcome('SUCCESSFUL', '')
        if now_s - self._ended_s < self._tolerances.time_s:
            return None
        return GoalOutcome(
            'GOAL_TOLERANCE_VIOLATED', '; '.join(outside) or 'an axis is still moving')

    def _broken(self) -> str:
        """Return why an axis does not follow its path or reach its end, or ''."""
        for name, run in self._runs.items():
            axis = self.axes[name]
            warnings = f' ({", ".join(sorted(axis.warnings))})' if axis.warnings else ''
            apart, most = abs(axis.deviation), self._tolerances.path.get(name, math.inf)
            if run.ended_by is not None and run.ended_by is not ModeEvent.END:
                return f'{name}: the trajectory was ended by {run.ended_by.value}{warnings}'
            if run.ended_by is ModeEvent.END and axis.mode is not Mode.STOPPING:
                return f'{name}: {axis.mode.value} before it was within the goal tolerance'
            if name in self._closed and not axis.tracking:
                return f'{name}: the closed loop was opened{warnings}'
            if run.ended_by is None and apart > most:
                return f'{name}: {apart:.4g} {axis.settings.unit} from the path, tolerance ' \
                       f'{most:.4g}'
        return ''
