# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Build the configuration of each part of the node from parameter values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Optional

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion import EstimateConfig, world_from_mocap
from optitrack_vrpn.names import is_fixed, NameTemplates
from optitrack_vrpn.node.body_settings import (
    BODY_ESTIMATES, BODY_THRESHOLDS, RATES, sift_body_settings, titles_of)
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS, MOTION_KINDS, OWN_ODOMETRY
from optitrack_vrpn.pipeline import PipelineConfig
from optitrack_vrpn.settings import changed, sift
from optitrack_vrpn.sources import check_server, lacking, SourceOptions


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
    server_motion = settings.velocity_source == 'server'
    frames = settings.frames
    return Configuration(
        settings=settings, bodies=bodies, source=SourceOptions(
            _stated_up(settings), frozenset(needs.values())),
        pipeline=PipelineConfig(
            axes=settings.axes, stamps=settings.stamps, body=settings.validation,
            overrides=_pick(bodies, BODY_THRESHOLDS), selection=settings.bodies,
            estimate=_estimate(settings, server_motion),
            estimates=_pick(bodies, BODY_ESTIMATES), titles=titles,
            server_motion=server_motion,
            templates=NameTemplates(
                settings.topics.templates(), {'body': frames.body, 'body_ned': frames.body_ned}),
            reserved_frames=tuple(filter(None, (
                frames.world, frames.world_ned, frames.parent))),
            max_age_s=settings.max_age_s, keep_up=settings.load_shedding))


def _stated_up(settings: NodeSettings) -> str:
    """Return the up axis to compare with Motive's; '' if poses are published as they are."""
    return settings.axes.up_axis if settings.axes.axes == 'enu' else ''


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


def _estimate(settings: NodeSettings, server_motion: bool) -> EstimateConfig:
    """Configure the estimates; only those that an output needs are enabled."""
    motion = not (server_motion or MOTION_KINDS.isdisjoint(settings.computed))
    return EstimateConfig(
        world_from_mocap=world_from_mocap(
            settings.world_offset.origin, settings.world_offset.yaw),
        lowpass=settings.lowpass, motion=settings.motion,
        learn_noise=settings.learn_noise and (
            motion or not {'pose_cov', 'odom', OWN_ODOMETRY.name}.isdisjoint(settings.computed)),
        estimate_motion=motion)
