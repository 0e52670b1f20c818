# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What is known of a rigid body: whether to believe its poses, how it moves, which are wanted."""
