# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a frame rate tells of the cameras and of Motive's settings: for diagnostics and doctor."""

from __future__ import annotations

#: A body this much slower than the fastest, or than the cameras, is worth a word.
TOO_SLOW = 0.9
WHERE_TO_LOOK = (
    'look at the camera rate in Motive and at the frame divisor of its streaming settings')
_DISPLAY_HZ = (58.5, 61.5)


def display_rate(rate_hz: float, expected_hz: float) -> str:
    """
    Tell a rate that comes of a display rather than of cameras: the 60 Hz case.

    :param rate_hz: the rate found (Hz).
    :param expected_hz: the cameras' rate as the user gave it (Hz), 0 where not: who says what
        is expected is not asked again.
    :returns: what is suspicious, or '' where nothing is.
    """
    if expected_hz or not _DISPLAY_HZ[0] <= rate_hz <= _DISPLAY_HZ[1]:
        return ''
    return (f'{rate_hz:.1f} Hz: the rate of a display, which some installations are stuck at '
            'while their cameras run faster')
