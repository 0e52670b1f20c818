# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""OptiTrack motion capture over VRPN for ROS 2."""

# Before any other module of the package: Ctrl-C.
from optitrack_vrpn.cli import early as _early

_early.end_at_interrupt()

__version__ = '0.1.0'
RUNS = _early.form()
