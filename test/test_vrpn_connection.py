# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Whole conversations: recorded data in arbitrary pieces, and invalid data."""

from collections import Counter

from conftest import examples, memory_growth
from hypothesis import example, given, settings, strategies as st
from optitrack_vrpn.core.errors import RemoteProtocolError
from optitrack_vrpn.drivers.frames import Frame
from optitrack_vrpn.drivers.vrpn import codec, codec as constants, codec as messages
from optitrack_vrpn.drivers.vrpn.codec import LocalNames
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection, VrpnCounters
from optitrack_vrpn.drivers.vrpn.frames import to_frames
import pytest
import sessions

POSE = codec.encode_pose(0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
MOTION = codec.encode_motion(0, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0), 0.1)
PAYLOADS = {constants.POSE_TYPE: POSE, constants.VELOCITY_TYPE: MOTION}


def receive(session):
    """Feed a recorded session into a fresh conversation."""
    connection, events = VrpnConnection(), []
    for action in session.server_actions:
        events += (connection.receive_stream(action.data) if action.kind == 'tcp' else
                   poses_apart(connection.receive_datagram(action.data)))
    return connection, events


def poses_apart(items):
    """Return the bodies of frames, and other items unchanged."""
    apart = []
    for item in items:
        apart += item.bodies if isinstance(item, Frame) else [item]
    return apart


def described_bytes(events):
    return [row for row in map(sessions.as_row, events) if row]


@pytest.mark.parametrize('name', ['motive_like_5x240', 'udp_lob', 'tcp_only'])
def test_reports_of_the_real_library_keep_every_bit(name):
    (session,) = sessions.sessions(name)
    connection, events = receive(session)
    # A frame comes before the velocities between its poses.
    reports = sorted(described_bytes(events), key=lambda report: report[0] == 'pose')
    expected = sorted(sessions.sent(name), key=lambda row: row.kind == 'pose')
    assert len(reports) == len(expected) > 200
    for report, row in zip(reports, expected):
        assert report[:-1] == (
            row.kind, row.body, 0, row.sender_time_ns, row.vector, row.quat_xyzw)
        assert row.kind == 'pose' or report[-1] == row.dt
    for counter in ('malformed', 'unknown_sender', 'unknown_type', 'bad_time', 'udp_lost',
                    'udp_reordered', 'udp_repeated'):
        assert getattr(connection.counters, counter) == 0, counter
    assert connection.counters.poses == sum(row.kind == 'pose' for row in expected)


def test_texts_and_pongs_of_the_real_library():
    (session,) = sessions.sessions('udp_lob')
    _, events = receive(session)
    texts = [e for e in events if isinstance(e, messages.TextReport)]
    assert [(t.severity, t.level, t.text) for t in texts][-1] == (1, 7, 'frame 30')
    assert len(texts) == 3
    assert sum(isinstance(e, messages.PongReport) for e in events) == 3


def test_a_restarted_servers_new_ids_are_new_names():
    before, after = sessions.sessions('late_server_then_restart')
    for session in (before, after):
        connection, events = receive(session)
        poses = [e for e in events if isinstance(e, messages.PoseReport)]
        assert poses and {p.name for p in poses} == {'rigid_body_1'}
        assert connection.counters.unknown_sender == 0


def test_client_side_bytes_are_a_clients():
    for session in sessions.sessions('two_clients'):
        server = VrpnConnection()
        events = server.receive_stream(session.client_stream)
        pings = {e.sender for e in events if isinstance(e, messages.PingReport)}
        assert 'rigid_body_1' in pings or 'rigid_body_2' in pings


def stream_of(name):
    (session,) = sessions.sessions(name)
    return b''.join(a.data for a in session.server_actions if a.kind == 'tcp')


TCP_STREAM = stream_of('tcp_only')
WHOLE = VrpnConnection().receive_stream(TCP_STREAM)


