# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo: a simulated Motive, the node and a table of the received poses."""
