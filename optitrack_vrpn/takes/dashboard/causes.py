# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Findings of the page: one line per cause, newest first, by the rules of the page."""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import Any

from optitrack_vrpn.core.findings import find, Finding, merge
from optitrack_vrpn.takes.dashboard.lab import age, Lab
from optitrack_vrpn.takes.dashboard.page_rules import (
    NodeFacts, PAGE_RULES, RECORDING_RULES, RecordingFacts)

#: Chosen: time for which the page shows a finding after its end (s), and most findings.
_KEPT_S, _MOST = 60.0, 50
_NO_RECORDING = RecordingFacts()


def page_findings(
    lab: Lab, now: float, recording: RecordingFacts = _NO_RECORDING,
) -> dict[str, Finding]:
    """List what is wrong now, by a key that stays the same while a cause lasts."""
    found: dict[str, Finding] = {}
    for node, reports in lab.nodes.items():
        present = find(PAGE_RULES, NodeFacts(
            node, reports, [body for body in lab.bodies.values() if body.node == node], lab, now))
        for one in (*(one for one in present if not one.bodies),
                    *merge(one for one in present if one.bodies)):
            found[f'{node}: {one.code} {one.subject}'] = one
    found.update((f'{one.code} {one.subject}', one) for one in find(RECORDING_RULES, recording))
    return found


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
