# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The table of all checks of the doctor, in the order in which they depend on each other."""

from __future__ import annotations

from collections.abc import Callable

from optitrack_vrpn.doctor import bodies, graph, natnet, network, stream
from optitrack_vrpn.doctor.probe_results import ProbeResults
from optitrack_vrpn.doctor.result import CheckResult

Check = Callable[[ProbeResults], CheckResult]

#: Checks of each stage; they run when the probes of the stage have ended.
STAGES: dict[str, tuple[Check, ...]] = {
    'name': (network.check_name,),
    'route': (network.check_route,),
    'connections': (network.check_udp, network.check_connect_back, network.check_tcp),
    'stream': (
        stream.check_handshake, stream.check_senders, stream.check_data, stream.check_rate,
        bodies.check_bodies, stream.check_axes, stream.check_stamps, stream.check_clock),
    'natnet': (natnet.check_natnet, natnet.check_natnet_data, natnet.check_natnet_clock),
    'graph': (
        graph.check_qos, graph.check_publishers, graph.check_lifecycle, graph.check_settings),
}
