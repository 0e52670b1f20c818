# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Send rigid bodies over VRPN with the time of sending in each pose, with little processor time.

The simulated Motive computes motion and encodes each frame, which takes processor time from the
measured bridge on a small machine. Here datagrams are prepared once; before each transmission its
poses get positions that contain the time (latency_mark.py).
"""

import argparse
import select
import socket
import sys
import time

from latency_mark import APART, mark
from optitrack_vrpn.drivers.sockets_io import datagram_socket
from optitrack_vrpn.drivers.vrpn import codec
from optitrack_vrpn.drivers.vrpn.codec import (
    LocalNames, MAX_DATAGRAM_SIZE, PING_TYPE, PingReport, PONG_TYPE, POSE_MESSAGE, POSE_TYPE,
    UdpDescribed)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection

NS = 1_000_000_000
_IN_A_DATAGRAM = MAX_DATAGRAM_SIZE // POSE_MESSAGE.size


def body_names(count):
    """Name the bodies, as topics and frames will be called too."""
    return [f'body{number:03}' for number in range(1, count + 1)]


class Peer:
    """One client: its conversation by TCP and where it takes datagrams."""

    def __init__(self, sock, names):
        self.sock = sock
        self.connection = VrpnConnection(names)
        self.target = None
        self.flush()

    def read(self):
        """Answer what came by TCP; False if the client has gone."""
        try:
            data = self.sock.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        for event in self.connection.receive_stream(data):
            if isinstance(event, UdpDescribed):
                self.target = (self.sock.getpeername()[0], event.port)
                print(time.monotonic_ns(), flush=True)
            elif isinstance(event, PingReport):
                self.connection.send(event.sender, PONG_TYPE, b'', time.time_ns())
        self.connection.describe(time.time_ns())
        self.flush()
        return True

    def flush(self):
        """Send what waits."""
        self.sock.sendall(self.connection.data_to_send())


class Sender:
    """A VRPN server whose only business is to send frames on time."""

    def __init__(self, count, rate):
        self._rate = rate
        self._names = LocalNames()
        self._senders = [self._names.sender_id(name) for name in body_names(count)]
        self._type = self._names.type_id(POSE_TYPE)
        for name in (PING_TYPE, PONG_TYPE):
            self._names.type_id(name)
        self._socket = datagram_socket('127.0.0.1')
        self.port = self._socket.getsockname()[1]
        self._peers = {}
        self._sequence = 0
        self._datagrams = []
        for first in range(0, count, _IN_A_DATAGRAM):
            senders = [(sender, APART * (first + i)) for i, sender in enumerate(
                self._senders[first:first + _IN_A_DATAGRAM])]
            self._datagrams.append((senders, bytearray(POSE_MESSAGE.size * len(senders))))

    def run(self):
        """Send until the process is ended."""
        number = 0
        start = time.monotonic_ns()
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while True:
            due = start + number * NS // self._rate
            left = due - time.monotonic_ns()
            if left > 2_000_000:
                ready = poll.poll(left // 1_000_000 - 1)
            else:
                ready = poll.poll(0) if number % 16 == 0 else ()
                left = due - time.monotonic_ns()
                if left > 0:
                    time.sleep(left * 1e-9)
            for fd, _ in ready:
                self._take(fd, poll)
            if time.monotonic_ns() >= due:
                self._send_frame(number)
                number += 1

    def _take(self, fd, poll):
        if fd == self._socket.fileno():
            data, _ = self._socket.recvfrom(2048)
            sock = socket.create_connection(codec.decode_request(data), timeout=5.0)
            sock.setblocking(False)
            self._peers[sock.fileno()] = Peer(sock, self._names)
            poll.register(sock, select.POLLIN)
        elif fd in self._peers and not self._peers[fd].read():
            poll.unregister(fd)
            self._peers.pop(fd).sock.close()

    def _send_frame(self, number):
        seconds, nanoseconds = divmod(time.time_ns(), NS)
        for senders, datagram in self._datagrams:
            position = 0
            sequence = self._sequence
            x, y, z = mark(time.monotonic_ns(), number)
            for sender, place in senders:
                POSE_MESSAGE.pack_into(
                    datagram, position, POSE_MESSAGE.size, seconds, nanoseconds // 1000, sender,
                    self._type, sequence, 0, place + x, y, z, 0.0, 0.6, 0.0, 0.8)
                position += POSE_MESSAGE.size
                sequence += 1
            self._sequence = sequence & 0x7fff_ffff
            for peer in self._peers.values():
                if peer.target is not None:
                    self._socket.sendto(datagram, peer.target)


def main(kind, text):
    """
    Print the port, then send.

    :param kind: the class of the sender.
    :param text: the docstring of the program.
    """
    parser = argparse.ArgumentParser(description=text.strip().splitlines()[0])
    parser.add_argument('--bodies', type=int, default=1)
    parser.add_argument('--rate', type=int, default=240)
    arguments = parser.parse_args()
    sender = kind(arguments.bodies, arguments.rate)
    print(sender.port, flush=True)
    try:
        sender.run()
    except KeyboardInterrupt:
        return 0


if __name__ == '__main__':
    sys.exit(main(Sender, __doc__))
