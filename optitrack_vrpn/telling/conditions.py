# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The conditions of ``rules`` that need more than a line: facts of a stream to cases.

Pure functions without state; a function with arguments makes a condition for each of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
import math

from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.findings import Case, case, Span
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import Severity
from optitrack_vrpn.core.stats import Intervals
from optitrack_vrpn.drivers.driver import ServerFacts
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.telling.facts import BodyFacts, ENOUGH_FRAMES, MUCH, StreamFacts

Condition = Callable[[StreamFacts], Iterable[Case]]
_OfBody = Callable[[StreamFacts, BodyFacts], object]
_Figures = Callable[[StreamFacts, BodyFacts], dict[str, object]]

#: Ages (s) of the sender's stamps above which its clock is behind. Chosen: 50 ms above the 10 ms
#: that exposure, processing and network usually take.
USUAL_AGE_S = 0.06
#: A jump that only the user can end is reported after this time (s). Chosen: the default
#: of jump_accept_s.
_HELD_S = 2.0


def percent(share: float) -> str:
    """Write a share, with a digit more where it is small."""
    return f'{share:.1%}' if share < 0.1 else f'{share:.0%}'


def _silence(intervals: Intervals) -> str:
    """Describe silences, of which there is at least one."""
    if intervals.silences == 1:
        return f'{intervals.longest_s:.2f} s'
    share = intervals.silent_s / max(intervals.span_s, 1e-9)
    return (f'up to {intervals.longest_s:.2f} s at a time, {intervals.silences} times, '
            f'{percent(share)} of the time')


# -- the connection and all frames ---------------------------------------------------------------
def ignored(facts: StreamFacts) -> tuple[Case, ...]:
    """Find what the node ignores."""
    what = [f'{count} {name}' for name, count in facts.ignored.items() if count]
    if facts.more_bodies:
        what.append(f'{facts.more_bodies} poses of bodies beyond the limit')
    return case(what, what=', '.join(what))


def lost(*, unread: bool) -> Condition:
    """Find losses in the network, or in the receive buffer of this computer."""
    def when(facts: StreamFacts) -> tuple[Case, ...]:
        loss = facts.losses
        return case(loss.lossy and loss.unread is unread, share=(
            f'{loss.share:.0%} of the messages of the last {loss.window_s:g} s'
            if loss.window_s else percent(loss.share)))
    return when


def datagrams(counter: str) -> Condition:
    """Find a share of the datagrams that is much."""
    def when(facts: StreamFacts) -> tuple[Case, ...]:
        share = facts.counters.get(counter, 0) / max(facts.counters.get('datagrams', 0), 1)
        return case(share > MUCH, share=percent(share))
    return when


def sent_twice(facts: StreamFacts) -> tuple[Case, ...]:
    """Find frames that the server sends twice."""
    frames = sum(body.intervals.frames for body in facts.bodies)
    doubled = sum(body.intervals.doubled for body in facts.bodies) - facts.counters.get(
        'udp_repeated', 0)
    share = doubled / max(frames, 1)
    return case(share > MUCH and doubled >= ENOUGH_FRAMES, share=(
        'every frame arrives' if share > 0.95 else f'{percent(share)} of the frames arrive'))


def quiet(facts: StreamFacts) -> tuple[Case, ...]:
    """Find a silence at the end of an observation."""
    # Shortest one that is reported (s): longer than a scheduling delay.
    return case(facts.quiet_s > max(0.5, 5.0 * facts.all_intervals.interval_s),
                quiet=facts.quiet_s)


def paused(*, interrupted: bool) -> Condition:
    """Find a silence of all bodies, with or without other losses."""
    def when(facts: StreamFacts) -> Iterator[Case]:
        intervals = facts.all_intervals
        if len(facts.bodies) > 1 and intervals.silences and (
                (facts.lost_share > MUCH) is interrupted):
            yield Case((), {'silence': _silence(intervals)}, (Span(intervals.silence_s),))
    return when


# -- what the server states ----------------------------------------------------------------------
def server(met: Callable[[ServerFacts], object], *figures: str) -> Condition:
    """Make the condition of a fact of the server; others of its facts are the figures."""
    def when(facts: StreamFacts) -> tuple[Case, ...]:
        known = facts.link.known
        return case(met(known), **{name: getattr(known, name) for name in figures})
    return when


