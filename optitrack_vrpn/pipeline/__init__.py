# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The stages of a pose between the wire and the publishers."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.pipeline.config import PipelineConfig
    from optitrack_vrpn.pipeline.load_shedding import (
        CALM_NS, FRESH_NS, MOST_IN_A_ROW, PATIENCE_NS, STANDING_NS)
    from optitrack_vrpn.pipeline.pipeline import Pipeline
    from optitrack_vrpn.pipeline.roster import (
        body_name, FrameTimes, how_to_accept, Sample, ServerMotion, StampedExtras, TrackedBody)
    from optitrack_vrpn.pipeline.server_data import FIELDS, INTEGERS, MarkerCloud, POINT
else:
    __all__, __getattr__ = lazy(globals())
