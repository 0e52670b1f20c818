# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Simulate NatNet sessions: exposures, transmissions and echoes with known truth.

Clocks and networks are those of ``clock_sim``. A frame is exposed, transmitted 5.4 ms later with
the scatter of a captured session, and arrives after a delay; four round trips a second cross the
same network both ways. The error is stamp less the exposure on the host's clock: no delay is left
out of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
import math
from typing import Any

from clock_scenarios import WIFI, WIRED
from clock_sim import clock_offset, delays_of, Scenario
import numpy as np
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig

LEAST_S = 0.3e-3
PROCESSING_S = 5.4e-3
PROCESSING_JITTER_S = 0.2e-3
EXPOSURE_JITTER_S = 6.4e-6
"""Each exposure's; the steps between two then have the 9 us of the capture."""
FIRST_ECHOES, FIRST_ECHO_S, ECHO_S = 16, 0.02, 0.25
LOAD_S = 30.0
START_S = 0.6
"""Frames are held back until the first echoes have come, at most so long."""


@dataclass(frozen=True)
class Session:
    """
    A scenario of ``clock_sim``.

    :ivar asymmetry_us: how much longer the way back takes at the least.
    :ivar load: whether load of 2 ms delays that way for the first 30 s.
    """

    name: str
    scenario: Scenario
    asymmetry_us: float = 0.0
    load: bool = False


def sessions(seconds: float) -> list[Session]:
    """List the sessions of the table."""
    loaded = replace(WIRED, spike_every_s=600.0, skew_ppm=-48.0, walk=1e-8, thermal_ppm=1.0)
    busy = replace(WIRED, spike_every_s=180.0, spike_s=60.0, spike_regular=True, skew_ppm=23.0)
    restart = (seconds / 2, 'sender_step', -600_000.0)
    return [
        Session('wired 240 Hz', WIRED),
        Session('wired 360 Hz', replace(
            WIRED, rate_hz=360.0, delay='exponential', delay_us=100.0, skew_ppm=49.0)),
        Session('wired, load spikes of 30 s', loaded),
        Session('busy: 60 s spikes every 3 min', busy),
        Session('wired, the way back 100 us longer', WIRED, 100.0),
        Session('wired, the Motive PC restarts', replace(WIRED, events=(restart,))),
        Session('WiFi 120 Hz', WIFI),
        Session('WiFi 100 Hz', replace(WIFI, rate_hz=100.0, skew_ppm=48.0, thermal_ppm=1.0)),
        Session('E: load of 30 s from the start', replace(
            WIRED, spike_every_s=10.0 * seconds, spike_first_s=0.0, spike_ms=(2.0, 2.0))),
        Session('E: load of 30 s on the way to the host', WIRED, load=True),
    ]


def run(session: Session, seconds: float, seed: int) -> dict[str, Any]:
    """
    Stamp one session.

    :returns: the row of the table.
    """
    rng = np.random.default_rng(seed)
    s = session.scenario
    frames = np.arange(START_S, seconds, 1 / s.rate_hz)
    exposed = frames + rng.normal(0.0, EXPOSURE_JITTER_S, len(frames))
    sent = exposed + PROCESSING_S + rng.normal(0.0, PROCESSING_JITTER_S, len(frames))
    echoes = np.concatenate([
        FIRST_ECHO_S * np.arange(FIRST_ECHOES),
        np.arange(FIRST_ECHOES * FIRST_ECHO_S, seconds - 1.0, ECHO_S)]) + 0.01
    there = echoes + LEAST_S + delays_of(s, echoes, np.random.default_rng(seed + 1))
    # Answers and frames share the way to this host.
    back = np.concatenate([sent, there])
    order = np.argsort(back)
    delays = np.empty_like(back)
    delays[order] = delays_of(s, back[order], rng)
    if session.load:
        delays[back < LOAD_S] += 2e-3 + rng.exponential(0.5e-3, int((back < LOAD_S).sum()))
    arrived = back + LEAST_S + delays
    arrived[:len(sent)] = np.maximum.accumulate(arrived[:len(sent)])
    arrived += session.asymmetry_us * 1e-6
    clock = replace(s, events=())
    times = np.concatenate([exposed, sent, arrived, echoes, there])
    grid = np.linspace(0.0, seconds + 5.0, int(seconds) * 4)
    offset = np.interp(times, grid, clock_offset(
        clock, grid, seconds + 6.0, np.random.default_rng(seed + 2)))
    host = times + offset
    n, m = len(frames), len(echoes)
    truth, host_arrived = host[:n], host[2 * n:3 * n + m]
    host_echoes = host[3 * n + m:3 * n + 2 * m]
    shift = np.zeros_like(times)
    for at, kind, size in s.events:
        if kind == 'sender_step':
            shift += (times >= at) * (size * 1e-3)
    server = times + shift + 3600.0
    keep = rng.random(n) >= s.loss if s.loss else np.ones(n, dtype=bool)
    events = [(host_arrived[i], i) for i in range(n) if keep[i]]
    events += [(host_arrived[n + i], n + i) for i in range(m)]
    events.sort()
    source = StampSource(StampConfig())
    base = 5_000_000_000_000

    def ns(value: float) -> int:
        return round(value * 1e9)

    error, covered, width = np.full(n, np.nan), [], []
    for arrival, i in events:
        arrival_ns = base + ns(arrival)
        if i >= n:
            source.echo(base + ns(host_echoes[i - n]), ns(server[3 * n + 2 * m + i - n]),
                        arrival_ns)
            continue
        exposure_ns = ns(server[i])
        stamp = source.stamp(exposure_ns, arrival_ns, 0, ns(server[n + i]) - exposure_ns)
        if stamp is None:
            continue
        error[i] = (stamp - base) / 1e3 - truth[i] * 1e6
        if i % 500 == 0:
            known = source.status().uncertainty_s * 1e6
            if known == known:
                covered.append(abs(error[i]) <= known)
                width.append(known)
    # Load on one way alone is an asymmetry, half of which is in the stamps while it lasts.
    size, late = np.abs(error), frames > (LOAD_S + 5.0 if session.load else 10.0)
    seen = size[late & ~np.isnan(size)]
    return {
        'name': f'NatNet, {session.name}', 'aim': math.inf, 'silent': 0.0,
        'p99': float(np.percentile(seen, 99)),
        'worst': float(seen.max()), 'covered': float(np.mean(covered)),
        'wide': float(np.median(width)) / max(
            # Half of the shortest round trip is part of it: its asymmetry cannot be seen.
            float(np.percentile(seen, 95)), LEAST_S * 1e6),
        'young': math.nan,
        'published': float(np.mean(~np.isnan(error))),
        'restarts': dict(source.status().restarts)}


def run_task(task: tuple[Session, float, int]) -> dict[str, Any]:
    """Run one session; for a pool of processes."""
    return run(*task)
