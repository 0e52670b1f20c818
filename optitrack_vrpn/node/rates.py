# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The settings ``rates.OUTPUT``, one for each row of ``KINDS`` that has a default rate."""

from dataclasses import make_dataclass
from typing import Any

from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.settings import Change, checked, setting

_MEANING = {
    'tf': 'highest rate of transforms of bodies, in both worlds; 0: every frame',
    'poses': ('highest rate of poses, poses_v2, pose_array, rigid_bodies and rigid_body_array; '
              '0: every frame')}
#: The output whose rate that of another follows.
FOLLOWS = {'tf_ned': 'tf'}


def _settings(name: str, of_body: bool) -> Any:
    made: Any = make_dataclass(name, [
        (kind.name, float, setting(
            kind.rate_hz, unit='Hz', low=0.0, high=10000.0, change=Change.ANY_TIME, doc=(
                _MEANING.get(kind.name, f'highest rate of {kind.name}; 0: every pose'))))
        for kind in KINDS.values()
        if kind.rate_hz is not None and (not of_body or kind.per_body or kind.name == 'tf')],
        frozen=True)
    return checked(made)()


#: Default rates of all bodies, and the ones that a single body can have.
RATES = _settings('RateSettings', False)
BODY_RATES = _settings('BodyRateSettings', True)
