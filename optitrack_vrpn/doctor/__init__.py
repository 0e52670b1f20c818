# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find out why poses do or do not arrive: probes, checks, and the command."""

from typing import TYPE_CHECKING

from optitrack_vrpn.faces import lazy

if TYPE_CHECKING:
    from optitrack_vrpn.checks import CheckResult, exit_code, fail, Level, ok, skip, Value, warn
    from optitrack_vrpn.doctor.command import CHECKS, main, Report
    from optitrack_vrpn.doctor.graph import (
        check_lifecycle, check_published, check_publishers, check_qos, check_reach, check_settings)
    from optitrack_vrpn.doctor.graph_ros import Extensions, GraphView
    from optitrack_vrpn.doctor.probes_io import local_nodes, look_up
    from optitrack_vrpn.doctor.results import (
        choose_target, DISCOVERY_VARIABLES, Graph, Lift, LocalProcess, Mismatch, Orphan,
        ProbeResults, RunningNode, Stream, Target, variables_of_node)
    from optitrack_vrpn.doctor.stream import (
        check_axes, check_bodies, check_clock, check_data, check_name, check_rate, check_route,
        check_stamps, Watch)
else:
    __all__, __getattr__ = lazy(globals())

#: Rows of this package; see cli/rows_io.py.
TOOLS = (
    ('doctor', 'command:main',
     'check the connection, the bodies and the ROS graph, and report remedies'),
)
