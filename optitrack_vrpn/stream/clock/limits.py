# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All constants of the clock, in nanoseconds unless the name has another unit."""

from typing import Final

WINDOW_NS: Final = 250_000_000
"""Freshness compares the least lags of halves of this. The largest age of a pose is as long by
default (``validation.max_age_s``), so that a shorter stall cannot hide an old one."""
EARLY_NS: Final = 5_000_000
"""Lag falls by more within a second (a step of a clock, a buffer that drains) or between windows:
chosen, above the jitter of wired networks and below two frames at 240 Hz. The line of a clock that
runs 1000 ppm apart falls by 1 ms a second."""
MOST_EARLY_NS: Final = 20_000_000
"""The same at low rates: a poll at the frame rate moves arrivals by a whole frame (60 Hz)."""
PACE: Final = 0.02
"""Lag may fall by this share of the time passed: no clock is that wrong, and a buffer that drains
so slowly holds 50 times its age."""
SPARSE: Final = 3
"""A stall is this many times longer than the usual gap between arrivals; so many frames in a row
that are older than the newest show that the sender's time fell; so many late ones, another
line."""
SECOND_NS: Final = 1_000_000_000
"""Length of a block, of which the least lag is remembered; longest usual gap; longest time for
which frames are reordered, or for which a stamp waits until stamps rise again."""
HULL_NS: Final = 300_000_000_000
"""Least lags are remembered for this time: thermal waves of a clock last longer."""
EDGE_NS: Final = 90_000_000_000
"""The hull is read at this age: load that is shorter cannot lift the line (facts: 30 to 60 s)."""
MOST_SKEW: Final = 1e-3
"""Two crystals differ by less (s/s): 200 ppm is the most that was measured."""
HOLD_NS: Final = 1_500_000_000
"""Delays twice ``EARLY_NS`` above the line in every frame for this time are a longer route or a
clock that was set: stalls of a network are shorter."""
GAP_NS: Final = 30_000_000_000
"""After such a gap the line begins anew: 100 ppm of unknown skew are 3 ms."""
RESOLUTION_NS: Final = 25_000
"""Errors of a line with perfect minima: measured on a wire."""
UNKNOWN_NS: Final = 20_000_000
"""Uncertainty of the first frame: the delay of any network but a bad one."""
JUDGED: Final = 200
"""Frames of a body from which the sender's times are judged: less than a second at 240 Hz, and
eight beats of ticks of 4 ms."""
QUIET_NS: Final = 1_000
"""Readings of the host's clock differ by so much from noise alone: measured, 100 ns to 1 us."""
