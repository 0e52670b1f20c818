# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Findings of the page: one line per cause, newest first, with text and remedy of findings/."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
import math
from typing import Any

from optitrack_vrpn.core.severity import ERROR, INFO
from optitrack_vrpn.core.status import number_of
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.takes.dashboard.lab import age, Lab, LabBody, LabReport
from optitrack_vrpn.telling.catalogue import CAUSES, Finding, merge
from optitrack_vrpn.telling.rules import rate_findings

#: Chosen: time for which the page shows a finding after its end (s), and most findings.
_KEPT_S, _MOST = 60.0, 50
#: States of a lifecycle node in which it publishes no poses.
_PASSIVE = ('unconfigured', 'inactive', 'finalized')
#: States of a body that are causes of their own; a peer may report any other word.
_STATES = frozenset(state.value for state in State) & CAUSES.keys()


def find(lab: Lab, now: float) -> dict[str, Finding]:
    """List what is wrong now, by a key that stays the same while a cause lasts."""
    found: dict[str, Finding] = {}
    for node, reports in lab.nodes.items():
        bodies = [body for body in lab.bodies.values() if body.node == node]
        for one in _of_a_node(node, reports, bodies, lab, now):
            found[f'{node}: {one.key} {one.figures.get("subject", "")}'] = one
    return found


def _of_a_node(node: str, reports: Mapping[str, LabReport], bodies: Iterable[LabBody], lab: Lab,
               now: float) -> list[Finding]:
    # Silence, and a state in which it publishes nothing, explain the states of all bodies.
    if all(one.silent(now) for one in reports.values()):
        return [Finding('node silent', (), {'node': node})]
    if lab.states.get(node) in _PASSIVE:
        return [Finding('not active', (), {'node': node, 'state': lab.states[node]})]
    found = [Finding('reported error' if one.level == ERROR else 'reported warning', (), {
        'subject': subject, 'message': one.message})
        for subject, one in reports.items() if one.level != INFO]
    link = reports.get('connection', LabReport(INFO))
    # So does a connection without poses.
    if link.level != ERROR and not link.message.startswith('silent'):
        found += merge(one for body in bodies for one in _of_a_body(body, lab, now))
    return found


def _of_a_body(body: LabBody, lab: Lab, now: float) -> list[Finding]:
    sign, word, reason = body.condition(now, reading_since=lab.waiting_since(body.node))
    name = (body.name,)
    if word == 'NO POSE':
        return [Finding('no transform', name)]
    if sign == 'lost':
        return [Finding(word, name, {'detail': f' ({reason})'})] if word in _STATES else []
    if sign == 'ok' or word != State.TRACKED.value:
        return []
    rate, nominal = (number_of(body.report.values, key) or 0.0
                     for key in ('rate_hz', 'nominal_rate_hz'))
    slow = rate_findings({body.name: rate}, 0.0, nominal)
    return [Finding(one.key, name, one.figures) for one in slow] or [
        Finding('reported warning', name, {'subject': body.name, 'message': reason})]


class FindingLog:
    """The findings with the times of their begin and end."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Finding, float, float]] = {}    # finding, begin, last seen
        self._at = -math.inf

    def update(self, present: Mapping[str, Finding], now: float) -> list[dict[str, Any]]:
        """
        Take the present findings.

        :returns: these and those that ended lately, the newest first, for the page.
        """
        for key, finding in present.items():
            _, begin, last = self._known.get(key, (finding, now, -math.inf))
            # One that was over begins anew.
            self._known[key] = finding, begin if last == self._at else now, now
        self._at = now
        recent = sorted((item for item in self._known.items() if now - item[1][2] < _KEPT_S),
                        key=lambda item: -item[1][1])[:_MOST]
        self._known = dict(recent)
        return [{
            'key': key, 'severity': one.severity.word, 'text': one.text,
            'remedy': one.remedy, 'bodies': list(one.bodies), 'since_s': age(now, begin),
            'over_s': None if key in present else age(now, last)}
            for key, (one, begin, last) in recent]
