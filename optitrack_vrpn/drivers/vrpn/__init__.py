# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""VRPN: the wire protocol, its client, and the choice between its two transports."""
