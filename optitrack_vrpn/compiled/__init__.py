# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The path of a pose, compiled from the same files by mypyc where that is possible."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.compiled.build_io import build
    from optitrack_vrpn.compiled.importer_io import build_folder, MODE
    from optitrack_vrpn.compiled.modules import folder_name, MODULES, SWITCH
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('compile', 'command:main', 'compile the path of a pose with mypyc, or say how it runs'),
)
