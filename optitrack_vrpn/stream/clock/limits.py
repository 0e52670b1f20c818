# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All constants of the clock, in nanoseconds unless the name has another unit."""

from typing import Final

WINDOW_NS: Final = 250_000_000
"""Freshness compares the least lags of windows of this length; frames that are later than this
are a stall. The largest age of a pose is as long by default (``stamps.max_age_s``)."""
EARLY_NS: Final = 4_000_000
"""The least lag falls by more within a second, or between windows: a step of a clock, or a buffer
that drains. Chosen: below a frame at 240 Hz; a line with a skew of 1000 ppm falls by
1 ms a second."""
LATE_NS: Final = 20_000_000
"""Delay of any network but a bad one: uncertainty of the first frame. Delays that are longer by
more in every frame of ``HOLD_NS`` are another route, or a clock that was set: a poll at the rate
of the frames moves arrivals by a frame (17 ms at 60 Hz)."""
HOLD_NS: Final = 1_500_000_000
"""See ``LATE_NS``; stalls of a network are shorter."""
PACE: Final = 0.02
"""The least lag may change by this share of the time passed: a buffer that drains so slowly holds
50 times the age of its oldest frame."""
SECOND_NS: Final = 1_000_000_000
"""Length of a block, of which the least lag is remembered, and of the way to a new line; a stamp
waits no longer until stamps rise; round trips that take longer are none."""
HULL_NS: Final = 300_000_000_000
"""Least lags are remembered for this time: thermal waves of a clock last longer."""
EDGE_NS: Final = 90_000_000_000
"""The hull is read at this age: load that is shorter cannot lift the line (facts: 30 to 60 s)."""
MOST_SKEW: Final = 1e-3
"""Two crystals differ by less (s/s): 200 ppm is the most that was measured."""
RATE: Final = 5e-6
"""Error of the rate of a line (s/s), for round trips that are carried along it: 0.5 ms in
``EDGE_NS``, thermal waves of 5 ppm included."""
MOST_SLEW: Final = 0.1
"""A host's clock that changes faster (s/s) was set: chrony slews by up to 8.3 %."""
RESOLUTION_NS: Final = 25_000
"""Errors of a line with perfect minima: measured on a wire. Two readings of a clock that are
further apart were interrupted."""
ERRORS: Final = 4
"""Stated uncertainty in standard errors of the least lags; seconds in a row whose least lag is
above the line, until their delays are longer."""
JUDGED: Final = 200
"""Frames of a body from which the sender's times are judged: less than a second at 240 Hz, and
eight beats of ticks of 4 ms. The jitter shown is that of as many frames; the times of twice as
many are remembered."""
LIMIT_NS: Final = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) are below it."""
