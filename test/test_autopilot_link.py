# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The link to the autopilot: a stuck, slow, busy or closed one."""

import math
import socket
import threading
import time

from optitrack_vrpn.guests.autopilot.link_io import Codec, VisionBatch, WAITING
from optitrack_vrpn.guests.autopilot.messages import make_message
from optitrack_vrpn.guests.autopilot.transport_io import open_transport, Transport
import pytest
from rosgraph import wait_until
from serial_autopilot import running_link

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

    with running_link('udpout:127.0.0.1:9', opener=lambda connection: Stuck()) as link:
        try:
            assert entered.wait(10), 'the heartbeat is stuck'
            for _ in range(100):
                link.send(VisionBatch(time.time_ns(), ()))
            assert link.report().values['dropped_superseded'] == 100 - WAITING
        finally:
            held.set()


def test_a_sample_leaves_before_what_has_arrived_is_read():
    order, links, known = [], [], threading.Event()

    class Busy(Transport):
        peer = 'busy'

        def __init__(self):
            self._pair = socket.socketpair()
            self._pair[1].send(b'.')

        def fileno(self):
            return self._pair[0].fileno()

        def expire(self):
            """Let a sample come while the bytes are known to wait."""
            assert known.wait(10)
            if links:
                links.pop().send(VisionBatch(time.time_ns(), (make_message(
                    'HEARTBEAT', type=6, autopilot=8, system_status=4, mavlink_version=3),)))

        def read(self):
            order.append('read')
            self._pair[0].recv(1)
            return b''

        def write(self, data, until_s=math.inf):
            if until_s < math.inf:
                order.append('sample')
            return True

        def close(self):
            for one in self._pair:
                one.close()

    with running_link('udpout:127.0.0.1:9', opener=lambda connection: Busy()) as link:
        links.append(link)
        known.set()
        wait_until(lambda: len(order) >= 2, what='both')
    assert order == ['sample', 'read']


def test_samples_that_waited_too_long_are_not_sent():
    with running_link('udpout:127.0.0.1:9') as link:
        wait_until(lambda: link.report().up)
        link.send(VisionBatch(time.time_ns() - 101_000_000, ()))
        wait_until(lambda: link.report().values['dropped_too_old'])
    assert not link.written_ns


def udp():
    """Open a UDP socket on a port of its own."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(('127.0.0.1', 0))
    return sock


def heartbeat(system, component=1, autopilot=12):
    return Codec(system, component).encode(make_message(
        'HEARTBEAT', type=2, autopilot=autopilot, system_status=3, mavlink_version=3))


def test_only_an_autopilot_becomes_the_peer_of_a_udp_port(unused_port):
    events, later_s = [], [0.0]

    def opener(connection):
        return open_transport(connection, lambda: time.monotonic() + later_s[0])

    with running_link(f'udpin:127.0.0.1:{unused_port}', events.append, opener) as link, \
            udp() as other, udp() as autopilot:
        wait_until(lambda: link.report().up)
        for data in (b'GET / HTTP/1.0\r\n\r\n', bytes(range(256)), heartbeat(255, 190, 8)):
            other.sendto(data, ('127.0.0.1', unused_port))
        wait_until(lambda: link.report().values['received'])
        assert link.report().peer == ''
        autopilot.sendto(heartbeat(1), ('127.0.0.1', unused_port))
        place = '{}:{}'.format(*autopilot.getsockname())
        wait_until(lambda: link.report().peer == place)
        other.sendto(heartbeat(255, 190, 8), ('127.0.0.1', unused_port))
        wait_until(lambda: link.report().values['received'] >= 3)
        assert link.report().peer == place
        # Another vehicle with the same system id does not get the poses of this one.
        for _ in range(3):
            autopilot.sendto(heartbeat(1), ('127.0.0.1', unused_port))
            other.sendto(heartbeat(1), ('127.0.0.1', unused_port))
        wait_until(lambda: link.report().values['received'] >= 9)
        assert link.report().peer == place
        assert link.report().values['other_autopilot'] == '{}:{}'.format(*other.getsockname())
        assert len([event for event in events if 'another autopilot' in event.text]) == 1
        # After two lost heartbeats a newcomer does not get its poses yet.
        later_s[0] = 2.5
        with udp() as early:
            early.sendto(heartbeat(1), ('127.0.0.1', unused_port))
            wait_until(lambda: link.report().values['received'] >= 10)
            assert link.report().peer == place
        # When this one falls silent, the other one still does not get its poses.
        later_s[0] = 3.0
        received = link.report().values['received']
        other.sendto(heartbeat(1), ('127.0.0.1', unused_port))
        wait_until(lambda: link.report().values['received'] > received)
        assert link.report().peer == place
        # The autopilot comes back from another port, as after a restart of its computer.
        interruptions = link.interruptions
        with udp() as again:
            again.sendto(heartbeat(1), ('127.0.0.1', unused_port))
            wait_until(lambda: link.report().peer == '{}:{}'.format(*again.getsockname()))
            # The next sample counts a reset: those to the old port may not have arrived.
            assert link.interruptions == interruptions + 1
