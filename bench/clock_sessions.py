# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run random sessions of restarts, steps, slews, backlogs and suspends through the pipeline.

    python bench/clock_sessions.py                  all families of FAMILIES
    python bench/clock_sessions.py --family B --seed 17    one session, with its events

A session has a server with a clock of its own, a network that keeps the order of frames, and a
host whose clock is set, slewed and suspended. For each published pose its true age and the error
of its stamp are known.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
import math
from multiprocessing import Pool
import os
from pathlib import Path
import sys
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from optitrack_vrpn.drivers.frames import Body, Frame  # noqa: E402
from optitrack_vrpn.stream.config import PipelineConfig  # noqa: E402
from optitrack_vrpn.stream.pipeline import Pipeline  # noqa: E402

SESSIONS = 300
LEAST_S = 0.3e-3
WRONG = 0.05
"""Share of poses that may be beyond the uncertainty, as of seconds in bench/clock.py."""
COVERED = 0.95
"""Share of the sessions that keep to this."""
SILENCE_S, MEDIAN_S = 2.0, 0.3
"""Longest and median time without a pose after frames are live again."""
KINDS = ('restart', 'sender step', 'leap second', 'sender slew', 'backlog', 'host step',
         'host slew', 'suspend', 'load', 'gap')


@dataclass(frozen=True)
class Family:
    """
    Sessions of one kind; the letters are those of the table in docs/evidence/stamps_measured.md.

    :ivar ticks: of the sender's clock (s).
    :ivar skews: in ppm; None is a random one.
    :ivar reconnects: share of the restarts after which the client connects anew.
    :ivar queue: whether the sessions begin with a queue that drains.
    :ivar live_s: a frame younger than this is live (s).
    """

    name: str
    count: int = 24
    kinds: tuple[str, ...] = KINDS
    ticks: tuple[float, ...] = (1e-6, 1e-6, 1e-3, 4e-3, 1.0 / 64, 0.064)
    skews: tuple[float | None, ...] = (None, None, 1000.0, -1000.0)
    reconnects: float = 0.5
    queue: bool = False
    live_s: float = 0.1


FAMILIES = (
    Family('all kinds of events', SESSIONS),
    Family('A: ticks of 1 or 15.6 ms, restarts', kinds=('restart',), ticks=(1e-3, 1.0 / 64),
           skews=(0.0, 500.0, -500.0)),
    Family('B: a queue drains after the start and restarts', kinds=('restart, queue',),
           ticks=(1e-6,), queue=True, live_s=0.02),
    Family('D: suspends, frames wait in a buffer', kinds=('suspend',)),
    Family('F: restarts that nothing announces', kinds=('restart',), reconnects=0.0),
)


@dataclass
class Session:
    """What arrives: sender time, arrival clock, host minus arrival clock, true age; seconds."""

    name: str
    sender: NDArray[np.float64]
    arrival: NDArray[np.float64]
    reading: NDArray[np.float64]
    age: NDArray[np.float64]
    suspended: NDArray[np.float64]
    reconnects: set[int] = field(default_factory=set)
    events: list[tuple[float, str, float]] = field(default_factory=list)


@dataclass
class Outcome:
    """What the pipeline published; seconds."""

    name: str
    seed: int
    oldest_s: float
    wrong: float
    """Share of the poses whose error exceeds the stated uncertainty."""
    excess_s: float
    """The largest excess."""
    silences: list[float]
    """From the first live frame after a disturbance to the first pose."""
    silent_without_reason: int
    events: list[tuple[float, str, float]]
    restarts: dict[str, int]


