# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Small commands."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.tools.parameters_command import (
        generated, parameter_file, settings_class)
    from optitrack_vrpn.tools.topics_command import lines_of
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('parameters', 'parameters_command:main',
     'print a parameter file with all defaults and descriptions'),
    ('topics', 'topics_command:main',
     "list topics or print the messages of one, without ROS 2's own tools"),
)
