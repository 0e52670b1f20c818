# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What /diagnostics says of a body, from statuses made by hand."""

from optitrack_vrpn.core.body.states import BodyStatus, State
from optitrack_vrpn.core.report import body_entry, Level
import pytest


def entry(rate_hz, state=State.TRACKED, **rates):
    status = BodyStatus('Wand', state, 0, rate_hz, 0.01, 0, 100, {}, 0, 0, 'seen')
    return body_entry('wand', status, 0, 0, **rates)


@pytest.mark.parametrize(('rate', 'expected', 'fastest', 'level', 'said'), [
    (120.0, 0.0, 120.0, Level.OK, 'TRACKED'),
    (59.94, 0.0, 59.94, Level.WARN, 'the rate of a display'),
    (60.0, 0.0, 60.0, Level.WARN, 'set expected_rate_hz: 60'),
    (60.0, 60.0, 60.0, Level.OK, 'TRACKED'),
    (59.94, 60.0, 59.94, Level.OK, 'TRACKED'),
    (60.0, 240.0, 60.0, Level.WARN, '60 Hz where 240 Hz is expected'),
    (60.0, 0.0, 120.0, Level.WARN, '60 Hz where 120 Hz is expected'),
    (50.0, 0.0, 50.0, Level.OK, 'TRACKED'),
    (0.0, 240.0, 0.0, Level.OK, 'TRACKED'),
])
def test_a_rate_below_the_cameras_and_that_of_a_display_are_warnings(
        rate, expected, fastest, level, said):
    found = entry(rate, expected_hz=expected, fastest_hz=fastest)
    assert found.level is level
    assert said in found.message
    assert found.values['nominal_rate_hz'] == (
        f'{expected or fastest:.1f}' if expected or fastest else 'unknown')


def test_why_a_body_is_gone_comes_before_its_rate():
    assert entry(60.0, State.FROZEN).message.startswith('FROZEN')
    assert entry(60.0, State.STALE).level is Level.STALE