def of_names(names: Callable[[ServerFacts], Iterable[str]]) -> Condition:
    """Make the condition of names that the server states, each a case."""
    def when(facts: StreamFacts) -> Iterator[Case]:
        return (Case((name,)) for name in names(facts.link.known))
    return when


def unread_models(facts: StreamFacts) -> tuple[Case, ...]:
    """Find definitions that cannot be read, with their unknown types, ten at most."""
    count, types = facts.link.known.unread, facts.link.known.unread_types
    shown = ', '.join(map(str, types[:10])) + (', ...' if len(types) > 10 else '')
    return case(count, unread=counted(count, 'model definition'),
                are='is' if count == 1 else 'are',
                unread_types=f' (unknown types: {shown})' if types else '')


def shared_ids(facts: StreamFacts) -> Iterator[Case]:
    """Find ids that several bodies share."""
    for number, names in facts.link.known.shared_ids.items():
        yield from case(True, *names, subject=number)


def contradicted(facts: StreamFacts) -> Iterator[Case]:
    """Find settings that contradict what the server states."""
    for name, wanted, stated in facts.link.known.contradicted:
        yield from case(True, subject=name, wanted=wanted, stated=stated)


def contradicts(stated: str, up_axis: object) -> bool:
    """Return whether the up axis that a server states is not that of the setting up_axis."""
    return bool(stated) and up_axis in ('y', 'z') and stated != up_axis


def axis_remedy(stated: str, up_axis: object) -> str:
    """Return the remedy for a wrong up axis; the setting up_axis has no value for x."""
    return f'set up_axis: {stated}' if stated in ('y', 'z') else (
        f'set Up Axis in its streaming settings to {str(up_axis).upper()}')


def wrong_up(facts: StreamFacts) -> tuple[Case, ...]:
    """Find an up axis of the settings that is not that of the server."""
    stated, up_axis = facts.link.known.up_axis, facts.up_axis
    return case(contradicts(stated, up_axis), stated=stated, up_axis=up_axis, node='this node',
                axis_remedy=axis_remedy(stated, up_axis))


def texts(*severities: Severity) -> Condition:
    """Find the last texts of the server of some severities."""
    def when(facts: StreamFacts) -> Iterator[Case]:
        for (subject, text), (stated, since_ns) in facts.texts.last.items():
            if stated in severities:
                of, said = printable(subject), printable(text, 300)
                # A text that is sent again later is a case of its own, so that a log writes it.
                yield from case(True, subject=f'{since_ns} {of}: {said}', of=of, said=said)
    return when


def refused(facts: StreamFacts) -> Iterator[Case]:
    """Find hosts other than the server that connect, or send data."""
    for address, what in facts.link.refused.items():
        yield from case(True, subject=address, what=what,
                        server=facts.link.server.rpartition(':')[0])


# -- the ROS graph -------------------------------------------------------------------------------
def same_name(facts: StreamFacts) -> tuple[Case, ...]:
    """Find other nodes of the name of this one."""
    count = facts.graph.same_name
    return case(count, node=facts.graph.name, others=(
        'another node is' if count == 1 else f'{count} other nodes are'))


def sharing(facts: StreamFacts) -> Iterator[Case]:
    """Find other nodes that publish on topics of this one."""
    for other, topic in facts.graph.sharing.items():
        yield from case(True, subject=other, other=printable(other), topic=topic)


def other_parents(facts: StreamFacts) -> Iterator[Case]:
    """Find frames of this node that have another parent too: one case for two parents."""
    frames: dict[tuple[str, str], list[str]] = {}
    for frame, parents in facts.graph.parents.items():
        frames.setdefault(parents, []).append(frame)
    for (own, other), named in frames.items():
        yield from case(
            True, subject=f'{own} {other}', frame=listed(sorted(named), 3),
            parents=f'{listed([own])} (this node), {listed([other])}')


def two_parents(parents: Mapping[str, Collection[str]]) -> Iterator[Case]:
    """Find frames of TF with several parents, three of each at most."""
    several = [frame for frame in sorted(parents) if len(parents[frame]) > 1]
    for frame in several[:3]:
        yield from case(
            True, frame=listed([frame]), parents=listed(sorted(parents[frame])[:3]))


# -- times ---------------------------------------------------------------------------------------
def out_of_a_buffer(facts: StreamFacts) -> Iterator[Case]:
    """Find that frames have been withheld for a second, in which a buffer usually empties."""
    clock = facts.clock
    if clock is not None and clock.withheld and clock.withheld_s >= 1.0:
        yield Case((), {'event': clock.withheld, 'seconds': clock.withheld_s})


