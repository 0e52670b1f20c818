# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rigid bodies: selection, validity of poses, names exchanged, states."""

import importlib
from typing import Any, TYPE_CHECKING

if TYPE_CHECKING:
    from optitrack_vrpn.bodies.body_settings import BodySettings
    from optitrack_vrpn.bodies.change_log import ChangeLog
    from optitrack_vrpn.bodies.config import BodyConfig
    from optitrack_vrpn.bodies.disposition import BY_GATE, Disposition
    from optitrack_vrpn.bodies.jumps import SwapCandidate
    from optitrack_vrpn.bodies.selection import (
        configure, matches, Selection, settings_for, unmatched)
    from optitrack_vrpn.bodies.states import (
        BodyStatus, mermaid, Observed, State, StateChange, TRANSITIONS)
    from optitrack_vrpn.bodies.swap import find_swap, review
    from optitrack_vrpn.bodies.track import pose_distance, TimedPose
    from optitrack_vrpn.bodies.validity import ValidityGate

#: Imported at first use: a node needs a part of them.
_MODULES = {
    'body_settings': ('BodySettings',), 'change_log': ('ChangeLog',), 'config': ('BodyConfig',),
    'disposition': ('BY_GATE', 'Disposition'), 'jumps': ('SwapCandidate',),
    'selection': ('configure', 'matches', 'Selection', 'settings_for', 'unmatched'),
    'states': ('BodyStatus', 'mermaid', 'Observed', 'State', 'StateChange', 'TRANSITIONS'),
    'swap': ('find_swap', 'review'), 'track': ('pose_distance', 'TimedPose'),
    'validity': ('ValidityGate',)}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    'BY_GATE', 'BodyConfig', 'BodySettings', 'BodyStatus', 'ChangeLog', 'Disposition',
    'Observed', 'Selection', 'State', 'StateChange', 'SwapCandidate', 'TRANSITIONS', 'TimedPose',
    'ValidityGate', 'configure', 'find_swap', 'matches', 'mermaid', 'pose_distance', 'review',
    'settings_for', 'unmatched']


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(importlib.import_module(f'{__name__}.{_HOMES[name]}'), name)
