# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
One NatNet conversation for the loop: greeting, names, clock, frames; compiled.

Time is an argument everywhere: nanoseconds of a monotonic clock. A server never closes a
conversation, so every request is repeated until it is answered.
"""

from collections import deque
from collections.abc import Mapping, Sequence
import dataclasses
from typing import Final, Optional, Union

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.core.units import NS_PER_MS, NS_PER_S
from optitrack_vrpn.drivers.driver import (
    Action, Connected, Deliver, Finish, Join, Send, SendTimed)
from optitrack_vrpn.drivers.frames import Frame, Item
from optitrack_vrpn.drivers.link import link_event
from optitrack_vrpn.drivers.natnet import codec, describe
from optitrack_vrpn.drivers.natnet.commands import Commands
from optitrack_vrpn.drivers.natnet.definitions import decode_definitions
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.frames import decode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    COMMAND_PORT, DATA_PORT, FRAME_BITSTREAM_CHANGED, FRAME_EDIT_MODE,
    MessageId, Model, MULTICAST_GROUP, NatNetFrame, NEWEST, OLDEST, RECORDING_COMMANDS, Response,
    ServerInfo, type_mask, Unanswered, Unrecognized, Version)
from optitrack_vrpn.drivers.natnet.model_list import HeldFrames, ModelList
from optitrack_vrpn.drivers.natnet.numbering import NatNetCounters, Numbering
from optitrack_vrpn.drivers.natnet.reports import IdTable, name_table, Translator
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig

UDP = 'natnet/udp'
#: Chosen: period of connect requests (ns) until the server answers.
_CONNECT_NS = 250 * NS_PER_MS
#: A unicast server drops a client that sends no keep-alive for some seconds; one per second is
#: sufficient (observed).
_KEEP_ALIVE_NS = NS_PER_S
_KEEP_ALIVE = codec.encode_message(MessageId.KEEP_ALIVE)
#: Chosen: number and period (ns) of the first echo requests, which measure the clocks before the
#: first poses are published; then four per second, like OptiTrack's own client.
FIRST_ECHOES = 16
_FIRST_ECHO_NS = 20 * NS_PER_MS
_ECHO_NS = 250 * NS_PER_MS
#: Chosen: limit of unanswered echo requests; the oldest then counts as lost.
_MOST_ECHOES = 16
#: After this time (ns) without a readable frame the client connects again: the server may have
#: restarted, and lost this client and its models or changed the version. Other answers are no
#: evidence: a server answers echo requests of unknown clients too.
_SILENT_NS = NS_PER_S
#: Chosen: maximum time (ns) that frames wait for the first round trips, whose base delay their
#: stamps need: twice the duration of the first echoes.
_CLOCK_WAIT_NS = 600 * NS_PER_MS
#: Chosen: number of consecutive undecodable frames that are a fault.
_FAILING = 50
#: Chosen: interval (ns) between requests for definitions because of unknown bodies.
_ASK_AGAIN_NS = NS_PER_S
# A plain number, which mypyc compares without a look-up.
_FRAME: Final = int(MessageId.FRAME)
#: The command that returns the version of the bitstream, from NatNet 4.0 on.
_BITSTREAM = 'Bitstream'


class NatNetDriver:
    """
    A conversation with one server; see ``drivers.driver.ProtocolDriver``.

    :param config: settings of NatNet.
    :param now_ns: present time (ns).
    :param server: address of the server and its command port.
    :param local: the local address.
    :param attempt_s: maximum time until the server's first answer (s).
    :param miscounting: a server whose counter is not used, because its frequency is wrong.
    :ivar miscounting: the same, and this conversation's server after that was found.
    :ivar info: what the server states about itself, after its answer.
    :ivar version: version of the bitstream; (0, 0) while unknown.
    :ivar models: the confirmed names of streaming ids.
    """

    def __init__(
        self, config: NatNetConfig, now_ns: int, server: tuple[str, int] = ('', COMMAND_PORT),
        local: str = '', attempt_s: float = 3.0, miscounting: Optional[ServerInfo] = None,
    ) -> None:
        self.protocol = 'natnet'
        self.actions: list[Action] = []
        self.next_due_ns = now_ns
        self.miscounting = miscounting
        self.info: Optional[ServerInfo] = None
        self.version: Version = (0, 0)
        self.models = ModelList(now_ns)
        self._watch = ServerWatch()
        self.known = self._watch.known
        self._config = config
        self._wanted = config.wanted
        self._server = server
        self._local = local
        self._attempt_s = attempt_s
        self._count = NatNetCounters()
        self._commands = Commands()
        self._translator = Translator(0)
        self._data_port = DATA_PORT
        #: Whether the server sends unicast to this client and needs keep-alives.
        self._keep_alive = True
        self._started_ns = self._connect_ns = self._frame_ns = now_ns
        self._keep_alive_ns = self._echo_ns = now_ns
        # Frames before this time are not passed on, unless the clocks have been compared.
        self._ready_ns = now_ns
        self._asked_ns = now_ns - _ASK_AGAIN_NS
        self._echoes: dict[int, None] = {}
        self._echoes_sent = 0
        #: Round trips before the first frame, which shows whether frames have times.
        self._early: Optional[deque[tuple[int, int, int]]] = deque(maxlen=2 * FIRST_ECHOES)
        #: The server, if its frames have no times of the counter, although it states one.
        self._untimed: Optional[ServerInfo] = None
        #: What the latest definitions were decoded from, and their names.
        self._described: Optional[tuple[bytes, Version]] = None
        self._table = IdTable({}, {}, ())
        self._held = HeldFrames()
        self._numbering = Numbering(self._count)
        self._params = 0
        self._edit_mode = 0
        self._models_revision = -1
        #: Number of consecutive frames that could not be decoded; why the last datagram could not.
        self._failing = 0
        self._last_error = ''

    def counters(self) -> dict[str, int]:
        """Return the counters; safe from any thread."""
        return {**dataclasses.asdict(self._count), 'unnamed': self._translator.unnamed,
                'odd_times': self._translator.odd_times}

    # -- what is due ---------------------------------------------------------------------------
    def begin(self, now_ns: int) -> None:
        """Ask the server."""
        self.due(now_ns)

    def due(self, now_ns: int) -> None:
        """Send the requests that are due, and end an attempt without an answer."""
        if self.info is not None:
            self._send_due(self.info, now_ns)
        else:
            if now_ns >= self._connect_ns:
                self._connect(now_ns + _CONNECT_NS)
            if now_ns - self._started_ns > self._attempt_s * NS_PER_S:
                self.actions.append(Finish(describe.unanswered(
                    self._server, self._attempt_s, self._last_error)))
        self.next_due_ns = self._find_next_due()

    def _send_due(self, info: ServerInfo, now_ns: int) -> None:
        models, commands = self.models, self._commands
        if now_ns >= max(self._frame_ns, self._connect_ns) + _SILENT_NS:
            self._connect(now_ns)
            models.ask(now_ns)
            self._ask_bitstream()
        if self._keep_alive and now_ns >= self._keep_alive_ns:
            self._keep_alive_ns = now_ns + _KEEP_ALIVE_NS
            self._send(_KEEP_ALIVE)
            # A NAT admits frames only from a port to which this socket has sent.
            self.actions.append(Send(_KEEP_ALIVE, self._data_port))
        models.refresh(now_ns)
        models_ns = models.next_due_ns
        if models_ns is not None and now_ns >= models_ns:
            self._send(codec.encode_definitions_request(models.request_mask(now_ns)))
        if command := commands.give_up(now_ns):
            self._answered(Unanswered(command))
        if (request := commands.due(now_ns)) is not None:
            self._send(request)
        self._release(now_ns)
        if info.frequency and now_ns >= self._echo_ns:
            self._echoes_sent += 1
            self._echo_ns = now_ns + (
                _FIRST_ECHO_NS if self._echoes_sent < FIRST_ECHOES else _ECHO_NS)
            self.actions.append(SendTimed(self.echo_request))

    def _find_next_due(self) -> int:
        """Return the next time (ns) at which ``due`` has something to do."""
        if self.info is None:
            return self._connect_ns
        moments = [max(self._frame_ns, self._connect_ns) + _SILENT_NS, self.models.refresh_ns,
                   self._commands.next_due_ns, self._held.until_ns]
        if self._keep_alive:
            moments.append(self._keep_alive_ns)
        if self.info.frequency:
            moments.append(self._echo_ns)
        models_ns = self.models.next_due_ns
        if models_ns is not None:
            moments.append(models_ns)
        return min(moments)

    def _connect(self, connect_ns: int) -> None:
        self._connect_ns = connect_ns
        self._send(codec.encode_hello(
            'optitrack_vrpn', NEWEST, bitstream=self._config.version()))

    def echo_request(self, sent_ns: int) -> bytes:
        """
        Create an echo request.

        :param sent_ns: arrival clock, read immediately before the request is sent (ns).
        """
        self._echoes[sent_ns] = None
        while len(self._echoes) > _MOST_ECHOES:
            del self._echoes[next(iter(self._echoes))]
        return codec.encode_echo_request(sent_ns)

    def request(self, command: str) -> None:
        """
        Queue a command.

        :raises LocalProtocolError: if the text is not a valid command, or too many commands wait.
        """
        self._commands.request(command)
        self.next_due_ns = 0

    def _ask_bitstream(self) -> None:
        if self.info is not None and self.info.version >= (4, 0) and (
                _BITSTREAM not in self._commands):
            self._question(_BITSTREAM)

    def _question(self, command: str, first: bool = False) -> None:
        """Queue a question of the driver, which is left out if too many commands wait."""
        try:
            self._commands.request(command, first)
        except LocalProtocolError:
            return    # the conversation goes on without the answer
        self.next_due_ns = 0

    def end(self, now_ns: int) -> None:
        """Say goodbye; commands for recordings that still wait are sent once more."""
        for command in self._commands.close():
            if command.startswith(RECORDING_COMMANDS):
                self._send(codec.encode_request(command))
            self._answered(Unanswered(command))
        if self.info is not None and self._keep_alive:
            self._send(codec.encode_request('Disconnect'))
            self._send(codec.encode_message(MessageId.DISCONNECT))

    # -- silence -------------------------------------------------------------------------------
    def give_up(self, reason: str) -> str:
        """Return why the loop connects again."""
        return reason

    # -- bytes in ------------------------------------------------------------------------------
    def feed(
        self, channel: str, data: Union[bytes, memoryview], arrival_ns: int,
    ) -> Sequence[Item]:
        """
        Process a datagram.

        Its origin is not verified, so a malformed one does not end the conversation: it is counted
        and dropped.
        """
        self._count.datagrams += 1
        items: list[Item] = []
        message_id = -1
        try:
            message_id, payload = codec.decode_message(data)
            if message_id == _FRAME:
                self._take_frame(payload, arrival_ns, items)
            else:
                self._take(message_id, payload, arrival_ns, items)
        except RemoteProtocolError as error:
            self._count.malformed += 1
            self._last_error = self.known.last_error = str(error)
            if message_id == _FRAME:
                self._failing += 1
                if self._failing >= _FAILING:
                    # First: another thread reads both as soon as there is a reason.
                    self.known.version = _written(self.version)
                    self.known.undecodable = self._last_error
        if self.models.next_due_ns is not None:
            self.next_due_ns = self._find_next_due()
        return items

    def _take_frame(self, payload: bytes, now_ns: int, items: list[Item]) -> None:
        info, models = self.info, self.models
        if info is None:
            self._count.early += 1
            return
        frame = decode_frame(payload, self.version, self._wanted)
        self._frame_ns = now_ns
        if self._failing:
            self._failing = 0
            self.known.undecodable = ''
        self._count.messages += 1
        self._count.poses += len(frame.bodies)
        missing = self._numbering.follow(frame.number, now_ns)
        latest = models.follow(frame, now_ns, missing)
        if latest:
            if frame.params & ~self._params & FRAME_BITSTREAM_CHANGED:
                self._ask_bitstream()
            self._params = frame.params
        if self._early is not None:
            self._take_first(frame, info, now_ns, items)
        elif frame.transmit and self._untimed is not None:
            self.actions.append(Finish('the frames have times now'))
        if self._held.frames:
            self._release(now_ns)
        if self._held.frames or models.all_uncertain:
            self._held.add(frame, now_ns)
        elif latest:
            if self._models_revision != models.revision:
                self._models_revision = models.revision
                self._translator.names = models.names
            named = self._name(frame, now_ns)
            if named is not None:
                items.append(named)
        else:
            self._deliver(frame, now_ns, models.names_at(frame.number), now_ns)

    def _take_first(
        self, frame: NatNetFrame, info: ServerInfo, now_ns: int, items: list[Item],
    ) -> None:
        """Decide whether the frames have times of the counter that the echoes measure."""
        early, self._early = self._early, None
        if frame.transmit or not info.frequency:
            for echo in early or ():
                self._measure(*echo, items)
            return
        # Other senders than Motive fill the ticks with zeros.
        self._echoes.clear()    # answers under way are of no use
        self._untimed, self.info = info, info._replace(frequency=0)
        self._translator.frequency = 0
        self._ready_ns = now_ns
        self.actions.append(link_event(WARN, describe.UNTIMED))

    def _release(
        self, now_ns: int, stable: Mapping[int, Model] = {}, until_ns: int = 0,
    ) -> None:
        """Pass on the frames whose names are known now; see ``HeldFrames.release``."""
        for frame, arrival_ns, names in self._held.release(
                self.models, now_ns, stable, until_ns):
            self._deliver(frame, arrival_ns, names, now_ns)

    def _deliver(
        self, frame: NatNetFrame, arrival_ns: int, names: Mapping[int, Model], now_ns: int,
    ) -> None:
        """Pass on a frame that waited for the confirmation of its names or was late."""
        self._models_revision = -1
        self._translator.names = names
        named = self._name(frame, now_ns)
        if named is not None:
            self.actions.append(Deliver([named], arrival_ns))

    def _name(self, frame: NatNetFrame, now_ns: int) -> Optional[Frame]:
        """Convert a frame; None if it is not to be passed on."""
        if now_ns < self._ready_ns and self._count.echoes < FIRST_ECHOES:
            return None
        translator = self._translator
        named = translator.frame(frame, self._config.playback)
        if translator.unknown:
            self._ask_for_names(now_ns)
        if named is None:
            return None
        self.known.local_bones = translator.looks_local if named.extras is not None else ''
        edit_mode = frame.params & FRAME_EDIT_MODE
        if edit_mode != self._edit_mode:
            self._edit_mode = edit_mode
            self.known.live_again = not edit_mode
            self.known.played = '' if not edit_mode else (
                'published' if self._config.playback else 'withheld')
        return named

    def _ask_for_names(self, now_ns: int) -> None:
        unknown, self._translator.unknown = self._translator.unknown, ()
        models = self.models
        self.known.unconfirmed_s = models.unconfirmed_s(now_ns)
        if models.uncertain or now_ns - self._asked_ns < _ASK_AGAIN_NS:
            return
        self._asked_ns = now_ns
        models.ask(now_ns)
        self._watch.unnamed(unknown)

    def _take(
        self, message_id: int, payload: bytes, arrival_ns: int, items: list[Item],
    ) -> None:
        """Process a message that is not a frame."""
        self.next_due_ns = 0
        if message_id == MessageId.ECHO_RESPONSE:
            token, ticks = codec.decode_echo_response(payload)
            if token not in self._echoes:
                self._count.unexpected += 1
                return
            del self._echoes[token]
            if token > arrival_ns:
                return
            self.models.delayed(arrival_ns - token, arrival_ns)
            self._count.echoes += 1
            if self._early is not None:
                self._early.append((token, ticks, arrival_ns))
            else:
                self._measure(token, ticks, arrival_ns, items)
        elif message_id == MessageId.MODEL_DEFINITIONS:
            self._take_definitions(payload, arrival_ns)
        elif message_id == MessageId.SERVER_INFO:
            self._take_info(codec.decode_server_info(payload), arrival_ns)
        elif message_id in (MessageId.RESPONSE, MessageId.UNRECOGNIZED_REQUEST):
            command = self._commands.answered(arrival_ns)
            if command is None:
                self._count.unexpected += 1
            elif message_id == MessageId.UNRECOGNIZED_REQUEST:
                self._answered(Unrecognized(command))
            else:
                if command == _BITSTREAM:
                    self.version = codec.bitstream_version(payload) or self.version
                self._answered(Response(command, payload))
        elif message_id in (MessageId.DISCONNECT, MessageId.DISCONNECT_BY_TIMEOUT):
            self.actions.append(Finish('Motive ended the connection'))
        else:
            self._count.other_type += 1

    def _measure(self, sent_ns: int, ticks: int, received_ns: int, items: list[Item]) -> None:
        """Pass on a round trip to the server's counter, unless its frequency is wrong."""
        if not self._translator.frequency:
            return    # requested before the frames turned out to have no times
        report = self._translator.echo(sent_ns, ticks, received_ns)
        fault = self._watch.echo(report)
        if fault is not None:
            self.miscounting = self.info
            self.actions.append(Finish(fault))
            return
        items.append(report)

    def _take_definitions(self, payload: bytes, now_ns: int) -> None:
        if self.info is None:
            self._count.unexpected += 1
            return
        # Most answers repeat the one before; decoding a long list would delay the next frame.
        source, new = (payload, self.version), None
        if source != self._described:
            new = decode_definitions(payload, self.version).only(self._wanted)
            self._described, self._table = source, name_table(new)
            if new.cut:
                self.models.prefer_mask(now_ns)    # of known types only
        stable, until_ns = self.models.described(self._table.names, now_ns)
        self._release(now_ns, stable, until_ns)
        if new is not None:
            self._watch.definitions(new)
        if self.known.unnamed:
            self._watch.unnamed(self.models.ids)
        self.known.unconfirmed_s = self.models.unconfirmed_s(now_ns)

    def _answered(self, event: Union[Response, Unrecognized, Unanswered]) -> None:
        """Process the answer to a query or a command."""
        if self._watch.ask_again(event):
            self._question(event.command, first=True)
        for found in self._watch.answer(event):
            self.actions.append(link_event(found.severity, found.text))

    def _take_info(self, info: ServerInfo, now_ns: int) -> None:
        """Process what the server states about itself: the begin of the conversation."""
        if info in (self.miscounting, self._untimed):
            info = info._replace(frequency=0)    # as before NatNet 3.0
        if info == self.info:
            return
        if self.info is not None:
            self.actions.append(Finish('Motive has started again with other settings'))
            return
        if info.version < OLDEST:
            raise RemoteProtocolError(describe.older(info.version))
        config, self.info, self.version = self._config, info, info.version
        self._echo_ns = self._keep_alive_ns = now_ns
        self.models = ModelList(now_ns, type_mask(self._wanted, self.version))
        self.models.ask(now_ns)
        self._ask_bitstream()
        for command in ServerWatch.QUESTIONS:
            self._question(command)
        multicast = config.transport == 'multicast' or (
            config.transport == 'auto' and info.multicast is not False)
        # Before 3.0 a server does not state how it sends: both ways are possible.
        self._keep_alive = not multicast or info.version < (3, 0)
        group = config.group or info.group or MULTICAST_GROUP
        self._data_port = config.data_port or info.data_port or DATA_PORT
        known, joined = self.known, (group, self._data_port) if multicast else None
        known.multicast, known.group, known.data_port = (
            multicast, group if multicast else '', self._data_port)
        if joined is not None:
            self.actions.append(Join(*joined))
        self._translator = Translator(info.frequency)
        self._ready_ns = now_ns + (_CLOCK_WAIT_NS if info.frequency else 0)
        self.actions.append(Connected(
            describe.connected(info, self._server[0], self._local, joined),
            f'natnet {"multicast" if multicast else "unicast"}'))
        self._watch.greeting(config, info)
        if info.version > NEWEST:
            self.actions.append(link_event(INFO, describe.newer(info.version)))

    def _send(self, datagram: bytes) -> None:
        self.actions.append(Send(datagram))


def _written(version: Version) -> str:
    return '.'.join(map(str, version))
