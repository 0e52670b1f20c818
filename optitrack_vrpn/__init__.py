# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""OptiTrack motion capture over VRPN for ROS 2."""

from importlib.machinery import EXTENSION_SUFFIXES as _SUFFIXES
import os as _os

# Before any other module of the package: Ctrl-C.
from optitrack_vrpn.cli import early as _early

_early.end_at_interrupt()

__version__ = '0.1.0'
#: How the path of a pose runs: an installed package has extension modules beside its sources.
RUNS = 'compiled' if _os.path.exists(_os.path.join(
    _os.path.dirname(__file__), 'stream', 'pipeline' + _SUFFIXES[0])) else 'as plain Python'
