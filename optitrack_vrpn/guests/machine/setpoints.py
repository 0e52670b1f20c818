# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Set points of one axis: the step function that keeps its limits, plans, cubics, datagrams.

Every mode proposes the state after the next cycle. ``step`` accepts it if velocity and
acceleration are within their limits and a stop with the greatest acceleration from there still
ends within the soft limits; otherwise the axis brakes with the greatest acceleration. By
induction such a stop is possible in every state, so that no mode can leave the limits.
"""

import math
import struct
from typing import Any, Literal, NamedTuple, Optional, Sequence

from optitrack_vrpn.core.errors import BackendUnavailableError, RemoteProtocolError

#: Rounding of the planner (unit, unit/s), relative above 1.
_EPSILON = 1e-9


class AxisMotion(NamedTuple):
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


def halt_position(state: AxisMotion, acceleration: float) -> float:
    """Return where braking with a constant acceleration ends."""
    return state.position + 0.5 * state.velocity * abs(state.velocity) / acceleration


def brake(state: AxisMotion, acceleration: float, dt: float) -> AxisMotion:
    """Decelerate for one cycle, with a constant acceleration."""
    velocity = state.velocity
    if abs(velocity) <= acceleration * dt:
        return AxisMotion(halt_position(state, acceleration))
    change = math.copysign(acceleration, -velocity)
    after = velocity + change * dt
    return AxisMotion(state.position + 0.5 * (velocity + after) * dt, after, change)


def step(
    state: AxisMotion, wanted: Optional[AxisMotion], limits: Limits, dt: float,
    switches: Switches,
) -> 'tuple[AxisMotion, Literal["", "motion_limit", "soft_limit", "limit_switch"]]':
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
        self._last: Optional[tuple[Any, AxisMotion]] = None

    def to_position(self, state: AxisMotion, target: float) -> Optional[AxisMotion]:
        """Go one cycle towards a position, to be reached at rest; None without a motion."""
        return self._step(state, self._ruckig.ControlInterface.Position, target, 0.0)

    def to_velocity(self, state: AxisMotion, velocity: float) -> Optional[AxisMotion]:
        """Go one cycle towards a velocity, 0 for a stop, within the range up to it."""
        return self._step(state, self._ruckig.ControlInterface.Velocity, 0.0, velocity)

    def _step(self, state: AxisMotion, interface: Any, target: float, velocity: float,
              ) -> Optional[AxisMotion]:
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
        found = AxisMotion(new.new_position[0], new.new_velocity[0], new.new_acceleration[0])
        if result is self._ruckig.Result.Finished:
            found = AxisMotion(target if positions else found.position, velocity)
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


#: Buffer for a datagram (bytes), above the 1048 of a machine with 32 axes.
MOST_BYTES = 2048


class _Layout(NamedTuple):
    """Magic bytes; format of the head, with the number of axes last; format of each axis."""

    magic: bytes
    head: struct.Struct
    axis: struct.Struct

    def encode(self, fields: Sequence[Any], axes: Sequence[Sequence[Any]]) -> bytes:
        return self.head.pack(self.magic, *fields, len(axes)) + b''.join(
            self.axis.pack(*each) for each in axes)

    def decode(self, data: bytes) -> tuple[Sequence[Any], list[Any]]:
        """Return the fields between magic bytes and number of axes, and those of each axis."""
        size = self.head.size
        if len(data) < size or data[:4] != self.magic:
            raise RemoteProtocolError(
                f'{len(data)} bytes are not a {self.magic.decode()} datagram')
        _, *fields, count = self.head.unpack_from(data)
        if count > 32 or len(data) != size + self.axis.size * count:
            raise RemoteProtocolError(
                f'a {self.magic.decode()} datagram of {len(data)} bytes announces {count} axes')
        return fields, list(self.axis.iter_unpack(data[size:]))


_SET_POINTS = _Layout(b'OVGC', struct.Struct('<4sIdII'), struct.Struct('<4d'))
_ANSWER = _Layout(b'OVGM', struct.Struct('<4sIII'), struct.Struct('<I'))


class SetPoints(NamedTuple):
    """
    Set points of a cycle of ``dt`` seconds: a cubic per axis, in steps.

    The datagram to a machine, one a cycle, little endian:

    | offset | type | what |
    |---|---|---|
    | 0 | 4 bytes | ``OVGC`` |
    | 4 | uint32 | sequence number, increments by 1 modulo 2^32 |
    | 8 | float64 | duration of a cycle (s) |
    | 16 | uint32 | 1: power on; 0: switch the power off (emergency stop) |
    | 20 | uint32 | number of axes |
    | 24 | 4 float64 an axis | steps at the start; coefficients of t (steps/s), t^2, t^3 |
    """

    sequence: int
    dt: float
    power: bool
    cubics: tuple[Cubic, ...]


class MachineAnswer(NamedTuple):
    """
    Answer of the machine to each datagram, little endian.

    | offset | type | what |
    |---|---|---|
    | 0 | 4 bytes | ``OVGM`` |
    | 4 | uint32 | sequence number of the answered set points |
    | 8 | uint32 | 1: power on; 0: power off |
    | 12 | uint32 | number of axes |
    | 16 | uint32 an axis | bit 0 lower limit switch, bit 1 upper one, bit 2 reference switch |
    """

    sequence: int
    power: bool
    switches: tuple[Switches, ...]


def ahead(sequence: int, other: int) -> int:
    """Return by how much a sequence number is after another; negative if it is before it."""
    return (sequence - other + 2**31) % 2**32 - 2**31


def encode_set_points(points: SetPoints) -> bytes:
    """Encode a datagram of set points."""
    return _SET_POINTS.encode(
        (points.sequence & 0xffffffff, points.dt, points.power), points.cubics)


def decode_set_points(data: bytes) -> SetPoints:
    """Decode a datagram of set points; RemoteProtocolError if it is not possible."""
    (sequence, dt, power), axes = _SET_POINTS.decode(data)
    # 1e15 steps are 200 years at 170 kHz; the limit also rejects NaN and infinite sums.
    if not 0.0 < dt < 1.0 or not all(abs(each) <= 1e15 for cubic in axes for each in cubic):
        raise RemoteProtocolError(
            'the cycle time of set points is not between 0 and 1 s, or a value is not a possible '
            'number of steps')
    return SetPoints(sequence, dt, bool(power), tuple(Cubic(*each) for each in axes))


def encode_answer(answer: MachineAnswer) -> bytes:
    """Encode the machine's answer."""
    return _ANSWER.encode((answer.sequence & 0xffffffff, answer.power), [
        (each.low | each.high << 1 | each.reference << 2,) for each in answer.switches])


def decode_answer(data: bytes) -> MachineAnswer:
    """Decode the machine's answer; RemoteProtocolError if it is damaged."""
    (sequence, power), axes = _ANSWER.decode(data)
    return MachineAnswer(sequence, bool(power), tuple(
        Switches(bool(bits & 1), bool(bits & 2), bool(bits & 4)) for bits, in axes))
