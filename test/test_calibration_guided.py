# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The guided session: what it asks for, what it shows in 80 x 24, the take that it records."""

import io
import re

from calibration_kit import Case, simulate
from optitrack_vrpn.takes.calibrate.data import make_problem
from optitrack_vrpn.takes.calibrate.guided import advice, is_done, measure, STAGES, view
from optitrack_vrpn.takes.calibrate.imu import calibrate_imu
import pytest
from rich.console import Console
from rosgraph import NodeProcess

WHOLE = sum(stage.seconds for stage in STAGES)


def progress(case, elapsed_s=30.0):
    """Return the session after a simulated motion."""
    poses, imu, _ = simulate(case, 2)
    problem = make_problem(poses, imu)
    return measure(problem, elapsed_s, 120.0, calibrate_imu(poses, imu))


def screen(shown):
    """Return the lines of a screen of 80 columns."""
    console = Console(width=80, height=24, file=io.StringIO(), force_terminal=True,
                      color_system=None, legacy_windows=False)
    console.print(view(shown, 'calibrate drone_with_a_long_name /namespace/imu/data_raw'))
    return console.file.getvalue().rstrip('\n').split('\n')


@pytest.mark.slow
def test_the_screen_fits_and_shows_what_is_still_missing():
    good = progress(Case('good', seconds=25.0))
    assert good.rates.min() > 0.5 and good.tracked > 0.99
    one_axis = progress(Case('one', seconds=25.0, angles_deg=(40.0, 0.0, 0.0)))
    assert one_axis.rates[2] > 0.3 > one_axis.rates[:2].max()
    for shown in (good, one_axis):
        lines = screen(shown)
        assert len(lines) <= 23 and max(map(len, lines)) <= 80
        assert STAGES[2].text in '\n'.join(lines)
    assert 'no value yet' in '\n'.join(screen(one_axis))
    after = one_axis._replace(elapsed_s=WHOLE + 1.0)
    assert 'roll and pitch' in advice(after) and not is_done(after)
    assert is_done(good._replace(elapsed_s=WHOLE + 1.0)) and not is_done(good)
    assert is_done(after._replace(elapsed_s=120.0))


@pytest.mark.slow
def test_a_side_counts_when_it_is_down_at_rest():
    poses, imu, _ = simulate(Case('still', seconds=25.0, angles_deg=(0, 0, 0), reach=(0, 0, 0)), 1)
    assert progress(Case('moving', seconds=25.0)).attitudes == 0
    assert measure(make_problem(poses, imu), 0.0, 1.0, None).attitudes == 1


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
