# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The client's side of a NatNet conversation, without sockets.

``receive`` converts datagrams to events; ``due`` returns the datagrams to be sent by now. Time is
an argument everywhere: nanoseconds of a monotonic clock.

A server never closes a conversation, so every request is repeated until it is answered.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Optional

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.losses import LossCounters
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions
from optitrack_vrpn.drivers.natnet.frames import decode_frame, NOTHING
from optitrack_vrpn.drivers.natnet.messages import (
    Buffer, Definitions, Disconnected, Echo, Event, FRAME_BITSTREAM_CHANGED, Held, MessageId,
    Model, NatNetFrame, NEWEST, OLDEST, RECORDING_COMMANDS, Response, ServerInfo, type_mask,
    Unanswered, Unrecognized, Untimed, Version)
from optitrack_vrpn.drivers.natnet.model_list import ModelList
from optitrack_vrpn.drivers.natnet.numbering import Numbering
from optitrack_vrpn.drivers.natnet.reports import name_table

#: Chosen: period of connect requests (ns) until the server answers.
_CONNECT_NS = 250 * NS_PER_MS
#: A unicast server drops a client that sends no keep-alive for some seconds; one per second is
#: sufficient (observed).
_KEEP_ALIVE_NS = NS_PER_S
KEEP_ALIVE = codec.encode_message(MessageId.KEEP_ALIVE)
#: Chosen: number and period (ns) of the first echo requests, which measure the clocks before the
#: first poses are published; then four per second, like OptiTrack's own client.
FIRST_ECHOES = 16
_FIRST_ECHO_NS = 20 * NS_PER_MS
_ECHO_NS = 250 * NS_PER_MS
#: Chosen: limit of unanswered echo requests; the oldest then counts as lost.
_MOST_ECHOES = 16
#: Chosen: period (ns) and number of attempts of a command, and limit of waiting commands. A server
#: answers within milliseconds.
_REQUEST_NS = 500 * NS_PER_MS
_REQUEST_TRIES = 3
#: Chosen: time (ns) after which an answer to a command no longer arrives. Answers that were 1.2 s
#: late have been seen.
_LATE_ANSWER_NS = 3 * NS_PER_S
_MOST_REQUESTS = 32
#: After this time (ns) without a readable frame the client connects again: the server may have
#: restarted, and lost this client and its models or changed the version. Other answers are no
#: evidence: a server answers echo requests of unknown clients too.
_SILENT_NS = NS_PER_S
#: Chosen: longest time (ns) for which a frame waits for the confirmation of its names.
_HOLD_NS = 100 * NS_PER_MS
# A plain number, which mypyc compares without a look-up.
_FRAME: Final = int(MessageId.FRAME)
#: The command that returns the version of the bitstream, from NatNet 4.0 on.
_BITSTREAM = 'Bitstream'


@dataclass
class NatNetCounters(LossCounters):
    """
    Counters of one conversation.

    :ivar datagrams: datagrams, valid or not.
    :ivar messages: decoded frames.
    :ivar poses: rigid bodies in these frames.
    :ivar malformed: datagrams that contradict their type or the version of the bitstream.
    :ivar early: frames that arrived before the server stated its version.
    :ivar other_type: messages of types that are not used.
    :ivar unexpected: answers without a request.
    :ivar echoes: measured round trips.
    """

    datagrams: int = 0
    messages: int = 0
    poses: int = 0
    malformed: int = 0
    early: int = 0
    other_type: int = 0
    unexpected: int = 0
    echoes: int = 0


