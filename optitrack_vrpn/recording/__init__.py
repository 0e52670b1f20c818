# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record, replay, export and report a session, and evaluate odometry against it."""
