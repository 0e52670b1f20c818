# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run random sessions of restarts, steps, stalls, backlogs, suspends and pauses through the pipeline.

    python bench/clock_sessions.py                  all sessions
    python bench/clock_sessions.py --seed 17        one session, with its events

A session has a server with a clock of its own, a network that keeps the order of frames, and a
host whose clocks are set, stand and are suspended, and whose process is stopped. True time runs
through everything, so that for each published pose its true age and the error of its stamp are
known.
"""

from __future__ import annotations

import argparse
import bisect
from collections import Counter
from dataclasses import dataclass, field
import math
from multiprocessing import Pool
import os
from pathlib import Path
import sys
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from clock_delays import Floats, wifi, wired  # noqa: E402
import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from optitrack_vrpn.core.findings import Finding  # noqa: E402
from optitrack_vrpn.core.severity import WARN  # noqa: E402
from optitrack_vrpn.drivers.frames import Body, Frame  # noqa: E402
from optitrack_vrpn.stream.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.stream.pipeline import Pipeline  # noqa: E402
from optitrack_vrpn.telling.facts import facts_of_body, facts_of_pipeline  # noqa: E402
from optitrack_vrpn.telling.rules import of_log  # noqa: E402

SESSIONS, SECONDS = 600, 60.0
LEAST_S = 0.3e-3
BEYOND_S = 1e-3
"""A pose may be beyond its stated uncertainty by so much."""
SILENCE_S = 2.0
LIVE_S = 0.2
"""Frames that are no older when they are read are live: below ``stamps.max_age_s``."""
SHORTER_S = 5e-3
"""Delays may become shorter by so much (design: above the jitter of wired networks). While all
clocks of the host stand, frames in its buffer seem to have travelled for less time than they did.
A frame is ambiguous as long as its apparent delay is above the least delay of the session so
far, less this: whatever a receiver does, such a frame looks like one that has just been sent."""
KINDS = ('restart', 'sender step', 'host step', 'stall', 'stall, sender step', 'stall, host step',
         'suspend', 'clocks stand', 'process stops', 'playback pauses', 'playback loops', 'gap',
         'load')
RATES = (1.0, 5.0, 10.0, 30.0, 60.0, 100.0, 120.0, 240.0, 240.0, 360.0, 1000.0)


@dataclass
class Session:
    """
    What arrives: one row for each frame, in the order of reading; seconds.

    :ivar taken: true time of the exposure.
    :ivar sender: sender time.
    :ivar arrival: on the arrival clock; ``read`` when it is read.
    :ivar now: true time of that.
    :ivar host: system time minus arrival clock then.
    :ivar ambiguous: frames that look live and can be old, see ``SHORTER_S``.
    """

    name: str
    taken: Floats
    sender: Floats
    arrival: Floats
    read: Floats
    now: Floats
    host: Floats
    ambiguous: NDArray[np.bool_]
    second: bool
    reconnects: set[int] = field(default_factory=set)
    events: list[tuple[float, str, float]] = field(default_factory=list)


@dataclass
class Outcome:
    """What the pipeline published; seconds."""

    name: str
    seed: int
    poses: int
    oldest_s: float
    ambiguous_old: int
    excess_s: float
    """Largest error beyond the stated uncertainty."""
    silences: list[float]
    """For the connection and for each event: the longest time, until the next event, for which
    live frames arrived and no pose was published."""
    unexplained: int
    events: list[tuple[float, str, float]]
    restarts: dict[str, int]
    acquired_s: float
    """Time of the three frames with which a body is acquired."""


class _Clocks:
    """A host whose clocks are set and stand: true time to readings."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, float]] = []
        self.stands: list[tuple[float, float]] = []      # all clocks
        self.asleep: list[tuple[float, float]] = []      # the arrival clock alone

    def arrival(self, t: Floats) -> Floats:
        """Return the arrival clock."""
        lost = sum((np.clip(t, begin, end) - begin for begin, end in self.stands + self.asleep),
                   np.zeros_like(t))
        return 5000.0 + t - lost

    def host(self, t: Floats) -> Floats:
        """Return the system time."""
        lost = sum((np.clip(t, begin, end) - begin for begin, end in self.stands),
                   np.zeros_like(t))
        return 1e6 + t - lost + sum((size * (t >= at) for at, size in self.steps),
                                    np.zeros_like(t))


