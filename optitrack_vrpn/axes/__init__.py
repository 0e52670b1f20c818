# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Convert the poses of bodies to the axes of a machine: table, angles, datagrams, teaching."""