@example(range(1, len(TCP_STREAM)))
@given(st.lists(st.integers(1, len(TCP_STREAM) - 1), max_size=40))
def test_any_chunking_gives_the_same_events(cuts):
    connection, events = VrpnConnection(), []
    edges = [0, *sorted(cuts), len(TCP_STREAM)]
    for begin, end in zip(edges, edges[1:]):
        events += connection.receive_stream(TCP_STREAM[begin:end])
    assert events == WHOLE


@given(st.lists(st.binary(max_size=300), max_size=8), st.booleans())
def test_arbitrary_bytes_give_events_or_the_remote_error(chunks, with_cookie):
    connection = VrpnConnection()
    try:
        if with_cookie:
            connection.receive_stream(codec.encode_cookie())
        for chunk in chunks:
            connection.receive_datagram(chunk)
            connection.receive_stream(chunk)
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError):
            connection.receive_stream(b'')


@settings(max_examples=examples(300))
@given(st.lists(st.integers(1, 3999), max_size=30),
       st.dictionaries(st.integers(24, 3999), st.integers(0, 255), min_size=1, max_size=6))
def test_events_before_a_fault_do_not_depend_on_the_chunking(cuts, damage):
    stream = bytearray(TCP_STREAM[:4000])
    for at, value in damage.items():
        stream[at] = value
    heard = []
    for edges in ([0, 4000], [0, *sorted(cuts), 4000]):
        connection, events, fault = VrpnConnection(), [], None
        for begin, end in zip(edges, edges[1:]):
            try:
                events += connection.receive_stream(stream[begin:end])
            except RemoteProtocolError as error:
                events += connection.events_before_fault
                fault = str(error)
                break
        assert len(connection.remote.senders) <= constants.MAX_IDS
        heard.append((str(events), fault))   # as text, in which NaN equals itself
    assert heard[0] == heard[1]


@pytest.mark.parametrize('length', [0, 23, constants.MAX_MESSAGE_SIZE + 1, 2**32 - 1])
def test_lengths_that_cannot_be_end_the_conversation(length):
    connection = VrpnConnection()
    connection.receive_stream(codec.encode_cookie())
    with pytest.raises(RemoteProtocolError, match=f'message of {length} bytes'):
        connection.receive_stream(length.to_bytes(4, 'big') + bytes(20))


def test_an_endless_partial_message_is_bounded():
    connection = VrpnConnection()
    connection.receive_stream(codec.encode_cookie())
    head = codec.HEADER.pack(constants.MAX_MESSAGE_SIZE, 0, 0, 0, 99, 0)

    def receive(_):
        connection.receive_stream(head)
        connection.receive_stream(bytes(constants.MAX_MESSAGE_SIZE - len(head)))
    assert memory_growth(receive, 2) < constants.MAX_MESSAGE_SIZE // 2
    assert connection.counters.unknown_type == 4


def test_the_number_of_names_is_bounded():
    connection = VrpnConnection()
    connection.receive_stream(codec.encode_cookie())
    for number in range(-5, 5000):
        connection.receive_stream(codec.encode_message(
            number, constants.SENDER_DESCRIPTION, codec.encode_name(f'n{number}'), 0, 0))
    assert len(connection.remote.senders) == constants.MAX_IDS
    assert connection.remote.refused == 5005 - constants.MAX_IDS


def test_a_log_description_writes_nothing(tmp_path):
    connection = VrpnConnection()
    connection.receive_stream(codec.encode_cookie())
    path = tmp_path / 'log'
    name = str(path).encode() + b'\0'
    payload = len(name).to_bytes(4, 'big') + (1).to_bytes(4, 'big') + name + b'\0'
    assert connection.receive_stream(codec.encode_message(
        1, constants.LOG_DESCRIPTION, payload, 0, 0)) == []
    assert not path.exists()


# -- both roles -----------------------------------------------------------------------------------

