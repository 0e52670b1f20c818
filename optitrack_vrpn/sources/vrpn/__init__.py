# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The VRPN wire protocol: bytes to events and back, no socket and no clock."""
