# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decode the conversations of a raw recording, and run them through the node's pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
from typing import Any, NamedTuple

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.connection import (
    bitstream_version, FIRST_ECHOES, NatNetConnection)
from optitrack_vrpn.drivers.natnet.messages import (
    Disconnected, Echo, Event, Held, MessageId, NatNetFrame, ServerInfo, Untimed)
from optitrack_vrpn.drivers.natnet.reports import Translator
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
from optitrack_vrpn.drivers.vrpn.frames import to_frames
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import Sample
from optitrack_vrpn.takes.record.raw_session import Action, RawSession

#: As in drivers/natnet/session_io: frames wait so long (ns) for the first round trips.
_CLOCK_WAIT_NS = 600_000_000


class RawArrival(NamedTuple):
    """
    What arrived together.

    :ivar items: events of VRPN, or neutral frames and round trips of NatNet.
    :ivar arrival_ns: arrival on the clock of arrivals (ns).
    :ivar host_minus_arrival_ns: host clock minus that clock (ns).
    """

    items: Sequence[Any]
    arrival_ns: int
    host_minus_arrival_ns: int


def arrivals(session: RawSession) -> Iterator[RawArrival]:
    """Return the contents of a conversation; bytes of another protocol end it."""
    return (_natnet if session.protocol == 'natnet' else _vrpn)(session)


def _vrpn(session: RawSession) -> Iterator[RawArrival]:
    connection = VrpnConnection()
    for action in session.read():
        try:
            if action.kind == 'tcp':
                events = connection.receive_stream(action.data)
            else:
                events = connection.receive_datagram(memoryview(action.data))
        except RemoteProtocolError:
            return
        if events:
            yield RawArrival(tuple(events), action.arrival_ns, action.host_minus_arrival_ns)


def _natnet(session: RawSession) -> Iterator[RawArrival]:
    """Do with the datagrams what the client did, at the same times."""
    connection, translator = NatNetConnection(session.begin_ns), Translator(0)
    ready_ns = latest_ns = 0
    for action in session.read():
        now_ns, offset_ns = action.arrival_ns, action.host_minus_arrival_ns
        for event in _events(connection, action):
            if isinstance(event, ServerInfo):
                translator = Translator(event.frequency)
                ready_ns = now_ns + (_CLOCK_WAIT_NS if event.frequency else 0)
            elif isinstance(event, Untimed):
                translator.frequency, ready_ns = 0, now_ns
            elif isinstance(event, Disconnected):
                return
            elif isinstance(event, Echo) and translator.frequency:
                yield RawArrival([translator.echo(*event)], now_ns, offset_ns)
            elif isinstance(event, (NatNetFrame, Held)):
                frame, at_ns, names = event if isinstance(event, Held) else (
                    event, now_ns, connection.models.names)
                latest_ns = max(latest_ns, at_ns)
                if now_ns < ready_ns and connection.counters.echoes < FIRST_ECHOES:
                    continue
                translator.names = names
                named = translator.frame(frame)
                if named is not None:
                    yield RawArrival([named], latest_ns, offset_ns)


def _events(connection: NatNetConnection, action: Action) -> list[Event]:
    """Pass a datagram to a connection; requests are those that were recorded."""
    with contextlib.suppress(RemoteProtocolError):    # damaged, or of another program
        number, payload = codec.decode_message(action.data)
        if action.kind != 'sent':
            version = bitstream_version(codec.response_text(payload)) if (
                number == MessageId.RESPONSE) else None
            if version is not None and version >= (3, 0) and connection.established:
                connection.version = version
        elif number == MessageId.ECHO_REQUEST:
            connection.echo_request(codec.decode_echo_request(payload))
        elif number == MessageId.REQUEST_MODEL_DEFINITIONS:
            connection.models.request_mask(action.arrival_ns)
    return [] if action.kind == 'sent' else connection.receive(action.data, action.arrival_ns)


def stamped(sessions: Iterable[RawSession], pipeline: Pipeline) -> Iterator[tuple[Sample, int]]:
    """
    Return the poses that the node would publish, and their arrival on the host's clock (ns).

    :param pipeline: a new pipeline; afterwards it has the final states of its channels.
    """
    for session in sessions:
        pipeline.reconnected()
        for items, arrival_ns, offset_ns in arrivals(session):
            frames = to_frames(items) if session.protocol == 'vrpn' else items
            for sample in pipeline.process(frames, arrival_ns, offset_ns):
                yield sample, arrival_ns + offset_ns
            pipeline.tick(arrival_ns)


def of_one_protocol(sessions: Sequence[RawSession]) -> list[RawSession]:
    """Return the conversations of the protocol that was recorded for the longest time."""
    spans: dict[str, int] = {}
    for session in sessions:
        spans[session.protocol] = spans.get(session.protocol, 0) + (
            session.end_ns - session.begin_ns)
    best = max(spans, key=lambda name: spans[name])
    return [session for session in sessions if session.protocol == best]
