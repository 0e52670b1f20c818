# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Findings of the page: one line per cause, newest first, with text and remedy of findings/."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from optitrack_vrpn.bodies import State
from optitrack_vrpn.dashboard.lab import age, Body, ERROR, Lab, OK, Report
from optitrack_vrpn.findings import CAUSES, Finding, merge, rate_findings, Severity

#: Chosen: time for which the page shows a finding after its end (s).
_KEPT_S = 60.0
_MOST = 50


class Line(NamedTuple):
    """
    One cause.

    :ivar key: what makes it one cause: its name in the catalogue, with the node it concerns.
    """

    key: str
    severity: Severity
    text: str
    remedy: str
    bodies: tuple[str, ...] = ()


def find(lab: Lab, now: float) -> list[Line]:
    """List what is wrong now."""
    lines: list[Line] = []
    for node, reports in lab.nodes.items():
        bodies = [body for body in lab.bodies.values() if body.node == node]
        found = _of_the_node(node, reports, lab.states.get(node, ''), now)
        if found is None:
            link = reports.get('connection', Report(OK))
            found = [_reported(node, subject, one) for subject, one in reports.items()
                     if one.level != OK]
            # Without poses of any body, that of the connection is the cause.
            if link.level != ERROR and not link.message.startswith(('silent', 'STALE')):
                found += _of_bodies(bodies, now)
        lines += found
    return lines


def _of_the_node(node: str, reports: dict[str, Report], state: str, now: float,
                 ) -> list[Line] | None:
    """Find a cause that explains the state of all bodies of a node; None if there is none."""
    if all(one.silent(now) for one in reports.values()):
        return [_line(Finding('node silent', (), {'node': node}), node)]
    if state in ('unconfigured', 'inactive', 'finalized'):
        return [_line(Finding('not active', (), {'node': node, 'state': state}), node)]
    return None


def _line(one: Finding, node: str) -> Line:
    return Line(f'{node}: {one.key}', one.severity, one.text, one.remedy, one.bodies)


def _reported(node: str, subject: str, one: Report) -> Line:
    """Return what the node reports of connection, clock or frames; it contains the remedy."""
    return Line(f'{node}: {subject}', Severity.ERROR if one.level == ERROR else Severity.WARNING,
                f'{subject}: {one.message}', '')


def _of_bodies(bodies: Iterable[Body], now: float) -> list[Line]:
    found, lines = [], []
    for body in bodies:
        sign, word, reason = body.condition(now, False)
        if sign == 'lost' and word in CAUSES:
            detail = f' ({reason})' if reason else ''
            found.append((body.node, Finding(word, (body.name,), {'detail': detail})))
        elif word == 'NO POSE':
            found.append((body.node, Finding('no transform', (body.name,))))
        elif sign == 'warn' and word == State.TRACKED.value:
            rate, nominal = (float(body.report.values.get(key, 'nan').replace('unknown', 'nan'))
                             for key in ('rate_hz', 'nominal_rate_hz'))
            causes = [Finding(one.key, (body.name,), one.figures)
                      for one in rate_findings({body.name: rate}, 0.0, nominal)]
            found += [(body.node, one) for one in causes]
            if not causes:
                lines.append(Line(f'{body.node}: {body.name}', Severity.WARNING,
                                  f'{body.name}: {reason}', '', (body.name,)))
    for node in dict.fromkeys(node for node, _ in found):
        lines += [_line(one, node) for one in merge(one for at, one in found if at == node)]
    return lines


class FindingLog:
    """The findings with the times of their begin and end."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Line, float, float]] = {}    # line, begin, last seen

    def update(self, lines: Iterable[Line], now: float) -> list[dict[str, Any]]:
        """
        Take the present findings.

        :returns: these and those that ended lately, the newest first, for the page.
        """
        present = {line.key: line for line in lines}
        for key, line in present.items():
            _, begin, last = self._known.get(key, (line, now, now))
            self._known[key] = line, (begin if now - last < _KEPT_S else now), now
        kept = sorted(((begin, last, line) for line, begin, last in self._known.values()
                       if now - last < _KEPT_S), key=lambda row: -row[0])[:_MOST]
        self._known = {line.key: (line, begin, last) for begin, last, line in kept}
        return [{
            'key': line.key, 'severity': line.severity.name.lower(), 'text': line.text,
            'remedy': line.remedy, 'bodies': list(line.bodies), 'since_s': age(now, begin),
            'over_s': None if line.key in present else age(now, last)}
            for begin, last, line in kept]
