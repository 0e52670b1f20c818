# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Whatever is done to a trajectory, no bad pose goes out and few good ones are withheld."""

import importlib.util
from pathlib import Path
import sys

import pytest

from optitrack_vrpn.core.body.config import BodyConfig

PATH = Path(__file__).resolve().parent.parent / 'bench' / 'bodies.py'


def load():
    spec = importlib.util.spec_from_file_location('bodies_bench', PATH)
    bench = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = bench
    spec.loader.exec_module(bench)
    bench.EVENTS = 2
    return bench


bench = load()
PASSIVE = BodyConfig(
    acquire_frames=1, stale_frames=0, frozen_after_s=0, detect_zeroed=False, max_speed=0,
    max_angular_rate=0, max_turn=0)


@pytest.mark.parametrize('case', bench.CASES, ids=[case.name for case in bench.CASES])
def test_no_bad_pose_goes_out_and_few_good_ones_are_withheld(case):
    outcome = bench.run(case, 100.0)
    assert outcome.bad_out == 0
    assert max(outcome.withheld, default=0) < BodyConfig().acquire_frames


@pytest.mark.parametrize('case', [c for c in bench.CASES if 'flip' in c.name
                                  or 'teleport' in c.name or 'zeroed' in c.name
                                  or 'exchange' in c.name or 'frozen' in c.name],
                         ids=lambda case: case.name)
def test_the_faults_are_faults(case):
    """With every check off the same poses do go out: the table counts what it should."""
    outcome = bench.run(case, 100.0, PASSIVE)
    assert outcome.bad_sent > 0
    assert outcome.bad_out >= 0.9 * outcome.bad_sent or 'zero attitude' in case.name
