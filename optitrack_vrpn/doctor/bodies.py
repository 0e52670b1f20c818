# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Check whether bodies are tracked, at the end and during the whole time."""

from __future__ import annotations

import math

from optitrack_vrpn.bodies.states import BodyStatus, State
from optitrack_vrpn.doctor.probe_results import ProbeResults, Stream
from optitrack_vrpn.doctor.result import CheckResult, fail, ok, skip, Value, warn
from optitrack_vrpn.doctor.shares import (
    BY_ARRIVAL, common_share, ENOUGH_FRAMES, ENOUGH_POSES, established, lost_share,
    missing_share, MUCH, percent, sentences, silence)
from optitrack_vrpn.doctor.stream_statistics import Intervals
from optitrack_vrpn.names import printable

#: Chosen: characters of a state's description; halved, its values are cut off.
_LONGEST_DETAIL = 160
#: Longest name in VRPN: a shortened name could stand for two bodies.
_LONGEST_NAME = 100
#: Chosen: bodies in one result; halved or doubled, fewer or more lines.
_MOST_SHOWN = 4
#: Chosen: characters for all bodies together, below the limit of a result (900). Halved, fewer
#: bodies are listed by name; doubled, the result is cut.
_ROOM = 800
#: A body that appears this much later (s) than the first was absent until then. Chosen: longer
#: than the handshake with all bodies takes. Halved, slow servers are reported; doubled, an absence
#: of 0.9 s is not.
_LATE_S = 0.5

_IN_VIEW = 'do at least two cameras see three of its markers wherever it goes?'
_CAUSES = {
    State.FROZEN: (
        f'out of view, and Motive repeats its last pose: {_IN_VIEW} (Or a simulator without '
        'noise: then set validation.frozen_after_s: 0.0)'),
    State.ZEROED: f'out of view, and Motive sends zeros: {_IN_VIEW}',
    State.UNTRACKED: f'Motive reports it as out of view: {_IN_VIEW}',
    State.STALE: f'out of view, or deleted in Motive: {_IN_VIEW}',
    State.JUMPED: (
        'Motive confuses its markers: is their arrangement symmetric or similar to that of '
        'another body, or are there reflections?'),
    State.INVALID: (
        'its numbers are not a pose: check the body in Motive, or the program that relays it; '
        'two rigid bodies of one name need a name each'),
    State.NEW: (
        'seen too briefly: listen longer (--seconds); or its poses contradict each other: do two '
        'rigid bodies have this name?'),
}
_EXCHANGED = (
    'Motive confuses two bodies: give each a different, asymmetric marker arrangement, then '
    'delete both rigid bodies there and create them again (or refine them); if you exchanged the '
    'names yourself, clean up and configure the node')
#: Description of unusable poses, and the dispositions that count them.
_UNUSABLE = {
    State.FROZEN: ('repeats of one pose', ('repeat',)),
    State.ZEROED: ('zeros', ('zeroed',)),
    State.UNTRACKED: ('not tracked by Motive', ('not_tracked', 'mean_error')),
    State.INVALID: ('not a pose', ('not_finite', 'norm', 'shared_name')),
    State.JUMPED: ('at positions or attitudes that it cannot reach', (
        'moved_too_far', 'turned_too_far', 'jumped')),
}
_NOT_COUNTED = ('duplicate', 'out_of_order')


def check_bodies(probed: ProbeResults) -> CheckResult:
    """Check whether bodies are seen, as the node would."""
    stream = established(probed)
    if stream is None or not stream.bodies:
        return skip('bodies', 'no body sent a pose')
    clock = stream.clock
    if clock is not None and clock.samples <= 1 and stream.poses >= ENOUGH_POSES:
        return fail(
            'bodies', 'all poses have the same sender time: the node withholds them as repeats',
            BY_ARRIVAL)
    bad = [body for body in stream.bodies if body.state is not State.TRACKED]
    faulty = [(body, *_faults_of(body, stream)) for body in stream.bodies]
    faulty = [one for one in faulty if one[1]]
    # Bodies that are not tracked at the end come first, since the list is limited.
    faulty.sort(key=lambda one: one[0].state is State.TRACKED)
    good = len(stream.bodies) - len(bad)
    values: dict[str, Value] = {
        'tracked': good, 'not_tracked': len(bad), 'with_faults': len(faulty)}
    for body in bad[:20]:
        values[f'state of {printable(body.name, 48)}'] = body.state.value
    if not faulty:
        return ok('bodies', f'{good} tracked', **values)
    shown, rest = _shown([
        f'{printable(body.name, _LONGEST_NAME)!r} {" and ".join(faults)}'
        for body, faults, _ in faulty])
    if rest:
        shown += f'; and {rest} more'
    advice = sentences(one for _, _, causes in faulty for one in causes)
    if good or any(stream.returns.get(body.name) for body in bad):
        return warn('bodies', f'{good or "none"} tracked at the end, {"and" if bad else "but"} '
                    f'{shown}', advice, **values)
    return fail('bodies', f'none is tracked, so that the node publishes none: {shown}', advice,
                **values)


