# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Simulate a sender's clock, a network and a host's clock: frames with known truth.

Everything follows from a ``Scenario`` and a seed. Times are nanoseconds on two clocks: the
sender's (``sender_time``) and the host's arrival clock. The truth of a frame is where it lies on
the arrival clock, plus the least delay that the network allows at that time; it is what a
one-way estimator can find at best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Scenario:
    """Clock, network and events of one sender. Seconds, unless the name has another unit."""

    name: str
    rate_hz: float = 240.0
    skew_ppm: float = 50.0
    walk: float = 3e-9
    """Random walk of the skew per square root of a second."""
    thermal_ppm: float = 0.5
    thermal_period_s: float = 2700.0
    ntp_ppm: float = 0.1
    """Random change of the host's rate every 128 s."""
    delay: str = 'gamma'
    """``gamma``, ``exponential``, ``wifi``, ``uniform``, ``constant``, ``bimodal``, ``normal``."""
    delay_us: float = 40.0
    stall_every_s: float = 5.0
    stall_ms: tuple[float, float] = (2.0, 8.0)
    spike_every_s: float = 0.0
    spike_s: float = 30.0
    spike_ms: tuple[float, float] = (0.5, 3.0)
    spike_regular: bool = False
    spike_first_s: float = math.nan
    swell_every_s: float = 0.0
    swell_s: float = 60.0
    swell_ms: float = 1.5
    """Load that rises steadily to this and falls back within ``swell_s``."""
    loads: tuple[tuple[float, float, float], ...] = ()
    """(from, for, ms): load at given times, beside that of ``spike_every_s``."""
    queue_us: float = 0.0
    """Standard deviation of load that wanders (Ornstein-Uhlenbeck; below zero it is none)."""
    queue_s: float = 30.0
    """How long it remembers."""
    loss: float = 0.0
    poll_ms: float = 0.0
    """Arrivals are seen at the next poll of this period."""
    poll_jitter_us: float = 100.0
    quantum_us: float = 1.0
    """Resolution of the sender's time."""
    frame_jitter_us: float = 0.0
    late_us: float = 0.0
    """Frames are stamped and sent late by the size of a normal deviate of this deviation."""
    epoch: bool = False
    """Sender times from the Unix epoch rather than from the sender's start."""
    duplicates: float = 0.0
    reorder: float = 0.0
    events: tuple[tuple[float, str, float], ...] = ()
    """(time, kind, size): ``host_step`` (ms), ``host_slew`` (ms, at 500 ppm), ``sender_restart``
    (s; negative: to 10 s), ``sender_step`` (ms), ``gap`` (s), ``delay_jump`` (ms), ``pause``
    (s of silence in which the sender's clock stands), ``rate`` (new Hz), ``noise`` (new
    factor), ``skew`` (ppm added to the sender's rate), ``discipline`` (the same, with no time
    to recover)."""
    aim_us: float = math.inf
    """What the 99th percentile of the error shall not exceed."""
    from_s: float = 10.0
    """Time from which the session is judged: nothing shows before what the error is."""


class Frames(NamedTuple):
    """What arrives, in order of arrival, and the truth."""

    sender_time: Ints
    arrival: Ints
    truth: Floats
    """Relative to ``arrival`` (ns, at most 0): truth - arrival."""
    settled: NDArray[np.bool_]
    """False within the time that an event is given to be recovered from."""


RECOVERY_S = {
    'host_step': 3.0, 'sender_restart': 1.0, 'gap': 1.0, 'host_slew': 30.0, 'sender_step': 3.0,
    'pause': 12.0, 'delay_jump': 120.0, 'rate': 0.0, 'noise': 0.0, 'skew': 60.0,
    'discipline': 0.0,
}


