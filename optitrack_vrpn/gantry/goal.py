# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Supervise one goal of FollowJointTrajectory: time and result of its end."""

from enum import Enum
from typing import Mapping, NamedTuple, Optional

from optitrack_vrpn.gantry.axis import Axis, Run
from optitrack_vrpn.gantry.modes import Event, Mode

#: Greatest deviation at the end, for goals without one (unit of the axis). Chosen: ten times the
#: thesis's dead bands of 1 mm and 0.1 deg, as for the first point of a trajectory.
GOAL_TOLERANCE = {'linear': 0.01, 'rotary': 1.0}
#: Time (s) after the end to reach the tolerance, for goals without one. Chosen: the rule of the
#: thesis needs some seconds to remove the effect of the delay.
GOAL_TIME_S = 5.0


class Code(Enum):
    """Results, with the names of the constants in FollowJointTrajectory."""

    SUCCESSFUL = 'SUCCESSFUL'
    INVALID_GOAL = 'INVALID_GOAL'
    PATH_TOLERANCE_VIOLATED = 'PATH_TOLERANCE_VIOLATED'
    GOAL_TOLERANCE_VIOLATED = 'GOAL_TOLERANCE_VIOLATED'


class Outcome(NamedTuple):
    """Result of a goal."""

    code: Code
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


def deviation(axis: Axis) -> float:
    """Return measured minus commanded position (unit); 0 in open loop or without an error."""
    error = axis.correction.error if axis.tracking else None
    return 0.0 if error is None else error


class Goal:
    """
    Supervise the axes of a goal; create it when they begin to follow their trajectories.

    :param axes: axes by name.
    :param tolerances: tolerances of the goal.
    """

    def __init__(self, axes: Mapping[str, Axis], tolerances: Tolerances) -> None:
        self.axes = axes
        self._tolerances = tolerances
        self._runs: dict[str, Run] = {name: axis.run for name, axis in axes.items()
                                      if axis.run is not None}
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

    def poll(self, now_s: float) -> Optional[Outcome]:
        """
        Check the axes.

        :param now_s: monotonic time (s).
        :returns: the result of the goal, or None while it is active.
        """
        if self._canceling:
            if any(axis.moving and axis.run is self._runs[name]
                   for name, axis in self.axes.items()):
                return None
            return Outcome(Code.SUCCESSFUL, 'canceled; the axes are at rest', canceled=True)
        reason = self._broken()
        if reason:
            self.stop()
            return Outcome(Code.PATH_TOLERANCE_VIOLATED, reason)
        if any(run.ended_by is None for run in self._runs.values()):
            return None
        if self._ended_s is None:
            self._ended_s = now_s
        apart = {name: abs(self.axes[name].state.position + deviation(self.axes[name]) - run.end)
                 for name, run in self._runs.items()}
        outside = [
            f'{name}: {apart[name]:.4g} {axis.settings.unit} from the last point, tolerance '
            f'{self._tolerances.end[name]:.4g}' for name, axis in self.axes.items()
            if not apart[name] <= self._tolerances.end[name]]
        if not outside and not any(axis.moving for axis in self.axes.values()):
            return Outcome(Code.SUCCESSFUL, '')
        if now_s - self._ended_s < self._tolerances.time_s:
            return None
        return Outcome(
            Code.GOAL_TOLERANCE_VIOLATED, '; '.join(outside) or 'an axis is still moving')

    def _broken(self) -> str:
        """Return why an axis does not follow its path or reach its end, or ''."""
        for name, run in self._runs.items():
            axis = self.axes[name]
            warnings = ', '.join(sorted(axis.warnings))
            if run.ended_by not in (None, Event.END):
                return (f'{name}: the trajectory was ended by {run.ended_by.value}'
                        + (f' ({warnings})' if warnings else ''))
            if run.ended_by is Event.END and axis.mode is not Mode.STOPPING:
                return f'{name}: {axis.mode.value} before it was within the goal tolerance'
            if name in self._closed and not axis.tracking:
                return f'{name}: the closed loop was opened' + (
                    f' ({warnings})' if warnings else '')
            most = self._tolerances.path.get(name)
            if run.ended_by is None and most is not None and abs(deviation(axis)) > most:
                return (f'{name}: {abs(deviation(axis)):.4g} {axis.settings.unit} from the '
                        f'path, tolerance {most:.4g}')
        return ''
