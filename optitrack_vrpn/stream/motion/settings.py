# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the motion estimate; apart from it, since settings are checked and not compiled."""

from __future__ import annotations

from dataclasses import dataclass

from optitrack_vrpn.core.settings.schema import Change, checked, setting


@checked
@dataclass(frozen=True)
class MotionConfig:
    """
    Noises of the motion estimate.

    Process noise is the square root of the power spectral density of the jerk: in one second the
    acceleration changes by that much (one sigma), growing with the square root of time. Defaults
    are chosen: noise of a well calibrated room, process noise of a small drone.
    """

    position_noise: float = setting(
        0.0003, unit='m', low=1e-9, high=1e6, change=Change.ANY_TIME, doc=(
            'standard deviation of a measured position, each axis; used until the body has been '
            'at rest, where the noise is learned'))
    attitude_noise: float = setting(
        0.002, unit='rad', low=1e-9, high=1e6, change=Change.ANY_TIME, doc=(
            'standard deviation of a measured attitude, each axis; used likewise'))
    process_noise: float = 10.0
    """Process noise of the acceleration (m/s^3/sqrt(Hz)) at which adaptation starts."""
    angular_process_noise: float = 20.0
    """The same for the angular acceleration (rad/s^3/sqrt(Hz))."""
    adaptive: bool = True
    """Learn both process noises from the motion, up to a factor of 100 in both directions."""
