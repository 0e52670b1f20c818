# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node's configuration: declare and read its parameters, check each change, combine them."""

from dataclasses import dataclass, fields, replace
import importlib.util
from operator import attrgetter
import traceback
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from optitrack_vrpn.cli.command_io import how_to_install
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.core.names import is_fixed, NameTemplates
from optitrack_vrpn.core.rotation import world_from_mocap
from optitrack_vrpn.core.settings.parameters import (
    Parameter as SettingRow, parameters_of, replaced, sift, unknown)
from optitrack_vrpn.drivers.table import check_server, lacking, SourceOptions
from optitrack_vrpn.node.base.lifecycle_node import SafeLifecycleNode
from optitrack_vrpn.node.base.settings_ros import (
    declare_settings, given_at_start, is_of_library, unknown_parameters, values_of,
    warn_of_foreign)
from optitrack_vrpn.node.body_settings import (
    check_body_change, doubtful, RATES, sift_body_settings, titled)
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import Content, DEFAULT_OUTPUTS, KINDS
from optitrack_vrpn.stream.bodies.settings import is_body_setting
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig
from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.parameter import Parameter

_NED = frozenset(kind.name for kind in KINDS.values() if kind.world == 'ned')
#: Reason for which a change is refused during a transition.
CHANGING = 'the node is changing its state; set the parameter again'
_NAME = attrgetter('name')
#: States in which the node has all its parts.
_RUNNING = ('inactive', 'activating', 'active', 'deactivating')
_RAW_OUTPUTS = tuple(name for name in DEFAULT_OUTPUTS if name not in _NED)
#: Settings of single bodies, by body name or pattern.
Bodies = Mapping[str, Mapping[str, Any]]


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
    bodies: Bodies
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
    return _combine(settings, bodies, wrong + wrong_bodies, None)


def _combine(
    settings: NodeSettings, bodies: Bodies, wrong: list[str], present: Optional[Configuration],
) -> Configuration:
    """
    Check what concerns several settings, and build the configuration of each part.

    :param wrong: errors found so far.
    :param present: a configuration, from which comes what depends on unchanged settings only.
    :raises ConfigurationError: with one line for each error.
    """
    if settings.axes.axes == 'raw' and settings.outputs == DEFAULT_OUTPUTS:
        # North and down are not known. NED outputs that the user names are refused below.
        settings = replace(settings, outputs=_RAW_OUTPUTS)
    stages: dict[str, Any] = {}
    if present is None or bodies is not present.bodies:
        try:
            stages['bodies'] = titled(bodies)
        except ConfigurationError as error:
            wrong.append(str(error))
        if (body_rates := _rates_of(bodies)) != settings.body_rates:
            settings = replace(settings, body_rates=body_rates)
    news: set[str] = set()
    for name in _FIELDS:
        if present is None or getattr(settings, name) is not getattr(present.settings, name):
            news.add(name)
    for reads, check in _CHECKS:
        if not news.isdisjoint(reads):
            wrong += check(settings)
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    for stage, (reads, make) in _STAGES.items():
        if not news.isdisjoint(reads):
            stages[stage] = make(settings)
    source, pipeline = (SourceOptions(), PipelineConfig()) if present is None else (
        present.source, present.pipeline)
    if 'outputs' in news:
        source = SourceOptions(frozenset(_needs(settings).values()))
    if stages:
        pipeline = replace(pipeline, **stages)
    return Configuration(settings, bodies, source, pipeline)


def _rates_of(bodies: Bodies) -> dict[str, dict[str, float]]:
    """Return the rates of single bodies, without bodies that have none."""
    found = {body: {key: value for key, value in settings.items() if key in RATES}
             for body, settings in bodies.items()}
    return {body: rates for body, rates in found.items() if rates}


def _needs(settings: NodeSettings) -> dict[str, str]:
    """Return what outputs need of the source beyond poses, by output."""
    return {name: KINDS[name].needs for name in settings.outputs if KINDS[name].needs}


def _wrong_server(settings: NodeSettings) -> list[str]:
    """Check that the protocol can find the server."""
    try:
        check_server(settings.protocol, settings.client.server)
    except ConfigurationError as error:
        return [str(error)]
    return []


def _not_sent(settings: NodeSettings) -> list[str]:
    """Check that the protocol sends what the outputs need."""
    return [f'outputs contains {name}, which protocol {settings.protocol} does not send: set '
            f'protocol to {able}, or remove {name} from outputs'
            for name, need in _needs(settings).items()
            if (able := lacking(settings.protocol, need))]


def _without_down(settings: NodeSettings) -> list[str]:
    """Check that no output is in NED where Motive's axes are not turned."""
    ned = _NED.intersection(settings.outputs)
    if settings.axes.axes != 'raw' or not ned:
        return []
    return ['axes is raw, so that north and down are not known: remove '
            f'{", ".join(sorted(ned))} from outputs']


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


def _templates(settings: NodeSettings) -> NameTemplates:
    """Return the templates of topics and frames."""
    frames = settings.frames
    return NameTemplates(
        settings.topics.templates(), {'body': frames.body, 'body_ned': frames.body_ned},
        settings.topics.names)


