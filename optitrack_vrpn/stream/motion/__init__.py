# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames, rotations, velocities, smoothing and noise of one body."""
