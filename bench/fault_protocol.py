# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What differs between VRPN and NatNet where the node is put through faults.

The protocol comes from the environment, so that each case, a process of its own, has one.
"""

import contextlib
import os

from natnet_kit import Sink
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.natnet.client_io import NatNetClient
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.vrpn.client_io import VrpnClient
from relay_kit import Relay, VrpnRelay
from transport_kit import client as vrpn_client

VARIABLE = 'FAULT_PROTOCOL'
PROTOCOL = os.environ.get(VARIABLE, 'vrpn')
NATNET = PROTOCOL == 'natnet'


#: Names of cases that say something else over NatNet.
_TITLES = {
    'server restarted: other ids, clock back at its start': 'server restarted',
    'node stopped for 5 s, poses by UDP': 'node stopped for 5 s',
    'black hole for 6 s (proxy), poses by UDP': 'black hole for 6 s (relay)',
    'datagrams held up for 3 s (proxy), then a burst, some overtaken':
        'datagrams held up for 3 s (relay), then a burst, some overtaken',
    'half-open TCP: the server forgot the node': 'the server forgot the node',
}


def title(name):
    """Return the name of a case."""
    return _TITLES.get(name, name) if NATNET else name


def parameters(port):
    """Return the node's parameters for a server on a port."""
    return {'protocol': 'natnet', 'natnet.port': port} if NATNET else {'port': port}


def with_protocol(mapping):
    """Complete a scenario: what the simulated Motive speaks."""
    return {**mapping, 'protocol': PROTOCOL, 'natnet': {'port': 0, **mapping.get('natnet', {})}}


def follower(port, sink, clock):
    """Make a client of a server on this machine."""
    if NATNET:
        return NatNetClient(
            ClientConfig(server='127.0.0.1'), NatNetConfig(port=port), sink, clock)
    return VrpnClient(ClientConfig(server='127.0.0.1', port=port), sink, clock)


class CountingSink(Sink):
    """Count bodies instead of keeping them."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def receive(self, events, arrival_ns, host_minus_arrival_ns):
        """Count the bodies of a frame."""
        self.count += sum(len(event.bodies) for event in events if isinstance(event, Frame))


@contextlib.contextmanager
def other_client(port):
    """Run another client of a server; return a function that counts its poses."""
    if not NATNET:
        with vrpn_client(port) as (_, sink):
            yield lambda: len(sink.poses)
        return
    sink = CountingSink()
    running = follower(port, sink, None)
    running.start()
    try:
        yield lambda: sink.count
    finally:
        running.stop()


def relay_to(server_port):
    """Make something that stands between clients and a server and can fail."""
    return Relay(server_port) if NATNET else VrpnRelay(server_port)
