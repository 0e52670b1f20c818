# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Positions in millimetres are named, by every protocol; far bodies of a large hall are not."""

from optitrack_vrpn.drivers.frames import Body, Frame
from pipeline_kit import make_pipeline, ProblemLog
import pytest


@pytest.mark.parametrize('position, warned', [
    ((1000.0, 1000.0, 500.0), True), ((0.0, -500.0, 0.0), True), ((30.0, 2.0, -40.0), False),
    ((float('nan'), 0.0, 0.0), False), ((float('inf'), 0.0, 0.0), False)])
def test_positions_of_hundreds_of_metres_are_called_millimetres_once(position, warned):
    pipeline = make_pipeline('arrival')
    log = ProblemLog(pipeline, 0)
    for number in range(50):
        now = 10**12 + number * 10**7
        pipeline.process([Frame(now, [Body('drone', 0, now, position, (0, 0, 0, 1.0))])], now, 0)
        log.look(now)
    said = [line.text for line in log.lines if 'millimetres' in line.text]
    assert len(said) == warned
    assert all('Scale 1' in text and "'drone'" in text for text in said)
