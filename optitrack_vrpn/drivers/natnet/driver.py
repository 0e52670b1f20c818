# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One NatNet conversation for the loop: greeting, names, clock, frames; compiled."""

from collections.abc import Sequence
import dataclasses
from typing import Optional, Union

from optitrack_vrpn.core.severity import INFO, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.driver import (
    Action, Connected, Deliver, Finish, Join, say, Send, SendTimed)
from optitrack_vrpn.drivers.frames import Frame, Item
from optitrack_vrpn.drivers.natnet.connection import FIRST_ECHOES, KEEP_ALIVE, NatNetConnection
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.messages import (
    CERTAIN, COMMAND_PORT, DATA_PORT, Definitions, Disconnected, Echo, Event, FRAME_EDIT_MODE,
    Held, MULTICAST_GROUP, NatNetFrame, NEWEST, Response, ServerInfo, Unanswered, Unrecognized,
    Untimed, Version)
from optitrack_vrpn.drivers.natnet.reports import Translator
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig

UDP = 'natnet/udp'
#: Chosen: maximum time (ns) that frames wait for the first round trips, whose base delay their
#: stamps need: twice the duration of the first echoes.
_CLOCK_WAIT_NS = 600_000_000
#: Chosen: number of consecutive undecodable frames that are a fault.
_FAILING = 50
#: Chosen: interval (ns) between requests for definitions because of unknown bodies.
_ASK_AGAIN_NS = NS_PER_S


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
    """

    def __init__(
        self, config: NatNetConfig, now_ns: int, server: tuple[str, int] = ('', COMMAND_PORT),
        local: str = '', attempt_s: float = 3.0, miscounting: Optional[ServerInfo] = None,
    ) -> None:
        self.protocol = 'natnet'
        self.actions: list[Action] = []
        self.next_due_ns = now_ns
        self.miscounting = miscounting
        self._config = config
        self._playback = config.playback
        self._server = server
        self._local = local
        self._attempt_s = attempt_s
        self.connection = NatNetConnection(
            now_ns, bitstream=config.version(), wanted=config.wanted, miscounting=miscounting)
        #: Group and port of multicast frames; None for unicast.
        self._joined: Optional[tuple[str, int]] = None
        self._data_port = DATA_PORT
        self._translator = Translator(0)
        self._models_revision = -1
        self._watch = ServerWatch()
        self.known = self._watch.known
        self._started_ns = now_ns
        # Frames before this time are not passed on, unless the clocks have been compared.
        self._ready_ns = now_ns
        self._asked_ns = now_ns - _ASK_AGAIN_NS
        self._edit_mode = 0

    def counters(self) -> dict[str, int]:
        """Return the counters; safe from any thread."""
        return {**dataclasses.asdict(self.connection.counters),
                'unnamed': self._translator.unnamed,
                'odd_times': self._translator.odd_times}

    # -- what is due ---------------------------------------------------------------------------

    def begin(self, now_ns: int) -> None:
        """Ask the server."""
        self.due(now_ns)

    def due(self, now_ns: int) -> None:
        """Send the requests that are due, and end an attempt without an answer."""
        connection, actions = self.connection, self.actions
        for datagram in connection.due(now_ns):
            actions.append(Send(datagram))
            if datagram == KEEP_ALIVE:
                # A NAT admits frames only from a port to which this socket has sent.
                actions.append(Send(datagram, self._data_port))
        self._take_overdue(now_ns)
        if connection.echo_due(now_ns):
            actions.append(SendTimed(connection.echo_request))
        if not connection.established and now_ns - self._started_ns > self._attempt_s * NS_PER_S:
            actions.append(Finish(self._unanswered()))
        self.next_due_ns = connection.next_due_ns()

    def _unanswered(self) -> str:
        server, port = self._server
        where, error = f'NatNet command port {port}', self.connection.last_error
        if error:
            return f'{server} answered on {where}, but it cannot be used: {error}'
        return (
            f'{server} did not answer on {where} within {self._attempt_s:g} s: is NatNet '
            'streaming on in Motive, is its Local Interface in this network, or does a firewall '
            'block UDP?')

    def end(self, now_ns: int) -> None:
        """Say goodbye, with the commands for recordings that still wait."""
        self.actions += [Send(datagram) for datagram in self.connection.farewell()]
        self._take_overdue(now_ns)

    def _take_overdue(self, now_ns: int) -> None:
        for event in self.connection.overdue():
            self._take(event, now_ns, [])

    def request(self, command: str) -> None:
        """
        Queue a command.

        :raises LocalProtocolError: if the text is not a valid command, or too many commands wait.
        """
        self.connection.request(command)
        self.next_due_ns = 0

    # -- silence -------------------------------------------------------------------------------

    def describe_silence(self, text: str) -> str:
        """Describe a connection without a pose; one without a frame has reasons of its own."""
        counters, server = self.connection.counters, self._server[0]
        if counters.messages + counters.malformed:
            return text
        if self._joined is not None:
            group, port = self._joined
            return (f'{server} answers, but no frame arrives by multicast {group} port {port} on '
                    f'{self._local}: set interface to the network card that Motive streams to '
                    '(its Local Interface), and check that streaming is on and that the switch '
                    'passes multicast')
        return (f'{server} answers, but no frame arrives by unicast at {self._local}: check that '
                'streaming is on in Motive, and that no firewall or NAT (Docker, WSL2) here drops '
                f'UDP from port {self._data_port} of {server}')

    def give_up(self, reason: str) -> str:
        """Return why the loop connects again."""
        return reason

    # -- bytes in ------------------------------------------------------------------------------

    def feed(
        self, channel: str, data: Union[bytes, memoryview], arrival_ns: int,
    ) -> Sequence[Item]:
        """Process a datagram."""
        connection = self.connection
        items: list[Item] = []
        for event in connection.receive(data, arrival_ns):
            if type(event) is NatNetFrame:
                models = connection.models
                if self._models_revision != models.revision:
                    self._models_revision = models.revision
                    self._translator.names = models.names
                named = self._name(event, arrival_ns)
                if named is not None:
                    items.append(named)
            else:
                self._take(event, arrival_ns, items)
        if connection.failing >= _FAILING or self.known.undecodable:
            self._note_failing()
        if connection.request_waiting:
            self.next_due_ns = connection.next_due_ns()
        return items

    def _name(self, frame: NatNetFrame, now_ns: int) -> Optional[Frame]:
        """Convert a frame; None if it is not to be passed on."""
        if now_ns < self._ready_ns and self.connection.counters.echoes < FIRST_ECHOES:
            return None
        translator = self._translator
        named = translator.frame(frame, self._playback)
        if translator.unknown:
            self._ask_for_names(now_ns)
        if named is None:
            return None
        if named.extras is not None:
            self.known.local_bones = translator.looks_local
        edit_mode = frame.params & FRAME_EDIT_MODE
        if edit_mode != self._edit_mode:
            self._edit_mode = edit_mode
            self.known.played = '' if not edit_mode else (
                'published' if self._playback else 'withheld')
        return named

    def _ask_for_names(self, now_ns: int) -> None:
        unknown, self._translator.unknown = self._translator.unknown, ()
        models = self.connection.models
        self.known.unconfirmed_s = models.unconfirmed_s(now_ns)
        self.known.last_error = self.connection.last_error
        if models.uncertain:
            return
        if now_ns - self._asked_ns < _ASK_AGAIN_NS:
            return
        self._asked_ns = now_ns
        models.ask(now_ns)
        self._watch.unnamed(unknown)

    def _take(self, event: Event, now_ns: int, items: list[Item]) -> None:
        """
        Process an event other than the latest frame.

        :param items: receives what arrived now.
        """
        self.next_due_ns = 0
        if isinstance(event, Held):
            self._models_revision = -1
            self._translator.names = event.names
            named = self._name(event.frame, now_ns)
            if named is not None:
                self.actions.append(Deliver([named], event.arrival_ns))
        elif isinstance(event, Echo):
            if not self._translator.frequency:
                return    # requested before the frames turned out to have no times
            report = self._translator.echo(*event)
            fault = self._watch.echo(report)
            if fault is None:
                items.append(report)
                return
            self.miscounting = self.connection.info
            self.actions.append(Finish(fault))
        elif isinstance(event, ServerInfo):
            self._greet(event, now_ns)
        elif isinstance(event, Definitions):
            self._watch.definitions(event)
            self.known.unconfirmed_s = self.connection.models.unconfirmed_s(now_ns)
        elif isinstance(event, (Response, Unrecognized, Unanswered)):
            if self._watch.ask_again(event):
                self.connection.request(event.command, first=True)
            for found in self._watch.answer(event):
                self.actions.append(say(found.severity, found.text))
        elif isinstance(event, Untimed):
            self._translator.frequency = 0
            self._ready_ns = now_ns
            self.actions.append(say(WARN, (
                'the frames of Motive have no times of its clock (all ticks are 0): poses are '
                'stamped by their arrival, less stamps.latency_ms')))
        elif isinstance(event, Disconnected):
            self.actions.append(Finish(event.reason))

    def _greet(self, info: ServerInfo, now_ns: int) -> None:
        config = self._config
        multicast = config.transport == 'multicast' or (
            config.transport == 'auto' and info.multicast is not False)
        # Before 3.0 a server does not state how it sends: both ways are possible.
        self.connection.keep_alive = not multicast or info.version < (3, 0)
        group = config.group or info.group or MULTICAST_GROUP
        port = self._data_port = config.data_port or info.data_port or DATA_PORT
        if multicast:
            self._joined = group, port
            self.actions.append(Join(group, port))
        self._translator = Translator(info.frequency)
        self._ready_ns = now_ns + (_CLOCK_WAIT_NS if info.frequency else 0)
        for command in ServerWatch.QUESTIONS:
            self.connection.request(command)
        major, minor = info.version
        how = f'{group} port {port} on {self._local}' if multicast else 'unicast'
        self.actions.append(Connected(
            f'connected to {info.name!r} {".".join(map(str, info.app_version[:2]))} at '
            f'{self._server[0]}, NatNet {major}.{minor}, frames by {how}; no bodies yet',
            f'natnet {"multicast" if multicast else "unicast"}'))
        self._watch.greeting(config, info)
        if info.version > NEWEST:
            self.actions.append(say(INFO, (
                f'NatNet {major}.{minor} is newer than {NEWEST[0]}.{NEWEST[1]}: what it adds is '
                'skipped')))

    def _note_failing(self) -> None:
        connection, known = self.connection, self.known
        known.undecodable = connection.last_error if connection.failing >= _FAILING else ''
        version = connection.version
        known.version = _written(version), _written(CERTAIN) if version > CERTAIN else ''


def _written(version: Version) -> str:
    return '.'.join(map(str, version))
