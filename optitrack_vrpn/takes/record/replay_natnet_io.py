# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Serve recorded conversations as a NatNet server by unicast.

Frames are sent as they were recorded. Requests are answered as the recorded server answered them;
an echo gets the recorded server's ticks of that moment of the playback. With another rate the
stated frequency of these ticks is scaled, so that clients see the scaled times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
import select
import socket
import threading
import time
from typing import Optional

from optitrack_vrpn.core.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.messages import MessageId, ServerInfo
from optitrack_vrpn.takes.record.raw_session import Action, RawSession
from optitrack_vrpn.takes.record.replay_io import ReplayConfig

#: Chosen: clients at once, and time (s) without a request after which one is removed.
_MOST_CLIENTS = 8
_CLIENT_S = 5.0
#: Longest wait of the thread (s).
_TURN_S = 0.1

Address = tuple[str, int]


@dataclass
class _Facts:
    """
    What a recorded server answered.

    :ivar definitions: its first MODELDEF, as a datagram.
    :ivar responses: payloads by command.
    :ivar clock: its ticks at an arrival time (ns); None without an answer to an echo.
    """

    info: Optional[ServerInfo] = None
    definitions: bytes = b''
    responses: dict[str, bytes] = field(default_factory=dict)
    clock: Optional[tuple[int, int]] = None


class _Player:
    """The playback for one client."""

    def __init__(self, session: RawSession, facts: _Facts, config: ReplayConfig) -> None:
        self.facts = facts
        self.definitions = facts.definitions
        self.heard_ns = self.began_ns = time.monotonic_ns()
        self._rate = config.rate
        self._zero_ns = session.begin_ns + round(config.start_s * NS_PER_S)
        self._end_ns = None if config.end_s is None else session.begin_ns + round(
            config.end_s * NS_PER_S)
        self._actions = session.read()
        self.next: Optional[Action] = None
        self.advance()

    def advance(self) -> None:
        """Go to the next frame; follow the definitions on the way."""
        for action in self._actions:
            number = action.data[0] + 256 * action.data[1] if len(action.data) > 1 else -1
            if action.kind == 'udp' and number == MessageId.MODEL_DEFINITIONS:
                self.definitions = action.data
            elif action.kind == 'udp' and number == MessageId.FRAME and (
                    action.arrival_ns >= self._zero_ns):
                late = self._end_ns is not None and action.arrival_ns > self._end_ns
                self.next = None if late else action
                return
        self.next = None

    def due_ns(self) -> int:
        """Return when the next frame is sent (ns)."""
        assert self.next is not None
        return self.began_ns + round((self.next.arrival_ns - self._zero_ns) / self._rate)

    def ticks(self, now_ns: int) -> int:
        """Return the server's ticks of this moment of the playback."""
        info = self.facts.info
        ticks, at_ns = self.facts.clock or (0, self._zero_ns)
        recorded_ns = self._zero_ns + (now_ns - self.began_ns) * self._rate
        return max(ticks + round((recorded_ns - at_ns) * (info.frequency if info else 0)
                                 / NS_PER_S), 0)


