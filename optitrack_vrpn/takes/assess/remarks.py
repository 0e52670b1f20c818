# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find what is wrong with a take, as findings of ``findings/`` with their times, worst first.

Gaps, freezes and jumps that begin within two frames of each other belong together. If 80 % of the
bodies have them, their cause is in the server, the network or the recorder, and what the node and
the recorder reported at that time decides which; else it is in the body. One cause gives one
finding for all bodies and times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import itertools
import math
import statistics
from typing import NamedTuple

import numpy as np
from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.figures import Figures, GapChange, place_times, Spans
from optitrack_vrpn.takes.take import ClockRow, OTHER_CLOCK_NS, Take
from optitrack_vrpn.telling.catalogue import CAUSES, Finding, Span
from optitrack_vrpn.telling.rules import rate_findings

#: Gap (s) that is an error; shorter ones are warnings: autopilots report a lost fix after about
#: half a second.
LONG_GAP_S = 0.5
#: Age of late poses and jitter (ms): a tenth of the gap, and several camera periods.
LATE_MS, JITTER_MS = 50.0, 20.0
#: A time further (ns) outside of the take is not reported: it is that of a damaged record, or the
#: take has no pose, and with it no begin.
_OUTSIDE_NS = 3600 * NS_PER_S
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
#: Fraction of the bodies whose events have one cause.
COMMON = 0.8
#: Frames within which events begin together.
_TOGETHER = 2.5
#: Reports of the node come this long (ns) before and after an event: once a second, and the clock
#: is learnt anew after a restart.
_BEFORE_NS, _AFTER_NS = NS_PER_S, 5 * NS_PER_S
_ORDER = {key: place for place, key in enumerate(CAUSES)}


class TakeEvent(NamedTuple):
    """
    A gap, a freeze, a jump or a reset of one body or of several at once.

    :ivar kind: 'gap', 'frozen', 'jump' or 'reset'.
    :ivar cause: key of the cause; '' if it is in the bodies.
    """

    begin_ns: int
    end_ns: int
    kind: str
    bodies: tuple[str, ...]
    cause: str