def simulate(scenario: Scenario, seconds: float, seed: int) -> Frames:
    """
    Simulate a session.

    :param seconds: length on the sender's clock.
    :param seed: of all randomness.
    """
    rng = np.random.default_rng(seed)
    s = scenario
    t = _frame_times(s, seconds, rng)
    host = t + clock_offset(s, t, seconds, rng)
    least = np.zeros_like(t)
    late = np.abs(rng.normal(0.0, s.late_us * 1e-6, len(t))) if s.late_us else np.zeros_like(t)
    sender = np.floor((t + late) * 1e6 / s.quantum_us) * (s.quantum_us * 1e3)
    sender_shift = np.full_like(t, 1.7e18 if s.epoch else 1234.567e9)
    keep = np.ones(len(t), dtype=bool)
    settled = t > s.from_s
    noise = np.ones_like(t)
    for at, kind, size in s.events:
        after = t >= at
        if kind == 'host_step':
            host = host + after * (size * 1e-3)
        elif kind == 'host_slew':
            host = host + math.copysign(1, size) * np.clip((t - at) * 500e-6, 0, abs(size) * 1e-3)
        elif kind == 'sender_restart':
            keep &= ~((t >= at) & (t < at + 5.0))
            new = 10e9 - at * 1e9 if size < 0 else size * 1e9 + 1234.567e9
            sender_shift = np.where(after, new, sender_shift)
        elif kind == 'sender_step':
            sender_shift = sender_shift + after * (size * 1e6)
        elif kind == 'gap':
            keep &= ~((t >= at) & (t < at + size))
        elif kind == 'pause':
            keep &= ~((t >= at) & (t < at + size))
            sender_shift = sender_shift - (t >= at + size) * (size * 1e9)
        elif kind == 'delay_jump':
            least = least + after * (size * 1e-3)
        elif kind == 'noise':
            noise = np.where(after, size, noise)
        length = size if kind in ('gap', 'pause') else 5.0 if kind == 'sender_restart' else 0.0
        length += abs(size) * 2.0 if kind == 'host_slew' else 0.0
        settled &= ~(after & (t < at + length + RECOVERY_S[kind]))
    host = host + least + 0.3e-3
    delay = late + noise * delays_of(s, t, rng)
    if s.loss:
        keep &= rng.random(len(t)) >= s.loss
    arrival = host + delay
    arrival = np.where(keep, arrival, -np.inf)
    shift = sum(size * 1e-3 * (t >= at) for at, kind, size in s.events if kind == 'host_step')
    arrival = np.maximum.accumulate(arrival - shift) + shift
    if s.poll_ms:
        period = s.poll_ms * 1e-3
        wake = rng.exponential(s.poll_jitter_us * 1e-6, len(t))
        seen = np.ceil(arrival / period)
        # All frames that wait for one poll are read together: the first one's lateness is theirs.
        next_poll = np.diff(seen, prepend=-1.0) > 0
        first = np.maximum.accumulate(np.where(next_poll, np.arange(len(t)), 0))
        arrival = np.maximum(np.maximum.accumulate(seen * period + wake[first]), arrival)
    order = np.flatnonzero(keep)
    return _deliver(s, order, sender + sender_shift, host, arrival, settled, rng)


def _deliver(
    s: Scenario, order: Ints, sender: Floats, host: Floats, arrival: Floats,
    settled: NDArray[np.bool_], rng: np.random.Generator,
) -> Frames:
    start = 5_000_000_000_000 if not s.epoch else 1_700_000_000_000_000_000
    sender_ns = sender[order].astype(np.int64)
    if s.epoch:
        # A double holds 1.7e18 to 256 ns: add the large part as integers.
        sender_ns = (sender[order] - 1.7e18).astype(np.int64) // 1000 * 1000
        sender_ns += 1_700_000_000_000_000_000
    arrival_ns = np.rint(arrival[order] * 1e9).astype(np.int64)
    truth = (host[order] * 1e9) - arrival_ns
    good = settled[order]
    if s.reorder or s.duplicates:
        again = rng.random(len(order)) < s.duplicates
        moved = rng.random(len(order)) < s.reorder
        late = arrival_ns + (moved * rng.uniform(0.2e6, 30e6, len(order))).astype(np.int64)
        extra = arrival_ns[again] + rng.integers(1000, 50_000_000, int(again.sum()))
        sender_ns = np.concatenate([sender_ns, sender_ns[again]])
        truth = np.concatenate([truth + arrival_ns - late,
                                truth[again] + arrival_ns[again] - extra])
        arrival_ns = np.concatenate([late, extra])
        good = np.concatenate([good, good[again]])
        by = np.argsort(arrival_ns, kind='stable')
        sender_ns, arrival_ns, truth, good = (
            sender_ns[by], arrival_ns[by], truth[by], good[by])
    return Frames(sender_ns, arrival_ns + start, truth, good)


def _frame_times(s: Scenario, seconds: float, rng: np.random.Generator) -> Floats:
    changes = [(0.0, s.rate_hz)] + [(at, hz) for at, kind, hz in s.events if kind == 'rate']
    ends = [at for at, _ in changes[1:]] + [seconds]
    t = np.concatenate([
        np.arange(at, end, 1 / hz) for (at, hz), end in zip(changes, ends, strict=True)])
    if s.frame_jitter_us:
        t = np.maximum.accumulate(t + rng.normal(0, s.frame_jitter_us * 1e-6, len(t)).clip(
            -0.3 / s.rate_hz, 0.3 / s.rate_hz))
    return np.maximum(t, 0)


