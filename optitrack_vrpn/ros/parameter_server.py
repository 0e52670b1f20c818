# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The parameter table as rclpy's parameters."""

import contextlib
from pathlib import Path
from typing import Any, Mapping, Sequence

from optitrack_vrpn import parameters
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.names import printable
from optitrack_vrpn.ros.params_files import files_given, is_for, nodes_of
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor
from rclpy.node import Node
import yaml

#: Parameters that rclpy or diagnostic_updater may declare, which are none of this package's.
_OF_OTHERS = ('use_sim_time', 'start_type_description_service')
#: Names in a file that a warning lists.
_MOST_NAMES = 5
_PREFIXES_OF_OTHERS = ('qos_overrides.', 'diagnostic_updater.')


def is_of_others(name: str) -> bool:
    """Tell whether a parameter belongs to a library that the node uses."""
    return name in _OF_OTHERS or name.startswith(_PREFIXES_OF_OTHERS)


def descriptor(row: parameters.Parameter, value: Any = None) -> ParameterDescriptor:
    """
    Describe a parameter to ROS tools.

    Types are checked here, not by rclpy: it would refuse ``5`` for ``5.0`` with a message that
    no user understands.

    :param value: what the user gave at start. The range is left out where that lies beyond it:
        rclpy would end the process, where configure says what is wrong.
    """
    try:
        row.check(row.default if value is None else value)
        in_range = True
    except ConfigurationError:
        in_range = False
    unit = f' [{row.unit}]' if row.unit else ''
    when = ('read when the node starts' if row.at_start else 'can change at any time'
            if row.dynamic else 'fixed while the node is configured')
    description = ParameterDescriptor(
        name=row.name, description=f'{row.description}{unit}', dynamic_typing=True,
        additional_constraints=f'{row.type_name}; {row.allowed or "any"}; {when}')
    if in_range and row.low is not None and row.high is not None:
        if isinstance(row.default, float):
            description.floating_point_range = [
                FloatingPointRange(from_value=float(row.low), to_value=float(row.high))]
        else:
            description.integer_range = [
                IntegerRange(from_value=int(row.low), to_value=int(row.high))]
    return description


def declare(node: Node) -> list[str]:
    """
    Declare the whole table, and the settings of single bodies that the user gave.

    :returns: names that the user gave and nobody knows.
    """
    overrides = dict(getattr(node, '_parameter_overrides', {}))
    for row in parameters.TABLE:
        if node.has_parameter(row.name):    # its base class needs control.* from the start
            continue
        default = list(row.default) if isinstance(row.default, tuple) else row.default
        given = overrides.get(row.name)
        node.declare_parameter(
            row.name, default, descriptor(row, given.value if given else None))
    unknown = []
    for name, given in overrides.items():
        if node.has_parameter(name) or is_of_others(name):
            continue
        if parameters.is_body_setting(name):
            node.declare_parameter(
                name, given.value, ParameterDescriptor(dynamic_typing=True))
        else:
            unknown.append(name)
    return unknown


def warn_of_files_of_others(node: Node, argv: Sequence[str]) -> None:
    """
    Log parameter files that have nothing for this node: rcl passes over them in silence.

    :param argv: the command line.
    """
    name = node.get_fully_qualified_name()
    for file in files_given(argv):
        # Whatever is wrong with a file, rcl has said so, or could read it.
        with contextlib.suppress(OSError, ValueError, RecursionError, yaml.YAMLError):
            found = nodes_of(yaml.safe_load(Path(file).read_text(encoding='utf-8')))
            if not any(is_for(pattern, name) for pattern in found):
                shown = ', '.join(printable(each) for each in found[:_MOST_NAMES])
                if len(found) > _MOST_NAMES:
                    shown += f' and {len(found) - _MOST_NAMES} more'
                node.get_logger().warning(
                    f'{file} sets nothing here: it is for {shown or "no node at all"}, and this '
                    f'node is {name}; have one of {name} and /** in the file')


def values(node: Node) -> dict[str, Any]:
    """Read every parameter of this package, unchecked."""
    found = {row.name: node.get_parameter(row.name).value for row in parameters.TABLE}
    # rclpy's own annotation of these is wrong: they are parameters, not values.
    of_bodies: Mapping[str, Any] = node.get_parameters_by_prefix('bodies')
    for rest, parameter in of_bodies.items():
        if parameters.is_body_setting(f'bodies.{rest}'):
            found[f'bodies.{rest}'] = parameter.value
    return found


def refuse_simulated_time(node: Node) -> None:
    """
    Refuse to work on a simulated clock.

    :raises ConfigurationError: if ``use_sim_time`` is set: frames from cameras happen in real
        time, and a stamp on a simulated clock would be wrong by an unknown amount.
    """
    if node.has_parameter('use_sim_time') and node.get_parameter('use_sim_time').value:
        raise ConfigurationError(
            'use_sim_time is true, but a motion capture system runs in real time: set it to '
            'false for this node (to replay a recording, replay its topics)')


def check_change(changed: Mapping[str, Any], configured: bool) -> None:
    """
    Check parameters that somebody wants to set.

    :param configured: whether the node has left the state unconfigured.
    :raises ConfigurationError: if one is unknown, wrong, or fixed at present.
    """
    for name, value in changed.items():
        row = parameters.BY_NAME.get(name)
        if row is not None:
            if value is None:
                raise ConfigurationError(f'{name} cannot be deleted, only set')
            row.check(value)
            if row.at_start:
                raise ConfigurationError(
                    f'{name} is read when the node starts, and is fixed from then on')
            if configured and not row.dynamic:
                raise ConfigurationError(
                    f'{name} is fixed while the node is configured: clean it up first '
                    '(ros2 lifecycle set <node> cleanup)')
        elif parameters.is_body_setting(name):
            if value is not None:    # None takes the setting away
                parameters.body_settings({name: value})
            if configured and parameters.is_fixed(name):
                raise ConfigurationError(f'{name} is fixed while the node is configured')
        elif name == 'use_sim_time':
            if value and configured:
                raise ConfigurationError(
                    'use_sim_time cannot be set: motion capture runs in real time')
        elif not is_of_others(name):
            raise ConfigurationError(parameters.unknown(name))
