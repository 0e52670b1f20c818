# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated Motive: motion, faults, network impairments, servers."""

from optitrack_vrpn.faces import lazy

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('motive_sim', 'command:main', 'a simulated Motive that streams bodies over VRPN and NatNet'),
)
__all__, __getattr__ = lazy(__name__, {
    'acceptor_io': 'Acceptor raw_clock_ns',
    'command': 'announce serve',
    'impairments': 'Link',
    'imu': 'enu_pose gravity_of ImuModel SimulatedImu',
    'motion': 'arranged Handheld MotionState',
    'natnet': 'NatNetWorld',
    'natnet_settings': 'NatNet',
    'scenario_io': 'load_scenario MAX_BODIES named_bodies Network Scenario scenario_from_mapping '
                   'Server',
    'server_io': 'MotiveSimServer Served',
    'stream': 'Counters',
    'world': 'World',
})
