# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What can be wrong with a take: each row has its condition, severity, text and remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from optitrack_vrpn.core.findings import case, find, Finding, Rule
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.takes.assess.conditions import (
    AHEAD_MS, beyond, broken, BUNCHED_SHARE, by_rates, clock_restarted, clock_set, cut, damaged,
    drifted, hidden, in_one_place, JITTER_MS, LATE_MS, LEAST_COVERAGE, left_out, lost, NOISE_MM,
    not_decoded, not_recorded, noted, odd_log_times, over, silent_at_an_end, timed, uncertain)
from optitrack_vrpn.takes.assess.events import TakeFacts
from optitrack_vrpn.takes.assess.figures import Figures
from optitrack_vrpn.takes.take import Take
from optitrack_vrpn.telling.rules import BY_CODE, RATES, TWO_PARENTS

_EACH_IN_VIEW = 'do at least two cameras see three markers of a body wherever it goes?'
_REPAIR = 'repair a bag with record --recover'

#: All rows, of one severity the worst first.
TAKE_RULES: Final[tuple[Rule[TakeFacts], ...]] = (
    # -- those of a stream -----------------------------------------------------------------------
    *(rule.by(by_rates(rule.when)) for rule in RATES),
    BY_CODE['lost'].by(lost),
    # -- those of a take -------------------------------------------------------------------------
    Rule('nothing recorded', ERROR, lambda facts: case(not facts.take.bodies),
         'no pose of any body was recorded',
         'was the node active, and did --bodies fit the names? Run the doctor'),
    Rule('incomplete', ERROR, cut(kind=False),
         'the recording is incomplete: {reason}', _REPAIR,
         place='recorder'),
    Rule('export cut', ERROR, cut(kind=True),
         'the export is incomplete: {reason}', 'export it again from Motive',
         place='recorder'),
    Rule('damaged', ERROR, damaged,
         'the file is damaged in {places} ({reason}): messages of these times are missing',
         _REPAIR,
         place='recorder'),
    Rule('missing messages', ERROR, lambda facts: case(
        facts.take.missing, count=counted(facts.take.missing, 'message')),
         '{count} of those that the recording counts cannot be found in it', _REPAIR,
         place='recorder'),
    Rule('dropped', ERROR, noted('dropped', 'count'),
         'the disk was too slow; dropped messages: {count}',
         'record to a faster disk, or fewer bodies (--bodies)',
         place='recorder'),
    Rule('ended early', ERROR, noted('stopped', 'reason'),
         'the recording ended early: {reason}',
         'make space on the disk, and leave the folder in its place',
         place='recorder'),
    Rule('not recorded', ERROR, not_recorded,
         'messages were lost between publisher and recorder ({topics}){effect}',
         'start node and recorder with config/fast_recording.xml, and the node with qos.depth: '
         '200', place='recorder'),
    Rule('computer clock set', ERROR, clock_set,
         'the clock of the recording computer was set {times} during the take{effect}: '
         'times before and after do not belong together',
         'synchronise it with chrony before a take',
         place='recorder'),
    Rule('never seen', ERROR, lambda facts: case(facts.take.unseen, *facts.take.unseen),
         '{bodies} published no pose during the whole take',
         f'{_EACH_IN_VIEW} Or is it deleted in Motive?'),
    Rule('one pose', ERROR, lambda facts: case(facts.unmeasured, *facts.unmeasured),
         'only one pose of {bodies} was recorded', _EACH_IN_VIEW),
    Rule('server restarted', ERROR, beyond('server restarted'),
         'the server restarted, or its clock was set; {effect}',
         'leave Motive running, and its clock alone, during a take',
         place='server'),
    Rule('connection lost', ERROR, beyond('connection lost'),
         'the connection to the server was lost; {effect}',
         'check Motive, cables and switch',
         place='server'),
    Rule('interrupted by all', ERROR, beyond('interrupted by all', paused=False),
         'the server or the network was interrupted; {effect}',
         'is Motive paused at times, or its machine too busy? Check the network for interruptions',
         place='server'),
    Rule('paused by all', WARN, beyond('interrupted by all', paused=True),
         'the server or the network paused; {effect}',
         'is the machine of Motive too busy? Use a cable instead of WiFi',
         place='server'),
    Rule('changed by all', ERROR, beyond('changed by all'),
         'the server changed or repeated its poses; {effect}',
         'was Motive paused, its ground plane set or its calibration replaced?',
         place='server'),
    Rule('jumped', ERROR, broken('jump'),
         '{bodies}: {count} (jumps in the poses: {jumps}{sizes}; resets reported by the '
         'node: {resets})', 'does Motive confuse the markers? Is their arrangement symmetric or '
         'similar to that of another body, or are there reflections?'),
    Rule('gaps', ERROR, broken('gap', long=True),
         '{bodies}: no pose for up to {longest:.2f} s; {gaps}, {total:.2f} s in total'
         '{change}', _EACH_IN_VIEW),
    Rule('froze', ERROR, broken('frozen'),
         '{bodies}: the same pose was repeated in {spans}: frozen data, not a body at rest',
         f'out of view, and Motive repeats the last pose: {_EACH_IN_VIEW}'),
    Rule('repaired', WARN, noted('recovered', 'detail'),
         'the recording was repaired after an interruption ({detail}); the '
         "recorder's counts of lost messages are missing", 'end the recorder with Ctrl-C',
         place='recorder'),
    Rule('not decoded', WARN, not_decoded,
         '{count} of {total} messages on {topic} could not be decoded and are missing '
         'here', 'they are damaged, or their type has another serialisation or definition than '
         'ROS 2 writes'),
    Rule('left out', WARN, left_out,
         '{count} on {topic} are left out here: {reason}',
         'was a recording played in a loop, or a clock set? Do two publishers use the '
         'topic?'),
    Rule('not counted', WARN, noted('uncounted', 'topics'),
         'losses between publisher and recorder could not be counted ({topics})',
         'record with one publisher on each topic',
         place='recorder'),
    Rule('one name', WARN, lambda facts: case(
        facts.take.shared_names, *facts.take.shared_names),
         'several rigid bodies have the name {bodies}; the second is NAME_2 here',
         'give each rigid body a name of its own in Motive'),
    Rule('silent at an end', WARN, silent_at_an_end,
         'no pose arrived in the {part} {silent:.0f} s of the recording',
         'was the node active, and a body in view?',
         place='server'),
    Rule('short gaps', WARN, broken('gap', long=False),
         '{bodies}: {gaps} of up to {longest:.0f} ms{change}', _EACH_IN_VIEW),
    Rule('seldom seen', WARN, over(
        1.0 - LEAST_COVERAGE, hidden, lambda worst: {'percent': 100.0 * (1.0 - worst)}),
         '{bodies} {was} visible in {percent:.1f} % of the take', _EACH_IN_VIEW),
    Rule('clock restarted', WARN, clock_restarted,
         'the clock model of the sender restarted {times}: stamps step there by up to the '
         'uncertainty', 'was Motive restarted, or its clock set?',
         place='clock'),
    Rule('uncertain stamps', WARN, uncertain,
         'stamps are uncertain by {uncertainty:.1f} ms, at times by {worst:.1f} ms',
         'the network or a busy computer delays frames unevenly: use a cable, reduce the load',
         place='clock'),
    Rule('other clock', WARN, lambda facts: case(
        facts.others_ms, *facts.others_ms,
        latency=max(facts.others_ms.values(), default=0.0) / 1000),
         'stamps of {bodies} are of another clock than that of the recorder: they are '
         '{latency:.0f} s from their arrivals (median)',
         'were they those of a simulation, or were the clocks of both computers not synchronised?',
         place='clock'),
    Rule('odd log times', WARN, odd_log_times,
         'the log times of {count} poses of {bodies} are a year or more from the others: '
         'their latency is unknown', 'was the clock of the recording computer set, or is the file '
         'damaged? The stamps of these poses are used as they are',
         place='clock'),
    Rule('bunched', WARN, over(
        BUNCHED_SHARE, lambda facts: {f.name: f.bunched for f in facts.bodies},
        lambda worst: {'percent': 100.0 * worst}),
         'stamps of {bodies} bunch: {percent:.0f} % of their intervals are shorter than a '
         'fifth of the usual one', 'they seem to be times of arrival, not of exposure, so that '
         'gaps and speeds here are those of the network and the driver: record poses whose stamps '
         'are exposures (this node: stamps.mode tracking)',
         place='clock'),
    BY_CODE['in one place'].by(in_one_place),
    TWO_PARENTS.by(lambda facts: TWO_PARENTS.when(facts.take.parents)),
    Rule('ahead', WARN, over(AHEAD_MS, timed(lambda f: f.ahead_ms)),
         'poses of {bodies} arrive up to {time} before their stamp',
         'the clocks of the computers differ: synchronise them with chrony, or is '
         'stamps.latency_ms too large?',
         place='clock'),
    Rule('late', WARN, over(LATE_MS, timed(lambda f: f.latency_ms)),
         'poses of {bodies} arrive {time} after their stamp (median)',
         'reduce the load of the computers, or the delay of the network'),
    Rule('jitter', WARN, over(JITTER_MS, timed(lambda f: f.jitter_ms)),
         'one pose in a hundred of {bodies} arrives at least {time} later than '
         'the median', 'use a cable instead of WiFi; reduce the load of the computers'),
    Rule('noisy', WARN, over(
        NOISE_MM, lambda facts: {
            f.name: f.rest.sigma3_mm for f in facts.bodies if f.rest is not None},
        lambda worst: {'noise': worst}),
         'noise of {bodies} at rest is {noise:.2f} mm (3 sigma)',
         'calibrate the cameras, or remove reflections'),
    Rule('drifted', WARN, drifted,
         '{bodies} moved by {drift:.2f} mm in {seconds:.0f} s of rest',
         'do the cameras warm up, or does the body slide?'),
)
#: Text for a take without another finding.
NO_FAULT: Final[Rule[TakeFacts]] = Rule(
    'no fault', INFO, lambda facts: case(True, count=counted(len(facts.bodies), 'body')),
    'no fault was found: {count}, no gaps, no jumps, no reported loss', '')


def findings(take: Take, bodies: Sequence[Figures]) -> list[Finding]:
    """Assess a take, worst finding first; a take without faults has one finding that states it."""
    facts = TakeFacts(take, bodies)
    found = find(TAKE_RULES, facts) or find((NO_FAULT,), facts)
    return sorted(found, key=lambda one: -one.severity)
