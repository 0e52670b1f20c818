# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Rigid bodies: selection, validity of poses, names exchanged, states."""
