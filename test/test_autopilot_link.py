# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The link to the autopilot: a stuck, slow, busy or closed one."""

import math
import socket
import threading
import time

from optitrack_vrpn.autopilot import link_io, transport_io
from optitrack_vrpn.autopilot.codec_io import Codec
from optitrack_vrpn.autopilot.connection import parse
from optitrack_vrpn.autopilot.link_io import Batch, LinkThread, WAITING
from optitrack_vrpn.autopilot.messages import Outgoing
from optitrack_vrpn.autopilot.settings import BridgeSettings, plan
from optitrack_vrpn.autopilot.transport_io import open_transport, Transport
from optitrack_vrpn.autopilot.vehicle import Vehicle
from optitrack_vrpn.errors import TransportError
import pytest
from rosgraph import wait_until

pytest.importorskip('pymavlink')

pytestmark = [pytest.mark.network]


def test_a_link_that_is_stuck_never_holds_up_who_sends():
    held, entered = threading.Event(), threading.Event()

    class Stuck(Transport):
        peer = 'stuck'

        def __init__(self):
            self._pair = socket.socketpair()

        def fileno(self):
            return self._pair[0].fileno()

        def read(self):
            return b''

        def write(self, data, until_s=math.inf):
            entered.set()
            held.wait(60)
            return True

        def close(self):
            for one in self._pair:
                one.close()

    settings = BridgeSettings(body='cf1')
    original = link_io.open_transport
    link_io.open_transport = lambda connection: Stuck()
    try:
        link = LinkThread(settings, parse(settings.connection), Vehicle(settings, plan(settings)),
                          lambda event: None)
        link.start()
        assert entered.wait(10), 'the heartbeat is stuck'
        for _ in range(100):
            link.send(Batch(time.time_ns(), ()))
        assert link.report().values['dropped_superseded'] == 100 - WAITING
        held.set()
        link.stop()
    finally:
        held.set()
        link_io.open_transport = original


def test_samples_that_waited_too_long_are_not_sent():
    settings = BridgeSettings(body='cf1', connection='udpout:127.0.0.1:9')
    link = LinkThread(settings, parse(settings.connection), Vehicle(settings, plan(settings)),
                      lambda event: None)
    link.send(Batch(time.time_ns() - 101_000_000, ()))
    link.start()
    wait_until(lambda: any(
        link.report().values[f'dropped_{reason}'] for reason in ('too_old', 'no_link')))
    link.send(Batch(time.time_ns() - 101_000_000, ()))
    wait_until(lambda: link.report().values['dropped_too_old'])
    link.stop()
    assert not link.written_ns


def heartbeat(system, component=1, autopilot=12):
    return Codec(system, component).encode(Outgoing('HEARTBEAT', {
        'type': 2, 'autopilot': autopilot, 'base_mode': 0, 'custom_mode': 0, 'system_status': 3}))


def test_only_an_autopilot_makes_itself_the_peer_of_a_udp_port(monkeypatch):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(('127.0.0.1', 0))
        port = sock.getsockname()[1]
    settings = BridgeSettings(body='cf1', connection=f'udpin:127.0.0.1:{port}')
    events = []
    link = LinkThread(settings, parse(settings.connection), Vehicle(settings, plan(settings)),
                      events.append)
    link.start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other, socket.socket(
            socket.AF_INET, socket.SOCK_DGRAM) as autopilot:
        for sock in (other, autopilot):
            sock.bind(('127.0.0.1', 0))
        wait_until(lambda: link.report().up)
        for data in (b'GET / HTTP/1.0\r\n\r\n', bytes(range(256)), heartbeat(255, 190, 8)):
            other.sendto(data, ('127.0.0.1', port))
        wait_until(lambda: link.report().values['received'])
        assert link.report().peer == ''
        autopilot.sendto(heartbeat(1), ('127.0.0.1', port))
        place = '{}:{}'.format(*autopilot.getsockname())
        wait_until(lambda: link.report().peer == place)
        other.sendto(heartbeat(255, 190, 8), ('127.0.0.1', port))
        wait_until(lambda: link.report().values['received'] >= 3)
        assert link.report().peer == place
        # Another vehicle with the same system id does not get the poses of this one.
        for _ in range(3):
            autopilot.sendto(heartbeat(1), ('127.0.0.1', port))
            other.sendto(heartbeat(1), ('127.0.0.1', port))
        wait_until(lambda: link.report().values['received'] >= 9)
        assert link.report().peer == place
        assert link.report().values['other_autopilot'] == '{}:{}'.format(*other.getsockname())
        assert len([event for event in events if 'another autopilot' in event.text]) == 1
        # The autopilot comes back from another port, as after a restart of its computer.
        monkeypatch.setattr(transport_io, 'PEER_S', 0.0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(('127.0.0.1', 0))
            again.sendto(heartbeat(1), ('127.0.0.1', port))
            wait_until(lambda: link.report().peer == '{}:{}'.format(*again.getsockname()))
    link.stop()


def test_a_tcp_link_connects_again_when_the_other_end_closes():
    with socket.create_server(('127.0.0.1', 0)) as server:
        settings = BridgeSettings(
            body='cf1', connection='tcp:127.0.0.1:{}'.format(server.getsockname()[1]))
        events = []
        link = LinkThread(settings, parse(settings.connection), Vehicle(settings, plan(settings)),
                          events.append)
        link.start()
        first, _ = server.accept()
        assert first.recv(1) == b'\xfd', 'a heartbeat of MAVLink 2'
        first.close()
        second, _ = server.accept()
        assert second.recv(1) == b'\xfd'
        link.stop()
        second.close()
        assert any(event.severity == 'error' and event.text.endswith('trying again')
                   for event in events), events


def test_a_port_in_use_is_an_error_and_no_crash():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(('127.0.0.1', 0))
        with pytest.raises(TransportError, match='in use'):
            open_transport(parse('udpin:127.0.0.1:{}'.format(sock.getsockname()[1])))
    with pytest.raises(TransportError, match='ttyNONE'):
        open_transport(parse('serial:/dev/ttyNONE:57600'))
