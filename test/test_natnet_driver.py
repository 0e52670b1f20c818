# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A NatNet conversation without sockets: requests, answers, numbers, times."""

import collections
from contextlib import suppress
import struct

from natnet_kit import MOTIVE, Talk
from optitrack_vrpn.core.errors import LocalProtocolError
from optitrack_vrpn.drivers.driver import ServerFacts
from optitrack_vrpn.drivers.frames import Frame, RoundTrip
from optitrack_vrpn.drivers.natnet import codec
from optitrack_vrpn.drivers.natnet.commands import Commands
from optitrack_vrpn.drivers.natnet.definitions import encode_definitions
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BODY, BodyDefinition, Definitions, FRAME_BITSTREAM_CHANGED, MessageId, NatNetBody, NatNetFrame,
    NatNetSkeleton, SkeletonDefinition)
import pytest

S = 1_000_000_000


def kinds(datagrams):
    return [codec.decode_message(datagram)[0] for datagram in datagrams]


def frame(number, version=(4, 1), params=0, ticks=1):
    return encode_frame(NatNetFrame(
        number, [], [], 0.0, 0, 0, 0.0, ticks, ticks, ticks, 0, 0, params), version)


def commands(datagrams):
    return [codec.decode_request(payload) for kind, payload in map(
        codec.decode_message, datagrams) if kind == MessageId.REQUEST]


def echo_of(request, ticks):
    """Answer a request for the time."""
    token = codec.decode_message(request)[1]
    return codec.encode_echo_response(int.from_bytes(token, 'little'), ticks)


def test_a_server_without_frames_is_asked_again():
    talk = Talk()
    for quarter in range(1, 5):
        now = quarter * S // 4
        sent = kinds(talk.due(now))
        talk.receive(echo_of(talk.echo(now), 1), now)
        assert (MessageId.CONNECT in sent) is (quarter == 4)


