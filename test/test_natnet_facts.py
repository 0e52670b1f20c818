# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The statements of a NatNet server against its data; times of frames become stamps."""

import random
import struct

from conftest import lacking_in_lines
from natnet_kit import Talk
from optitrack_vrpn.core.repetition import Repetition
from optitrack_vrpn.core.severity import ERROR, INFO
from optitrack_vrpn.drivers.driver import LinkStatus
from optitrack_vrpn.drivers.frames import RoundTrip
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.frames import encode_frame
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, CERTAIN, Definitions, FRAME_EDIT_MODE, NatNetFrame, Response, ServerInfo,
    Unanswered, Unrecognized)
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
from optitrack_vrpn.telling.facts import StreamFacts
from optitrack_vrpn.telling.log import problem_lines
from optitrack_vrpn.telling.rules import BY_CODE, of_log
import pytest

S = 1_000_000_000
MS = 1_000_000


def frame(number=1, exposure=0, transmit=0, params=0, timestamp=0.0, ptp=(0, 0)):
    return NatNetFrame(
        number, [], [], 0.0, 0, 0, timestamp, exposure, 0, transmit, *ptp, params)


def answer(command, value):
    return Response(command, struct.pack('<f' if isinstance(value, float) else '<i', value))


# -- what is stated -------------------------------------------------------------------------------

def echoes(server_ns, delays):
    """Return what a watch says about round trips, with these delays (ns) there and back."""
    watch = ServerWatch()
    said = []
    for number in range(200):
        sent = number * 20 * MS if number < 16 else (number - 14) * 250 * MS
        there, back = delays(number)
        said.append(watch.echo(RoundTrip(
            sent, 10**15 + round(server_ns(sent + there)), sent + there + back)))
    return said


@pytest.mark.parametrize('rate, words, by', [
    (0.99, '0.9900 times', 24), (1.02, '1.0200 times', 16), (3.0, '3.0000 times', 3),
    (0.0, '0.0000 times', 3), (1000.0, '1000.0000 times', 3), (1.002, '1.002', 60)])
def test_a_counter_of_another_frequency_than_stated_is_detected(rate, words, by):
    said = echoes(lambda t: rate * t, lambda _: (200_000, 200_000))
    first = next(number for number, text in enumerate(said) if text)
    assert first < by
    assert words in said[first]


@pytest.mark.parametrize('rate', [0.9992, 1.0, 1.0008])
def test_neither_load_nor_a_step_of_the_counter_is_taken_for_its_frequency(rate):
    draw = random.Random(3)
    assert not any(echoes(
        lambda t: rate * t + (t > S) * 500 * S,
        lambda _: (draw.randrange(1, 100 * MS), draw.randrange(1, 100 * MS))))


def found(watch, up_axis='y'):
    """Return what a log writes about the statements of a server."""
    return of_log(StreamFacts(link=LinkStatus(known=watch.known), up_axis=up_axis))


@pytest.mark.parametrize('event, severity, words', [
    (answer('UpAxis', 1), None, ''),
    (answer('UpAxis', 2), ERROR, 'set up_axis: z'),
    (answer('UpAxis', 0), ERROR, 'set Up Axis in its streaming settings to Y'),
    (answer('UpAxis', 7), None, ''),
    (answer('UnitsToMillimeters', 1000.0), None, ''),
    (answer('UnitsToMillimeters', 1.0), ERROR, 'metre'),
    (answer('UnitsToMillimeters', float('nan')), None, ''),
    # Questions that a version does not know are no fault.
    (Unrecognized('UpAxis'), None, ''),
    (Unanswered('UnitsToMillimeters'), None, ''),
    (Response('UpAxis', b''), None, ''),
    (Response('UnitsToMillimeters', b''), None, ''),
])
def test_statements_that_matter_are_reported(event, severity, words):
    watch = ServerWatch()
    assert watch.ask_again(event) is isinstance(event, Response)
    watch.answer(event)
    assert not found(watch), 'believed when two answers agree'
    assert not watch.ask_again(event)
    watch.answer(event)
    assert [one.severity for one in found(watch)] == ([] if severity is None else [severity])
    assert all(words in one.line for one in found(watch))


@pytest.mark.parametrize('event, severity, words', [
    (answer('StartRecording', 0), INFO, 'Motive records'),
    (answer('StopRecording', 0), INFO, 'stopped recording'),
    (answer('StartRecording', 3), ERROR, 'with code 3'),
    (answer('SetRecordTakeName,x', 0), None, ''),
    (answer('SetRecordTakeName,x', 1), ERROR, 'SetRecordTakeName,x'),
    (Unrecognized('StartRecording'), ERROR, 'does not know'),
    (Unanswered('StopRecording'), ERROR, 'did not answer'),
])
def test_results_of_recording_commands_are_reported(event, severity, words):
    remarks = ServerWatch().answer(event)
    assert [remark.severity for remark in remarks] == ([] if severity is None else [severity])
    assert all(words in remark.text for remark in remarks)
    # Whether Motive records after an error is not known.
    assert severity != ERROR or 'is not recording' not in remarks[0].text


