# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The conditions of the rules of a take: facts to cases, the worst body of a case first.

Pure functions without state; a function with arguments makes a condition for each of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import itertools
import math
import statistics

import numpy as np
from optitrack_vrpn.core.findings import Case, case
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.events import clock_steps, losses, TakeEvent, TakeFacts
from optitrack_vrpn.takes.assess.figures import Figures, GapChange, place_times, Spans
from optitrack_vrpn.takes.take import ClockRow, Take
from optitrack_vrpn.telling.facts import RateFacts, StreamFacts

Condition = Callable[[TakeFacts], Iterable[Case]]

#: Gap (s) that is an error; shorter ones are warnings: autopilots report a lost fix after about
#: half a second.
LONG_GAP_S = 0.5
#: Age of late poses and jitter (ms): a tenth of the gap, and several camera periods.
LATE_MS, JITTER_MS = 50.0, 20.0
#: Time without any pose at the begin or the end of a recording (s): three times the period of the
#: diagnostics, whose arrivals show that the recording continued.
SILENT_S = 3.0
#: Fraction of the duration with valid poses.
LEAST_COVERAGE = 0.99
#: Noise and drift at rest (mm): several times those of a calibrated system.
NOISE_MM, DRIFT_MM = 1.0, 1.0
#: Lost frames (%), and uncertainty of the clock (us): less than a camera period.
LOST_PERCENT, UNCERTAIN_US = 0.1, 2000.0
#: Stamps ahead of their arrivals by more (ms) are of another clock: synchronised computers differ
#: by less.
AHEAD_MS = 2.0
#: Share of intervals that are far shorter than the others: stamps of exposures have none.
BUNCHED_SHARE = 0.02
#: Bodies within this (m, each axis) for this long (s): one set of markers was solved twice.
SAME_PLACE_M, SAME_PLACE_S = 0.001, 2.0
#: Difference of stamps of one frame (ns).
_SAME_FRAME_NS = 1_000_000
#: Changes over gaps that a text names (m, degrees).
_MOVED_M, _TURNED_DEG = 0.05, 10.0
#: A silence of a year (s) is an odd log time.
_ODD_S = 365 * 86400


# -- the file ------------------------------------------------------------------------------------
def cut(kind: bool) -> Condition:
    """Find a file that ends early; ``kind``: whether it is an export of Motive."""
    return lambda facts: case(facts.take.cut and (facts.take.kind == 'motive csv') is kind,
                              reason=facts.take.cut)


def noted(note: str, figure: str) -> Condition:
    """Find a note of the recorder; the figure of the text is the note."""
    return lambda facts: case(facts.take.notes.get(note), **{figure: facts.take.notes.get(note)})


def damaged(facts: TakeFacts) -> Iterator[Case]:
    """Find damaged places."""
    places = facts.take.damaged
    if places:
        yield Case((), {'places': counted(len(places), 'place'), 'reason': places[0][0]},
                   facts.spans(span for _, span in places if span[1]))


def not_decoded(facts: TakeFacts) -> Iterator[Case]:
    """Find topics with messages that could not be decoded."""
    for topic, count in facts.take.unread.items():
        yield from case(True, count=count, total=facts.take.topics.get(topic, count), topic=topic)


def left_out(facts: TakeFacts) -> Iterator[Case]:
    """Find poses that were left out, by the reason."""
    every = facts.take.left_out
    for reason in dict.fromkeys(each.reason for each in every.values()):
        topics = sorted((topic for topic, each in every.items() if each.reason == reason),
                        key=lambda topic: -every[topic].poses)
        worst = every[topics[0]]
        yield from case(
            True, count=f'{counted(worst.poses, "pose")} of {worst.total}', topic=topics[0]
            + (f' (and of {counted(len(topics) - 1, "other topic")})' if topics[1:] else ''),
            reason=reason)


