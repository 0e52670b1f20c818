# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The recorded sessions, with the data that their server was instructed to send."""

import csv
import gzip
from pathlib import Path
from typing import NamedTuple, Optional

from optitrack_vrpn.drivers.frames import Body, Motion
import pcap
import rawvrpn


class Action(NamedTuple):
    """
    One thing that the recorded server did.

    :ivar time_ns: when, since the Unix epoch.
    :ivar kind: 'tcp' or 'udp'.
    :ivar data: the bytes.
    """

    time_ns: int
    kind: str
    data: bytes


class Sent(NamedTuple):
    """One report that the recorded server was to send; ``kind`` is pose, vel or acc."""

    frame: int
    body: str
    kind: str
    sender_time_ns: int
    vector: tuple[float, float, float]
    quat_xyzw: tuple[float, float, float, float]
    dt: float
    connected: bool
    sent_wall: float


class Session(NamedTuple):
    """
    One TCP connection of a capture with the datagrams that belong to it.

    :ivar client: (address, TCP port) of the recorded client.
    :ivar server_actions: what its server sent, in order.
    :ivar client_stream: what its client sent by TCP.
    """

    client: tuple[str, int]
    server_actions: list[Action]
    client_stream: bytes
    server: str = ''


def sessions(name: str) -> list[Session]:
    """Cut a capture in ``test/data`` into its connections."""
    return sessions_of(pcap.DATA / f'{name}.pcap')


def sessions_of(path: str | Path) -> list[Session]:
    """
    Cut a capture into its connections.

    The server of a connection is the side whose stream describes UDP or trackers first; here the
    fixed port 3883 (``tcp://``) or the connecting side (connect-back) tells it. Datagrams
    belong to the latest connection whose client described the port they went to.
    """
    server_ends: dict[tuple[str, int, str, int], int] = {}
    found: list[dict] = []
    packets = sorted(pcap.packets(path), key=lambda packet: packet.time_ns)
    for packet in packets:
        if packet.proto == pcap.TCP and packet.flags & (pcap.SYN | pcap.ACK) == pcap.SYN:
            if packet.dport == 3883:
                server = (packet.dst, packet.dport, packet.src, packet.sport)
                client = (packet.src, packet.sport)
            else:
                server = (packet.src, packet.sport, packet.dst, packet.dport)
                client = (packet.dst, packet.dport)
            server_ends[server] = len(found)
            found.append({'client': client, 'actions': [], 'stream': b'', 'server': server[0]})
    chunks = [(c.time_ns, 'tcp', c) for c in pcap.tcp_chunks(path)]
    datagrams = [(p.time_ns, 'udp', p) for p in packets if p.proto == pcap.UDP]
    udp_ports: dict[int, int] = {}
    for time_ns, kind, item in sorted(chunks + datagrams, key=lambda entry: entry[0]):
        if kind == 'tcp':
            forward = (item.src, item.sport, item.dst, item.dport)
            if forward in server_ends:
                found[server_ends[forward]]['actions'].append(Action(time_ns, 'tcp', item.data))
            else:
                index = server_ends[(item.dst, item.dport, item.src, item.sport)]
                found[index]['stream'] += item.data
                port = described_udp_port(found[index]['stream'])
                if port is not None:
                    udp_ports[port] = index
        elif item.dport in udp_ports:
            index = udp_ports[item.dport]
            found[index]['actions'].append(Action(time_ns, 'udp', item.payload))
    return [Session(f['client'], f['actions'], f['stream'], f['server']) for f in found]


def described_udp_port(stream: bytes) -> Optional[int]:
    """Find the UDP port that a client's stream describes."""
    return next((message.sender for message in rawvrpn.parse(stream[24:])
                 if message.type_id == -3), None)


def sent(name: str, kind: Optional[str] = None) -> list[Sent]:
    """
    Read what a capture's server was instructed to send while its client was recorded.

    :param kind: only reports of this kind.
    """
    rows = []
    with gzip.open(pcap.DATA / f'{name}.sent.csv.gz', 'rt', newline='') as file:
        for row in csv.DictReader(file):
            rows.append(Sent(
                int(row['frame']), row['body'], row['kind'],
                int(row['stamp_sec']) * 10**9 + int(row['stamp_usec']) * 1000,
                (float(row['x']), float(row['y']), float(row['z'])),
                tuple(float(row[f'q{axis}']) for axis in 'xyzw'),
                float(row['dt']), row['connected'] == '1', float(row['sent_wall'])))
    # The server went on for a moment after the recording or its client had ended.
    end = max(action.time_ns for session in sessions(name) for action in session.server_actions)
    return [row for row in rows if row.connected and kind in (None, row.kind)
            and row.sent_wall * 1e9 <= end]


def as_row(event):
    """Give a report as the rows of a ``.sent.csv.gz`` have it; None for another event."""
    if isinstance(event, Body):
        return ('pose', *event[:5], 0.0)
    if isinstance(event, Motion):
        return ('vel' if event.is_velocity else 'acc', *event[:3], *event[4:])
    return None
