# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rigid bodies: selection, validity of poses, names exchanged, states."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.bodies.jumps import SwapCandidate
    from optitrack_vrpn.bodies.poses import pose_distance, TimedPose
    from optitrack_vrpn.bodies.settings import (
        BodyConfig, configure, is_body_setting, matches, OPTIONAL_SECTION, SECTIONS, Selection,
        settings_for, split, unmatched)
    from optitrack_vrpn.bodies.states import (
        BodyStatus, BY_GATE, ChangeLog, Disposition, mermaid, Observed, State, StateChange,
        TRANSITIONS)
    from optitrack_vrpn.bodies.swap import find_swap, review
    from optitrack_vrpn.bodies.times import FrameRate, SETTLE_FRAMES
    from optitrack_vrpn.bodies.validity import ValidityGate
else:
    __all__, __getattr__ = lazy(globals())
