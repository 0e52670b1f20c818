# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A protocol from outside the package: lines of text by UDP, `TIME_NS NAME X Y Z QX QY QZ QW`.

A client sends a datagram to the server twice a second, and gets a datagram for each frame.
"""

from dataclasses import dataclass
import selectors
import socket
import threading
import time

from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.core.severity import INFO
from optitrack_vrpn.drivers.client_io import LinkStatus
from optitrack_vrpn.drivers.frames import Body, Frame
from optitrack_vrpn.drivers.link import link_event, LinkState
from optitrack_vrpn.drivers.table import SourceKind, SOURCES
from optitrack_vrpn.stream.clock.hostclock_io import HostClock


@checked
@dataclass(frozen=True)
class TextConfig:
    """Settings of the text protocol, for client and server."""

    port: int = setting(5555, low=0, high=65535, doc='UDP port of the server')


class TextSource:
    """Receive datagrams, each of them one frame."""

    def __init__(self, config, settings, sink, options):
        self._server = config.server, settings.text.port
        self._sink = sink
        self._clock = HostClock()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.settimeout(0.05)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._frames = 0

    def start(self):
        self._thread.start()

    def stop(self):
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()

    def status(self):
        state = LinkState.STREAMING if self._frames else LinkState.CONNECTED
        return LinkStatus(state, 'text', transport='text', counters={'frames': self._frames})

    def _run(self):
        self._sink.link_changed(link_event(LinkState.CONNECTED, 'asking for text', INFO))
        asked = 0.0
        while not self._stopping.is_set():
            if time.monotonic() - asked > 0.5:
                asked = time.monotonic()
                self._socket.sendto(b'hello', self._server)
            try:
                data = self._socket.recv(65536)
            except (TimeoutError, ConnectionError):
                continue
            bodies = []
            for time_ns, numbers, name in (
                    line.split('\t') for line in data.decode().splitlines()):
                values = tuple(map(float, numbers.split()))
                bodies.append(Body(name, 0, int(time_ns), values[:3], values[3:]))
            self._frames += 1
            if self._frames == 1:
                self._sink.link_changed(link_event(LinkState.STREAMING, 'text arrives', INFO))
            self._sink.receive(
                [Frame(bodies[0].sender_time_ns, bodies)], self._clock.now_ns(),
                self._clock.host_minus_arrival_ns())


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
    'text_source:TextSource', 'text_source:TextConfig', title='text',
    server='text_source:TextServer', server_settings='text_source:TextConfig')
