# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check whether bodies are tracked, at the end and during the whole time."""

from __future__ import annotations

from collections.abc import Sequence
import math

from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.doctor.probe_results import ProbeResults
from optitrack_vrpn.doctor.result import CheckResult, fail, ok, skip, Value, warn
from optitrack_vrpn.findings import body_findings, CAUSES, ENOUGH_POSES, Finding, merge
from optitrack_vrpn.findings import join_sentences, Severity
from optitrack_vrpn.names import printable

#: Findings in one result, and characters for all of them, below the limit of a result (900).
_MOST_SHOWN, _ROOM = 4, 800


def check_bodies(probed: ProbeResults) -> CheckResult:
    """Check whether bodies are seen, as the node would."""
    stream = probed.established
    if stream is None or not stream.bodies:
        return skip('bodies', 'no body sent a pose')
    clock = stream.clock
    if clock is not None and clock.samples <= 1 and stream.poses >= ENOUGH_POSES:
        cause = CAUSES['one time']
        return fail('bodies', cause.text, cause.remedy)
    bad = [body for body in stream.bodies if body.state is not State.TRACKED]
    found = body_findings(stream)
    faulty = {name for one in found for name in one.bodies}
    good = len(stream.bodies) - len(bad)
    values: dict[str, Value] = {
        'tracked': good, 'not_tracked': len(bad), 'with_faults': len(faulty)}
    for body in bad[:20]:
        values[f'state of {printable(body.name, 48)}'] = body.state.value
    if not found:
        return ok('bodies', f'{good} tracked', **values)
    lines = [with_time(one) for one in merge(found)]
    lines += [f'{printable(body.name, 100)!r} came back {_times(body.returns)}'
              for body in stream.bodies if body.returns and body.name in faulty]
    shown = _shown(lines)
    advice = join_sentences(one.remedy for one in found)
    if good or any(body.returns for body in bad):
        return warn('bodies', f'{good or "none"} tracked at the end, {"and" if bad else "but"} '
                    f'{shown}', advice, **values)
    return fail('bodies', f'none is tracked, so that the node publishes none: {shown}', advice,
                **values)


def results_of(
    check: str, found: Sequence[Finding], values: dict[str, Value], prefix: str = '',
) -> CheckResult:
    """Make one result of findings, of which there is at least one."""
    found = merge(found)
    result = fail if any(one.severity is Severity.ERROR for one in found) else warn
    return result(check, '; '.join([*([prefix] if prefix else []), *map(with_time, found)]),
                  join_sentences(one.remedy for one in found), **values)


def with_time(found: Finding) -> str:
    """Write a finding with the time of its begin, if that is known."""
    begin = f' (first after {found.begin_s:.1f} s)' if math.isfinite(found.begin_s) else ''
    return found.text + begin


def _shown(lines: list[str]) -> str:
    """Join as many lines as fit, at least one, and count the rest."""
    count, length = 1, len(lines[0])
    while count < min(len(lines), _MOST_SHOWN) and length + len(lines[count]) < _ROOM:
        length += len(lines[count]) + 2
        count += 1
    rest = len(lines) - count
    return '; '.join([*lines[:count], *([f'and {rest} more'] if rest else [])])


def _times(count: int) -> str:
    return {1: 'once', 2: 'twice'}.get(count, f'{count} times')
