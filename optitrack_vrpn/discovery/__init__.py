# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Many robots on one network: Fast DDS's Discovery Server, multicast, clocks."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.discovery.instructions import for_robots, PORT, super_client_profile
    from optitrack_vrpn.discovery.judge import judge_clocks, judge_multicast, Unicast
    from optitrack_vrpn.discovery.server_io import ready
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('discovery_server', 'command:main',
     "start Fast DDS's Discovery Server, and say what each robot sets"),
)
CHECKS = (
    'checks_ros:MulticastCheck',
    'checks_ros:ClockCheck',
)
