# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""One VRPN conversation for the loop: greeting, names, pings, frames; compiled."""

from collections.abc import Sequence
import dataclasses
from typing import Optional, Union

from optitrack_vrpn.core.errors import LocalProtocolError, RemoteProtocolError
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.config import LinkConfig
from optitrack_vrpn.drivers.driver import (
    Action, Connected, Finish, NEVER_NS, Send, ServerFacts)
from optitrack_vrpn.drivers.frames import Item
from optitrack_vrpn.drivers.link import link_event, LinkState
from optitrack_vrpn.drivers.vrpn.codec import (
    CONTROL_SENDER, Event, MAX_DATAGRAM_SIZE, PeerHello, PongReport, POSE_MESSAGE, PoseReport,
    SenderDescribed)
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.drivers.vrpn.frames import to_frames

TCP, UDP = 'vrpn/tcp', 'vrpn/udp'
#: Servers fill a datagram before they begin another one of the same frame: a datagram with room
#: for another pose is the last one of its frame.
LAST_OF_A_FRAME = MAX_DATAGRAM_SIZE - POSE_MESSAGE.size
_USUAL = LinkConfig()
#: Chosen: pings per tracker, one a second.
_MOST_PINGS = 5
#: Chosen, the limit of ``bodies``: further names are not pinged, which bounds the data that waits
#: for a peer that does not read.
_MOST_ASKED = 500
#: Chosen: limit of stored names, above any installation.
_MOST_NAMES = 2000


