# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Delays for the stamp benchmark, from recorded and published samples: no formula.

``WIRED`` are the delays of 2354 frames between the server of the real VRPN library and a socket,
from the capture in test/data, in blocks of a tenth of a second, so that they stay as correlated as
they were. ``WIFI`` has the quantiles of the measured ping delays that iproute2 publishes as
distribution ``experimental`` (tc-netem), in standard deviations, with outages.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
import sys

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
TEST = Path(__file__).resolve().parent.parent / 'test'
BLOCK = 24
QUANTILES = (0, 1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 97, 98, 99, 99.5, 100)
EXPERIMENTAL = (-1.291, -1.126, -1.017, -0.930, -0.786, -0.633, -0.460, -0.254, 0.004, 0.357,
                0.771, 1.253, 1.603, 1.853, 2.057, 2.403, 3.184, 4.000)
WIFI_DEVIATION_S, OUTAGE_EVERY_S, OUTAGE_S = 1.5e-3, 5.0, (0.01, 0.1)


@cache
def recorded() -> Floats:
    """Return the delays of the capture above the least one (s), frame by frame."""
    sys.path.insert(0, str(TEST))
    from pcap import DATA, packets, UDP
    import rawvrpn
    rows = [(message.time[0] * 10**9 + message.time[1] * 1000, packet.time_ns)
            for packet in packets(DATA / 'motive_like_5x240.pcap')
            if packet.proto == UDP and packet.dport != 3883
            for message in rawvrpn.parse(packet.payload)
            if len(message.payload) == rawvrpn.POSE.size]
    sent, arrival = np.array(rows).T
    first = np.flatnonzero(np.diff(sent, prepend=0) > 0)
    lag = (arrival - sent)[first]
    return np.asarray((lag - lag.min()) * 1e-9)


def wired(times: Floats, rng: np.random.Generator) -> Floats:
    """Return a delay for each frame (s)."""
    pool = recorded()
    starts = rng.integers(0, len(pool) - BLOCK, len(times) // BLOCK + 1)
    return np.concatenate([pool[start:start + BLOCK] for start in starts])[:len(times)]


def wifi(times: Floats, rng: np.random.Generator) -> Floats:
    """Return a delay for each frame (s); nothing gets through during an outage."""
    drawn = np.interp(rng.random(len(times)) * 100.0, QUANTILES, EXPERIMENTAL)
    delay = (drawn - EXPERIMENTAL[0]) * WIFI_DEVIATION_S
    at = float(times[0])
    while at < times[-1]:
        at += rng.exponential(OUTAGE_EVERY_S)
        end = at + rng.uniform(*OUTAGE_S)
        inside = slice(np.searchsorted(times, at), np.searchsorted(times, end))
        delay[inside] = np.maximum(delay[inside], end - times[inside])
    return delay
