# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The VRPN client: sockets, handshake, link state and message loss."""
