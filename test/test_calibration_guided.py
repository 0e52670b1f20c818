# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The guided session: what it asks for, what it shows in 80 x 24, the take that it records."""

import io
import re

from optitrack_vrpn.takes.calibrate.guided import STAGES, view
import pytest
from rich.console import Console
from rosgraph import NodeProcess


def screen(shown):
    """Return the lines of a screen of 80 columns."""
    console = Console(width=80, height=24, file=io.StringIO(), force_terminal=True,
                      color_system=None, legacy_windows=False)
    console.print(view(shown, 'calibrate drone_with_a_long_name /namespace/imu/data_raw'))
    return console.file.getvalue().rstrip('\n').split('\n')


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_the_demo_shows_the_whole_way_to_the_simulated_values():
    with NodeProcess('--calibrate', '--seconds', 25, tool='demo', ros=False) as demo:
        assert demo.process.wait(150.0) == 0, demo.log
    assert STAGES[0].text in demo.log and 'recorded calibration_' in demo.log
    found = {name: [float(number) for number in re.findall(r'-?\d+\.\d+', text)] for name, text in
             re.findall(r'^(\w+): (.*) \+- ', demo.log, re.MULTILINE)}
    # On a busy machine the stamps of the node are less exact: see test_calibration_end_to_end.
    assert found['latency_ms'][0] == pytest.approx(5.5, abs=1.0), demo.log
    assert found['lever_arm_m'] == pytest.approx((0.06, -0.04, 0.03), abs=2e-3)
