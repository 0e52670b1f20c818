# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Find the causes of bad poses in what was measured of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
import math
from typing import Optional

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.stats import Intervals, IntervalStatistics
from optitrack_vrpn.stream.bodies.states import BodyStatus, State
from optitrack_vrpn.stream.clock.types import ClockStatus
from optitrack_vrpn.telling.catalogue import Finding, Span

#: Share of poses or of time below which a fault is not reported: usual wireless losses stay below.
MUCH = 0.01
#: Fewest frames that are reported as a fault, and fewest poses that show a fault of the server.
ENOUGH_FRAMES, ENOUGH_POSES = 3, 10
#: Rate of usual displays (Hz), with the error of a rate that is measured over a second.
_DISPLAY_HZ = (58.5, 61.5)
#: The dispositions that count the poses withheld in a state.
_UNUSABLE = {
    State.FROZEN: ('repeat',), State.ZEROED: ('zeroed',),
    State.UNTRACKED: ('not_tracked', 'mean_error'),
    State.INVALID: ('not_finite', 'norm', 'shared_name'),
    State.JUMPED: ('moved_too_far', 'turned_too_far', 'jumped')}
_NOT_COUNTED = ('duplicate', 'out_of_order')
#: Counters of the protocol for what the node ignores.
_IGNORED = ('malformed', 'bad_time', 'unknown_type', 'names_refused')


@dataclass
class BodySeen:
    """
    One body during an observation.

    :ivar status: its state at the end.
    :ivar intervals: its frames, by sender time.
    :ivar returns: how often it became TRACKED again.
    :ivar exchanged: a body at whose place it was seen for a while; '' for none.
    """

    status: BodyStatus
    intervals: Intervals = field(default_factory=Intervals)
    returns: int = 0
    exchanged: str = ''

    @property
    def name(self) -> str:
        """Return its name in Motive."""
        return self.status.name

    @property
    def state(self) -> State:
        """Return its state at the end."""
        return self.status.state

    @property
    def missing_share(self) -> float:
        """Return the share of its frames that are missing in short gaps."""
        missing, frames = self.intervals.missing, self.intervals.frames
        return missing / (missing + frames) if missing >= ENOUGH_FRAMES else 0.0


@dataclass
class StreamSeen:
    """
    All frames of an observation.

    :ivar poses: number of poses.
    :ivar bodies: the bodies that sent them.
    :ivar all_intervals: the frames of all bodies together, by sender time.
    :ivar counters: counters of the protocol, and values of the kernel for the sockets.
    :ivar quiet_s: time from the last pose to the end (s).
    :ivar more_bodies: poses of bodies beyond the limit.
    :ivar messages: warnings of the client.
    :ivar ended: why the connection failed or ended early, or ''.
    :ivar clock: estimate of the sender's clock.
    :ivar stalled_s: the longest time for which this computer stood still (s).
    """

    poses: int = 0
    bodies: tuple[BodySeen, ...] = ()
    all_intervals: Intervals = field(default_factory=Intervals)
    counters: dict[str, int] = field(default_factory=dict)
    quiet_s: float = 0.0
    more_bodies: int = 0
    messages: tuple[str, ...] = ()
    ended: str = ''
    clock: Optional[ClockStatus] = None
    stalled_s: float = 0.0

    @property
    def ignored(self) -> dict[str, int]:
        """Return the counters of what the node ignores."""
        return {name: self.counters.get(name, 0) for name in _IGNORED}

    @property
    def rates(self) -> dict[str, float]:
        """Return the frame rate of each body (Hz), by sender time, without gaps."""
        return {body.name: 1.0 / body.intervals.interval_s for body in self.bodies
                if body.intervals.interval_s > 0.0}

    @property
    def lost_share(self) -> float:
        """Return the share of poses that the network lost."""
        lost = self.counters.get('udp_lost', 0)
        return lost / (lost + max(self.counters.get('messages', self.poses), 1))

    @property
    def common_share(self) -> float:
        """Return the share of frames that are missing for every body."""
        return min((body.missing_share for body in self.bodies
                    if body.intervals.frames >= ENOUGH_POSES), default=0.0)

    @property
    def unsent_share(self) -> float:
        """Return the share of frames that were never sent; 0 below the detection limit."""
        lost = self.lost_share
        unsent = self.common_share - lost
        # Loss is counted in messages, not frames, so that the two may differ by this much.
        return unsent if unsent > MUCH + 0.2 * lost else 0.0


