# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The client's side of a NatNet conversation, without sockets."""

import collections
import struct

from optitrack_vrpn.core.errors import LocalProtocolError
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.connection import bitstream_version, NatNetConnection
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    Definitions, Disconnected, Echo, FRAME_BITSTREAM_CHANGED, MessageId, NatNetFrame, Response,
    ServerInfo, Unanswered, Unrecognized, Untimed)
import pytest

S = 1_000_000_000
INFO = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, False, '')


def connected(info=INFO):
    connection = NatNetConnection(0)
    connection.receive(codec.encode_server_info(info), 0)
    return connection


def sent(connection, now_ns):
    return [codec.decode_message(datagram)[0] for datagram in connection.due(now_ns)]


def frame(number, version=(4, 1), params=0, ticks=1):
    return encode_frame(NatNetFrame(
        number, [], [], 0.0, 0, 0, 0.0, ticks, ticks, ticks, 0, 0, params), version)


def commands(datagrams):
    return [codec.decode_request(payload) for kind, payload in map(
        codec.decode_message, datagrams) if kind == MessageId.REQUEST]


def test_a_server_without_frames_is_asked_again():
    connection = connected()
    for quarter in range(1, 5):
        now = quarter * S // 4
        token = codec.decode_message(connection.echo_request(now))[1]
        connection.receive(codec.encode_echo_response(int.from_bytes(token, 'little'), 1), now)
        assert (MessageId.CONNECT in sent(connection, now)) is (quarter == 4)


