# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""NatNet, OptiTrack's own protocol, and its client."""
