# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A protocol from outside the package: lines of text, `TIME_NS NAME X Y Z QX QY QZ QW`, by UDP."""

from dataclasses import dataclass
import socket
import threading

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.settings import checked, setting
from optitrack_vrpn.sources import (
    Body, Frame, link_event, LinkState, LinkStatus, SourceKind, SOURCES)


@checked
@dataclass(frozen=True)
class TextConfig:
    """Settings of the text protocol."""

    port: int = setting(5555, low=1, high=65535, doc='UDP port on which this host listens')


class TextSource:
    """Receive datagrams, each of them one frame."""

    def __init__(self, config, settings, sink, options):
        self._sink = sink
        self._clock = HostClock()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((config.interface or '127.0.0.1', settings.text.port))
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
        self._sink.link_changed(link_event(LinkState.CONNECTED, 'listening for text', 'info'))
        while not self._stopping.is_set():
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                continue
            bodies = []
            for time_ns, name, *numbers in map(str.split, data.decode().splitlines()):
                values = tuple(map(float, numbers))
                bodies.append(Body(name, 0, int(time_ns), values[:3], values[3:]))
            self._frames += 1
            self._sink.receive(
                [Frame(bodies[0].sender_time_ns, bodies)], self._clock.now_ns(),
                self._clock.host_minus_arrival_ns())


SOURCES['text'] = SourceKind('text_source:TextSource', 'text_source:TextConfig')