def test_frames_of_another_version_do_not_keep_a_connection():
    connection = connected()
    assert commands(connection.due(0)) == ['Bitstream']
    connection.receive(codec.encode_response('Bitstream,4.1.0.0'), 0)
    connection.receive(encode_definitions(Definitions(()), (4, 1)), 0)
    for number in range(10):
        connection.receive(frame(number, (3, 0)), number * S // 10)
        assert set(sent(connection, number * S // 10)) <= {MessageId.KEEP_ALIVE}
    assert connection.failing == 10
    asked = connection.due(S)
    assert commands(asked) == ['Bitstream']
    assert {MessageId.CONNECT, MessageId.REQUEST_MODEL_DEFINITIONS} < {
        codec.decode_message(datagram)[0] for datagram in asked}
    connection.receive(codec.encode_response('Bitstream,3.0.0.0'), S)
    assert connection.receive(frame(11, (3, 0)), S) and not connection.failing


def test_a_change_of_the_bitstream_is_asked_for_once():
    connection = connected()
    asked = []
    for number in range(100):
        asked += commands(connection.due(number * S // 100))
        if asked:
            connection.receive(codec.encode_response('Bitstream,4.1.0.0'), number * S // 100)
        connection.receive(
            frame(number, params=FRAME_BITSTREAM_CHANGED * (number > 50)), number * S // 100)
    assert asked == ['Bitstream', 'Bitstream']


@pytest.mark.parametrize('kind', [MessageId.DISCONNECT, MessageId.DISCONNECT_BY_TIMEOUT])
def test_a_server_that_says_goodbye_ends_the_conversation(kind):
    event, = connected().receive(struct.pack('<HH', kind, 0), S)
    assert isinstance(event, Disconnected) and event.reason


def test_messages_of_unknown_kinds_are_counted():
    connection = connected()
    assert connection.receive(struct.pack('<HH', 4711, 0), S) == []
    assert connection.counters.other_type == 1


@pytest.mark.parametrize('change', [
    {'version': (3, 0)}, {'group': '239.255.42.98'}, {'frequency': 10**6}])
def test_a_server_with_other_settings_ends_the_conversation(change):
    connection = connected()
    assert connection.receive(codec.encode_server_info(INFO), S) == []
    (event,) = connection.receive(codec.encode_server_info(INFO._replace(**change)), S)
    assert isinstance(event, Disconnected) and event.reason


REGULAR = range(0, 300, 3)    # a server that sends every third frame


@pytest.mark.parametrize('numbers, lost, reordered, repeated', [
    (REGULAR, 0, 0, 0), ([*REGULAR, 303, 306], 1, 0, 0), ([*REGULAR, 306, 303, 309], 1, 1, 0),
    ([*REGULAR, 300, 300], 0, 0, 1), ([*REGULAR, 5, 8, 11], 0, 0, 0), ([*REGULAR, 9_999], 0, 0, 0),
    (range(100), 0, 0, 0), ([*range(100), 103], 3, 0, 0), ([*REGULAR, *range(300, 399)], 0, 0, 0),
    # A copy of a frame that had arrived finds none of the lost ones.
    ([*REGULAR, 306, 294], 2, 0, 1), ([*REGULAR, 306, 303, 303], 1, 1, 1)])
def test_lost_frames_show_in_the_numbering(numbers, lost, reordered, repeated):
    connection = connected()
    for number in numbers:
        connection.receive(frame(number), number)
    counters = connection.counters
    assert (counters.udp_lost, counters.udp_reordered, counters.udp_repeated) == (
        lost, reordered, repeated)


@pytest.mark.parametrize('pause_ns, lost', [(S // 10, 9), (S, 0)])
def test_frames_of_an_interruption_are_not_counted_as_lost(pause_ns, lost):
    """A server that restarts continues its numbers, or not; the pause itself is reported."""
    connection = connected()
    for number in range(100):
        connection.receive(frame(number), number * S // 100)
    now_ns = 99 * S // 100 + pause_ns
    connection.receive(frame(99 + pause_ns * 100 // S), now_ns)
    assert connection.counters.udp_lost == lost


def test_answers_before_the_greeting_or_without_a_request_are_counted_only():
    connection = NatNetConnection(0)
    for datagram in (frame(1), encode_definitions(Definitions(()), (4, 1)),
                     codec.encode_response(1), codec.encode_echo_response(0, 1)):
        assert connection.receive(datagram, 0) == []
    counters = connection.counters
    assert (counters.datagrams, counters.early, counters.unexpected) == (4, 1, 3)


def test_a_command_that_the_server_does_not_know_is_reported():
    connection = connected(INFO._replace(version=(2, 7)))
    connection.request('UpAxis')
    assert commands(connection.due(0)) == ['UpAxis']
    assert connection.receive(codec.encode_message(MessageId.UNRECOGNIZED_REQUEST), 0) == [
        Unrecognized('UpAxis')]


def test_commands_beyond_the_limit_are_refused():
    connection = connected()
    with pytest.raises(LocalProtocolError, match='was not sent'):
        for _ in range(1_000):
            connection.request('StartRecording')


@pytest.mark.parametrize('keep_alive', [False, True])
@pytest.mark.parametrize('info', [INFO, INFO._replace(version=(2, 9), frequency=0)])
def test_something_is_due_at_the_next_deadline_and_not_before(info, keep_alive):
    connection = connected(info)
    connection.keep_alive = keep_alive
    connection.request('FrameRate')    # never answered
    counts = collections.Counter()
    for number in range(5_000):
        now = number * S // 1_000
        if number > 2_000 and number % 10 == 0:
            connection.receive(frame(number // 10, info.version), now)
        deadline = connection.next_due_ns()
        datagrams = connection.due(now)
        echo = connection.echo_due(now)
        if echo:
            connection.echo_request(now)
        assert bool(datagrams or connection.overdue() or echo) == (now >= deadline), number
        counts.update(codec.decode_message(datagram)[0] for datagram in datagrams)
        for _ in range(counts[MessageId.REQUEST_MODEL_DEFINITIONS]):
            connection.receive(encode_definitions(Definitions(()), info.version), now)
        if 'Bitstream' in commands(datagrams):
            connection.receive(codec.encode_response('Bitstream,4.1'), now)
    # Without frames the client connects again each second.
    assert counts[MessageId.CONNECT] == 2 and counts[MessageId.KEEP_ALIVE] == 5 * keep_alive
    assert connection.counters.messages == 299 and connection.definitions == Definitions(())
    assert bool(connection.farewell()) is keep_alive


def test_round_trips_are_frequent_first_and_unanswered_ones_are_forgotten():
    connection = connected()
    sent_ns = []
    for number in range(2_000):
        if connection.echo_due(now := number * S // 1_000):
            sent_ns.append(now)
            connection.echo_request(now)
    steps = [after - before for before, after in zip(sent_ns, sent_ns[1:])]
    assert steps[:15] == [S // 50] * 15 and set(steps[15:]) == {S // 4}
    connection.receive(frame(1), 2 * S)
    found = [bool(connection.receive(codec.encode_echo_response(token, 1), 2 * S))
             for token in sent_ns]
    assert found == [False] * (len(sent_ns) - 16) + [True] * 16
    assert (connection.counters.echoes, connection.counters.unexpected) == (
        16, len(sent_ns) - 16)


@pytest.mark.parametrize('ticks', [0, 1])
def test_the_first_frame_shows_whether_frames_have_times(ticks):
    connection = connected()
    token = codec.decode_message(connection.echo_request(0))[1]
    echo = codec.encode_echo_response(int.from_bytes(token, 'little'), 1)
    assert connection.receive(echo, 1) == []
    token = codec.decode_message(connection.echo_request(1))[1]
    late = codec.encode_echo_response(int.from_bytes(token, 'little'), 2)
    first = connection.receive(frame(1, ticks=ticks), 2)
    assert [type(event) for event in first] == [Echo if ticks else Untimed, NatNetFrame]
    assert connection.echo_due(S) is bool(ticks)
    assert len(connection.receive(late, 3)) == ticks
    # The same server, which is asked again after a second without frames.
    assert connection.receive(codec.encode_server_info(INFO), S) == []
    if not ticks:    # a later frame with times: the echoes are needed
        assert any(isinstance(event, Disconnected)
                   for event in connection.receive(frame(2, ticks=1), S))


@pytest.mark.parametrize('text, version', [
    ('Bitstream,4.1.0.0', (4, 1)), ('3.0', (3, 0)), ('Bitstream', None), ('4', None),
    ('4.x', None), ('4.1000', None)])
def test_the_version_of_the_bitstream_is_read(text, version):
    assert bitstream_version(text) == version


def test_definitions_are_requested_in_both_ways():
    connection = connected()
    masks = []
    for tenth in range(30):
        for datagram in connection.due(tenth * S // 10):
            kind, payload = codec.decode_message(datagram)
            if kind == MessageId.REQUEST_MODEL_DEFINITIONS:
                masks.append(payload)
    assert masks[:8] == [b''] * 4 + [b'\x03\0\0\0'] * 4


def test_an_unanswered_command_is_repeated_and_reported():
    connection = connected(INFO._replace(version=(3, 0)))
    names = ['StartRecording', 'StopRecording']
    for name in names:
        connection.request(name)
    found = [name for tenth in range(80) for name in commands(
        connection.due(tenth * S // 10))]
    assert found == [names[0]] * 3 + [names[1]] * 3
    assert connection.overdue() == [Unanswered(name) for name in names]
    assert not connection.overdue()


def test_a_late_answer_belongs_to_its_command():
    connection = connected(INFO._replace(version=(3, 0)))
    connection.request('FrameRate')
    connection.request('UnitsToMillimeters')
    assert sent(connection, 0).count(MessageId.REQUEST) == 1
    # repeated: two answers will come
    assert sent(connection, 6 * S // 10).count(MessageId.REQUEST) == 1
    answers = [codec.encode_response(240.0)] * 2
    assert connection.receive(answers[0], 7 * S // 10) == [
        Response('FrameRate', codec.decode_message(answers[0])[1])]
    assert MessageId.REQUEST not in sent(connection, 8 * S // 10)
    assert connection.receive(answers[1], 9 * S // 10) == []
    assert MessageId.REQUEST in sent(connection, 13 * S // 10)
    (found,) = connection.receive(codec.encode_response(1000.0), 13 * S // 10)
    assert found.command == 'UnitsToMillimeters'


def test_a_recording_is_stopped_at_the_end():
    connection = connected(INFO._replace(version=(3, 0)))
    connection.request('FrameRate')
    connection.request('StopRecording')
    assert commands(connection.farewell()) == ['StopRecording', 'Disconnect']
    assert Unanswered('StopRecording') in connection.overdue()
