# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Decode the conversations of a raw recording, and run them through the node's pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
import contextlib
from typing import NamedTuple

from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.driver import Deliver, Finish, ProtocolDriver
from optitrack_vrpn.drivers.frames import Item
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.driver import NatNetDriver
from optitrack_vrpn.drivers.natnet.messages import MessageId
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.drivers.vrpn.driver import VrpnDriver
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import Sample
from optitrack_vrpn.takes.record.raw_session import Action, RawSession


class RawArrival(NamedTuple):
    """
    What arrived together.

    :ivar items: what the driver has decoded.
    :ivar arrival_ns: arrival on the clock of arrivals (ns).
    :ivar host_minus_arrival_ns: host clock minus that clock (ns).
    """

    items: Sequence[Item]
    arrival_ns: int
    host_minus_arrival_ns: int


def arrivals(session: RawSession) -> Iterator[RawArrival]:
    """
    Return the contents of a conversation; bytes of another protocol end it.

    The driver of the client decodes them, at the same times; what it wants to send is left out:
    requests are those that were recorded.
    """
    natnet = NatNetDriver(NatNetConfig(), session.begin_ns) if (
        session.protocol == 'natnet') else None
    driver: ProtocolDriver = natnet or VrpnDriver('')
    latest_ns = 0
    for action in session.read():
        arrival_ns, offset_ns = action.arrival_ns, action.host_minus_arrival_ns
        if natnet is not None:
            _follow_requests(natnet, action)
        if action.kind == 'sent':
            continue
        items = driver.feed(
            f'{session.protocol}/{action.kind}', memoryview(action.data), arrival_ns)
        actions, driver.actions = driver.actions, []
        for one in actions:
            if isinstance(one, Deliver):
                latest_ns = max(latest_ns, one.arrival_ns)
                yield RawArrival(one.items, latest_ns, offset_ns)
        latest_ns = max(latest_ns, arrival_ns)
        if items:
            yield RawArrival(items, latest_ns, offset_ns)
        if any(isinstance(one, Finish) for one in actions) or _has_failed(driver, arrival_ns):
            return


def _has_failed(driver: ProtocolDriver, now_ns: int) -> bool:
    """Return whether the peer does not speak VRPN."""
    if isinstance(driver, VrpnDriver):
        try:
            driver.due(now_ns)
        except RemoteProtocolError:
            return True
    return False


def _follow_requests(driver: NatNetDriver, action: Action) -> None:
    """Pass the requests that were recorded, and their answers, to a driver."""
    with contextlib.suppress(RemoteProtocolError):    # damaged, or of another program
        number, payload = codec.decode_message(action.data)
        if action.kind != 'sent':
            version = codec.bitstream_version(payload) if (
                number == MessageId.RESPONSE and driver.info is not None) else None
            driver.version = version or driver.version
        elif number == MessageId.ECHO_REQUEST:
            driver.echo_request(codec.decode_echo_request(payload))
        elif number == MessageId.REQUEST_MODEL_DEFINITIONS:
            driver.models.request_mask(action.arrival_ns)


def stamped(sessions: Iterable[RawSession], pipeline: Pipeline) -> Iterator[tuple[Sample, int]]:
    """
    Return the poses that the node would publish, and their arrival on the host's clock (ns).

    :param pipeline: a new pipeline; afterwards it has the final states of its channels.
    """
    for session in sessions:
        pipeline.reconnected()
        for items, arrival_ns, offset_ns in arrivals(session):
            for sample in pipeline.process(items, arrival_ns, offset_ns).samples:
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