@pytest.mark.parametrize('taken, stated, said', [
    ('z', 1, 'set up_axis: y'), ('z', 0, 'settings to Z'), ('y', 1, ''), ('', 1, ''),
    ('', 0, ''), ('raw', 1, 'z for up'), ('raw', 2, '')])
def test_the_stated_up_axis_is_compared_with_the_parameter(taken, stated, said):
    watch = ServerWatch()
    for _ in range(2):
        watch.answer(answer('UpAxis', stated))
    lines = [one.line for one in found(watch, taken)]
    assert len(lines) == bool(said) and all(said in line for line in lines)


def test_a_unit_that_another_question_has_answered_is_not_believed():
    watch = ServerWatch()
    late, right = answer('UnitsToMillimeters', 120.0), answer('UnitsToMillimeters', 1000.0)
    for event in (late, right, right):
        asked = watch.ask_again(event)
        watch.answer(event)
        assert not found(watch)
    assert not asked


def test_frames_that_cannot_be_decoded_name_the_version_that_can():
    watch = ServerWatch()
    watch.known.undecodable, watch.known.version = 'too short', '4.7'
    (fault,) = found(watch)
    assert fault.severity is ERROR and '4.7: too short' in fault.text
    assert f'natnet.bitstream: "{CERTAIN[0]}.{CERTAIN[1]}"' in fault.remedy


@pytest.mark.parametrize('playback, played', [(False, 'withheld'), (True, 'published')])
def test_a_take_that_is_played_is_reported_at_its_beginning_and_end(playback, played):
    """A conversation that begins while it is played, or with live poses, is neither."""
    repetition, texts, second = Repetition(), [], 0

    def look(talk):
        nonlocal second
        second += 1
        texts.extend(line.text for line in problem_lines(
            repetition, found(talk.driver), second * S))
    for conversation in ((0, 0, 1, 1), (1, 1), (1, 0, 0), (0, 0)):
        talk = Talk(playback=playback)
        look(talk)
        for number, edit in enumerate(conversation, 1):
            talk.receive(encode_frame(frame(
                number, 1, number, FRAME_EDIT_MODE * edit), (4, 1)), number * S)
            look(talk)
    assert ['plays a take' in text for text in texts] == [True, False]
    assert f'are {played}' in texts[0] and texts[1] == 'Motive sends live poses again'
    assert not BY_CODE['live'].check and not BY_CODE['live'].entry


@pytest.mark.parametrize('config, multicast, said', [
    ({'transport': 'unicast'}, True, ['natnet.transport']),
    ({'transport': 'multicast', 'group': '239.1.1.1'}, False, ['natnet.transport']),
    ({'group': '239.1.1.1', 'data_port': 9}, True, ['natnet.group', 'natnet.data_port']),
    ({'transport': 'multicast', 'group': '239.255.42.99', 'data_port': 1511}, True, []),
    ({'transport': 'unicast', 'group': '239.1.1.1'}, False, []),
    ({'transport': 'unicast', 'group': '239.1.1.1'}, None, []),    # before 3.0
])
def test_settings_that_contradict_the_server_are_reported(config, multicast, said):
    info = ServerInfo('Motive', (3, 1, 0, 0), (4, 1), 10**7, 1511, multicast, '239.255.42.99')
    watch, without = ServerWatch(), ServerWatch()
    watch.greeting(NatNetConfig(**config), info)
    # A server that sends broadcasts states no group.
    without.greeting(NatNetConfig(**config), info._replace(group='', data_port=0))
    assert set(without.known.contradicted) <= set(watch.known.contradicted)
    assert all(stated for _, _, stated in without.known.contradicted)
    assert not lacking_in_lines([one.text for one in found(watch)], *[[name] for name in said])


def test_a_server_without_bodies_and_ids_without_a_name_are_reported_once():
    watch, repetition = ServerWatch(), Repetition()

    def lines(second):
        return [line.text for line in problem_lines(repetition, found(watch), second * S)]
    watch.definitions(Definitions(()))
    (line,) = lines(0)
    assert 'no rigid body' in line
    watch.unnamed([5, 6])
    assert ["ids '5', '6':" in line for line in lines(1)] == [True]
    watch.unnamed([6])
    assert not lines(2)
    watch.unnamed([7])
    assert ["ids '7':" in line for line in lines(3)] == [True]
    watch.unnamed([])
    assert [one.code for one in found(watch)] == ['no rigid body']