def make_session(seed: int) -> Session:
    """Draw a session."""
    rng = np.random.default_rng(seed)
    rate = float(rng.choice(RATES))
    radio = bool(rng.random() < 0.3)
    skew = 1e-6 * float(rng.uniform(-100, 100) if rng.random() < 0.9 else rng.choice([-800, 800]))
    t = np.arange(0.0, SECONDS, 1.0 / rate)
    keep = rng.random(len(t)) >= float(rng.choice([0.0, 0.0, 0.005, 0.3]))
    delay = (wifi if radio else wired)(t, rng)
    sender = t * (1.0 - skew) + float(rng.choice([100.0, 1e4, 1.7e9]))
    stream = bool(rng.random() < 0.3)    # TCP: the time of reading is the arrival
    polled = rate >= 30.0 and rng.random() < 0.3
    poll = float(math.exp(rng.uniform(math.log(1e-3), math.log(0.12)))) if polled else 0.0
    clocks = _Clocks()
    events: list[tuple[float, str, float]] = []
    blocked: list[tuple[float, float, float]] = []
    stopped: list[tuple[float, float]] = []
    reconnects: list[float] = []
    at = float(rng.uniform(4.0, 15.0))
    while at < SECONDS - 10.0:
        kind = str(rng.choice(KINDS))
        size = float(rng.choice([-1.0, 1.0])) * float(math.exp(rng.uniform(
            math.log(0.02), math.log(20.0))))
        length = float(math.exp(rng.uniform(math.log(0.1), math.log(8.0))))
        after = t >= at
        if kind == 'restart':
            keep &= ~(after & (t < at + length))
            sender[after] += float(rng.choice([size, -sender[after][0] + 50.0, 5e4]))
            if rng.random() < 0.5:
                reconnects.append(at + length)
        elif kind == 'sender step':
            sender[after] += size
            length = 0.0
        elif kind == 'host step':
            clocks.steps.append((at, size))
            length = 0.0
        elif kind.startswith('stall'):
            blocked.append((at, at + length, float(rng.choice([1.2, 1.5, 3.0, 20.0, 1e4]))))
            if kind.endswith('sender step'):
                sender[t >= at + length * rng.random()] += size
            elif kind.endswith('host step'):
                clocks.steps.append((at + length * float(rng.random()), size))
            length += length / (blocked[-1][2] - 1.0)
        elif kind == 'suspend':
            clocks.asleep.append((at, at + length))
        elif kind == 'clocks stand':
            clocks.stands.append((at, at + length))
        elif kind == 'process stops':
            stopped.append((at, at + length))
        elif kind == 'playback pauses':
            keep &= ~(after & (t < at + length))
            sender[t >= at + length] -= length
        elif kind == 'playback loops':
            sender[after] -= min(abs(size), 8.0)
            length = 0.0
        elif kind == 'gap':
            keep &= ~(after & (t < at + length))
        else:
            length = 5.0
            delay[after & (t < at + length)] += float(rng.uniform(0.3e-3, 5e-3))
        events.append((at, kind, size if length == 0.0 else length))
        at += length + float(rng.uniform(6.0, 15.0))
    return _deliver(Session(
        f'{rate:g} Hz, {"WiFi" if radio else "wired"}, {"stream" if stream else "datagrams"}'
        + (f', polled every {poll * 1e3:.1f} ms' if poll else '') + f', {skew * 1e6:.0f} ppm',
        t, sender, t, t, t, t, keep, bool(rng.random() < 0.2), events=events),
        keep, delay, blocked, stopped, clocks, reconnects, stream, poll, rng)


