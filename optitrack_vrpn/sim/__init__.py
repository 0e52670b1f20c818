# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated Motive: motion, faults, network impairments, servers."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('motive_sim', 'command:main', 'a simulated Motive that streams bodies over VRPN and NatNet'),
)
