# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One definition of each setting: a field of a frozen dataclass, declared with ``setting``.

``schema`` declares and checks, ``parameters`` names the fields as ROS parameters, ``documents``
writes YAML files and tables. ``node/base/settings_ros.py`` declares and reads them in a node.
"""
