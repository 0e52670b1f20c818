# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The checks of the doctor: when each runs, and its result from the rows."""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Final, NamedTuple

from optitrack_vrpn.core.checks import (
    CheckResult, cleaned, join_sentences, joined, Value)
from optitrack_vrpn.core.findings import find, Finding, merge
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.telling.doctor.graph import GRAPH_RULES
from optitrack_vrpn.telling.doctor.natnet import NATNET_RULES
from optitrack_vrpn.telling.doctor.reach import REACH_RULES
from optitrack_vrpn.telling.doctor.results import ProbeResults
from optitrack_vrpn.telling.doctor.rules import (
    DoctorRule, FIRST_OF_DATA, ROUTE_RULES, STREAM_RULES)
from optitrack_vrpn.telling.doctor.vrpn import VRPN_RULES

#: All rows of the doctor, in the order in which a check reports them.
DOCTOR_RULES: Final[tuple[DoctorRule, ...]] = (
    *ROUTE_RULES, *FIRST_OF_DATA, *VRPN_RULES, *NATNET_RULES, *STREAM_RULES, *GRAPH_RULES,
    *REACH_RULES)
#: Chosen: findings of a check, and their length, so that a report stays readable.
_MOST, _ROOM = 6, 800


class Check(NamedTuple):
    """
    A check.

    :ivar stage: the stage after whose probes it runs.
    :ivar name: its name, that of its rows.
    """

    stage: str
    name: str

    def run(self, probed: ProbeResults) -> CheckResult:
        """Find what its rows say of the facts."""
        return result_of(self.name, merge(find(
            [rule for rule in DOCTOR_RULES if rule.check == self.name], probed)))


def result_of(check: str, found: Sequence[Finding]) -> CheckResult:
    """
    Make the result of a check of what was found.

    It has the worst severity, all remedies, and the figures of the sentences as values; of
    several of one name the first.
    """
    skipped = any(one.rule.skips for one in found)
    values: dict[str, Value] = {}
    for one in () if skipped else found:
        for name, value in one.shown.items():
            values.setdefault(name, _value(value))
    return cleaned(CheckResult(
        check, None if skipped else max((one.severity for one in found), default=INFO), joined(
            [with_time(one) for one in found] or ['nothing is wrong'], _MOST, _ROOM),
        join_sentences(one.remedy for one in found if one.remedy), values))


def _value(figure: object) -> Value:
    if isinstance(figure, float):
        return figure if math.isfinite(figure) else None
    return int(figure) if isinstance(figure, int) else str(figure)


def with_time(found: Finding) -> str:
    """Write a finding with the time of its begin, if that is known."""
    begin = f' (first after {found.begin_s:.1f} s)' if math.isfinite(found.begin_s) else ''
    return found.text + begin


#: The checks in their order.
CHECKS: Final = tuple(Check(stage, name) for stage, names in (
    ('name', 'name'), ('route', 'route'),
    ('protocol', 'udp connect-back tcp handshake senders natnet natnet-clock'),
    ('stream', 'data rate bodies axes stamps clock'),
    ('graph', 'qos publishers frames published lifecycle shell reach settings'),
) for name in names.split())
#: The check of protocols that answer beside that of the stream.
ALSO: Final = Check('', 'also')
