# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From checked parameter values to the configuration of each part."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Optional

from optitrack_vrpn import parameters
from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.selection import Selection
from optitrack_vrpn.client.backend_io import ClientConfig
from optitrack_vrpn.client.link import LinkConfig
from optitrack_vrpn.clock import StampConfig
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.motion.estimator import EstimateConfig
from optitrack_vrpn.motion.frames import AxesConfig
from optitrack_vrpn.motion.kalman import MotionConfig
from optitrack_vrpn.motion.lowpass import LowpassConfig
from optitrack_vrpn.motion.transform import world_from_mocap
from optitrack_vrpn.names import check_frame, NameTemplates
from optitrack_vrpn.pipeline.config import PipelineConfig

#: The kinds of topics of a body; each has its template and, but for the first, its switch.
TOPICS = ('pose', 'pose_ned', 'pose_cov', 'odom', 'twist', 'accel', 'status')


@dataclass(frozen=True)
class PublishConfig:
    """
    What is published, and how.

    :ivar enu: poses in ENU.
    :ivar ned: poses in NED.
    :ivar tf: transforms of the worlds that are published.
    :ivar pose_cov: poses in ENU with covariance.
    :ivar odom: odometry.
    :ivar twist: velocities along ENU's axes.
    :ivar accel: accelerations along ENU's axes.
    :ivar status: every body's state.
    :ivar server_motion: whether velocities are those that the server sends.
    :ivar world: frame id of the ENU world.
    :ivar world_ned: frame id of the NED world.
    :ivar reliable: reliability of the poses.
    :ivar depth: history kept for a slow subscriber.
    """

    enu: bool
    ned: bool
    tf: bool
    pose_cov: bool
    odom: bool
    twist: bool
    accel: bool
    status: bool
    server_motion: bool
    world: str
    world_ned: str
    reliable: bool
    depth: int


@dataclass(frozen=True)
class Settings:
    """
    Everything that the node needs to configure itself.

    :ivar client: which server, and how to reach it.
    :ivar pipeline: everything between the wire and the publishers.
    :ivar publish: what is published.
    :ivar expected_rate_hz: the camera rate, 0 where it was not given.
    """

    client: ClientConfig
    pipeline: PipelineConfig
    publish: PublishConfig
    expected_rate_hz: float


def make_settings(values: Mapping[str, Any]) -> Settings:
    """
    Check all parameters and build every part's configuration.

    :param values: parameter values by name, as given by the user.
    :raises ConfigurationError: naming all that is wrong and what is allowed, one a line.
    """
    sifted, wrong = parameters.sift(values)
    checked: Mapping[str, Any] = sifted
    bodies, wrong_too = parameters.sift_body_settings(values)
    wrong += wrong_too
    # What is wrong stands at its default, so that the parts can be judged all the same.
    for part in (_client, _check_worlds, _templates):
        try:
            part(checked)
        except ConfigurationError as error:
            wrong.append(str(error))
    try:
        titles = _titles(bodies)
    except ConfigurationError as error:
        wrong.append(str(error))
    if wrong:
        raise ConfigurationError('\n'.join(wrong))
    publish = _publish(checked)
    return Settings(
        client=_client(checked),
        pipeline=PipelineConfig(
            axes=AxesConfig(checked['up_axis'], checked['motive_x']),
            stamps=StampConfig(
                mode=checked['stamps.mode'], offset_samples=checked['stamps.offset_samples'],
                latency_ms=checked['stamps.latency_ms'], max_gap_s=checked['stamps.max_gap_s']),
            body=body_config(checked), overrides=_pick(bodies, parameters.BODY_THRESHOLDS),
            selection=selection(checked),
            estimate=_estimate(checked, publish),
            estimates=_pick(bodies, ('offset', *parameters.BODY_ESTIMATES)),
            titles=titles,
            server_motion=publish.server_motion,
            templates=_templates(checked),
            reserved_frames=(publish.world, publish.world_ned),
            max_age_s=checked['stamps.max_age_s'], keep_up=checked['publish.keep_up'],
            max_bodies=checked['bodies.max']),
        publish=publish, expected_rate_hz=checked['expected_rate_hz'])


