# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The page of a report: what its template shows, as texts and percentages of the timeline."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
import hashlib
from importlib import resources
import math
import re
from typing import Any, Optional

from optitrack_vrpn.core.errors import BackendUnavailableError
from optitrack_vrpn.core.findings import Finding, Span
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.units import NS_PER_S, span_text
from optitrack_vrpn.takes.assess.charts import Picture
from optitrack_vrpn.takes.assess.events import clock_restarts, link_losses
from optitrack_vrpn.takes.assess.figures import Figures
from optitrack_vrpn.takes.assess.svg import ticks
from optitrack_vrpn.takes.evaluate.evaluation_odometry import OdometryEvaluation
from optitrack_vrpn.takes.take import SETTINGS, Take

#: Times of a finding that are shown, and events of a row of the timeline.
_MOST_TIMES, _MOST_EVENTS = 3, 500
#: The begin of a page.
OWN = re.compile(rb'<!DOCTYPE html>\s*<!-- optitrack_vrpn report')
#: Stamps before 1990 are times since the begin of a take, not dates.
_DATES_NS = 20 * 365 * 86400 * NS_PER_S
#: Columns of the table of gaps, and its longest gaps and first jumps.
GAP_HEAD = ('gap or jump at', 'lasts', 'moved', 'turned', 'possible')
_MOST_GAPS = 10
_HEAD = ('body', 'poses', 'Hz', 'seen %', 'gaps', 'longest s', 'jumps', 'resets', 'frozen',
         'fastest m/s', 'latency ms', 'p99 ms', 'interval p99 ms', 'noise 3σ mm', '3σ deg',
         'drift mm')
#: Notes of the recorder that findings state.
_KNOWN_NOTES = ('lost', 'lost_at', 'clock_steps', 'dropped', 'stopped', 'recovered')


@dataclass
class Section:
    """
    A part of the page: findings, a table, a paragraph and pictures under a heading.

    :ivar evaluation: what the template writes as another table and paragraph.
    """

    title: str
    pictures: Sequence[Picture] = ()
    found: Sequence[dict[str, Any]] = ()
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    text: str = ''
    evaluation: Optional[OdometryEvaluation] = None


@dataclass
class ReportClock:
    """
    Times of a take as texts.

    :ivar zone: zone of the recording computer, or of this one if the recording lacks it.
    """

    take: Take
    zone: Optional[tzinfo] = field(init=False)

    def __post_init__(self) -> None:
        """Take the zone from the notes of the recorder."""
        offset = self.take.notes.get('utc_offset_s', '')
        self.zone = timezone(timedelta(seconds=int(offset))) if (
            offset.lstrip('-').isdecimal() and abs(int(offset)) < 86400) else None

    @property
    def dated(self) -> bool:
        """Return whether stamps are dates."""
        return self.take.begin_ns > _DATES_NS

    def of(self, at_ns: int) -> datetime:
        """Return a date in the zone."""
        return datetime.fromtimestamp(at_ns / NS_PER_S, self.zone).astimezone(self.zone)

    def time(self, at_ns: int) -> str:
        """Return the time of day, or seconds since the begin."""
        if not self.dated:
            return f'{(at_ns - self.take.begin_ns) / NS_PER_S:.1f} s'
        return f'{self.of(at_ns):%H:%M:%S.%f}'[:-5]

    def of_span(self, span: Span) -> str:
        """Return begin, seconds since the begin of the take, and duration of an occurrence."""
        return self.span(*(self.take.begin_ns + round(at * NS_PER_S) for at in span[:2]))

    def span(self, begin_ns: int, end_ns: int) -> str:
        """Return begin, seconds since the begin of the take, and duration."""
        after = f' (+{(begin_ns - self.take.begin_ns) / NS_PER_S:.1f} s)' if self.dated else ''
        lasts = f' for {(end_ns - begin_ns) / NS_PER_S:.2f} s' if end_ns > begin_ns else ''
        return self.time(begin_ns) + after + lasts


def number(value: float, digits: int = 1) -> str:
    """Format a number; a dash if it is unknown."""
    return f'{value:.{digits}f}' if math.isfinite(value) else '–'


def grouped(count: int) -> str:
    """Write a count; thousands are separated from five digits on."""
    return str(count) if count < 10_000 else f'{count:,}'.replace(',', '\N{NARROW NO-BREAK SPACE}')


def duration(seconds: float) -> str:
    """Format a duration, as in ``2 h 0 min 5 s``."""
    if seconds < 120:
        return f'{seconds:.1f} s'
    minutes, rest = divmod(round(seconds), 60)
    return (f'{minutes // 60} h ' if minutes >= 60 else '') + f'{minutes % 60} min {rest} s'


