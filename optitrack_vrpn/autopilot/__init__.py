# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses of one body to a PX4 or ArduPilot vehicle; see docs/autopilot.md."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'agreement': 'Agreement judge_attitude judge_position',
    'bridge_ros': 'MavlinkBridge',
    'check_ros': 'running',
    'exchanges': 'PX4_ANSWERS REQUEST_PERIOD_NS Timesync',
    'fake_autopilot_io': 'FakeAutopilot FakeConfig FakeServer',
    'gate': 'BACKWARDS_LIMIT Feed Gate MAX_AHEAD_NS Output stop_refusal Use Withheld',
    'link_io': 'Batch Codec LinkThread WAITING',
    'messages': 'ardupilot_transform convert euler_zyx make Outgoing px4_odometry Sample State',
    'parameters': 'ANSWER_NS decode encode ParameterProtocol REAL32 rules',
    'report': 'findings LinkReport Source',
    'settings': 'BridgeSettings MESSAGES parse plan PROFILES WIRE_BYTES',
    'transport_io': 'open_transport Transport',
    'vehicle': 'Incoming Link LinkEvent TRANSITIONS Vehicle',
})

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('mavlink_bridge', 'command:main',
     'poses of one body to a PX4 or ArduPilot vehicle, and a check before the take-off'),
)
NODES = (
    ('mavlink_bridge', 'settings:BridgeSettings'),
)
CHECKS = (
    'check_ros:BridgeChecks',
)
