# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node's parameters: declare, read, and check each change."""

import importlib.util
import traceback
from typing import Any, Callable, Iterable, Mapping, Optional

from optitrack_vrpn.bodies import is_body_setting
from optitrack_vrpn.cli import how_to_install
from optitrack_vrpn.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.node.body_settings import check_body_setting, is_fixed
from optitrack_vrpn.node.configuration import (
    change_configuration, Configuration, make_configuration)
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.settings import parameters_of, unknown
from optitrack_vrpn.settings_ros import (
    check_changes, declare_settings, given_at_start, is_of_library, unknown_parameters, values_of)
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

PARAMETERS = parameters_of(NodeSettings)
NAMES = frozenset(parameter.name for parameter in PARAMETERS)


def check_installed(outputs: Iterable[str]) -> None:
    """
    Check that the messages of all outputs are installed, without importing them.

    :raises BackendUnavailableError: if not.
    """
    for output in outputs:
        package = KINDS[output].message.partition('/')[0]
        if importlib.util.find_spec(package) is None:
            raise BackendUnavailableError(
                f'the output {output} needs {package}, which is not installed: ' + how_to_install(
                    f'apt install ros-$ROS_DISTRO-{package.replace("_", "-")}')
                + ', or remove it from outputs')


class NodeParameters:
    """
    The parameters of ``NodeSettings`` and those of single bodies.

    :param node: declares them.
    :param configured: returns whether the node is in another state than unconfigured.
    :param apply: applies the configuration after a change while the node is configured.
    """

    def __init__(
        self, node: Node, configured: Callable[[], bool],
        apply: Callable[[Configuration], None],
    ) -> None:
        self._node = node
        self._configured = configured
        self._apply = apply
        self._present: Optional[Configuration] = None    # as read or changed last
        declare_settings(node, NodeSettings)
        for name, value in given_at_start(node).items():
            if is_body_setting(name) and not node.has_parameter(name):
                node.declare_parameter(name, value, ParameterDescriptor(dynamic_typing=True))
        self._misspelt, foreign = unknown_parameters(node)
        if foreign:
            node.get_logger().warning(
                'parameters ignored, because this node has no parameter with a similar name: '
                f'{", ".join(foreign)}')
        node.add_on_set_parameters_callback(self._on_set)

    def read(self) -> Configuration:
        """
        Read and check all parameters.

        :raises ConfigurationError: with one line for each that is unknown or not allowed.
        """
        wrong = list(self._misspelt)
        if self._node.get_parameter('use_sim_time').value:
            # Cameras expose in real time: stamps of a simulated clock would be arbitrary.
            wrong.append(
                'use_sim_time is true, but a motion capture system runs in real time: set it to '
                'false for this node (to replay a recording, replay its topics)')
        try:
            configuration = make_configuration(
                {**values_of(self._node, NodeSettings), **self._body_values()})
            check_installed(configuration.settings.outputs)
        except ConfigurationError as error:
            wrong.append(str(error))
        if wrong:
            raise ConfigurationError('\n'.join(wrong))
        self._present = configuration
        return configuration

    def log_errors(self) -> None:
        """Log at start the errors with which configure will fail."""
        try:
            self.read()
        except ConfigurationError as error:
            for line in str(error).splitlines():
                self._node.get_logger().error(line)

    def _body_values(self) -> dict[str, Any]:
        """Read the settings of single bodies, unchecked, by name."""
        # rclpy's annotation is wrong: these are parameters, not values.
        found: Mapping[str, Any] = self._node.get_parameters_by_prefix('bodies')
        return {f'bodies.{rest}': parameter.value for rest, parameter in found.items()
                if is_body_setting(f'bodies.{rest}')}

    def _on_set(self, changes: list[Parameter]) -> SetParametersResult:
        try:
            self._change({change.name: change.value for change in changes})
        except ConfigurationError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            self._node.get_logger().error(f'bug in a parameter:\n{traceback.format_exc()}')
            return SetParametersResult(successful=False, reason=f'bug: {error!r}')
        return SetParametersResult(successful=True)

    def _change(self, changed: Mapping[str, Any]) -> None:
        """
        Check changed values, and apply them if the node is configured.

        :raises ConfigurationError: if one is unknown, wrong or fixed; then none is applied.
        """
        if all(is_of_library(name) and name != 'use_sim_time' for name in changed):
            return
        configured = self._configured()
        check_changes(PARAMETERS, changed, configured)
        for name, value in changed.items():
            if is_body_setting(name):
                if value is not None:    # None removes the setting
                    check_body_setting(name, value)
                if configured and is_fixed(name):
                    raise ConfigurationError(f'{name} is fixed while the node is configured')
            elif name == 'use_sim_time':
                if value and configured:
                    raise ConfigurationError(
                        'use_sim_time cannot be set: motion capture runs in real time')
            elif name not in NAMES and not is_of_library(name):
                raise ConfigurationError(unknown(name, NAMES))
        if not configured:
            return
        present = self._present
        if present is None:    # set by another thread during the transition
            raise ConfigurationError('the node is changing its state; set the parameter again')
        of_bodies = None
        if any(map(is_body_setting, changed)):
            of_bodies = {name: value for name, value in {
                **self._body_values(), **changed}.items() if value is not None}
        configuration = change_configuration(present, changed, of_bodies)
        outputs = configuration.settings.outputs
        if outputs != present.settings.outputs:
            check_installed(outputs)
            needs = {KINDS[name].needs for name in present.settings.outputs}
            for name in outputs:
                if KINDS[name].needs not in {'', *needs}:
                    # The client decides at its start what it reads.
                    raise ConfigurationError(
                        f'{name} cannot be added to outputs while the node is configured: clean '
                        'it up first')
        self._apply(configuration)
        self._present = configuration
