# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine of several axes in closed loop on motion capture; see docs/gantry.md."""
