# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The settings between the wire and the publishers, for all bodies and for one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.selection import configure, Selection, settings_for
from optitrack_vrpn.clock import StampConfig
from optitrack_vrpn.motion.estimator import EstimateConfig
from optitrack_vrpn.motion.frames import AxesConfig
from optitrack_vrpn.names import NameTemplates


@dataclass(frozen=True)
class PipelineConfig:
    """
    Everything between the wire and the publishers.

    :ivar axes: what Motive sends.
    :ivar stamps: how frames are stamped.
    :ivar body: when a pose is believed.
    :ivar overrides: fields of ``body`` by body name or pattern.
    :ivar estimate: what is made of good poses.
    :ivar estimates: settings of ``estimate`` by body name or pattern, as
        ``EstimateConfig.with_settings`` takes them.
    :ivar titles: names in ROS by body name or pattern, as (topics, frames), in place of those
        derived from Motive's.
    :ivar server_motion: pass on velocities and accelerations that the server itself sends.
    :ivar selection: which bodies are wanted, and renames.
    :ivar templates: how topics and frames are named.
    :ivar reserved_frames: frame ids that no body may take.
    :ivar max_age_s: a pose that arrives later than this after its stamp is too old to be
        published as fresh; 0 takes any. What is taken off the stamps on purpose is not counted.
    :ivar keep_up: leave frames out, evenly, while more comes than can be worked off.
    :ivar max_bodies: wanted bodies beyond this many are ignored, so that a broken server cannot
        fill the memory.
    """

    axes: AxesConfig = field(default_factory=AxesConfig)
    stamps: StampConfig = field(default_factory=StampConfig)
    body: BodyConfig = field(default_factory=BodyConfig)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    estimate: EstimateConfig = field(default_factory=lambda: EstimateConfig(learn_noise=False))
    estimates: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    titles: Mapping[str, tuple[Optional[str], Optional[str]]] = field(default_factory=dict)
    server_motion: bool = False
    selection: Selection = field(default_factory=Selection)
    templates: NameTemplates = field(default_factory=lambda: NameTemplates(
        {'pose': '{body}/pose', 'pose_ned': '{body}/pose_ned'},
        {'body': '{body}', 'body_ned': '{body}_ned'}))
    reserved_frames: tuple[str, ...] = ('optitrack', 'optitrack_ned')
    max_age_s: float = 0.5
    keep_up: bool = True
    max_bodies: int = 500

    def __post_init__(self) -> None:
        """
        Check, and load, what single bodies need: now, and not at the first pose of theirs.

        :raises ConfigurationError: a setting of a body is wrong.
        """
        for name, settings in self.overrides.items():
            configure(name, self.body, settings)
        for settings in self.estimates.values():
            self.estimate.with_settings(settings)

    def thresholds(self, name: str) -> BodyConfig:
        """Make what holds for one body: the patterns' settings, and its own, which beat them."""
        return configure(name, self.body, settings_for(name, self.overrides))

    def estimate_of(self, name: str) -> EstimateConfig:
        """Make what becomes of one body's good poses, in the same way."""
        return self.estimate.with_settings(settings_for(name, self.estimates))

    def titles_of(self, name: str) -> tuple[Optional[str], Optional[str]]:
        """Find what one body is to be called in topics and frames, in the same way."""
        found = settings_for(name, {
            pattern: {kind: title for kind, title in zip(('topic', 'frame'), titles) if title}
            for pattern, titles in self.titles.items()})
        return found.get('topic'), found.get('frame')
