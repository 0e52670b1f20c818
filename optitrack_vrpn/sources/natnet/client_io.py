# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The NatNet client: it finds a NatNet server and reads it in the loop of ``reconnecting_io``.

It is a backend like the VRPN client. Several clients can run on one machine: each has its own
command port, and they share the port of multicast data.
"""

from collections import deque
from typing import Optional

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import LocalProtocolError
from optitrack_vrpn.sources import AUTO
from optitrack_vrpn.sources.backend_io import Sink
from optitrack_vrpn.sources.config import ClientConfig
from optitrack_vrpn.sources.link import LinkState
from optitrack_vrpn.sources.natnet.messages import ServerInfo
from optitrack_vrpn.sources.natnet.recording import (
    START, STOP, TAKE_NAME, without_ended_recordings)
from optitrack_vrpn.sources.natnet.session_io import Session
from optitrack_vrpn.sources.natnet.settings import NatNetConfig
from optitrack_vrpn.sources.natnet.sockets_io import find_server
from optitrack_vrpn.sources.reconnecting_io import ReconnectingClient


class NatNetClient(ReconnectingClient[Session]):
    """
    Receive the stream of one NatNet server, across its restarts and absences.

    :param config: server, network card, retries and watchdog; server 'auto' searches for it.
    :param natnet: settings of NatNet only.
    :param sink: receives all events, on this client's thread.
    :param clock: the host's clocks.
    :param up_axis: up axis in the settings, compared with Motive's; '' for none.
    """

    protocol = 'NatNet'

    def __init__(
        self, config: ClientConfig, natnet: NatNetConfig, sink: Sink,
        clock: Optional[HostClock] = None, up_axis: str = '',
    ) -> None:
        super().__init__(config, natnet.port, sink, clock)
        self._natnet = natnet
        self._up_axis = up_axis
        self._commands: deque[str] = deque(maxlen=32)
        self._miscounting: Optional[ServerInfo] = None
        self._link.transport = 'natnet'

    @property
    def server_info(self) -> Optional[ServerInfo]:
        """Return what the server states about itself; None without a conversation."""
        session = self._account[1]
        return session.connection.info if session is not None else None

    @property
    def waiting_commands(self) -> int:
        """Return the number of commands that wait for a server."""
        return len(self._commands)

    def record(self, take: str) -> None:
        """
        Start a recording in Motive under this name; its result is reported as an event.

        :param take: name of the take; commas become underscores, since they separate arguments.
        """
        name = take.replace(',', '_').replace('\0', '').strip()
        if name:
            self._commands.append(f'{TAKE_NAME},{name[:200]}')
        self._commands.append(START)
        self._waker.wake()

    def stop_recording(self) -> None:
        """Stop the recording in Motive."""
        self._commands.append(STOP)
        self._waker.wake()

    # -- the thread ----------------------------------------------------------------------------

    def _open(self) -> Session:
        server = (self._use(self._search()) if self._config.server == AUTO else
                  self._resolve())
        self._change(
            LinkState.HANDSHAKING,
            f'asking {server[0]} port {server[1]} by NatNet, from {self._local}')
        return Session(
            server, self._local, self._link, self._natnet, self._clock, self._sink, self._report,
            self._unexpected_peer, self._seconds(self._config.link.attempt_s), self._up_axis,
            self._miscounting)

    def _listen(self, conversation: Session) -> str:
        reason = super()._listen(conversation)
        self._miscounting = conversation.miscounting
        return reason

    def _search(self) -> str:
        """Return the address of the one server that answers a discovery."""
        interface = self._config.interface
        self._change(
            LinkState.RESOLVING, 'searching for Motive by NatNet discovery on ' + (
                interface or 'all network cards'))
        return find_server(self._waiting, self._port, interface)

    def _before_handle(self, session: Session) -> None:
        """Send the commands of other threads, which wait until a server is connected."""
        if not (self._commands and session.connection.established):
            return
        waiting = [self._commands.popleft() for _ in range(len(self._commands))]
        commands = without_ended_recordings(waiting)
        if len(commands) < len(waiting):
            self._report(self._link.message(
                'a recording in Motive was started and stopped before the command could be sent: '
                'Motive has recorded none of it', 'warn'))
        for command in commands:
            try:
                session.request(command)
            except LocalProtocolError as error:
                self._report(self._link.message(str(error), 'error'))