def _shown(lines: list[str]) -> tuple[str, int]:
    """Join as many lines as fit, at least one, and count the rest."""
    count, length = 1, len(lines[0])
    while count < min(len(lines), _MOST_SHOWN) and length + len(lines[count]) < _ROOM:
        length += len(lines[count]) + 2
        count += 1
    return '; '.join(lines[:count]), len(lines) - count


def _faults_of(body: BodyStatus, stream: Stream) -> tuple[list[str], list[str]]:
    """
    Find the faults of a body during the whole time.

    :returns: descriptions that follow its name, and remedies.
    """
    faults: list[str] = []
    states: list[State] = []
    other = body.swapped_with or stream.exchanged.get(body.name, '')
    if body.state is not State.TRACKED:
        faults.append(f'is {body.state.value}' + (
            '' if body.swapped_with else f' ({printable(_detail(body), _LONGEST_DETAIL)})'))
        if not other or body.state is not State.JUMPED:
            states.append(body.state)
    if other:
        faults.append(('seems' if body.swapped_with else 'seemed for a while') +
                      f' to have exchanged names with {printable(other, _LONGEST_NAME)!r}')
    poses = body.good + sum(
        count for reason, count in body.withheld.items() if reason not in _NOT_COUNTED)
    unusable = {state: sum(body.withheld.get(reason, 0) for reason in reasons)
                for state, (_, reasons) in _UNUSABLE.items()}
    total = sum(unusable.values())
    if total > MUCH * poses and total >= ENOUGH_FRAMES:
        kinds = [state for state in unusable if unusable[state] > MUCH * poses / len(unusable)]
        listed = ' and '.join(f'{_UNUSABLE[state][0]} ({state.value})' for state in kinds)
        faults.append(f'was unusable in {percent(total / poses)} of its poses: {listed}')
        states += [state for state in kinds if not (other and state is State.JUMPED)]
    intervals = stream.intervals.get(body.name, Intervals())
    all_intervals = stream.all_intervals
    silent_s = intervals.silent_s - (all_intervals.silent_s if len(stream.intervals) > 1 else 0.0)
    if intervals.silences and silent_s > MUCH * intervals.span_s:
        faults.append(f'was silent for {silence(intervals)}')
        states.append(State.STALE)
    missing = missing_share(intervals)
    # Loss differs between bodies by chance: five standard deviations of a Poisson count.
    chance = 5.0 * math.sqrt(lost_share(stream) / max(intervals.frames, 1))
    if missing > MUCH + common_share(stream) + chance:
        faults.append(f'lacked {percent(missing)} of the frames')
        states.append(State.STALE)
    appeared_s = (intervals.first_ns - all_intervals.first_ns) * 1e-9
    if _LATE_S < appeared_s < all_intervals.span_s:
        faults.append(f'was absent for the first {appeared_s:.1f} s')
        states.append(State.STALE)
    if faults and stream.returns.get(body.name):
        faults.append(f'came back {_times(stream.returns[body.name])}')
    causes = [f'{state.value}: {_CAUSES[state]}' for state in dict.fromkeys(states)
              if state in _CAUSES]
    return faults, [*([_EXCHANGED] if other else []), *causes]


def _detail(body: BodyStatus) -> str:
    """Describe a state; for STALE with its duration until now."""
    if body.state is State.STALE and math.isfinite(body.age_s):
        return f'no valid pose for the last {body.age_s:.1f} s'
    return body.detail


def _times(count: int) -> str:
    return {1: 'once', 2: 'twice'}.get(count, f'{count} times')
