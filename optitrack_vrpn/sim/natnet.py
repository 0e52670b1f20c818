# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
NatNet frames of a simulated Motive; pure, times are arguments.

Exposures, processing and transmission are distributed as in a capture of a real Motive, see
``scenario_io.NatNet``. All random numbers come from the scenario's seed.
"""

from collections.abc import Sequence
import math
import random

from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import Body as Pose, Quaternion, Vector
from optitrack_vrpn.drivers.natnet.messages import (
    BODY_TRACKING_VALID, BodyDefinition, Definitions, FRAME_EDIT_MODE, FRAME_MODELS_CHANGED,
    FRAME_RECORDING, MARKER_OCCLUDED, NatNetBody, NatNetFrame, NatNetMarker, Version)
from optitrack_vrpn.sim.natnet_models import Models
from optitrack_vrpn.sim.natnet_settings import NATNET_VERSIONS
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.world import SimFrame as WorldFrame

#: Parameters of a labelled marker of a model: part of the model, solved with it.
_MODEL_SOLVED = 4 | 8
#: Chosen: usual markers of 14 mm, 5 cm from the origin.
_MARKER_SIZE_M = 0.014
_MARKER_RADIUS_M = 0.05
#: Time from exposure to the arrival of the cameras' data, as a fraction of the time to
#: transmission (captured: 4.6 of 5.4 ms). Only ``received`` in the frames depends on it.
_RECEIVED_SHARE = 4.6 / 5.4
#: Captured: time (ns) from exposure to transmission with its standard deviation, and standard
#: deviation of the intervals between exposures.
_PROCESSING_NS = 5.4e6
_PROCESSING_DEVIATION_NS = 200e3
_EXPOSURE_DEVIATION_NS = 9e3
#: Frequency (Hz) of the counter, as usual on Windows 10 and 11.
FREQUENCY = 10_000_000
#: Chosen: mean marker error (m) of tracked bodies; usual ones are below 1 mm.
_MEAN_ERROR_M = 0.3e-3


class NatNetWorld:
    """
    The models and frames of a simulated Motive.

    :param scenario: the scenario.
    :param names: names of its bodies; streaming ids are their positions, from 1.
    :ivar settings: those of the scenario.
    :ivar models: what it streams beside rigid bodies.
    :ivar recording: whether it records.
    """

    def __init__(self, scenario: Scenario, names: Sequence[str]) -> None:
        self.settings = scenario.natnet
        self._rate = scenario.rate
        self._random = random.Random(f'{scenario.seed}/natnet')
        self.version: Version = NATNET_VERSIONS[scenario.natnet.version]
        self.models = Models(scenario.natnet, scenario.rate)
        self._ids: dict[str, int] = {}
        self._last: dict[str, tuple[Vector, Quaternion]] = {}
        self.recording = False
        self._changed = False
        self.set_models(names)
        self._changed = False

    def set_models(self, names: Sequence[str]) -> None:
        """Change the list of models; the next frame contains the flag for it."""
        self._ids = {name: number + 1 for number, name in enumerate(names)}
        self._changed = True

    @property
    def definitions(self) -> Definitions:
        """Describe the models."""
        return self.models.describe()._replace(
            bodies=tuple(BodyDefinition(name, number) for name, number in self._ids.items()),
            marker_sets=(*self._ids, 'all'))

    def exposure_jitter_ns(self) -> int:
        """Draw the deviation (ns) of an exposure from its place in an even sequence."""
        # The difference of two independent draws has the measured deviation.
        return round(self._random.gauss(0.0, _EXPOSURE_DEVIATION_NS) / math.sqrt(2.0))

    def processing_ns(self) -> int:
        """Draw the time from exposure to transmission."""
        return max(0, round(self._random.gauss(_PROCESSING_NS, _PROCESSING_DEVIATION_NS)))

    def ticks(self, server_ns: int) -> int:
        """Convert the server's time (ns since its boot) to ticks."""
        return server_ns * FREQUENCY // NS_PER_S

    def frame(
        self, frame: WorldFrame, exposure_ns: int, transmit_ns: int,
    ) -> NatNetFrame:
        """
        Create the NatNet frame.

        :param exposure_ns: the server's time at mid-exposure (ns since its boot).
        :param transmit_ns: the server's time of transmission (ns since its boot).
        """
        poses = {report.name: (report.position, report.quat_xyzw)
                 for report in frame.reports if isinstance(report, Pose)}
        bodies, markers = [], []
        for name, streaming_id in self._ids.items():
            pose = poses.get(name)
            tracked = pose is not None and name not in frame.lost
            if pose is not None:
                self._last[name] = pose
            # A body out of view stays in the list with its last pose.
            position, quat = pose or self._last.get(name, ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 1.0)))
            error = _MEAN_ERROR_M if tracked else 0.0
            bodies.append(NatNetBody(streaming_id, *position, *quat, error,
                                     BODY_TRACKING_VALID if tracked else 0))
            markers += self._markers(streaming_id, position, tracked)
        params = (FRAME_RECORDING * self.recording | FRAME_MODELS_CHANGED * self._changed
                  | FRAME_EDIT_MODE * self.settings.edit_mode)
        self._changed = False
        received_ns = exposure_ns + round((transmit_ns - exposure_ns) * _RECEIVED_SHARE)
        exposed, received, sent = (self.ticks(time_ns) * self.settings.ticks
                                   for time_ns in (exposure_ns, received_ns, transmit_ns))
        number, models = frame.number, self.models
        return NatNetFrame(
            number, bodies, [*markers, *models.markers(number)], _PROCESSING_NS * 1e-9, 0, 0,
            number / self._rate, exposed, received, sent, 0, 0, params,
            # Motive repeats them in the deprecated section of other markers.
            tuple(models.unlabelled(number)), models.skeletons(number), (), models.plates(number))

    def _markers(self, streaming_id: int, position: Vector, tracked: bool) -> list[NatNetMarker]:
        x, y, z = position
        count = self.settings.markers
        params = _MODEL_SOLVED | (0 if tracked else MARKER_OCCLUDED)
        return [
            NatNetMarker(streaming_id << 16 | (member + 1),
                         x + _MARKER_RADIUS_M * math.cos(2 * math.pi * member / count), y,
                         z + _MARKER_RADIUS_M * math.sin(2 * math.pi * member / count),
                         _MARKER_SIZE_M, params, 0.0002)
            for member in range(count)]
