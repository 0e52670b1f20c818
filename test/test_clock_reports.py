# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""How the state of the clock is reported by log, diagnostics, doctor and page."""

from dataclasses import replace

from doctor_results import CLOCK, heard, result
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.node.report import clock_entry
from optitrack_vrpn.takes.dashboard.lab import Lab
from optitrack_vrpn.telling.facts import facts_of_pipeline, StreamFacts
from optitrack_vrpn.telling.rules import of_check, of_entry
from pipeline_kit import HOST, make_pipeline, MS, pose_report, ProblemLog, S
import pytest


def run(sender_ns, seconds=5.0, late_ns=lambda at_ns: 0, rate=240, mode='tracking'):
    """Run frames; gives the pipeline and the lines of the log."""
    pipeline, lines = make_pipeline(mode), []
    log = ProblemLog(pipeline)
    pipeline.reconnected()
    for number in range(round(seconds * rate)):
        taken = number * S // rate
        arrival = S + taken + late_ns(taken) + number * 7919 % 100_000
        pipeline.process(
            [pose_report('wand', sender_ns(taken), (1e-3 * number, 1.0, 0.0))], arrival, HOST)
        pipeline.tick(arrival)
        lines += [*pipeline.take_events(), *log.look(arrival)]
    return pipeline, [line.text for line in lines if line.severity is WARN]


def reported(pipeline):
    """Return what entry, doctor and page report of the clock."""
    facts = facts_of_pipeline(pipeline)
    entry = clock_entry(facts.clock, None, of_entry('clock', facts))
    doctor = result('clock', heard(clock=facts.clock))
    lab = Lab()
    lab.add_report(StatusReport('connection', INFO, 'streaming', {}, '/mocap'), 0.0)
    lab.add_report(replace(entry, node='/mocap'), 0.0)
    (row,) = lab.node_rows(0.0)
    page = row['clock']['message']
    return entry, doctor, page


@pytest.mark.parametrize(('tick_ns', 'said'), [
    (15_625_000, 'tick or jitter by 1'), (4 * S, 'sends no times'), (4 * MS, 'tick or jitter by')])
def test_a_sender_with_coarse_times_is_reported_once_in_each_place(tick_ns, said):
    pipeline, lines = run(lambda taken: 77 * S + taken - taken % tick_ns, seconds=3.0)
    (line,) = [line for line in lines if 'stamps are arrivals' in line]
    assert said in line
    entry, doctor, page = reported(pipeline)
    assert entry.severity is WARN and said in entry.message and said in page
    assert doctor.severity is WARN and said in doctor.found


def test_the_open_explanation_of_longer_delays_is_reported():
    pipeline, lines = run(lambda taken: 77 * S + taken, seconds=120.0, rate=60, late_ns=(
        lambda at_ns: 2_100_000 if at_ns > 100 * S else 0))
    assert not lines
    entry, doctor, page = reported(pipeline)
    for text in (entry.message, doctor.found, page):
        assert 'delays have been 2.1 ms longer for 16 s: load, or a longer route' in text
        assert 'stamps do not follow for another 74 s' in text
    assert entry.severity is INFO and doctor.severity is INFO


def test_frames_that_are_withheld_are_reported():
    """A recording that is played at twice its rate."""
    pipeline, lines = run(lambda taken: 77 * S + 2 * taken, seconds=3.0)
    (line,) = [line for line in lines if 'they come out of a buffer' in line]
    entry, doctor, page = reported(pipeline)
    for text in (line, entry.message, doctor.found, page):
        assert 'no pose is published: since a new connection' in text
    assert entry.severity is WARN and doctor.severity is WARN


@pytest.mark.parametrize('clock, codes', [
    ({'above_s': 0.3}, ['all late']), ({'above_s': 0.2}, []),
    ({'above_s': 0.3, 'withheld': 'a stall', 'withheld_s': 0.9}, []),
    ({'above_s': 0.3, 'withheld': 'a stall', 'withheld_s': 1.0}, ['out of a buffer']),
    ({'above_s': 0.01, 'above_since_s': 4.9}, []),
    ({'above_s': 0.01, 'above_since_s': 5.0}, ['longer delays']),
    ({'above_s': 0.01, 'above_since_s': 9.0, 'withheld': 'a stall', 'withheld_s': 0.1}, [])])
def test_delays_are_findings_when_they_last_and_frames_are_fresh(clock, codes):
    found = of_check('clock', StreamFacts(clock=replace(CLOCK, **clock), max_age_s=0.25))
    assert [one.code for one in found] == codes
