# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Captures of the real library, and what was sent while they were made."""

import functools
from pathlib import Path
import random
import tempfile

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.takes.record.bag_io import BagWriter
from optitrack_vrpn.takes.record.raw_read_io import load_raw
from optitrack_vrpn.takes.record.raw_recorder_io import RawSink
import pcap
import sessions

_MADE = tempfile.TemporaryDirectory(prefix='raw_kit_')


def tap(path, remover=None):
    """Give a writer of a raw recording, and a sink that taps into it."""
    writer = BagWriter(Path(path))
    return writer, RawSink(lambda items: [writer.write(item, 1) for item in items], remover)


@functools.cache
def capture(name):
    """Make a raw recording of a capture in test/data."""
    path = Path(_MADE.name) / f'{name}.mcap'
    writer, sink = tap(path)
    convert(pcap.DATA / f'{name}.pcap', sink.tap)
    writer.close()
    return path


def load_sessions(path):
    return load_raw(path).sessions


def load_damaged(path, content, seed):
    """Damage a recording at random, and load it; None if it is refused."""
    chance = random.Random(seed)
    raw = bytearray(content)
    for _ in range(chance.randint(1, 3)):
        at, size = chance.randrange(60, len(raw)), chance.choice([1, 4, 40, 2000])
        raw[at:at + size] = chance.choice([bytes(size), chance.randbytes(size), b'', bytes(3)])
    if chance.random() < 0.3:
        del raw[chance.randrange(60, len(raw)):]
    path.write_bytes(bytes(raw))
    try:
        return load_raw(path)
    except ConfigurationError:
        return None


def poses(events):
    return [(body.name, body.sender_time_ns, body.position, body.quat_xyzw)
            for item in events if isinstance(item, Frame) for body in item.bodies]


def sent(name):
    return [(row.body, row.sender_time_ns, row.vector, row.quat_xyzw)
            for row in sessions.sent(name, 'pose')]


def plain(samples):
    return [(s.channel.names.motive, s.stamp_ns, s.position, s.quat_xyzw) for s in samples]


def convert(source, tap):
    """
    Give the conversations of a capture to a sink of raw recordings, see ``raw_recorder_io``.

    VRPN: each TCP connection with the datagrams that belong to it. NatNet: the datagrams of the
    usual ports. There is no clock of arrivals: it is that of the capture.
    """
    for session in sessions.sessions_of(source):
        begin = session.server_actions[0].time_ns if session.server_actions else 0
        tap('vrpn/begin', b'', begin, 0, session.server, session.client[0])
        for action in session.server_actions:
            tap(f'vrpn/{action.kind}', action.data, action.time_ns, 0, session.server,
                session.client[0])
    begun = False
    for packet in sorted(pcap.packets(source), key=lambda packet: packet.time_ns):
        if packet.proto != pcap.UDP or not {1510, 1511} & {packet.sport, packet.dport}:
            continue
        sent = packet.dport == 1510
        ends = (packet.dst, packet.src) if sent else (packet.src, packet.dst)
        if not begun:
            begun = True
            tap('natnet/begin', b'', packet.time_ns, 0, *ends)
        tap('natnet/sent' if sent else 'natnet/udp', packet.payload, packet.time_ns, 0, *ends)
