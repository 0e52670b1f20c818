# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated Motive: motion, faults, network impairments, servers."""
