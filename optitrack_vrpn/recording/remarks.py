# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Findings about a take as sentences with their times, worst first; one cause gives one finding.

Gaps, freezes and jumps that begin within two frames of each other belong together. If 80 % of the
bodies have them, their cause is in the server, the network or the recorder, and what the node and
the recorder reported at that time decides which; else it is in the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
import contextlib
import math
import statistics
from typing import NamedTuple

from optitrack_vrpn.findings import Severity, too_slow
from optitrack_vrpn.names import counted
from optitrack_vrpn.recording.figures import Figures, Rest, Spans
from optitrack_vrpn.recording.take import Take
from optitrack_vrpn.units import NS_PER_S

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
#: Fraction of the bodies whose events have one cause.
COMMON = 0.8
#: Frames within which events begin together.
_TOGETHER = 2.5
#: Reports of the node come this long (ns) before and after an event: once a second, and the clock
#: is learnt anew after a restart.
_BEFORE_NS, _AFTER_NS = NS_PER_S, 5 * NS_PER_S


class Finding(NamedTuple):
    """
    One sentence of the result.

    :ivar weight: order of findings of equal severity, the largest first.
    :ivar spans_ns: begin and end of each occurrence; empty if it has no time.
    :ivar bodies: the bodies that it is about; empty for all.
    :ivar row: where it is on the timeline beside the bodies: 'server', 'clock' or 'recorder'.
    """

    severity: Severity
    text: str
    weight: float = 0.0
    spans_ns: Spans = []
    bodies: tuple[str, ...] = ()
    row: str = ''


class Event(NamedTuple):
    """
    A gap, a freeze or a jump of one body or of several at once.

    :ivar kind: 'gap', 'frozen', 'jump' or 'reset'.
    :ivar cause: '' if it is in the bodies.
    """

    begin_ns: int
    end_ns: int
    kind: str
    bodies: tuple[str, ...]
    cause: str


