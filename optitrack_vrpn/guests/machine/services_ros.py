# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What users send: commands as services, trajectories as messages or files; and their sender.

Commands with a value have the type rcl_interfaces/SetParameters: the name of each parameter is
an axis (or ``all``), its value is that of the command, and each gets a result with a reason.
"""

from dataclasses import dataclass
import functools
import logging
from pathlib import Path
import time
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from diagnostic_msgs.msg import DiagnosticArray
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.guests.machine.axis import Axis
from optitrack_vrpn.guests.machine.machine import Machine
from optitrack_vrpn.guests.machine.states import Mode
from optitrack_vrpn.guests.machine.trajectory import (
    AxisTrajectory, check_axes, LARGEST, make_trajectory, parse)
from optitrack_vrpn.node.base.tool_node import BackgroundNode, checked_topic
from rcl_interfaces.msg import SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter, parameter_value_to_python
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class MachineCommand:
    """
    A command to an axis; call it with the axis and the value.

    :ivar act: the method of the axis; returns '' or the reason of a refusal.
    :ivar words: the value, for an error message.
    :ivar kinds: types of the value, or of each of several; it is converted to the last one.
    :ivar several: number of values; a bool is no number.
    """

    act: Callable[..., str]
    words: str = f'a number of at most {LARGEST:g}'
    kinds: tuple[type, ...] = (int, float)
    several: int = 1

    def __call__(self, axis: Axis, value: Any) -> str:
        values = list(value) if self.several > 1 and hasattr(value, '__iter__') else [value]
        if len(values) != self.several or not all(
                type(each) in self.kinds and abs(each) <= LARGEST for each in values):
            return f'expected {self.words}, got {value!r}'
        return self.act(axis, *map(self.kinds[-1], values))


_pair = functools.partial(MachineCommand, several=2)
_switch = functools.partial(MachineCommand, words='true or false', kinds=(bool,))
_MODES: Mapping[Any, Callable[[Axis], str]] = {
    'manual': lambda axis: axis.leave_sine() if axis.mode is Mode.SINE else axis.go_to(
        axis.state.position),
    'stream': Axis.stream, 'reference': Axis.home, 'stopping': Axis.stop, 'lock': Axis.lock}


def _mode(axis: Axis, value: Any) -> str:
    if not isinstance(value, str) or value not in _MODES:
        return f'expected one of {", ".join(_MODES)}, got {value!r}; sine and trajectory have ' \
               'separate services'
    return _MODES[value](axis)


#: Name of the service -> what it does to an axis with a value.
COMMANDS: dict[str, Callable[..., str]] = {
    'go_to': MachineCommand(Axis.go_to),
    'jog': MachineCommand(Axis.jog),
    'velocity': MachineCommand(Axis.move),
    'sine': _pair(Axis.sine, '[amplitude, frequency in Hz]'),
    'max_velocity': MachineCommand(lambda axis, value: axis.limit(velocity=value)),
    'max_acceleration': MachineCommand(lambda axis, value: axis.limit(acceleration=value)),
    'soft_limits': _pair(lambda axis, low, high: axis.limit(low=low, high=high), '[low, high]'),
    'mode': _mode,
    'home': _switch(lambda axis, on: axis.home() if on else axis.stop()),
    'tracking': _switch(Axis.track),
    'lock': _switch(lambda axis, on: axis.lock() if on else axis.unlock()),
}


def value_of(parameter: Any) -> Any:
    """Return the value of an rcl_interfaces Parameter; None for a type that does not exist."""
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
    """Answer a command; ``machine`` returns None while the node is not active."""
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


#: Deviations (unit) that end a trajectory: of its first point from the axis, and, in goals without
#: a tolerance, of the axis from its last point. Chosen: ten times the thesis's dead bands.
FAR = {'linear': 0.01, 'rotary': 1.0}


def refusal(machine: Machine, paths: Mapping[str, AxisTrajectory]) -> str:
    """Return why axes cannot follow their trajectories now, or ''."""
    return '; '.join(f'{name}: {reason}' for name, path in paths.items()
                     if (reason := machine.axes[name].refuses(path)))


def start(machine: Machine, paths: Mapping[str, AxisTrajectory]) -> str:
    """Start the trajectories of all given axes, or none; return '' or the reason."""
    return refusal(machine, paths) or ''.join(
        machine.axes[name].follow(path) for name, path in paths.items())


def paths_of(
    machine: Machine, message: JointTrajectory, now_s: float,
) -> dict[str, AxisTrajectory]:
    """
    Make the trajectories of a JointTrajectory from where the axes are.

    Its positions (m, rad) are absolute. Where the first point differs from the position of the
    axis, the difference decreases linearly over the trajectory, so that the end is exact.

    :param now_s: present time on the clock of the stamp (s).
    :raises ConfigurationError: if stamp, joints or points are wrong.
    """
    names = list(message.joint_names)
    check_axes(names, machine.axes, 'joints')
    if not message.points:
        raise ConfigurationError('the trajectory has no points')
    if any(len(p.positions) != len(names) or len(p.velocities) not in (0, len(names))
           for p in message.points):
        raise ConfigurationError(
            f'each point needs {len(names)} positions, and as many velocities or none')
    times = [p.time_from_start.sec + p.time_from_start.nanosec * 1e-9 for p in message.points]
    start_s = message.header.stamp.sec + message.header.stamp.nanosec * 1e-9
    # Synchronised computers differ by less than 0.1 s; a later start would be a wait.
    if start_s and not -times[-1] <= start_s - now_s <= 0.1:
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
        elif abs(positions[0] - here) > FAR[settings.kind]:
            raise ConfigurationError(
                f'{name}: the first point is {abs(positions[0] - here):.4g} '
                f'{settings.unit} from where the axis is')
        elif at[-1] > at[0]:
            apart, whole = here - positions[0], at[-1] - at[0]
            positions = [p + apart * (at[-1] - t) / whole for t, p in zip(at, positions)]
        paths[name] = make_trajectory(at, positions, speeds)
    return paths


def load_file(machine: Machine, values: Mapping[str, Any]) -> dict[str, AxisTrajectory]:
    """
    Read the thesis's file.

    :param values: ``file``: its path; ``loop``: begin again at its end.
    :raises ConfigurationError: if a value or the file is wrong.
    """
    name, loop = values.get('file'), values.get('loop', False)
    if not isinstance(name, str) or not isinstance(loop, bool) or set(values) - {'file', 'loop'}:
        raise ConfigurationError(
            'give the parameter file (a path) and optionally loop (true or false)')
    try:
        path = Path(name).expanduser()
        if path.exists() and not path.is_file():
            raise OSError('it is not a regular file')
        if path.stat().st_size > 30_000_000:    # 300 bytes for each of the most rows
            raise OSError('it is too large for a trajectory')
        text = path.read_text(encoding='utf-8')
    except (OSError, RuntimeError, ValueError) as error:    # no home; null bytes, no UTF-8
        raise ConfigurationError(f'{name}: cannot be read: {error}') from None
    return parse(text, list(machine.axes), name, loop)


Value = Union[bool, float, str, Sequence[float]]


class GantryClient(BackgroundNode):
    """
    A small node on a thread; use it as a context manager.

    :param node: full name of the controller.
    :param ros_args: arguments for ROS.
    :raises ConfigurationError: if ROS does not accept them.
    """

    def __init__(self, node: str = '/gantry_controller', ros_args: Sequence[str] = ()) -> None:
        self._name = '/' + node.strip('/')
        axes = checked_topic(f'{self._name}/axes')
        super().__init__('gantry_client', ros_args)
        self._axes: Optional[DiagnosticArray] = None
        self._seen_s = 0.0
        self.node.create_subscription(DiagnosticArray, axes, self._take, 10)

    def _take(self, message: DiagnosticArray) -> None:
        self._axes, self._seen_s = message, time.monotonic()

    def axes(self) -> tuple[list[tuple[str, str, Mapping[str, str]]], float]:
        """Return name, mode and cells of each axis, and their age (s)."""
        if self._axes is None:
            return [], float('inf')
        return [(status.name, status.message, StatusReport.of(status).values)
                for status in self._axes.status], time.monotonic() - self._seen_s

    def command(self, service: str, values: Mapping[str, Value]) -> list[str]:
        """Call a service with values; return the refusals."""
        request = SetParameters.Request(parameters=[
            Parameter(name, value=value).to_parameter_msg() for name, value in values.items()])
        results = self._ask(SetParameters, service, request).results
        return [result.reason or 'refused' for result in results if not result.successful]

    def trigger(self, service: str) -> str:
        """Call stop, emergency_stop or reset; return '' or the reason of the refusal."""
        response = self._ask(Trigger, service, Trigger.Request())
        return '' if response.success else response.message or 'refused'

    def _ask(self, kind: Any, service: str, request: Any) -> Any:
        return self.call(kind, f'{self._name}/{service}', request, 5.0)    # s; chosen