def _client(checked: Mapping[str, Any]) -> ClientConfig:
    return ClientConfig(
        server=checked['server'], port=checked['port'], backend=checked['backend'],
        interface=checked['interface'], advertise=checked['advertise'],
        trackers=checked['trackers'],
        link=LinkConfig(
            connection=checked['connection'],
            retry_min_s=min(0.25, checked['connect.retry_max_s']),
            retry_max_s=checked['connect.retry_max_s'],
            max_attempts=checked['connect.max_attempts'],
            timeout_s=checked['connect.timeout_s'],
            silent_after_s=checked['watchdog.silent_after_s'],
            reconnect_after_s=checked['watchdog.reconnect_after_s']))


def _templates(checked: Mapping[str, Any]) -> NameTemplates:
    return NameTemplates(
        {kind: checked[f'topics.{kind}'] for kind in TOPICS},
        {'body': checked['frames.body'], 'body_ned': checked['frames.body_ned']})


def body_config(checked: Mapping[str, Any]) -> BodyConfig:
    """Build the thresholds of all bodies."""
    return BodyConfig(**{
        field.name: checked[f'truth.{field.name}'] for field in fields(BodyConfig)})


def selection(checked: Mapping[str, Any]) -> Selection:
    """Build the lists of wanted bodies."""
    allow = checked['bodies.allow']
    return Selection(allow=() if '*' in allow else allow, deny=checked['bodies.deny'])


def _pick(
    bodies: Mapping[str, Mapping[str, Any]], wanted: tuple[str, ...],
) -> dict[str, dict[str, Any]]:
    """Pick some of the settings of single bodies, without those that give none of them."""
    picked = {
        body: {key: value for key, value in settings.items() if key in wanted}
        for body, settings in bodies.items()}
    return {body: settings for body, settings in picked.items() if settings}


def _titles(
    bodies: Mapping[str, Mapping[str, Any]],
) -> dict[str, tuple[Optional[str], Optional[str]]]:
    """
    Pick out what bodies are to be called in topics and in frames.

    :raises ConfigurationError: if two bodies would share a name.
    """
    titles: dict[str, tuple[Optional[str], Optional[str]]] = {}
    for index, kind in enumerate(('topic', 'frame')):
        owners: dict[str, str] = {}
        for body, settings in bodies.items():
            title = settings.get(kind, settings.get('name'))
            if title is None:
                continue
            if title in owners:
                raise ConfigurationError(
                    f'bodies {owners[title]!r} and {body!r} are both given the {kind} name '
                    f'{title!r}: give each its own')
            owners[title] = body
            pair = list(titles.get(body, (None, None)))
            pair[index] = title
            titles[body] = (pair[0], pair[1])
    return titles


def _estimate(checked: Mapping[str, Any], publish: PublishConfig) -> EstimateConfig:
    """Build what is made of good poses; nothing is estimated that nobody can ask for."""
    motion = (publish.odom or publish.twist or publish.accel) and not publish.server_motion
    return EstimateConfig(
        world_from_mocap=world_from_mocap(
            checked['world_offset.origin'], checked['world_offset.yaw']),
        lowpass=LowpassConfig(
            checked['lowpass.cutoff_hz'], checked['lowpass.order'],
            checked['lowpass.compensate_delay']),
        motion=MotionConfig(**{
            field.name: checked[f'motion.{field.name}'] for field in fields(MotionConfig)}),
        learn_noise=checked['motion.learn_noise'] and (
            motion or publish.pose_cov or publish.odom),
        estimate_motion=motion)


def _check_worlds(checked: Mapping[str, Any]) -> None:
    wrong = []
    for name in ('frames.world', 'frames.world_ned'):
        try:
            check_frame(checked[name], name)
        except ConfigurationError as error:
            wrong.append(str(error))
    if checked['frames.world'] == checked['frames.world_ned']:
        wrong.append(f'frames.world and frames.world_ned are both {checked["frames.world"]!r}; '
                     'they are different frames')
    if wrong:
        raise ConfigurationError('\n'.join(wrong))


def _publish(checked: Mapping[str, Any]) -> PublishConfig:
    sensor_data = checked['qos.preset'] == 'sensor_data'
    return PublishConfig(
        enu=checked['publish.enu'], ned=checked['publish.ned'], tf=checked['publish.tf'],
        pose_cov=checked['publish.pose_cov'], odom=checked['publish.odom'],
        twist=checked['publish.twist'], accel=checked['publish.accel'],
        status=checked['publish.status'],
        server_motion=checked['velocity_source'] == 'server',
        world=checked['frames.world'], world_ned=checked['frames.world_ned'],
        reliable=checked['qos.reliability'] == 'reliable' and not sensor_data,
        depth=5 if sensor_data else checked['qos.depth'])
