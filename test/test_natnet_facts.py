# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The statements of a NatNet server against its data; times of frames become stamps."""

import struct

from optitrack_vrpn.natnet.facts import ServerWatch
from optitrack_vrpn.natnet.messages import (
    Body, Definitions, Frame, Response, Unanswered, Unrecognized)
from optitrack_vrpn.natnet.reports import name_table, Translator
import pytest

S = 1_000_000_000
MS = 1_000_000


def frame(number=1, exposure=0, transmit=0, params=0, timestamp=0.0, ptp=(0, 0), bodies=()):
    return Frame(
        number, list(bodies), [], 0.0, 0, 0, timestamp, exposure, 0, transmit, *ptp, params)


def answer(command, value):
    return Response(command, struct.pack('<f' if isinstance(value, float) else '<i', value))


def watched(watch, rate, seconds, stride=1):
    """Let frames come; gives what is remarked."""
    return [remark for k in range(round(rate * seconds / stride))
            for remark in watch.frame(frame(k * stride), round(k * stride * S / rate))]


# -- what is stated -------------------------------------------------------------------------------

@pytest.mark.parametrize('stated, sent, said', [
    (240.0, 240.0, 0), (240.0, 235.0, 0), (240.0, 120.0, 1), (100.0, 240.0, 1)])
def test_the_stated_frame_rate_is_compared_with_the_numbering(stated, sent, said):
    watch = ServerWatch()
    assert watch.answer(answer('FrameRate', stated)) == []
    remarks = watched(watch, sent, 10.0)
    assert len(remarks) == said, remarks
    assert all(f'states {stated:g} Hz' in remark.text and f'{sent:.1f} frames per second'
               in remark.text for remark in remarks)


def test_a_server_that_sends_every_third_frame_keeps_its_rate():
    watch = ServerWatch()
    watch.answer(answer('FrameRate', 240.0))
    assert watched(watch, 240.0, 10.0, stride=3) == []


@pytest.mark.parametrize('stated, taken, said', [
    (1, 'y', ''), (2, 'z', ''), (2, 'y', 'set up_axis to z'), (1, 'z', 'set up_axis to y'),
    (7, 'y', ''), (2, '', '')])
def test_the_stated_up_axis_is_compared_with_the_parameter(stated, taken, said):
    remarks = ServerWatch(taken).answer(answer('UpAxis', stated))
    assert [remark.severity for remark in remarks] == (['error'] if said else [])
    assert all(said in remark.text for remark in remarks)


@pytest.mark.parametrize('units, severities', [
    (1000.0, []), (1.0, ['error']), (float('nan'), [])])
def test_a_unit_that_is_not_a_metre_is_an_error(units, severities):
    remarks = ServerWatch().answer(answer('UnitsToMillimeters', units))
    assert [remark.severity for remark in remarks] == severities


@pytest.mark.parametrize('event, severity, words', [
    (answer('StartRecording', 0), 'info', 'Motive records'),
    (answer('StopRecording', 0), 'info', 'stopped recording'),
    (answer('StartRecording', 3), 'error', 'with code 3'),
    (answer('SetRecordTakeName,x', 1), 'error', 'SetRecordTakeName,x'),
    (Unrecognized('StartRecording'), 'error', 'does not know'),
    (Unanswered('StopRecording'), 'error', 'did not answer'),
])
def test_what_becomes_of_a_recording_is_reported(event, severity, words):
    (remark,) = ServerWatch().answer(event)
    assert remark.severity == severity and words in remark.text
    assert severity == 'info' or 'is not recording' not in remark.text    # that is not known


@pytest.mark.parametrize('event', [
    Unrecognized('UpAxis'), Unanswered('FrameRate'), Response('UpAxis', b''),
    Response('FrameRate', b'\0'), answer('SetRecordTakeName,x', 0)])
def test_questions_that_a_version_does_not_know_are_no_fault(event):
    assert ServerWatch('y').answer(event) == []


def test_a_take_that_is_played_is_reported_at_its_beginning_and_end():
    watch = ServerWatch()
    texts = [remark.text for params in (0, 0, 4, 4, 0) for remark in watch.frame(
        frame(params=params), 0)]
    assert ['plays a take' in text for text in texts] == [True, False]
    assert 'live poses again' in texts[1]


def test_a_server_without_bodies_and_ids_without_a_name_are_reported_once():
    watch = ServerWatch()
    nothing = Definitions(())
    (remark,) = watch.definitions(nothing, name_table(nothing))
    assert 'no rigid body' in remark.text
    assert len(watch.unknown([5, 6])) == 1 and not watch.unknown([6]) and watch.unknown([7])


# -- times ----------------------------------------------------------------------------------------

def times(translator, **values):
    report = translator.frame(frame(**values))[0]
    return report.sender_time_ns, report.processing_ns, report.timed


def test_the_senders_time_is_the_exposure_and_the_processing_is_stated_beside_it():
    assert times(Translator(10_000_000), exposure=10_000_000, transmit=10_054_000) == (
        S, 5_400_000, True)


def test_ticks_are_multiplied_as_integers():
    ticks = 2**63 - 1    # 29 000 years at 10 MHz, and the exact nanosecond of it
    assert times(Translator(10_000_000), exposure=ticks - 54_000, transmit=ticks)[0] == (
        (ticks - 54_000) * 100)
    # The counter of the captured Motive.
    assert times(Translator(3_312_787), exposure=3_312_787 * 86_400, transmit=3_312_787 * 86_400
                 )[0] == 86_400 * S


def test_cameras_without_exposure_times_give_times_of_transmission():
    assert times(Translator(10_000_000), transmit=10_054_000) == (S + 5_400_000, 0, True)


def test_a_frame_that_lacks_its_exposure_is_taken_to_be_processed_like_the_one_before():
    translator = Translator(10_000_000)
    times(translator, exposure=10_000_000, transmit=10_054_000)
    assert times(translator, number=2, transmit=10_154_000) == (S + 10 * MS, 5_400_000, True)


@pytest.mark.parametrize('exposure', [30_055_000, 1])
def test_an_exposure_after_the_transmission_or_long_before_it_is_not_used(exposure):
    translator = Translator(10_000_000)
    assert times(translator, exposure=exposure, transmit=30_054_000) == (
        3_005_400_000, 0, True)
    assert translator.odd_times == 1


def test_before_3_0_the_time_is_that_since_streaming_began():
    assert times(Translator(0), timestamp=12.5) == (12_500_000_000, 0, False)
    for wrong in (float('nan'), float('inf'), -1.0, 1e12):
        assert Translator(0).frame(frame(timestamp=wrong)) == []


def test_ptp_times_are_read_as_seconds_and_a_binary_fraction():
    report = Translator(10_000_000).frame(frame(transmit=1, ptp=(1_795_000_000, 1 << 31)))[0]
    assert report.ptp_ns == 1_795_000_000_500_000_000


@pytest.mark.parametrize('params, playback, valid', [
    (0, False, True), (4, False, False), (4, True, True)])
def test_bodies_of_a_take_that_is_played_are_not_valid_unless_that_is_wanted(
        params, playback, valid):
    translator = Translator(10_000_000)
    translator.names = {1: 'Wand'}
    body = Body(1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.001, 1)
    _, found = translator.frame(frame(transmit=1, params=params, bodies=[body]), playback)
    assert found.valid is valid
