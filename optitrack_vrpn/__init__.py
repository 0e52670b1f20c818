# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""OptiTrack motion capture over VRPN for ROS 2."""

__version__ = '0.1.0'
