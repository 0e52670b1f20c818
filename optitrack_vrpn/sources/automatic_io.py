# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The source that uses NatNet if it streams, else VRPN: for servers whose protocol is not set.

NatNet is preferred because it has exposure times and a tracking flag for each body. VRPN is
started if NatNet does not answer at once, and chosen if it has poses and NatNet has none. A choice
stays until its stream has ended: a protocol that appears later does not interrupt it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
import enum
import logging
import threading
from typing import Any, Optional

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import TransportError
from optitrack_vrpn.events import Event
from optitrack_vrpn.sources import AUTO, RoundTrip, SourceOptions
from optitrack_vrpn.sources.client_io import LinkStatus, report_change, Sink, Source
from optitrack_vrpn.sources.config import ClientConfig
from optitrack_vrpn.sources.link import link_event, LinkState
from optitrack_vrpn.sources.natnet.client_io import NatNetClient
from optitrack_vrpn.sources.natnet.settings import NatNetConfig
from optitrack_vrpn.sources.vrpn.client_io import make_backend as make_vrpn_backend
from optitrack_vrpn.sources.vrpn.frames import FrameSink
from optitrack_vrpn.units import NS_PER_S

_LOG = logging.getLogger(__name__)
#: Chosen: period of the checks (s); it adds to the times in ``choice.py``.
_CHECK_S = 0.25
#: Chosen: round trips kept until a protocol is selected, twice the initial ones of a connection.
_ECHOES = 32
#: Chosen: VRPN is also tried after this time (ns); a NatNet server answers within milliseconds.
NATNET_FIRST_NS = 1_500_000_000
#: Chosen: time (ns) for NatNet's model definitions after VRPN has poses.
GRACE_NS = 1_500_000_000
#: A selected stream without poses for this time (ns) has ended, and both protocols are tried
#: again. Measured: the poses of the other protocol follow 9.4 s after the last one.
GIVE_UP_NS = 5 * NS_PER_S


class Protocol(enum.Enum):
    """A protocol that carries poses."""

    NATNET = 'natnet'
    VRPN = 'vrpn'


@dataclass
class Decision:
    """
    The next action.

    :ivar start_vrpn: whether to start the VRPN client.
    :ivar chosen: protocol to use, while the other is stopped; None to change nothing.
    :ivar reset: whether to use neither and to try both again.
    :ivar reason: the reason, for the log.
    """

    start_vrpn: bool = False
    chosen: Optional[Protocol] = None
    reset: bool = False
    reason: str = ''


@dataclass
class _Seen:
    reason: str = 'not started'
    poses_ns: Optional[int] = None


@dataclass
class Choice:
    """
    Choose between two protocols.

    :param now_ns: present time (ns) on a monotonic clock.
    """

    now_ns: int
    chosen: Optional[Protocol] = None
    vrpn_started: bool = False
    _since_ns: int = 0
    _seen: dict[Protocol, _Seen] = field(default_factory=dict)
    _silent_from_ns: Optional[int] = None

    def __post_init__(self) -> None:
        """Start without reports from either protocol."""
        self._begin(self.now_ns)

    def _begin(self, now_ns: int) -> None:
        self.chosen = None
        self.vrpn_started = False
        self._since_ns = now_ns
        self._seen = {protocol: _Seen() for protocol in Protocol}
        self._silent_from_ns = None

    def changed(self, protocol: Protocol, state: LinkState, reason: str, now_ns: int) -> None:
        """Process a change of one protocol's connection."""
        seen = self._seen[protocol]
        seen.reason = reason
        if state is LinkState.STREAMING and seen.poses_ns is None:
            seen.poses_ns = now_ns
        elif state is not LinkState.STREAMING:
            seen.poses_ns = None

    def decide(self, now_ns: int) -> Decision:
        """Return the decision; call it after every change and several times a second."""
        natnet, vrpn = self._seen[Protocol.NATNET], self._seen[Protocol.VRPN]
        if self.chosen is not None:
            return self._watch(self._seen[self.chosen], now_ns)
        if natnet.poses_ns is not None:
            self.chosen = Protocol.NATNET
            return Decision(chosen=self.chosen, reason=(
                'NatNet is used: it streams bodies, with exposure times and tracking flags'))
        if not self.vrpn_started:
            if now_ns - self._since_ns < NATNET_FIRST_NS:
                return Decision()
            self.vrpn_started = True
            return Decision(start_vrpn=True)
        if vrpn.poses_ns is None or now_ns - vrpn.poses_ns < GRACE_NS:
            return Decision()
        self.chosen = Protocol.VRPN
        return Decision(chosen=self.chosen, reason=(
            'VRPN is used: it streams poses, NatNet does not: '
            f'{natnet.reason}. Stamps are arrival times at best, and a tracking flag is missing; '
            'for both, enable NatNet streaming in Motive and start this node again'))

    def _watch(self, seen: _Seen, now_ns: int) -> Decision:
        if seen.poses_ns is not None:
            self._silent_from_ns = None
            return Decision()
        if self._silent_from_ns is None:
            self._silent_from_ns = now_ns
        if now_ns - self._silent_from_ns < GIVE_UP_NS:
            return Decision()
        assert self.chosen is not None
        name = self.chosen.value
        self._begin(now_ns)
        return Decision(reset=True, reason=(
            f'{name} has had no pose for {GIVE_UP_NS / NS_PER_S:g} s: '
            'both protocols are tried again'))


