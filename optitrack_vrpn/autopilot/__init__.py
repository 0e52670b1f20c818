# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses of one body to a PX4 or ArduPilot vehicle; see docs/autopilot.md."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.autopilot.bridge_ros import MavlinkBridge
    from optitrack_vrpn.autopilot.check_ros import running
    from optitrack_vrpn.autopilot.exchanges import (
        Agreement, judge_attitude, judge_position, PX4_ANSWERS, REQUEST_PERIOD_NS, Timesync)
    from optitrack_vrpn.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig, FakeServer
    from optitrack_vrpn.autopilot.gate import (
        BACKWARDS_LIMIT, Feed, Gate, MAX_AHEAD_NS, Output, stop_refusal, Use, valid, Withheld)
    from optitrack_vrpn.autopilot.link_io import Batch, Codec, LinkThread, WAITING
    from optitrack_vrpn.autopilot.messages import (
        ardupilot_transform, convert, euler_zyx, make, Outgoing, px4_odometry, Sample, State)
    from optitrack_vrpn.autopilot.parameters import (
        ANSWER_NS, decode, encode, ParameterProtocol, REAL32, rules)
    from optitrack_vrpn.autopilot.report import findings, LinkReport, Source
    from optitrack_vrpn.autopilot.settings import (
        BridgeSettings, MESSAGES, parse, plan, PROFILES, WIRE_BYTES)
    from optitrack_vrpn.autopilot.transport_io import open_transport, Transport
    from optitrack_vrpn.autopilot.vehicle import Incoming, Link, LinkEvent, TRANSITIONS, Vehicle
else:
    __all__, __getattr__ = lazy(globals())

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
