# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the motion estimate; apart from it, since settings are checked and not compiled."""

from __future__ import annotations

from dataclasses import dataclass
import math
from typing import Any

from optitrack_vrpn.errors import ConfigurationError
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
    reset_after_s: float = 0.25
    """
    Gap (s) between poses after which the estimate starts again. Chosen: an unknown acceleration of
    10 m/s^2 then makes an error of 2.5 m/s. Halved, short occlusions reset it; doubled, the error
    after a gap is twice as large.
    """

    def check(self) -> None:
        """
        Check the constants.

        :raises ConfigurationError: the gap is not a finite time above zero.
        """
        value = self.reset_after_s
        if not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ConfigurationError(
                f'reset_after_s is {value!r}; give a time above 0')
