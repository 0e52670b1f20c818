# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Commands of the gantry as services: read and check the values, call the axes, answer.

Commands with a value have the type rcl_interfaces/SetParameters: the name of each parameter is
an axis (or ``all``), its value is that of the command, and each gets a result with a reason.
"""

import functools
from typing import Any, Callable, Mapping, Optional, Protocol

from optitrack_vrpn.gantry.axis import Axis
from optitrack_vrpn.gantry.control import Machine
from rcl_interfaces.msg import Parameter, SetParametersResult
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import parameter_value_to_python


class Act(Protocol):
    """A command to one axis."""

    def __call__(self, axis: Axis, value: Any) -> str:
        """Command an axis; return '' or the reason of a refusal."""


def _typed(words: str, kinds: tuple[type, ...], act: Callable[[Axis, Any], str]) -> Act:
    """Check the type of the value, and convert it to the last kind; a bool is not a number."""
    def checked(axis: Axis, value: Any) -> str:
        if type(value) not in kinds:
            return f'expected {words}, got {value!r}'
        return act(axis, kinds[-1](value))
    return checked


_number = functools.partial(_typed, 'a number', (int, float))
_switch = functools.partial(_typed, 'true or false', (bool,))


def _sine(axis: Axis, value: Any) -> str:
    numbers = list(value) if hasattr(value, '__iter__') and not isinstance(value, str) else []
    if len(numbers) != 2 or not all(isinstance(each, (int, float)) for each in numbers):
        return f'expected [amplitude, frequency in Hz], got {value!r}'
    return axis.sine(float(numbers[0]), float(numbers[1]))


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
    'sine': _sine,
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
            refusals = found.command(
                parameter.name, functools.partial(COMMANDS[name], value=value_of(parameter)))
            reasons = [f'{axis}: {reason}' for axis, reason in refusals.items() if reason]
        response.results.append(SetParametersResult(
            successful=not reasons, reason='; '.join(reasons)))
    return response
