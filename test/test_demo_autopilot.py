# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The demo with a fake autopilot, as a new user runs it."""

import re

import pytest
from tool_kit import run_tool

pytestmark = [pytest.mark.ros, pytest.mark.network, pytest.mark.timeout(120)]


def test_a_fake_autopilot_fuses_the_first_body():
    pytest.importorskip('pymavlink')
    result = run_tool('demo', '--autopilot', 'px4', '--seconds', 6)
    assert result.returncode == 0, result.stdout + result.stderr
    found = re.search(
        r'Demo_Body_1: ODOMETRY at (\d+) Hz, ([\d.]+) ms old, reset counter (\d+); '
        'its estimator fuses', ' '.join(result.stdout.split()))
    assert found, result.stdout
    # Promised on any machine: no more than the configured rate, and no old pose.
    assert 0 < int(found[1]) <= 55
    assert float(found[2]) < 100
