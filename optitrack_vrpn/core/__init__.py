# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What all packages share: errors, names, settings, rotations, units. Pure."""
