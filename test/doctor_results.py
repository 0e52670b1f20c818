# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Results of a healthy conversation, for tests of the checks of the doctor."""

from dataclasses import replace

from conftest import lacking
from optitrack_vrpn.core.stats import Intervals
from optitrack_vrpn.drivers.driver import LinkStatus
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.stream.clock.types import ClockStatus
from optitrack_vrpn.telling.doctor.checks import CHECKS
from optitrack_vrpn.telling.doctor.results import ProbeResults, WatchedStream
from optitrack_vrpn.telling.facts import BodyFacts

CLOCK = ClockStatus(
    mode='tracking', by_arrival=False, learnt=True, offset_ns=10**18, skew_ppm=1.0,
    uncertainty_s=1e-4, restarts={}, samples=400, sender_base='sender_start', jitter_p99_s=5e-4)


def body(name, state=State.TRACKED, detail='seen', **intervals):
    return BodyFacts(BodyStatus(name, state, 0, 120.0, 0.01, 0, 100, 0, 0, detail), Intervals(
        **{'frames': 480, 'interval_s': 1.0 / 120.0, 'span_s': 4.0, **intervals}))


def heard(**changes):
    """Make facts of a healthy conversation, but for what a test changes in its stream."""
    facts = ProbeResults(
        'motive', 3883, addresses=('192.168.1.20',), local='192.168.1.5', card='eth0', by='vrpn')
    facts.stream = replace(WatchedStream(
        link=LinkStatus(transport='udp'), listened_s=4.0, first_pose_s=0.01, poses=960,
        bodies=(body('drone'), body('wand')), clock=CLOCK, newest_sender_ns=10**12), **changes)
    return facts


def judged(result, level, *found, advice=(), without=()):
    """
    Assert the level of a result, and parts of what it says; gives the result.

    :param found: parts of the finding.
    :param advice: parts of the advice.
    :param without: parts of neither.
    """
    assert result.severity is level, result
    assert not lacking(result.found, *found)
    assert not lacking(result.advice, *advice)
    assert not [part for part in without if part in f'{result.found}\n{result.advice}']
    return result


def check_all(facts):
    """Run all checks on the results of the probes."""
    return [check.run(facts) for check in CHECKS]


def result(name, facts):
    """Run one check."""
    return next(one for one in CHECKS if one.name == name).run(facts)
