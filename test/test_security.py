# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Claims of docs/security.md without another test."""

import os
from pathlib import Path
import re

from optitrack_vrpn.core.severity import ERROR
from optitrack_vrpn.drivers.frames import ServerText
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.telling.facts import facts_of_pipeline
from optitrack_vrpn.telling.rules import of_log
from pipeline_kit import pose_report
import pytest
from server_kit import FakeServer
from transport_kit import client, COOKIE, link, message, name, pose, POSE_TYPE_ID, stream
EVIL = '\x1b[2Jowned\r\n[INFO] all fine\u202e\x00\u0085'


def own_sockets():
    """Give (protocol, local address, local port) of this process's IPv4 sockets."""
    inodes = set()
    for entry in os.listdir('/proc/self/fd'):
        try:
            target = os.readlink(f'/proc/self/fd/{entry}')
        except OSError:
            continue
        inodes.update(re.findall(r'socket:\[(\d+)\]', target))
    found = set()
    for kind in ('tcp', 'udp'):
        for line in Path(f'/proc/self/net/{kind}').read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                address, _, port = fields[1].partition(':')
                found.add((kind, '.'.join(str(b) for b in reversed(bytes.fromhex(address))),
                           int(port, 16)))
    return found


@pytest.mark.skipif(not Path('/proc/self/net/udp').exists(), reason='asks Linux')
@pytest.mark.parametrize(('interface', 'address'), [
    ('', '127.0.0.1'), ('127.0.0.3', '127.0.0.3')])
def test_no_socket_of_the_client_is_open_to_every_network(interface, address):
    before = own_sockets()
    seen = set()
    with FakeServer(stream, connect_back=False) as server:
        servers = {('tcp', '127.0.0.1', server.port), ('udp', '127.0.0.1', server.port)}
        # While it asks, while it listens for the connect-back, and by TCP.
        with client(server.port, interface=interface, link=link(attempt_s=0.25)) as (_, sink):
            sink.wait(lambda: seen.update(own_sockets()) or LinkState.STREAMING in sink.states)
            seen |= own_sockets()
    with FakeServer(stream) as server:
        servers |= {('tcp', '127.0.0.1', server.port), ('udp', '127.0.0.1', server.port)}
        with client(server.port, interface=interface, link=link(connection='udp')) as (_, sink):
            sink.wait(lambda: seen.update(own_sockets()) or LinkState.STREAMING in sink.states)
            seen |= own_sockets()
    clients = {one for one in seen - before - servers if one[1] == address}
    assert {kind for kind, _, _ in clients} == {'tcp', 'udp'}
    # A socket has no address before it is bound, and then no port either.
    wide = {one for one in seen - before if one[1] == '0.0.0.0' and one[2]}
    assert not wide


def test_what_the_log_is_told_of_a_hostile_server_is_one_printable_line():
    """Notices of the pipeline and changes of the connection are all that the node logs of it."""
    pipeline = Pipeline(PipelineConfig())
    pipeline.process([
        pose_report(EVIL, 10**9, (1.0, 2.0, 3.0)),
        pose_report(EVIL + '\n', 10**9, (1.0, 2.0, 3.0)),
        ServerText(EVIL, ERROR, EVIL * 100)], 10**15, 10**18)
    texts = [notice.text for notice in pipeline.take_events()]
    texts += [line.text for line in of_log(facts_of_pipeline(pipeline))]
    assert sum('owned' in text for text in texts) > 1

    def evil(server, sock):
        greeting = len(server.connections) % 2
        sock.sendall(EVIL.encode() if greeting else (
            COOKIE + name(1, b'\x1b[2J\n') + name(POSE_TYPE_ID, 'vrpn_Tracker Pos_Quat', -2)
            + message(1, 5, EVIL.encode()) + pose() + b'\xff' * 24))
    quick = link(connection='tcp', retry_min_s=0.01, retry_max_s=0.02)
    with FakeServer(evil) as server, client(server.port, link=quick) as (_, sink):
        sink.wait_state(LinkState.LOST, 4)
    texts += [change.text for change in sink.changes]
    assert any('not speak VRPN' in text for text in texts)
    for text in texts:
        assert text.isprintable() and len(text) < 700, text