PARAMETERS = {parameter.name: parameter for parameter in parameters_of(NodeSettings)}
NAMES = PARAMETERS.keys()
_FIELDS = tuple(field.name for field in fields(NodeSettings))
#: Checks of several settings: the fields that each reads, and what returns its errors.
_CHECKS: tuple[tuple[tuple[str, ...], Callable[[NodeSettings], list[str]]], ...] = (
    (('protocol', 'client'), _wrong_server),
    (('protocol', 'outputs'), _not_sent),
    (('bodies', 'topics', 'frames'), _fixed_names),
    (('axes', 'outputs'), _without_down))
#: Fields of ``PipelineConfig``: the settings that each is made of, and how.
_STAGES: dict[str, tuple[tuple[str, ...], Callable[[NodeSettings], Any]]] = {
    'axes': (('axes',), attrgetter('axes')),
    'stamps': (('stamps',), attrgetter('stamps')),
    'body': (('validation',), attrgetter('validation')),
    'selection': (('bodies',), attrgetter('bodies')),
    'max_age_s': (('max_age_s',), attrgetter('max_age_s')),
    'keep_up': (('load_shedding',), attrgetter('load_shedding')),
    'server_motion': (('velocity_source',), lambda settings: (
        settings.velocity_source == 'server')),
    'templates': (('topics', 'frames'), _templates),
    'reserved_frames': (('frames',), lambda settings: tuple(filter(None, (
        settings.frames.world, settings.frames.world_ned, settings.frames.parent)))),
    'estimate': (('outputs', 'velocity_source', 'world_offset', 'lowpass', 'motion',
                  'learn_noise'), _estimate)}


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


def check_added(outputs: Iterable[str], present: Iterable[str]) -> None:
    """
    Check that outputs can be added while the node is configured.

    :raises ConfigurationError: if not.
    """
    check_installed(outputs)
    needs = {KINDS[name].needs for name in present}
    for name in outputs:
        if KINDS[name].needs not in {'', *needs}:
            # The client decides at its start what it reads.
            raise ConfigurationError(
                f'{name} cannot be added to outputs while the node is configured: clean it up '
                'first')


class NodeParameters:
    """
    The parameters of ``NodeSettings`` and those of single bodies.

    :param node: declares them.
    :param apply: applies the configuration after a change while the node is configured.
    """

    def __init__(
        self, node: SafeLifecycleNode, apply: Callable[[Configuration], None],
    ) -> None:
        self._node = node
        self._apply = apply
        self._present: Optional[Configuration] = None    # as read or changed last
        declare_settings(node, NodeSettings)
        for name, value in given_at_start(node).items():
            if is_body_setting(name) and not node.has_parameter(name):
                node.declare_parameter(name, value, ParameterDescriptor(dynamic_typing=True))
        self._misspelt, foreign = unknown_parameters(node)
        warn_of_foreign(node, foreign)
        # Checked, not applied yet: the change, the configuration, and the values it replaces.
        self._accepted: tuple[list[Parameter], Optional[Configuration], list[Parameter]] = (
            [], None, [])
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
            self._accepted = changes, self._changed(changes), self._node.get_parameters(
                list(map(_NAME, changes)))
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
        (checked, configuration, before), self._accepted = self._accepted, ([], None, [])
        if configuration is None or checked != changes:
            return
        try:
            self._apply(configuration)
            self._present = configuration
        except Exception as error:
            expected = isinstance(error, ConfigurationError)
            self._node.get_logger().error(
                f'{", ".join(change.name for change in changes)}: the old values stay: '
                + (str(error) if expected else f'bug:\n{traceback.format_exc()}'))
            self._node.set_parameters_atomically(before)

    def _changed(self, changes: Sequence[Parameter]) -> Optional[Configuration]:
        """
        Check changed values.

        :returns: the configuration to be applied; None if there is nothing to apply.
        :raises ConfigurationError: with one line for each that is unknown, wrong or fixed; then
            none is applied.
        """
        state = self._node.lifecycle_label
        configured = state not in ('unconfigured', 'finalized')
        wrong: list[str] = []
        given: dict[SettingRow, Any] = {}
        of_bodies: Optional[dict[str, Any]] = None
        for change in changes:
            name = change.name
            try:
                if name in PARAMETERS:
                    row = PARAMETERS[name]
                    given[row] = row.check_change(change.value, configured)
                elif is_body_setting(name):
                    of_bodies = self._body_values() if of_bodies is None else of_bodies
                    of_bodies[name] = change.value
                    check_body_change(name, change.value, configured)
                elif not is_of_library(name):
                    raise ConfigurationError(unknown(name, NAMES))
                elif name == 'use_sim_time' and change.value and configured:
                    raise ConfigurationError(
                        'use_sim_time cannot be set: motion capture runs in real time')
            except ConfigurationError as error:
                wrong.append(str(error))
        if wrong:
            raise ConfigurationError('\n'.join(wrong))
        if not configured or not (given or of_bodies is not None):
            return None
        present = self._present
        if present is None or state not in _RUNNING:    # set by another thread
            raise ConfigurationError(CHANGING)
        settings, bodies = replaced(present.settings, given, wrong), present.bodies
        if of_bodies is not None:
            bodies, wrong_bodies = sift_body_settings({
                name: value for name, value in of_bodies.items() if value is not None})
            wrong += wrong_bodies
        configuration = _combine(settings, bodies, wrong, present)
        if configuration.settings.outputs is not present.settings.outputs:
            check_added(configuration.settings.outputs, present.settings.outputs)
        return configuration
