# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
New stamps for the recorded sessions of the real VRPN library.

Server and client ran on one machine, so the clocks differ by a constant: the least (arrival -
sender time) of the whole session is the truth as far as it can be known, drift is none.
"""

import struct

import numpy as np
from optitrack_vrpn.clock import StampConfig, StampSource
from pcap import DATA, packets, UDP


def poses(name):
    """Return sender time and arrival (ns) of every pose that travelled by UDP, as it arrived."""
    pairs = []
    for packet in packets(DATA / name):
        if packet.proto != UDP or packet.dport == 3883:
            continue
        at = 0
        while at + 24 <= len(packet.payload):
            length, sec, usec = struct.unpack_from('>III', packet.payload, at)
            if length == 88:
                pairs.append((sec * 10**9 + usec * 1000, packet.time_ns))
            at += 24 + (length - 24 + 7) // 8 * 8
    return pairs


def stamped(pairs, mode):
    source = StampSource(StampConfig(mode=mode))
    return source, np.array([source.stamp(d, a) for d, a in pairs])


def test_tracking_finds_the_least_offset_of_the_recorded_session():
    pairs = poses('motive_like_5x240.pcap')
    sent, arrival = np.array(pairs).T
    truth = sent + (arrival - sent).min()
    source, stamps = stamped(pairs, 'tracking')
    late = sent > sent[0] + 3 * 10**9
    error = (stamps - truth) / 1e3
    assert np.abs(error[late]).max() < 50
    assert abs(source.status().skew_ppm) < 20
    arrivals = (arrival - truth) / 1e3
    frames = np.flatnonzero(np.diff(sent, prepend=0))
    jitter = np.std(np.diff(error[frames][-1500:]))
    assert jitter < 1.0 and 10 * jitter < np.std(np.diff(arrivals[frames][-1500:]))