def test_frames_of_another_version_do_not_keep_a_connection():
    talk = Talk(MOTIVE._replace(version=(4, 0)))
    assert commands(talk.due(0)) == ['Bitstream']
    talk.receive(codec.encode_response('Bitstream,4.1.0.0'), 0)
    for _ in range(4):    # its questions, each twice
        assert len(commands(talk.due(0))) == 1
        talk.receive(codec.encode_response(1000.0), 0)
    talk.receive(encode_definitions(Definitions(()), (4, 1)), 0)
    for number in range(10):
        talk.receive(frame(number, (3, 0)), number * S // 10)
        assert set(kinds(talk.due(number * S // 10))) <= {MessageId.KEEP_ALIVE}
    assert talk.driver.counters()['malformed'] == 10
    asked = talk.due(S)
    assert commands(asked) == ['Bitstream']
    assert {MessageId.CONNECT, MessageId.REQUEST_MODEL_DEFINITIONS} < set(kinds(asked))
    talk.receive(codec.encode_response('Bitstream,3.0.0.0'), S)
    talk.receive(frame(11, (3, 0)), S)
    assert talk.driver.counters()['messages'] == 1


def test_a_change_of_the_bitstream_is_asked_for_once():
    talk, asked = Talk(), []
    for number in range(100):
        now = number * S // 100
        for command in commands(talk.due(now)):
            asked.append(command)
            talk.receive(codec.encode_response(
                'Bitstream,4.1.0.0' if command == 'Bitstream' else 1), now)
        talk.receive(frame(number, params=FRAME_BITSTREAM_CHANGED * (number > 50)), now)
    assert asked.count('Bitstream') == 2


@pytest.mark.parametrize('kind', [MessageId.DISCONNECT, MessageId.DISCONNECT_BY_TIMEOUT])
def test_a_server_that_says_goodbye_ends_the_conversation(kind):
    talk = Talk()
    talk.receive(struct.pack('<HH', kind, 0), S)
    assert talk.ended


def test_messages_of_unknown_kinds_are_counted():
    talk = Talk()
    assert talk.receive(struct.pack('<HH', 4711, 0), S) == []
    assert talk.driver.counters()['other_type'] == 1


@pytest.mark.parametrize('change', [
    {'version': (3, 0)}, {'group': '239.255.42.98'}, {'frequency': 10**6}])
def test_a_server_with_other_settings_ends_the_conversation(change):
    talk = Talk()
    talk.receive(codec.encode_server_info(MOTIVE), S)
    assert not talk.ended
    talk.receive(codec.encode_server_info(MOTIVE._replace(**change)), S)
    assert talk.ended


REGULAR = range(0, 300, 3)    # a server that sends every third frame


@pytest.mark.parametrize('numbers, lost, reordered, repeated', [
    (REGULAR, 0, 0, 0), ([*REGULAR, 303, 306], 1, 0, 0), ([*REGULAR, 306, 303, 309], 1, 1, 0),
    ([*REGULAR, 300, 300], 0, 0, 1), ([*REGULAR, 5, 8, 11], 0, 0, 0), ([*REGULAR, 9_999], 0, 0, 0),
    (range(100), 0, 0, 0), ([*range(100), 103], 3, 0, 0), ([*REGULAR, *range(300, 399)], 0, 0, 0),
    # A copy of a frame that had arrived finds none of the lost ones.
    ([*REGULAR, 306, 294], 2, 0, 1), ([*REGULAR, 306, 303, 303], 1, 1, 1)])
def test_lost_frames_show_in_the_numbering(numbers, lost, reordered, repeated):
    talk = Talk()
    for number in numbers:
        talk.receive(frame(number), number)
    counters = talk.driver.counters()
    assert [counters[f'udp_{name}'] for name in ('lost', 'reordered', 'repeated')] == [
        lost, reordered, repeated]


@pytest.mark.parametrize('pause_ns, lost', [(S // 10, 9), (S, 0)])
def test_frames_of_an_interruption_are_not_counted_as_lost(pause_ns, lost):
    """A server that restarts continues its numbers, or not; the pause itself is reported."""
    talk = Talk()
    for number in range(100):
        talk.receive(frame(number), number * S // 100)
    now_ns = 99 * S // 100 + pause_ns
    talk.receive(frame(99 + pause_ns * 100 // S), now_ns)
    assert talk.driver.counters()['udp_lost'] == lost


def test_answers_before_the_greeting_or_without_a_request_are_counted_only():
    talk = Talk(None)
    for datagram in (frame(1), encode_definitions(Definitions(()), (4, 1)),
                     codec.encode_response(1), codec.encode_echo_response(0, 1)):
        assert talk.receive(datagram, 0) == []
    counters = talk.driver.counters()
    assert (counters['datagrams'], counters['early'], counters['unexpected']) == (4, 1, 3)


@pytest.mark.parametrize('answered', [False, True])
def test_a_recording_that_the_server_refuses_or_does_not_answer_is_reported(answered):
    talk = Talk(MOTIVE._replace(version=(2, 7)))
    for _ in range(2):    # its questions
        talk.due(0)
        talk.receive(codec.encode_message(MessageId.UNRECOGNIZED_REQUEST), 0)
    talk.driver.request('StartRecording')
    assert commands(talk.due(0)) == ['StartRecording'] and not talk.said
    if answered:
        talk.receive(codec.encode_message(MessageId.UNRECOGNIZED_REQUEST), 0)
    else:
        for tenth in range(30):
            talk.due(tenth * S // 10)
    assert len(talk.said) == 1


def test_commands_beyond_the_limit_are_refused():
    waiting = Commands()
    with pytest.raises(LocalProtocolError, match='was not sent'):
        for _ in range(1_000):
            waiting.request('StartRecording')


def test_commands_that_wait_do_not_end_the_conversation_when_the_driver_asks_something():
    talk = Talk()
    talk.due(0)
    talk.receive(codec.encode_response('Bitstream,4.1'), 0)
    with suppress(LocalProtocolError):
        while True:
            talk.driver.request('StartRecording')
    talk.receive(frame(1, params=FRAME_BITSTREAM_CHANGED), 0)
    assert MessageId.CONNECT in kinds(talk.due(2 * S))    # silent: it asks again
    assert not talk.ended


def bodies(number, *ids):
    return encode_frame(NatNetFrame(
        number, [NatNetBody(each, *(0.0,) * 6, 1.0, 0.0, 1) for each in ids], [], 0.0, 0, 0, 0.0,
        number, number, number, 0, 0, 0), (4, 1))


def test_ids_without_a_name_are_those_of_the_last_frame():
    talk, now, number = Talk(), S, 0

    def frames(*ids, described):
        """Let frames arrive for 4 s, with an answer to each request for definitions."""
        nonlocal now, number
        stated, seen = Definitions(tuple(
            BodyDefinition(f'body {each}', each) for each in described)), []
        for _ in range(200):
            now, number = now + S // 50, number + 1
            talk.receive(bodies(number, *ids), now)
            if MessageId.REQUEST_MODEL_DEFINITIONS in kinds(talk.due(now)):
                talk.receive(encode_definitions(stated, (4, 1)), now + 1)
            seen.append(set(talk.driver.known.unnamed))
        return seen
    assert frames(1, described=[1])[-1] == set()
    begun = frames(1, 2, described=[1])
    assert begun[-1] == {2}
    # It does not end by definitions that repeat the same.
    assert frames(1, 2, described=[1]) == [{2}] * 200
    assert frames(1, described=[1])[-1] == set()
    assert frames(1, 3, 4, described=[1])[-1] == {3, 4}
    assert frames(1, 3, 4, described=[1, 3])[-1] == {4}
    assert frames(1, 3, 4, described=[1, 3, 4])[-1] == set()


def test_ids_of_bodies_that_share_an_id_or_a_name_are_described():
    talk = Talk()
    stated = Definitions((
        BodyDefinition('a', 1), BodyDefinition('b', 1), BodyDefinition('c', 2),
        BodyDefinition('c', 3), BodyDefinition('d', 4)))
    for number in range(1, 200):
        now = S + number * S // 50
        talk.receive(bodies(number, 1, 2, 3, 4, 5), now)
        if MessageId.REQUEST_MODEL_DEFINITIONS in kinds(talk.due(now)):
            talk.receive(encode_definitions(stated, (4, 1)), now + 1)
    known = talk.driver.known
    assert (known.unnamed, set(known.shared_ids), known.shared_names) == ({5}, {1}, ('c',))


def test_a_skeleton_that_is_not_sent_any_more_is_not_said_to_be_local():
    talk = Talk(wanted=frozenset({'skeletons'}))
    offset = (0.25, 0.5, 0.0)
    bones = tuple(BodyDefinition(f'b{i}', i + 1, i, offset) for i in range(4))
    definitions = encode_definitions(
        Definitions((), (), (SkeletonDefinition('Bob', 3, bones),)), (4, 1))
    rows = b''.join(BODY.pack(3 << 16 | i + 1, *offset, *(0.0,) * 3, 1.0, 0.0, 1)
                    for i in range(4))
    said = []
    for number in range(1, 200):
        now = S + number * S // 50
        talk.receive(encode_frame(NatNetFrame(
            number, [], [], 0.0, 0, 0, 0.0, number, number, number, 0, 0, 0,
            skeletons=(NatNetSkeleton(3, rows),) if number < 100 else ()), (4, 1)), now)
        if MessageId.REQUEST_MODEL_DEFINITIONS in kinds(talk.due(now)):
            talk.receive(definitions, now + 1)
        said.append(talk.driver.known.local_bones)
    assert (said[98], said[99], said[-1]) == ('Bob', '', '')


def test_the_version_is_known_when_frames_are_said_not_to_be_decodable():
    class Watched(ServerFacts):

        def __setattr__(self, name, value):
            assert name != 'undecodable' or not value or self.version
            super().__setattr__(name, value)
    talk = Talk()
    talk.driver.known = Watched()
    for number in range(50):
        talk.receive(frame(number, (3, 0)), S)
    assert talk.driver.known.undecodable


@pytest.mark.parametrize('transport', ['multicast', 'unicast'])
@pytest.mark.parametrize('info', [MOTIVE, MOTIVE._replace(version=(3, 0))])
def test_something_is_due_at_the_next_deadline_and_not_before(info, transport):
    talk = Talk(info, transport=transport)
    talk.driver.request('StartRecording')    # never answered
    counts = collections.Counter()
    for number in range(5_000):
        now = number * S // 1_000
        if number > 2_000 and number % 10 == 0:
            talk.receive(frame(number // 10, info.version), now)
        deadline, said = talk.driver.next_due_ns, len(talk.said)
        datagrams = talk.due(now)
        echo = talk.echo(now)
        if deadline:    # else it asks to be called, after an answer
            assert bool(datagrams or echo or len(talk.said) > said) == (now >= deadline), number
        counts.update(kinds(datagrams))
        for _ in range(kinds(datagrams).count(MessageId.REQUEST_MODEL_DEFINITIONS)):
            talk.receive(encode_definitions(Definitions(()), info.version), now)
        for command in commands(datagrams):
            if command != 'StartRecording':
                talk.receive(codec.encode_response(
                    'Bitstream,4.1' if command == 'Bitstream' else 1), now)
    # Without frames the client connects again each second.
    unicast = transport == 'unicast'
    assert counts[MessageId.CONNECT] == 2 and counts[MessageId.KEEP_ALIVE] == 5 * unicast
    assert talk.driver.counters()['messages'] == 299
    assert bool(talk.end()) is unicast


def test_round_trips_are_frequent_first_and_unanswered_ones_are_forgotten():
    talk, sent_ns, requests = Talk(), [], []
    for number in range(2_000):
        now = number * S // 1_000
        talk.due(now)
        if (request := talk.echo(now)) is not None:
            sent_ns.append(now)
            requests.append(request)
    steps = [after - before for before, after in zip(sent_ns, sent_ns[1:])]
    assert steps[:15] == [S // 50] * 15 and set(steps[15:]) == {S // 4}
    talk.receive(frame(1), 2 * S)
    found = [bool(talk.receive(echo_of(request, 1), 2 * S)) for request in requests]
    assert found[:-16] == [False] * (len(requests) - 16) and any(found)
    counters = talk.driver.counters()
    assert (counters['echoes'], counters['unexpected']) == (16, len(requests) - 16)


@pytest.mark.parametrize('ticks', [0, 1])
def test_the_first_frame_shows_whether_frames_have_times(ticks):
    talk = Talk()
    talk.due(0)
    assert talk.receive(echo_of(talk.echo(0), 1), 1) == []
    talk.due(S // 50)
    late = echo_of(talk.echo(S // 50), 200_000)
    first = talk.receive(frame(1, ticks=ticks), S // 50 + 1)
    assert [type(item) for item in first] == [RoundTrip if ticks else Frame]
    assert bool(talk.said) is not bool(ticks)
    assert len(talk.receive(late, S // 50 + 2)) == ticks
    talk.due(S // 2)
    assert (talk.echo(S // 2) is not None) is bool(ticks)
    # The same server, which is asked again after a second without frames.
    talk.receive(codec.encode_server_info(MOTIVE), S)
    assert not talk.ended
    if not ticks:    # a later frame with times: the echoes are needed
        talk.receive(frame(2, ticks=1), S)
        assert talk.ended


@pytest.mark.parametrize('text, version', [
    ('Bitstream,4.1.0.0', (4, 1)), ('3.0', (3, 0)), ('2.9', None), ('Bitstream', None),
    ('4', None), ('4.x', None), ('4.1000', None)])
def test_the_version_of_the_bitstream_is_read(text, version):
    assert codec.bitstream_version(text.encode() + b'\0') == version


def test_definitions_are_requested_in_both_ways():
    talk, masks = Talk(), []
    for tenth in range(30):
        for datagram in talk.due(tenth * S // 10):
            kind, payload = codec.decode_message(datagram)
            if kind == MessageId.REQUEST_MODEL_DEFINITIONS:
                masks.append(payload)
    assert masks[:8] == [b''] * 4 + [b'\x03\0\0\0'] * 4


# -- commands -------------------------------------------------------------------------------------

def asked(waiting, now_ns):
    """Give the command that is sent now, and the one that is given up."""
    given_up, request = waiting.give_up(now_ns), waiting.due(now_ns)
    return [] if request is None else commands([request]), given_up


def test_an_unanswered_command_is_repeated_and_given_up():
    waiting, sent, given_up = Commands(), [], []
    names = ['StartRecording', 'StopRecording']
    for name in names:
        waiting.request(name)
    for tenth in range(100):
        request, end = asked(waiting, tenth * S // 10)
        sent += request
        given_up += [end] if end else []
    assert sent == [names[0]] * 3 + [names[1]] * 3
    assert given_up == names and waiting.close() == []


def test_a_late_answer_belongs_to_its_command():
    waiting = Commands()
    waiting.request('FrameRate')
    waiting.request('UnitsToMillimeters')
    assert asked(waiting, 0) == (['FrameRate'], '')
    assert asked(waiting, 6 * S // 10) == (['FrameRate'], '')    # two answers will come
    assert waiting.answered(7 * S // 10) == 'FrameRate'
    assert asked(waiting, 8 * S // 10) == ([], '')
    assert waiting.answered(9 * S // 10) is None
    assert asked(waiting, 13 * S // 10) == (['UnitsToMillimeters'], '')
    assert waiting.answered(13 * S // 10) == 'UnitsToMillimeters'


def test_a_question_that_is_repeated_comes_before_the_waiting_ones():
    waiting = Commands()
    waiting.request('FrameRate')
    waiting.request('UpAxis')
    assert asked(waiting, 0) == (['FrameRate'], '')
    waiting.request('UnitsToMillimeters', first=True)
    assert waiting.close() == ['FrameRate', 'UnitsToMillimeters', 'UpAxis']


def test_a_recording_is_stopped_at_the_end():
    talk = Talk(MOTIVE._replace(version=(3, 0)))
    talk.driver.request('FrameRate')
    talk.driver.request('StopRecording')
    assert commands(talk.end()) == ['StopRecording', 'Disconnect']
    assert talk.said
