# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The ROS graph: names of nodes, conflicting publishers, domains."""
