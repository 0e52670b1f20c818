# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One axis: mode, set point of the next cycle, closed loop. No IO; time is an argument.

Each mode proposes a state; ``setpoints.step`` keeps the limits. Profiles count cycles and not the
clock: a late cycle delays the motion and never makes it jump.
"""

from dataclasses import dataclass
import functools
import math
from typing import Callable, Optional

from optitrack_vrpn.guests.machine.correction import Correction, Measurement
from optitrack_vrpn.guests.machine.gantry_settings import AxisSettings
from optitrack_vrpn.guests.machine.setpoints import (
    AxisMotion, between, Cubic, halt_position, Planner, step, Switches)
from optitrack_vrpn.guests.machine.states import Fault, Mode, ModeEvent, MOVING, TRANSITIONS
from optitrack_vrpn.guests.machine.trajectory import LARGEST, Path, refusal, Sine


@dataclass
class AxisRun:
    """
    A path that an axis follows.

    :ivar origin: position at its start (unit).
    :ivar cycles: cycles since then.
    :ivar ended_by: event that ended it, END at its last point; None while it continues.
    """

    path: Path
    origin: float
    cycles: int = 0
    ended_by: 'Mode | ModeEvent | None' = None

    @property
    def end(self) -> float:
        """Return the final position (unit)."""
        return self.origin + self.path.end


class Axis:
    """
    Control one axis.

    :param settings: settings of the axis.
    :param dt: duration of a cycle (s).
    :param loss_cycles: number of cycles without a signal after which the axis stops.
    :ivar limits: present limits of its motions.
    :ivar mode: its mode.
    :ivar state: set point without correction: position, velocity, acceleration.
    :ivar target: target position in the modes manual and stream.
    :ivar target_velocity: in the mode velocity.
    :ivar tracking: whether the closed loop is on.
    :ivar referenced: whether the reference search has found the switch.
    :ivar run: the last sine or trajectory.
    :ivar measured: mocap value of the last cycle (unit); None without a valid one.
    :ivar warnings: the active warnings; they stay until the next command, ``mocap_lost`` until the
        closed loop is switched on or off.
    :ivar blind: whether mocap was lost in closed loop, and is not back.
    """

    def __init__(self, settings: AxisSettings, dt: float, loss_cycles: int = 100) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.mode = Mode.STOPPING
        self.state = AxisMotion(0.0)
        self.target = self.target_velocity = 0.0
        self.tracking = False
        self.referenced = False
        self.measured: Optional[float] = None
        self.warnings: set[Fault] = set()
        self.correction = Correction(
            settings.correction, 360.0 if settings.kind == 'rotary' else math.inf)
        self.remembered: Optional[Mode] = None
        self.switches = Switches()
        self.run: Optional[AxisRun] = None
        self._dt = dt
        self._loss_cycles = loss_cycles
        self._planner = Planner(dt, self.limits)
        self._motor_zero = 0.0
        self._origin = 0.0          # of the reference search
        self._leaving: Optional[bool] = None
        self._again: Callable[[], str] = self.stop      # repeats the last command
        self._pending: Optional[Callable[[], str]] = None   # command after the return of a sine
        self._streamed = False      # whether the stream has given a target
        self._without_stream = 0
        self._without_mocap = 0
        self.blind = False

    # -- state for the user --------------------------------------------------------------------

    @property
    def position(self) -> float:
        """Return the corrected set point in the motor's count, which no reference shifts."""
        return self.state.position + self.correction.offset + self._motor_zero

    @property
    def moving(self) -> bool:
        """Return whether the set point moves."""
        return self.state.velocity != 0.0 or self.state.acceleration != 0.0

    @property
    def deviation(self) -> float:
        """Return measured minus commanded position (unit); 0 in open loop or without an error."""
        return (self.correction.error or 0.0) if self.tracking else 0.0

    # -- commands: each returns '', or the reason why it is refused ----------------------------

    def go_to(self, target: float) -> str:
        """Move to a position (unit)."""
        reason = self._held() or self._blind() or self._outside(target)
        if not reason:
            self._start(Mode.MANUAL, functools.partial(self.go_to, target))
            self.target = target
        return reason

    def jog(self, distance: float) -> str:
        """Move by a distance (unit), from the manual target or from the present position."""
        base = self.target if self.mode is Mode.MANUAL else self.state.position
        return self.go_to(base + distance)

    def move(self, velocity: float) -> str:
        """Move at a velocity (unit/s), until another command or a limit."""
        if not abs(velocity) <= self.limits.velocity:
            return (f'{velocity:.6g} {self.settings.unit}/s is too fast: at most '
                    f'{self.limits.velocity:.6g}')
        reason = self._blind() or self._begin(
            Mode.VELOCITY, functools.partial(self.move, velocity))
        if self.mode is Mode.VELOCITY:
            self.target_velocity = velocity
        return reason

    def stream(self) -> str:
        """Follow the targets of the stream."""
        return self._blind() or self._begin(Mode.STREAM, self.stream)

    def sine(self, amplitude: float, frequency: float) -> str:
        """Follow a sine around the position at its start; see ``Sine``."""
        if not (abs(amplitude) <= LARGEST and 1e-4 <= frequency <= LARGEST):
            return ('sine needs an amplitude and a frequency of at least 0.0001 Hz, got '
                    f'{amplitude}, {frequency}')
        return self.follow(Sine(amplitude, frequency))

    def follow(self, path: Path) -> str:
        """Follow a sine or trajectory exactly, relative to the position at its start."""
        reason = self.refuses(path) or self._begin(
            _mode_of(path), functools.partial(self.follow, path))
        if not reason and self._pending is None:
            self.run = AxisRun(path, self.state.position)
        return reason

    def refuses(self, path: Path) -> str:
        """Return why the axis does not begin a path now; '' if it does."""
        mode, origin, returns = _mode_of(path), self.state.position, False
        if self.mode is Mode.SINE and mode is Mode.SINE and self.run is not None:
            origin, returns = self.run.origin, True     # from where the next sine begins
        reason = self._held() or self._blind()
        if not reason and not returns and (self.moving or self.mode is Mode.SINE):
            reason = f'{mode.value} begins at rest: stop the axis first'
        return reason or refusal(path, self.limits, origin, self._dt, self.settings.unit)

    def home(self) -> str:
        """
        Search the reference switch slowly; its position becomes zero.

        The search always meets the same edge: an axis on the switch first leaves it backwards.
        """
        speed = abs(self.settings.reference_velocity)
        if speed == 0.0:
            return 'the axis has no reference switch (reference_velocity is 0)'
        if speed > self.limits.velocity:
            return f'the reference search needs {speed:.6g} {self.settings.unit}/s: raise the ' \
                   'limit of the velocity'
        return self._begin(Mode.REFERENCE, self.home)

    def stop(self) -> str:
        """Decelerate, then hold."""
        self._pending = None
        return self._apply(ModeEvent.STOP)

    def lock(self) -> str:
        """Stop, and store the mode."""
        if self.mode is Mode.LOCK:
            return ''
        before = self.mode
        reason = self._apply(ModeEvent.LOCK)
        if not reason:
            self.remembered = before if before in MOVING else None
            self._pending = None
        return reason

    def unlock(self) -> str:
        """Return to the mode before the lock, as if it were commanded again."""
        if self.mode is Mode.LOCK and self.moving:
            return 'the axis is still decelerating'
        remembered = self.remembered
        reason = self._apply(ModeEvent.UNLOCK)
        if not reason and remembered is not None:
            reason = self._again()
            if reason:
                self._apply(ModeEvent.LOCK)
                self.remembered = None
                return (f'{remembered.value} is not possible any more ({reason}); unlock again '
                        'to hold')
        self.remembered = None
        return reason

    def limit(self, **changes: float) -> str:
        """Change limits (velocity, acceleration, low, high), within those of the description."""
        most, new, unit = self.settings.limits, self.limits._replace(**changes), self.settings.unit
        least = self.settings.correction.max_step / self._dt
        moved = self.moving or new[3:] != self.limits[3:]
        if self.mode in (Mode.SINE, Mode.TRAJECTORY, Mode.REFERENCE) or self._pending:
            return f'the axis is in mode {self.mode.value}: stop it first'
        if not max(least, 1e-6) <= new.velocity <= most.velocity:
            return f'the velocity must be {max(least, 1e-6):.4g} to {most.velocity:.6g} {unit}/s'
        if not 1e-6 <= new.acceleration <= most.acceleration:
            return f'the acceleration must be above 0 and up to {most.acceleration:.6g} {unit}/s^2'
        if not most.low <= new.low < new.high <= most.high:
            return f'the soft limits must rise, within {most.low:.6g} to {most.high:.6g} {unit}'
        end = halt_position(self.state, new.acceleration)
        if moved and not new.low <= end <= new.high:
            return (f'the axis would stop at {end:.6g} {unit}, outside {new.low:.6g} to '
                    f'{new.high:.6g}: move it first')
        self.limits = new
        self._planner.use(new)
        return ''

    def track(self, on: bool) -> str:
        """Switch the closed loop on or off."""
        if on and self.mode is Mode.EMERGENCY:
            return 'emergency stop: reset first'
        if on and not self.tracking:
            self.correction.enter()
            self._without_mocap = 0
            self.warnings -= {'correction_limit'}
        self.warnings -= {'mocap_lost'}
        self.blind = False      # the user says so, also for the open loop
        self.tracking = on
        return ''

    def emergency(self) -> None:
        """Halt at once, without power; only ``reset`` ends this state."""
        if self.mode is not Mode.EMERGENCY:
            self._apply(ModeEvent.EMERGENCY)
            self.remembered = None
            self._pending = None
            self.tracking = False
            self.referenced = False
        self.state = AxisMotion(self.state.position)

    def reset(self) -> str:
        """End an emergency; the axis holds."""
        return self._apply(ModeEvent.RESET)

    def fail(self, fault: Fault) -> None:
        """Stop because of a fault, which becomes a warning."""
        self.warnings.add(fault)
        self._pending = None
        if self.mode is Mode.LOCK:
            self.remembered = None      # an unlock must not restart the motion after a fault
        else:
            self._apply(ModeEvent.FAULT)

    def lose(self, halted: bool) -> None:
        """
        Stop because the machine is lost: where its motors are is unknown.

        :param halted: whether the motors stand already.
        """
        self.fail('machine_lost')
        self.tracking = self.referenced = False
        if halted:
            self.state = AxisMotion(self.state.position)

    def stream_target(self, target: float) -> None:
        """Process a target of the stream (unit)."""
        if self.mode is Mode.STREAM and math.isfinite(target):
            self.target = target
            self._streamed = True
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
        start, velocity = self.position, self.state.velocity
        self.switches = switches
        self.measured = None if measurement is None else measurement.value
        self._watch(measurement, periods)
        if self.mode is Mode.EMERGENCY:
            self.correction.commanded(now + self._dt, self.state.position, False, self._dt)
            return Cubic(start, 0.0, 0.0, 0.0)
        self._advance()
        self._correct(measurement, switches)
        self.correction.commanded(now + self._dt, self.state.position, self.moving, self._dt)
        return between(start, velocity, self.position, self.state.velocity, self._dt)

    def _watch(self, measurement: Optional[Measurement], periods: int) -> None:
        """Count the cycles without the signals that the axis needs."""
        self._without_mocap += periods - (measurement is not None)
        if self.tracking and self._without_mocap >= self._loss_cycles:
            self.tracking = False
            self.fail('mocap_lost')
            self.blind = self.settings.correction.require_mocap
        if measurement is not None:
            self._without_mocap = 0
            self.blind = False
        self._without_stream += periods
        if self.mode is Mode.STREAM and self._without_stream >= self._loss_cycles:
            self.fail('stream_lost')

    def _advance(self) -> None:
        """Advance the set point by a cycle, within the limits."""
        wanted = {
            Mode.MANUAL: self._to_target, Mode.STREAM: self._to_target,
            Mode.VELOCITY: self._at_velocity, Mode.SINE: self._on_path,
            Mode.TRAJECTORY: self._on_path, Mode.REFERENCE: self._search,
        }.get(self.mode, self._halt)()
        limits = self.limits
        if self.mode is Mode.REFERENCE:     # which determines where the soft limits are
            limits = limits._replace(low=-math.inf, high=math.inf)
        self.state, reason = step(self.state, wanted, limits, self._dt, self.switches)
        if reason == 'limit_switch' and self.mode is Mode.REFERENCE:
            self.warnings.add('not_found')
        # A stop, or the way to a target within the soft limits, only brakes harder for a cycle.
        if reason and (reason != 'soft_limit' or self.mode in (
                Mode.VELOCITY, Mode.SINE, Mode.TRAJECTORY)):
            self.fail(reason)

    def _halt(self) -> Optional[AxisMotion]:
        return self._planner.to_velocity(self.state, 0.0) if self.moving else self.state

    def _to_target(self) -> Optional[AxisMotion]:
        if self.mode is Mode.STREAM and not self._streamed:
            return self._halt()
        if self._outside(self.target):
            self.fail('soft_limit')
            return self._halt()
        if self._pending is not None and self.state == AxisMotion(self.target):
            again, self._pending = self._pending, None
            if again():
                self.fail('motion_limit')
            return self.state
        return self._planner.to_position(self.state, self.target)

    def _at_velocity(self) -> Optional[AxisMotion]:
        most = self.limits.velocity
        return self._planner.to_velocity(self.state, min(max(self.target_velocity, -most), most))

    def _on_path(self) -> Optional[AxisMotion]:
        run = self.run
        assert run is not None
        # The last cycle ends at the last point, also if that lies between two cycles.
        if run.cycles * self._dt >= run.path.duration:
            self._apply(ModeEvent.END)
            return self._halt()
        run.cycles += 1
        at = run.path.at(run.cycles * self._dt)
        return at._replace(position=run.origin + at.position)

    def _search(self) -> Optional[AxisMotion]:
        velocity = self.settings.reference_velocity
        self._leaving = self.switches.reference and self._leaving is not False
        if self._leaving:
            velocity = -velocity
        elif self.switches.reference:
            self._apply(ModeEvent.END)
            self._motor_zero += self.state.position
            self.correction.shift()
            self.state = self.state._replace(position=0.0)
            self.target = 0.0
            self.referenced = True
            return self._halt()
        if abs(self.state.position - self._origin) > self.settings.search_range:
            self.fail('not_found')
            return self._halt()
        return self._planner.to_velocity(self.state, velocity)

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
            self.fail('correction_limit')

    # -- changing modes ------------------------------------------------------------------------

    def _apply(self, event: 'Mode | ModeEvent') -> str:
        mode = TRANSITIONS.get((self.mode, event))
        if mode is None:
            return f'{event.value} is not possible in mode {self.mode.value}'
        if self.mode in (Mode.SINE, Mode.TRAJECTORY) and self.run is not None:
            self.run.ended_by = event
        self.mode = mode
        return ''

    def _held(self) -> str:
        """Return why no motion can begin, or ''."""
        return {Mode.EMERGENCY: 'emergency stop: reset first',
                Mode.LOCK: 'the axis is locked: unlock first'}.get(self.mode, '')

    def _blind(self) -> str:
        """Return why no motion can begin without mocap, or ''; a reference search can."""
        return '' if not self.blind else (
            'mocap was lost in closed loop and is not back: bring the body into view, or switch '
            'tracking off to move in open loop')

    def _outside(self, target: float) -> str:
        low, high, unit = self.limits.low, self.limits.high, self.settings.unit
        # Ruckig refuses motions above 7600 s.
        if not abs(target - self.state.position) <= 7200.0 * self.limits.velocity:
            return f'the motion to {target:.6g} {unit} takes more than 2 hours'
        if not low <= target <= high:
            return f'{target:.6g} {unit} is outside the soft limits {low:.6g} to {high:.6g}'
        return ''

    def leave_sine(self) -> str:
        """Return to the position at the start of the sine, and hold."""
        assert self.mode is Mode.SINE and self.run is not None
        return self.go_to(self.run.origin)

    def _begin(self, mode: Mode, again: Callable[[], str]) -> str:
        """Execute a command that starts a mode, from a sine after the return to its middle."""
        returns = self.mode is Mode.SINE
        reason = self._held() or (self.leave_sine() if returns else '')
        if not reason and returns:
            self._pending = again
        elif not reason:
            self._start(mode, again)
        return reason

    def _start(self, mode: Mode, again: Callable[[], str]) -> None:
        """Execute a command of the user, which clears the warnings."""
        self.warnings &= {'mocap_lost'}     # the loop is still open
        self._pending = None
        self._apply(mode)
        self._again = again
        self._origin = self.target = self.state.position
        self._leaving = None
        self._without_stream = 0
        self._streamed = False


def _mode_of(path: Path) -> Mode:
    return Mode.SINE if isinstance(path, Sine) else Mode.TRAJECTORY
