# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One VRPN conversation without sockets: received bytes to events, messages to bytes.

The protocol is symmetric after the connection, so that one class serves clients and servers. The
caller moves the bytes: it passes TCP data to ``receive_stream``, each datagram to
``receive_datagram``, and sends ``data_to_send`` by TCP. Times are arguments.
"""

from dataclasses import dataclass
from typing import Any, Callable, Final, Optional

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.drivers.frames import Frame, Item
from optitrack_vrpn.drivers.losses import LossCounter, LossCounters
from optitrack_vrpn.drivers.vrpn import codec
from optitrack_vrpn.drivers.vrpn.codec import (
    ACCELERATION_TYPE, Buffer, COOKIE_SIZE, Event, HEADER, HEADER_SIZE, LocalNames,
    MAX_MESSAGE_SIZE, MAX_SENDER_SECONDS, Motion, MOTION_PAYLOAD, PeerHello, PING_TYPE, PingReport,
    PONG_TYPE, PongReport, POSE_MESSAGE, POSE_PAYLOAD, POSE_TYPE, PoseReport, RemoteNames,
    SENDER_DESCRIPTION, SenderDescribed, TEXT_TYPE, TextReport, TYPE_DESCRIPTION, UDP_DESCRIPTION,
    UdpDescribed, VELOCITY_TYPE)
from optitrack_vrpn.drivers.vrpn.frames import to_frames

_POSE_SIZE: Final = POSE_MESSAGE.size
_UNPACK_POSES: Final = POSE_MESSAGE.iter_unpack
_MOTION_SIZE = HEADER_SIZE + MOTION_PAYLOAD.size
_SEQUENCE_MODULUS: Final = 1 << 32
_new: Final = tuple.__new__
# Final names are read without a look-up in the compiled module.
_POSE: Final = PoseReport
_FRAME: Final = Frame
_CONTROL: Final[str] = codec.CONTROL_SENDER
_MOST_SECONDS: Final[int] = MAX_SENDER_SECONDS


@dataclass
class VrpnCounters(LossCounters):
    """
    Counters of one conversation since its beginning.

    :ivar messages: complete messages of any kind, by TCP and UDP.
    :ivar poses: poses that became events.
    :ivar malformed: messages or datagrams whose contents contradict their type.
    :ivar unknown_sender: messages of a sender that the peer has not described.
    :ivar unknown_type: messages of a type that the peer has not described.
    :ivar other_type: messages of a described type that is not a tracker report.
    :ivar bad_time: reports with an invalid time stamp.
    :ivar datagrams: all datagrams, valid or not.
    """

    messages: int = 0
    poses: int = 0
    malformed: int = 0
    unknown_sender: int = 0
    unknown_type: int = 0
    other_type: int = 0
    bad_time: int = 0
    datagrams: int = 0


class VrpnConnection:
    """
    One side of a conversation with one peer.

    :param names: this side's own names; a server shares them between its connections.
    :param udp_address: host (text) and port at which this side receives datagrams; None for TCP
        only (``tcp://``).
    :ivar time_ns: time stamp of the first messages (ns).
    :ivar events_before_fault: events that preceded a protocol error of the peer in the same piece
        of the stream.
    """

    def __init__(
        self, names: Optional[LocalNames] = None,
        udp_address: Optional[tuple[str, int]] = None, time_ns: int = 0,
    ) -> None:
        self.local = names if names is not None else LocalNames()
        self.remote = RemoteNames()
        self.counters = VrpnCounters()
        self._udp_address = udp_address
        self._out = bytearray(codec.encode_cookie())
        self._in = bytearray()
        self._hello: Optional[PeerHello] = None
        self._failure: Optional[RemoteProtocolError] = None
        self.events_before_fault: list[Event] = []
        self._tcp_sequence = 0
        self._udp_sequence = 0
        self._described_senders = 0
        self._described_types = 0
        self._next_sequence: Optional[int] = None
        self._losses = LossCounter(self.counters)
        self._pose_type = -1 << 31
        self.time_ns = time_ns

    @property
    def established(self) -> bool:
        """Return whether the peer's cookie arrived and was accepted."""
        return self._hello is not None

    # -- bytes in ------------------------------------------------------------------------------

    def receive_stream(self, data: Buffer) -> list[Event]:
        """
        Process bytes received by TCP, split at any position.

        :returns: the events that became complete, in order.
        :raises RemoteProtocolError: if the stream is not valid VRPN. The conversation has then
            ended, and every further call raises the error again. ``events_before_fault`` has the
            events before the fault.
        """
        if self._failure is not None:
            raise self._failure
        self._in += data
        events: list[Event] = []
        try:
            self._read_stream(events)
        except RemoteProtocolError as error:
            self._failure = error
            self.events_before_fault = events
            self._in.clear()
            raise
        return events

    def _read_stream(self, events: list[Event]) -> None:
        buffer = self._in
        position = 0
        if self._hello is None:
            self._hello = codec.decode_cookie(buffer)
            if self._hello is None:
                return
            events.append(self._hello)
            self._describe_all()
            position = COOKIE_SIZE
        end = len(buffer)
        while end - position >= HEADER_SIZE:
            size = int.from_bytes(buffer[position:position + 4], 'big')
            if not HEADER_SIZE <= size <= MAX_MESSAGE_SIZE:
                raise RemoteProtocolError(
                    f'the peer announced a message of {size} bytes; VRPN messages have '
                    f'{HEADER_SIZE} to {MAX_MESSAGE_SIZE}')
            whole = codec.padded(size)
            if end - position < whole:
                break
            if size == _POSE_SIZE:
                # Read all consecutive poses in one call.
                with memoryview(buffer) as view:
                    done = self._read_poses(view[position:], events)[0]
                if done:
                    position += done
                    continue
            self._read_message(buffer, position, size, events)
            position += whole
        del buffer[:position]

    def receive_datagram(self, data: Buffer) -> list[Item]:
        """
        Process one datagram.

        It contains reports only, since names are accepted by TCP alone: the reports come as
        frames, and poses of one time, as servers send them, need no further pass.

        The origin of a datagram is not verified, so a malformed datagram does not end the
        conversation: the messages before the fault are used, the others are dropped and counted.
        Before the peer's cookie has arrived, every datagram is dropped.

        :returns: its frames, and what else it contains, in order.
        """
        counters = self.counters
        counters.datagrams += 1
        events: list[Event] = []
        if self._hello is None or self._failure is not None:
            counters.unknown_sender += 1
            return []
        position, first, last, frame_ns = self._read_poses(data, events)
        end = len(data)
        if position < end:
            frame_ns = None
        while position < end:
            if end - position < HEADER_SIZE:
                counters.malformed += 1
                break
            size = int.from_bytes(data[position:position + 4], 'big')
            whole = codec.padded(size)
            if size < HEADER_SIZE or whole > end - position:
                counters.malformed += 1
                break
            number = int.from_bytes(data[position + 20:position + 24], 'big')
            if first < 0:
                first = number
            last = number
            if int.from_bytes(data[position + 16:position + 20], 'big', signed=True) < 0:
                counters.malformed += 1  # names and ports are accepted by TCP only
            else:
                self._read_message(data, position, size, events)
            position += whole
        following = (last + 1) % _SEQUENCE_MODULUS
        if first == self._next_sequence and following > first:
            self._next_sequence = following
        elif first >= 0:
            self._follow_numbers(first, last)
        if frame_ns is None:
            return to_frames(events)
        # Equivalent to Frame(...), without its Python-level __new__ (hot path).
        return [_new(_FRAME, (frame_ns, events, 0, 0, None, None, 0))]

    def _read_poses(
        self, data: Buffer, events: list[Event],
    ) -> tuple[int, int, int, Optional[int]]:
        """
        Decode the poses at the beginning of a datagram or of the rest of a stream.

        :returns: offset of their end; the sequence numbers of the first and the last pose, -1
            without a pose; their time (ns) if all of them belong to one frame.
        """
        counters = self.counters
        pose_type = self._pose_type
        senders = self.remote.senders
        odd = len(data) % _POSE_SIZE
        first = number = -1
        count = invalid = 0
        # Declared for mypyc, which then uses machine integers; the other numbers are passed on.
        size: int
        seconds: int
        microseconds: int
        sender_id: int
        type_id: int
        sequence: int
        # The poses of a frame share its time: their seconds and microseconds differ rarely.
        time_seconds = time_microseconds = -1
        sender_time_ns: Any = None
        frames = 0
        for (size, seconds, microseconds, sender_id, type_id, sequence, sensor,
             x, y, z, qx, qy, qz, qw) in _UNPACK_POSES(data[:-odd] if odd else data):
            if type_id != pose_type or size != _POSE_SIZE:
                break
            if not count:
                first = sequence
            number = sequence
            count += 1
            sender = senders.get(sender_id)
            if sender is None:
                counters.unknown_sender += 1
                invalid += 1
            elif microseconds > 999_999 or seconds > _MOST_SECONDS:
                counters.bad_time += 1
                invalid += 1
            else:
                if microseconds != time_microseconds or seconds != time_seconds:
                    time_seconds, time_microseconds = seconds, microseconds
                    sender_time_ns = seconds * 1_000_000_000 + microseconds * 1000
                    frames += 1
                if sender == _CONTROL:
                    frames += 1    # to_frames() leaves the library's own sender out
                # Equivalent to PoseReport(...), without its Python-level __new__ (hot path).
                events.append(_new(_POSE, (
                    sender, sensor, sender_time_ns, (x, y, z), (qx, qy, qz, qw), True, 0.0)))
        counters.messages += count
        counters.poses += count - invalid
        return count * _POSE_SIZE, first, number, sender_time_ns if frames == 1 else None

    def _follow_numbers(self, first: int, last: int) -> None:
        """Compare the sequence numbers of a datagram with the expected one."""
        expected = self._next_sequence
        following = (last + 1) % _SEQUENCE_MODULUS
        if expected is None:
            self._next_sequence = following
            return
        ahead = (first - expected) % _SEQUENCE_MODULUS
        if ahead >= _SEQUENCE_MODULUS // 2:
            self._losses.take_late(first, (following - first) % _SEQUENCE_MODULUS)
        elif ahead:
            self._losses.skip(expected, ahead, 1)
        if (following - expected) % _SEQUENCE_MODULUS < _SEQUENCE_MODULUS // 2:
            self._next_sequence = following

    def _read_message(
        self, buffer: Buffer, position: int, size: int, events: list[Event],
    ) -> None:
        """Append the event of one complete message, if it has one."""
        counters = self.counters
        counters.messages += 1
        _, seconds, microseconds, sender_id, type_id, _ = HEADER.unpack_from(buffer, position)
        payload = bytes(buffer[position + HEADER_SIZE:position + size])
        try:
            if type_id < 0:
                self._read_system_message(sender_id, type_id, payload, events)
                return
            type_name = self.remote.types.get(type_id)
            if type_name is None:
                counters.unknown_type += 1
                return
            decode = _REPORTS.get(type_name)
            if decode is None:
                counters.other_type += 1
                return
            sender = self.remote.senders.get(sender_id)
            if sender is None:
                counters.unknown_sender += 1
                return
            time_ns = codec.sender_time_ns(seconds, microseconds)
            if time_ns is None:
                counters.bad_time += 1
                return
            event = decode(sender, time_ns, payload)
            if event.__class__ is PoseReport:
                counters.poses += 1
            events.append(event)
        except RemoteProtocolError:
            # The length fields are valid, so that reading continues after this message.
            counters.malformed += 1

    def _read_system_message(
        self, sender_id: int, type_id: int, payload: bytes, events: list[Event],
    ) -> None:
        if type_id == SENDER_DESCRIPTION:
            name = codec.decode_name(payload)
            if self.remote.describe(self.remote.senders, sender_id, name):
                events.append(SenderDescribed(name, sender_id))
        elif type_id == TYPE_DESCRIPTION:
            name = codec.decode_name(payload)
            if self.remote.describe(self.remote.types, sender_id, name):
                if name == POSE_TYPE:
                    self._pose_type = sender_id
                elif sender_id == self._pose_type:
                    self._pose_type = -1 << 31
        elif type_id == UDP_DESCRIPTION:
            events.append(UdpDescribed(*codec.decode_udp_description(sender_id, payload)))
        # A LOG_DESCRIPTION requests a file to be written; this package ignores it (security).

    # -- bytes out -----------------------------------------------------------------------------

    def data_to_send(self) -> bytes:
        """
        Return and clear the data queued for TCP.

        :returns: all data since the last call; complete messages only.
        """
        data = bytes(self._out)
        self._out.clear()
        return data

    def send(self, sender: str, type_name: str, payload: bytes, time_ns: int) -> None:
        """
        Queue one message for TCP, after the descriptions of its sender and type if they are new.

        Before the peer's cookie has arrived, the protocol permits only this side's cookie; the
        message is then dropped.

        :raises LocalProtocolError: if a name or the time does not fit the wire.
        """
        sender_id = self.local.sender_id(sender)
        type_id = self.local.type_id(type_name)
        if self._hello is None:
            return
        self._describe_names(time_ns)
        self._queue(sender_id, type_id, payload, time_ns)

    def ping(self, sender: str, time_ns: int) -> None:
        """
        Queue a ping of a tracker; a server that has this tracker answers with a pong.

        :raises LocalProtocolError: if the name does not fit the wire.
        """
        self.send(sender, PING_TYPE, b'', time_ns)

    def datagram_message(
        self, sender: str, type_name: str, payload: bytes, time_ns: int,
    ) -> bytes:
        """
        Encode one message for a datagram; its sender and type must have been described by TCP.

        :raises LocalProtocolError: if they have not been described.
        """
        sender_id = self.local.sender_id(sender)
        type_id = self.local.type_id(type_name)
        if sender_id >= self._described_senders or type_id >= self._described_types:
            raise LocalProtocolError(f'{sender!r} and {type_name!r} must be described first')
        message = codec.encode_message(
            sender_id, type_id, payload, time_ns, self._udp_sequence)
        self._udp_sequence += 1
        return message

    def describe(self, time_ns: int) -> None:
        """Queue the descriptions of all names that the peer has not received yet."""
        if self._hello is not None:
            self._describe_names(time_ns)

    def _describe_all(self) -> None:
        if self._udp_address is not None:
            host, port = self._udp_address
            payload = host.encode('ascii', 'replace') + b'\0'
            self._queue(port, UDP_DESCRIPTION, payload, self.time_ns)
        self._describe_names(self.time_ns)

    def _describe_names(self, time_ns: int) -> None:
        senders, types = self.local.senders, self.local.types
        if len(senders) > self._described_senders:
            for name, number in list(senders.items())[self._described_senders:]:
                self._queue(number, SENDER_DESCRIPTION, codec.encode_name(name), time_ns)
            self._described_senders = len(senders)
        if len(types) > self._described_types:
            for name, number in list(types.items())[self._described_types:]:
                self._queue(number, TYPE_DESCRIPTION, codec.encode_name(name), time_ns)
            self._described_types = len(types)

    def _queue(self, sender_id: int, type_id: int, payload: bytes, time_ns: int) -> None:
        self._out += codec.encode_message(
            sender_id, type_id, payload, time_ns, self._tcp_sequence)
        self._tcp_sequence += 1


def _decode_pose(sender: str, time_ns: int, payload: bytes) -> PoseReport:
    if len(payload) != _POSE_SIZE - HEADER_SIZE:
        raise RemoteProtocolError(f'a pose of {len(payload)} bytes')
    sensor, x, y, z, qx, qy, qz, qw = POSE_PAYLOAD.unpack(payload)
    return PoseReport(sender, sensor, time_ns, (x, y, z), (qx, qy, qz, qw))


def _motion(is_velocity: bool) -> Callable[[str, int, bytes], Event]:
    def decode(sender: str, time_ns: int, payload: bytes) -> Motion:
        if len(payload) != _MOTION_SIZE - HEADER_SIZE:
            raise RemoteProtocolError(f'a velocity or acceleration of {len(payload)} bytes')
        sensor, x, y, z, qx, qy, qz, qw, dt = MOTION_PAYLOAD.unpack(payload)
        return Motion(
            sender, sensor, time_ns, is_velocity, (x, y, z), (qx, qy, qz, qw), dt)
    return decode


#: Decoders of payloads by their type, called with the sender, its time (ns) and the payload.
_REPORTS: dict[str, Callable[[str, int, bytes], Event]] = {
    POSE_TYPE: _decode_pose,
    VELOCITY_TYPE: _motion(True),
    ACCELERATION_TYPE: _motion(False),
    TEXT_TYPE: lambda sender, time_ns, payload: TextReport(
        sender, time_ns, *codec.decode_text(payload)),
    PING_TYPE: lambda sender, time_ns, payload: PingReport(sender, time_ns),
    PONG_TYPE: lambda sender, time_ns, payload: PongReport(sender, time_ns),
}
