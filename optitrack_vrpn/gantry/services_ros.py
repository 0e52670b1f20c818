# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What users send: commands as services, trajectories as messages or files; read and check them.

Commands with a value have the type rcl_interfaces/SetParameters: the name of each parameter is
an axis (or ``all``), its value is that of the command, and each gets a result with a reason.
"""

import functools
import logging
import os
from typing import Any, Callable, Mapping, Optional, Protocol

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.gantry.axis import Axis
from optitrack_vrpn.gantry.control import Machine
from optitrack_vrpn.gantry.modes import Mode
from optitrack_vrpn.gantry.trajectory import LARGEST, make_trajectory, parse, Trajectory
from rcl_interfaces.msg import Parameter, SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import parameter_value_to_python
from trajectory_msgs.msg import JointTrajectory

_LOG = logging.getLogger(__name__)


class Act(Protocol):
    """A command to one axis."""

    def __call__(self, axis: Axis, value: Any) -> str:
        """Command an axis; return '' or the reason of a refusal."""


def _typed(words: str, kinds: tuple[type, ...], act: Callable[[Axis, Any], str]) -> Act:
    """Check the type of the value, and convert it to the last kind; a bool is not a number."""
    def checked(axis: Axis, value: Any) -> str:
        if type(value) not in kinds:
            return f'expected {words}, got {value!r}'
        if not abs(value) <= LARGEST:
            return f'expected {words} of at most {LARGEST:g}, got {value!r}'
        return act(axis, kinds[-1](value))
    return checked


_number = functools.partial(_typed, 'a number', (int, float))
_switch = functools.partial(_typed, 'true or false', (bool,))


def _pair(words: str, act: Callable[[Axis, float, float], str]) -> Act:
    def checked(axis: Axis, value: Any) -> str:
        numbers = list(value) if hasattr(value, '__iter__') and not isinstance(value, str) else []
        if len(numbers) != 2 or not all(isinstance(each, (int, float)) for each in numbers):
            return f'expected {words}, got {value!r}'
        return act(axis, float(numbers[0]), float(numbers[1]))
    return checked


def _mode(axis: Axis, value: Any) -> str:
    modes: Mapping[str, Callable[[], str]] = {
        'manual': lambda: axis.leave_sine() if axis.mode.value == 'sine' else axis.go_to(
            axis.state.position), 'stream': axis.stream, 'reference': axis.home,
        'stopping': axis.stop, 'lock': axis.lock}
    act = modes.get(value) if isinstance(value, str) else None
    if act is None:
        return f'expected one of {", ".join(modes)}, got {value!r}; sine and trajectory have ' \
               'separate services'
    return act()


#: Name of the service -> what it does to an axis with a value.
COMMANDS: Mapping[str, Act] = {
    'go_to': _number(lambda axis, value: axis.go_to(value)),
    'jog': _number(lambda axis, value: axis.jog(value)),
    'velocity': _number(lambda axis, value: axis.move(value)),
    'sine': _pair('[amplitude, frequency in Hz]', lambda axis, a, b: axis.sine(a, b)),
    'max_velocity': _number(lambda axis, value: axis.limit(velocity=value)),
    'max_acceleration': _number(lambda axis, value: axis.limit(acceleration=value)),
    'soft_limits': _pair('[low, high]', lambda axis, a, b: axis.limit(low=a, high=b)),
    'mode': _mode,
    'home': _switch(lambda axis, on: axis.home() if on else axis.stop()),
    'tracking': _switch(lambda axis, on: axis.track(on)),
    'lock': _switch(lambda axis, on: axis.lock() if on else axis.unlock()),
}


def value_of(parameter: Parameter) -> Any:
    """Return the value of a parameter in a request; None for a type that does not exist."""
    try:
        return parameter_value_to_python(parameter.value)
    except RuntimeError:
        return None


def answer(
    request: SetParameters.Request, response: SetParameters.Response, reason: str,
) -> SetParameters.Response:
    """Give the same result for every parameter of a request; '' is a success."""
    response.results = [SetParametersResult(successful=not reason, reason=reason)] * max(
        1, len(request.parameters))
    return response


def serve(
    machine: Callable[[], Optional[Machine]], name: str, request: SetParameters.Request,
    response: SetParameters.Response,
) -> SetParameters.Response:
    """
    Answer a command.

    :param machine: returns the machine while the node is active, None otherwise.
    """
    found = machine()
    for parameter in request.parameters:
        if found is None:
            reasons = ['the node is not active']
        else:
            try:
                refusals = found.command(
                    parameter.name, functools.partial(COMMANDS[name], value=value_of(parameter)))
                reasons = [f'{axis}: {reason}' for axis, reason in refusals.items() if reason]
            except Exception as error:    # A bug must not end the loop that moves the machine.
                _LOG.exception('bug: command %s', name)
                found.command('all', lambda axis: axis.stop())
                reasons = [f'internal error, all axes stop: {error!r}']
        response.results.append(SetParametersResult(
            successful=not reasons, reason='; '.join(reasons)))
    return response


#: The first point of a JointTrajectory, whose positions are absolute, may be this far from the set
#: point of the axis (unit). Chosen: ten times the least deviation of the closed loop.
_FIRST_POINT = {'linear': 0.01, 'rotary': 1.0}
#: A trajectory with a stamp further ahead (s) is refused, because it would begin later. Chosen:
#: synchronised computers differ by less.
_AHEAD_S = 0.1
#: Chosen: largest file (bytes): 300 for each of the most rows.
_MOST_BYTES = 30_000_000


def refusal(machine: Machine, paths: Mapping[str, Trajectory]) -> str:
    """Return why axes cannot follow their trajectories now, or ''."""
    for name, path in paths.items():
        axis = machine.axes[name]
        if axis.moving or axis.mode in (Mode.SINE, Mode.LOCK, Mode.EMERGENCY):
            return (f'{name}: a trajectory begins at rest, but the axis moves or is in mode '
                    f'{axis.mode.value}')
        reason = path.refusal(
            axis.limits, axis.state.position, machine.dt, axis.settings.unit)
        if reason:
            return f'{name}: {reason}'
    return ''


def start(machine: Machine, paths: Mapping[str, Trajectory]) -> str:
    """
    Start the trajectories of all given axes, or none.

    :returns: '' or the reason of a refusal.
    """
    return refusal(machine, paths) or '; '.join(filter(None, (
        machine.axes[name].follow(path) for name, path in paths.items())))


def paths_of(
    machine: Machine, message: JointTrajectory, now_s: float,
) -> dict[str, Trajectory]:
    """
    Make the trajectories of a JointTrajectory from where the axes are.

    Its positions (m, rad) are absolute. Where the first point differs from the position of the
    axis, the difference decreases linearly over the trajectory, so that the end is exact.

    :param now_s: present time on the clock of the stamp (s).
    :raises ConfigurationError: if stamp, joints or points are wrong.
    """
    names = list(message.joint_names)
    unknown = [name for name in names if name not in machine.axes]
    if not names or unknown or len(set(names)) < len(names):
        raise ConfigurationError(
            f'joints {", ".join(map(repr, unknown or names)) or "none"} are not axes, or one '
            f'is repeated; allowed: {", ".join(machine.axes)}')
    if not message.points:
        raise ConfigurationError('the trajectory has no points')
    if any(len(p.positions) != len(names) or len(p.velocities) not in (0, len(names))
           for p in message.points):
        raise ConfigurationError(
            f'each point needs {len(names)} positions, and as many velocities or none')
    times = [p.time_from_start.sec + p.time_from_start.nanosec * 1e-9 for p in message.points]
    start_s = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
    if start_s and not -times[-1] <= start_s - now_s <= _AHEAD_S:
        raise ConfigurationError(
            f'its start is {abs(start_s - now_s):.3g} s in the '
            f'{"future" if start_s > now_s else "past"}; use a stamp of 0 to begin at once')
    timed = all(len(p.velocities) for p in message.points)
    paths = {}
    for i, name in enumerate(names):
        settings = machine.axes[name].settings
        here = machine.axes[name].state.position
        positions = [p.positions[i] / settings.si_per_unit for p in message.points]
        speeds = [p.velocities[i] / settings.si_per_unit
                  for p in message.points] if timed else None
        at = list(times)
        if at[0] > 0.0:     # from where the axis is, as ros2_control does
            at, positions = [0.0, *at], [here, *positions]
            speeds = None if speeds is None else [0.0, *speeds]
        elif abs(positions[0] - here) > _FIRST_POINT[settings.kind]:
            raise ConfigurationError(
                f'{name}: the first point is {abs(positions[0] - here):.4g} '
                f'{settings.unit} from where the axis is')
        elif at[-1] > at[0]:
            apart, whole = here - positions[0], at[-1] - at[0]
            positions = [p + apart * (at[-1] - t) / whole for t, p in zip(at, positions)]
        paths[name] = make_trajectory(at, positions, speeds)
    return paths


def load_file(machine: Machine, values: Mapping[str, Any]) -> dict[str, Trajectory]:
    """
    Read the thesis's file.

    :param values: ``file``: its path; ``loop``: begin again at its end.
    :raises ConfigurationError: if a value or the file is wrong.
    """
    path, loop = values.get('file'), values.get('loop', False)
    if not isinstance(path, str) or not isinstance(loop, bool) or set(values) - {'file', 'loop'}:
        raise ConfigurationError(
            'give the parameter file (a path) and optionally loop (true or false)')
    path = os.path.expanduser(path)
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ConfigurationError(f'{path}: is not a regular file')
        if os.path.getsize(path) > _MOST_BYTES:
            raise ConfigurationError(f'{path}: is too large for a trajectory')
        with open(path, encoding='utf-8') as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{path}: cannot be read: {error}') from None
    return parse(text, list(machine.axes), path, loop)
