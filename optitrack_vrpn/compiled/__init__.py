# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The path of a pose, compiled from the same files by mypyc where that is possible."""