class Observation:
    """
    Collect what the rules need of a stream, beside the status of each body; in bounded memory.

    :param most: largest number of bodies.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all = IntervalStatistics()
        self._of_bodies: dict[str, IntervalStatistics] = {}
        self._tracked: dict[str, int] = {}
        self._exchanged: dict[str, str] = {}

    def add(
        self, name: str, time_ns: int, position: Sequence[float], quat_xyzw: Sequence[float],
    ) -> None:
        """Add a pose of a body and its sender time (ns)."""
        statistics = self._of_bodies.get(name)
        if statistics is None:
            if len(self._of_bodies) >= self._most:
                return
            statistics = self._of_bodies[name] = IntervalStatistics()
        for each in (statistics, self._all):
            each.update(time_ns, position, quat_xyzw)

    def changed(self, name: str, after: State) -> None:
        """Note the new state of a body."""
        if after is State.TRACKED:
            self._tracked[name] = self._tracked.get(name, 0) + 1

    def exchanged(self, name: str, other: str) -> None:
        """Note that a body was seen at the place of another one."""
        self._exchanged[name] = other

    def fill(self, seen: StreamSeen, bodies: Iterable[BodyStatus]) -> None:
        """Write the bodies and the frames of all into the result."""
        # Gaps do not affect these intervals; they affect the node's own estimate for some seconds.
        intervals = {name: one.intervals() for name, one in self._of_bodies.items()}
        seen.bodies = tuple(BodySeen(
            status, intervals.get(status.name, Intervals()),
            max(0, self._tracked.get(status.name, 0) - 1), self._exchanged.get(status.name, ''))
            for status in bodies)
        seen.all_intervals = self._all.intervals()


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


def stream_findings(seen: StreamSeen) -> list[Finding]:
    """Find faults of the frames between the sender and this process."""
    if seen.ended:    # the rest follows from that
        return [Finding('ended', (), {'reason': seen.ended})]
    counters, lost = seen.counters, seen.lost_share
    found = [Finding('client warning', (), {'message': text}) for text in seen.messages]
    ignored = [f'{count} {name}' for name, count in seen.ignored.items() if count]
    if seen.more_bodies:
        ignored.append(f'{seen.more_bodies} poses of bodies beyond the limit')
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
    frames = sum(body.intervals.frames for body in seen.bodies)
    doubled = sum(body.intervals.doubled for body in seen.bodies) - counters.get('udp_repeated', 0)
    if doubled > MUCH * frames and doubled >= ENOUGH_FRAMES:
        share = doubled / frames
        found.append(Finding('sent twice', (), {'share': (
            'every frame arrives' if share > 0.95 else
            f'{percent(share)} of the frames arrive')}))
    intervals = seen.all_intervals
    # Shortest silence at the end that is reported (s): longer than a scheduling delay.
    if seen.quiet_s > max(0.5, 5.0 * intervals.interval_s):
        found.append(Finding('quiet', (), {'quiet': seen.quiet_s}))
    if len(seen.bodies) > 1 and intervals.silences:
        found.append(Finding('paused' if lost <= MUCH else 'interrupted', (), {
            'silence': _silence(intervals)}, (Span(intervals.silence_s),)))
    return found


def stamp_findings(seen: StreamSeen) -> list[Finding]:
    """Find sender times that repeat or go back."""
    poses = max(seen.poses, 1)
    stuck = sum(body.intervals.stuck for body in seen.bodies)
    if stuck > MUCH * poses:
        # Two bodies of one name send two poses with each time: as many repeats as frames.
        names = tuple(body.name for body in seen.bodies if body.intervals.frames and abs(
            body.intervals.stuck - body.intervals.frames) <= MUCH * body.intervals.frames)
        return [Finding('shared name' if names else 'repeated times', names[:1], {
            'share': percent(stuck / poses)})]
    late = sum(body.intervals.late for body in seen.bodies)
    if late > MUCH * poses and not seen.counters.get('udp_reordered'):
        return [Finding('late times', (), {'share': percent(late / poses)})]
    return []


def clock_findings(seen: StreamSeen, loopback: bool = False) -> list[Finding]:
    """
    Find restarts and jitter of the clock estimate.

    :param loopback: whether no network lies between sender and this process.
    """
    clock = seen.clock
    if clock is None:
        return []
    # Standstill of this computer (s) after which a restart of the clock estimate says nothing
    # about the sender. Chosen: several frames of any camera.
    if clock.restarts and seen.stalled_s > 0.3:
        return [Finding('standstill', (), {'stalled': seen.stalled_s})]
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


def body_findings(seen: StreamSeen) -> list[Finding]:
    """Find what is wrong with single bodies, at the end and during the whole time."""
    # Bodies that are not tracked at the end come first, since a list is limited.
    bodies = sorted(seen.bodies, key=lambda body: body.state is State.TRACKED)
    exchanged: set[str] = set()    # a pair is one finding
    return [finding for body in bodies for finding in _of_a_body(body, seen, exchanged)]


def _of_a_body(body: BodySeen, seen: StreamSeen, exchanged: set[str]) -> list[Finding]:
    name = (body.name,)
    status, intervals, everything = body.status, body.intervals, seen.all_intervals
    found = []
    other = status.swapped_with or body.exchanged
    if body.state is not State.TRACKED and not status.swapped_with:
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
                  and not (other and state is State.JUMPED)]
    silent_s = intervals.silent_s - (everything.silent_s if len(seen.bodies) > 1 else 0.0)
    if intervals.silences and silent_s > MUCH * intervals.span_s:
        found.append(Finding('silent', name, {'silence': _silence(intervals)},
                             (Span(intervals.silence_s),)))
    # Loss differs between bodies by chance: five standard deviations of a Poisson count.
    chance = 5.0 * math.sqrt(seen.lost_share / max(intervals.frames, 1))
    if body.missing_share > MUCH + seen.common_share + chance:
        found.append(Finding('lacked', name, {'share': percent(body.missing_share)}))
    appeared_s = (intervals.first_ns - everything.first_ns) * 1e-9
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
