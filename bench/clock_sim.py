# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Simulate a sender's clock, cameras, a network and a host: frames with known truth.

Everything follows from a ``Case`` and a seed. The truth of a frame is when it was taken, on the
host's arrival clock, plus the least delay that the network allows: what one-way data can show at
best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
import math
from typing import NamedTuple

from clock_delays import Floats, wifi, wired
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
LEAST_S, SENDER_ZERO_S, HOST_ZERO_S = 0.3e-3, 1234.567, 5000.0


@dataclass(frozen=True)
class Case:
    """
    One sender. Seconds, unless the name has another unit.

    :ivar skew_ppm: host's clock against the sender's.
    :ivar waves_ppm: amplitude of waves of it, of ``waves_s``; ``walk`` its random walk.
    :ivar camera_ppm: the cameras' crystal against the sender's clock.
    :ivar loads: (from, for, height in ms): delays are longer by this.
    :ivar swell: (period, length, height in ms): load that rises and falls steadily.
    :ivar spread: whether load also spreads the delays, by a quarter of its height.
    :ivar lost: share of frames lost; ``lost_bursts`` of them at once.
    :ivar poll_s: arrivals are seen at the next poll.
    :ivar tick_s: the sender's clock advances in ticks; ``jitter_s``: its times are late by the
        size of a normal deviate.
    :ivar echo_s: time between round trips (NatNet), of which 0.3 are lost; 0 without.
    :ivar events: (time, kind, size): ``route`` (s longer), ``host`` (arrival clock set, s),
        ``slew`` (s, at 500 ppm), ``restart`` (s added to the sender's time after 5 s), ``gap``,
        ``skew`` (ppm).
    :ivar settle_s: time after an event that is not judged.
    :ivar aim_us: of the 99th percentile; NaN where there is no aim.
    :ivar unobservable: why the error cannot be observed from the frames, '' elsewhere.
    """

    name: str
    rate_hz: float = 240.0
    network: Callable[[Floats, np.random.Generator], Floats] = wired
    skew_ppm: float = 37.0
    waves_ppm: float = 0.5
    waves_s: float = 2700.0
    walk: float = 3e-9
    camera_ppm: float = 20.0
    loads: tuple[tuple[float, float, float], ...] = ()
    swell: tuple[float, float, float] = (0.0, 0.0, 0.0)
    spread: bool = False
    lost: float = 0.0
    lost_bursts: int = 1
    poll_s: float = 0.0
    tick_s: float = 1e-6
    jitter_s: float = 0.0
    echo_s: float = 0.0
    events: tuple[tuple[float, str, float], ...] = ()
    settle_s: float = 3.0
    seconds: float = 900.0
    from_s: float = 10.0
    aim_us: float = math.nan
    unobservable: str = ''


class Frames(NamedTuple):
    """
    What arrives, in order of arrival, in ns.

    :ivar truth: true place minus arrival, at most 0.
    :ivar judged: False shortly after an event.
    :ivar echoes: round trips: index of the frame before which the answer arrives, when the request
        left, the sender's time when it arrived there, and when the answer arrived.
    """

    sender: Ints
    arrival: Ints
    truth: Floats
    judged: NDArray[np.bool_]
    echoes: list[tuple[int, int, int, int]]


def drift(case: Case, t: Floats, rng: np.random.Generator) -> Floats:
    """Return by how much the host's clock has moved against true time."""
    grid = np.arange(0.0, t[-1] + 2.0)
    rate = case.skew_ppm * 1e-6 + np.cumsum(rng.normal(0, case.walk, len(grid)))
    rate += case.waves_ppm * 1e-6 * np.sin(
        2 * np.pi * (grid / case.waves_s + rng.random()))
    for at, kind, size in case.events:
        if kind == 'skew':
            rate += (grid >= at) * size * 1e-6
    offset = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    return np.interp(t, grid, offset)


def queueing(case: Case, t: Floats, rng: np.random.Generator) -> Floats:
    """Return the delay of load, at a constant height or spread by a quarter of it."""
    delay = np.zeros_like(t)
    for at, length, height in case.loads:
        inside = slice(np.searchsorted(t, at), np.searchsorted(t, at + length))
        count = inside.stop - inside.start
        delay[inside] += height * 1e-3
        if case.spread:
            delay[inside] += rng.random(count) * 0.5 * height * 1e-3
    period, length, height = case.swell
    if period:
        phase = (t % period - (period - length) / 2) / length
        rise = height * 1e-3 * np.clip(1.0 - np.abs(2.0 * phase - 1.0), 0.0, None)
        delay += rise * (1.0 + 0.5 * rng.random(len(t)) if case.spread else 1.0)
    return delay


