# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The folder for what this package remembers about this host."""

import os
from pathlib import Path


def state_folder() -> Path:
    """Return the folder of the package below the user's state folder (XDG base directories)."""
    base = os.environ.get('XDG_STATE_HOME', '')
    if not os.path.isabs(base):
        base = os.path.join('/', os.path.expanduser('~'), '.local/state')
    return Path(base, 'optitrack_vrpn')
