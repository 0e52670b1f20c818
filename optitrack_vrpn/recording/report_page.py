# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The page of a report: one HTML file without scripts, for screens of any size and for print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
import math

from optitrack_vrpn.names import counted
from optitrack_vrpn.recording.evaluation import Statistics
from optitrack_vrpn.recording.evaluation_odometry import OdometryEvaluation
from optitrack_vrpn.recording.figures import Figures
from optitrack_vrpn.recording.findings import Finding, Severity
from optitrack_vrpn.recording.take import Take
from optitrack_vrpn.units import NS_PER_S

_STYLE = """
:root{color-scheme:light dark;--line:#8886;--soft:#8881;--good:#1a7f37;--note:#57606a;
--warning:#9a6700;--error:#cf222e}
@media(prefers-color-scheme:dark){:root{--good:#3fb950;--note:#9da7b1;--warning:#d29922;
--error:#f85149}}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;padding:16px;max-width:1180px}
h1{font-size:1.5em;margin:.2em 0}h2{font-size:1.2em;margin:1.6em 0 .4em;
border-bottom:1px solid var(--line)}h3{font-size:1em;margin:.4em 0}
p.facts{color:var(--note);margin:.2em 0 1em}
ul.verdict{list-style:none;padding:0;margin:1em 0}
ul.verdict li{border-left:5px solid;padding:.3em .8em;margin:.4em 0;background:var(--soft)}
ul.verdict b{text-transform:uppercase;font-size:.75em;letter-spacing:.05em;margin-right:.6em}
.good{border-color:var(--good)!important}.good b{color:var(--good)}
.warning{border-color:var(--warning)!important}.warning b{color:var(--warning)}
.error{border-color:var(--error)!important}.error b{color:var(--error)}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9em;
font-variant-numeric:tabular-nums}
th,td{padding:.25em .7em;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{white-space:normal;vertical-align:bottom}
th:first-child,td:first-child{text-align:left;position:sticky;left:0;background:Canvas}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,340px),1fr));gap:18px}
h2{break-after:avoid}figure{margin:0;break-inside:avoid}
figure svg{width:100%;height:auto;display:block}
figcaption{font-size:.85em;color:var(--note)}
details{margin:.6em 0}summary{cursor:pointer;font-weight:600;padding:.3em 0}
footer{margin-top:2em;color:var(--note);font-size:.85em}
@media print{:root{color-scheme:light}body{font-size:10pt;max-width:none}
details{display:block}.scroll{overflow:visible}table{font-size:7pt}}
"""
#: Chosen: number of findings that are shown directly; they fit on one screen. Halved, more are
#: folded; doubled, the reader scrolls.
_FIRST_FINDINGS = 8


@dataclass
class Picture:
    """A picture with its caption."""

    svg: str
    caption: str


@dataclass
class Section:
    """A part of the page: pictures and paragraphs under a heading."""

    title: str
    pictures: list[Picture] = field(default_factory=list)
    html: str = ''


def number(value: float, digits: int = 1) -> str:
    """Format a number; a dash if it is unknown."""
    return f'{value:.{digits}f}' if math.isfinite(value) else '–'


def verdict(found: Sequence[Finding]) -> str:
    """Format findings as a list; all but the first ones folded."""
    def items(part: Sequence[Finding]) -> str:
        return '<ul class="verdict">' + ''.join(
            f'<li class="{word}"><b>{word}</b>{escape(f.text)}</li>'
            for f in part for word in [f.severity.name.lower()]) + '</ul>'

    rest = found[_FIRST_FINDINGS:]
    return items(found[:_FIRST_FINDINGS]) + (
        f'<details><summary>{len(rest)} more</summary>{items(rest)}</details>' if rest else '')


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table that scrolls separately on a narrow screen."""
    return ('<div class="scroll"><table><thead><tr>'
            + ''.join(f'<th>{escape(cell)}</th>' for cell in head) + '</tr></thead><tbody>'
            + ''.join('<tr>' + ''.join(f'<td>{escape(cell)}</td>' for cell in row) + '</tr>'
                      for row in rows) + '</tbody></table></div>')


def bodies_table(bodies: Sequence[Figures]) -> str:
    """Format the table of all bodies' figures."""
    head = ('body', 'poses', 'Hz', 'seen %', 'gaps', 'longest s', 'jumps', 'resets', 'frozen',
            'latency ms', 'p99 ms', 'interval p99 ms', 'noise 3σ mm', '3σ deg', 'drift mm')
    return table(head, [(
        f.name, str(f.poses), number(f.rate_hz), number(100 * f.coverage), str(f.gaps),
        number(f.longest_gap_s, 2), str(f.jumps), str(f.resets), str(f.frozen),
        number(f.latency_ms, 2), number(f.latency_p99_ms, 2), number(f.interval_p99_ms, 2),
        *(('–', '–', '–') if f.rest is None else (
            number(f.rest.sigma3_mm, 3), number(f.rest.sigma3_deg, 3),
            number(f.rest.drift_mm, 3)))) for f in bodies])