def simulate(case: Case, seed: int) -> Frames:
    """Simulate a session."""
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, case.seconds, (1.0 + case.camera_ppm * 1e-6) / case.rate_hz)
    host = t + drift(case, t, rng) + LEAST_S
    late = np.abs(rng.normal(0.0, case.jitter_s, len(t))) if case.jitter_s else 0.0
    sender = np.floor((t + late) / case.tick_s) * case.tick_s + SENDER_ZERO_S
    keep = np.ones(len(t), dtype=bool)
    judged = t > case.from_s
    delay = case.network(t, rng) + queueing(case, t, rng) + late
    for at, kind, size in case.events:
        after = t >= at
        length = 0.0
        if kind == 'route':
            host = host + after * size
        elif kind == 'host':
            host = host + after * size
        elif kind == 'slew':
            host = host + math.copysign(1.0, size) * np.clip((t - at) * 500e-6, 0, abs(size))
            length = abs(size) / 500e-6
        elif kind == 'restart':
            keep &= ~(after & (t < at + 5.0))
            sender = sender + after * size
            length = 5.0
        elif kind == 'gap':
            keep &= ~(after & (t < at + size))
            length = size
        judged &= ~(after & (t < at + length + case.settle_s))
    if case.lost:
        starts = rng.random(len(t)) < case.lost / case.lost_bursts
        keep &= ~(np.convolve(starts, np.ones(case.lost_bursts))[:len(t)] > 0)
    order = np.flatnonzero(keep)
    arrival = (host + delay)[order]
    steps = sum(size * (t[order] >= at) for at, kind, size in case.events if kind == 'host')
    arrival = np.maximum.accumulate(arrival - steps)
    if case.poll_s:
        arrival = np.ceil(arrival / case.poll_s) * case.poll_s + 40e-6
    arrival = arrival + steps
    arrival_ns = np.rint((arrival + HOST_ZERO_S) * 1e9).astype(np.int64)
    truth = host[order] - arrival - (LEAST_S if case.echo_s else 0.0)
    return Frames(np.rint(sender[order] * 1e9).astype(np.int64), arrival_ns, truth * 1e9,
                  judged[order], _echoes(case, t, host, arrival_ns, rng) if case.echo_s else [])


def _echoes(
    case: Case, t: Floats, host: Floats, arrival_ns: Ints, rng: np.random.Generator,
) -> list[tuple[int, int, int, int]]:
    """Draw round trips; load delays answers as it delays frames."""
    at = np.arange(0.05, t[-1], case.echo_s)
    at = at[rng.random(len(at)) >= 0.3]
    there = np.interp(at, t, host) + HOST_ZERO_S - LEAST_S
    sent = there - LEAST_S - case.network(at, rng)
    received = there + LEAST_S + case.network(at, rng) + queueing(case, at, rng)
    rows = (np.rint(each * 1e9).astype(np.int64) for each in (sent, at + SENDER_ZERO_S, received))
    return [(int(np.searchsorted(arrival_ns, back)), int(begin), int(server), int(back))
            for begin, server, back in zip(*rows, strict=True)]


def every(period: float, length: float, seconds: float, first: float, *heights: float) -> tuple[
        tuple[float, float, float], ...]:
    """Return loads at regular times, of these heights in turn (ms)."""
    starts = np.arange(first, seconds - length, period)
    return tuple((float(at), length, heights[k % len(heights)]) for k, at in enumerate(starts))


def spread_over(
    seconds: float, *events: tuple[str, float],
) -> tuple[tuple[float, str, float], ...]:
    """Spread events evenly over a session."""
    return tuple((seconds * (i + 1) / (len(events) + 1), kind, size)
                 for i, (kind, size) in enumerate(events))


def with_load(case: Case, name: str, aim_us: float, seconds: float) -> Case:
    """Return a case with 30 s of load every 5 minutes."""
    return replace(case, name=name, aim_us=aim_us,
                   loads=every(300.0, 30.0, seconds, 120.0, 2.0, 0.7, 3.0))


def disciplined(seconds: float) -> tuple[tuple[float, str, float], ...]:
    """Return the changes of rate of a clock that w32time disciplines (ppm)."""
    rng = np.random.default_rng(7)
    found, at, now = [], 100.0, 0.0
    while at < seconds:
        ppm = float(rng.choice([-1.0, 1.0]) * rng.uniform(5.0, 60.0))
        found.append((at, 'skew', ppm - now))
        at, now = at + float(rng.uniform(60.0, 300.0)), ppm
    return tuple(found)