class NatNetReplay:
    """
    Play recorded conversations; a context manager.

    :param sessions: the conversations; read again for each client.
    :param config: the settings; its port is that of commands.
    :ivar port: port of commands.
    :ivar finished: set when a client has received the last conversation completely.
    :ivar late_ns: delay of the latest frame (ns).
    :raises TransportError: if the port is not available.
    """

    def __init__(self, sessions: Sequence[RawSession], config: ReplayConfig) -> None:
        self._sessions, self._config = list(sessions), config
        self._facts = [_facts(session) for session in self._sessions]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((config.host, config.port))
        except OSError as error:
            self._socket.close()
            raise TransportError(
                f'cannot listen on {config.host} port {config.port}: {error.strerror}') from None
        self._socket.setblocking(False)
        self.port = self._socket.getsockname()[1]
        self.finished = threading.Event()
        self.late_ns = 0
        self._players: dict[Address, _Player] = {}
        #: The next conversation of each host.
        self._next: dict[str, int] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name='replay', daemon=True)

    def __enter__(self) -> NatNetReplay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join(5.0)
        self._socket.close()

    def _run(self) -> None:
        while not self._stopping:
            due = [player.due_ns() for player in self._players.values() if player.next]
            wait_s = min([(at_ns - time.monotonic_ns()) / NS_PER_S for at_ns in due] + [_TURN_S])
            if wait_s > 0.0:
                select.select([self._socket], [], [], wait_s)
            for datagram, address in self._received():
                try:
                    self._answer(*codec.decode_message(datagram), address)
                except RemoteProtocolError:
                    pass    # not a client
            for address, player in list(self._players.items()):
                self._play(address, player)

    def _received(self) -> Iterator[tuple[bytes, Address]]:
        for _ in range(64):
            try:
                yield self._socket.recvfrom(65536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue    # the answer to an earlier datagram: its port is closed

    def _play(self, address: Address, player: _Player) -> None:
        """Send the frames that are due; end a conversation after its last one."""
        now_ns = time.monotonic_ns()
        while player.next is not None and player.due_ns() <= now_ns:
            self.late_ns = max(self.late_ns, now_ns - player.due_ns())
            self._send(player.next.data, address)
            player.advance()
        host, number = address[0], self._next.get(address[0], 0)
        last = number + 1 >= len(self._sessions) and not self._config.loop
        if player.next is None and last:
            self.finished.set()    # it stays connected, like a server whose cameras are stopped
        elif player.next is None:
            self._next[host] = (number + 1) % len(self._sessions)
            self._send(codec.encode_message(MessageId.DISCONNECT), address)
            del self._players[address]
        if now_ns - player.heard_ns > _CLIENT_S * NS_PER_S:
            self._players.pop(address, None)

    def _send(self, datagram: bytes, address: Address) -> None:
        try:
            self._socket.sendto(datagram, address)
        except OSError:
            pass    # UDP loses what it cannot deliver

    def _answer(self, number: int, payload: bytes, address: Address) -> None:
        """Answer a request of a client."""
        player = self._players.get(address)
        if number in (MessageId.CONNECT, MessageId.DISCOVERY):
            at = self._next.get(address[0], 0)
            facts = self._facts[at]
            if number == MessageId.CONNECT and player is None and (
                    len(self._players) < _MOST_CLIENTS):
                self._players[address] = _Player(self._sessions[at], facts, self._config)
            if facts.info is not None:
                self._send(codec.encode_server_info(facts.info._replace(
                    frequency=round(facts.info.frequency * self._config.rate),
                    data_port=self.port, multicast=False, group='')), address)
            return
        if player is None:
            return
        player.heard_ns = time.monotonic_ns()
        if number == MessageId.ECHO_REQUEST:
            self._send(codec.encode_echo_response(
                codec.decode_echo_request(payload), player.ticks(time.monotonic_ns())), address)
        elif number == MessageId.REQUEST_MODEL_DEFINITIONS and player.definitions:
            self._send(player.definitions, address)
        elif number == MessageId.REQUEST:
            found = player.facts.responses.get(codec.decode_request(payload))
            self._send(codec.encode_message(MessageId.UNRECOGNIZED_REQUEST) if found is None
                       else codec.encode_message(MessageId.RESPONSE, found), address)
        elif number == MessageId.DISCONNECT:
            del self._players[address]


def _facts(session: RawSession) -> _Facts:
    """Read what a server answered at the begin of a conversation."""
    facts, asked, frames = _Facts(), '', 0
    for action in session.read():
        try:
            number, payload = codec.decode_message(action.data)
            if action.kind == 'sent':
                if number == MessageId.REQUEST:
                    asked = codec.decode_request(payload)
            elif number == MessageId.SERVER_INFO and facts.info is None:
                facts.info = codec.decode_server_info(payload)
            elif number == MessageId.MODEL_DEFINITIONS:
                facts.definitions = facts.definitions or action.data
            elif number == MessageId.RESPONSE and asked:
                facts.responses.setdefault(asked, payload)
            elif number == MessageId.ECHO_RESPONSE and facts.clock is None:
                token, ticks = codec.decode_echo_response(payload)
                facts.clock = ticks, (token + action.arrival_ns) // 2
            frames += number == MessageId.FRAME
        except RemoteProtocolError:
            continue    # damaged
        if frames > 2000 and facts.info is not None and facts.definitions:
            break
    return facts