class NatNetConnection:
    """
    One conversation with one server.

    :param now_ns: present time (ns).
    :param name: name of this application.
    :param bitstream: requested version; None for the newest.
    :param keep_alive: whether the server sends unicast to this client and needs keep-alives.
    :param wanted: what is decoded beside rigid bodies, see ``frames.decode_frame``.
    :param miscounting: a server whose counter is not used, because its frequency is wrong.
    :ivar info: what the server states about itself, after its answer.
    :ivar version: version of the bitstream; (0, 0) while unknown.
    :ivar definitions: the latest model definitions; None before the first.
    :ivar models: the confirmed names of streaming ids.
    :ivar failing: number of consecutive frames that could not be decoded.
    :ivar last_error: reason why the last datagram was rejected.
    """

    def __init__(
        self, now_ns: int, name: str = 'optitrack_vrpn', bitstream: Optional[Version] = None,
        keep_alive: bool = True, wanted: frozenset[str] = NOTHING,
        miscounting: Optional[ServerInfo] = None,
    ) -> None:
        self.counters = NatNetCounters()
        self.info: Optional[ServerInfo] = None
        self.version: Version = (0, 0)
        self.definitions: Optional[Definitions] = None
        self.models = ModelList(now_ns)
        #: What the latest definitions were decoded from, and their names.
        self._described: Optional[tuple[bytes, Version, frozenset[str]]] = None
        self._names: Mapping[int, Model] = {}
        self.failing = 0
        self.last_error = ''
        self._name = name
        self._bitstream = bitstream
        self.keep_alive = keep_alive
        self.wanted = wanted
        self._miscounting = miscounting
        self._connect_ns = now_ns
        self._frame_ns = now_ns
        self._keep_alive_ns = now_ns
        self._echo_ns = now_ns
        self._echoes: dict[int, None] = {}
        self._echoes_sent = 0
        #: Round trips before the first frame, which shows whether frames have times.
        self._early: Optional[deque[Event]] = deque(maxlen=2 * FIRST_ECHOES)
        self._timed = True
        self._requests: deque[str] = deque()
        self._asked_ns: Optional[int] = None
        self._tries = 0
        #: No command is sent before this time, unless this number of answers has arrived: a
        #: command that was repeated or not answered can have late answers, which do not state it.
        self._quiet_ns = 0
        self._late_answers = 0
        self._overdue: list[Event] = []
        self._numbering = Numbering(self.counters)
        self._params = 0
        #: Frames without any confirmed name, for which definitions are under way, and their
        #: arrivals (ns), in the order of their numbers.
        self._held: list[tuple[NatNetFrame, int]] = []

    @property
    def established(self) -> bool:
        """Return whether the server has answered."""
        return self.info is not None

    @property
    def request_waiting(self) -> bool:
        """Return whether a frame may have made a request due earlier."""
        return self.models.next_due_ns is not None or (
            self._asked_ns is None and bool(self._requests))

    # -- bytes out -----------------------------------------------------------------------------

    def due(self, now_ns: int) -> list[bytes]:
        """
        Return the datagrams to be sent to the server's command port by now.

        Echo requests are not included, see ``echo_due``.
        """
        out: list[bytes] = []
        if self.info is None:
            if now_ns >= self._connect_ns:
                self._connect_ns = now_ns + _CONNECT_NS
                out.append(codec.encode_hello(self._name, NEWEST, bitstream=self._bitstream))
            return out
        if now_ns >= max(self._frame_ns, self._connect_ns) + _SILENT_NS:
            self._connect_ns = now_ns
            out.append(codec.encode_hello(self._name, NEWEST, bitstream=self._bitstream))
            self.models.ask(now_ns)
            self._ask_bitstream()
        if self.keep_alive and now_ns >= self._keep_alive_ns:
            self._keep_alive_ns = now_ns + _KEEP_ALIVE_NS
            out.append(KEEP_ALIVE)
        self.models.refresh(now_ns)
        models_ns = self.models.next_due_ns
        if models_ns is not None and now_ns >= models_ns:
            out.append(codec.encode_definitions_request(self.models.request_mask(now_ns)))
        if self._asked_ns is not None and now_ns >= self._asked_ns + _REQUEST_NS:
            if self._tries >= _REQUEST_TRIES:
                self._overdue.append(Unanswered(self._end_request(now_ns)))
            else:
                self._ask(out, now_ns)
        if self._asked_ns is None and self._requests and now_ns >= self._quiet_ns:
            self._ask(out, now_ns)
        self._release(now_ns, self._overdue)
        return out

    def _ask(self, out: list[bytes], now_ns: int) -> None:
        out.append(codec.encode_request(self._requests[0]))
        self._asked_ns = now_ns
        self._tries += 1
        self._late_answers = self._tries

    def _end_request(self, now_ns: int) -> str:
        """Remove and return the command that waits for an answer."""
        if self._late_answers:
            self._quiet_ns = (self._asked_ns or now_ns) + _LATE_ANSWER_NS
        self._asked_ns = None
        self._tries = 0
        return self._requests.popleft()

    def overdue(self) -> list[Event]:
        """Return what waited too long since the last call: commands, frames without a name."""
        found, self._overdue = self._overdue, []
        return found

    def echo_due(self, now_ns: int) -> bool:
        """Return whether an echo request is due."""
        info = self.info
        return info is not None and info.frequency > 0 and now_ns >= self._echo_ns

    def echo_request(self, sent_ns: int) -> bytes:
        """
        Create an echo request.

        :param sent_ns: arrival clock, read immediately before the request is sent (ns).
        """
        self._echoes_sent += 1
        self._echo_ns = sent_ns + (
            _FIRST_ECHO_NS if self._echoes_sent < FIRST_ECHOES else _ECHO_NS)
        self._echoes[sent_ns] = None
        while len(self._echoes) > _MOST_ECHOES:
            del self._echoes[next(iter(self._echoes))]
        return codec.encode_echo_request(sent_ns)

    def next_due_ns(self) -> int:
        """Return the next time (ns) at which ``due`` or ``echo_due`` has a request."""
        if self.info is None:
            return self._connect_ns
        moments = [max(self._frame_ns, self._connect_ns) + _SILENT_NS, self.models.refresh_ns]
        if self.keep_alive:
            moments.append(self._keep_alive_ns)
        if self.info.frequency:
            moments.append(self._echo_ns)
        models_ns = self.models.next_due_ns
        if models_ns is not None:
            moments.append(models_ns)
        if self._asked_ns is not None:
            moments.append(self._asked_ns + _REQUEST_NS)
        elif self._requests:
            moments.append(self._quiet_ns)
        if self._held:
            moments.append(min(arrival_ns for _, arrival_ns in self._held) + _HOLD_NS)
        return min(moments)

    def request(self, command: str, first: bool = False) -> None:
        """
        Queue a command.

        :param first: whether it comes before the waiting ones.

        ``receive`` returns its ``Response`` or ``Unrecognized``, or ``overdue`` an ``Unanswered``.

        :raises LocalProtocolError: if the text is not a valid command, or too many commands wait.
        """
        codec.encode_request(command)
        if len(self._requests) >= _MOST_REQUESTS:
            raise LocalProtocolError(
                f'{command!r} was not sent: {_MOST_REQUESTS} commands wait for an answer')
        if first:
            self._requests.insert(0 if self._asked_ns is None else 1, command)
        else:
            self._requests.append(command)

    def _ask_bitstream(self) -> None:
        if self.info is not None and self.info.version >= (4, 0) and (
                _BITSTREAM not in self._requests):
            self._requests.append(_BITSTREAM)

    def farewell(self) -> list[bytes]:
        """
        Return the datagrams that end the conversation.

        Commands for recordings that still wait are sent once more, without waiting for an answer.
        """
        out = [codec.encode_request(command) for command in self._requests
               if command.startswith(RECORDING_COMMANDS)]
        self._overdue += map(Unanswered, self._requests)
        self._requests.clear()
        if self.info is not None and self.keep_alive:
            out += [codec.encode_request('Disconnect'), codec.encode_message(MessageId.DISCONNECT)]
        return out

    # -- bytes in ------------------------------------------------------------------------------

    def receive(self, datagram: Buffer, arrival_ns: int) -> list[Event]:
        """
        Process one datagram of the server.

        The origin of a datagram is not verified, so a malformed one does not end the conversation:
        it is counted and dropped.

        :param arrival_ns: arrival (ns) on the clock of ``echo_request``.
        :returns: its events.
        """
        counters = self.counters
        counters.datagrams += 1
        events: list[Event] = []
        message_id = -1
        try:
            message_id, payload = codec.decode_message(datagram)
            if message_id == _FRAME:
                self._take_frame(payload, arrival_ns, events)
            else:
                self._take(message_id, payload, arrival_ns, events)
        except RemoteProtocolError as error:
            counters.malformed += 1
            self.last_error = str(error)
            if message_id == _FRAME:
                self.failing += 1
        return events

    def _take(
        self, message_id: int, payload: bytes, arrival_ns: int, events: list[Event],
    ) -> None:
        """Process a message that is not a frame."""
        if message_id == MessageId.ECHO_RESPONSE:
            token, ticks = codec.decode_echo_response(payload)
            if token not in self._echoes:
                self.counters.unexpected += 1
                return
            del self._echoes[token]
            if token <= arrival_ns:
                self.models.delayed(arrival_ns - token, arrival_ns)
                self.counters.echoes += 1
                (events if self._early is None else self._early).append(
                    Echo(token, ticks, arrival_ns))
        elif message_id == MessageId.MODEL_DEFINITIONS:
            self._take_definitions(payload, arrival_ns, events)
        elif message_id == MessageId.SERVER_INFO:
            self._take_info(codec.decode_server_info(payload), arrival_ns, events)
        elif message_id in (MessageId.RESPONSE, MessageId.UNRECOGNIZED_REQUEST):
            self._take_response(message_id, payload, arrival_ns, events)
        elif message_id in (MessageId.DISCONNECT, MessageId.DISCONNECT_BY_TIMEOUT):
            events.append(Disconnected('Motive ended the connection'))
        else:
            self.counters.other_type += 1

    def _take_info(self, info: ServerInfo, now_ns: int, events: list[Event]) -> None:
        if info == self._miscounting:
            info = info._replace(frequency=0)    # as before NatNet 3.0
        if info == self.info:
            return
        if self.info is not None:
            events.append(Disconnected('Motive has started again with other settings'))
            return
        if info.version < OLDEST:
            raise RemoteProtocolError(
                f'the server speaks NatNet {info.version[0]}.{info.version[1]}; at least '
                f'{OLDEST[0]}.{OLDEST[1]} (Motive 1.7) is needed')
        self.info = info
        self.version = info.version
        self._echo_ns = self._keep_alive_ns = now_ns
        self.models = ModelList(now_ns, type_mask(self.wanted, self.version))
        self.models.ask(now_ns)
        self._ask_bitstream()
        events.append(info)

    def _take_frame(self, payload: bytes, now_ns: int, events: list[Event]) -> None:
        if self.info is None:
            self.counters.early += 1
            return
        frame = decode_frame(payload, self.version, self.wanted)
        self._frame_ns = now_ns
        self.failing = 0
        self.counters.messages += 1
        self.counters.poses += len(frame.bodies)
        missing = self._numbering.follow(frame.number, now_ns)
        latest = self.models.follow(frame, now_ns, missing)
        if latest:
            if frame.params & ~self._params & FRAME_BITSTREAM_CHANGED:
                self._ask_bitstream()
            self._params = frame.params
        if self._early is not None:
            self._take_first(frame, self.info, events)
        elif frame.transmit and not self._timed:
            events.append(Disconnected('the frames have times now'))
        if self._held:
            self._release(now_ns, events)
        if self._held or self.models.all_uncertain:
            insort(self._held, (frame, now_ns), key=lambda held: held[0].number)
        elif latest:
            events.append(frame)
        else:
            events.append(Held(frame, now_ns, self.models.names_at(frame.number)))

    def _release(
        self, now_ns: int, events: list[Event], stable: Mapping[int, Model] = {},
        until_ns: int = 0,
    ) -> None:
        """
        Return the held frames whose names are known now, and those that have waited too long.

        :param stable: models of the frames that arrived before a time.
        :param until_ns: that time.
        """
        if not self._held:
            return
        models, kept = self.models, []
        waiting = models.all_uncertain
        for frame, arrival_ns in self._held:
            if arrival_ns < until_ns:
                names = models.names_at(frame.number, stable)
            elif not waiting:
                names = models.names_at(frame.number)
            elif now_ns - arrival_ns < _HOLD_NS:
                kept.append((frame, arrival_ns))
                continue
            else:
                names = {}
            events.append(Held(frame, arrival_ns, names))
        self._held = kept

    def _take_first(self, frame: NatNetFrame, info: ServerInfo, events: list[Event]) -> None:
        """Decide whether the frames have times of the counter that the echoes measure."""
        early, self._early = self._early, None
        if frame.transmit or not info.frequency:
            events += early or ()
            return
        # Other senders than Motive fill the ticks with zeros.
        self._timed = False
        self._echoes.clear()    # answers under way are of no use
        self._miscounting, self.info = info, info._replace(frequency=0)
        events.append(Untimed())

    def _take_definitions(self, payload: bytes, now_ns: int, events: list[Event]) -> None:
        if self.info is None:
            self.counters.unexpected += 1
            return
        # Most answers repeat the one before; decoding a long list would delay the next frame.
        source = payload, self.version, self.wanted
        definitions = self.definitions
        if definitions is None or source != self._described:
            definitions = decode_definitions(payload, self.version).only(self.wanted)
            self._described, self._names = source, name_table(definitions).names
            if definitions.cut:
                self.models.prefer_mask(now_ns)    # of known types only
        stable, until_ns = self.models.described(self._names, now_ns)
        self._release(now_ns, events, stable, until_ns)
        if definitions is not self.definitions:
            self.definitions = definitions
            events.append(definitions)

    def _take_response(
        self, message_id: int, payload: bytes, now_ns: int, events: list[Event],
    ) -> None:
        self._late_answers = max(0, self._late_answers - 1)
        if self._asked_ns is None or not self._requests:
            self.counters.unexpected += 1
            if not self._late_answers:
                self._quiet_ns = now_ns
            return
        command = self._end_request(now_ns)
        if message_id == MessageId.UNRECOGNIZED_REQUEST:
            events.append(Unrecognized(command))
            return
        if command == _BITSTREAM:
            version = bitstream_version(codec.response_text(payload))
            if version is not None and version >= (3, 0):
                self.version = version
        events.append(Response(command, payload))


def bitstream_version(text: str) -> Optional[Version]:
    """Decode the answer to 'Bitstream', such as 'Bitstream,4.1.0.0'; None without a version."""
    parts = text.rpartition(',')[2].strip().split('.')
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 4 for part in parts[:2]):
        return None
    return int(parts[0]), int(parts[1])
