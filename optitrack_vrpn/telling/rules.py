# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find the causes of bad poses in what was measured of a stream."""

from __future__ import annotations

from collections.abc import Mapping
import math
from typing import Optional

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.stats import Intervals
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.stream.clock.types import Trouble
from optitrack_vrpn.stream.load_shedding import FRESH_NS, PATIENCE_NS, STANDING_NS
from optitrack_vrpn.telling.catalogue import Finding, Span
from optitrack_vrpn.telling.facts import (
    BodyFacts, ENOUGH_FRAMES, ENOUGH_POSES, LOSS_WINDOW_S, LossFacts, MUCH, StreamFacts)

#: Rate of usual displays (Hz), with the error of a rate that is measured over a second.
_DISPLAY_HZ = (58.5, 61.5)
#: The dispositions that count the poses withheld in a state.
_UNUSABLE = {
    State.FROZEN: ('repeat',), State.ZEROED: ('zeroed',),
    State.UNTRACKED: ('not_tracked', 'mean_error'),
    State.INVALID: ('not_finite', 'norm', 'shared_name'),
    State.JUMPED: ('moved_too_far', 'turned_too_far', 'jumped')}
#: Ages (s) of the sender's stamps above which its clock is behind. Chosen: 50 ms above the 10 ms
#: that exposure, processing and network usually take.
USUAL_AGE_S = 0.06
#: A jump that only the user can end is logged after this time (s). Chosen: the default
#: of jump_accept_s.
_HELD_S = 2.0
_NOT_COUNTED = ('duplicate', 'out_of_order')


def too_slow(rate_hz: float, nominal_hz: float) -> bool:
    """Return whether a known rate is below the expected one."""
    # Fraction of the fastest body's or of the cameras' rate below which a rate is reported.
    return 0.0 < rate_hz < 0.9 * nominal_hz


def rate_findings(
    rates: Mapping[str, float], expected_hz: float = 0.0, nominal_hz: float = 0.0,
    unsent: float = 0.0,
) -> list[Finding]:
    """
    Find rates that are too low.

    :param rates: frame rate (Hz) of each body.
    :param expected_hz: the cameras' rate if the user states it (Hz), or 0.
    :param nominal_hz: that of the fastest body if ``rates`` does not contain it (Hz).
    :param unsent: share of frames that the sender left out.
    """
    fastest = max(rates.values(), default=0.0)
    nominal = expected_hz or max(nominal_hz, fastest)
    slow = sorted((rate, name) for name, rate in rates.items() if too_slow(rate, nominal))
    figures = {'rate': fastest, 'nominal': nominal, 'share': percent(unsent)}
    if slow and expected_hz and len(rates) > 1 and too_slow(fastest, nominal):
        return [Finding('slow cameras', (), figures)]
    if slow:
        return [Finding('slow body', tuple(name for _, name in slow),
                        {**figures, 'rate': slow[0][0]})]
    if unsent:
        return [Finding('not sent', (), figures)]
    if not expected_hz and _DISPLAY_HZ[0] <= fastest <= _DISPLAY_HZ[1]:
        return [Finding('display rate', (), figures)]
    return []


def stream_findings(facts: StreamFacts) -> list[Finding]:
    """Find faults of the frames between the sender and this process."""
    if facts.ended:    # the rest follows from that
        return [Finding('ended', (), {'reason': facts.ended})]
    counters, lost = facts.counters, facts.lost_share
    found = [Finding('client warning', (), {'message': text}) for text in facts.messages]
    ignored = [f'{count} {name}' for name, count in facts.ignored.items() if count]
    if facts.more_bodies:
        ignored.append(f'{facts.more_bodies} poses of bodies beyond the limit')
    if ignored:
        found.append(Finding('ignored', (), {'what': ', '.join(ignored)}))
    if lost > MUCH:
        found.append(Finding('unread' if counters.get('dropped_unread') else 'lost', (), {
            'share': percent(lost)}))
    datagrams = max(counters.get('datagrams', 0), 1)
    for key, name in (('out of order', 'udp_reordered'), ('twice on the way', 'udp_repeated')):
        share = counters.get(name, 0) / datagrams
        if share > MUCH:
            found.append(Finding(key, (), {'share': percent(share)}))
    frames = sum(body.intervals.frames for body in facts.bodies)
    doubled = sum(body.intervals.doubled for body in facts.bodies) - counters.get(
        'udp_repeated', 0)
    if doubled > MUCH * frames and doubled >= ENOUGH_FRAMES:
        share = doubled / frames
        found.append(Finding('sent twice', (), {'share': (
            'every frame arrives' if share > 0.95 else
            f'{percent(share)} of the frames arrive')}))
    intervals = facts.all_intervals
    found += load_findings(facts)
    # Shortest silence at the end that is reported (s): longer than a scheduling delay.
    if facts.quiet_s > max(0.5, 5.0 * intervals.interval_s):
        found.append(Finding('quiet', (), {'quiet': facts.quiet_s}))
    if len(facts.bodies) > 1 and intervals.silences:
        found.append(Finding('paused' if lost <= MUCH else 'interrupted', (), {
            'silence': _silence(intervals)}, (Span(intervals.silence_s),)))
    return found


