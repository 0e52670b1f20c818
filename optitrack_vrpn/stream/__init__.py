# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""From frames to samples: stamps, validity, axes, motion. Pure."""
