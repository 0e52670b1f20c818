# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The cases of the fault table over NatNet.

Most are those of VRPN. Not among them: what needs TCP (backlogs of a stream, a client that stops
reading); what VRPN's handshake has and NatNet has not.
"""

import contextlib
import socket
import time

import fault_cases
from fault_cases import session_begin
from fault_kit import BODIES, row, running, scenario, Session
import fault_models
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.messages import ServerInfo
from relay_kit import Background

_OLD = (2, 5)


def models_changed():
    """Return the streaming ids of two bodies to each other; new definitions arrive late."""
    session, server, steady = running()
    with session:
        begin = time.time_ns()
        server.ask('models body1 body0 body2')
        end = time.time_ns()
        return [row(
            session, 'two bodies exchange streaming ids; two requests for definitions lost',
            steady, begin, end)]


def take_played():
    """Play a take for a while."""
    session, server, steady = running()
    with session:
        begin = time.time_ns()
        server.ask('edit 1')
        time.sleep(3.0)
        server.ask('edit 0')
        end = time.time_ns()
        return [row(session, 'Motive plays a take for 3 s', steady, begin, end)]


def held_up_2_9():
    """Hold datagrams of Motive 1.9 up: its frames have no times of transmission."""
    return fault_cases.held_up('NatNet 2.9: datagrams held up for 3 s (relay), then a burst',
                               natnet={'version': '2.9'})


class OldServer(Background):
    """Answer every request to connect with a version that is too old."""

    def __init__(self):
        super().__init__()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(('127.0.0.1', 0))
        self._socket.settimeout(0.1)
        self.port = self._socket.getsockname()[1]
        self._answer = codec.encode_server_info(ServerInfo(
            'NatNetLib', (2, 5, 0, 0), _OLD, 0, 0, None, ''))

    def turn(self):
        """Answer one request."""
        with contextlib.suppress(TimeoutError):
            _, address = self._socket.recvfrom(65536)
            self._socket.sendto(self._answer, address)

    def close(self):
        """Close the socket."""
        self._socket.close()


def version_refused():
    """Meet a server of Motive 1.5 first."""
    with Session(BODIES) as session:
        with OldServer() as old:
            node = session.start_node(old.port)
            begin = session_begin(node, session)
            time.sleep(6.0)
        server = session.server(scenario(BODIES), port=old.port)
        return [row(session, 'NatNet 2.5 answers, then the right server', begin, begin,
                    server.begin_ns)]


_SHARED = (
    'bodies', 'absent', 'late', 'killed', 'restarted', 'paused', 'node_stopped',
    'black_hole_udp', 'held_up', 'black_hole_namespace', 'loss', 'reordering', 'duplicates',
    'jitter', 'half_open', 'address_changed', 'clock_stepped', 'sender_stepped', 'five_clients')
CASES = {**{name: fault_cases.CASES[name] for name in _SHARED},
         'held_up_2_9': held_up_2_9,
         'version_refused': version_refused,
         'models_changed': models_changed, 'take_played': take_played, **fault_models.CASES}
PRIVILEGED = fault_cases.PRIVILEGED
QUICK = ('bodies', 'killed', 'models_changed')
