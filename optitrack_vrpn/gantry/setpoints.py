# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Set points of one axis within velocity, acceleration and jerk limits, by the library ruckig.

Ruckig (Berscheid and Kroeger, "Jerk-limited real-time trajectory generation with arbitrary
target states", RSS 2021) computes the time-optimal motion from any state; from a state beyond a
limit it brakes first.
"""

import math
from typing import Any, NamedTuple

from optitrack_vrpn.errors import BackendUnavailableError


class State(NamedTuple):
    """Position, velocity and acceleration of an axis in its unit and seconds."""

    position: float
    velocity: float = 0.0
    acceleration: float = 0.0


def load_ruckig() -> Any:
    """
    Import ruckig.

    :raises BackendUnavailableError: if it is not installed, with the command that installs it.
    """
    try:
        import ruckig
    except ImportError:
        raise BackendUnavailableError(
            'the Python module ruckig, which plans the motions of the gantry, is not installed: '
            'install it with: pip install ruckig (MIT licence)') from None
    return ruckig


class Planner:
    """
    Plan one cycle after the other.

    :param dt: time of a cycle (s).
    :param max_velocity: limit of the magnitude; likewise the others.
    :raises BackendUnavailableError: if ruckig is not installed.
    """

    def __init__(self, dt: float, max_velocity: float, max_acceleration: float,
                 max_jerk: float) -> None:
        self._ruckig = load_ruckig()
        self._generator = self._ruckig.Ruckig(1, dt)
        self._input = self._ruckig.InputParameter(1)
        self._output = self._ruckig.OutputParameter(1)
        self._input.max_velocity = [max_velocity]
        self._input.max_acceleration = [max_acceleration]
        self._input.max_jerk = [max_jerk]
        self._last: tuple[Any, ...] | None = None
        self._dt = dt
        self._deceleration = max_acceleration

    def to_position(self, state: State, target: float) -> State:
        """
        Go one cycle towards a position, to be reached at rest.

        :returns: the state after the cycle.
        """
        return self._step(state, self._ruckig.ControlInterface.Position, target, 0.0)

    def to_velocity(self, state: State, velocity: float) -> State:
        """
        Go one cycle towards a velocity, 0 for a stop.

        :returns: the state after the cycle.
        """
        return self._step(state, self._ruckig.ControlInterface.Velocity, 0.0, velocity)

    def _step(self, state: State, interface: Any, target: float, velocity: float) -> State:
        inputs = self._input
        goal = (interface, target, velocity)
        if self._last != (goal, state):
            # Another goal, or the state was changed from outside: plan again from there.
            inputs.control_interface = interface
            inputs.target_position = [target]
            inputs.target_velocity = [velocity]
            inputs.target_acceleration = [0.0]
            inputs.current_position = [state.position]
            inputs.current_velocity = [state.velocity]
            inputs.current_acceleration = [state.acceleration]
        try:
            result = self._generator.update(inputs, self._output)
        except self._ruckig.RuckigError:    # no profile is found, for numerical reasons
            if not math.isfinite(state.position + state.velocity):
                raise
            result = None
        if result not in (self._ruckig.Result.Working, self._ruckig.Result.Finished):
            self._last = None
            return self._brake(state)
        new = self._output
        found = State(new.new_position[0], new.new_velocity[0], new.new_acceleration[0])
        if result is self._ruckig.Result.Finished:
            found = State(target if interface is self._ruckig.ControlInterface.Position
                          else found.position, velocity, 0.0)
        new.pass_to_input(inputs)
        self._last = (goal, found)
        return found

    def _brake(self, state: State) -> State:
        """Slow down without ruckig, which refused the state: constant deceleration."""
        change = min(abs(state.velocity), self._deceleration * self._dt)
        velocity = state.velocity - (change if state.velocity > 0.0 else -change)
        return State(state.position + 0.5 * (state.velocity + velocity) * self._dt, velocity)
