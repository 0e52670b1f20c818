# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a frame rate shows about the cameras and Motive's settings, for diagnostics and doctor."""

from __future__ import annotations

TOO_SLOW = 0.9
"""
A body below this share of the fastest body's rate, or of the cameras', is reported. Chosen: loss
of 3 % is reported elsewhere. Halved, every second frame can be missing; nearer to 1, loss is
reported as a wrong rate.
"""
WHERE_TO_LOOK = (
    'look at the camera rate in Motive and at the frame divisor of its streaming settings')
_DISPLAY_HZ = (58.5, 61.5)
"""Rates (Hz) of usual displays, with the error of a rate that is measured over a second."""


def display_rate(rate_hz: float, expected_hz: float) -> str:
    """
    Recognise the rate of a display, at which some installations stream while cameras run faster.

    :param rate_hz: the rate found (Hz).
    :param expected_hz: the cameras' rate as the user gave it (Hz), 0 where not: where it is given,
        this check is not needed.
    :returns: what is suspicious, or '' where nothing is.
    """
    if expected_hz or not _DISPLAY_HZ[0] <= rate_hz <= _DISPLAY_HZ[1]:
        return ''
    return (f'{rate_hz:.1f} Hz: the rate of a display, which some installations are stuck at '
            'while their cameras run faster')
