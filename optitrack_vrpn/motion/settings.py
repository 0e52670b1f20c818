# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the motion estimate; apart from it, since settings are checked and not compiled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optitrack_vrpn.settings import Change, checked, setting


def _noise(default: float, unit: str, doc: str) -> Any:
    return setting(default, unit=unit, low=1e-9, high=1e6, doc=doc, change=Change.ANY_TIME)


@checked
@dataclass(frozen=True)
class MotionConfig:
    """
    Noises of the motion estimate.

    Process noise is the square root of the power spectral density of the jerk: in one second the
    acceleration changes by that much (one sigma), growing with the square root of time. Defaults
    are chosen: noise of a well calibrated room, process noise of a small drone.
    """

    position_noise: float = _noise(
        0.0003, 'm', 'standard deviation of a measured position, each axis; used until the body '
        'has been at rest, where the noise is learned')
    attitude_noise: float = _noise(
        0.002, 'rad', 'standard deviation of a measured attitude, each axis; used likewise')
    process_noise: float = _noise(
        10.0, 'm/s^3/sqrt(Hz)', 'process noise of the acceleration at which adaptation starts; '
        'a larger value follows faster, a smaller one is smoother')
    angular_process_noise: float = _noise(
        20.0, 'rad/s^3/sqrt(Hz)', 'the same for the angular acceleration')
    adaptive: bool = True
    """Learn both process noises from the motion, up to a factor of 100 in both directions."""
