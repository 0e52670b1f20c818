# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tracked bodies to the axes of a machine; see docs/axes.md."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'bridge_io': 'Cycle CycleThread encode load_table running_ns UdpSender write_row',
    'bridge_ros': 'AxisBridge',
    'mapper': 'after AxisMapper AxisState Event Sample Status',
    'settings': 'BridgeSettings DatagramSettings LowpassSettings MapperSettings',
    'table': 'AxisRow AxisTable FRAMES motive_from_enu pose_from_quantities quantities_of '
             'Unwrapper',
    'teach': 'identify_axis Recording report',
    'teach_ros': 'TeachRecorder',
})

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('axis_bridge', 'command:main',
     'tracked bodies to the axes of a machine: JointState and UDP at 100 Hz'),
)
NODES = (
    ('axis_bridge', 'settings:BridgeSettings'),
)