def connected_pair():
    """Two conversations that have heard each other's cookie."""
    names = LocalNames()
    client, server = VrpnConnection(udp_address=('127.0.0.1', 40000)), VrpnConnection(names)
    events = server.receive_stream(client.data_to_send())
    client.receive_stream(server.data_to_send())
    events += server.receive_stream(client.data_to_send())
    client.receive_stream(server.data_to_send())
    return client, server, events


floats = st.floats(allow_nan=False)
reports = st.tuples(
    st.sampled_from(['a', 'Rigid Body 1', 'drone/left', 'ü']),
    st.integers(0, 3), st.integers(0, 3 * 10**15).map(lambda us: us * 1000),
    st.tuples(floats, floats, floats), st.tuples(floats, floats, floats, floats))


@given(st.lists(reports, max_size=30))
def test_poses_there_and_back_by_either_transport(rows):
    client, server, _ = connected_pair()
    by_tcp, by_udp = [], []
    for sender, sensor, time_ns, position, quat_xyzw in rows:
        payload = codec.encode_pose(sensor, position, quat_xyzw)
        server.send(sender, constants.POSE_TYPE, payload, time_ns)
        by_tcp += client.receive_stream(server.data_to_send())
        by_udp += poses_apart(client.receive_datagram(server.datagram_message(
            sender, constants.POSE_TYPE, payload, time_ns)))
    expected = [messages.PoseReport(*row) for row in rows]
    assert [e for e in by_tcp if isinstance(e, messages.PoseReport)] == expected
    assert by_udp == expected
    assert client.counters.udp_lost == client.counters.malformed == 0


@given(st.lists(st.tuples(
    st.sampled_from(['a', 'b', codec.CONTROL_SENDER]), st.integers(0, 2)), max_size=6))
def test_a_datagram_has_the_frames_of_its_poses(rows):
    client, server, _ = connected_pair()
    datagram, poses = b'', []
    for sender, millisecond in rows:
        pose = messages.PoseReport(
            sender, 0, millisecond * 10**6, (1.0, 2.0, 3.0), (0.0, 0.0, 0.0, 1.0))
        server.send(sender, constants.POSE_TYPE, POSE, pose.sender_time_ns)
        datagram += server.datagram_message(
            sender, constants.POSE_TYPE, POSE, pose.sender_time_ns)
        poses.append(pose)
    client.receive_stream(server.data_to_send())
    assert client.receive_datagram(datagram) == to_frames(poses)


def test_the_client_tells_where_it_takes_datagrams():
    _, _, events = connected_pair()
    assert messages.UdpDescribed('127.0.0.1', 40000) in events


def test_a_ping_reaches_the_server_by_name():
    client, server, _ = connected_pair()
    client.ping('wand', 5_000_000_000)
    events = server.receive_stream(client.data_to_send())
    assert messages.PingReport('wand', 5_000_000_000) in events


def numbered(count, kind=constants.POSE_TYPE, first=0):
    """Make a client that knows a sender, and its datagrams of one message, numbered from first."""
    client, server, _ = connected_pair()
    payload = PAYLOADS[kind]
    server.send('wand', kind, payload, 0)
    client.receive_stream(server.data_to_send())
    datagrams = [server.datagram_message('wand', kind, payload, n * 1000) for n in range(count)]
    return client, [datagram[:20] + ((first + n) % 2**32).to_bytes(4, 'big') + datagram[24:]
                    for n, datagram in enumerate(datagrams)]