def events(take: Take, bodies: Sequence[Figures]) -> list[Event]:
    """Join what bodies have at the same time, in the order of time."""
    rate = max((f.rate_hz for f in bodies if f.rate_hz > 0.0), default=100.0)
    together_ns = round(_TOGETHER * NS_PER_S / rate)
    found: list[tuple[str, int, int, str]] = []
    for f in bodies:
        edges = [edge for span in (*f.gaps_ns, *f.frozen_ns) for edge in span]

        found += [('gap', *span, f.name) for span in f.gaps_ns]
        found += [('frozen', *span, f.name) for span in f.frozen_ns]
        found += [('jump', at, at, f.name) for at in f.own_jumps_ns]
        found += [('reset', at, at, f.name) for at in f.resets_ns
                  if not _near(at, [*edges, *f.jumps_ns], NS_PER_S // 2)]
    found.sort()
    made: list[Event] = []
    while found:
        kind, begin_ns, _, _ = found[0]
        group = [row for row in found if row[0] == kind and row[1] - begin_ns <= together_ns]
        found = found[len(group):]
        names = tuple(dict.fromkeys(row[3] for row in group))
        cause = _cause(take, kind, begin_ns, max(row[2] for row in group))
        common = len(names) >= max(COMMON * len(bodies), 1) and (cause or len(names) > 1)
        if common:
            made.append(Event(begin_ns, max(row[2] for row in group), kind, names, cause or (
                'the server or the network' if kind == 'gap' else 'the server')))
        else:
            made += [Event(begin, end, kind, (name,), '') for _, begin, end, name in group]
    return sorted(made)


def _near(at_ns: int, others: Iterable[int], within_ns: int) -> bool:
    return any(abs(at_ns - other) <= within_ns for other in others)


def clock_restarts(take: Take) -> list[int]:
    """Return when the node began another epoch of the sender's clock (ns)."""
    return [row.time_ns for before, row in zip(take.clock, take.clock[1:])
            if row.epoch > before.epoch]


def losses(take: Take) -> Spans:
    """Return the seconds in which messages were lost between publisher and recorder."""
    return [(NS_PER_S * at, NS_PER_S * (at + 1)) for at in sorted({
        int(row.split()[0]) for row in take.notes.get('lost_at', '').split(', ')
        if row.split() and row.split()[0].isdecimal()})]


def clock_steps(take: Take) -> Spans:
    """Return when the clock of the recording computer was set."""
    times = [row.partition(':')[0] for row in take.notes.get('clock_steps', '').split(', ')]
    return [(int(text), int(text)) for text in times if text.isdecimal()]


def link_losses(take: Take) -> Spans:
    """Return when the node reported that it was not connected."""
    spans = []
    for (begin_ns, text), (end_ns, _) in zip(take.links, [*take.links[1:], (take.end_ns, '')]):
        if text not in ('connected', 'streaming'):
            spans.append((begin_ns, max(end_ns, begin_ns)))
    return spans


def _cause(take: Take, kind: str, begin_ns: int, end_ns: int) -> str:
    """Return what was reported near an event."""
    def near(spans: Spans) -> bool:
        return any(begin <= end_ns + _AFTER_NS and end >= begin_ns - _BEFORE_NS
                   for begin, end in spans)

    restarts = [(at, at) for at in clock_restarts(take)]
    rows = ((near(restarts), 'the server restarted or its clock was set'),
            (kind == 'gap' and near(link_losses(take)), 'the connection to the server was lost'),
            (near(clock_steps(take)), 'the clock of the recording computer was set'),
            (kind == 'gap' and near(losses(take)),
             'messages were lost between publisher and recorder'))
    return next((text for found, text in rows if found), '')


def findings(take: Take, bodies: Sequence[Figures]) -> list[Finding]:
    """Assess a take, worst finding first; a take without faults has one finding that states it."""
    joined = events(take, bodies)
    found = [*_of_the_file(take), *_of_common_events(joined), *_of_the_clock(take, joined)]
    seen = [figures.name for figures in bodies]
    found += [Finding(Severity.ERROR, f'{name}: no pose was published during the whole take.',
                      1e6, [], (name,)) for name in take.unseen]
    found += [Finding(Severity.ERROR, f'{name}: only one pose was recorded.', 1e6, [], (name,))
              for name in take.bodies if name not in seen]
    if not take.bodies:
        found.append(Finding(Severity.ERROR, 'No pose of any body was recorded.', 1e9))
    found += _of_the_bodies(bodies, joined)
    found.sort(key=lambda finding: (-finding.severity, -finding.weight))
    if not found:
        found.append(Finding(
            Severity.GOOD, f'No fault was found: {counted(len(bodies), "body")}, no gaps, no '
            'jumps, no reported loss.'))
    return found


def _of_the_file(take: Take) -> list[Finding]:
    found = []
    repair = ' Repair it with record --recover.' if take.kind == 'bag' else ''
    if take.cut:
        found.append(Finding(
            Severity.ERROR, f'The recording is incomplete: {take.cut}.{repair}', 1e8))
    if take.damaged:
        found.append(Finding(
            Severity.ERROR, f'The file is damaged in {counted(len(take.damaged), "place")} '
            f'({take.damaged[0][0]}): messages of these times are missing.{repair}', 1e8,
            [span for _, span in take.damaged if span[1]], (), 'recorder'))
    if take.missing:
        found.append(Finding(
            Severity.ERROR, f'{counted(take.missing, "message")} of those that the recording '
            'counts cannot be found in it.', 1e8, [], (), 'recorder'))
    for topic, count in take.unread.items():
        found.append(Finding(
            Severity.WARNING, f'{count} of {take.topics.get(topic, count)} messages on {topic} '
            'could not be decoded and are missing here: they are damaged, or their type has '
            'another serialisation or definition than ROS 2 writes.', 1e6 + count))
    for topic, count in take.left_out.items():
        found.append(Finding(
            Severity.WARNING, f'{counted(count, "pose")} of {take.topics.get(topic, count)} on '
            f'{topic} are left out here: not finite, or their stamp does not rise (a recording in '
            'a loop, a clock that was set, two publishers).', 1e6 + count))
    if take.notes.get('recovered'):
        found.append(Finding(
            Severity.WARNING, 'The recording was repaired after an interruption '
            f'({take.notes["recovered"]}); the recorder\'s counts of lost messages are missing.',
            1e7))
    for note, text, spans in (
            ('dropped', 'The disk was too slow; dropped messages: {}.', []),
            ('lost', 'Some messages were lost between publisher and recorder ({}).',
             losses(take)),
            ('stopped', 'The recording ended early: {}.', [])):
        if take.notes.get(note):
            found.append(Finding(
                Severity.ERROR, text.format(take.notes[note]), 1e7, spans, (), 'recorder'))
    for silent_s, part in zip(take.silent_s, ('first', 'last')):
        if silent_s >= SILENT_S:
            found.append(Finding(
                Severity.WARNING, f'No pose arrived in the {part} {silent_s:.0f} s of the '
                'recording.', silent_s))
    steps = clock_steps(take)
    if steps:
        found.append(Finding(
            Severity.ERROR, f'The clock of the recording computer was set '
            f'{counted(len(steps), "time")} during the take: times before and after do not belong '
            'together. Synchronise it with chrony before a take.', 1e7, steps, (), 'recorder'))
    with contextlib.suppress(ValueError):
        percent = float(take.connection.get('udp_lost_percent', 'nan'))
        lost = int(take.connection.get('udp_lost', '0'))
        share = 100.0 * lost / (lost + max(int(take.connection.get('messages', '0')), 1))
        if share > LOST_PERCENT or percent > LOST_PERCENT:
            found.append(Finding(
                Severity.WARNING, f'The network lost {counted(lost, "message")} ({share:.2f} %) '
                'between Motive and the node.', share))
    return found


def _of_common_events(joined: Sequence[Event]) -> list[Finding]:
    """Make one finding of all events with one cause."""
    found = []
    for kind, cause in dict.fromkeys((each.kind, each.cause) for each in joined if each.cause):
        chosen = [each for each in joined if (each.kind, each.cause) == (kind, cause)]
        spans = [(each.begin_ns, each.end_ns) for each in chosen]
        longest_s = max(end - begin for begin, end in spans) / NS_PER_S
        names = tuple(dict.fromkeys(name for each in chosen for name in each.bodies))
        who = names[0] if len(names) == 1 else f'{len(names)} bodies at once'
        text = {'gap': f'no pose for up to {longest_s:.2f} s',
                'frozen': f'the same poses were repeated for up to {longest_s:.2f} s',
                'jump': 'jumps in the poses', 'reset': 'resets reported by the node'}[kind]
        times = f', {counted(len(spans), "time")}' if len(spans) > 1 else ''
        found.append(Finding(
            Severity.WARNING if kind == 'gap' and longest_s < LONG_GAP_S else Severity.ERROR,
            f'{who}: {text}{times}; the cause is common: {cause}.', 2e5 + longest_s, spans, names,
            'recorder' if 'record' in cause else 'server'))
    return found


def _of_the_clock(take: Take, joined: Sequence[Event]) -> list[Finding]:
    found = []
    restarts = [at for at in clock_restarts(take) if not any(
        each.cause and each.begin_ns - _AFTER_NS <= at <= each.end_ns + _AFTER_NS
        for each in joined)]
    if restarts:
        found.append(Finding(
            Severity.WARNING, f'The clock model of the sender restarted '
            f'{counted(len(restarts), "time")} (a restart of Motive, or a set clock): stamps step '
            'there by up to the uncertainty.', 1e3, [(at, at) for at in restarts], (), 'clock'))
    known = [row.uncertainty_us for row in take.clock if not math.isnan(row.uncertainty_us)]
    worst = max(statistics.median(known), known[-1]) if known else 0.0
    if worst > UNCERTAIN_US:
        found.append(Finding(
            Severity.WARNING, f'Stamps are uncertain by {worst / 1000:.1f} ms: the network or a '
            'busy computer delays frames unevenly.', worst))
    return found


def _of_the_bodies(bodies: Sequence[Figures], joined: Sequence[Event]) -> list[Finding]:
    """Join findings of one kind that most bodies have."""
    fastest = max((f.rate_hz for f in bodies if not math.isnan(f.rate_hz)), default=0.0)
    by_kind: dict[str, list[tuple[Figures, Finding]]] = {}
    for figures in bodies:
        own = [each for each in joined if each.bodies == (figures.name,) and not each.cause]
        for kind, finding in _of_a_body(figures, fastest, own, any(
                each.cause and figures.name in each.bodies for each in joined)):
            by_kind.setdefault(kind, []).append((figures, finding))
    found = []
    for kind, rows in by_kind.items():
        if kind in ('jump', 'gap', 'frozen') or len(rows) < max(2, COMMON * len(bodies)):
            found += [finding._replace(text=f'{f.name}: {finding.text}', bodies=(f.name,))
                      for f, finding in rows]
        else:
            worst, finding = max(rows, key=lambda row: (row[1].severity, row[1].weight))
            found.append(finding._replace(
                text=f'{len(rows)} of {len(bodies)} bodies, most {worst.name}: {finding.text}'))
    return found


def _of_a_body(
    f: Figures, fastest_hz: float, own: Sequence[Event], common: bool,
) -> list[tuple[str, Finding]]:
    rest = f.rest or Rest(0.0, 0, 0.0, 0.0, 0.0)
    spans = {kind: [(each.begin_ns, each.end_ns) for each in own if each.kind == kind]
             for kind in ('gap', 'frozen', 'jump', 'reset')}
    waits = [(end - begin) / NS_PER_S for begin, end in spans['gap']]
    longest_s = max(waits, default=0.0)
    long = longest_s >= LONG_GAP_S
    jumps = sorted({*spans['jump'], *spans['reset']})
    rows: tuple[tuple[str, object, Severity, str, float, Spans], ...] = (
        ('jump', jumps, Severity.ERROR,
         f'{counted(len(jumps), "discontinuity")} (jumps in the poses: {len(spans["jump"])}, '
         f'resets reported by the node: {len(f.resets_ns)}).', 1e5 + len(jumps), jumps),
        ('gap', long, Severity.ERROR,
         f'no pose for up to {longest_s:.2f} s; {counted(len(waits), "gap")}, {sum(waits):.2f} s '
         'in total.', sum(waits), spans['gap']),
        ('gap', waits and not long, Severity.WARNING,
         f'{counted(len(waits), "short gap")}, up to {1000 * longest_s:.0f} ms.', sum(waits),
         spans['gap']),
        ('frozen', spans['frozen'], Severity.ERROR,
         f'the same pose was repeated in {counted(len(spans["frozen"]), "span")}: frozen data, '
         'not a body at rest.', len(spans['frozen']), spans['frozen']),
        ('coverage', f.coverage < LEAST_COVERAGE and not long and not common, Severity.WARNING,
         f'visible in {100 * f.coverage:.1f} % of the take.', 1.0 - f.coverage, []),
        ('rate', too_slow(f.rate_hz, fastest_hz), Severity.WARNING,
         f'{f.rate_hz:.0f} Hz where another body has {fastest_hz:.0f} Hz.',
         fastest_hz - f.rate_hz, []),
        ('latency', f.latency_ms > LATE_MS, Severity.WARNING,
         f'poses arrive {f.latency_ms:.0f} ms after their stamp (median).', f.latency_ms, []),
        ('jitter', f.jitter_ms > JITTER_MS, Severity.WARNING,
         f'one pose in a hundred arrives at least {f.jitter_ms:.0f} ms later than the median.',
         f.jitter_ms, []),
        ('noise', rest.sigma3_mm > NOISE_MM, Severity.WARNING,
         f'noise at rest is {rest.sigma3_mm:.2f} mm (3 sigma): calibrate the cameras, or remove '
         'reflections.', rest.sigma3_mm, []),
        ('drift', rest.drift_mm > DRIFT_MM, Severity.WARNING,
         f'moved by {rest.drift_mm:.2f} mm in {rest.seconds:.0f} s of rest: the cameras warm up, '
         'or the body slides.', rest.drift_mm,
         [(rest.begin_ns, rest.begin_ns + round(rest.seconds * NS_PER_S))]))
    return [(kind, Finding(severity, text, weight, times))
            for kind, found, severity, text, weight, times in rows if found]
