# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for any rclpy node: run, log, parameters, CDR, transforms."""
