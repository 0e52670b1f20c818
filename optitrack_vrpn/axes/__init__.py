# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tracked bodies to the axes of a machine; see docs/axes.md."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.axes.bridge_io import (
        Cycle, CycleThread, encode, load_table, running_ns, UdpSender, write_row)
    from optitrack_vrpn.axes.bridge_ros import AxisBridge, TeachRecorder
    from optitrack_vrpn.axes.mapper import after, AxisMapper, AxisState, Event, Sample, Status
    from optitrack_vrpn.axes.settings import (
        AxisRow, AxisTable, BridgeSettings, DatagramSettings, FRAMES, LowpassSettings,
        MapperSettings, motive_from_enu, pose_from_quantities, quantities_of, Unwrapper)
    from optitrack_vrpn.axes.teach import identify_axis, Recording, report
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('axis_bridge', 'command:main',
     'tracked bodies to the axes of a machine: JointState and UDP at 100 Hz'),
)
NODES = (
    ('axis_bridge', 'settings:BridgeSettings'),
)