def all_late(facts: StreamFacts) -> Iterator[Case]:
    """Find that all frames are too late to be published."""
    clock = facts.clock
    if clock is not None and 0.0 < facts.max_age_s < clock.above_s and not clock.withheld:
        yield Case((), {'late': clock.above_s, 'left': clock.follows_in_s})


def longer_delays(facts: StreamFacts) -> Iterator[Case]:
    """Find delays that are longer than those of the stamps, for longer than WiFi varies."""
    clock = facts.clock
    if clock is not None and clock.above_since_s >= 5.0 and not clock.withheld:
        yield Case((), {'above': clock.above_s * 1e3, 'since': clock.above_since_s,
                        'left': clock.follows_in_s})


def senders_clock(*, published: bool) -> Condition:
    """Find that the sender's own times (mode ``sender``) differ from the host's clock."""
    def when(facts: StreamFacts) -> Iterator[Case]:
        age_s = facts.clock.sender_age_s if facts.clock is not None else 0.0
        if not 0.0 <= age_s <= USUAL_AGE_S and (
                0.0 < facts.max_age_s < abs(age_s)) is not published:
            yield Case((), {'age': abs(age_s), 'how': (
                'in the future' if age_s < 0.0 else 'old when they arrive')})
    return when


def standstill(facts: StreamFacts) -> tuple[Case, ...]:
    """Find that this computer stood still: the estimate of the clock starts again."""
    # Standstill (s) that explains a restart of the clock estimate. Chosen: several frames of any
    # camera.
    return case(facts.clock and facts.clock.restarts and facts.stalled_s > 0.3,
                stalled=facts.stalled_s)


def coarse(facts: StreamFacts) -> Iterator[Case]:
    """Find times of the sender that are too coarse for stamps."""
    clock = facts.clock
    if clock is not None and clock.sender_fault:
        yield Case((), {'fault': clock.sender_fault})


#: What ends an epoch of stamps, by its reason: see ``ClockChange``.
_EPOCHS = {
    'host_stepped': 'the host clock stepped by {ms:+.3f} ms',
    'sender_times_unusable': '{fault}: stamps are arrivals',
    'sender_restarted': 'the sender restarted or its clock was set: its offset changed by '
                        '{s:+.3f} s',
    'offset_changed': 'frames arrive {s:+.3f} s later than before: the route changed, or a clock '
                      'was set'}


def epoch(facts: StreamFacts) -> Iterator[Case]:
    """Find the last epoch of stamps after the first."""
    clock = facts.clock
    if clock is not None and clock.change is not None:
        reason, seen_ns = clock.change.reason, clock.change.seen_ns
        text = _EPOCHS[reason] if seen_ns or reason != 'host_stepped' else (
            'the clock of the arrivals was set back')
        yield from case(True, subject=clock.epoch, what=text.format(
            ms=seen_ns / 1e6, s=seen_ns / 1e9, fault=clock.sender_fault))


def restarted(facts: StreamFacts) -> Iterator[Case]:
    """Find that the estimate of the clock began again."""
    if facts.clock is not None and facts.clock.restarts:
        yield Case((), {'restarts': ', '.join(
            f'{count} {name}' for name, count in facts.clock.restarts.items())})


def uneven(facts: StreamFacts) -> tuple[Case, ...]:
    """Find a large jitter of the arrivals."""
    # Jitter (99 %, s) that is reported. Chosen: one frame at 100 Hz.
    return case(facts.clock is not None and facts.clock.jitter_p99_s > 0.010, busy=(
        'this machine is busy: reduce its load' if facts.loopback else
        'the network or this machine is busy: use a cable instead of WiFi, and switch power '
        'saving off'))


def repeated_times(*, shared: bool) -> Condition:
    """Find repeated times of the sender: of a name that two bodies share, or of all."""
    def when(facts: StreamFacts) -> Iterator[Case]:
        share = sum(body.intervals.stuck for body in facts.bodies) / max(facts.poses, 1)
        # Two bodies of one name send two poses with each time: as many repeats as frames.
        names = tuple(body.name for body in facts.bodies if body.intervals.frames and abs(
            body.intervals.stuck - body.intervals.frames) <= MUCH * body.intervals.frames)
        if share > MUCH and bool(names) is shared:
            yield Case(names[:1], {'share': percent(share)})
    return when