def loss_findings(loss: LossFacts) -> list[Finding]:
    """Find losses of the last seconds."""
    return [Finding('unread' if loss.unread else 'lost', (), {'share': (
        f'{loss.share:.0%} of the messages of the last {LOSS_WINDOW_S:g} s')})] if (
        loss.lossy) else []


def trouble_findings(trouble: Optional[Trouble], max_age_s: float) -> list[Finding]:
    """Find why no frame is stamped, or a sender's clock whose own times are published wrongly."""
    if trouble is None:
        return []
    if trouble.event:
        return [Finding('played faster' if trouble.falling else 'out of a buffer', (), {
            'event': trouble.event, 'seconds': trouble.for_s})]
    if trouble.late_s:
        return [Finding('all late', (), {'late': trouble.late_s, 'left': trouble.left_s})]
    if 0.0 <= trouble.age_s <= USUAL_AGE_S:
        return []
    size_s = abs(trouble.age_s)
    key = "sender's clock, nothing published" if 0.0 < max_age_s < size_s else "sender's clock"
    how = 'in the future' if trouble.age_s < 0.0 else 'old when they arrive'
    return [Finding(key, (), {'age': size_s, 'how': how})]


def load_findings(facts: StreamFacts) -> list[Finding]:
    """Find that this computer cannot keep up."""
    if facts.shedding:
        return [Finding('overload', (), {
            'patience': PATIENCE_NS * 1e-9, 'standing': STANDING_NS * 1e-6, 'shed': facts.shed})]
    if facts.lean:
        return [Finding('fewer outputs', (), {
            'waited': FRESH_NS * 1e-6, 'lean': facts.lean_poses})]
    return []


def selection_findings(facts: StreamFacts) -> list[Finding]:
    """Find that no body that arrives is selected."""
    return [Finding('not selected', (), {'count': facts.only_ignored})] if (
        facts.only_ignored) else []


def condition_findings(body: BodyFacts, max_age_s: float) -> list[Finding]:
    """Find poses that are all too old, a wrong unit, and two bodies of one set of markers."""
    name = (body.name,)
    found = [Finding('too old', name, {'age': max_age_s})] if body.all_too_old else []
    if body.far_m:
        found.append(Finding('unit', name, {'far': body.far_m}))
    if body.twin:    # one finding of both
        found.append(Finding('in one place', (
            min(body.name, body.twin), max(body.name, body.twin)), {
                'distance': 1000.0 * body.twin_m}))
    return found


def held_findings(body: BodyFacts) -> list[Finding]:
    """Find a jump that only the user can end."""
    return [Finding('held', (body.name,), {
        'seconds': _HELD_S, 'why': body.held, 'accept': (
            f'accept it: ros2 service call {body.accept_service} std_srvs/srv/Trigger'
            if body.accept_service else 'clean up and configure the node')})] if (
        body.held) else []


def lasting_findings(facts: StreamFacts) -> list[Finding]:
    """List what a log writes when it begins and when it ends, each body by itself."""
    clock = trouble_findings(facts.trouble, facts.max_age_s)
    explained = any("sender's clock" in one.key for one in clock)
    found = [*clock, *loss_findings(facts.loss), *load_findings(facts)]
    for body in facts.bodies:
        found += [one for one in condition_findings(body, facts.max_age_s)
                  if not (explained and one.key == 'too old')]
        found += [Finding(lack, (body.name,)) for lack in sorted(body.lacking)]
        if body.held_s >= _HELD_S:
            found += held_findings(body)
    return found


def one_time(facts: StreamFacts) -> bool:
    """Return whether all poses have the same sender time."""
    return facts.poses >= ENOUGH_POSES and facts.all_intervals.frames == 1


def stamp_findings(facts: StreamFacts) -> list[Finding]:
    """Find sender times that repeat or go back."""
    poses = max(facts.poses, 1)
    stuck = sum(body.intervals.stuck for body in facts.bodies)
    if stuck > MUCH * poses:
        # Two bodies of one name send two poses with each time: as many repeats as frames.
        names = tuple(body.name for body in facts.bodies if body.intervals.frames and abs(
            body.intervals.stuck - body.intervals.frames) <= MUCH * body.intervals.frames)
        return [Finding('shared name' if names else 'repeated times', names[:1], {
            'share': percent(stuck / poses)})]
    late = sum(body.intervals.late for body in facts.bodies)
    if late > MUCH * poses and not facts.counters.get('udp_reordered'):
        return [Finding('late times', (), {'share': percent(late / poses)})]
    return []


