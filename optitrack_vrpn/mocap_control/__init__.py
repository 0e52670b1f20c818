# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start and stop capture systems together; see docs/mocap_control.md."""

from importlib import import_module
from typing import Any

#: Public names by file, which is imported when a name is first used: ROS loads slowly.
_FILES = {
    'controller_ros': 'MocapController',
    'messages_ros': 'find_dialects',
    'participant_ros': 'ControlledLifecycleNode MocapControl',
    'protocol': 'Command ControlConfig GENERATIONS Kind',
    'round': 'KnownSystem Listeners Round',
}
_FILE = {name: file for file, names in _FILES.items() for name in names.split()}
__all__ = list(_FILE)


def __getattr__(name: str) -> Any:
    if name not in _FILE:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_FILE[name]}'), name)