def test_ids_without_a_name_are_limited():
    watch = ServerWatch()
    watch.unnamed(range(5000))
    assert len(watch.known.unnamed) == 1000


@pytest.mark.parametrize('count, types, said', [
    (1, (), '1 model definition with a type or layout that is not known is left out'),
    (3, (7, 9), '3 model definitions with a type or layout that is not known are left out '
     '(unknown types: 7, 9)'),
    (20, tuple(range(10, 30)), '15, 16, 17, 18, 19, ...)')])
def test_definitions_that_cannot_be_read_are_counted_with_their_types(count, types, said):
    watch = ServerWatch()
    watch.known.unread, watch.known.unread_types = count, types
    (one,) = found(watch)
    assert one.text.endswith(said)


@pytest.mark.parametrize('definitions, names, ids, shared_names', [
    ([('One', 1), ('Two', 1), ('Three', 3)], {3: 'Three'}, {1: ('One', 'Two')}, ()),
    ([('One', 1), ('One', 2), ('Three', 3)], {3: 'Three'}, {}, ('One',))])
def test_bodies_that_share_an_id_or_a_name_are_refused(definitions, names, ids, shared_names):
    stated = Definitions(tuple(BodyDefinition(*each) for each in definitions))
    table = name_table(stated)
    assert (table.names, table.shared_ids, table.shared_names) == (names, ids, shared_names)
    watch = ServerWatch()
    watch.definitions(stated)
    described, fault = found(watch)
    assert "describes 'Three'" in described.text and "'One'" in fault.text


# -- times ----------------------------------------------------------------------------------------

def times(translator, **values):
    report = translator.frame(frame(**values))
    return report.sender_time_ns, report.processing_ns


#: 29 000 years at 10 MHz, and the exact nanosecond of it.
MOST_TICKS = 2**63 - 1


@pytest.mark.parametrize('frequency, exposure, transmit, sender_time_ns, processing_ns', [
    (10_000_000, 10_000_000, 10_054_000, S, 5_400_000),
    (10_000_000, MOST_TICKS - 54_000, MOST_TICKS, (MOST_TICKS - 54_000) * 100, 5_400_000),
    # The counter of a captured Motive, after a day.
    (3_312_787, 3_312_787 * 86_400, 3_312_787 * 86_400, 86_400 * S, 0),
    # Cameras that state no exposure.
    (10_000_000, 0, 10_054_000, S + 5_400_000, 0),
])
def test_the_senders_time_is_the_exposure(
        frequency, exposure, transmit, sender_time_ns, processing_ns):
    assert times(Translator(frequency), exposure=exposure, transmit=transmit) == (
        sender_time_ns, processing_ns)


def test_a_missing_exposure_is_estimated_from_the_frame_before():
    translator = Translator(10_000_000)
    times(translator, exposure=10_000_000, transmit=10_054_000)
    assert times(translator, number=2, transmit=10_154_000) == (S + 10 * MS, 5_400_000)


@pytest.mark.parametrize('exposure', [30_055_000, 1])
def test_an_impossible_exposure_is_not_used(exposure):
    translator = Translator(10_000_000)
    assert times(translator, exposure=exposure, transmit=30_054_000) == (
        3_005_400_000, 0)
    assert translator.odd_times == 1


@pytest.mark.parametrize('received, camera_ns', [
    (10_030_000, 3 * MS), (10_054_000, 5_400_000), (10_054_001, 0), (10_000_000, 0), (0, 0)])
def test_the_time_of_the_cameras_is_within_that_of_the_frame(received, camera_ns):
    sent = frame(exposure=10_000_000, transmit=10_054_000)._replace(received=received)
    found = Translator(10_000_000).frame(sent)
    assert (found.camera_ns, found.processing_ns) == (camera_ns, 5_400_000)


def test_a_frame_without_times_among_others_is_not_used():
    translator = Translator(10_000_000)
    assert translator.frame(frame(timestamp=12.5)) is None and translator.odd_times == 1


def test_before_3_0_the_time_is_that_since_streaming_began():
    assert times(Translator(0), timestamp=12.5) == (12_500_000_000, 0)
    for wrong in (float('nan'), float('inf'), -1.0, 1e12):
        assert Translator(0).frame(frame(timestamp=wrong)) is None


def test_ptp_times_are_read_as_seconds_and_a_binary_fraction():
    report = Translator(10_000_000).frame(frame(transmit=1, ptp=(1_795_000_000, 1 << 31)))
    assert report.ptp_ns == 1_795_000_000_500_000_000
