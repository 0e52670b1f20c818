# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Odometry and maps from a colour and depth camera; see docs/rgbd_odometry.md."""
