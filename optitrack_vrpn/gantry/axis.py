# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One axis: mode, set point of the next cycle, limits, closed loop. No IO; time is an argument.

Profiles count cycles and not the clock: a late cycle delays the motion and never makes it jump.
"""

from dataclasses import dataclass
import math
from typing import Literal, NamedTuple, Optional

from optitrack_vrpn.gantry.correction import Correction, Measurement
from optitrack_vrpn.gantry.cubic import between, Cubic
from optitrack_vrpn.gantry.modes import after, COMMANDS, Event, Mode, MOVING
from optitrack_vrpn.gantry.setpoints import Planner, State
from optitrack_vrpn.gantry.settings import AxisSettings
from optitrack_vrpn.gantry.trajectory import Trajectory

#: A set point this close (unit) to a soft limit does not count as beyond it: rounding of the
#: planner. Chosen: far below a step, so that half or double has no effect.
_EPSILON = 1e-9
#: Longest motion to a target (s). Ruckig refuses motions above 7600 s. Halved, half the way is
#: permitted; above 7600 s the axis would not move.
_LONGEST_S = 7200.0
#: Greatest frequency of a sine, in periods per cycle. Chosen: ten set points a period. Halved,
#: fast sines are refused; doubled, five cubics a period deviate from the sine.
_SINE_CYCLES = 0.1


class Switches(NamedTuple):
    """Switches of one axis, as reported by the machine."""

    low: bool = False
    high: bool = False
    reference: bool = False


#: Warnings for the user.
Warned = Literal[
    'soft_limit', 'limit_switch', 'stream_lost', 'mocap_lost', 'correction_limit', 'machine_lost',
    'not_found']


@dataclass(frozen=True)
class Sine:
    """Parameters of the mode sine: amplitude (unit) and frequency (Hz)."""

    amplitude: float
    frequency: float


@dataclass
class Run:
    """
    A trajectory that an axis follows.

    :ivar trajectory: relative to the position at its start.
    :ivar end: final position (unit).
    :ivar ended_by: event that ended it, END at its last point; None while it continues.
    """

    trajectory: Trajectory
    end: float
    ended_by: Optional[Event] = None


class Axis:
    """
    Control one axis.

    :param settings: settings of the axis.
    :param dt: duration of a cycle (s).
    :param loss_cycles: number of cycles without a signal after which the axis stops.
    :ivar mode: its mode.
    :ivar state: set point without correction: position, velocity, acceleration.
    :ivar target: target position in the modes manual and stream.
    :ivar tracking: whether the closed loop is on.
    :ivar referenced: whether the reference search has found the switch.
    :ivar run: the last trajectory.
    :ivar warnings: the active warnings; they stay until the next command.
    """

    def __init__(self, settings: AxisSettings, dt: float, loss_cycles: int = 100) -> None:
        self.settings = settings
        self.mode = Mode.STOPPING
        self.state = State(0.0)
        self.target = 0.0
        self.tracking = False
        self.referenced = False
        self.warnings: set[Warned] = set()
        self.correction = Correction(
            settings.correction, 360.0 if settings.kind == 'rotary' else math.inf)
        self.remembered: Optional[Mode] = None
        self.switches = Switches()
        self._dt = dt
        self._loss_cycles = loss_cycles
        self._planner = Planner(
            dt, settings.max_velocity, settings.max_acceleration, settings.max_jerk)
        self._motor_zero = 0.0
        self._origin = 0.0
        self._cycles = 0
        self._leaving = False
        self._sine = self._next_sine = Sine(0.0, 0.0)
        self.run: Optional[Run] = None
        self._stream: Optional[float] = None
        self._without_stream = 0
        self._without_mocap = 0
        self._after_return: Optional[Event] = None

    # -- state for the user --------------------------------------------------------------------

    @property
    def position(self) -> float:
        """Return the corrected set point in the motor's count, which no reference shifts."""
        return self.state.position + self.correction.offset + self._motor_zero

    @property
    def moving(self) -> bool:
        """Return whether the set point moves."""
        return self.state.velocity != 0.0 or self.state.acceleration != 0.0

    # -- commands: each returns '', or the reason why it is refused ----------------------------

    def go_to(self, target: float) -> str:
        """Move to a position (unit) within the limits."""
        reason = self._refusal(Event.MANUAL) or self._outside(target)
        if not reason:
            self._command(Event.MANUAL)
            self.target = target
        return reason

    def jog(self, distance: float) -> str:
        """Move by a distance (unit), from the manual target or from the present position."""
        base = self.target if self.mode is Mode.MANUAL else self.state.position
        return self.go_to(base + distance)

    def stream(self) -> str:
        """Follow the targets of the stream, within the limits."""
        return self._begin(Event.STREAM)

    def sine(self, amplitude: float, frequency: float) -> str:
        """Follow x0 + A sin(2 pi f (t - t0)); x0 and t0 are position and time at its start."""
        if not (math.isfinite(amplitude) and math.isfinite(frequency) and frequency > 0.0):
            return f'sine needs an amplitude and a frequency above 0, got {amplitude}, {frequency}'
        if frequency > _SINE_CYCLES / self._dt:
            return (f'{frequency:.4g} Hz is too fast for the cycles: at most '
                    f'{_SINE_CYCLES / self._dt:.4g} Hz')
        speed = 2.0 * math.pi * frequency * abs(amplitude)
        if speed > self.settings.motor_velocity:
            return (f'the sine reaches {speed:.4g} {self.settings.unit}/s; the motor follows '
                    f'{self.settings.motor_velocity:.4g} at most')
        reason = self._refusal(Event.SINE)
        if not reason:
            self._next_sine = Sine(amplitude, frequency)
            reason = self._begin(Event.SINE, at_rest=True)
        return reason

    def follow(self, trajectory: Trajectory) -> str:
        """Follow a trajectory, relative to the position at its start."""
        speed = trajectory.greatest_velocity()
        if not speed <= self.settings.motor_velocity:
            return (f'the trajectory reaches {speed:.4g} {self.settings.unit}/s; the motor '
                    f'follows {self.settings.motor_velocity:.4g} at most')
        reason = self._begin(Event.TRAJECTORY, at_rest=True)
        if not reason:
            self.run = Run(
                trajectory, self.state.position + trajectory.positions[-1])
        return reason

    def home(self) -> str:
        """
        Search the reference switch slowly; its position becomes zero.

        The search always meets the same edge: an axis on the switch first leaves it backwards.
        """
        if self.settings.reference_velocity == 0.0:
            return 'the axis has no reference switch (reference_velocity is 0)'
        return self._begin(Event.REFERENCE)

    def stop(self) -> str:
        """Decelerate within the limits, then hold."""
        self._after_return = None
        return self._apply(Event.STOP)

    def lock(self) -> str:
        """Stop, and store the mode."""
        if self.mode is Mode.LOCK:
            return ''
        before = self.mode
        reason = self._apply(Event.LOCK)
        if not reason:
            self.remembered = before if before in MOVING else None
            self._after_return = None
        return reason

    def unlock(self) -> str:
        """Return to the mode before the lock, as if it were commanded again."""
        if self.mode is Mode.LOCK and self.moving:
            return 'the axis is still decelerating'
        remembered, target = self.remembered, self.target
        reason = self._apply(Event.UNLOCK)
        if not reason and remembered is Mode.MANUAL:
            reason = self.go_to(target)
        elif not reason and remembered is not None:
            if remembered is Mode.SINE:
                self._next_sine = self._sine
            reason = self._begin(COMMANDS[remembered], at_rest=True)
        self.remembered = None
        return reason

    def track(self, on: bool) -> str:
        """Switch the closed loop on or off."""
        if on and self.mode is Mode.EMERGENCY:
            return 'emergency stop: reset first'
        if on and not self.tracking:
            self.correction.enter()
            self._without_mocap = 0
            self.warnings -= {'mocap_lost', 'correction_limit'}
        self.tracking = on
        return ''

    def emergency(self) -> None:
        """Halt at once, without power; only ``reset`` ends this state."""
        if self.mode is not Mode.EMERGENCY:
            self._apply(Event.EMERGENCY)
            self.remembered = None
            self._after_return = None
            self.tracking = False
            self.referenced = False
        self.state = State(self.state.position)

    def reset(self) -> str:
        """End an emergency; the axis holds."""
        return self._apply(Event.RESET)

    def fail(self, event: Event, warning: Warned) -> None:
        """
        Stop because of a fault.

        :param event: LIMIT, LOST or FAULT.
        :param warning: the warning to set.
        """
        self.warnings.add(warning)
        self._after_return = None
        if self.mode is Mode.LOCK:
            self.remembered = None      # an unlock must not restart the motion after a fault
        else:
            self._apply(event)

    def stream_target(self, target: Optional[float]) -> None:
        """Process a target of the stream (unit); None for a packet without one."""
        if target is not None and math.isfinite(target):
            self._stream = target
            self._without_stream = 0

    # -- the cycle -----------------------------------------------------------------------------

    def step(
        self, now: float, measurement: Optional[Measurement], switches: Switches,
        periods: int = 1,
    ) -> Cubic:
        """
        Compute the next cycle.

        :param now: begin of the cycle (s).
        :param measurement: the valid mocap value of this cycle, or None.
        :param periods: number of cycles since the last call; more than 1 after late ones.
        :returns: motion of the motor during the cycle.
        """
        before, start = self.state, self.position
        self.switches = switches
        self._watch(measurement, periods)
        if self.mode is Mode.EMERGENCY:
            self.state = State(before.position)
            self.correction.commanded(now + self._dt, before.position, False, self._dt)
            return Cubic(start, 0.0, 0.0, 0.0)
        self.state = self._advance(before)
        self._correct(measurement, switches)
        self.correction.commanded(now + self._dt, self.state.position, self.moving, self._dt)
        return between(start, before.velocity, self.position, self.state.velocity, self._dt)

    def _watch(self, measurement: Optional[Measurement], periods: int) -> None:
        """Count the cycles without the signals that the axis needs."""
        self._without_mocap += periods - (measurement is not None)
        if self.tracking and self._without_mocap >= self._loss_cycles:
            self.tracking = False
            self.fail(Event.LOST, 'mocap_lost')
        if measurement is not None:
            self._without_mocap = 0
        self._without_stream += periods
        if self.mode is Mode.STREAM and self._without_stream >= self._loss_cycles:
            self.fail(Event.LOST, 'stream_lost')

    def _advance(self, state: State) -> State:
        """Return the set point after this cycle; at a limit it is that of a stop."""
        self._cycles += 1
        wanted = {
            Mode.MANUAL: self._manual, Mode.STREAM: self._streamed, Mode.SINE: self._on_sine,
            Mode.TRAJECTORY: self._on_trajectory, Mode.REFERENCE: self._search,
        }.get(self.mode, self._halt)(state)
        if self.mode in MOVING and self._limited(state, wanted):
            wanted = self._halt(state)
        return wanted

    def _limited(self, state: State, wanted: State) -> bool:
        """Return whether a set point moves further beyond a limit, which stops the axis."""
        up = wanted.position - state.position
        if (self.switches.high and up > 0.0) or (self.switches.low and up < 0.0):
            if self.mode is Mode.REFERENCE:
                self.warnings.add('not_found')
            self.fail(Event.LIMIT, 'limit_switch')
            return True
        if self.mode is Mode.REFERENCE:
            return False    # the reference search determines the position of the soft limits
        low, high = self.settings.low, self.settings.high
        if (high is not None and up > 0.0 and wanted.position > high + _EPSILON) or (
                low is not None and up < 0.0 and wanted.position < low - _EPSILON):
            self.fail(Event.LIMIT, 'soft_limit')
            return True
        return False

    def _halt(self, state: State) -> State:
        return self._planner.to_velocity(state, 0.0) if (
            state.velocity or state.acceleration) else state

    def _manual(self, state: State) -> State:
        if self._after_return is not None and not self.moving and (
                state.position == self.target):
            event, self._after_return = self._after_return, None
            self._enter(event)
            return state
        return self._planner.to_position(state, self.target)

    def _streamed(self, state: State) -> State:
        if self._stream is None:
            return self._halt(state)
        if self._outside(self._stream):
            self.fail(Event.LIMIT, 'soft_limit')
            return self._halt(state)
        self.target = self._stream
        return self._planner.to_position(state, self.target)

    def _on_sine(self, state: State) -> State:
        rate = 2.0 * math.pi * self._sine.frequency
        angle, size = rate * self._cycles * self._dt, self._sine.amplitude
        return State(self._origin + size * math.sin(angle), size * rate * math.cos(angle),
                     -size * rate * rate * math.sin(angle))

    def _on_trajectory(self, state: State) -> State:
        assert self.run is not None
        trajectory = self.run.trajectory
        # The last cycle ends at the last point, also if that lies between two cycles.
        if not trajectory.loop and (self._cycles - 1) * self._dt >= trajectory.duration:
            self._apply(Event.END)
            return self._halt(state)
        at = trajectory.at(self._cycles * self._dt)
        return at._replace(position=self._origin + at.position)

    def _search(self, state: State) -> State:
        velocity = self.settings.reference_velocity
        self._leaving = self.switches.reference and (self._leaving or self._cycles == 1)
        if self._leaving:
            velocity = -velocity
        elif self.switches.reference:
            self._apply(Event.END)
            self._motor_zero += state.position
            self.correction.shift()
            self.target -= state.position
            self.referenced = True
            return self._halt(state._replace(position=0.0))
        if abs(state.position - self._origin) > self.settings.search_range:
            self.fail(Event.LIMIT, 'not_found')
            return self._halt(state)
        return self._planner.to_velocity(state, velocity)

    def _correct(self, measurement: Optional[Measurement], switches: Switches) -> None:
        """Apply the closed loop, but not in a lock or search, and not into a limit switch."""
        if not self.tracking or self.mode in (Mode.LOCK, Mode.REFERENCE):
            return
        before = self.correction.offset
        self.correction.correct(measurement)
        change = self.correction.offset - before
        if (switches.high and change > 0.0) or (switches.low and change < 0.0):
            self.correction.offset = before
        if self.correction.exceeded:
            self.tracking = False
            self.fail(Event.FAULT, 'correction_limit')

    # -- changing modes ------------------------------------------------------------------------

    def _apply(self, event: Event) -> str:
        mode = after(self.mode, event)
        if mode is None:
            return f'{event.value} is not possible in mode {self.mode.value}'
        if self.mode is Mode.TRAJECTORY and self.run is not None:
            self.run.ended_by = event
        self.mode = mode
        return ''

    def _refusal(self, event: Event) -> str:
        """Return the reason why a command is refused, without executing it."""
        if self.mode is Mode.EMERGENCY:
            return 'emergency stop: reset first'
        if self.mode is Mode.LOCK:
            return 'the axis is locked: unlock first'
        return '' if after(self.mode, event) is not None else (
            f'{event.value} is not possible in mode {self.mode.value}')

    def _outside(self, target: float) -> str:
        low, high = self.settings.low, self.settings.high
        if not abs(target - self.state.position) <= _LONGEST_S * self.settings.max_velocity:
            return f'the motion to {target:.6g} {self.settings.unit} takes more than 2 hours'
        if (low is not None and target < low) or (high is not None and target > high):
            return (f'{target:.6g} {self.settings.unit} is outside the soft limits '
                    f'{low} to {high}')
        return ''

    def leave_sine(self) -> str:
        """Return to x0, the position at the start of the sine, and hold."""
        if self.mode is not Mode.SINE:
            return 'the axis is not in mode sine'
        return self.go_to(self._origin)

    def _begin(self, event: Event, at_rest: bool = False) -> str:
        """
        Execute a command that starts a mode; from a sine the axis returns to x0 first.

        :param at_rest: whether the mode starts at rest.
        :returns: '' or the reason why it is refused.
        """
        reason = self._refusal(event)
        if not reason and self.mode is Mode.SINE:
            reason = self.leave_sine()
            if not reason:
                self._after_return = event
            return reason
        if not reason and at_rest and self.moving:
            reason = f'{event.value} begins at rest: stop the axis first'
        if not reason:
            self._command(event)
        return reason

    def _command(self, event: Event) -> None:
        """Execute a command of the user, which clears the warnings."""
        self.warnings.clear()
        self._after_return = None
        self._enter(event)

    def _enter(self, event: Event) -> None:
        self._apply(event)
        if event is Event.SINE:
            self._sine = self._next_sine
        self._origin = self.state.position
        self._cycles = 0
        self._without_stream = 0
        self._stream = None
        self.target = self.state.position
