# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Send rigid bodies over NatNet 4.1 with the time of sending in each pose.

The counterpart of latency_sender.py: the frame is laid down once, and before it leaves its poses
and times are written into it. It is sent at its exposure.
"""

import socket
import struct
import sys
import time

from latency_mark import APART, mark
from latency_sender import body_names, main, Sender
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BODY, BODY_TRACKING_VALID, BodyDefinition, Definitions, MessageId, NatNetBody, NatNetFrame,
    ServerInfo, SUFFIX_4_1)

_VERSION = (4, 1)
#: Ticks of 100 ns, as on Windows.
_FREQUENCY = 10_000_000
_TICK_NS = 100
_ATTITUDE = (0.0, 0.6, 0.0, 0.8)
_POSITION = struct.Struct('<3f')
_NUMBER = struct.Struct('<i')
_TIMES = struct.Struct('<QQQ')


class NatNetSender(Sender):
    """A NatNet server for unicast clients whose only business is to send frames on time."""

    def __init__(self, count, rate):
        self._rate = rate
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(('127.0.0.1', 0))
        self.port = self._socket.getsockname()[1]
        self._clients = set()
        bodies = [NatNetBody(i + 1, 0.0, 0.0, 0.0, *_ATTITUDE, 0.0003, BODY_TRACKING_VALID)
                  for i in range(count)]
        self._definitions = encode_definitions(Definitions(tuple(
            BodyDefinition(name, i + 1) for i, name in enumerate(body_names(count)))), _VERSION)
        self._frame = bytearray(encode_frame(
            NatNetFrame(0, bodies, [], 0.0, 0, 0, 0.0, 1, 1, 1, 0, 0, 0), _VERSION))
        header = codec.decode_message(bytes(self._frame))
        assert header[0] == MessageId.FRAME
        self._number_at = len(self._frame) - len(header[1])
        first = self._frame.index(BODY.pack(*bodies[0]))
        #: Where each position is, behind the body's id, and how far along the row the body stands.
        self._places = [(first + i * BODY.size + 4, APART * i) for i in range(count)]
        #: Behind time code, subframe and timestamp.
        self._times_at = len(self._frame) - SUFFIX_4_1.size + 16

    def _take(self, fd, poll):
        datagram, address = self._socket.recvfrom(65536)
        kind, payload = codec.decode_message(datagram)
        answer = None
        if kind == MessageId.CONNECT:
            answer = codec.encode_server_info(ServerInfo(
                'Motive', (3, 1, 0, 0), _VERSION, _FREQUENCY, 1511, False, ''))
            if address not in self._clients:
                self._clients.add(address)
                print(time.monotonic_ns(), flush=True)
        elif kind == MessageId.ECHO_REQUEST:
            answer = codec.encode_echo_response(
                codec.decode_echo_request(payload), time.monotonic_ns() // _TICK_NS)
        elif kind == MessageId.REQUEST_MODEL_DEFINITIONS:
            answer = self._definitions
        elif kind == MessageId.REQUEST:
            answer = codec.encode_message(MessageId.UNRECOGNIZED_REQUEST)
        if answer is not None:
            self._socket.sendto(answer, address)

    def _send_frame(self, number):
        frame = self._frame
        _NUMBER.pack_into(frame, self._number_at, number)
        now_ns = time.monotonic_ns()
        x, y, z = mark(now_ns, number)
        for at, place in self._places:
            _POSITION.pack_into(frame, at, place + x, y, z)
        ticks = now_ns // _TICK_NS
        _TIMES.pack_into(frame, self._times_at, ticks, ticks, ticks)
        for address in self._clients:
            self._socket.sendto(frame, address)


if __name__ == '__main__':
    sys.exit(main(NatNetSender, __doc__))
