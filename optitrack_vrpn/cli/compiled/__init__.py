# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The path of a pose, compiled from the same files by mypyc where that is possible."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('compile', 'command:main', 'compile the path of a pose with mypyc, or say how it runs'),
)
