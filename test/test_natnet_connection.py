# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The client's side of a NatNet conversation, without sockets."""

from optitrack_vrpn.natnet import codec
from optitrack_vrpn.natnet.connection import ClientConnection
from optitrack_vrpn.natnet.constants import (
    CONNECT, KEEP_ALIVE, REQUEST, REQUEST_MODEL_DEFINITIONS)
from optitrack_vrpn.natnet.encoding import encode_frame
from optitrack_vrpn.natnet.messages import Frame, Response, ServerInfo, Unanswered

S = 1_000_000_000
INFO = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, False, '')


def connected(info=INFO):
    connection = ClientConnection(0)
    connection.receive(codec.encode_server_info(info), 0)
    return connection


def sent(connection, now_ns):
    return [codec.decode_message(datagram)[0] for datagram in connection.due(now_ns)]


def frame(number, version=(4, 1)):
    return codec.encode_message(7, encode_frame(Frame(
        number, [], [], 0.0, 0, 0, 0.0, 1, 1, 1, 0, 0, 0), version)[4:])


def test_a_server_without_frames_is_asked_again():
    connection = connected()
    for quarter in range(1, 5):
        now = quarter * S // 4
        token = codec.decode_message(connection.echo_request(now))[1]
        connection.receive(codec.encode_echo_response(int.from_bytes(token, 'little'), 1), now)
        assert (CONNECT in sent(connection, now)) is (quarter == 4)


def test_frames_keep_a_connection():
    connection = connected()
    for number in range(40):
        connection.receive(frame(number), number * S // 10)
        assert CONNECT not in sent(connection, number * S // 10)


def test_only_unicast_clients_keep_themselves_alive():
    for keeps, expected in ((True, 5), (False, 0)):
        connection = connected()
        connection.keep_alive = keeps
        found = [kind for tenth in range(50) for kind in sent(connection, tenth * S // 10)]
        assert found.count(KEEP_ALIVE) == expected
        assert bool(connection.farewell()) is keeps


def test_definitions_are_requested_in_both_ways():
    connection = connected()
    masks = []
    for tenth in range(30):
        for datagram in connection.due(tenth * S // 10):
            kind, payload = codec.decode_message(datagram)
            if kind == REQUEST_MODEL_DEFINITIONS:
                masks.append(payload)
    assert masks[:4] == [b'', b'\x03\0\0\0', b'', b'\x03\0\0\0']


def test_an_unanswered_command_is_repeated_and_reported():
    connection = connected(INFO._replace(version=(3, 0)))
    assert connection.request('StartRecording')
    found = [kind for tenth in range(40) for kind in sent(connection, tenth * S // 10)]
    assert found.count(REQUEST) == 3
    assert connection.unanswered() == [Unanswered('StartRecording')]
    assert not connection.unanswered()


def test_a_late_answer_belongs_to_its_command():
    connection = connected(INFO._replace(version=(3, 0)))
    connection.request('FrameRate')
    connection.request('UnitsToMillimeters')
    assert sent(connection, 0).count(REQUEST) == 1
    assert sent(connection, 6 * S // 10).count(REQUEST) == 1    # repeated: two answers will come
    answers = [codec.encode_response(240.0)] * 2
    assert connection.receive(answers[0], 7 * S // 10) == [
        Response('FrameRate', codec.decode_message(answers[0])[1])]
    assert REQUEST not in sent(connection, 8 * S // 10)
    assert connection.receive(answers[1], 9 * S // 10) == []
    assert REQUEST in sent(connection, 13 * S // 10)
    (found,) = connection.receive(codec.encode_response(1000.0), 13 * S // 10)
    assert found.command == 'UnitsToMillimeters'


def test_a_recording_is_stopped_at_the_end():
    connection = connected(INFO._replace(version=(3, 0)))
    connection.request('FrameRate')
    connection.request('StopRecording')
    texts = [codec.decode_request(payload) for kind, payload in map(
        codec.decode_message, connection.farewell()) if kind == REQUEST]
    assert texts == ['StopRecording', 'Disconnect']
    assert Unanswered('StopRecording') in connection.unanswered()
