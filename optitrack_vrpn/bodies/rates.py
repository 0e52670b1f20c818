# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Checks of the frame rate against the cameras and Motive's settings."""

from __future__ import annotations

TOO_SLOW = 0.9
"""
A body below this fraction of the fastest body's rate, or of the cameras', is reported. Chosen:
lost frames have a check of their own from 3 % on. Halved, every second frame can be missing;
closer to 1, lost frames are reported as a wrong rate.
"""
WHERE_TO_LOOK = (
    'look at the camera rate in Motive and at the frame divisor of its streaming settings')
_DISPLAY_HZ = (58.5, 61.5)
"""
Rate (Hz) of usual displays, 60, with the error of a rate measured over a second. Chosen. Half as
wide, a display is missed; twice as wide, cameras at 57 or 63 Hz count as one.
"""


def display_rate(rate_hz: float, expected_hz: float) -> str:
    """
    Recognise the rate of a display, at which some installations stream while cameras run faster.

    :param rate_hz: the measured rate (Hz).
    :param expected_hz: the cameras' rate given by the user (Hz), or 0; with it, this check is not
        needed.
    :returns: the warning, or ''.
    """
    if expected_hz or not _DISPLAY_HZ[0] <= rate_hz <= _DISPLAY_HZ[1]:
        return ''
    return (f'{rate_hz:.1f} Hz is the rate of a display; some installations stream at it while '
            'their cameras run faster')