@pytest.mark.parametrize('kind', PAYLOADS)
@pytest.mark.parametrize('first', [0, 2**32 - 3])
@pytest.mark.parametrize(('parts', 'lost', 'reordered', 'repeated'), [
    ((0, 1, 4, 3, 5, 9), 4, 1, 0),          # 2, 6, 7 and 8 never came
    ((0, 2, 1, 3, 5, 4), 0, 2, 0),
    ((0, 2, 1, 1, 1, 3), 0, 1, 2),          # what comes twice is taken back once
    ((0, 0, 1, 1, 2), 0, 0, 2),
    ((0, 9, 5, 4, 6, 1, 8, 2, 3, 7), 0, 8, 0),
    ((0, 9, 5, 5, 4, 9), 6, 2, 2),
    # datagrams of several messages
    (((0, 1), (8, 9, 10, 11), (5, 6, 7), (2, 3), (5, 6, 7)), 1, 2, 1),
])
def test_late_datagrams_are_not_lost(parts, lost, reordered, repeated, first, kind):
    client, datagrams = numbered(12, kind, first)
    for part in parts:
        part = part if isinstance(part, tuple) else (part,)
        items = client.receive_datagram(b''.join(datagrams[index] for index in part))
        assert len(poses_apart(items)) == len(part)
    counters = client.counters
    assert (counters.udp_lost, counters.udp_reordered, counters.udp_repeated) == (
        lost, reordered, repeated)


@given(st.lists(st.integers(0, 60), max_size=80))
def test_only_datagrams_that_never_arrive_are_lost(order):
    client, datagrams = numbered(61)
    for index in order:
        client.receive_datagram(datagrams[index])
    came = [index for index in order if index >= order[0]]
    assert client.counters.udp_lost == (
        max(came) - order[0] + 1 - len(set(came)) if came else 0)


def test_holes_without_end_fill_no_memory():
    client, datagrams = numbered(2000)
    for datagram in datagrams[::2]:
        client.receive_datagram(datagram)
    for datagram in datagrams[1::2]:
        client.receive_datagram(datagram)
    assert client.counters.udp_lost == 999 - 256
    assert client.counters.udp_reordered == 256


def test_names_in_datagrams_are_ignored():
    client, _, _ = connected_pair()
    before = Counter(client.remote.senders.values())
    client.receive_datagram(codec.encode_message(
        7, constants.SENDER_DESCRIPTION, codec.encode_name('intruder'), 0, 0))
    assert Counter(client.remote.senders.values()) == before
    assert client.counters.malformed == 1


def test_the_first_event_is_the_peers_version():
    for cookie, note in ((codec.encode_cookie(), ''), (b'vrpn: ver. 07.33  0\0\0\0\0\0', '07.33')):
        hello, *others = VrpnConnection().receive_stream(cookie)
        assert isinstance(hello, messages.PeerHello) and hello.major == 7 and not others
        assert note in hello.note and bool(hello.note) == bool(note)


def test_datagrams_of_unknown_senders_are_counted():
    client, (datagram, *_) = numbered(2)
    fresh = VrpnConnection()
    assert fresh.receive_datagram(datagram) == []
    assert (fresh.counters.unknown_sender, fresh.counters.datagrams) == (1, 1)
    undescribed = datagram[:12] + (77).to_bytes(4, 'big') + datagram[16:]
    poses = client.counters.poses
    assert client.receive_datagram(undescribed + datagram)[0].bodies[0].name == 'wand'
    assert (client.counters.unknown_sender, client.counters.poses) == (1, poses + 1)


@pytest.mark.parametrize('rest', [
    lambda message: message[:1], lambda message: message[:23], lambda message: message[:60],
    *(lambda message, size=size: size.to_bytes(4, 'big') + message[4:] + message
      for size in (0, 23, 2**32 - 1))])
def test_a_datagram_is_read_up_to_its_first_part_that_is_no_message(rest):
    client, (datagram, other) = numbered(2)
    messages_before = client.counters.messages
    assert len(client.receive_datagram(datagram + rest(other))) == 1
    assert (client.counters.malformed, client.counters.messages) == (1, messages_before + 1)