class VrpnDriver:
    """
    A conversation with one server; see ``drivers.driver.ProtocolDriver``.

    :param server: its address.
    :param config: time limits.
    :param udp: address and port that receive datagrams; None for poses by TCP.
    :param host_minus_arrival_ns: host clock minus the clock of ``now_ns`` (ns), for the time
        stamps of what is sent.
    :param changes_way: whether the connection after one without a pose uses the other transport,
        UDP or TCP.
    :ivar datagrams_next: whether the next connection takes poses by UDP; None if that does not
        change. A firewall may admit the connection of the server and drop UDP; if no pose comes by
        TCP either, the server has sent none.
    """

    def __init__(
        self, server: str = '', config: LinkConfig = _USUAL,
        udp: Optional[tuple[str, int]] = None,
        host_minus_arrival_ns: int = 0, changes_way: bool = False,
    ) -> None:
        self.protocol = 'vrpn'
        self.actions: list[Action] = []
        self.next_due_ns = 0
        self.datagrams_next: Optional[bool] = None
        self._server = server
        self._udp = udp
        self._changes_way = changes_way
        self._offset_ns = host_minus_arrival_ns
        self._mute_s = config.attempt_s, config.blocked_s
        self._started_ns = 0
        self.connection = VrpnConnection(udp_address=udp)
        self._failure: Optional[RemoteProtocolError] = None
        self.known = ServerFacts()
        self._unanswered: dict[str, int] = {}
        self._next_ping_ns = 0

    def begin(self, now_ns: int) -> None:
        """Send this side's cookie."""
        self._started_ns = now_ns
        self.connection.time_ns = now_ns + self._offset_ns
        self._send()

    def end(self, now_ns: int) -> None:
        """Do nothing: to close the stream is enough."""

    def counters(self) -> dict[str, int]:
        """Return the counters; safe from any thread."""
        connection = self.connection
        return {**dataclasses.asdict(connection.counters),
                'names_refused': connection.remote.refused}

    # -- bytes in ------------------------------------------------------------------------------

    def feed(
        self, channel: str, data: Union[bytes, memoryview], arrival_ns: int,
    ) -> list[Item]:
        """Process a datagram, or bytes of the stream; none if the server has closed it."""
        if channel == UDP:
            return self.connection.receive_datagram(data)
        if not data:
            self.actions.append(Finish(
                'the server closed the connection' if self.connection.established else
                'the server closed the connection before the VRPN handshake'))
            return []
        events: Sequence[Event]
        try:
            events = self.connection.receive_stream(data)
        except RemoteProtocolError as error:
            # The events before the fault are valid, however the stream was split.
            events = self.connection.events_before_fault
            self._failure = error
            self.next_due_ns = 0
        self._note(events)
        self._send()
        return to_frames(events)

    def _note(self, events: Sequence[Event]) -> None:
        """Process the events that concern the conversation itself."""
        for event in events:
            if type(event) is PoseReport:
                continue
            if isinstance(event, PeerHello):
                transport = 'poses by UDP' if self._udp else 'poses by TCP'
                version = self.known.stated_version = f'{event.major:02d}.{event.minor:02d}'
                self.known.remark = event.note
                note = f' ({event.note})' if event.note else ''
                self.actions.append(Connected(
                    f'connected to {self._server}, VRPN {version}{note}, {transport}; no bodies '
                    'yet'))
                self.next_due_ns = NEVER_NS
            elif isinstance(event, SenderDescribed):
                name, senders = event.sender, self.known.senders
                if name not in senders and len(senders) < _MOST_NAMES:
                    senders[name] = False
                    if name != CONTROL_SENDER and len(senders) <= _MOST_ASKED:
                        self._unanswered[name] = 0
                        self._next_ping_ns = self.next_due_ns = 0
            elif isinstance(event, PongReport):
                self._unanswered.pop(event.sender, None)
                if event.sender in self.known.senders:
                    self.known.senders[event.sender] = True

    # -- what is due ---------------------------------------------------------------------------

    def due(self, now_ns: int) -> None:
        """
        Report a server without a greeting; ping trackers.

        :raises RemoteProtocolError: if the peer does not speak VRPN.
        """
        if self._failure is not None:
            raise self._failure
        if not self.connection.established:
            self._check_greeting(now_ns)
            return
        if self._unanswered and now_ns >= self._next_ping_ns:
            self._ping(now_ns)
        self.next_due_ns = self._next_ping_ns if self._unanswered else NEVER_NS

    def _check_greeting(self, now_ns: int) -> None:
        """
        Report a server that sends nothing, and disconnect after the longest possible block.

        The connection stays open until then: a server that is no longer blocked answers on it
        immediately, whereas repeated connections would fill its accept queue.
        """
        late_s, until_s = self._mute_s
        mute_s = (now_ns - self._started_ns) / NS_PER_S
        if mute_s >= until_s:
            self.actions.append(Finish(silent_greeting(self._server, until_s, until_s)))
        elif mute_s >= late_s:    # a repetition of the same state is not reported
            self.actions.append(link_event(
                WARN, silent_greeting(self._server, late_s, until_s), LinkState.HANDSHAKING))
            late_s = until_s
        self.next_due_ns = self._started_ns + int(min(late_s, until_s) * NS_PER_S)

    def _ping(self, now_ns: int) -> None:
        """
        Ping each tracker that has not answered, once a second and five times at most.

        The library's client does the same; the pong proves that a tracker of that name exists.
        """
        self._next_ping_ns = now_ns + NS_PER_S
        for sender, count in list(self._unanswered.items()):
            if count >= _MOST_PINGS:
                del self._unanswered[sender]
                continue
            self._unanswered[sender] = count + 1
            try:
                self.connection.ping(sender, now_ns + self._offset_ns)
            except LocalProtocolError:
                del self._unanswered[sender]  # the peer sent a name that VRPN does not allow
        self._send()

    def _send(self) -> None:
        data = self.connection.data_to_send()
        if data:
            self.actions.append(Send(data))

    # -- silence -------------------------------------------------------------------------------

    def give_up(self, reason: str) -> str:
        """
        Take note that the loop connects again, since no pose comes.

        If no datagram arrived, the next conversation uses TCP for poses; if none came by TCP
        either, it uses UDP again.
        """
        counters = self.connection.counters
        if not self._changes_way or counters.datagrams or counters.poses:
            return reason
        self.datagrams_next = self._udp is None
        if self.datagrams_next:
            return reason
        return (f'{reason}; no datagram arrived: poses by TCP (a firewall here may drop UDP, or '
                'the server has no pose to send)')


def silent_greeting(server: str, waited_s: float, until_s: float) -> str:
    """
    Describe a server that accepted the TCP connection and then sent nothing.

    :param server: its address.
    :param waited_s: time without data so far (s).
    :param until_s: timeout (s).
    """
    return (
        f'{server} accepted the connection but sent no VRPN greeting within {waited_s:g} s: its '
        'VRPN server is probably blocked, by a client whose firewall drops the connection to it '
        '(Windows 21 s, Linux 127 s), or suspended; or another program uses the port' + (
            f'. Waiting for up to {until_s:g} s' if waited_s < until_s else ''))