def clock_offset(s: Scenario, t: Floats, seconds: float, rng: np.random.Generator) -> Floats:
    """Integrate the rate of the host's clock against the sender's on a grid of seconds."""
    n = int(seconds) + 2
    grid = np.arange(n + 1.0)
    rate = np.full(n + 1, s.skew_ppm * 1e-6)
    rate += np.cumsum(rng.normal(0, s.walk, n + 1))
    phase = rng.uniform(0, 2 * np.pi)
    rate += s.thermal_ppm * 1e-6 * np.sin(2 * np.pi * grid / s.thermal_period_s + phase)
    steps = rng.normal(0, s.ntp_ppm * 1e-6, n // 128 + 1)
    rate += np.repeat(steps, 128)[:n + 1] if len(steps) * 128 > n else np.pad(
        np.repeat(steps, 128), (0, n + 1 - len(steps) * 128), mode='edge')
    for at, kind, size in s.events:
        if kind in ('skew', 'discipline'):
            rate += (grid >= at) * size * 1e-6
    offset = np.concatenate([[0.0], np.cumsum((rate[1:] + rate[:-1]) / 2)])
    return np.interp(t, grid, offset)


def delays_of(s: Scenario, t: Floats, rng: np.random.Generator) -> Floats:
    n, unit = len(t), s.delay_us * 1e-6
    draw: dict[str, Callable[[], Floats]] = {
        'gamma': lambda: rng.gamma(3, unit, n),
        'exponential': lambda: rng.exponential(unit, n),
        'uniform': lambda: rng.uniform(0, unit, n),
        'constant': lambda: np.full(n, 0.0),
        'normal': lambda: np.abs(5 * unit + rng.normal(0, unit, n)),
        'bimodal': lambda: rng.exponential(unit, n) + (rng.random(n) < 0.7) * 20 * unit,
        'wifi': lambda: _wifi(rng, n),
    }
    delay = draw[s.delay]()
    if s.stall_every_s:
        _stalls(delay, t, s.stall_every_s, s.stall_ms, rng)
    if s.queue_us:
        kept = np.exp(-1.0 / s.rate_hz / s.queue_s)
        push = rng.normal(0, s.queue_us * 1e-6 * math.sqrt(1.0 - kept * kept), n)
        delay += np.maximum(0.0, lfilter([1.0], [1.0, -kept], push))
    if s.spike_every_s:
        for at in _spike_starts(s, t[-1], rng):
            lift = rng.uniform(*s.spike_ms) * 1e-3
            inside = slice(np.searchsorted(t, at), np.searchsorted(t, at + s.spike_s))
            count = inside.stop - inside.start
            delay[inside] += lift + rng.exponential(lift / 4, count)
    for at, length, ms in s.loads:
        inside = slice(np.searchsorted(t, at), np.searchsorted(t, at + length))
        delay[inside] += ms * 1e-3 + rng.exponential(ms * 1e-3 / 4, inside.stop - inside.start)
    if s.swell_every_s:
        phase = (t % s.swell_every_s - (s.swell_every_s - s.swell_s) / 2) / s.swell_s
        delay += s.swell_ms * 1e-3 * np.clip(1.0 - np.abs(2.0 * phase - 1.0), 0.0, None)
    return delay


def _wifi(rng: np.random.Generator, n: int) -> Floats:
    delay = rng.lognormal(math.log(1.2e-3), 0.6, n)
    tail = rng.random(n) < 0.02
    delay[tail] += np.minimum(2e-3 * (1 + rng.pareto(1.2, int(tail.sum()))), 0.1)
    return delay


def _stalls(
    delay: Floats, t: Floats, every_s: float, length_ms: tuple[float, float],
    rng: np.random.Generator,
) -> None:
    """Add moments in which nothing gets through: what waits arrives at the end."""
    at = 0.0
    while at < t[-1]:
        at += rng.exponential(every_s)
        end = at + rng.uniform(*length_ms) * 1e-3
        inside = slice(np.searchsorted(t, at), np.searchsorted(t, end))
        delay[inside] = np.maximum(delay[inside], end - t[inside] + delay[inside] * 0.1)


def _spike_starts(s: Scenario, seconds: float, rng: np.random.Generator) -> list[float]:
    at = s.spike_every_s / 2 if math.isnan(s.spike_first_s) else s.spike_first_s
    starts = []
    while at < seconds:
        starts.append(at)
        at += s.spike_every_s if s.spike_regular else s.spike_s + rng.exponential(s.spike_every_s)
    return starts
