# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The fault table detects violations, and one case of it runs."""

import os
from pathlib import Path
import subprocess
import sys
import time
from types import SimpleNamespace

BENCH = Path(__file__).resolve().parent.parent / 'bench'
sys.path[:0] = [str(BENCH)]

from fault_kit import Heard, RATE, scenario, Server, Session  # noqa: E402
from optitrack_vrpn.core.axes import AxesConfig, frame_maps  # noqa: E402
from optitrack_vrpn.sim.scenario_io import scenario_from_mapping  # noqa: E402
from optitrack_vrpn.sim.world import World  # noqa: E402
import pytest  # noqa: E402

pytestmark = [pytest.mark.ros]
FRAMES = 200


@pytest.fixture
def session():
    """Make a session in which two bodies were heard perfectly for two seconds."""
    session = Session(2, listen=False)
    server = Server.__new__(Server)
    server.world = World(scenario_from_mapping(scenario(2)))
    server.origin_ns = server.begin_ns = time.time_ns() - 4 * 10**9
    server.end_ns, server.away = 1 << 62, []
    server.process = SimpleNamespace(poll=lambda: 0)
    session.servers.append(server)
    maps = frame_maps(AxesConfig())
    for number in range(FRAMES):
        at_ns = server.origin_ns + round(number * 1e9 / RATE)
        for report in server.world.frame(number).reports:
            session.heard[report.name].append(Heard(
                at_ns + 1_000_000, at_ns + 500_000, maps.position_to_enu(report.position),
                maps.quat_to_enu(report.quat_xyzw)))
    return session


def judged(session):
    origin_ns = session.servers[0].origin_ns
    return session.judge(origin_ns, origin_ns + round(FRAMES * 1e9 / RATE) + 500_000_000)


def faults_of(session):
    found = judged(session)
    return {key: found[key] for key in ('stale', 'wrong', 'repeated', 'backwards', 'lost')
            if found[key]}


def test_what_is_published_well_is_found_well(session):
    found = judged(session)
    assert faults_of(session) == {'lost': 2}, 'frame 200 itself was not heard'
    assert found['made'] == 2 * (FRAMES + 1)
    assert found['oldest_ms'] == pytest.approx(1.0, abs=0.01)
    assert found['stamp_error_ms'] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize('change, expected', [
    (lambda heard: heard._replace(position=(0.0, 0.0, 0.0)), {'wrong': 1, 'lost': 3}),
    (lambda heard: heard._replace(quat_xyzw=(0.0, 0.0, 0.0, 1.0)), {'wrong': 1, 'lost': 3}),
    (lambda heard: heard._replace(at_ns=heard.at_ns + 700_000_000), {'stale': 1, 'lost': 2}),
    (lambda heard: heard._replace(stamp_ns=heard.stamp_ns - 10**9), {'backwards': 1, 'lost': 2}),
])
def test_one_pose_that_must_not_be_is_counted(session, change, expected):
    heard = session.heard['body1']
    heard[100] = change(heard[100])
    assert faults_of(session) == expected


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_one_case_runs_and_finds_nothing_wrong():
    done = subprocess.run(
        [sys.executable, str(BENCH / 'faults.py'), '--only', 'restarted'],
        capture_output=True, text=True, timeout=110, env=dict(os.environ))
    assert done.returncode == 0, done.stdout + done.stderr
    assert '| server restarted' in done.stdout and ' lost |' in done.stdout