class _Gate:
    """Pass the events of one protocol on while it is chosen, and always its link changes."""

    def __init__(self, owner: 'AutomaticSource', protocol: Protocol) -> None:
        self._owner = owner
        self.protocol = protocol

    def receive(
        self, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Pass events on if this protocol is chosen."""
        self._owner.received(self, events, arrival_ns, host_minus_arrival_ns)

    def link_changed(self, change: Event) -> None:
        """Process a change of this protocol's connection."""
        self._owner.changed(self, change)


class AutomaticSource:
    """
    Receive a server's stream by NatNet if it offers that, else by VRPN.

    :param config: which server, as for VRPN.
    :param natnet: what belongs to NatNet alone.
    :param sink: gets the events of the chosen protocol, one at a time.
    :param up_axis: as for ``factory_io.make_backend``.
    :raises BackendUnavailableError: if the VRPN backend is not installed.
    """

    def __init__(
        self, config: ClientConfig, natnet: NatNetConfig, sink: Sink, up_axis: str = '',
    ) -> None:
        if config.server != AUTO:
            # Report a missing backend here; on the thread, the error would end both clients.
            make_vrpn_backend(config, FrameSink(sink)).stop()
        self._config = config
        self._natnet = natnet
        self._up_axis = up_axis
        self._sink = sink
        self._clock = HostClock()
        self._choice = Choice(self._clock.now_ns())
        # Protocol whose events reach the sink: the chosen one, after the sink has its link state.
        self._passing: Optional[Protocol] = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: Optional[threading.Thread] = None
        self._gates: dict[Protocol, _Gate] = {}
        self._backends: dict[Protocol, Source] = {}
        self._last: dict[Protocol, Event] = {}
        #: Round trips measured before a choice; the first stamps need them.
        self._echoes: deque[tuple[Sequence[Any], int, int]] = deque(maxlen=_ECHOES)

    def start(self) -> None:
        """
        Start both attempts; return immediately.

        :raises TransportError: if it was started or stopped before.
        """
        if self._thread is not None or self._stopping:
            raise TransportError('a backend can be started only once')
        thread = threading.Thread(target=self._run, name='protocol choice', daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Stop both clients and the thread; idempotent."""
        self._stopping = True
        self._wake.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def status(self) -> LinkStatus:
        """Return the status of the chosen connection; before a choice, that of NatNet."""
        chosen = self._choice.chosen or Protocol.NATNET
        backend = self._backends.get(chosen)
        return backend.status() if backend is not None else LinkStatus(
            LinkState.STOPPED, 'not started')

    def record(self, take: str) -> None:
        """Start a recording in Motive if NatNet is used."""
        self._with_natnet(lambda client: client.record(take), 'start')

    def stop_recording(self) -> None:
        """Stop the recording in Motive if NatNet is used."""
        self._with_natnet(lambda client: client.stop_recording(), 'stop')

    def _with_natnet(self, action: Callable[[NatNetClient], None], what: str) -> None:
        client = self._backends.get(Protocol.NATNET)
        if self._choice.chosen is Protocol.VRPN or not isinstance(client, NatNetClient):
            self._cannot(what)
            return
        action(client)

    def _cannot(self, what: str) -> None:
        self._message(
            f'cannot {what} a recording in Motive: VRPN is used, which has no such command',
            'error')

    # -- from the clients' threads -------------------------------------------------------------

    def received(
        self, gate: _Gate, events: Sequence[Any], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Pass on events of the chosen protocol; drop those of a client that was replaced."""
        if self._gates.get(gate.protocol) is not gate:
            return
        if self._passing is gate.protocol:
            self._sink.receive(events, arrival_ns, host_minus_arrival_ns)
        elif self._passing is None and isinstance(events[0], RoundTrip):
            self._echoes.append((events, arrival_ns, host_minus_arrival_ns))

    def changed(self, gate: _Gate, change: Event) -> None:
        """Process a change of one connection, and carry out the decision that follows."""
        with self._lock:
            if self._gates.get(gate.protocol) is not gate:
                return
            repeated = gate.protocol in self._last and (
                change.data is self._last[gate.protocol].data)
            self._last[gate.protocol] = change
            self._choice.changed(
                gate.protocol, change.data, change.text, self._clock.now_ns())
            chosen = self._choice.chosen
        self._wake.set()
        if chosen is gate.protocol:
            report_change(self._sink, change)
        elif chosen is None and (change.severity != 'info' or not repeated):
            report_change(self._sink, change._replace(
                text=f'{gate.protocol.value}: {change.text}', data=_shown(change.data)))

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._launch(Protocol.NATNET)
            while True:
                self._wake.wait(_CHECK_S)
                self._wake.clear()
                if self._stopping:
                    return
                with self._lock:
                    decision = self._choice.decide(self._clock.now_ns())
                self._carry_out(decision)
        except Exception as error:
            _LOG.exception('a bug in the choice of the protocol')
            self._message(f'a bug in the choice of the protocol: {error!r}', 'error')
        finally:
            for protocol in Protocol:
                self._end(protocol)

    def _carry_out(self, decision: Decision) -> None:
        if decision.start_vrpn:
            if self._config.server == AUTO:
                return    # only NatNet can be searched
            self._launch(Protocol.VRPN)
        if decision.chosen is not None:
            natnet = self._backends.get(Protocol.NATNET)
            if decision.chosen is Protocol.VRPN and isinstance(natnet, NatNetClient) and (
                    natnet.waiting_commands):
                self._cannot('start')
            self._end(Protocol.VRPN if decision.chosen is Protocol.NATNET else Protocol.NATNET)
            self._message(
                decision.reason, 'info' if decision.chosen is Protocol.NATNET else 'warn')
            # The sink has not received the link state of this connection yet.
            change = self._last[decision.chosen]
            report_change(self._sink, change._replace(
                severity='info', data=LinkState.CONNECTED,
                text=f'connected by {decision.chosen.value}'))
            while decision.chosen is Protocol.NATNET and self._echoes:
                self._sink.receive(*self._echoes.popleft())
            self._echoes.clear()
            self._passing = decision.chosen
            report_change(self._sink, change)
        if decision.reset:
            self._passing = None
            self._message(decision.reason, 'warn')
            for protocol in Protocol:
                self._end(protocol)
            self._launch(Protocol.NATNET)

    def _launch(self, protocol: Protocol) -> None:
        gate = _Gate(self, protocol)
        backend: Source
        if protocol is Protocol.NATNET:
            backend = NatNetClient(
                self._config, self._natnet, gate, up_axis=self._up_axis)
        else:
            backend = make_vrpn_backend(self._config, FrameSink(gate))
        with self._lock:
            self._gates[protocol] = gate
            self._backends[protocol] = backend
        backend.start()

    def _end(self, protocol: Protocol) -> None:
        with self._lock:
            self._gates.pop(protocol, None)
            backend = self._backends.pop(protocol, None)
        if backend is not None:
            backend.stop()

    def _message(self, text: str, severity: str) -> None:
        chosen = self._choice.chosen
        last = self._last.get(chosen) if chosen is not None else None
        state = last.data if last is not None else LinkState.CONNECTING
        report_change(self._sink, link_event(state, text, severity))


def _shown(state: LinkState) -> LinkState:
    """Return the state to report for a protocol that is not chosen: never a streaming one."""
    return LinkState.CONNECTING if state in (
        LinkState.CONNECTED, LinkState.STREAMING, LinkState.SILENT) else state


def make_source(
    config: ClientConfig, settings: Any, sink: Sink, options: SourceOptions,
) -> Source:
    """Create the source that uses NatNet if it streams, else VRPN; see ``sources.SourceKind``."""
    return AutomaticSource(
        config, replace(settings.natnet, markers=options.markers), sink, options.up_axis)
