# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Set points of one axis: the step function that keeps its limits, planned motions, the cubics.

Every mode proposes the state after the next cycle. ``step`` accepts it if velocity and
acceleration are within their limits and a stop with the greatest acceleration from there still
ends within the soft limits; otherwise the axis brakes with the greatest acceleration. By
induction such a stop is possible in every state, so that no mode can leave the limits.
"""

import math
from typing import Any, Literal, NamedTuple, Optional

from optitrack_vrpn.errors import BackendUnavailableError

#: Rounding of the planner (unit, unit/s), relative above 1.
_EPSILON = 1e-9


class State(NamedTuple):
    """Position, velocity and acceleration of an axis in its unit and seconds."""

    position: float
    velocity: float = 0.0
    acceleration: float = 0.0


class Switches(NamedTuple):
    """Switches of one axis, as reported by the machine."""

    low: bool = False
    high: bool = False
    reference: bool = False


class Limits(NamedTuple):
    """
    Limits of an axis, in its unit and seconds.

    :ivar jerk: of planned motions and stops only.
    :ivar low: lower soft limit, infinite without one; ``high`` likewise.
    """

    velocity: float
    acceleration: float
    jerk: float
    low: float = -math.inf
    high: float = math.inf


def halt_position(state: State, acceleration: float) -> float:
    """Return where braking with a constant acceleration ends."""
    return state.position + 0.5 * state.velocity * abs(state.velocity) / acceleration


def stopping_distance(velocity: float, limits: Limits) -> float:
    """
    Return the greatest way of a stop (unit).

    An acceleration that increases the speed is removed at once; then the deceleration builds up
    and ends with limited jerk.
    """
    speed, most, jerk = abs(velocity), limits.acceleration, limits.jerk
    return 0.5 * speed * (speed / most + most / jerk) if speed >= most * most / jerk else (
        speed * math.sqrt(speed / jerk))


def brake(state: State, acceleration: float, dt: float) -> State:
    """Decelerate for one cycle, with a constant acceleration."""
    velocity = state.velocity
    if abs(velocity) <= acceleration * dt:
        return State(halt_position(state, acceleration))
    change = math.copysign(acceleration, -velocity)
    after = velocity + change * dt
    return State(state.position + 0.5 * (velocity + after) * dt, after, change)


def step(
    state: State, wanted: Optional[State], limits: Limits, dt: float,
    switches: Switches,
) -> 'tuple[State, Literal["", "motion_limit", "soft_limit", "limit_switch"]]':
    """
    Return the state after a cycle, and which limit forbids the wanted one, or ''.

    :param wanted: the state that a mode proposes; None if it has none.
    :param dt: duration of the cycle (s).
    """
    velocity, most = state.velocity, limits.acceleration
    if wanted is None or not (
            abs(wanted.velocity) <= max(limits.velocity + _EPSILON, abs(velocity))
            and abs(wanted.velocity - velocity) <= most * dt * (1.0 + 1e-6) + _EPSILON
            # |a| <= A leaves the mean velocity no more room than this
            and abs(wanted.position - state.position - 0.5 * (velocity + wanted.velocity) * dt)
            <= 0.25 * most * dt * dt + _EPSILON * (1.0 + abs(state.position))):
        return brake(state, most, dt), 'motion_limit'
    if (switches.high and wanted.velocity > 0.0) or (switches.low and wanted.velocity < 0.0):
        return brake(state, most, dt), 'limit_switch'
    end, here = halt_position(wanted, most), halt_position(state, most)
    rounding = _EPSILON * (1.0 + abs(here))
    low, high = limits.low - rounding, limits.high + rounding
    # from outside, as after a reference search, only the way back is free
    if not (min(low, here) <= end <= max(high, here)
            and min(low, here, state.position) <= wanted.position
            <= max(high, here, state.position)):
        return brake(state, most, dt), 'soft_limit'
    return wanted, ''


def load_ruckig() -> Any:
    """Import ruckig; BackendUnavailableError names the command that installs it."""
    try:
        import ruckig
    except ImportError:
        raise BackendUnavailableError(
            'the Python module ruckig, which plans the motions of the gantry, is not installed: '
            'install it with: pip install ruckig (MIT licence)') from None
    return ruckig


class Planner:
    """
    Plan time-optimal motions with limited jerk, one cycle after the other.

    It uses ruckig (Berscheid and Kroeger, "Jerk-limited real-time trajectory generation with
    arbitrary target states", RSS 2021). Limited jerk can not keep every acceleration: one that
    would carry the axis beyond its velocity limit, or a stop beyond the present speed, is reduced
    at once.

    :param dt: time of a cycle (s).
    :raises BackendUnavailableError: if ruckig is not installed.
    """

    def __init__(self, dt: float, limits: Limits) -> None:
        self._ruckig = load_ruckig()
        self._generator = self._ruckig.Ruckig(1, dt)
        self._input = self._ruckig.InputParameter(1)
        self._output = self._ruckig.OutputParameter(1)
        self.use(limits)

    def use(self, limits: Limits) -> None:
        """Plan with other limits from now on."""
        self._limits = limits
        self._input.max_velocity = [limits.velocity]
        self._input.max_acceleration = [limits.acceleration]
        self._input.max_jerk = [limits.jerk]
        self._last: Optional[tuple[Any, State]] = None

    def to_position(self, state: State, target: float) -> Optional[State]:
        """Go one cycle towards a position, to be reached at rest; None without a motion."""
        return self._step(state, self._ruckig.ControlInterface.Position, target, 0.0)

    def to_velocity(self, state: State, velocity: float) -> Optional[State]:
        """Go one cycle towards a velocity, 0 for a stop, within the range up to it."""
        return self._step(state, self._ruckig.ControlInterface.Velocity, 0.0, velocity)

    def _step(self, state: State, interface: Any, target: float, velocity: float,
              ) -> Optional[State]:
        inputs, new = self._input, self._output
        positions = interface is self._ruckig.ControlInterface.Position
        goal = (positions, target, velocity)
        if self._last != (goal, state):
            # Another goal, or the state was changed from outside: plan again from there.
            most = self._limits.velocity
            low, high = (-most, most) if positions else (
                min(velocity, state.velocity), max(velocity, state.velocity))
            inputs.control_interface = interface
            inputs.target_position = [target]
            inputs.target_velocity = [velocity]
            inputs.target_acceleration = [0.0]
            inputs.current_position = [state.position]
            inputs.current_velocity = [state.velocity]
            inputs.current_acceleration = [max(
                -self._turnable(state.velocity - low),
                min(state.acceleration, self._turnable(high - state.velocity)))]
        try:
            result = self._generator.update(inputs, new)
        except self._ruckig.RuckigError:
            result = None
        if result not in (self._ruckig.Result.Working, self._ruckig.Result.Finished):
            self._last = None
            return None
        found = State(new.new_position[0], new.new_velocity[0], new.new_acceleration[0])
        if result is self._ruckig.Result.Finished:
            found = State(target if positions else found.position, velocity)
        new.pass_to_input(inputs)
        self._last = (goal, found)
        return found

    def _turnable(self, change: float) -> float:
        """Return the acceleration that limited jerk removes while the velocity changes so far."""
        return min(self._limits.acceleration,
                   math.sqrt(2.0 * self._limits.jerk * max(0.0, change)))


class Cubic(NamedTuple):
    """
    Position over one cycle: start + a t + b t^2 + c t^3.

    :ivar start: position at the start of the cycle.
    :ivar a: velocity at the start of the cycle (unit/s); b, c: coefficients of t^2, t^3.
    """

    start: float
    a: float
    b: float
    c: float

    def at(self, t: float) -> float:
        """Return the position at t (s from the start of the cycle)."""
        return self.start + t * (self.a + t * (self.b + t * self.c))

    def points(self, dt: float) -> list[float]:
        """Return the ten positions per cycle that a stepper controller interpolates."""
        return [self.at(k * dt / 10) for k in range(1, 11)]

    def scaled(self, factor: float) -> 'Cubic':
        """Convert it from units to steps, or back."""
        return Cubic(*(each * factor for each in self))


def between(start: float, velocity: float, end: float, end_velocity: float, dt: float) -> Cubic:
    """Join two states, ``dt`` (s) apart, by the cubic Hermite polynomial."""
    mean = (end - start) / dt
    return Cubic(start, velocity, (3.0 * mean - 2.0 * velocity - end_velocity) / dt,
                 (velocity + end_velocity - 2.0 * mean) / (dt * dt))
