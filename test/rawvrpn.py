# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A VRPN client on plain sockets, for tests of servers.

It shares no code with the package: what it says is recorded from the real library, and what it
hears is taken apart with ``struct`` alone.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Callable, NamedTuple

COOKIE = b'vrpn: ver. 07.38  0\0\0\0\0\0'
POSE = struct.Struct('>i4x7d')


class Message(NamedTuple):
    """One message; ``time`` is (seconds, microseconds)."""

    time: tuple[int, int]
    sender: int
    type_id: int
    sequence: int
    payload: bytes


def parse(data: bytes) -> list[Message]:
    """Take whole messages apart; what is left at the end must not be."""
    messages, at = [], 0
    while len(data) - at >= 24:
        size, seconds, micros, sender, type_id, sequence = struct.unpack_from('>IIIiiI', data, at)
        whole = (size + 7) // 8 * 8
        if at + whole > len(data):
            break
        messages.append(Message(
            (seconds, micros), sender, type_id, sequence, data[at + 24:at + size]))
        at += whole
    return messages


def described(messages: list[Message], type_id: int) -> dict[int, str]:
    """List the senders (-1) or types (-2) that some messages describe."""
    return {m.sender: m.payload[4:].rstrip(b'\0').decode() for m in messages
            if m.type_id == type_id}


def poses(messages: list[Message], names: dict[int, str], pose_type: int = 4):
    """List (name, stamp in us, position, quaternion) of the poses among some messages."""
    found = []
    for m in messages:
        if m.type_id == pose_type:
            _, *numbers = POSE.unpack(m.payload)
            found.append((names[m.sender], m.time[0] * 10**6 + m.time[1],
                          tuple(numbers[:3]), tuple(numbers[3:])))
    return found


class RawClient:
    """
    One client.

    :param port: of the server on this machine.
    :param way: 'tcp' (connects out) or 'udp' (asks and is connected back to).
    :param host: address of the server.
    :param local: address of the client.
    """

    def __init__(self, port: int, way: str = 'tcp', timeout: float = 10.0,
                 host: str = '127.0.0.1', local: str = '127.0.0.1') -> None:
        self.timeout = timeout
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((local, 0))
        self.udp.setblocking(False)
        self.stream = b''
        self.datagrams: list[bytes] = []
        self.closed = False
        if way == 'tcp':
            self.tcp = socket.create_connection((host, port), timeout)
        else:
            with socket.create_server(('127.0.0.1', 0)) as listener:
                listener.settimeout(1.0)
                request = b'127.0.0.1 %d\0' % listener.getsockname()[1]
                self.tcp = self._ask(listener, request, port, timeout)
        self.tcp.settimeout(timeout)

    def _ask(
        self, listener: socket.socket, request: bytes, port: int, timeout: float,
    ) -> socket.socket:
        """Ask again and again, as the library does every 2 s."""
        end = time.monotonic() + timeout
        while True:
            self.udp.sendto(request, ('127.0.0.1', port))
            try:
                return listener.accept()[0]
            except TimeoutError:
                if time.monotonic() > end:
                    raise

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.tcp.close()
        self.udp.close()

    @property
    def udp_port(self) -> int:
        return self.udp.getsockname()[1]

    @property
    def messages(self) -> list[Message]:
        """Return what arrived by TCP after the cookie."""
        return parse(self.stream[24:])

    @property
    def udp_messages(self) -> list[Message]:
        return [message for datagram in self.datagrams for message in parse(datagram)]

    @property
    def senders(self) -> dict[int, str]:
        return described(self.messages, -1)

    def send(self, data: bytes) -> None:
        self.tcp.sendall(data)

    def hello(self, udp: bool = False) -> RawClient:
        """Shake hands, and ask for poses by UDP if so told; wait for the names."""
        # In one piece, so that no frame can go out in between.
        self.send(COOKIE + (struct.pack(
            '>IIIiiI10s6x', 34, 0, 0, self.udp_port, -3, 0, b'127.0.0.1\0') if udp else b''))
        assert self.read_until(lambda: 'vrpn_Base pong_message' in described(
            self.messages, -2).values())
        return self

    def pump(self) -> None:
        """Read what is there without waiting."""
        self.tcp.setblocking(False)
        try:
            while not self.closed:
                data = self.tcp.recv(65536)
                self.stream += data
                self.closed = not data
        except BlockingIOError:
            pass
        except ConnectionError:
            self.closed = True
        finally:
            self.tcp.settimeout(self.timeout)
        try:
            while True:
                self.datagrams.append(self.udp.recv(65536))
        except BlockingIOError:
            pass

    def read_until(self, condition: Callable[[], object], timeout: float = 10.0) -> bool:
        """Read until a condition holds; False if it does not in time."""
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                return False
            self.pump()
            time.sleep(0.001)
        return True
