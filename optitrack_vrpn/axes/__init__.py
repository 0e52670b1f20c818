# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Tracked bodies to the axes of a machine; see docs/axes.md."""

from importlib import import_module
from typing import Any

#: Public names by file, which is imported when a name is first used: ROS and numpy load slowly.
_FILES = {
    'bridge_ros': 'AxisBridge',
    'cycle_io': 'Cycle CycleThread running_ns',
    'datagram_io': 'encode UdpSender',
    'mapper': 'after AxisMapper AxisState Event Sample Status',
    'quantities': 'FRAMES motive_from_enu pose_from_quantities quantities_of Unwrapper',
    'settings': 'BridgeSettings DatagramSettings LowpassSettings MapperSettings',
    'table': 'AxisRow AxisTable',
    'table_io': 'load_table write_row',
    'teach': 'identify_axis Recording report',
    'teach_ros': 'TeachRecorder',
}
_FILE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = list(_FILE)


def __getattr__(name: str) -> Any:
    if name not in _FILE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_FILE[name]}'), name)