def late_times(facts: StreamFacts) -> tuple[Case, ...]:
    """Find times of the sender that go back."""
    share = sum(body.intervals.late for body in facts.bodies) / max(facts.poses, 1)
    return case(share > MUCH and not facts.counters.get('udp_reordered'), share=percent(share))


# -- bodies --------------------------------------------------------------------------------------
def each(
    met: _OfBody, figures: _Figures = lambda facts, body: {},
    begin_s: Callable[[StreamFacts, BodyFacts], float] = lambda facts, body: math.nan,
) -> Condition:
    """Make the condition of single bodies."""
    def when(facts: StreamFacts) -> Iterator[Case]:
        for body in facts.bodies:
            if met(facts, body):
                at_s = begin_s(facts, body)
                yield Case((body.name,), figures(facts, body), (
                    (Span(at_s),) if math.isfinite(at_s) else ()))
    return when


def slow_body(facts: StreamFacts) -> tuple[Case, ...]:
    """Find bodies that are slower than the others, or than the cameras."""
    slow = facts.rate.slow
    return case(slow, *(name for _, name in slow), nominal=facts.rate.usual_hz,
                rate=slow[0][0] if slow else 0.0)


def in_state(state: State) -> Condition:
    """Find bodies that are in a state at the end; an exchange of names is a row of its own."""
    return each(
        lambda facts, body: body.state is state and not body.status.swapped_with
        and state not in body.of_the_unit,
        lambda facts, body: {'detail': f' ({body.detail})' if body.detail else ''})


def was(state: State) -> Condition:
    """Find bodies whose poses were unusable in a state, at any time."""
    def met(facts: StreamFacts, body: BodyFacts) -> bool:
        count, total = body.unusable[state], sum(body.unusable.values())
        return total > MUCH * body.judged and total >= ENOUGH_FRAMES and (
            count > MUCH * body.judged / len(body.unusable) and state not in body.of_the_unit
            and not (body.other and state is State.JUMPED))
    return each(met, lambda facts, body: {'share': percent(body.unusable[state] / body.judged)})


def exchanged(facts: StreamFacts) -> Iterator[Case]:
    """Find pairs of bodies that exchanged their names; a pair is one case."""
    known: set[str] = set()
    for body in facts.bodies:
        if body.other and body.other not in known:
            known.add(body.name)
            yield Case((body.name, body.other), {
                'verb': 'seem' if body.status.swapped_with else 'seemed for a while'})


def in_one_place(facts: StreamFacts) -> Iterator[Case]:
    """Find pairs of bodies that are in one place; a pair is one case."""
    pairs = {(min(body.name, body.twin), max(body.name, body.twin)): body.twin_m
             for body in facts.bodies if body.twin}
    for pair, distance_m in pairs.items():
        yield Case(pair, {'distance': 1000.0 * distance_m})


silent = each(
    lambda facts, body: body.intervals.silences and body.intervals.silent_s - (
        facts.all_intervals.silent_s if len(facts.bodies) > 1 else 0.0)
    > MUCH * body.intervals.span_s,
    lambda facts, body: {'silence': _silence(body.intervals)},
    lambda facts, body: body.intervals.silence_s)


def _lacked(facts: StreamFacts, body: BodyFacts) -> bool:
    # Loss differs between bodies by chance: five standard deviations of a Poisson count.
    chance = 5.0 * math.sqrt(facts.lost_share / max(body.intervals.frames, 1))
    return body.missing_share > MUCH + facts.common_share + chance


lacked = each(_lacked, lambda facts, body: {'share': percent(body.missing_share)})
# A body that appears this much later (s) than the first was absent: the handshake takes less.
absent = each(
    lambda facts, body: 0.5 < facts.appeared_s(body) < facts.all_intervals.span_s,
    lambda facts, body: {'begin': f'{facts.appeared_s(body):.1f} s'},
    lambda facts, body: facts.appeared_s(body))
held = each(
    lambda facts, body: body.held and body.held_s >= _HELD_S,
    lambda facts, body: {'seconds': _HELD_S, 'why': body.held, 'accept': (
        f'accept it: ros2 service call {body.accept_service} std_srvs/srv/Trigger'
        if body.accept_service else 'clean up and configure the node')})


def lacking(what: str) -> Condition:
    """Find bodies whose motions of the server lack something."""
    return each(lambda facts, body: what in body.lacking)
