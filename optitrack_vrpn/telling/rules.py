# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What can be wrong with a stream: each row has its condition, severity, text and remedy.

Log, /diagnostics and doctor report these rows; takes and page use some of them again. A new row
needs no other code if its condition uses fields of ``facts``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
import functools
from typing import Final

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.findings import Case, case, find, Finding, Rule
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.drivers.link_rules import UNCONFIRMED, UNCONFIRMED_S, UNDECODABLE
from optitrack_vrpn.drivers.natnet.messages import CERTAIN
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.load_shedding import PATIENCE_NS, PROMPT_NS, STANDING_NS
from optitrack_vrpn.stream.reports import MOST_TEXTS, TEXTS_NS
from optitrack_vrpn.telling.conditions import (
    absent, all_late, coarse, contradicted, datagrams, each, epoch, exchanged, held, ignored,
    in_one_place, in_state, lacked, lacking, late_times, longer_delays, lost, of_names,
    other_parents, out_of_a_buffer, paused, percent, quiet, refused, repeated_times, restarted,
    same_name, senders_clock, sent_twice, server, shared_ids, sharing, silent, slow_body,
    standstill, texts, two_parents, uneven, unread_models, was, wrong_up)
from optitrack_vrpn.telling.facts import ENOUGH_POSES, StreamFacts

#: The newest version of NatNet whose sections are all known.
_NEWEST_CERTAIN: Final = '.'.join(map(str, CERTAIN))
#: Rate of usual displays (Hz), with the error of a rate that is measured over a second.
_DISPLAY_HZ = (58.5, 61.5)

_IN_VIEW = 'do at least two cameras see three of its markers wherever it goes?'
_CAMERA_RATE = (
    'look at the camera rate in Motive and at the frame divisor of its streaming settings')
_BY_ARRIVAL = 'set stamps.mode: arrival, which does not use the times of the server'
_OUT_OF_VIEW = f'STALE: out of view, or deleted in Motive: {_IN_VIEW}'
_FROZEN = (f'FROZEN: out of view, and Motive repeats its last pose: {_IN_VIEW} (Or a simulator '
           'without noise: then set validation.frozen_after_s: 0.0)')
_CONFUSED = (
    'JUMPED: Motive confuses its markers: is their arrangement symmetric or similar to that of '
    'another body, or are there reflections?')
_INVALID = (
    'INVALID: its numbers are not a pose: check the body in Motive, or the program that relays '
    'it; two rigid bodies of one name need a name each')
_ZEROED = f'ZEROED: out of view, and Motive sends zeros: {_IN_VIEW}'
_UNTRACKED = f'UNTRACKED: Motive reports it as out of view: {_IN_VIEW}'
_NO_MOTION = (
    'let the server send it, or set velocity_source: estimate, so that the node estimates it from '
    'the poses')
_SET_CLOCKS = (
    'set the clocks of both computers by NTP or PTP, or stamps.mode: tracking, which follows the '
    'clock of the sender')
_NO_LOSS = 'losses have ended'
#: A text of the server.
SAYS = 'the server says for {of!r}: {said}'
_LOOK_THERE = 'look at Motive, or the program that sends'
_UNUSABLE = '{bodies} {was} unusable in {share} of {its} poses: '

#: Topics depend on the namespace, not on the node's name; transforms depend on neither.
_APART = 'another namespace (-r __ns:=/NAME) and other frames (frames.body, frames.body_ned)'
#: A killed node stays in the graph until DDS's participant lease expires.
_LINGERS = 'a killed node stays visible for about 20 s'
#: Remedies for nodes with one full name, whose services conflict too, and for others on one topic.
ONE_NAME = f'end one, or give one {_APART}; {_LINGERS}'
ONE_TOPIC = (f'end one, select different bodies for each (bodies.allow), or give one {_APART}; '
             f'{_LINGERS}')

#: The row of frames of TF with several parents, over the parents by frame.
TWO_PARENTS: Final[Rule[Mapping[str, Collection[str]]]] = Rule(
    'two parents', WARN, two_parents, 'the frame {frame} of TF has two parents: {parents}',
    'TF is a tree, so that its readers get one or the other by chance: remove tf from outputs, '
    'name the frame otherwise (frames.body, bodies.NAME.frame), or end the other publisher')
