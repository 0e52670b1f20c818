# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Factors between units of time: stamps and intervals are integers in nanoseconds."""

from typing import Final

#: Nanoseconds in a second and in a millisecond.
NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