def items(found: Sequence[Finding], clock: Optional[ReportClock] = None) -> list[dict[str, Any]]:
    """Return what the template shows of findings."""
    return [{
        'level': f.severity.word, 'text': f.text, 'remedy': f.remedy,
        'when': [(clock.of_span(span), f'f{index}-{number}' if _rows_of(f, span) else '')
                 for number, span in enumerate(f.spans[:_MOST_TIMES])] if clock else [],
        'more': max(len(f.spans) - _MOST_TIMES, 0)} for index, f in enumerate(found)]


def _rows_of(finding: Finding, span: Span) -> tuple[str, ...]:
    """Return the rows of the timeline that show an occurrence, the first with the anchor."""
    place = finding.rule.place
    return (*([place] if place else []), *(span.bodies or finding.bodies))


def _timeline(
    take: Take, found: Sequence[Finding], bodies: Sequence[Figures], clock: ReportClock,
) -> tuple[list[dict[str, Any]], list[tuple[float, str]]]:
    """Return the rows of the timeline and the labels of its axis, with places in percent."""
    span_ns = max(take.end_ns - take.begin_ns, 1)

    def percent(at_ns: int) -> float:
        return round(min(max(100.0 * (at_ns - take.begin_ns) / span_ns, 0.0), 100.0), 3)

    rows = []
    by_row: dict[str, list[dict[str, Any]]] = {}
    for index, finding in enumerate(found):
        for number, each in enumerate(finding.spans):
            left, right = (percent(take.begin_ns + round(at * NS_PER_S)) for at in each[:2])
            for place, name in enumerate(_rows_of(finding, each)):
                shown = by_row.setdefault(name, [])
                if len(shown) < _MOST_EVENTS:
                    shown.append({
                        'left': min(left, 99.7), 'width': round(right - left, 3),
                        'level': finding.severity.word,
                        'anchor': '' if place or number >= _MOST_TIMES else f'f{index}-{number}',
                        'title': f'{clock.of_span(each)}: {finding.text}'})
    restarts = [(at, at) for at in clock_restarts(take)]
    reported = {'server': (bool(take.links), link_losses(take), 'not connected'),
                'clock': (len(take.clock) > 0, restarts, 'a new epoch'),
                'recorder': (take.kind == 'bag', [], '')}
    for name, f in [*((f.name, f) for f in bodies), *((name, None) for name in reported)]:
        known, spans, text = reported[name] if f is None else (False, [], '')
        events = [{'left': min(percent(begin), 99.7), 'width': percent(end) - percent(begin),
                   'level': 'warning', 'anchor': '',
                   'title': f'{clock.span(begin, end)}: {text}'} for begin, end in spans]
        events += by_row.get(name, [])
        first, last = (percent(at) for at in f.span_ns) if f else (0.0, 0.0)
        seen = (first, round(last - first, 3)) if f else (0.0, 100.0) if known else None
        if seen or events:
            rows.append({'name': name, 'events': events, 'seen': seen})
    seconds = span_ns / NS_PER_S
    marks = [at for at in ticks(0.0, seconds, 6) if at < 0.85 * seconds] + [seconds]
    return rows, [(round(100 * at / seconds, 3), clock.time(take.begin_ns + round(
        at * NS_PER_S))) for at in marks]


def _facts(take: Take, bodies: Sequence[Figures], clock: ReportClock) -> list[str]:
    facts = []
    seconds = (take.end_ns - take.begin_ns) / NS_PER_S
    if clock.dated:
        begin, end = clock.of(take.begin_ns), clock.of(take.end_ns)
        zone = begin.strftime('%z')
        facts.append(f'{begin:%Y-%m-%d %H:%M:%S} to '
                     + (f'{end:%H:%M:%S}' if begin.date() == end.date()
                        else f'{end:%Y-%m-%d %H:%M:%S}') + f' UTC{zone[:3]}:{zone[3:5]}')
    facts += [duration(seconds), take.kind, counted(len(bodies), 'body'),
              f'{grouped(sum(take.topics.values()))} messages on '
              f'{counted(len(take.topics), "topic")}']
    facts += [f'{word} {take.notes[key]}' for key, word in (
        ('session', 'session'), ('host', 'recorded on'), ('version', 'by')) if take.notes.get(key)]
    return facts


