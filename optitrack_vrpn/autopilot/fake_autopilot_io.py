# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The fake autopilot behind a UDP port, in a separate thread.

Every vision message is recorded with its arrival on the host's clock.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from typing import NamedTuple, Optional

from optitrack_vrpn.autopilot.codec_io import Codec
from optitrack_vrpn.autopilot.fake_autopilot import FakeAutopilot, VISION
from optitrack_vrpn.autopilot.messages import Outgoing
from optitrack_vrpn.autopilot.vehicle import Incoming

#: Chosen: longest wait for data (s), which delays the fake's own messages by as much.
_TICK_S = 0.005
#: Linux option for the arrival of datagrams; Python 3.10 has no name for it.
SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct('@qq')


class Heard(NamedTuple):
    """A vision message and its arrival on the host's clock (ns)."""

    arrival_ns: int
    message: Incoming


class FakeServer:
    """
    Run a fake autopilot.

    :param fake: its rules; only the thread uses it while it runs.
    :param peer: address to send to before any datagram has arrived, as PX4 does.
    :ivar connection: address for a bridge.
    :ivar heard: every vision message so far.
    :ivar silent: set it to stop every transmission, as a dead transmitter does.
    """

    def __init__(self, fake: FakeAutopilot, peer: Optional[tuple[str, int]] = None) -> None:
        self.fake = fake
        self.heard: list[Heard] = []
        self.silent = False
        self._codec = Codec(fake.config.system, 1)
        self._peer = peer
        self._lock = threading.Lock()
        self._ended = False
        self.connection = self._open()
        self._thread = threading.Thread(target=self._run, name='fake autopilot', daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread and release all resources."""
        self._ended = True
        self._thread.join()
        self._release()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._ended:
            poll = select.poll()
            with self._lock:
                if self._descriptor() >= 0:
                    poll.register(self._descriptor(), select.POLLIN)
            poll.poll(_TICK_S * 1000.0)
            with self._lock:
                self._turn()

    def _turn(self) -> None:
        data, now_ns = self._read()
        answers: list[Outgoing] = []
        for message in self._codec.decode(data) if data else ():
            if message.name in VISION:
                self.heard.append(Heard(now_ns, message))
            answers += self.fake.receive(message, now_ns)
        for message_out in [*answers, *self.fake.tick(time.time_ns())]:
            if not self.silent:
                self._write(self._codec.encode(message_out))

    # -- the port: tests replace these --------------------------------------------------------

    def _open(self) -> str:
        """Open the port; return the address for a bridge."""
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(('127.0.0.1', 0))
        self._sock.setblocking(False)
        self._sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return 'udpout:127.0.0.1:{}'.format(self._sock.getsockname()[1])

    def _release(self) -> None:
        self._sock.close()

    def _descriptor(self) -> int:
        return self._sock.fileno()

    def _read(self) -> tuple[bytes, int]:
        """Read the waiting data and their arrival: for a datagram from the kernel."""
        now_ns = time.time_ns()
        try:
            data, ancillary, _, self._peer = self._sock.recvmsg(65536, 64)
        except OSError:    # no data, or the other end is closed
            return b'', now_ns
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack(value[:_TIMESPEC.size])
                now_ns = seconds * 1_000_000_000 + nanoseconds
        return data, now_ns

    def _write(self, data: bytes) -> None:
        try:
            if self._peer is not None:
                self._sock.sendto(data, self._peer)
        except OSError:    # full, or without a reader
            pass
