# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""OptiTrack motion capture over VRPN for ROS 2."""

# Before any other module of the package: Ctrl-C, and whether modules are imported compiled.
from optitrack_vrpn.cli import early as _early

_early.end_at_interrupt()

from optitrack_vrpn.cli.compiled.importer_io import MODE as _MODE    # noqa: E402

__version__ = '0.1.0'
RUNS = _MODE.text
