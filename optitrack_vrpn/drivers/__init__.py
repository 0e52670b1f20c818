# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Sources of frames: what they deliver, whatever the protocol, and the table of protocols."""