def comparison(
    names: tuple[str, str], first: Sequence[Figures], second: Sequence[Figures],
    found: Sequence[Finding],
) -> Section:
    """
    Compare the common bodies of two takes.

    :param found: about the second take.
    """
    others = {f.name: f for f in second}
    rows = []
    for f in first:
        other = others.get(f.name)
        if other is None:
            continue
        for what, one, two in (
                ('rate (Hz)', f.rate_hz, other.rate_hz),
                ('seen (%)', 100 * f.coverage, 100 * other.coverage),
                ('gaps', len(f.breaks.gaps), len(other.breaks.gaps)),
                ('longest gap (s)', f.longest_gap_s, other.longest_gap_s),
                ('jumps', len(f.breaks.jumps), len(other.breaks.jumps)),
                ('latency (ms)', f.latency_ms, other.latency_ms),
                ('jitter (ms)', f.jitter_ms, other.jitter_ms),
                ('noise 3σ (mm)', f.rest.sigma3_mm if f.rest else math.nan,
                 other.rest.sigma3_mm if other.rest else math.nan)):
            rows.append((f'{f.name}: {what}', number(one, 2), number(two, 2),
                         number(two - one, 2)))
    return Section(
        f'Compared with {names[1]}', found=items(found), head=('', *names, 'difference'),
        rows=rows, text='' if rows else 'The two takes have no body in common.')


def gap_rows(clock: ReportClock, f: Figures) -> list[tuple[str, ...]]:
    """Return the longest gaps and all changes that the body cannot have made, in their order."""
    breaks = f.breaks
    impossible = {change.end_ns for change in breaks.jumps}
    longest = sorted(breaks.gaps, key=lambda gap: gap.begin_ns - gap.end_ns)[:_MOST_GAPS]
    chosen = {change.end_ns: change for change in [*breaks.jumps[:_MOST_GAPS], *longest]}
    return [(clock.span(change.begin_ns, change.begin_ns),
             span_text((change.end_ns - change.begin_ns) / NS_PER_S),
             f'{change.metres:.3f} m', f'{change.degrees:.1f}°',
             'no' if at in impossible else 'yes') for at, change in sorted(chosen.items())]


def check_available() -> None:
    """
    Check that a page can be made.

    :raises BackendUnavailableError: if jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: F401
    except ImportError:
        raise BackendUnavailableError(
            'the report needs jinja2: install python3-jinja2 (pip: jinja2)') from None


def _part(name: str) -> str:
    return (resources.files('optitrack_vrpn.takes.assess') / 'page' / name).read_text('utf-8')


def _script() -> str:
    """Return the only script of a page, which adds the zoom."""
    return (f'/* uPlot\n{_part("uPlot.LICENSE")}*/\n{_part("uPlot.iife.min.js")}\n'
            f'{_part("zoom.js")}')


def page_policy() -> str:
    """Return the Content-Security-Policy with which a page is served: no script but its own."""
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    return (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
            "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")


def page(
    take: Take, found: Sequence[Finding], bodies: Sequence[Figures],
    sections: Sequence[Section], made: str,
) -> str:
    """
    Create the page.

    :param made: how it was created, for the footer.
    """
    import jinja2
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader('optitrack_vrpn.takes.assess', 'page'), autoescape=True,
        undefined=jinja2.StrictUndefined)
    clock = ReportClock(take)
    rows, axis = _timeline(take, found, bodies, clock)
    details = [(f'recorder: {key}', value) for key, value in take.notes.items()
               if key not in _KNOWN_NOTES and not key.startswith(SETTINGS)]
    details += [(f'connection: {key}', value) for key, value in take.connection.items()]
    return environment.get_template('report.html').render(
        name=take.name, facts=_facts(take, bodies, clock), found=items(found, clock),
        rows=rows, axis=axis, head=_HEAD, sections=sections, details=details, made=made,
        settings=[(node, [(name, str(value)) for name, value in values.items()])
                  for node, values in take.settings().items()], bodies=[_row(f) for f in bodies],
        style=_part('uPlot.min.css'), script=_script())


def _row(f: Figures) -> tuple[str, ...]:
    """Return a body's row of the table."""
    rest = (f.rest.sigma3_mm, f.rest.sigma3_deg, f.rest.drift_mm) if f.rest else [math.nan] * 3
    breaks = f.breaks
    return (f.name, grouped(f.poses), number(f.rate_hz), number(100 * f.coverage),
            str(len(breaks.gaps)), number(f.longest_gap_s, 2), str(len(breaks.jumps)),
            str(len(breaks.resets_ns)), str(len(breaks.frozen_ns)), number(f.speeds[0], 2),
            number(f.latency_ms), number(f.latency_p99_ms), number(f.interval_p99_ms, 2),
            *(number(value, 3) for value in rest))
