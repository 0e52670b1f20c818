# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
New stamps for the recorded sessions of the real VRPN library.

Server and client ran on one machine, so the clocks differ by a constant: the least (arrival -
sender time) of the whole session is the truth as far as it can be known, drift is none.
"""

import numpy as np
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig
from pcap import DATA, packets, UDP
import rawvrpn


def poses(name):
    """Return sender time and arrival (ns) of every pose that travelled by UDP, as it arrived."""
    return [(message.time[0] * 10**9 + message.time[1] * 1000, packet.time_ns)
            for packet in packets(DATA / name) if packet.proto == UDP and packet.dport != 3883
            for message in rawvrpn.parse(packet.payload)
            if len(message.payload) == rawvrpn.POSE.size]


def test_tracking_finds_the_least_offset_of_the_recorded_session():
    pairs = poses('motive_like_5x240.pcap')
    sent, arrival = np.array(pairs).T
    truth = sent + (arrival - sent).min()
    source = StampSource(StampConfig())
    stamps = np.array([source.stamp(*pair) for pair in pairs])
    late = sent > sent[0] + 3 * 10**9
    error = (stamps - truth) / 1e3
    assert np.abs(error[late]).max() < 50
    assert abs(source.status().skew_ppm) < 20
    arrivals = (arrival - truth) / 1e3
    frames = np.flatnonzero(np.diff(sent, prepend=0))
    jitter = np.std(np.diff(error[frames][-1500:]))
    assert jitter < 1.0 and 10 * jitter < np.std(np.diff(arrivals[frames][-1500:]))
