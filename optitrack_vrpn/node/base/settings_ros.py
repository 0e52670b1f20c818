# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Settings dataclasses as the parameters of any rclpy node.

.. code-block:: python

    declare_settings(self, BridgeSettings)
    settings = read_settings(self, BridgeSettings)      # raises ConfigurationError
    follow_settings(self, BridgeSettings)               # checks changes
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.parameters import (
    is_foreign, Parameter, parameters_of, sift, unknown)
from optitrack_vrpn.core.settings.peers import of_other_drivers
from optitrack_vrpn.core.settings.schema import Change
from rcl_interfaces.msg import (
    FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult)
from rclpy.node import Node
from rclpy.parameter import Parameter as RosParameter

T = TypeVar('T')

#: Parameters that libraries declare in a node.
_OF_LIBRARIES = ('use_sim_time', 'start_type_description_service')
_PREFIXES_OF_LIBRARIES = ('qos_overrides.', 'diagnostic_updater.')


def is_of_library(name: str) -> bool:
    """Return whether a parameter belongs to a library that a node uses."""
    return name in _OF_LIBRARIES or name.startswith(_PREFIXES_OF_LIBRARIES)


def given_at_start(node: Node) -> dict[str, Any]:
    """Return the parameter values from the command line and from parameter files, by name."""
    return {name: given.value for name, given in node._parameter_overrides.items()}


def describe(parameter: Parameter, value: Any = None) -> ParameterDescriptor:
    """
    Describe a parameter to ROS tools.

    The type is checked here and not by rclpy, which refuses ``5`` for 5.0.

    :param value: the value given at start. If it is out of range, the descriptor has no range:
        rclpy would raise from ``declare_parameter``, but ``read_settings`` reports all errors.
    """
    try:
        parameter.check(parameter.default if value is None else value)
        in_range = True
    except ConfigurationError:
        in_range = False
    rule = parameter.rule
    unit = f' [{rule.unit}]' if rule.unit else ''
    description = ParameterDescriptor(
        name=parameter.name, description=f'{rule.doc}{unit}', dynamic_typing=True,
        read_only=rule.change is Change.START,
        additional_constraints='; '.join((
            parameter.type_name, rule.allowed or 'any', rule.change.value)))
    low, high = rule.low, rule.high
    if in_range and low is not None and high is not None:
        if parameter.hint is float:
            description.floating_point_range = [
                FloatingPointRange(from_value=float(low), to_value=float(high))]
        elif parameter.hint is int:
            description.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
    return description


def declare_settings(node: Node, cls: type[Any], prefix: str = '') -> None:
    """
    Declare every field of a settings dataclass as a parameter, unless it is declared already.

    ``read_settings`` checks the values, so that one error contains all wrong values.

    :param cls: a dataclass whose fields are declared with ``setting``; fields that hold a
        dataclass become ``section.field``.
    :param prefix: prefix of each name, as ``'arm.'`` or ``'arm'``.
    """
    given = given_at_start(node)
    for parameter in parameters_of(cls, _dotted(prefix)):
        name = parameter.name
        if node.has_parameter(name):
            continue
        value = given.get(name)
        node.declare_parameter(name, parameter.ros_default, describe(parameter, value))
        meant = parameter.as_meant(value)
        if type(meant) is str and type(value) is bool:    # other programs read it too
            node.set_parameters([RosParameter(name, value=meant)])


def _dotted(prefix: str) -> str:
    return f'{prefix}.' if prefix and not prefix.endswith('.') else prefix


def read_settings(node: Node, cls: type[T], prefix: str = '') -> T:
    """
    Read the parameters of a settings dataclass.

    Call it when the node has declared all its parameters: it refuses given names that are similar
    to a declared one. Names without similarity are logged and ignored, because nodes can share a
    parameter file.

    :returns: an instance of ``cls``.
    :raises ConfigurationError: with one line for each wrong value and each misspelt name.
    """
    prefix = _dotted(prefix)
    misspelt, foreign = unknown_parameters(node, prefix)
    warn_of_foreign(node, foreign)
    made, wrong = sift(cls, values_of(node, cls, prefix), prefix)
    if wrong or misspelt:
        raise ConfigurationError('\n'.join([*wrong, *misspelt]))
    return made


def warn_of_foreign(node: Node, names: Sequence[str]) -> None:
    """Log the parameters that a node ignores, and those that another driver has."""
    if others := of_other_drivers(names):
        node.get_logger().warning(f'ignored: {others}')
    if rest := [name for name in names if not of_other_drivers([name])]:
        node.get_logger().warning(
            'parameters ignored, because this node has no parameter with a similar name: '
            + ', '.join(rest))


def values_of(node: Node, cls: type[Any], prefix: str = '') -> dict[str, Any]:
    """Read the parameters of a settings dataclass, unchecked, by name."""
    return {parameter.name: node.get_parameter(parameter.name).value
            for parameter in parameters_of(cls, _dotted(prefix))}


def unknown_parameters(node: Node, prefix: str = '') -> tuple[list[str], list[str]]:
    """
    Find parameters that were given at start and are not declared.

    :param prefix: check only names that begin with it.
    :returns: a line for each misspelt name, and the names without similarity to the node's.
    """
    known = declared(node)
    strange = [name for name in given_at_start(node)
               if name.startswith(prefix) and name not in known and not is_of_library(name)]
    return ([unknown(name, known) for name in strange if not is_foreign(name, known)],
            [name for name in strange if is_foreign(name, known)])


def declared(node: Node) -> list[str]:
    """List the names of the node's parameters, without those of libraries."""
    return [name for name in node.get_parameters_by_prefix('') if not is_of_library(name)]


def follow_settings(
    node: Node, cls: type[Any], configured: Callable[[], bool] = lambda: True,
) -> None:
    """
    Check each change of the parameters at run time.

    The node refuses values that are wrong or fixed, with the reason. Call ``declare_settings``
    first.

    :param configured: returns whether the node is in another state than unconfigured; omitted by
        nodes without a lifecycle.
    """
    parameters = {parameter.name: parameter for parameter in parameters_of(cls)}

    def check(changes: list[Any]) -> SetParametersResult:
        given = {change.name: change.value for change in changes if change.name in parameters}
        wrong: list[str] = []
        for name, value in given.items():
            try:
                parameters[name].check_change(value, configured())
            except ConfigurationError as error:
                wrong.append(str(error))
        if given and not wrong:
            wrong = sift(cls, {**values_of(node, cls), **given})[1]
        return SetParametersResult(successful=not wrong, reason='\n'.join(wrong))

    node.add_on_set_parameters_callback(check)
