# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run recorded conversations through the node's pipeline, with the recorded arrivals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from optitrack_vrpn.errors import RemoteProtocolError
from optitrack_vrpn.pipeline import Pipeline, Sample
from optitrack_vrpn.recording.raw_session import Session
from optitrack_vrpn.sources.vrpn import Connection, Event, to_frames


class Arrival(NamedTuple):
    """
    Events that arrived together.

    :ivar arrival_ns: arrival on the arrival clock if the recording contains it, else on the host's
        clock (ns).
    :ivar host_minus_arrival_ns: host clock minus arrival clock (ns).
    """

    events: Sequence[Event]
    arrival_ns: int
    host_minus_arrival_ns: int


def arrivals(session: Session) -> Iterator[Arrival]:
    """Return the events of a conversation; bytes that are not VRPN end it."""
    connection = Connection()
    for action in session.read():
        try:
            if action.kind == 'tcp':
                events = connection.receive_stream(action.data)
            else:
                events = connection.receive_datagram(memoryview(action.data))
        except RemoteProtocolError:
            return
        if events:
            yield Arrival(tuple(events), action.arrival_ns, action.host_minus_arrival_ns)


def stamped(sessions: Iterable[Session], pipeline: Pipeline) -> Iterator[tuple[Sample, int]]:
    """
    Return the poses that the node would publish, and their arrival on the host's clock (ns).

    :param pipeline: a new pipeline; afterwards it has the final states of its channels.
    """
    for number, session in enumerate(sessions):
        if number:
            pipeline.reconnected()
        for events, arrival_ns, offset_ns in arrivals(session):
            for sample in pipeline.process(to_frames(events), arrival_ns, offset_ns):
                yield sample, arrival_ns + offset_ns
            pipeline.tick(arrival_ns)
