# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node's configuration: declare and read its parameters, check each change, combine them."""

from dataclasses import dataclass, replace
import importlib.util
import traceback
from typing import Any, Callable, Iterable, Mapping, Optional

from optitrack_vrpn.cli.command_io import how_to_install
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.core.names import is_fixed, NameTemplates
from optitrack_vrpn.core.rotation import world_from_mocap
from optitrack_vrpn.core.settings.parameters import changed, parameters_of, sift, unknown
from optitrack_vrpn.drivers.table import check_server, lacking, SourceOptions
from optitrack_vrpn.node.base.settings_ros import (
    check_changes, declare_settings, given_at_start, is_of_library, unknown_parameters, values_of,
    warn_of_foreign)
from optitrack_vrpn.node.body_settings import (
    BODY_ESTIMATES, BODY_THRESHOLDS, check_body_setting, doubtful, is_fixed_setting, RATES,
    sift_body_settings, titles_of)
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import Content, DEFAULT_OUTPUTS, KINDS
from optitrack_vrpn.stream.bodies.settings import is_body_setting
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

_NED = frozenset(kind.name for kind in KINDS.values() if kind.world == 'ned')


@dataclass(frozen=True)
class Configuration:
    """
    The complete configuration of the node.

    :ivar settings: all settings, as given.
    :ivar bodies: settings of single bodies, by body name or pattern.
    :ivar source: what the source must know of the settings of others.
    :ivar pipeline: the stages between protocol and publishers.
    """

    settings: NodeSettings
    bodies: Mapping[str, Mapping[str, Any]]
    source: SourceOptions
    pipeline: PipelineConfig


def make_configuration(values: Mapping[str, Any]) -> Configuration:
    """
    Check all parameters and build the configuration of each part.

    :param values: parameter values by name, as given by the user.
    :raises ConfigurationError: one line for each wrong value, with the allowed values.
    """
    settings, wrong = sift(NodeSettings, values)
    bodies, wrong_bodies = sift_body_settings(values)
    return _combine(settings, bodies, wrong + wrong_bodies)


def change_configuration(
    present: Configuration, values: Mapping[str, Any], of_bodies: Optional[Mapping[str, Any]],
) -> Configuration:
    """
    Change a configuration; only what depends on the new values is checked again.

    :param values: new values by name.
    :param of_bodies: if a setting of a single body changes, all such settings by name, changed;
        otherwise None.
    :raises ConfigurationError: one line for each wrong value.
    """
    settings, wrong = changed(present.settings, values)
    if of_bodies is None:
        return _combine(settings, present.bodies, wrong)
    bodies, wrong_bodies = sift_body_settings(of_bodies)
    return _combine(settings, bodies, wrong + wrong_bodies)


def _combine(
    settings: NodeSettings, bodies: Mapping[str, Mapping[str, Any]], wrong: list[str],
) -> Configuration:
    """Check what concerns several settings, and build the configuration of each part."""
    if settings.axes.axes == 'raw' and settings.outputs == DEFAULT_OUTPUTS:
        # North and down are not known. NED outputs that the user names are refused below.
        settings = replace(settings, outputs=tuple(
            name for name in DEFAULT_OUTPUTS if name not in _NED))
    try:
        titles = titles_of(bodies)
    except ConfigurationError as error:
        wrong.append(str(error))
    try:
        check_server(settings.protocol, settings.client.server)
    except ConfigurationError as error:
        wrong.append(str(error))
    needs = {name: KINDS[name].needs for name in settings.outputs if KINDS[name].needs}
    for name, need in needs.items():
        if able := lacking(settings.protocol, need):
            wrong.append(f'outputs contains {name}, which protocol {settings.protocol} does not '
                         f'send: set protocol to {able}, or remove {name} from outputs')
    wrong += _fixed_names(settings)
    if settings.axes.axes == 'raw' and (ned := _NED.intersection(settings.outputs)):
        wrong.append(
            f'axes is raw, so that north and down are not known: remove {", ".join(sorted(ned))} '
            'from outputs')
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    if (body_rates := _pick(bodies, RATES)) != settings.body_rates:
        settings = replace(settings, body_rates=body_rates)
    frames = settings.frames
    return Configuration(
        settings=settings, bodies=bodies, source=SourceOptions(
            _stated_up(settings), frozenset(needs.values())),
        pipeline=PipelineConfig(
            axes=settings.axes, stamps=settings.stamps, body=settings.validation,
            overrides=_pick(bodies, BODY_THRESHOLDS), selection=settings.bodies,
            estimate=_estimate(settings),
            estimates=_pick(bodies, BODY_ESTIMATES), titles=titles,
            server_motion=settings.velocity_source == 'server',
            templates=NameTemplates(
                settings.topics.templates(), {'body': frames.body, 'body_ned': frames.body_ned}),
            reserved_frames=tuple(filter(None, (
                frames.world, frames.world_ned, frames.parent))),
            max_age_s=settings.max_age_s, keep_up=settings.load_shedding))


def _stated_up(settings: NodeSettings) -> str:
    """Return the up axis to compare with Motive's; raw if poses are published as they are."""
    return settings.axes.up_axis if settings.axes.axes == 'enu' else settings.axes.axes


