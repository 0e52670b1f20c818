# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Encode the time of sending in a position that looks like that of a body almost at rest.

Bodies stand in a row, half a metre apart, and move by at most two centimetres: x contains the
second, y the nanosecond and z the number of the frame, on scales that are small enough for the
validity gate and large enough for single precision, which some clients use.
"""

#: From one body to the next (m).
APART = 0.5

_NS = 1_000_000_000
_SECOND = 2e-5
_SECONDS = 1000
_NANOSECOND = 2e-11
_FRAME = 1e-6


def mark(now_ns, number):
    """Return the first body's position in a frame sent at CLOCK_MONOTONIC's now."""
    seconds, nanoseconds = divmod(now_ns, _NS)
    return seconds % _SECONDS * _SECOND, nanoseconds * _NANOSECOND, number * _FRAME


def number_of(z):
    """Read the number of the frame."""
    return round(z / _FRAME)


def sent_at(x, y, now_ns):
    """Read when a position was sent (ns of CLOCK_MONOTONIC), less than 1000 s before now."""
    second = round((x + _SECOND) % APART / _SECOND) - 1
    now = now_ns // _NS
    return (now - (now - second) % _SECONDS) * _NS + round(y / _NANOSECOND)