def make_session(seed: int, family: Family = FAMILIES[0], seconds: float = 60.0) -> Session:
    """Draw a session."""
    rng = np.random.default_rng(seed)
    rate = float(rng.choice([60.0, 100.0, 120.0, 240.0]))
    tick = float(rng.choice(family.ticks))
    wifi = bool(rng.random() < 0.3)
    drawn = family.skews[rng.integers(len(family.skews))]
    skew = 1e-6 * (float(rng.uniform(-100, 100)) if drawn is None else drawn)
    t = np.arange(0.0, seconds, 1.0 / rate)
    keep = np.ones(len(t), dtype=bool)
    delay = rng.lognormal(math.log(1.2e-3), 0.6, len(t)) if wifi else rng.gamma(3, 40e-6, len(t))
    sender = t * (1.0 - skew) + float(rng.choice([100.0, 1e4, 1.7e9]))
    blocked: list[tuple[float, float, float]] = []
    suspends: list[tuple[float, float]] = []
    host_step: list[tuple[float, float]] = []
    host_slew: list[tuple[float, float]] = []
    reconnects: list[float] = []
    events: list[tuple[float, str, float]] = []
    if family.queue:
        events.append((0.0, 'queue', add_queue(delay, t, 0.0, rng)))
    at = float(rng.uniform(4.0, 15.0))
    while at < seconds - 12.0:
        kind = str(rng.choice(family.kinds))
        sign = float(rng.choice([-1.0, 1.0]))
        size = float(math.exp(rng.uniform(math.log(0.2), math.log(100.0))))
        after = t >= at
        length = 0.0
        if kind in ('restart', 'restart, queue'):
            length = float(rng.uniform(0.3, 5.0))
            keep &= ~(after & (t < at + length))
            size = float(rng.choice([0.0, sign * size, -sender[after][0] + 50.0, 5e4]))
            sender[after] += size
            if kind == 'restart, queue':
                add_queue(delay, t, at + length, rng)
            if rng.random() < family.reconnects:
                reconnects.append(at + length)
                kind += ', reconnection'
        elif kind in ('sender step', 'leap second'):
            size = sign * (1.0 if kind == 'leap second' else size)
            sender[after] += size
        elif kind == 'sender slew':
            size = sign * float(rng.uniform(5e-3, 20e-3))
            length = abs(size) / 500e-6
            sender += math.copysign(1.0, size) * np.clip((t - at) * 500e-6, 0.0, abs(size))
        elif kind == 'backlog':
            length = float(rng.uniform(0.3, 5.0))
            size = float(rng.uniform(2.0, 50.0))
            blocked.append((at, at + length, size))
            length += length / (size - 1.0)
        elif kind == 'host step':
            size *= sign
            host_step.append((at, size))
        elif kind == 'host slew':
            size = sign * float(rng.uniform(5e-3, 20e-3))
            host_slew.append((at, size))
        elif kind == 'suspend':
            length = min(float(rng.uniform(1.0, 20.0)), seconds - at - 8.0)
            suspends.append((at, at + length))
            size = length
        elif kind == 'load':
            length, size = 10.0, float(rng.uniform(0.5e-3, 3e-3))
            inside = after & (t < at + length)
            delay[inside] += size + rng.exponential(size / 4, int(inside.sum()))
        else:
            length = float(rng.uniform(1.0, 8.0))
            keep &= ~(after & (t < at + length))
        events.append((at, kind, size))
        at += length + float(rng.uniform(8.0, 20.0))
    arrival = np.maximum.accumulate(t + LEAST_S + delay)
    for begin, end, factor in blocked:
        # What waits comes faster than it was sent, until it has caught up.
        first = int(np.searchsorted(t, begin))
        waits = end + np.arange(len(t) - first) / rate / factor
        arrival[first:] = np.maximum(arrival[first:], waits)
    lost = np.zeros(len(t), dtype=bool)
    for begin, end in suspends:
        inside = (arrival >= begin) & (arrival < end)
        number = np.cumsum(inside)
        lost |= inside & (number > 500)
        arrival = np.where(inside, end + number * 20e-6, arrival)
        arrival = np.maximum.accumulate(arrival)
    keep &= ~lost
    t, sender, arrival = t[keep], sender[keep], arrival[keep]
    asleep = sum((np.where(arrival >= end, end - begin, 0.0) for begin, end in suspends),
                 np.zeros_like(arrival))
    host = np.zeros_like(arrival)
    for when, size in host_step:
        host += np.where(arrival >= when, size, 0.0)
    for when, size in host_slew:
        host += math.copysign(1.0, size) * np.clip((arrival - when) * 500e-6, 0.0, abs(size))
    found = Session(
        f'{rate:.0f} Hz, ticks of {tick * 1e3:g} ms, {"WiFi" if wifi else "wired"}, '
        f'{skew * 1e6:.0f} ppm', np.floor(sender / tick) * tick, arrival - asleep,
        host + asleep, arrival - t - LEAST_S, asleep,
        {int(np.searchsorted(t, when)) for when in reconnects}, events)
    return found


