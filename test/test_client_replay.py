# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The client on real sockets against data recorded from the real library's server."""

import sys
import threading

from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.link import LinkState
import pytest
import rawvrpn
from server_kit import free_port, ReplayServer
import sessions
from transport_kit import client, link, SlowRecorder

BOTH = pytest.mark.parametrize('way', ['udp', 'tcp'])


def as_rows(items):
    """Give the bodies of frames, and motions, as the rows of a ``.sent.csv.gz`` have them."""
    return [row for item in items for row in map(
        sessions.as_row, item.bodies if isinstance(item, Frame) else [item]) if row]


def of_kinds(found):
    """Sort rows by their kind: the poses of a time are one frame, whatever lies between them."""
    return sorted(found, key=lambda row: row[0])


def reports(sink):
    return as_rows(sink.events)


def rows(name):
    return [
        (row.kind, row.body, 0, row.sender_time_ns, row.vector, row.quat_xyzw,
         0.0 if row.kind == 'pose' else row.dt)
        for row in sessions.sent(name)]


def part(name, seconds):
    """Cut a recorded session off after some time, and what was sent in it."""
    (session,) = sessions.sessions(name)
    actions = session.server_actions
    end_ns = actions[0].time_ns + round(seconds * 1e9)
    kept = [action for action in actions if action.time_ns <= end_ns]
    return session._replace(server_actions=kept)


def check_arrivals(sink):
    """Arrivals are never later than the call that brings them, nor earlier than the last."""
    last = 0
    for events, arrival_ns, host_minus_arrival_ns, called_ns in sink.batches:
        assert arrival_ns <= called_ns
        assert called_ns - arrival_ns < 5_000_000_000
        assert host_minus_arrival_ns > 0
        if as_rows(events):
            assert arrival_ns >= last
            last = arrival_ns


@BOTH
@pytest.mark.parametrize('name', ['motive_like_5x240', 'udp_lob', 'tcp_only'])
def test_every_report_arrives_in_order_with_every_bit(name, way):
    expected = rows(name)
    with ReplayServer(sessions.sessions(name)) as server:
        with client(server.port, link=link(connection=way)) as (running, sink):
            server.wait(60.0)
            assert server.ways == [way]
            # What the kernel has on its way no table shows.
            sink.wait(lambda: len(reports(sink)) >= len(expected))
    # Read is not yet handled; a client that has stopped has handled all that it read.
    counters = running.status().counters
    assert of_kinds(reports(sink)) == of_kinds(expected)
    assert len(reports(sink)) > 200
    check_arrivals(sink)
    for counter in ('malformed', 'unknown_sender', 'unknown_type', 'bad_time', 'udp_lost',
                    'udp_reordered', 'udp_repeated', 'names_refused'):
        assert counters[counter] == 0, counter
    assert counters['poses'] == len(sink.poses)
    assert (counters['datagrams'] > 0) == (way == 'udp' and name != 'tcp_only')


def poses_by_hand(session):
    """Take the poses of a recorded session apart with nothing but ``struct``."""
    messages = []
    for action in session.server_actions:
        data = action.data
        messages += rawvrpn.parse(data[24:] if data.startswith(b'vrpn: ver.') else data)
    names, types = rawvrpn.described(messages, -1), rawvrpn.described(messages, -2)
    pose_type = next(n for n, text in types.items() if text == 'vrpn_Tracker Pos_Quat')
    return rawvrpn.poses(messages, names, pose_type)


@BOTH
def test_a_late_server_that_restarts_is_followed(way):
    recorded = sessions.sessions('late_server_then_restart')
    port = free_port()
    with client(port, link=link(connection=way)) as (running, sink):
        sink.wait_state(LinkState.LOST, 2)
        assert 'nothing listens' in sink.reasons(LinkState.LOST)[0]
        with ReplayServer(recorded, port=port) as server:
            server.wait(60.0)
            assert server.ways == [way, way]
    status = running.status()
    found = [(p.name, p.sender_time_ns // 1000, p.position, p.quat_xyzw) for p in sink.poses]
    assert found == [pose for session in recorded for pose in poses_by_hand(session)]
    assert len(found) > 60
    assert sink.states.count(LinkState.STREAMING) == 2
    assert any('closed the connection' in reason for reason in sink.reasons(LinkState.LOST))
    # Counters run through all conversations.
    assert (status.sessions, status.counters['poses']) == (2, len(found))


@pytest.mark.skipif(not sys.platform.startswith('linux'), reason='kernel stamps are Linux')
@BOTH
def test_arrivals_are_those_of_the_kernel(way):
    """What arrives while the sink is busy has arrived then, and not when it was read."""
    # The server goes on meanwhile, every 0.1 s, until its action at 0.9 s waits for the gate,
    # which opens when what waited was read: nothing fresh comes with it.
    gate, played = threading.Event(), [part('udp_lob', 1.0)]
    with ReplayServer(played, real_time=True, gate=gate, hold_before=12) as server:
        sink = SlowRecorder()
        with client(server.port, sink, link=link(connection=way)):
            sink.wait(lambda: sink.poses)
            assert server.held.wait(30.0)
            threading.Event().wait(0.3)
            sink.go_on.set()
            sink.wait(lambda: sum(bool(as_rows(b[0])) for b in sink.batches) > 1)
            gate.set()
            server.wait(30.0)
    check_arrivals(sink)
    pose_batches = [b for b in sink.batches if as_rows(b[0])]
    let_go_ns = min(b[3] for b in pose_batches[1:])
    waited = [let_go_ns - b[1] for b in pose_batches[1:] if b[1] < let_go_ns]
    # By TCP all that waited is one read, which arrived when its last byte did.
    assert len(waited) >= (3 if way == 'udp' else 1)
    assert max(waited) > 250_000_000
