# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Units of time: stamps and intervals are integers in nanoseconds, texts are decimal seconds."""

import contextlib
from decimal import Decimal, InvalidOperation
from typing import Final

#: Nanoseconds in a second and in a millisecond.
NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000


def parse_seconds(text: str) -> int:
    """Convert decimal seconds to integer nanoseconds, exactly; ValueError for other text."""
    with contextlib.suppress(InvalidOperation):
        value = Decimal(text)
        # Nanoseconds of more digits do not fit into 64 bits.
        if value.is_finite() and value.adjusted() < 10:
            return int((value * NS_PER_S).to_integral_value())
    raise ValueError(f'{text!r} is not a time in seconds')


def format_seconds(time_ns: int) -> str:
    """Format integer nanoseconds as decimal seconds with nine decimals."""
    sign = '-' if time_ns < 0 else ''
    return f'{sign}{abs(time_ns) // NS_PER_S}.{abs(time_ns) % NS_PER_S:09d}'


def span_text(seconds: float) -> str:
    """Format a duration that is not negative, from ms to h, as a person reads it."""
    for limit, scale, digits, unit in (
            (1.0, 1e3, 1, 'ms'), (100.0, 1.0, 1, 's'), (6000.0, 1 / 60, 0, 'min')):
        if seconds < limit:
            return f'{seconds * scale:.{digits}f} {unit}'
    return f'{seconds / 3600:.1f} h'