def silent_at_an_end(facts: TakeFacts) -> Iterator[Case]:
    """Find a begin or an end of the recording without poses."""
    for silent_s, part in zip(facts.take.silent_s, ('first', 'last')):
        yield from case(SILENT_S <= silent_s < _ODD_S, silent=silent_s, part=part)


def lost(facts: TakeFacts) -> Iterator[Case]:
    """Find losses in the network, which the node reported."""
    connection = facts.take.connection
    with contextlib.suppress(ValueError):
        percent = float(connection.get('udp_lost_percent', 'nan'))
        count = int(connection.get('udp_lost', '0'))
        share = 100.0 * count / (count + max(int(connection.get('messages', '0')), 1))
        yield from case(
            share > LOST_PERCENT or percent > LOST_PERCENT,
            share=f'{counted(count, "message")} of Motive ({share:.2f} %)')


# -- beyond the bodies, and the clock ------------------------------------------------------------
def beyond(cause: str, paused: bool | None = None) -> Condition:
    """
    Find events with a cause outside of the bodies, and all their effects.

    :param cause: the cause of the events.
    :param paused: True: only if all its gaps are short; False: only if one is long.
    """
    def when(facts: TakeFacts) -> Iterator[Case]:
        events = facts.common.get(cause, [])
        lasted_ns = max((event.end_ns - event.begin_ns for event in events), default=0)
        if not events or (
                paused is not None and (lasted_ns < LONG_GAP_S * NS_PER_S) is not paused):
            return
        yield _with_effect(facts, events, {'effect': _effect(events)}, [])
    return when


def not_recorded(facts: TakeFacts) -> Iterator[Case]:
    """Find losses between publisher and recorder."""
    topics, events = facts.take.notes.get('lost', ''), facts.common.get('not recorded', [])
    if topics or events:
        yield _with_effect(facts, events, {
            'topics': topics or 'their number is unknown', 'effect': (
                f' ({_effect(events)})' if events and topics else _effect(events))},
            losses(facts.take) if topics else [])


def clock_set(facts: TakeFacts) -> Iterator[Case]:
    """Find steps of the recording computer's clock."""
    steps, events = clock_steps(facts.take), facts.common.get('computer clock set', [])
    if steps:
        yield _with_effect(facts, events, {
            'times': counted(len(steps), 'time'),
            'effect': f' ({_effect(events)})' if events else ''}, steps)


def _with_effect(
    facts: TakeFacts, events: Sequence[TakeEvent], figures: Mapping[str, object], spans: Spans,
) -> Case:
    return Case(
        tuple(dict.fromkeys(name for event in events for name in event.bodies)), figures, (
            *facts.spans(spans), *(span for event in events for span in facts.spans(
                [(event.begin_ns, event.end_ns)], *event.bodies))))


def _effect(events: Sequence[TakeEvent]) -> str:
    """Describe what bodies had at once."""
    names = tuple(dict.fromkeys(name for event in events for name in event.bodies))
    parts = []
    for kind, text in (('gap', 'no pose for up to {:.2f} s'), ('jump', 'jumps in the poses'),
                       ('frozen', 'the same poses for up to {:.2f} s'), ('reset', 'resets')):
        chosen = [event.end_ns - event.begin_ns for event in events if event.kind == kind]
        if chosen:
            parts.append(text.format(max(chosen) / NS_PER_S) + (
                f' ({counted(len(chosen), "time")})' if len(chosen) > 1 else ''))
    who = printable(names[0], 100) if len(names) == 1 else f'{len(names)} bodies at once'
    return f'{who}: {", ".join(parts)}' if parts else ''


def clock_restarted(facts: TakeFacts) -> Iterator[Case]:
    """Find restarts of the clock model that nothing explains."""
    restarts = facts.unexplained_restarts
    if restarts:
        yield Case((), {'times': counted(len(restarts), 'time')}, facts.spans(restarts))


