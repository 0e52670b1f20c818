# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Applications on top of the poses. Nothing imports a guest."""