def compare_table(
    names: tuple[str, str], first: Sequence[Figures], second: Sequence[Figures],
) -> str:
    """Format a table that compares the common bodies of two takes."""
    others = {f.name: f for f in second}
    rows = []
    for f in first:
        other = others.get(f.name)
        if other is None:
            continue
        for what, one, two in (
                ('rate (Hz)', f.rate_hz, other.rate_hz),
                ('seen (%)', 100 * f.coverage, 100 * other.coverage),
                ('gaps', f.gaps, other.gaps),
                ('longest gap (s)', f.longest_gap_s, other.longest_gap_s),
                ('jumps', f.jumps, other.jumps),
                ('latency (ms)', f.latency_ms, other.latency_ms),
                ('jitter (ms)', f.jitter_ms, other.jitter_ms),
                ('noise 3σ (mm)', f.rest.sigma3_mm if f.rest else math.nan,
                 other.rest.sigma3_mm if other.rest else math.nan)):
            rows.append((f'{f.name}: {what}', number(one, 2), number(two, 2),
                         number(two - one, 2)))
    if not rows:
        return '<p>The two takes have no body in common.</p>'
    return table(('', *names, 'difference'), rows)


def evaluation_section(
    reference: str, estimate: str, found: OdometryEvaluation, svg: str,
) -> Section:
    """Format the evaluation of an odometry."""
    def row(name: str, errors: Statistics, scale: float, unit: str) -> tuple[str, ...]:
        return (name, *(f'{scale * value:.2f} {unit}' for value in (
            errors.rmse, errors.mean, errors.median, errors.std, errors.max)))

    hand_eye = found.hand_eye
    x, y, z = hand_eye.translation
    roll, pitch, yaw = hand_eye.rotation.as_euler('ZYX', degrees=True)[::-1]
    rpe = f'RPE over {found.rpe.seconds:g} s'
    html = verdict([Finding(Severity.WARNING, text[:1].upper() + text[1:] + '.')
                    for text in found.warnings] or [Finding(
                        Severity.GOOD, 'The motion determines time offset and transform.')])
    html += table(('error', 'RMSE', 'mean', 'median', 'std', 'max'), [
        row('ATE, position', found.ate.translation, 1e3, 'mm'),
        row('ATE, attitude', found.ate.rotation_deg, 1.0, 'deg'),
        row(f'{rpe}, position', found.rpe.translation, 1e3, 'mm'),
        row(f'{rpe}, attitude', found.rpe.rotation_deg, 1.0, 'deg')])
    html += (f'<p>Time offset, to be added to the stamps of the estimate: '
             f'{hand_eye.offset_ns / 1e6:.2f} ms (angular speeds correlate at '
             f'{found.offset.correlation:.3f}). Sensor on the body: '
             f'[{x:.4f}, {y:.4f}, {z:.4f}] m, roll {roll:.2f}, pitch {pitch:.2f}, yaw {yaw:.2f} '
             f'deg (standard deviation {1e3 * hand_eye.translation_std_m:.1f} mm, '
             f'{hand_eye.rotation_std_deg:.2f} deg). Compared: '
             f'{found.ate.translation.samples} poses, {100 * found.matched:.0f} % of the '
             'estimate.</p>')
    return Section(f'{estimate} against {reference}', [Picture(
        svg, 'Paths from above after alignment; errors over time.')], html)


def page(
    take: Take, found: Sequence[Finding], bodies: Sequence[Figures],
    sections: Sequence[Section], made: str,
) -> str:
    """
    Create the page.

    :param made: how and when it was created, for the footer.
    """
    span = (take.end_ns - take.begin_ns) / NS_PER_S
    facts = (f'{take.kind}, {span:.1f} s, {counted(len(bodies), "body")}, '
             f'{counted(sum(take.topics.values()), "message")} on '
             f'{counted(len(take.topics), "topic")}')
    session = take.notes.get('session')
    if session:
        facts += f', session {session}'
    body = [f'<h1>{escape(take.name)}</h1><p class="facts">{escape(facts)}</p>', verdict(found)]
    if bodies:
        body.append('<h2>Bodies</h2>' + bodies_table(bodies))
    for section in sections:
        inside = section.html
        if section.pictures:
            inside += '<div class="grid">' + ''.join(
                f'<figure>{picture.svg}<figcaption>{escape(picture.caption)}</figcaption>'
                '</figure>' for picture in section.pictures) + '</div>'
        body.append(f'<h2>{escape(section.title)}</h2>{inside}')
    return ('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f'<title>{escape(take.name)}</title><style>{_STYLE}</style></head><body>'
            + ''.join(body) + f'<footer>{escape(made)}</footer></body></html>\n')
