# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Write into a position when it was sent, so that no bridge can tell it from a body that rests.

Bodies stand in a row, half a metre apart, and move by no more than two centimetres: x tells the
second, y the nanosecond and z the number of the frame, each on a scale so fine that a node judges
them like any body's, and so coarse that single precision (some clients have no more) keeps them.
"""

#: From one body to the next (m).
APART = 0.5

_NS = 1_000_000_000
_SECOND = 2e-5
_SECONDS = 1000
_NANOSECOND = 2e-11
_FRAME = 1e-6


def mark(now_ns, number):
    """Give the first body's position in a frame sent at CLOCK_MONOTONIC's now."""
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