def events(take: Take, bodies: Sequence[Figures]) -> list[TakeEvent]:
    """Join what bodies have at the same time, in the order of time."""
    rate = max((f.rate_hz for f in bodies if f.rate_hz > 0.0), default=100.0)
    together_ns = round(_TOGETHER * NS_PER_S / rate)
    found: list[tuple[str, int, int, str]] = []
    for f in bodies:
        breaks, jumps = f.breaks, [jump.end_ns for jump in f.breaks.jumps]
        edges = sorted([*itertools.chain(*breaks.gaps_ns, *breaks.frozen_ns), *jumps])
        found += [('gap', *span, f.name) for span in breaks.gaps_ns]
        found += [('frozen', *span, f.name) for span in breaks.frozen_ns]
        found += [('jump', at, at, f.name) for at in jumps]
        found += [('reset', at, at, f.name) for at in breaks.resets_ns
                  if not _near(at, edges, NS_PER_S // 2)]
    found.sort()
    reported = _reported(take)
    made: list[TakeEvent] = []
    first = 0
    while first < len(found):
        kind, begin_ns, _, _ = found[first]
        last = first
        while last < len(found) and found[last][0] == kind and (
                found[last][1] - begin_ns <= together_ns):
            last += 1
        group, first = found[first:last], last
        names = tuple(dict.fromkeys(row[3] for row in group))
        end_ns = max(row[2] for row in group)
        cause = next((key for key, kinds, spans in reported if kind in kinds and any(
            begin <= end_ns + _AFTER_NS and end >= begin_ns - _BEFORE_NS
            for begin, end in spans)), '')
        if len(names) >= max(COMMON * len(bodies), 1) and (cause or len(names) > 1):
            made.append(TakeEvent(begin_ns, end_ns, kind, names, cause or (
                'interrupted by all' if kind == 'gap' else 'changed by all')))
        else:
            made += [TakeEvent(begin, end, kind, (name,), '') for _, begin, end, name in group]
    return sorted(made)


def _near(at_ns: int, others: Sequence[int], within_ns: int) -> bool:
    """Return whether one of the others, which are sorted, is this near."""
    place = bisect_left(others, at_ns - within_ns)
    return place < len(others) and others[place] <= at_ns + within_ns


def _reported(take: Take) -> list[tuple[str, tuple[str, ...], Spans]]:
    """Return causes that node and recorder reported, with kinds of events, and when."""
    every = ('gap', 'frozen', 'jump', 'reset')
    return [('server restarted', every, [(at, at) for at in clock_restarts(take)]),
            ('connection lost', ('gap',), link_losses(take)),
            ('computer clock set', every, clock_steps(take)),
            ('not recorded', ('gap',), losses(take))]


def clock_restarts(take: Take) -> list[int]:
    """Return when the node began another epoch of the sender's clock (ns)."""
    return [row.time_ns for before, row in zip(take.clock, take.clock[1:])
            if row.epoch > before.epoch]


def losses(take: Take) -> Spans:
    """Return the seconds in which messages were lost between publisher and recorder."""
    seconds = sorted({int(row.split()[0]) for row in take.notes.get('lost_at', '').split(', ')
                      if row.split() and row.split()[0].isdecimal()})
    return [(begin, begin + NS_PER_S) for begin in (
        NS_PER_S * at - take.log_offset_ns for at in seconds)]


def clock_steps(take: Take) -> Spans:
    """Return when the clock of the recording computer was set."""
    times = [row.partition(':')[0] for row in take.notes.get('clock_steps', '').split(', ')]
    return [(at, at) for at in (
        int(text) - take.log_offset_ns for text in times if text.isdecimal())]


def link_losses(take: Take) -> Spans:
    """Return when the node reported that it was not connected."""
    spans = []
    for (begin_ns, text), (end_ns, _) in zip(take.links, [*take.links[1:], (take.end_ns, '')]):
        if text not in ('connected', 'streaming'):
            spans.append((begin_ns, max(end_ns, begin_ns)))
    return spans


def findings(take: Take, bodies: Sequence[Figures]) -> list[Finding]:
    """Assess a take, worst finding first; a take without faults has one finding that states it."""
    joined = events(take, bodies)
    common: dict[str, list[TakeEvent]] = {}
    for event in joined:
        if event.cause:
            common.setdefault(event.cause, []).append(event)
    found = [*_of_the_file(take), *_reported_faults(take, common), *_of_the_clock(take, common),
             *_of_the_bodies(take, bodies, joined)]
    seen = {f.name for f in bodies}
    for key, names in (('never seen', take.unseen),
                       ('one pose', [name for name in take.bodies if name not in seen])):
        if names:
            found.append(Finding(key, tuple(names)))
    if not take.bodies:
        found.append(Finding('nothing recorded'))
    found.sort(key=lambda one: (-one.severity, _ORDER[one.key]))
    return found or [Finding('no fault', (), {'count': counted(len(bodies), 'body')})]


def _spans(take: Take, spans: Iterable[tuple[int, int]], *bodies: str) -> tuple[Span, ...]:
    """Convert times (ns) in a take or near it to seconds from its begin; leave out others."""
    return tuple(Span((begin - take.begin_ns) / NS_PER_S, (end - take.begin_ns) / NS_PER_S, bodies)
                 for begin, end in spans
                 if take.begin_ns - _OUTSIDE_NS < begin < take.end_ns + _OUTSIDE_NS)


def _of_the_file(take: Take) -> list[Finding]:
    found = []
    if take.cut:
        found.append(Finding('export cut' if take.kind == 'motive csv' else 'incomplete', (), {
            'reason': take.cut}))
    twice = {frame: sorted(parents)[:3] for frame, parents in sorted(take.parents.items())
             if len(parents) > 1}
    for frame, parents in itertools.islice(twice.items(), 3):
        found.append(Finding('two parents', (), {
            'frame': listed([frame]), 'parents': listed(parents)}))
    if take.shared_names:
        found.append(Finding('one name', tuple(take.shared_names)))
    if take.notes.get('uncounted'):
        found.append(Finding('not counted', (), {'topics': take.notes['uncounted']}))
    if take.damaged:
        found.append(Finding('damaged', (), {
            'places': counted(len(take.damaged), 'place'), 'reason': take.damaged[0][0]},
            _spans(take, (span for _, span in take.damaged if span[1]))))
    if take.missing:
        found.append(Finding('missing messages', (), {'count': counted(take.missing, 'message')}))
    for topic, count in take.unread.items():
        found.append(Finding('not decoded', (), {
            'count': count, 'total': take.topics.get(topic, count), 'topic': topic}))
    for reason in dict.fromkeys(each.reason for each in take.left_out.values()):
        topics = sorted((topic for topic, each in take.left_out.items() if each.reason == reason),
                        key=lambda topic: -take.left_out[topic].poses)
        worst = take.left_out[topics[0]]
        found.append(Finding('left out', (), {
            'count': f'{counted(worst.poses, "pose")} of {worst.total}', 'topic': topics[0]
            + (f' (and of {counted(len(topics) - 1, "other topic")})' if topics[1:] else ''),
            'reason': reason}))
    for note, key, figure in (('recovered', 'repaired', 'detail'), ('dropped', 'dropped', 'count'),
                              ('stopped', 'ended early', 'reason')):
        if take.notes.get(note):
            found.append(Finding(key, (), {figure: take.notes[note]}))
    for silent_s, part in zip(take.silent_s, ('first', 'last')):
        if SILENT_S <= silent_s < _ODD_S:
            found.append(Finding('silent at an end', (), {'silent': silent_s, 'part': part}))
    with contextlib.suppress(ValueError):
        percent = float(take.connection.get('udp_lost_percent', 'nan'))
        lost = int(take.connection.get('udp_lost', '0'))
        share = 100.0 * lost / (lost + max(int(take.connection.get('messages', '0')), 1))
        if share > LOST_PERCENT or percent > LOST_PERCENT:
            found.append(Finding('lost', (), {
                'share': f'{counted(lost, "message")} of Motive ({share:.2f} %)'}))
    return found


def _reported_faults(take: Take, common: Mapping[str, list[TakeEvent]]) -> list[Finding]:
    """Make one finding of each cause beyond the bodies, with all that it had as an effect."""
    steps, topics = clock_steps(take), take.notes.get('lost', '')
    known: dict[str, tuple[dict[str, object], Spans]] = {}
    if topics:
        known['not recorded'] = {'topics': topics}, losses(take)
    if steps:
        known['computer clock set'] = {'times': counted(len(steps), 'time')}, steps
    found = []
    for key in [*known, *(key for key in common if key not in known)]:
        figures, spans = known.get(key, ({'topics': 'their number is unknown'}, []))
        events = common.get(key, [])
        effect = _effect(events)
        names = tuple(dict.fromkeys(name for event in events for name in event.bodies))
        if key == 'interrupted by all' and max(
                event.end_ns - event.begin_ns for event in events) < LONG_GAP_S * NS_PER_S:
            key = 'paused by all'
        found.append(Finding(key, names, {
            **figures, 'effect': f' ({effect})' if key in known and effect else effect}, (
                *_spans(take, spans), *(span for event in events for span in _spans(
                    take, [(event.begin_ns, event.end_ns)], *event.bodies)))))
    return found


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


def _of_the_clock(take: Take, common: Mapping[str, list[TakeEvent]]) -> list[Finding]:
    found = []
    explained = [event for events in common.values() for event in events]
    restarts = [at for at in clock_restarts(take) if not any(
        event.begin_ns - _AFTER_NS <= at <= event.end_ns + _AFTER_NS for event in explained)]
    if restarts:
        found.append(Finding('clock restarted', (), {'times': counted(len(restarts), 'time')},
                             _spans(take, [(at, at) for at in restarts])))
    known = [row.uncertainty_us for row in take.clock if not math.isnan(row.uncertainty_us)]
    usual = max(statistics.median(known), known[-1]) if known else 0.0
    if usual > UNCERTAIN_US:
        found.append(Finding('uncertain stamps', (), {
            'uncertainty': usual / 1000, 'worst': max(known) / 1000}, _spans(
                take, _runs_of(take, lambda row: row.uncertainty_us > UNCERTAIN_US))))
    return found


def _of_the_bodies(
    take: Take, bodies: Sequence[Figures], joined: Sequence[TakeEvent],
) -> list[Finding]:
    """Make one finding of each cause in the bodies, the worst body first."""
    own: dict[str, dict[str, Spans]] = {
        kind: {f.name: [] for f in bodies} for kind in ('gap', 'frozen', 'jump', 'reset')}
    for event in joined:
        if not event.cause:
            own[event.kind][event.bodies[0]].append((event.begin_ns, event.end_ns))
    longest_s = {name: max((end - begin for begin, end in spans), default=0) / NS_PER_S
                 for name, spans in own['gap'].items()}
    found = []
    for key, times, weights in (
            ('jumped', {name: sorted({*spans, *own['reset'][name]})
                        for name, spans in own['jump'].items()}, None),
            ('gaps', {name: own['gap'][name] for name in longest_s
                      if longest_s[name] >= LONG_GAP_S}, longest_s),
            ('short gaps', {name: own['gap'][name] for name in longest_s
                            if longest_s[name] < LONG_GAP_S}, longest_s),
            ('froze', own['frozen'], None)):
        rows = [(weights[name] if weights else len(spans), name, spans)
                for name, spans in times.items() if spans]
        if not rows:
            continue
        rows.sort(key=lambda row: -row[0])
        count = sum(len(spans) for _, _, spans in rows)
        names = tuple(name for _, name, _ in rows)
        found.append(Finding(key, names, {
            'count': counted(count, 'discontinuity'), 'spans': counted(count, 'span'),
            'gaps': counted(count, 'gap' if key == 'gaps' else 'short gap'),
            'longest': rows[0][0] * (1 if key == 'gaps' else 1000),
            'total': sum(end - begin for _, _, spans in rows for begin, end in spans) / NS_PER_S,
            'jumps': sum(len(own['jump'][name]) for name in names),
            'resets': sum(len(f.breaks.resets_ns) for f in bodies if f.name in names),
            **_changes([f for f in bodies if f.name in names])}, tuple(
                sorted(span for _, name, spans in rows for span in _spans(take, spans, name)))))
    excused = {name for event in joined if event.cause for name in event.bodies}
    excused.update(name for name, seconds in longest_s.items() if seconds >= LONG_GAP_S)
    rest = {f.name: f.rest for f in bodies if f.rest is not None}
    others = {f.name: f.latency_ms for f in bodies if abs(f.latency_ms) > OTHER_CLOCK_NS / 1e6}
    if others:
        found.append(Finding('other clock', tuple(others), {
            'latency': max(map(abs, others.values())) / 1000}))
    odd = {f.name: f.odd_arrivals for f in bodies if f.odd_arrivals}
    if odd:
        found.append(Finding('odd log times', tuple(odd), {
            'count': f'{sum(odd.values())} of {sum(f.poses for f in bodies if f.name in odd)}'}))
    bunched = {f.name: f.bunched for f in bodies if f.bunched > BUNCHED_SHARE}
    if bunched:
        found.append(Finding('bunched', tuple(bunched), {
            'percent': 100.0 * max(bunched.values())}))
    found += _in_one_place(take, bodies)
    timed = [f for f in bodies if f.name not in others]
    for key, figure, values, limit in (
            ('seldom seen', 'hidden', {f.name: 1.0 - f.coverage for f in bodies
                                       if f.name not in excused}, 1.0 - LEAST_COVERAGE),
            ('late', 'latency', {f.name: f.latency_ms for f in timed}, LATE_MS),
            ('ahead', 'latency', {f.name: f.ahead_ms for f in timed}, AHEAD_MS),
            ('jitter', 'jitter', {f.name: f.jitter_ms for f in timed}, JITTER_MS),
            ('noisy', 'noise', {name: one.sigma3_mm for name, one in rest.items()}, NOISE_MM),
            ('drifted', 'drift', {name: one.drift_mm for name, one in rest.items()}, DRIFT_MM)):
        over = sorted((name for name, value in values.items() if value > limit),
                      key=lambda name: -values[name])
        if over:
            worst = rest.get(over[0])
            found.append(Finding(key, tuple(over), {
                figure: values[over[0]], 'percent': 100.0 * (1.0 - values[over[0]]),
                'time': _time(values[over[0]] / 1000),
                'seconds': worst.seconds if worst else 0.0}, tuple(
                    span for name in over for span in _spans(take, [(
                        rest[name].begin_ns,
                        rest[name].begin_ns + round(rest[name].seconds * NS_PER_S))], name))
                if key == 'drifted' else ()))
    return found + rate_findings(
        {f.name: f.rate_hz for f in bodies if not math.isnan(f.rate_hz)}, _expected_hz(take))


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


def _in_one_place(take: Take, bodies: Sequence[Figures]) -> Iterator[Finding]:
    """Find bodies that are within a millimetre of each other for seconds."""
    times = place_times(take)
    step_s = float(times[1] - times[0]) / NS_PER_S if len(times) > 1 else 0.0
    groups: list[tuple[set[str], int, int, float]] = []
    for one, other in itertools.combinations(bodies, 2):
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
        yield Finding('in one place', tuple(sorted(names)), {'distance': 1000 * distance},
                      _spans(take, [(begin_ns, end_ns)]))


def _runs_of(take: Take, condition: Callable[[ClockRow], bool]) -> Spans:
    """Return the times in which the rows of the clock meet a condition."""
    return [(rows[0].time_ns, rows[-1].time_ns) for met, rows in (
        (met, list(group)) for met, group in itertools.groupby(take.clock, condition)) if met]


def _expected_hz(take: Take) -> float:
    """Return the rate of the cameras that the node was told (Hz), or 0."""
    values = [settings.get('expected_rate_hz', 0.0) for settings in take.settings().values()]
    return max((float(value) for value in values if isinstance(value, (int, float))), default=0.0)