def _fixed_names(settings: NodeSettings) -> list[str]:
    """Check that names without ``{body}`` serve one body: it must be selected by its name."""
    allow = settings.bodies.allow
    if len(allow) == 1 and not set(allow[0]).intersection('*?['):
        return []
    topics, frames = settings.topics, settings.frames
    templates = topics.templates()
    return [f"{name} is {template!r} without '{{body}}', which serves one body: select it by its "
            'name in bodies.allow'
            for name, template in (
                ('topics.pose', topics.pose), ('topics.pose_ned', topics.pose_ned),
                ('topics.other', topics.other), ('topics.odom', templates['odom']),
                ('topics.pose_2d', templates['pose_2d']), ('frames.body', frames.body),
                ('frames.body_ned', frames.body_ned)) if is_fixed(template)]


def _pick(
    bodies: Mapping[str, Mapping[str, Any]], wanted: tuple[str, ...],
) -> dict[str, dict[str, Any]]:
    """Return some settings of single bodies, without bodies that have none of them."""
    picked = {
        body: {key: value for key, value in settings.items() if key in wanted}
        for body, settings in bodies.items()}
    return {body: settings for body, settings in picked.items() if settings}


def _estimate(settings: NodeSettings) -> EstimateConfig:
    """Configure the estimates; only those that an output needs are enabled."""
    contents = settings.contents()
    motion = max(contents, default=Content.NOTHING) >= Content.ODOMETRY
    return EstimateConfig(
        world_from_mocap=world_from_mocap(
            settings.world_offset.origin, settings.world_offset.yaw),
        lowpass=settings.lowpass, motion=settings.motion,
        learn_noise=settings.learn_noise and (
            motion or Content.POSE_COVARIANCE in contents),
        estimate_motion=motion)


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
    :param ready: returns whether the node can apply a change now.
    :param apply: applies the configuration after a change while the node is configured.
    """

    def __init__(
        self, node: Node, configured: Callable[[], bool], ready: Callable[[], bool],
        apply: Callable[[Configuration], None],
    ) -> None:
        self._node = node
        self._configured = configured
        self._ready = ready
        self._apply = apply
        self._present: Optional[Configuration] = None    # as read or changed last
        declare_settings(node, NodeSettings)
        for name, value in given_at_start(node).items():
            if is_body_setting(name) and not node.has_parameter(name):
                node.declare_parameter(name, value, ParameterDescriptor(dynamic_typing=True))
        self._misspelt, foreign = unknown_parameters(node)
        warn_of_foreign(node, foreign)
        self._accepted: Optional[Configuration] = None    # checked, not applied yet
        self._before: list[Parameter] = []    # the values that it replaces
        node.add_on_set_parameters_callback(self._on_set)
        # Another callback may refuse what this one has checked. Humble has no such callback.
        self._applied_later = hasattr(node, 'add_post_set_parameters_callback')
        if self._applied_later:
            node.add_post_set_parameters_callback(self._on_set_done)

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
        for line in doubtful(configuration.bodies):
            self._node.get_logger().warning(line)
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
        """Check a change; nothing is applied, because another callback may refuse it."""
        try:
            self._before = [
                self._node.get_parameter(change.name) if self._node.has_parameter(change.name)
                else Parameter(change.name) for change in changes]
            self._accepted = self._checked({change.name: change.value for change in changes})
            if not self._applied_later:
                self._on_set_done(changes)
        except ConfigurationError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            self._node.get_logger().error(f'bug in a parameter:\n{traceback.format_exc()}')
            return SetParametersResult(successful=False, reason=f'bug: {error!r}')
        return SetParametersResult(successful=True)

    def _on_set_done(self, changes: list[Parameter]) -> None:
        """Apply the change that was checked last; where that fails, the old values return."""
        configuration, self._accepted = self._accepted, None
        if configuration is None:
            return
        try:
            self._apply(configuration)
            self._present = configuration
        except Exception as error:
            expected = isinstance(error, ConfigurationError)
            self._node.get_logger().error(
                f'{", ".join(change.name for change in changes)}: the old values stay: '
                + (str(error) if expected else f'bug:\n{traceback.format_exc()}'))
            self._node.set_parameters_atomically(self._before)

    def _checked(self, changed: Mapping[str, Any]) -> Optional[Configuration]:
        """
        Check changed values.

        :returns: the configuration to be applied; None if there is nothing to apply.
        :raises ConfigurationError: if one is unknown, wrong or fixed; then none is applied.
        """
        if all(is_of_library(name) and name != 'use_sim_time' for name in changed):
            return None
        configured = self._configured()
        check_changes(PARAMETERS, changed, configured)
        for name, value in changed.items():
            if is_body_setting(name):
                if value is not None:    # None removes the setting
                    check_body_setting(name, value)
                if configured and is_fixed_setting(name):
                    raise ConfigurationError(f'{name} is fixed while the node is configured')
            elif name == 'use_sim_time':
                if value and configured:
                    raise ConfigurationError(
                        'use_sim_time cannot be set: motion capture runs in real time')
            elif name not in NAMES and not is_of_library(name):
                raise ConfigurationError(unknown(name, NAMES))
        if not configured:
            return None
        present = self._present
        if present is None or not self._ready():    # set by another thread during a transition
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
        return configuration
