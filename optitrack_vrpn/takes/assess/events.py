# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Facts of a take for its rules: what bodies have at the same time, and what was reported then.

Gaps, freezes and jumps that begin within two frames of each other belong together. If 80 % of the
bodies have them, their cause is in the server, the network or the recorder, and what the node and
the recorder reported at that time decides which; else it is in the body.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
import itertools
from typing import NamedTuple

from optitrack_vrpn.core.findings import Span
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.figures import Figures, Spans
from optitrack_vrpn.takes.take import OTHER_CLOCK_NS, Take

#: Fraction of the bodies whose events have one cause.
COMMON = 0.8
#: Frames within which events begin together.
_TOGETHER = 2.5
#: Reports of the node come this long (ns) before and after an event: once a second, and the clock
#: is learnt anew after a restart.
_BEFORE_NS, _AFTER_NS = NS_PER_S, 5 * NS_PER_S
#: A time further (ns) outside of the take is not reported: it is that of a damaged record, or the
#: take has no pose, and with it no begin.
_OUTSIDE_NS = 3600 * NS_PER_S


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


class TakeFacts:
    """
    All facts of a take.

    :param take: the take.
    :param bodies: the figures of its bodies with two or more poses.
    :ivar events: what bodies have, joined, in the order of time.
    :ivar common: events that have a cause beyond the bodies, by this cause.
    :ivar own: times (ns) of the others, by kind and body.
    :ivar longest_s: the longest gap of each body by itself (s); 0 without one.
    """

    def __init__(self, take: Take, bodies: Sequence[Figures]) -> None:
        self.take, self.bodies = take, bodies
        self.events = events(take, bodies)
        self.common: dict[str, list[TakeEvent]] = {}
        self.own: dict[str, dict[str, Spans]] = {
            kind: {f.name: [] for f in bodies} for kind in ('gap', 'frozen', 'jump', 'reset')}
        for event in self.events:
            if event.cause:
                self.common.setdefault(event.cause, []).append(event)
            else:
                self.own[event.kind][event.bodies[0]].append((event.begin_ns, event.end_ns))
        self.longest_s = {name: max((end - begin for begin, end in spans), default=0) / NS_PER_S
                          for name, spans in self.own['gap'].items()}

    def spans(self, spans: Iterable[tuple[int, int]], *bodies: str) -> tuple[Span, ...]:
        """Convert times (ns) in the take or near it to seconds from its begin; omit others."""
        take = self.take
        return tuple(
            Span((begin - take.begin_ns) / NS_PER_S, (end - take.begin_ns) / NS_PER_S, bodies)
            for begin, end in spans
            if take.begin_ns - _OUTSIDE_NS < begin < take.end_ns + _OUTSIDE_NS)

    @property
    def unmeasured(self) -> list[str]:
        """Return the bodies with a single pose, which have no figures."""
        measured = {f.name for f in self.bodies}
        return [name for name in self.take.bodies if name not in measured]

    @property
    def others_ms(self) -> dict[str, float]:
        """Return the latency (ms) of bodies whose stamps are of another clock."""
        return {f.name: abs(f.latency_ms) for f in self.bodies
                if abs(f.latency_ms) > OTHER_CLOCK_NS / 1e6}

    @property
    def unexplained_restarts(self) -> Spans:
        """Return the restarts of the clock model without another event at that time."""
        explained = [event for events in self.common.values() for event in events]
        return [(at, at) for at in clock_restarts(self.take) if not any(
            event.begin_ns - _AFTER_NS <= at <= event.end_ns + _AFTER_NS for event in explained)]
