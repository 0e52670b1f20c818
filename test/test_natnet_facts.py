# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The statements of a NatNet server against its data; times of frames become stamps."""

import random
import struct

from conftest import lacking_in_lines
from optitrack_vrpn.core.severity import ERROR, INFO
from optitrack_vrpn.drivers.frames import RoundTrip
from optitrack_vrpn.drivers.natnet.facts import ServerWatch
from optitrack_vrpn.drivers.natnet.messages import (
    BodyDefinition, Definitions, NatNetFrame, Response, ServerInfo, Unanswered, Unrecognized)
from optitrack_vrpn.drivers.natnet.reports import name_table, Translator
from optitrack_vrpn.drivers.natnet.settings import NatNetConfig
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


@pytest.mark.parametrize('event, severity, words', [
    (answer('UpAxis', 1), None, ''),
    (answer('UpAxis', 2), ERROR, 'set up_axis to z'),
    (answer('UpAxis', 7), None, ''),
    (answer('UnitsToMillimeters', 1000.0), None, ''),
    (answer('UnitsToMillimeters', 1.0), ERROR, 'metre'),
    (answer('UnitsToMillimeters', float('nan')), None, ''),
    (answer('StartRecording', 0), INFO, 'Motive records'),
    (answer('StopRecording', 0), INFO, 'stopped recording'),
    (answer('StartRecording', 3), ERROR, 'with code 3'),
    (answer('SetRecordTakeName,x', 0), None, ''),
    (answer('SetRecordTakeName,x', 1), ERROR, 'SetRecordTakeName,x'),
    (Unrecognized('StartRecording'), ERROR, 'does not know'),
    (Unanswered('StopRecording'), ERROR, 'did not answer'),
    # Questions that a version does not know are no fault.
    (Unrecognized('UpAxis'), None, ''),
    (Unanswered('UnitsToMillimeters'), None, ''),
    (Response('UpAxis', b''), None, ''),
    (Response('UnitsToMillimeters', b''), None, ''),
])
def test_answers_that_matter_are_reported(event, severity, words):
    watch = ServerWatch('y')
    if event.command in watch.QUESTIONS:    # believed when two answers agree
        assert watch.ask_again(event) is isinstance(event, Response)
        assert watch.answer(event) == [] and not watch.ask_again(event)
    remarks = watch.answer(event)
    assert [remark.severity for remark in remarks] == ([] if severity is None else [severity])
    assert all(words in remark.text for remark in remarks)
    # Whether Motive records after an error is not known.
    assert severity != ERROR or 'is not recording' not in remarks[0].text


@pytest.mark.parametrize('taken, said', [('z', ['set up_axis to y']), ('', [])])
def test_the_stated_up_axis_is_compared_with_the_parameter(taken, said):
    watch = ServerWatch(taken)
    assert not lacking_in_lines([
        remark.text for _ in range(2) for remark in watch.answer(answer('UpAxis', 1))],
        *[[words] for words in said])


def test_a_unit_that_another_question_has_answered_is_not_believed():
    watch = ServerWatch()
    late, right = answer('UnitsToMillimeters', 120.0), answer('UnitsToMillimeters', 1000.0)
    for event in (late, right, right):
        asked = watch.ask_again(event)
        assert watch.answer(event) == []
    assert not asked


@pytest.mark.parametrize('playback', [False, True])
def test_a_take_that_is_played_is_reported_at_its_beginning_and_end(playback):
    watch = ServerWatch(playback=playback)
    texts = [remark.text for params in (0, 0, 4, 4, 0) for remark in watch.frame(
        frame(params=params))]
    assert ['plays a take' in text for text in texts] == [True, False]
    assert ('withheld' in texts[0]) is not playback
    assert 'live poses again' in texts[1]


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
    remarks = ServerWatch().overridden(NatNetConfig(**config), info)
    # A server that sends broadcasts states no group.
    without = ServerWatch().overridden(NatNetConfig(**config), info._replace(
        group='', data_port=0))
    assert {remark.text for remark in without} <= {remark.text for remark in remarks}
    assert not any('states :' in remark.text for remark in without)
    assert not lacking_in_lines([remark.text for remark in remarks], *[[name] for name in said])


def test_a_server_without_bodies_and_ids_without_a_name_are_reported_once():
    watch = ServerWatch()
    nothing = Definitions(())
    (remark,) = watch.definitions(nothing, name_table(nothing))
    assert 'no rigid body' in remark.text
    assert len(watch.unknown([5, 6])) == 1 and not watch.unknown([6]) and watch.unknown([7])


@pytest.mark.parametrize('definitions, names, ids, shared_names', [
    ([('One', 1), ('Two', 1), ('Three', 3)], {3: 'Three'}, {1: ('One', 'Two')}, ()),
    ([('One', 1), ('One', 2), ('Three', 3)], {3: 'Three'}, {}, ('One',))])
def test_bodies_that_share_an_id_or_a_name_are_refused(definitions, names, ids, shared_names):
    stated = Definitions(tuple(BodyDefinition(*each) for each in definitions))
    table = name_table(stated)
    assert (table.names, table.shared_ids, table.shared_names) == (names, ids, shared_names)
    (remark,) = ServerWatch().definitions(stated, table)
    assert "'One'" in remark.text


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
