# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A live page for the lab: where the bodies are, what is wrong, START and STOP."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.dashboard.access import Access, Right
    from optitrack_vrpn.dashboard.causes import find, FindingLog
    from optitrack_vrpn.dashboard.control import ControlLog, System
    from optitrack_vrpn.dashboard.lab import Lab
    from optitrack_vrpn.dashboard.takes_io import Takes
    from optitrack_vrpn.dashboard.wire import read_statuses, read_transforms, Transform
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('dashboard', 'command:main',
     'a live page for browsers and phones: 3D view, findings, START and STOP'),
)