SENDER, POSES, VELOCITIES, OTHERS = 7, 40, 41, 42
UNKNOWN = 99
COUNTED = [
    # sender, type, seconds, microseconds, payload, the counter beside `messages`
    (SENDER, POSES, 1, 999_999, POSE, 'poses'),
    (SENDER, POSES, 4_000_000_000, 0, POSE, 'poses'),
    (SENDER, VELOCITIES, 4_000_000_000, 0, MOTION, None),
    (UNKNOWN, POSES, 1, 0, POSE, 'unknown_sender'),
    (UNKNOWN, VELOCITIES, 1, 0, MOTION, 'unknown_sender'),
    (SENDER, UNKNOWN, 1, 0, POSE, 'unknown_type'),
    (SENDER, OTHERS, 1, 0, POSE, 'other_type'),
    (SENDER, OTHERS, 1, 0, b'', 'other_type'),
    (SENDER, POSES, 4_000_000_001, 0, POSE, 'bad_time'),
    (SENDER, POSES, 1, 1_000_000, POSE, 'bad_time'),
    (SENDER, VELOCITIES, 4_000_000_001, 0, MOTION, 'bad_time'),
    (SENDER, VELOCITIES, 1, 1_000_000, MOTION, 'bad_time'),
    (SENDER, POSES, 1, 0, POSE[:56], 'malformed'),
    (SENDER, POSES, 1, 0, MOTION, 'malformed'),
    (SENDER, VELOCITIES, 1, 0, POSE, 'malformed'),
    (SENDER, constants.SENDER_DESCRIPTION, 1, 0, b'\0\0\0\0', 'malformed'),
]


@pytest.mark.parametrize('before', [0, 1, 2])
@pytest.mark.parametrize('by_tcp', [False, True])
@pytest.mark.parametrize('sender, type_id, seconds, microseconds, payload, counter', COUNTED)
def test_each_message_is_counted_once(
        sender, type_id, seconds, microseconds, payload, counter, by_tcp, before):
    """Alone and after others, whichever way it is decoded."""
    def message(*head_and_payload):
        *head, payload = head_and_payload
        return constants.HEADER.pack(24 + len(payload), *head, 0) + payload + bytes(
            -len(payload) % 8)
    client = VrpnConnection()
    describe = [(SENDER, constants.SENDER_DESCRIPTION, b'wand')] + [
        (number, constants.TYPE_DESCRIPTION, name.encode()) for number, name in (
            (POSES, constants.POSE_TYPE), (VELOCITIES, constants.VELOCITY_TYPE), (OTHERS, 'Any'))]
    client.receive_stream(codec.encode_cookie() + b''.join(
        message(0, 0, number, kind, (len(name) + 1).to_bytes(4, 'big') + name + b'\0')
        for number, kind, name in describe))
    earlier = [message(1, 0, SENDER, POSES, POSE), message(1, 0, SENDER, VELOCITIES, MOTION)]
    data = b''.join(earlier[:before]) + message(seconds, microseconds, sender, type_id, payload)
    if not by_tcp and type_id < 0:
        counter = 'malformed'
    events = client.receive_stream(data) if by_tcp else poses_apart(
        client.receive_datagram(data))
    expected = VrpnCounters(messages=len(describe) + before + 1, poses=min(before, 1),
                            datagrams=not by_tcp)
    if not by_tcp and type_id < 0:
        expected.messages -= 1    # it is not read
    if counter is not None:
        setattr(expected, counter, getattr(expected, counter) + 1)
    assert client.counters == expected
    assert len(events) == before + (counter in (None, 'poses'))


def test_a_type_that_gets_another_name_is_that_of_poses_no_longer():
    client, (datagram, *_) = numbered(1)
    number = int.from_bytes(datagram[16:20], 'big')
    assert len(client.receive_datagram(datagram)) == 1
    client.receive_stream(codec.encode_message(
        number, constants.TYPE_DESCRIPTION, codec.encode_name('Any'), 0, 0))
    assert client.receive_datagram(datagram) == []
    assert client.counters.other_type == 1
