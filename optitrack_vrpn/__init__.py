# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""OptiTrack motion capture over VRPN for ROS 2."""

# Before any other module of the package: it decides whether they are imported compiled.
from optitrack_vrpn.compiled import importer_io as _importer_io

__version__ = '0.1.0'
RUNS = _importer_io.MODE.text
