# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Captures of the real library, and what was sent while they were made."""

from optitrack_vrpn.drivers.frames import Body as PoseReport
import pcap
import sessions


def capture(name):
    return pcap.DATA / f'{name}.pcap'


def poses(events):
    return [(e.name, e.sender_time_ns, e.position, e.quat_xyzw) for e in events
            if isinstance(e, PoseReport)]


def sent(name):
    return [(row.body, row.sender_time_ns, row.vector, row.quat_xyzw)
            for row in sessions.sent(name, 'pose')]


def plain(samples):
    return [(s.channel.names.motive, s.stamp_ns, s.position, s.quat_xyzw) for s in samples]