def add_queue(
    delay: NDArray[np.float64], t: NDArray[np.float64], at: float, rng: np.random.Generator,
) -> float:
    """Let frames wait in a queue that drains; return the longest wait (s)."""
    height = float(math.exp(rng.uniform(math.log(0.01), math.log(0.24))))
    # At 8 ms a second at least: four times the largest skew of a clock.
    drains = np.clip(1.0 - (t - at) / float(rng.uniform(1.0, min(20.0, height / 8e-3))), 0.0, 1.0)
    delay[t >= at] += height * drains[t >= at]
    return height


def run(task: tuple[int, Family]) -> Outcome:
    """Run a session; a pose is published or counted."""
    seed, family = task
    session = make_session(seed, family)
    rng = np.random.default_rng(seed + 1_000_000)
    asleep = [0]
    pipeline = Pipeline(PipelineConfig(), suspended_ns=lambda: asleep[0])
    pipeline.reconnected()
    base, host_base = 5_000_000_000_000, 1_700_000_000_000_000_000
    oldest = excess = 0.0
    wrong = poses = unexplained = 0
    silences: list[float] = []
    live_since = last_pose = math.nan
    told = 0.0
    next_tick = 0
    ages, arrivals = session.age.tolist(), session.arrival.tolist()
    noise = rng.normal(0.0, 100.0, len(ages)).tolist()
    for k, sender in enumerate(session.sender.tolist()):
        age, arrival = ages[k], arrivals[k]
        arrival_ns = base + round(arrival * 1e9)
        reading_ns = host_base + round(session.reading[k] * 1e9 + noise[k])
        asleep[0] = round(session.suspended[k] * 1e9)
        true_s = arrival + session.suspended[k]
        if k in session.reconnects:
            pipeline.reconnected()
        turn = k * 1e-3
        sender_ns = round(sender * 1e6) * 1000
        frame = Frame(sender_ns, [Body('wand', 0, sender_ns, (
            0.5 * math.cos(turn), 1.0, 0.5 * math.sin(turn)), (0.0, 0.0, 0.0, 1.0))])
        samples = pipeline.process([frame], arrival_ns, reading_ns)
        if arrival_ns >= next_tick:
            next_tick = arrival_ns + 100_000_000
            pipeline.tick(arrival_ns)
        for event in pipeline.take_events():
            if event.severity != 'info':
                told = true_s
        if age > family.live_s:
            live_since = math.nan
        elif math.isnan(live_since):
            live_since = true_s
            last_pose = math.nan
        for sample in samples:
            poses += 1
            oldest = max(oldest, age)
            error = (sample.stamp_ns - arrival_ns - reading_ns) * 1e-9 + age
            known = pipeline.stamps.uncertainty_s()
            if abs(error) > known:
                wrong += 1
                excess = max(excess, abs(error) - known)
        if samples:
            since = live_since if math.isnan(last_pose) else max(live_since, last_pose)
            if true_s - since > 0.05 or math.isnan(last_pose):
                gap = true_s - arrivals_before(arrivals, session, k, since)
                silences.append(gap)
                if gap > SILENCE_S and told < since:
                    unexplained += 1
            last_pose = true_s
    if math.isnan(last_pose) or arrivals[-1] + session.suspended[-1] - last_pose > SILENCE_S:
        silences.append(math.inf)
    return Outcome(session.name, seed, oldest, wrong / max(poses, 1), excess, silences,
                   unexplained, session.events, dict(pipeline.stamps.status().restarts))


