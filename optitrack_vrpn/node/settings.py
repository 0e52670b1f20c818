# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
All parameters of the node: the settings of its parts, and its own.

This file imports no ROS, so that documents can be generated without it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
import itertools
import math

from optitrack_vrpn.control.protocol import ControlConfig
from optitrack_vrpn.core.axes import AxesConfig
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import NAME_RULES, wrong_name
from optitrack_vrpn.core.settings.schema import (
    Change, checked, LifecycleSettings, section, setting)
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.table import DEFAULT, source_settings, SOURCES
from optitrack_vrpn.node.topic_kinds import (
    Content, DEFAULT_OUTPUTS, FOLLOWS, KINDS, RATES, SERVER_CONTENTS)
from optitrack_vrpn.stream.bodies.settings import BodyConfig, Selection, settings_for
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.motion.lowpass import LowpassConfig
from optitrack_vrpn.stream.motion.settings import MotionConfig
from optitrack_vrpn.stream.skeletons.settings import SkeletonSettings

_SOURCES = source_settings()


def _refuse(wrong: Iterable[str]) -> None:
    if lines := list(filter(None, wrong)):
        raise ConfigurationError('\n'.join(lines))


@checked
@dataclass(frozen=True)
class FrameSettings:
    """Frame ids."""

    world: str = setting('optitrack', doc='frame id of the ENU world')
    world_ned: str = setting('optitrack_ned', doc='frame id of the NED world')
    body: str = setting('{body}', doc='frame id of a body in ENU (FLU axes)')
    body_ned: str = setting('{body}_ned', doc='frame id of a body in NED (FRD axes)')
    parent: str = setting('', doc=(
        'frame id of which the world is a child on /tf_static, at its origin; empty: none'))

    def check(self) -> None:
        """
        Check names and templates.

        :raises ConfigurationError: one line for each error.
        """
        names = {'world': self.world, 'world_ned': self.world_ned, 'body': self.body,
                 'body_ned': self.body_ned, **({'parent': self.parent} if self.parent else {})}
        _refuse(wrong_name(name, what, False, what.startswith('body'))
                for what, name in names.items())
        _refuse(f'{other} is {names[other]!r}, the same as {one}; they are different frames'
                for one, other in itertools.combinations(names, 2) if names[one] == names[other])


@checked
@dataclass(frozen=True)
class TopicSettings:
    """Topics of one body."""

    pose: str = setting('{body}/pose', doc="topic of a body's pose in ENU")
    pose_ned: str = setting('{body}/pose_ned', doc="topic of a body's pose in NED")
    names: str = setting('ros', choices=NAME_RULES, doc=(
        "how Motive's names become {body}: ros, or the rule of another driver where its result is "
        'a valid name: vrpn_mocap (_ for other characters), vrpn_client_ros (they are deleted), '
        'unchanged (also in messages and frames)'))
    other: str = setting('{body}/{kind}', doc=(
        "topic of a body's other outputs; {kind} becomes odom, twist and so on"))
    odom: str = setting('', doc='topic of this output; empty: as in other')
    pose_2d: str = setting('', doc='likewise')
    poses: str = setting('poses', doc='topic of this output; also of those below')
    poses_v2: str = setting('poses_v2', doc='likewise')
    pose_array: str = setting('pose_array', doc='likewise')
    rigid_bodies: str = setting('rigid_bodies', doc='likewise')
    markers: str = setting('markers', doc='likewise')
    named_markers: str = setting('named_markers', doc='likewise')

    def templates(self) -> dict[str, str]:
        """Return the template of each kind of topic, which still contains ``{body}``."""
        return {name: getattr(self, name, '') or self.other.replace('{kind}', name)
                for name, kind in KINDS.items() if kind.per_body}

    def check(self) -> None:
        """
        Check the templates.

        :raises ConfigurationError: one line for each error.
        """
        if '{kind}' not in self.other:
            raise ConfigurationError(
                f"other is {self.other!r}; it must contain '{{kind}}', as in '{{body}}/{{kind}}'")
        shared = {name: getattr(self, name) for name, kind in KINDS.items()
                  if not kind.per_body and hasattr(self, name)}
        _refuse(wrong_name(topic, name, True) for name, topic in shared.items())
        owners: dict[str, str] = {}
        for name, kind in KINDS.items():
            topic = shared.get(name, kind.topic)
            if not kind.per_body and kind.topic != '/tf' and owners.setdefault(
                    topic, name) != name:
                raise ConfigurationError(
                    f'{owners[topic]} and {name} have the same topic {topic!r}')
        _refuse(wrong_name(topic, what, True, True) for what, topic in (
            ('pose', self.pose), ('pose_ned', self.pose_ned), ('odom', self.odom or 'odom'),
            ('pose_2d', self.pose_2d or 'pose_2d'),
            ('other', self.other.replace('{kind}', 'odom'))))
        templates = self.templates()
        if len(set(templates.values())) < len(templates):
            raise ConfigurationError(
                f'the topics of {", ".join(templates)} are not all different: '
                f'{", ".join(templates.values())}')


