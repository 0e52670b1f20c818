# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start and stop capture systems together; see docs/mocap_control.md."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'controller_ros': 'MocapController',
    'messages_ros': 'CONTROL_QOS Dialect find_dialects how_to_install INFO_LISTENER_QOS',
    'participant_ros': 'ControlledLifecycleNode MocapControl',
    'protocol': 'Command ControlConfig GENERATIONS Kind',
    'round': 'KnownSystem Listeners Round',
})

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('mocap_control', 'command:main', 'start, stop and list capture systems over mocap control'),
)
