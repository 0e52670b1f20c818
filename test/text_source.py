# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A protocol from outside the package: lines of text by UDP, `TIME_NS NAME X Y Z QX QY QZ QW`.

A client sends a datagram to the server twice a second, and gets a datagram for each frame.
"""

import contextlib
from dataclasses import dataclass
import selectors
import socket

from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.client_io import ReconnectingClient
from optitrack_vrpn.drivers.driver import Connected, Send, ServerFacts
from optitrack_vrpn.drivers.frames import Body, Frame
from optitrack_vrpn.drivers.loop_io import Conversation, SocketChannel
from optitrack_vrpn.drivers.sockets_io import datagram_socket
from optitrack_vrpn.drivers.table import SourceKind, SOURCES


@checked
@dataclass(frozen=True)
class TextConfig:
    """Settings of the text protocol, for client and server."""

    port: int = setting(5555, low=0, high=65535, doc='UDP port of the server')


class TextDriver:
    """Ask twice a second; each datagram is one frame."""

    protocol = 'text'

    def __init__(self):
        self.actions = []
        self.next_due_ns = 0
        self.known = ServerFacts()
        self._frames = 0

    def begin(self, now_ns):
        self.due(now_ns)

    def due(self, now_ns):
        self.actions.append(Send(b'hello'))
        self.next_due_ns = now_ns + NS_PER_S // 2

    def feed(self, channel, data, arrival_ns):
        if not self._frames:
            self.actions.append(Connected('text arrives', 'text'))
        self._frames += 1
        bodies = []
        for time_ns, numbers, name in (
                line.split('\t') for line in bytes(data).decode().splitlines()):
            values = tuple(map(float, numbers.split()))
            bodies.append(Body(name, 0, int(time_ns), values[:3], values[3:]))
        return [Frame(bodies[0].sender_time_ns, bodies)]

    def give_up(self, reason):
        return reason

    def end(self, now_ns):
        pass

    def counters(self):
        return {'frames': self._frames}


class TextClient(ReconnectingClient):
    """Reach the server."""

    protocol = 'text'

    def __init__(self, config, settings, sink, options):
        super().__init__(config, settings.text.port, sink)

    @contextlib.contextmanager
    def _open(self):
        server = self._resolve()
        channel = SocketChannel('text/udp', datagram_socket(self._local))
        with Conversation(
                TextDriver(), [channel], server, self._local, self._link, self._clock,
                self._sink, self._report, self._unexpected_peer) as conversation:
            yield conversation


class TextServer:
    """The server in the simulated Motive."""

    def __init__(self, scenario, world, stream, selector, counters, changed, timers):
        self._host, self.port = scenario.server.host, scenario.text.port
        self._selector, self._changed = selector, changed
        self._socket = None
        self._clients = set()
        self.links = []

    @property
    def where(self):
        return f'text on {self._host}:{self.port}'

    @property
    def is_open(self):
        return self._socket is not None

    @property
    def established(self):
        return len(self._clients)

    listeners = established

    def open(self):
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((self._host, self.port))
        self.port = self._socket.getsockname()[1]
        self._selector.register(self._socket, selectors.EVENT_READ, self._greet)

    def close(self, reason):
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def check(self, now_ns):
        pass

    def _greet(self, mask):
        with self._changed:
            self._clients.add(self._socket.recvfrom(65536)[1])
            self._changed.notify_all()

    def deliver(self, frame, exposure_ns):
        lines = [
            f'{body.sender_time_ns}\t{" ".join(map(repr, body.position + body.quat_xyzw))}\t'
            f'{body.name}' for body in frame.reports if isinstance(body, Body)]
        for client in self._clients if lines else ():
            self._socket.sendto('\n'.join(lines).encode(), client)


SOURCES['text'] = SourceKind(
    'text_source:TextClient', 'text_source:TextConfig', title='text',
    server='text_source:TextServer', server_settings='text_source:TextConfig')
