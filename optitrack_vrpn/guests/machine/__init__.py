# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tracked bodies to the axes of a machine, and a machine in closed loop."""

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('axis_bridge', 'axis_bridge_command:main',
     'tracked bodies to the axes of a machine: JointState and UDP at 100 Hz'),
    ('gantry_controller', 'gantry_command:controller',
     'the lifecycle node that moves a machine in closed loop on mocap'),
    ('gantry_sim', 'gantry_command:simulate',
     'a simulated machine with slip, and a simulated Motive that sees it'),
    ('gantry', 'gantry_command:main', 'watch and command a gantry_controller'),
)
NODES = (
    ('axis_bridge', 'axes_settings:AxisBridgeSettings'),
    ('gantry_controller', 'gantry_settings:ControllerSettings'),
)