def clock_findings(facts: StreamFacts, loopback: bool = False) -> list[Finding]:
    """
    Find restarts and jitter of the clock estimate.

    :param loopback: whether no network lies between sender and this process.
    """
    clock = facts.clock
    if clock is None:
        return []
    # Standstill of this computer (s) after which a restart of the clock estimate says nothing
    # about the sender. Chosen: several frames of any camera.
    if clock.restarts and facts.stalled_s > 0.3:
        return [Finding('standstill', (), {'stalled': facts.stalled_s})]
    if clock.sender_fault and clock.by_arrival:
        size = f' of {clock.sender_jitter_s * 1e3:.3g} ms' if clock.sender_jitter_s else ''
        return [Finding('coarse times', (), {'fault': clock.sender_fault + size})]
    if clock.restarts:
        return [Finding('estimate restarted', (), {'restarts': ', '.join(
            f'{count} {name}' for name, count in clock.restarts.items())})]
    # Jitter of arrivals (99 %, s) that is reported. Chosen: one frame at 100 Hz.
    if clock.jitter_p99_s > 0.010:
        return [Finding('uneven arrivals', (), {'busy': (
            'this machine is busy: reduce its load' if loopback else
            'the network or this machine is busy: use a cable instead of WiFi, and switch power '
            'saving off')})]
    return []


def body_findings(facts: StreamFacts) -> list[Finding]:
    """Find what is wrong with single bodies, at the end and during the whole time."""
    # Bodies that are not tracked at the end come first, since a list is limited.
    bodies = sorted(facts.bodies, key=lambda body: body.state is State.TRACKED)
    exchanged: set[str] = set()    # a pair is one finding
    found = [finding for body in bodies for finding in _of_a_body(body, facts, exchanged)]
    return list({(one.key, one.bodies, one.begin_s): one for one in found}.values())


def _of_a_body(body: BodyFacts, facts: StreamFacts, exchanged: set[str]) -> list[Finding]:
    name = (body.name,)
    status, intervals, everything = body.status, body.intervals, facts.all_intervals
    found = []
    other = status.swapped_with or body.exchanged
    # In another unit a body seems to be faster than any: that it jumps is no finding of its own.
    faster = (State.NEW, State.JUMPED) if body.far_m else ()
    if body.state not in (State.TRACKED, *faster) and not status.swapped_with:
        detail = printable(_detail(status), 160)
        found.append(Finding(body.state.value, name, {'detail': f' ({detail})' if detail else ''}))
    if other and other not in exchanged:
        exchanged.add(body.name)
        found.append(Finding('exchanged', (body.name, other), {
            'verb': 'seem' if status.swapped_with else 'seemed for a while'}))
    poses = status.good + sum(
        count for reason, count in status.withheld.items() if reason not in _NOT_COUNTED)
    unusable = {state: sum(status.withheld.get(reason, 0) for reason in reasons)
                for state, reasons in _UNUSABLE.items()}
    total = sum(unusable.values())
    if total > MUCH * poses and total >= ENOUGH_FRAMES:
        found += [Finding(f'was {state.value}', name, {'share': percent(count / poses)})
                  for state, count in unusable.items() if count > MUCH * poses / len(unusable)
                  and state not in faster and not (other and state is State.JUMPED)]
    silent_s = intervals.silent_s - (everything.silent_s if len(facts.bodies) > 1 else 0.0)
    if intervals.silences and silent_s > MUCH * intervals.span_s:
        found.append(Finding('silent', name, {'silence': _silence(intervals)},
                             (Span(intervals.silence_s),)))
    # Loss differs between bodies by chance: five standard deviations of a Poisson count.
    chance = 5.0 * math.sqrt(facts.lost_share / max(intervals.frames, 1))
    if body.missing_share > MUCH + facts.common_share + chance:
        found.append(Finding('lacked', name, {'share': percent(body.missing_share)}))
    appeared_s = (intervals.first_ns - everything.first_ns) * 1e-9
    found += condition_findings(body, facts.max_age_s)
    # A body that appears this much later (s) than the first was absent: the handshake takes less.
    if 0.5 < appeared_s < everything.span_s:
        found.append(Finding('absent', name, {'begin': f'{appeared_s:.1f} s'},
                             (Span(appeared_s),)))
    return found


def _detail(body: BodyStatus) -> str:
    """Describe a state; for STALE with its duration until now."""
    if body.state is State.STALE and math.isfinite(body.age_s):
        return f'no valid pose for the last {body.age_s:.1f} s'
    return body.detail


def percent(share: float) -> str:
    """Write a share, with a digit more where it is small."""
    return f'{share:.1%}' if share < 0.1 else f'{share:.0%}'


def _silence(intervals: Intervals) -> str:
    """Describe silences, of which there is at least one."""
    if intervals.silences == 1:
        return f'{intervals.longest_s:.2f} s'
    share = intervals.silent_s / max(intervals.span_s, 1e-9)
    return (f'up to {intervals.longest_s:.2f} s at a time, {intervals.silences} times, '
            f'{percent(share)} of the time')