def uncertain(facts: TakeFacts) -> Iterator[Case]:
    """Find stamps that are uncertain for long."""
    clock = facts.take.clock
    known = [row.uncertainty_us for row in clock if not math.isnan(row.uncertainty_us)]
    usual = max(statistics.median(known), known[-1]) if known else 0.0
    if usual > UNCERTAIN_US:
        yield Case((), {'uncertainty': usual / 1000, 'worst': max(known) / 1000}, facts.spans(
            _runs_of(facts.take, lambda row: row.uncertainty_us > UNCERTAIN_US)))


def _runs_of(take: Take, condition: Callable[[ClockRow], bool]) -> Spans:
    """Return the times in which the rows of the clock meet a condition."""
    return [(rows[0].time_ns, rows[-1].time_ns) for met, rows in (
        (met, list(group)) for met, group in itertools.groupby(take.clock, condition)) if met]


# -- the bodies ----------------------------------------------------------------------------------
def broken(kind: str, long: bool | None = None) -> Condition:
    """
    Find bodies with gaps, jumps or freezes of their own.

    :param kind: 'gap', 'frozen' or 'jump'; resets that the node reported count as jumps.
    :param long: True: gaps of the bodies with a long one; False: those of the other bodies.
    """
    def when(facts: TakeFacts) -> Iterator[Case]:
        weigh = facts.longest_s if kind == 'gap' else None
        times = {name: sorted({*spans, *facts.own['reset'][name]}) if kind == 'jump' else spans
                 for name, spans in facts.own[kind].items()
                 if long is None or (facts.longest_s[name] >= LONG_GAP_S) is long}
        rows = sorted(((weigh[name] if weigh else len(spans), name, spans)
                       for name, spans in times.items() if spans), key=lambda row: -row[0])
        if not rows:
            return
        count = sum(len(spans) for _, _, spans in rows)
        names = tuple(name for _, name, _ in rows)
        concerned = [f for f in facts.bodies if f.name in names]
        yield Case(names, {
            'count': counted(count, 'discontinuity'), 'spans': counted(count, 'span'),
            'gaps': counted(count, 'gap' if long else 'short gap'),
            'longest': rows[0][0] * (1 if long else 1000),
            'total': sum(end - begin for _, _, spans in rows for begin, end in spans) / NS_PER_S,
            'jumps': sum(len(facts.own['jump'][name]) for name in names),
            'resets': sum(len(f.breaks.resets_ns) for f in concerned),
            **_changes(concerned)},
            tuple(sorted(span for _, name, spans in rows for span in facts.spans(spans, name))))
    return when


def _changes(bodies: Sequence[Figures]) -> dict[str, str]:
    """Describe the largest changes over gaps, and those that bodies cannot have made."""
    gaps = [gap for f in bodies for gap in f.breaks.gaps]
    jumps = [jump for f in bodies for jump in f.breaks.jumps]
    return {'change': _largest('; unseen, it changed by', gaps),
            'sizes': _largest(', up to', jumps)}


def _largest(begin: str, changes: Sequence[GapChange]) -> str:
    """Name the largest step and the largest turn; '' where all are small."""
    parts = []
    if changes:
        step = max(changes, key=lambda change: change.metres)
        turn = max(changes, key=lambda change: change.degrees)
        parts += [f'{step.metres:.2f} m in {_lasts(step)}'] * (step.metres >= _MOVED_M)
        parts += [f'{turn.degrees:.1f} degrees in {_lasts(turn)}'] * (turn.degrees >= _TURNED_DEG)
    return f'{begin} {" and ".join(parts)}' if parts else ''


def _lasts(change: GapChange) -> str:
    return _time((change.end_ns - change.begin_ns) / NS_PER_S)


def _time(seconds: float) -> str:
    return f'{seconds:.2f} s' if seconds >= 1.0 else f'{1000 * seconds:.0f} ms'