#: All rows, those that explain others first.
RULES: Final[tuple[Rule[StreamFacts], ...]] = (
    # -- the connection --------------------------------------------------------------------------
    Rule('ended', WARN, lambda facts: case(facts.ended, reason=facts.ended),
         'then: {reason}', 'does Motive keep running? Does another client block it?',
         check='data', explains=('data',)),
    Rule('client warning', WARN, lambda facts: [Case((), {'message': text})
                                                for text in facts.messages],
         'with a warning of the client', '{message}', check='data'),
    Rule('ignored', WARN, ignored, 'but also: {what}',
         'the node ignores these; check which program is the server', check='data'),
    Rule('too many bodies', ERROR, lambda facts: case(facts.more_bodies, more=facts.more_bodies),
         'the server sends more bodies than are followed at most: {more} poses of others have '
         'been ignored so far', 'select the bodies that are wanted (bodies.allow)', log=True),
    Rule('refused', WARN, refused, '{what} from {subject} was refused: the server is {server}',
         'if {subject} is another address of the server, set server: {subject}',
         check='data', log=True),
    # -- what the server states ------------------------------------------------------------------
    Rule('server text', INFO, texts(INFO), SAYS, '', log=True),
    Rule('server warning', WARN, texts(WARN), SAYS, _LOOK_THERE, log=True),
    Rule('server error', ERROR, texts(ERROR), SAYS, _LOOK_THERE, log=True),
    Rule('too many texts', WARN, lambda facts: case(
        facts.texts.too_many, most=MOST_TEXTS, seconds=TEXTS_NS * 1e-9,
        left_out=facts.texts.left_out),
         'the server sends more than {most} different texts in {seconds:g} s: the others are not '
         'logged', 'which program is the server?', log=True,
         end='the server sends few texts again; {left_out} were not logged'),
    Rule('wrong up axis', ERROR, wrong_up, 'Motive states that {stated} is up, but {node} has '
         'up_axis: {up_axis}: every pose is rotated by 90 degrees', '{axis_remedy}', log=True),
    Rule('y up', WARN, lambda facts: case(
        facts.up_axis == 'raw' and facts.link.known.up_axis == 'y', node='this node'),
         'Motive states that y is up, and {node} has axes: raw, so that readers that take z for '
         'up, as in ROS, get wrong poses', 'set Up Axis in its streaming settings to Z, or '
         'axes: enu; nothing, if your readers expect y up', log=True),
    Rule('wrong unit', ERROR, server(lambda known: abs(known.unit_mm - 1000.0) >= 0.5, 'unit_mm'),
         'one unit of Motive is {unit_mm:g} mm, not a metre: positions are published as if in '
         'metres', 'set Scale to 1 in its streaming settings', check='data', log=True),
    Rule('played', WARN, server(lambda known: known.played, 'played'),
         'Motive plays a take (edit mode): its poses are not live and are {played}',
         'switch it to live mode; natnet.playback decides whether they are published',
         check='data', log=True),
    Rule('live', INFO, server(lambda known: known.live_again), 'Motive sends live poses again', '',
         log=True),
    Rule('contradicted', WARN, contradicted, '{subject} is {wanted}, but Motive states {stated}',
         'if no frame arrives, remove this setting', check='data', log=True),
    Rule('undecodable', ERROR, server(
        lambda known: known.undecodable, 'undecodable', 'version'),
         UNDECODABLE,
         'Motive is asked for its version again; if it sends a newer version than '
         f'{_NEWEST_CERTAIN}, receive by unicast and set natnet.bitstream: "{_NEWEST_CERTAIN}"',
         check='data', log=True),
    Rule('described', INFO, lambda facts: case(
        facts.link.known.bodies, subject=listed(facts.link.known.bodies, 5)),
         'Motive describes {subject}', '', log=True),
    Rule('no rigid body', ERROR, server(lambda known: known.no_body),
         'Motive describes no rigid body', 'switch Rigid Bodies on in its streaming settings, and '
         'create one', log=True),
    Rule('unconfirmed', WARN, server(
        lambda known: known.unconfirmed_s >= UNCONFIRMED_S, 'last_error'),
         UNCONFIRMED, 'after an interruption, wait 5 s; if it stays, does the network drop large '
         'datagrams? Last malformed datagram: {last_error}',
         check='data', log=True),
    Rule('unnamed', WARN, of_names(lambda known: map(str, sorted(known.unnamed))),
         'no model definition contains the streaming ids {bodies}',
         'the definitions are requested again', check='data', log=True),
    Rule('shared id', WARN, shared_ids, 'the bodies {bodies} share the streaming id {subject} and '
         'cannot be distinguished: none of them is published', 'give each its own id in Motive',
         check='data', log=True),
    Rule('shared names', WARN, of_names(lambda known: known.shared_names),
         'several bodies are named {bodies}: none of them is published',
         'give each its own name in Motive', check='data', log=True),
    Rule('unread models', WARN, unread_models, '{unread} with a type or layout that is not known '
         '{are} left out{unread_types}', 'if a body is missing, report the version of Motive',
         check='data', log=True),
    Rule('local bones', ERROR, of_names(
        lambda known: [known.local_bones] if known.local_bones else []),
         'the bones of {bodies} seem to be relative to their parents (Local Rigid Bodies in '
         'Motive): they are withheld', 'switch that off in Motive', check='data', log=True),
    # -- times -----------------------------------------------------------------------------------
    Rule('out of a buffer', WARN, out_of_a_buffer, 'no pose is published: since {event}, for '
         '{seconds:.1f} s, frames do not arrive at the pace at which they were sent: they come '
         'out of a buffer',
         'if the server plays a recording faster than real time, set stamps.mode: sender and '
         'stamps.max_age_s: 0; else the network, or a computer on the way, is overloaded',
         check='clock', entry='clock', log=True, explains=('clock',)),
    Rule('all late', WARN, all_late, 'no pose is published: all frames are {late:.3f} s late: '
         'they are old, or a clock was set', 'in {left:.1f} s they are taken for new ones; reduce '
         'the load of the network', check='clock', entry='clock', log=True, explains=('clock',)),
    Rule("sender's clock", WARN, senders_clock(published=True),
         'stamps of the sender are {age:.3f} s {how}', _SET_CLOCKS,
         entry='clock', log=True, explains=('too old',)),
    Rule("sender's clock, nothing published", WARN, senders_clock(published=False),
         'stamps of the sender are {age:.3f} s {how}: no pose is published (stamps.max_age_s)',
         f'{_SET_CLOCKS}; for a sender whose clock counts from its start set stamps.max_age_s: 0',
         entry='clock', log=True, explains=('too old',)),
    Rule('stamp epoch', WARN, epoch, 'clock: stamp epoch {subject} begins: {what}',
         'if that repeats, look at the clocks of both computers', log=True),
    Rule('standstill', WARN, standstill, 'this computer stood still for {stalled:.1f} s, and the '
         'estimate of the clock started again',
         'this computer is busy, or was suspended: reduce its load and try again',
         check='clock', explains=('clock',)),
    Rule('coarse times', WARN, coarse,
         '{fault}: stamps are arrivals, with the jitter of the network',
         'set a finer clock on the Motive computer, or use NatNet',
         check='clock', entry='clock', explains=('clock',)),
    Rule('estimate restarted', WARN, restarted,
         'the estimate of the clock started again: {restarts}',
         "did Motive restart just now? Do two programs send under this server's name?",
         check='clock', explains=('clock',)),
    Rule('longer delays', INFO, longer_delays, 'delays have been {above:.1f} ms longer for '
         '{since:.0f} s: load, or a longer route; stamps do not follow for another {left:.0f} s',
         '', check='clock', entry='clock'),
    Rule('uneven arrivals', WARN, uneven, 'that is much', '{busy}; stamps.mode: tracking removes '
         'most of the jitter from the stamps, but poses arrive late', check='clock'),
    Rule('one time', ERROR, lambda facts: case(
        facts.poses >= ENOUGH_POSES and facts.all_intervals.frames == 1),
         'all poses have the same sender time: stamps are arrivals, and poses that waited '
         'in a buffer cannot be recognised', 'does the server send times? NatNet does',
         check='bodies', explains=('bodies',)),
    Rule('shared name', WARN, repeated_times(shared=True),
         '{share} of the poses have the time of the pose before, although they differ: the node '
         'drops them as repeats', 'do two rigid bodies in Motive have the name {bodies}? Rename '
         f'one. Otherwise {_BY_ARRIVAL}', check='stamps', explains=('stamps',)),
    Rule('repeated times', WARN, repeated_times(shared=False),
         '{share} of the poses have the time of the pose before, although they differ: the node '
         'drops them as repeats', _BY_ARRIVAL, check='stamps', explains=('stamps',)),
    Rule('late times', WARN, late_times, '{share} of the poses are older than the one before, '
         'although they arrived in order: the node drops them',
         "do two programs send under this server's name? Is its clock set repeatedly?",
         check='stamps'),
    # -- all frames ------------------------------------------------------------------------------
    Rule('slow cameras', WARN, lambda facts: case(
        facts.rate.slow_cameras,
        rate=facts.rate.fastest_hz, nominal=facts.rate.usual_hz),
         '{rate:.1f} Hz where the cameras run at {nominal:g} Hz', _CAMERA_RATE,
         check='rate', entry='body', explains=('rate',)),
    Rule('slow body', WARN, slow_body,
         '{bodies} {has} {rate:.1f} Hz where {nominal:g} Hz is expected',
         f'is it often out of view? Lost poses have the same effect. Otherwise {_CAMERA_RATE}',
         check='rate', entry='body', explains=('rate',)),
    Rule('not sent', WARN, lambda facts: case(
        facts.rate.unsent, rate=facts.rate.fastest_hz, share=percent(facts.rate.unsent)),
         '{rate:.1f} Hz, but {share} of the frames are missing at the sender: they were not lost '
         'in the network', "Motive cannot keep up: check its machine's load, and whether its "
         'cameras drop frames', check='rate', explains=('rate',)),
    Rule('display rate', WARN, lambda facts: case(
        not facts.rate.expected_hz
        and _DISPLAY_HZ[0] <= facts.rate.fastest_hz <= _DISPLAY_HZ[1], rate=facts.rate.fastest_hz),
         '{rate:.1f} Hz is the rate of a display; some installations stream at it while their '
         'cameras run faster', f'{_CAMERA_RATE}; if 60 Hz is intended, set expected_rate_hz: 60 '
         '(the doctor: --expect-rate 60)', check='rate', entry='body'),
    Rule('unread', WARN, lost(unread=True),
         '{share} were lost because the receive buffer of this computer was full',
         'this computer is too busy to read: reduce its load',
         check='data', entry='connection', log=True, end=_NO_LOSS),
    Rule('lost', WARN, lost(unread=False),
         '{share} were lost in the network', 'use a cable instead of WiFi, and a separate switch; '
         'or is the Motive PC too busy to send each frame?',
         check='data', entry='connection', log=True, end=_NO_LOSS),
    Rule('out of order', WARN, datagrams('udp_reordered'),
         '{share} of the datagrams arrived out of order; the node drops poses that are older than '
         'the last', 'use a cable instead of WiFi, and only one network path', check='data'),
    Rule('twice on the way', WARN, datagrams('udp_repeated'),
         '{share} of the datagrams arrived twice; the node uses one',
         'is there a loop, a repeater or a second path in the network?', check='data'),
    Rule('sent twice', WARN, sent_twice, '{share} twice; the node uses one',
         'the server sends them twice: does a second program relay the data of Motive?',
         check='data'),
    Rule('overload', WARN, lambda facts: case(
        facts.shedding, patience=PATIENCE_NS * 1e-9, standing=STANDING_NS * 1e-6,
        shed=facts.shed),
         'this computer cannot keep up: for {patience:g} s every pose has waited more than '
         '{standing:g} ms before it was read. Whole frames are left out as needed, so that the '
         'others are on time (load_shedding)',
         'select fewer bodies (bodies.allow) or topics, or lower the rate in Motive',
         check='data', entry='frames', log=True, explains=('fewer outputs',),
         end='this computer keeps up again; {shed} poses have been left out so far'),
    Rule('fewer outputs', WARN, lambda facts: case(
        facts.lean, waited=PROMPT_NS * 1e-6, lean=facts.lean_poses),
         'this computer cannot keep up with all outputs: every pose has waited more than '
         '{waited:g} ms before it was read. All poses and TF are published; velocities and '
         'covariances with some of them only, so that no pose is lost (load_shedding)',
         'select fewer outputs, or lower their rates',
         check='data', entry='frames', log=True,
         end='all outputs are published again; {lean} poses have been published without the '
             'others so far'),
    Rule('not selected', WARN, lambda facts: case(facts.only_ignored, count=facts.only_ignored),
         'bodies.allow and bodies.deny select none of the bodies that arrive ({count})',
         'write their names as in Motive', entry='frames'),
    Rule('quiet', WARN, quiet, 'but none in the last {quiet:.1f} s',
         'is Motive paused, or every body out of view? Is the network interrupted?',
         check='data'),
    Rule('paused', WARN, paused(interrupted=False), 'no body sent a pose for {silence}',
         'is Motive paused at times, or its machine too busy?', check='data'),
    Rule('interrupted', WARN, paused(interrupted=True), 'no body sent a pose for {silence}',
         'check the network for interruptions', check='data'),
    # -- the ROS graph, and the settings ---------------------------------------------------------
    Rule('same name', WARN, same_name,
         '{others} called {node} too, so that topics and transforms are published twice, and '
         'commands reach either node', ONE_NAME, log=True),
    Rule('shared topic', WARN, sharing,
         '{other} publishes on {topic} too, so that subscribers receive both', ONE_TOPIC,
         log=True),
    replace(TWO_PARENTS.by(other_parents), log=True),
    Rule('unmatched', WARN, lambda facts: [
        Case((), {'subject': line, 'what': line}) for line in facts.graph.unmatched],
         '{what}', 'write each name as in Motive; or is its body out of view?', log=True),
    # -- single bodies ---------------------------------------------------------------------------
    Rule('FROZEN', ERROR, in_state(State.FROZEN), '{bodies} {is} FROZEN{detail}', _FROZEN,
         check='bodies'),
    Rule('ZEROED', ERROR, in_state(State.ZEROED), '{bodies} {is} ZEROED{detail}', _ZEROED,
         check='bodies'),
    Rule('UNTRACKED', ERROR, in_state(State.UNTRACKED), '{bodies} {is} UNTRACKED{detail}',
         _UNTRACKED, check='bodies'),
    Rule('STALE', ERROR, in_state(State.STALE), '{bodies} {is} STALE{detail}', _OUT_OF_VIEW,
         check='bodies'),
    Rule('JUMPED', ERROR, in_state(State.JUMPED), '{bodies} {is} JUMPED{detail}', _CONFUSED,
         check='bodies'),
    Rule('INVALID', ERROR, in_state(State.INVALID), '{bodies} {is} INVALID{detail}', _INVALID,
         check='bodies'),
    Rule('NEW', ERROR, in_state(State.NEW), '{bodies} {is} NEW{detail}',
         'NEW: seen too briefly: listen longer (--seconds); or its poses contradict each other: '
         'do two rigid bodies have this name?', check='bodies'),
    Rule('exchanged', ERROR, exchanged, '{bodies} {verb} to have exchanged their names',
         'Motive confuses two bodies: give each a different, asymmetric marker arrangement, then '
         'delete both rigid bodies there and create them again (or refine them); if you exchanged '
         'the names yourself, clean up and configure the node', check='bodies'),
    Rule('was FROZEN', WARN, was(State.FROZEN), _UNUSABLE + 'repeats of one pose (FROZEN)',
         _FROZEN, check='bodies'),
    Rule('was ZEROED', WARN, was(State.ZEROED), _UNUSABLE + 'zeros (ZEROED)', _ZEROED,
         check='bodies'),
    Rule('was UNTRACKED', WARN, was(State.UNTRACKED),
         _UNUSABLE + 'not tracked by Motive (UNTRACKED)', _UNTRACKED, check='bodies'),
    Rule('was INVALID', WARN, was(State.INVALID), _UNUSABLE + 'not a pose (INVALID)', _INVALID,
         check='bodies'),
    Rule('was JUMPED', WARN, was(State.JUMPED),
         _UNUSABLE + 'at positions or attitudes that it cannot reach (JUMPED)', _CONFUSED,
         check='bodies'),
    Rule('silent', WARN, silent, '{bodies} {was} silent for {silence}', _OUT_OF_VIEW,
         check='bodies'),
    Rule('lacked', WARN, lacked, '{bodies} lacked {share} of the frames', _OUT_OF_VIEW,
         check='bodies'),
    Rule('absent', WARN, absent, '{bodies} {was} absent for the first {begin}',
         _OUT_OF_VIEW, check='bodies'),
    Rule('held', WARN, held, '{bodies} {is} JUMPED for {seconds:g} s and {stays} so: {why}',
         'it is not published until it returns: check its markers in Motive, and make them less '
         'symmetric. If you have redefined the body in Motive, {accept}',
         entry='state', log=True),
    Rule('too old', WARN, each(
        lambda facts, body: body.all_too_old, lambda facts, body: {'age': facts.max_age_s}),
         'no pose of {bodies} is published: each is more than {age:g} s old (stamps.max_age_s) '
         'before it can be published', 'reduce the load of this computer or the delay of the '
         "network; or is the sender's clock too slow? Else set stamps.max_age_s",
         check='bodies', entry='body', log=True),
    Rule('unit', WARN, each(
        lambda facts, body: body.far_m, lambda facts, body: {'far': body.far_m}),
         '{bodies} {is} {far:.0f} m from the origin; positions of hundreds of metres are usually '
         'millimetres or centimetres',
         'make the server send metres (in Motive: Scale 1 in its streaming settings)',
         check='bodies', entry='body', log=True),
    Rule('in one place', WARN, in_one_place,
         '{bodies} are in one place, {distance:.1f} mm apart',
         'Motive solves one set of markers twice: is a rigid body there twice, under two names? '
         'Delete one, or give them different arrangements of markers',
         check='bodies', entry='body', log=True),
    Rule('no angular rate', WARN, lacking('no angular rate'),
         'for {bodies} the server sends velocities without an angular rate (a rotation over no '
         'time): no twist is published', _NO_MOTION, log=True),
    Rule('no angular acceleration', WARN, lacking('no angular acceleration'),
         'for {bodies} the server sends accelerations without an angular acceleration (a rotation '
         'over no time): none is published', _NO_MOTION, log=True),
    Rule('no velocity before', WARN, lacking('no velocity before'),
         'for {bodies} the server sends accelerations without a preceding velocity: the '
         "acceleration of the base, which has an offset from the body's origin, cannot be "
         'computed and is not published', _NO_MOTION, log=True),
)
#: The rows of rates.
RATES: Final = tuple(rule for rule in RULES if rule.check == 'rate')
#: The rows by their codes.
BY_CODE: Final = {rule.code: rule for rule in RULES}


@functools.cache
def _where(field: str, value: object) -> tuple[Rule[StreamFacts], ...]:
    return tuple(rule for rule in RULES if getattr(rule, field) == value)


def of_log(facts: StreamFacts) -> list[Finding]:
    """List what a log writes when it begins and when it ends, each body by itself."""
    return find(_where('log', True), facts)


def of_entry(entry: str, facts: StreamFacts) -> list[Finding]:
    """List what an entry of /diagnostics reports."""
    return find(_where('entry', entry), facts)


def of_check(check: str, facts: StreamFacts) -> list[Finding]:
    """List what a check of the doctor reports."""
    return find(_where('check', check), facts)
