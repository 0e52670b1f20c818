# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""All checks of the doctor, in the order in which one builds upon the other."""

from __future__ import annotations

from collections.abc import Callable

from optitrack_vrpn.doctor import bodies, graph, network, stream
from optitrack_vrpn.doctor.probe_results import Facts
from optitrack_vrpn.doctor.result import Finding

Judge = Callable[[Facts], Finding]

#: Stage to its checks. All checks of a stage are judged once its facts are there.
STAGES: dict[str, tuple[Judge, ...]] = {
    'name': (network.judge_name,),
    'route': (network.judge_route,),
    'ways': (network.judge_udp, network.judge_connect_back, network.judge_tcp),
    'stream': (
        stream.judge_handshake, stream.judge_senders, stream.judge_data, stream.judge_rate,
        bodies.judge_bodies, stream.judge_axes, stream.judge_stamps, stream.judge_clock),
    'graph': (
        graph.judge_qos, graph.judge_publishers, graph.judge_lifecycle, graph.judge_settings),
}


def judge(facts: Facts) -> list[Finding]:
    """Judge everything at once."""
    return [check(facts) for checks in STAGES.values() for check in checks]
