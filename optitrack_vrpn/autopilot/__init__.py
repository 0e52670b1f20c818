# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses of one body to a PX4 or ArduPilot vehicle; see docs/autopilot.md."""

from optitrack_vrpn.faces import lazy

__all__, __getattr__ = lazy(__name__, {
    'agreement': 'Agreement judge_attitude judge_position',
    'bridge_ros': 'MavlinkBridge',
    'check_ros': 'running',
    'codec_io': 'Codec',
    'connection': 'parse',
    'fake_autopilot': 'FakeAutopilot FakeConfig',
    'fake_autopilot_io': 'FakeServer',
    'feed': 'Feed Output stop_refusal Use',
    'gate': 'BACKWARDS_LIMIT Gate GateConfig MAX_AHEAD_NS Withheld',
    'link_io': 'Batch LinkThread WAITING',
    'messages': 'ardupilot_transform convert euler_zyx make Outgoing px4_odometry '
                'Sample State',
    'parameter_protocol': 'ANSWER_NS ParameterProtocol',
    'parameters_check': 'decode encode REAL32 rules',
    'report': 'findings LinkReport Source',
    'settings': 'BridgeSettings MESSAGES plan PROFILES WIRE_BYTES',
    'timesync': 'PX4_ANSWERS REQUEST_PERIOD_NS Timesync',
    'transport_io': 'open_transport Transport',
    'vehicle': 'Happening Incoming Link TRANSITIONS Vehicle',
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
