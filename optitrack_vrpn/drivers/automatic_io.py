# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The source that tries several protocols, and uses the one that ``choice`` chooses."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
import logging
import threading
from typing import Callable, Optional

from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import ERROR, INFO, Severity
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.choice import Patience, SourceChoice
from optitrack_vrpn.drivers.client_io import report_change
from optitrack_vrpn.drivers.config import ClientConfig
from optitrack_vrpn.drivers.driver import LinkStatus, ServerFacts, Sink, Source, tap_of
from optitrack_vrpn.drivers.frames import Item, RoundTrip
from optitrack_vrpn.drivers.link import link_event, LinkState
from optitrack_vrpn.drivers.link_rules import (
    CHOICE, ChoiceFacts, first, UNCONFIRMED, UNCONFIRMED_S, UNDECODABLE)
from optitrack_vrpn.drivers.table import (
    AUTO, make_source, protocols_of, RecordingSource, SourceOptions, SOURCES, title)
from optitrack_vrpn.stream.clock.hostclock_io import HostClock

_LOG = logging.getLogger(__name__)
#: Chosen: period of the checks (s); it adds to the times in ``choice``.
_CHECK_S = 0.25
#: Chosen: round trips kept until a protocol is selected, twice the initial ones of a connection.
_ECHOES = 32
_ANSWERED = (LinkState.CONNECTED, LinkState.STREAMING, LinkState.SILENT)


class _Gate:
    """
    Pass the items of one client on while its protocol is chosen, and always its changes.

    :ivar passes: whether items are passed on; it is the only check of most frames.
    """

    def __init__(self, owner: 'AutomaticSource', protocol: str) -> None:
        self._owner = owner
        self.protocol = protocol
        self.source: Optional[Source] = None
        self.last: Optional[Event] = None
        self.passes = False
        self._pass_on = owner.sink.receive
        #: A recorder of bytes gets those of all protocols.
        self.tap = tap_of(owner.sink)

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Pass items on if this protocol is chosen."""
        if self.passes or self._owner.admits(self, items, arrival_ns, host_minus_arrival_ns):
            self._pass_on(items, arrival_ns, host_minus_arrival_ns)

    def link_changed(self, change: Event) -> None:
        """Process a change of this protocol's connection."""
        self._owner.changed(self, change)


