# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A live page for the lab: where the bodies are, what is wrong, START and STOP."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('dashboard', 'command:main',
     'a live page for browsers and phones: 3D view, findings, START and STOP'),
)
