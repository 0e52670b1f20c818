# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One definition of each setting: a field of a frozen dataclass, declared with ``setting``.

``schema`` declares and checks, ``parameters`` names the fields as ROS parameters, ``documents``
writes YAML files and tables. ``optitrack_vrpn.settings_ros`` declares and reads them in a node.
"""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.settings.documents import markdown_table, parameter_file, yaml_value
    from optitrack_vrpn.settings.parameters import (
        changed, is_foreign, Parameter, parameters_of, sift, unknown)
    from optitrack_vrpn.settings.schema import (
        allowed, build, Change, checked, did_you_mean, hints_of, LifecycleSettings, section,
        setting, shown)
else:
    __all__, __getattr__ = lazy(globals())