class AutomaticSource:
    """
    Receive a server's stream by the first of several protocols that delivers a pose.

    :param of: the protocols, best first.
    :param make: makes the client of one of them, for a sink; with whether the best protocol has
        an answer, beside which no other connects by TCP.
    :param sink: gets the items of the chosen protocol, one call at a time.
    :param patience: how long to wait for the best one alone, and for one that has ended.
    """

    def __init__(
        self, of: Sequence[str], make: Callable[[str, Sink, bool], Source], sink: Sink,
        patience: Optional[Patience] = None,
    ) -> None:
        self._of = of
        self._make = make
        self.sink = sink
        self._now_ns = HostClock().now_ns
        self._choice = SourceChoice(of, self._now_ns(), patience)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: Optional[threading.Thread] = None
        self._gates: dict[str, _Gate] = {}
        #: Whether a recording was requested before a choice.
        self._asked = False
        #: Round trips measured before a choice; the first stamps need them.
        self._echoes: deque[tuple[str, Sequence[Item], int, int]] = deque(maxlen=_ECHOES)

    def start(self) -> None:
        """
        Start the attempts; return immediately.

        :raises TransportError: if it was started or stopped before.
        """
        if self._thread is not None or self._stopping:
            raise TransportError('a backend can be started only once')
        thread = threading.Thread(target=self._run, name='protocol choice', daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Stop all clients and the thread; idempotent."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def status(self) -> LinkStatus:
        """
        Return the status of the chosen connection.

        Before a choice, return the status of the best protocol, with the hosts that the client of
        any protocol has refused.
        """
        chosen = self._choice.chosen
        with self._lock:
            gates = dict(self._gates)
        states = {name: gate.source.status() for name, gate in gates.items()
                  if gate.source is not None and chosen in ('', name)}
        status = states.get(chosen or self._of[0])
        if status is None:
            return LinkStatus(LinkState.STOPPED, 'not started')
        return status if chosen else replace(
            status, unexpected_peers=sum(one.unexpected_peers for one in states.values()),
            refused={peer: what for one in states.values() for peer, what in one.refused.items()})

    def record(self, take: str) -> None:
        """Start a recording at the sender if the protocol can."""
        recorder = self._recorder('start')
        if recorder is not None:
            self._asked = not self._choice.chosen
            recorder.record(take)

    def stop_recording(self) -> None:
        """Stop the recording at the sender if the protocol can."""
        self._asked = False
        recorder = self._recorder('stop')
        if recorder is not None:
            recorder.stop_recording()

    def _recorder(self, what: str) -> Optional[RecordingSource]:
        """Return the chosen client, or before a choice the best one, if it can record."""
        chosen = self._choice.chosen
        for name in [chosen] if chosen else self._of:
            gate = self._gates.get(name)
            source: object = gate.source if gate is not None else None
            if isinstance(source, RecordingSource):
                return source
        self._cannot(what)
        return None

    def _cannot(self, what: str) -> None:
        self._say(ChoiceFacts(title(self._choice.chosen or self._of[0]), title(self._of[0]),
                              recording=what))

    # -- from the clients' threads -------------------------------------------------------------

    def admits(
        self, gate: _Gate, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> bool:
        """Return whether the client of items is the present one of the chosen protocol."""
        with self._lock:
            if self._gates.get(gate.protocol) is not gate:
                return False
            chosen = self._choice.chosen
            gate.passes = chosen == gate.protocol
        if not chosen and isinstance(items[0], RoundTrip):
            self._echoes.append((gate.protocol, items, arrival_ns, host_minus_arrival_ns))
        return gate.passes

    def changed(self, gate: _Gate, change: Event) -> None:
        """
        Process a change of one connection.

        A client reports that poses arrive before it passes on the first of them.
        """
        with self._lock:
            if self._gates.get(gate.protocol) is not gate:
                return
            gate.last = change
            begins = self._choice.changed(gate.protocol, change.data, self._now_ns())
            chosen = self._choice.chosen
        self._wake.set()
        if begins:
            self._begin(gate)
        if chosen == gate.protocol:
            report_change(self.sink, change)
        elif not chosen:
            report_change(self.sink, change._replace(
                text=f'{gate.protocol}: {change.text}', data=_shown(change.data)))

    def _begin(self, gate: _Gate) -> None:
        """Report to the sink the protocol that is used from now on."""
        if self._asked and not isinstance(gate.source, RecordingSource):
            self._cannot('start')
        self._asked = False
        chosen, best = gate.protocol, self._of[0]
        other = self._gates.get(best)
        why = other.last.text if other is not None and other.last is not None else 'not started'
        if chosen != best and other is not None and other.source is not None and self._answered():
            why = _why_without_poses(other.source.status().known, why)
        self._say(ChoiceFacts(title(chosen), title(best), SOURCES[best].merit, why))
        # The sink has not received the link state of this connection yet.
        report_change(self.sink, link_event(
            INFO, f'connected by {chosen}', LinkState.CONNECTED))
        while self._echoes:
            echo = self._echoes.popleft()
            if echo[0] == chosen:
                self.sink.receive(*echo[1:])

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stopping:
                now_ns = self._now_ns()
                with self._lock:
                    starting = self._choice.to_start(now_ns)
                    chosen, ended = self._choice.chosen, self._choice.has_ended(now_ns)
                for protocol in starting:
                    self._launch(protocol)
                if ended:
                    give_up_s = self._choice.patience.give_up_ns / NS_PER_S
                    self._say(ChoiceFacts(title(chosen), title(self._of[0]), ended_s=give_up_s))
                    self._end(self._of)
                    with self._lock:
                        self._choice.restart(now_ns)
                    continue
                if chosen:
                    self._end([name for name in self._of if name != chosen])
                self._wake.wait(_CHECK_S)
                self._wake.clear()
        except Exception as error:
            _LOG.exception('a bug in the choice of the protocol')
            self._message(f'a bug in the choice of the protocol: {error!r}', ERROR)
        finally:
            self._end(self._of)

    def _launch(self, protocol: str) -> None:
        gate = _Gate(self, protocol)
        gate.source = source = self._make(protocol, gate, self._answered())
        with self._lock:
            self._gates[protocol] = gate
        source.start()

    def _answered(self) -> bool:
        """Return whether the best protocol, which uses datagrams, has an answer."""
        best = self._gates.get(self._of[0])
        return best is not None and best.last is not None and best.last.data in _ANSWERED

    def _end(self, protocols: Sequence[str]) -> None:
        for protocol in protocols:
            with self._lock:
                gate = self._gates.pop(protocol, None)
                if gate is not None:
                    gate.passes = False
            if gate is not None and gate.source is not None:
                gate.source.stop()

    def _say(self, facts: ChoiceFacts) -> None:
        found = first(CHOICE, facts)
        self._message(found.line if found.remedy else found.text, found.severity)

    def _message(self, text: str, severity: Severity) -> None:
        used = self._gates.get(self._choice.chosen)
        state = used.last.data if used is not None and used.last is not None else (
            LinkState.CONNECTING)
        report_change(self.sink, link_event(severity, text, _shown(state)))


def _why_without_poses(known: ServerFacts, reason: str) -> str:
    """
    Return why a server that answers sends no usable pose.

    :param known: the facts of the server.
    :param reason: the text of the last change of the connection, for facts without a reason.
    """
    if known.undecodable:
        return UNDECODABLE.format(version=known.version, undecodable=known.undecodable)
    return UNCONFIRMED if known.unconfirmed_s >= UNCONFIRMED_S else reason


def _shown(state: LinkState) -> LinkState:
    """Return the state to report for a protocol that is not chosen: never a streaming one."""
    return LinkState.CONNECTING if state in _ANSWERED else state


def make_automatic(
    config: ClientConfig, settings: object, sink: Sink, options: SourceOptions,
) -> Source:
    """
    Create the source that chooses among the protocols of the row ``auto``.

    :raises BackendUnavailableError: if a backend is not installed; on the thread of the source,
        the error would end all clients.
    """
    def make(protocol: str, sink: Sink, answered: bool = False) -> Source:
        link = config.link
        if answered and link.connection == 'auto':
            link = replace(link, tcp_allowed=False)
        return make_source(protocol, replace(config, link=link), settings, sink, options)

    of = protocols_of(AUTO, config, settings)
    if len(of) == 1:
        return make(of[0], sink)
    for protocol in of:
        make(protocol, sink).stop()
    return AutomaticSource(of, make, sink)