def _deliver(
    session: Session, keep: NDArray[np.bool_], delay: Floats,
    blocked: list[tuple[float, float, float]], stopped: list[tuple[float, float]],
    clocks: _Clocks, reconnects: list[float], stream: bool, poll: float,
    rng: np.random.Generator,
) -> Session:
    """Let frames pass the network and the host."""
    t, sender = session.taken[keep], session.sender[keep]
    arrival = np.maximum.accumulate(t + LEAST_S + delay[keep])
    interval = float(np.median(np.diff(t)))
    for begin, end, factor in blocked:
        # What waits comes faster than it was sent, until it has caught up.
        first = int(np.searchsorted(t, begin))
        arrival[first:] = np.maximum(
            arrival[first:], end + np.arange(len(t) - first) * interval / factor)
    if poll:
        arrival = np.ceil(arrival / poll) * poll
    if rng.random() < 0.15:
        # A second path, 30 ms longer.
        order = np.argsort(np.concatenate([arrival, arrival + 0.03]), kind='stable')
        t, sender = (np.concatenate([each, each])[order] for each in (t, sender))
        arrival = np.concatenate([arrival, arrival + 0.03])[order]
    ambiguous = np.zeros(len(t), dtype=bool)
    for begin, end in clocks.stands:
        # The host's buffer takes what arrives meanwhile.
        inside = np.flatnonzero((arrival >= begin) & (arrival < end))
        least = float(np.min((arrival - t)[arrival < begin], initial=math.inf))
        arrival[inside] = end + np.arange(len(inside)) * 20e-6
        ambiguous[inside] = arrival[inside] - (end - begin) - t[inside] > least - SHORTER_S
    lost = np.zeros(len(t), dtype=bool)
    for begin, end in clocks.asleep:
        inside = np.flatnonzero((arrival >= begin) & (arrival < end))
        arrival[inside] = end + np.arange(len(inside)) * 20e-6
        lost[inside[500:]] = True
    arrival = np.maximum.accumulate(arrival)
    now = arrival + 30e-6
    for begin, end in stopped:
        inside = np.flatnonzero((now >= begin) & (now < end))
        now[inside] = end + np.arange(len(inside)) * 20e-6
    now = np.maximum.accumulate(now)
    t, sender, arrival, now = (each[~lost] for each in (t, sender, arrival, now))
    ambiguous = ambiguous[~lost]
    read = clocks.arrival(now)
    host = clocks.host(now) - read
    if stream:
        seen = read
    else:
        # The kernel stamps with the system time; its difference is read with the frame.
        seen = np.minimum(clocks.host(arrival) - host, read)
        seen = np.where(read - seen < 60.0, seen, read)
    return Session(
        session.name, t, sender, np.maximum.accumulate(seen), read, now, host, ambiguous,
        session.second, {int(np.searchsorted(t, when)) for when in reconnects}, session.events)


class _Silence:
    """
    Measure for how long live frames arrive and no pose is published, event by event.

    :param pause_s: after such a time without a frame there was nothing to publish.
    :param limit_s: silences that are longer need a line in the log.
    :ivar explained_at: last time of a warning in the log, or of a problem that it reported and
        that lasts.
    """

    def __init__(self, session: Session, pause_s: float, limit_s: float) -> None:
        self._begins = [at for at, _, _ in session.events]
        self._pause_s, self._limit_s = pause_s, limit_s
        self.longest = [0.0] * (len(self._begins) + 1)
        self.unexplained = 0
        self.explained_at = -math.inf
        self._since = self._last = math.nan

    def add(self, now: float, live: bool, published: bool) -> None:
        """Take a frame."""
        if now - self._last > self._pause_s:
            self._since = math.nan
        if live and math.isnan(self._since):
            self._since = now
        if live or published:
            self._last = now
        if not math.isnan(self._since):
            number = bisect.bisect_right(self._begins, self._since)
            before = self.longest[number]
            self.longest[number] = max(before, now - self._since)
            if before <= self._limit_s < self.longest[number] and self.explained_at < self._since:
                self.unexplained += 1
        if published:
            self._since = now
        elif not live:
            self._since = math.nan


def _problems(pipeline: Pipeline, now_ns: int) -> list[Finding]:
    """Return what lasts: the node writes a line when it begins, and one when it ends."""
    facts = facts_of_pipeline(pipeline)
    facts.bodies = tuple(facts_of_body(body, now_ns) for body in pipeline.bodies)
    return of_log(facts)


def run(seed: int, watch: bool = False) -> Outcome:
    """Run a session."""
    session = make_session(seed)
    config = PipelineConfig()
    pipeline = Pipeline(config)
    pipeline.reconnected()
    oldest, excess, poses, ambiguous_old = 0.0, 0.0, 0, 0
    ticked = 0.0
    interval = float(np.median(np.diff(np.unique(session.taken))))
    silence = _Silence(session, max(0.1, 2.5 * interval), SILENCE_S + 3.0 * interval)
    for k in range(len(session.taken)):
        if k in session.reconnects:
            pipeline.reconnected()
        now, taken = float(session.now[k]), float(session.taken[k])
        sender_ns = round(session.sender[k] * 1e6) * 1000
        arrival_ns, read_ns, host_ns = (
            round(float(each[k]) * 1e9) for each in (session.arrival, session.read, session.host))
        turn = 0.5 * taken + taken * 1e9 % 7.0 * 1e-7
        bodies = [Body('wand', 0, sender_ns, (
            0.5 * math.cos(turn), 1.0, 0.5 * math.sin(turn)), (0.0, 0.0, 0.0, 1.0))]
        if session.second and k % 2:
            bodies.append(bodies[0]._replace(name='slow'))
        samples = pipeline.process(
            [Frame(sender_ns, bodies)], arrival_ns, host_ns, read_ns).samples
        if now - ticked > 0.1:
            ticked = now
            pipeline.tick(read_ns)
            levels = [event.severity for event in pipeline.take_events()]
            levels += [finding.severity for finding in _problems(pipeline, read_ns)]
            if WARN in levels:
                silence.explained_at = now
        age = now - taken - LEAST_S
        silence.add(now, age <= LIVE_S, bool(samples))
        for sample in samples:
            poses += 1
            if session.ambiguous[k]:
                ambiguous_old += age > config.max_age_s
                continue
            oldest = max(oldest, age)
            error = (sample.stamp_ns - read_ns - host_ns) * 1e-9 + age
            excess = max(excess, abs(error) - pipeline.stamps.uncertainty_s())
            if watch and (age > config.max_age_s + 0.01 or
                          abs(error) - pipeline.stamps.uncertainty_s() > BEYOND_S):
                print(f'{now:.3f} age {age:.3f} error {error:.4f} '
                      f'stated {pipeline.stamps.uncertainty_s():.4f}')
    if watch:
        print('silences', ' '.join(f'{each:.2f}' for each in silence.longest))
    return Outcome(session.name, seed, poses, oldest, ambiguous_old, excess, silence.longest,
                   silence.unexplained, session.events,
                   dict(pipeline.stamps.status().restarts), 3.0 * interval)


