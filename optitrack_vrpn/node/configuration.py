# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Build the configuration of each part of the node from parameter values."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from optitrack_vrpn.bodies import body_settings
from optitrack_vrpn.client.config import ClientConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.estimator import EstimateConfig
from optitrack_vrpn.motion.transform import world_from_mocap
from optitrack_vrpn.names import NameTemplates
from optitrack_vrpn.natnet.settings import AUTO, NatNetConfig
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import MOTION_KINDS
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.settings import sift


@dataclass(frozen=True)
class PublishConfig:
    """
    Configuration of the publishers.

    :ivar outputs: names of ``topic_kinds.KINDS``.
    :ivar server_motion: whether the server's velocities are published, not estimates.
    :ivar world: frame id of the ENU world.
    :ivar world_ned: frame id of the NED world.
    :ivar reliable: reliability of the poses.
    :ivar depth: history kept for a slow subscriber.
    """

    outputs: frozenset[str]
    server_motion: bool
    world: str
    world_ned: str
    reliable: bool
    depth: int


@dataclass(frozen=True)
class Configuration:
    """
    The complete configuration of the node.

    :ivar client: the server and the connection to it.
    :ivar protocol: 'vrpn', 'natnet' or 'auto'.
    :ivar natnet: settings of NatNet only.
    :ivar pipeline: the stages between protocol and publishers.
    :ivar publish: the publishers.
    :ivar expected_rate_hz: the camera rate (Hz); 0 if it is not given.
    """

    client: ClientConfig
    pipeline: PipelineConfig
    publish: PublishConfig
    expected_rate_hz: float
    protocol: str
    natnet: NatNetConfig


def make_configuration(values: Mapping[str, Any]) -> Configuration:
    """
    Check all parameters and build the configuration of each part.

    :param values: parameter values by name, as given by the user.
    :raises ConfigurationError: one line for each wrong value, with the allowed values.
    """
    settings, wrong = sift(NodeSettings, values)
    bodies, wrong_bodies = body_settings.sift_body_settings(values)
    wrong += wrong_bodies
    try:
        titles = body_settings.titles(bodies)
    except ConfigurationError as error:
        wrong.append(str(error))
    if settings.client.server == AUTO and settings.protocol == 'vrpn':
        wrong.append('server is auto; VRPN servers cannot be searched: set protocol to natnet or '
                     'auto, or server to the address of the Motive PC')
    if 'markers' in settings.outputs and settings.protocol == 'vrpn':
        wrong.append('outputs contains markers, which VRPN does not send: set protocol to natnet '
                     'or auto, or remove markers from outputs')
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    publish = PublishConfig(
        outputs=frozenset(settings.outputs),
        server_motion=settings.velocity_source == 'server',
        world=settings.frames.world, world_ned=settings.frames.world_ned,
        reliable=settings.qos.reliability == 'reliable', depth=settings.qos.depth)
    frames = settings.frames
    return Configuration(
        client=settings.client,
        pipeline=PipelineConfig(
            axes=settings.axes, stamps=settings.stamps, body=settings.validation,
            overrides=_pick(bodies, body_settings.THRESHOLDS), selection=settings.bodies,
            estimate=_estimate(settings, publish),
            estimates=_pick(bodies, body_settings.ESTIMATES), titles=titles,
            server_motion=publish.server_motion,
            templates=NameTemplates(
                settings.topics.templates(), {'body': frames.body, 'body_ned': frames.body_ned}),
            reserved_frames=(frames.world, frames.world_ned),
            max_age_s=settings.max_age_s, keep_up=settings.load_shedding),
        publish=publish, expected_rate_hz=settings.expected_rate_hz,
        protocol=settings.protocol,
        natnet=replace(settings.natnet, markers='markers' in publish.outputs))


def _pick(
    bodies: Mapping[str, Mapping[str, Any]], wanted: tuple[str, ...],
) -> dict[str, dict[str, Any]]:
    """Return some settings of single bodies, without bodies that have none of them."""
    picked = {
        body: {key: value for key, value in settings.items() if key in wanted}
        for body, settings in bodies.items()}
    return {body: settings for body, settings in picked.items() if settings}


def _estimate(settings: NodeSettings, publish: PublishConfig) -> EstimateConfig:
    """Configure the estimates; only those that an output needs are enabled."""
    motion = not (publish.server_motion or MOTION_KINDS.isdisjoint(publish.outputs))
    return EstimateConfig(
        world_from_mocap=world_from_mocap(
            settings.world_offset.origin, settings.world_offset.yaw),
        lowpass=settings.lowpass, motion=settings.motion,
        learn_noise=motion or not publish.outputs.isdisjoint(('pose_cov', 'odom')),
        estimate_motion=motion)