def cases(seconds: float) -> list[Case]:
    """Return the rows of the table."""
    base = Case('wired 240 Hz', seconds=seconds, aim_us=50.0)
    radio = replace(base, name='WiFi 120 Hz', rate_hz=120.0, network=wifi, lost=0.005,
                    aim_us=250.0)
    plain = replace(base, aim_us=math.nan)
    longer = 'load that lasts longer than 90 s is a longer route'
    loads = every(300.0, 30.0, seconds, 120.0, 2.0)
    return [
        base,
        with_load(base, 'wired, 30 s of load', 50.0, seconds),
        replace(base, name='busy: 60 s of load every 3 min',
                loads=every(180.0, 60.0, seconds, 90.0, 2.0, 3.0)),
        replace(base, name='swell of 60 s to 1.5 ms', swell=(300.0, 60.0, 1.5), aim_us=500.0),
        replace(base, name='swell of 120 s to 1.5 ms', swell=(300.0, 120.0, 1.5), aim_us=500.0,
                unobservable=longer),
        replace(base, name='waves of 5 ppm', waves_ppm=5.0, waves_s=600.0, aim_us=500.0),
        replace(with_load(base, 'waves of 5 ppm, 30 s of load', 500.0, seconds), waves_ppm=5.0,
                waves_s=600.0),
        replace(base, name='waves of 5 ppm, busy', waves_ppm=5.0, waves_s=600.0, aim_us=500.0,
                loads=every(180.0, 60.0, seconds, 90.0, 2.0, 3.0)),
        replace(with_load(base, 'bursts of 20 lost frames, 30 s of load', 50.0, seconds),
                lost=0.05,
                lost_bursts=20),
        *(replace(with_load(base, f'{rate:g} Hz, 30 s of load', 50.0, seconds), rate_hz=rate)
          for rate in (30.0, 100.0, 500.0, 1000.0)),
        *(replace(with_load(base, f'skew {ppm:+g} ppm, 30 s of load', 250.0, seconds),
                  skew_ppm=ppm)
          for ppm in (-200.0, 200.0)),
        replace(with_load(base, 'skew +800 ppm, 30 s of load', math.nan, seconds), skew_ppm=800.0),
        radio,
        with_load(radio, 'WiFi, 30 s of load', 250.0, seconds),
        replace(with_load(base, 'polls of 10 ms, 30 s of load', 500.0, seconds), poll_s=0.010),
        replace(plain, name='100 Hz, polled at 100 Hz', rate_hz=100.0, poll_s=0.010,
                unobservable='the phase of a poll does not show until it begins anew'),
        replace(plain, name='host clock set by 50 ms, no raw clock, then load', events=spread_over(
            seconds, ('host', 0.05), ('host', -0.05)), loads=loads, aim_us=50.0),
        replace(plain, name='host clock slewed by 25 ms, no raw clock', events=spread_over(
            seconds, ('slew', 0.025), ('slew', -0.025)), settle_s=120.0),
        replace(plain, name='the slew while it lasts', events=spread_over(
            seconds, ('slew', 0.025), ('slew', -0.025)), settle_s=-60.0,
            unobservable='one-way delays grow by load or by a slew'),
        replace(plain, name='sender restarts, load 20 s later', events=(
            (300.0, 'restart', -1400.0), (600.0, 'restart', 9e4)),
            loads=((325.0, 30.0, 2.0), (625.0, 30.0, 2.0))),
        replace(plain, name='route 2 ms longer, and back', events=spread_over(
            seconds, ('route', 2e-3), ('route', -2e-3)), settle_s=0.0, unobservable=longer),
        replace(plain, name='route 40 ms longer, and back', events=spread_over(
            seconds, ('route', 0.04), ('route', -0.04))),
        replace(plain, name='load from the first frame, 60 s', loads=((0.0, 60.0, 2.0),),
                unobservable='load from the first frame on is part of the least delay'),
        replace(plain, name='load of 150 s', loads=((200.0, 150.0, 2.0),), unobservable=longer),
        replace(base, name='gaps of 1 to 60 s', events=spread_over(
            seconds, ('gap', 1.0), ('gap', 10.0), ('gap', 29.0), ('gap', 60.0))),
        replace(plain, name='sender disciplined (w32time)', events=disciplined(seconds),
                settle_s=0.0, unobservable='a change of rate looks like load for 90 s'),
        replace(with_load(base, 'NatNet round trips, 30 s of load', 150.0, seconds), echo_s=0.25),
        replace(plain, name='NatNet round trips, load of 150 s', echo_s=0.25,
                loads=((200.0, 150.0, 2.0),),
                unobservable=(
                    'round trips are remembered for 90 s: then half of the load is error')),
        replace(with_load(radio, 'NatNet round trips, WiFi, 30 s of load', 500.0, seconds),
                echo_s=0.25),
        replace(plain, name='sender times jitter by 0.2 ms, 0.5 % lost', jitter_s=0.2e-3,
                lost=0.005),
        replace(plain, name='ticks of 1 ms', tick_s=1e-3),
        replace(plain, name='ticks of 1 ms, 0.5 % lost', tick_s=1e-3, lost=0.005),
        replace(plain, name='ticks of 4 ms, 5 % lost', tick_s=4e-3, lost=0.05),
        replace(plain, name='ticks of 15.6 ms', tick_s=1.0 / 64),
        replace(plain, name='ticks of 15.6 ms, 2 % lost', tick_s=1.0 / 64, lost=0.02),
        replace(plain, name='ticks of 15.6 ms, 60 Hz', tick_s=1.0 / 64, rate_hz=60.0),
    ]