def failures(outcome: Outcome) -> str:
    """Return which promises a session breaks."""
    found = []
    if outcome.oldest_s > PipelineConfig().max_age_s + 0.01:
        found.append(f'a pose {outcome.oldest_s:.3f} s old')
    if outcome.excess_s > BEYOND_S:
        found.append(f'{outcome.excess_s * 1e3:.3f} ms beyond the uncertainty')
    longest = max(outcome.silences)
    if longest > SILENCE_S + outcome.acquired_s:
        found.append(f'silent for {longest:.1f} s')
    if outcome.unexplained:
        found.append('silent without a reason')
    return '; '.join(found)


def summary(outcomes: list[Outcome]) -> str:
    """Return the sessions as Markdown."""
    n = len(outcomes)
    silences = np.array([s for outcome in outcomes for s in outcome.silences])
    late = np.array([s > SILENCE_S for s in silences])
    waits = np.array([s > SILENCE_S + o.acquired_s for o in outcomes for s in o.silences])
    slow = np.array([o.acquired_s > 0.5 for o in outcomes for _ in o.silences])
    old = [o for o in outcomes if o.oldest_s > PipelineConfig().max_age_s + 0.01]
    ambiguous = sum(outcome.ambiguous_old > 0 for outcome in outcomes)
    rows = [
        ('sessions, events, poses', f'{n}, {sum(len(o.events) for o in outcomes)}, '
         f'{sum(o.poses for o in outcomes)}'),
        ('sessions with a pose older than max_age_s', f'{len(old)}' + (
            f' (seeds {", ".join(str(o.seed) for o in old[:8])})' if old else '')),
        ('sessions in which one of the first frames after all clocks stood was old',
         f'{ambiguous}'),
        ('sessions without a pose more than 1 ms beyond its uncertainty',
         f'{100 * sum(o.excess_s <= BEYOND_S for o in outcomes) / n:.1f} %'),
        (f'live frames published within 2 s of the connection and of each event ({len(silences)})',
         f'{100 * float(np.mean(~late)):.1f} %; from 10 Hz on '
         f'{100 * float(np.mean(~late[~slow])):.1f} %; median {np.median(silences):.2f} s, '
         f'longest {silences.max():.1f} s'),
        ('the same within 2 s and the three frames with which a body is acquired',
         f'{100 * float(np.mean(~waits)):.1f} %'),
        ('silences of more than 2 s without a line in the log',
         f'{sum(o.unexplained for o in outcomes)}'),
    ]
    return '\n'.join(['| random sessions | |', '|---|---|', *(f'| {a} | {b} |' for a, b in rows)])


def main() -> None:
    """Run the sessions."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--sessions', type=int, default=SESSIONS)
    parser.add_argument('--seed', type=int, help='run this session alone')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    args = parser.parse_args()
    with Pool(args.jobs) as pool:
        seeds: Any = range(args.sessions) if args.seed is None else [args.seed]
        outcomes = pool.map(run, seeds, chunksize=1) if args.seed is None else [
            run(args.seed, True)]
    kinds: Counter[str] = Counter()
    for outcome in outcomes:
        if failures(outcome) or args.seed is not None:
            listed = ', '.join(f'{at:.1f} {kind} {size:.3g}' for at, kind, size in outcome.events)
            print(f'{outcome.seed}: {outcome.name}: {failures(outcome)} [{listed}] '
                  f'{outcome.restarts}')
            kinds.update(kind for _, kind, _ in outcome.events)
    print(summary(outcomes))


if __name__ == '__main__':
    main()
