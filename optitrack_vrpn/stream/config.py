# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the stages between wire and publishers, for all bodies and for single bodies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from optitrack_vrpn.core.axes import AxesConfig
from optitrack_vrpn.core.names import NameTemplates
from optitrack_vrpn.stream.bodies.settings import BodyConfig, configure, Selection, settings_for
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig


@dataclass(frozen=True)
class PipelineConfig:
    """
    Settings of all stages between the wire and the publishers.

    :ivar axes: axes that Motive sends.
    :ivar stamps: how frames are stamped.
    :ivar body: thresholds of the validity gate.
    :ivar estimate: settings of the estimates from valid poses.
    :ivar bodies: settings of single bodies by name or pattern: fields of ``body``; what
        ``EstimateConfig.with_settings`` takes; ``topic`` and ``frame``, names in ROS that replace
        the one derived from Motive's.
    :ivar server_motion: whether velocities and accelerations from the server are passed on.
    :ivar selection: selected bodies.
    :ivar templates: templates of topics and frame ids.
    :ivar reserved_frames: frame ids that no body may have.
    :ivar max_age_s: a pose whose age exceeds this (s) is not published; 0 publishes any. Delays
        that settings subtract from the stamps do not count.
    :ivar keep_up: whether frames are left out evenly while this computer cannot process all of
        them.
    :ivar max_bodies: selected bodies beyond this number are ignored, so that a faulty server
        cannot exhaust the memory.
    """

    axes: AxesConfig = field(default_factory=AxesConfig)
    stamps: StampConfig = field(default_factory=StampConfig)
    body: BodyConfig = field(default_factory=BodyConfig)
    estimate: EstimateConfig = field(default_factory=lambda: EstimateConfig(learn_noise=False))
    bodies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    server_motion: bool = False
    selection: Selection = field(default_factory=Selection)
    templates: NameTemplates = field(default_factory=lambda: NameTemplates(
        {'pose': '{body}/pose', 'pose_ned': '{body}/pose_ned'},
        {'body': '{body}', 'body_ned': '{body}_ned'}))
    reserved_frames: tuple[str, ...] = ('optitrack', 'optitrack_ned')
    max_age_s: float = 0.25
    keep_up: bool = True
    max_bodies: int = 500

    def __post_init__(self) -> None:
        """
        Check the settings of single bodies at configuration, not at the first pose of a body.

        :raises ConfigurationError: if a setting of a body is wrong.
        """
        for name, settings in self.bodies.items():
            configure(name, self.body, settings)
            self.estimate.with_settings(settings)

    def thresholds(self, name: str) -> BodyConfig:
        """Return the thresholds of one body; its own settings override those of patterns."""
        return configure(name, self.body, settings_for(name, self.bodies))

    def estimate_of(self, name: str) -> EstimateConfig:
        """Return the estimate settings of one body, in the same way."""
        return self.estimate.with_settings(settings_for(name, self.bodies))

    def titles_of(self, name: str) -> tuple[Optional[str], Optional[str]]:
        """Return the names of one body for topics and frames, in the same way."""
        found = settings_for(name, self.bodies)
        return found.get('topic') or None, found.get('frame') or None