def over(
    limit: float, values: Callable[[TakeFacts], Mapping[str, float]],
    figures: Callable[[float], dict[str, object]] = lambda worst: {'time': _time(worst / 1000)},
) -> Condition:
    """Find bodies with a value above a limit."""
    def when(facts: TakeFacts) -> Iterator[Case]:
        known = values(facts)
        names = sorted((name for name, value in known.items() if value > limit),
                       key=lambda name: -known[name])
        if names:
            yield Case(tuple(names), figures(known[names[0]]))
    return when


def hidden(facts: TakeFacts) -> dict[str, float]:
    """Return the share in which bodies were not seen, without those that had a long gap."""
    excused = {name for events in facts.common.values() for event in events
               for name in event.bodies}
    excused.update(name for name, seconds in facts.longest_s.items() if seconds >= LONG_GAP_S)
    return {f.name: 1.0 - f.coverage for f in facts.bodies if f.name not in excused}


def timed(value: Callable[[Figures], float]) -> Callable[[TakeFacts], dict[str, float]]:
    """Return values of the bodies whose stamps are of the recorder's clock."""
    return lambda facts: {f.name: value(f) for f in facts.bodies if f.name not in facts.others_ms}


def drifted(facts: TakeFacts) -> Iterator[Case]:
    """Find bodies that moved while they rested."""
    rest = {f.name: f.rest for f in facts.bodies
            if f.rest is not None and f.rest.drift_mm > DRIFT_MM}
    names = sorted(rest, key=lambda name: -rest[name].drift_mm)
    if names:
        worst = rest[names[0]]
        yield Case(tuple(names), {'drift': worst.drift_mm, 'seconds': worst.seconds}, tuple(
            span for name in names for span in facts.spans([(
                rest[name].begin_ns,
                rest[name].begin_ns + round(rest[name].seconds * NS_PER_S))], name)))


def odd_log_times(facts: TakeFacts) -> Iterator[Case]:
    """Find log times that no recording can have."""
    odd = [f for f in facts.bodies if f.odd_arrivals]
    if odd:
        yield Case(tuple(f.name for f in odd), {
            'count': f'{sum(f.odd_arrivals for f in odd)} of {sum(f.poses for f in odd)}'})


def in_one_place(facts: TakeFacts) -> Iterator[Case]:
    """Find bodies that are within a millimetre of each other for seconds."""
    times = place_times(facts.take)
    step_s = float(times[1] - times[0]) / NS_PER_S if len(times) > 1 else 0.0
    groups: list[tuple[set[str], int, int, float]] = []
    for one, other in itertools.combinations(facts.bodies, 2):
        (first, place), (second, its_place) = one.places, other.places
        at = np.flatnonzero((first >= 0) & (np.abs(first - second) < _SAME_FRAME_NS))
        at = at[np.abs(place[at] - its_place[at]).max(axis=1) < SAME_PLACE_M]
        if len(at) * step_s < SAME_PLACE_S:
            continue
        distance = float(np.median(np.linalg.norm(place[at] - its_place[at], axis=1)))
        known = next((group for group in groups if {one.name, other.name} & group[0]), None)
        if known is None:
            groups.append(({one.name, other.name}, int(times[at[0]]), int(times[at[-1]]),
                           distance))
        else:
            known[0].update((one.name, other.name))
    for names, begin_ns, end_ns, distance in groups:
        yield Case(tuple(sorted(names)), {'distance': 1000 * distance},
                   facts.spans([(begin_ns, end_ns)]))


def by_rates(when: Callable[[StreamFacts], Iterable[Case]]) -> Condition:
    """Return the condition of a rule of rates for a take."""
    def of_take(facts: TakeFacts) -> Iterable[Case]:
        expected = [settings.get('expected_rate_hz', 0.0)
                    for settings in facts.take.settings().values()]
        return when(StreamFacts(rate=RateFacts(
            {f.name: f.rate_hz for f in facts.bodies if not math.isnan(f.rate_hz)},
            max((float(value) for value in expected if isinstance(value, (int, float))),
                default=0.0))))
    return of_take