@checked
@dataclass(frozen=True)
class WorldOffset:
    """Pose of the user's world in the mocap world."""

    origin: tuple[float, float, float] = setting(
        (0.0, 0.0, 0.0), unit='m', doc='position of your origin in the mocap world (ENU)')
    yaw: float = setting(
        0.0, unit='rad', low=-2 * math.pi, high=2 * math.pi,
        doc='heading of your x axis in the mocap world, about up')


@checked
@dataclass(frozen=True)
class QosSettings:
    """Quality of service of all topics with poses."""

    reliability: str = setting('reliable', choices=('reliable', 'best_effort'), doc=(
        'reliability of all poses; reliable serves every subscriber'))
    poses: str = setting('deadline', choices=('deadline', 'reliable'), doc=(
        'of poses and poses_v2: best effort with a deadline of 10 ms, for Crazyswarm2; or '
        'reliable'))
    depth: int = setting(10, low=1, high=100000, doc='messages kept for a slow subscriber')


@checked
@dataclass(frozen=True)
class NodeSettings:
    """The node optitrack_vrpn."""

    client: ClientConfig = section(ClientConfig(), name='')
    protocol: str = setting(DEFAULT, choices=tuple(SOURCES), doc=(
        'natnet has exposure times and a tracking flag per body; auto tries both and prefers '
        'natnet; with another port or backend it is vrpn'))
    sources: type(_SOURCES) = section(_SOURCES, name='')  # type: ignore[valid-type]
    lifecycle: LifecycleSettings = section(LifecycleSettings(), name='')
    axes: AxesConfig = section(AxesConfig(), name='')
    expected_rate_hz: float = setting(
        0.0, unit='Hz', low=0.0, high=10000.0, change=Change.ANY_TIME, doc=(
            'the camera rate; a slower body causes a warning on /diagnostics; 0 compares with the '
            'fastest body, and warns of 60 Hz, the rate of displays'))
    outputs: tuple[str, ...] = setting(
        DEFAULT_OUTPUTS, choices=tuple(KINDS), change=Change.ANY_TIME,
        doc='what is published; see the table of outputs in docs/parameters.md')
    rates: type(RATES) = section(RATES)  # type: ignore[valid-type]
    topics: TopicSettings = section(TopicSettings())
    frames: FrameSettings = section(FrameSettings())
    bodies: Selection = section(Selection())
    validation: BodyConfig = section(BodyConfig())
    stamps: StampConfig = section(StampConfig())
    max_age_s: float = setting(
        0.25, unit='s', low=0.0, high=3600.0, name='stamps.max_age_s', doc=(
            'a pose older than this, or as far in the future (stamps.mode: sender), is not '
            'published; stamps.latency_ms does not count; 0 publishes '
            'poses of any age'))
    load_shedding: bool = setting(True, change=Change.ANY_TIME, doc=(
        'while this computer cannot keep up, publish odom, twist, accel and pose_cov with every '
        'second or fourth pose only, and if that is not enough leave out whole frames, '
        'evenly, so that the others are on time; false publishes all, late, up to '
        'stamps.max_age_s'))
    world_offset: WorldOffset = section(WorldOffset())
    lowpass: LowpassConfig = section(LowpassConfig())
    velocity_source: str = setting('estimate', choices=('estimate', 'server'), doc=(
        'outputs twist and accel: estimated from the poses, or as the server sends them (Motive '
        'sends none)'))
    motion: MotionConfig = section(MotionConfig())
    learn_noise: bool = setting(True, name='motion.learn_noise', doc=(
        'learn the noise of a body at rest; false keeps motion.position_noise and attitude_noise, '
        'for readers that expect a constant covariance'))
    skeletons: SkeletonSettings = section(SkeletonSettings())
    qos: QosSettings = section(QosSettings())
    control: ControlConfig = section(ControlConfig())
    body_rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Rates of single bodies, by name or pattern and ``rates.OUTPUT``."""

    def contents(self) -> frozenset[Content]:
        """Return what the messages of single bodies are filled with from a sample."""
        found = frozenset(KINDS[name].content for name in self.outputs)
        return found - SERVER_CONTENTS if self.velocity_source == 'server' else found

    def rates_of(self, body: str) -> dict[str, float]:
        """Return the rates (Hz) of the outputs of a body that have one, by kind."""
        rates = {f'rates.{name}': hz for name, hz in vars(self.rates).items()}
        rates |= settings_for(body, self.body_rates)
        found = {name: rates.get(f'rates.{FOLLOWS.get(name, name)}', 0.0)
                 for name in self.outputs}
        return {name: hz for name, hz in found.items() if hz}