def arrivals_before(
    arrivals: list[float], session: Session, k: int, since: float,
) -> float:
    """Return when the first frame after a time arrived, up to frame ``k``."""
    while k > 0 and arrivals[k - 1] + session.suspended[k - 1] > since:
        k -= 1
    return arrivals[k] + float(session.suspended[k])


def failures(outcome: Outcome) -> str:
    """Return which promises a session breaks."""
    found = []
    if outcome.oldest_s > PipelineConfig().max_age_s + 0.01:
        found.append(f'a pose {outcome.oldest_s:.3f} s old')
    longest = max(outcome.silences, default=0.0)
    if longest > SILENCE_S:
        found.append(f'silent for {longest:.1f} s')
    if outcome.wrong > WRONG:
        found.append(f'{outcome.wrong * 100:.2f} % beyond the uncertainty, by up to '
                     f'{outcome.excess_s * 1e3:.3f} ms')
    return '; '.join(found)


def missed(outcomes: list[Outcome]) -> str:
    """Return which aims a family misses, '' for none."""
    silences = np.array([s for o in outcomes for s in o.silences])
    covered = sum(o.wrong <= WRONG for o in outcomes) / len(outcomes)
    found = [text for text, failed in (
        ('age', max(o.oldest_s for o in outcomes) > PipelineConfig().max_age_s + 0.01),
        ('uncertainty', covered < COVERED),
        ('silence', silences.max() > SILENCE_S or np.median(silences) > MEDIAN_S),
        ('reason', any(o.silent_without_reason for o in outcomes))) if failed]
    return ', '.join(found)


def table(families: list[tuple[Family, list[Outcome]]]) -> str:
    """Return the families as Markdown."""
    lines = ['| sessions | number | with a pose beyond max_age_s | poses within the uncertainty: '
             '95 % | all | silence after a disturbance: median, s | p99, s | worst, s | missed |',
             '|---|---|---|---|---|---|---|---|---|']
    for family, outcomes in families:
        n, silences = len(outcomes), np.array([s for o in outcomes for s in o.silences])
        lines.append(
            f'| {family.name} | {n} | '
            f'{sum(o.oldest_s > PipelineConfig().max_age_s + 0.01 for o in outcomes)} | '
            f'{sum(o.wrong <= WRONG for o in outcomes) / n * 100:.1f} % | '
            f'{sum(not o.wrong for o in outcomes) / n * 100:.1f} % | '
            f'{np.median(silences):.2f} | {np.percentile(silences, 99):.2f} | '
            f'{silences.max():.2f} | {missed(outcomes) or "-"} |')
    return '\n'.join(lines)


def run_all(pool: Any, most: int = SESSIONS, letter: str = '') -> list[
        tuple[Family, list[Outcome]]]:
    """Run the families whose names contain the letter, each of at most so many sessions."""
    return [(family, pool.map(run, [(seed, family) for seed in range(min(most, family.count))]))
            for family in FAMILIES if letter in family.name]


def main() -> None:
    """Run the sessions."""
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[1])
    parser.add_argument('--sessions', type=int, default=SESSIONS, help='of a family, at most')
    parser.add_argument('--family', default='', help='families whose name contains this')
    parser.add_argument('--seed', type=int, help='run this session of the first family alone')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    args = parser.parse_args()
    with Pool(args.jobs) as pool:
        if args.seed is None:
            families = run_all(pool, args.sessions, args.family)
        else:
            family = next(each for each in FAMILIES if args.family in each.name)
            families = [(family, [run((args.seed, family))])]
    for family, outcomes in families:
        for outcome in outcomes:
            if failures(outcome) or args.seed is not None:
                listed = ', '.join(
                    f'{at:.1f} {kind} {size:.4g}' for at, kind, size in outcome.events)
                print(f'{family.name} {outcome.seed}: {outcome.name}: {failures(outcome)} '
                      f'[{listed}] {outcome.restarts}')
    print(table(families))


if __name__ == '__main__':
    main()
