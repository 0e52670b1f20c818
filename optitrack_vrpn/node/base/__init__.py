# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base classes of nodes, messages as bytes, and what commands need of rclpy."""
