# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One definition of each setting: a field of a frozen dataclass, declared with ``setting``.

``schema`` declares and checks, ``parameters`` names the fields as ROS parameters, ``documents``
writes YAML files and tables. ``optitrack_vrpn.settings_ros`` declares and reads them in a node.
"""

from optitrack_vrpn.settings.parameters import Parameter, parameters_of, sift
from optitrack_vrpn.settings.schema import allowed, build, Change, checked, section, setting

__all__ = [
    'Change', 'Parameter', 'allowed', 'build', 'checked', 'parameters_of',
    'section', 'setting', 'sift',
]
