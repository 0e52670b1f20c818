# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simple modes, their settings, and the values reported beside the stamps."""

import random

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.telling.facts import StreamFacts
from optitrack_vrpn.telling.rules import of_entry
import pytest

MS = 1_000_000
S = 1_000 * MS
UNIX = 1_700_000_000 * S


def feed(source, pairs):
    return [source.stamp(sent, arrival) for sent, arrival in pairs]


@given(delays=st.lists(st.integers(0, 3 * MS), min_size=30, max_size=60),
       samples=st.integers(1, 25))
@settings(deadline=None)
def test_min_offset_is_the_originals_rule(delays, samples):
    pairs = [(9 * S + i * 10 * MS, 50 * S + i * 10 * MS + d) for i, d in enumerate(delays)]
    stamps = feed(StampSource(StampConfig(mode='min_offset', offset_samples=samples)), pairs)
    least = min(arrival - sent for sent, arrival in pairs[:samples])
    for i, ((sent, arrival), stamp) in enumerate(zip(pairs, stamps, strict=True)):
        if i < samples:
            assert stamp == arrival
        else:
            # what the original gives; never later than the arrival
            assert stamp == min(sent + least, arrival)


def test_min_offset_drifts_with_the_clocks_as_documented():
    source = StampSource(StampConfig(mode='min_offset'))
    # the host's clock 50 ppm fast: an hour is worth 180 ms
    last = source.stamp(0, 100)
    for i in range(1, 36_000):
        sent = i * 100 * MS
        last = source.stamp(sent, sent + 100 + i * 5_000)
    assert last - (35_999 * 100 * MS + 100 + 35_999 * 5_000) == pytest.approx(-180 * MS, rel=0.01)
    # the host's clock slow: what the constant gives would be later than the arrival
    source = StampSource(StampConfig(mode='min_offset'))
    for i in range(1, 36_000):
        sent = i * 100 * MS
        arrival = 9 * S + sent + 100 - i * 5_000
        assert source.stamp(sent, arrival) <= arrival


def test_mode_sender_returns_the_senders_times():
    source = StampSource(StampConfig(mode='sender', latency_ms=5.0))
    now = UNIX
    for start in (5 * S, 3 * S, UNIX, 0):
        pairs = [(start + i * 10 * MS, now + i * 10 * MS) for i in range(100)]
        now += 2 * S
        stamps = [source.stamp(s, a, 10**15) for s, a in pairs]
        # A fall is recognised by its third frame.
        assert stamps[2:] == [s for s, _ in pairs][2:] and stamps[:2] in (
            [None, None], [s for s, _ in pairs][:2])


@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'arrival'])
def test_latency_is_taken_off_every_stamp(mode):
    pairs = [(i * 4 * MS, 50 * S + i * 4 * MS) for i in range(300)]
    plain = feed(StampSource(StampConfig(mode=mode)), pairs)
    early = feed(StampSource(StampConfig(mode=mode, latency_ms=12.5)), pairs)
    assert [a - b for a, b in zip(plain, early, strict=True)] == [12_500_000] * 300


@pytest.mark.parametrize('mode', ['tracking', 'min_offset'])
@pytest.mark.parametrize(('back_to', 'ahead'), [(0, 0), (None, 3600 * S), (None, 2 * S)])
def test_a_restart_of_the_sender_begins_an_epoch_once_frames_are_fresh(mode, back_to, ahead):
    source = StampSource(StampConfig(mode=mode))
    for i in range(2000):
        source.stamp(500 * S + i * 4 * MS, 80 * S + i * 4 * MS + 30_000)
    source.changes.clear()
    new = back_to if back_to is not None else 508 * S + ahead
    stamps = [source.stamp(new + i * 4 * MS, 88 * S + i * 4 * MS) for i in range(240)]
    assert stamps[:90] == [None] * 90
    assert all(abs(stamps[i] - 88 * S - i * 4 * MS) < 20_000 for i in range(135, 240))
    assert source.status().restarts == {'sender_restarted': 1}
    assert [change.reason for change in source.changes] == ['sender_restarted']


@pytest.mark.parametrize(('first', 'base'), [
    (UNIX, 'unix_epoch'), (2_445_995 * S, 'sender_start'), (0, 'sender_start')])
@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'sender'])
def test_the_base_of_sender_times_is_known(mode, first, base):
    source = StampSource(StampConfig(mode=mode))
    for i in range(4000):
        source.stamp(first + i * MS, UNIX + 3 * S + i * MS)
    assert source.status().sender_base == base and source.status().learnt
    assert not source.changes


def test_reconnecting_keeps_what_fits_and_drops_what_does_not():
    def before(source):
        rnd = random.Random(1)
        for i in range(3000):
            source.stamp(9 * S + i * 4 * MS, 60 * S + i * 4 * MS + rnd.randrange(200_000))
        source.reconnected()
        return source

    same = before(StampSource(StampConfig()))
    stamps = [same.stamp(25 * S + i * 4 * MS, 76 * S + i * 4 * MS + 150_000) for i in range(70)]
    assert stamps[:60] == [None] * 60 and abs(stamps[69] - 76 * S - 69 * 4 * MS) < 20_000
    assert same.status().epoch == 0
    # A sender that lost 5 s: all frames are late until another clock is certain.
    other = before(StampSource(StampConfig()))
    stamps = [other.stamp(25 * S + i * 4 * MS, 81 * S + i * 4 * MS) for i in range(500)]
    assert all(stamp is None or stamp < 77 * S + i * 4 * MS
               for i, stamp in enumerate(stamps[:370]))
    assert abs(stamps[420] - 81 * S - 420 * 4 * MS) < 1000
    assert other.status().restarts == {'offset_changed': 1}


def test_jitter_of_arrivals_against_stamps_is_what_was_put_in():
    rnd = random.Random(5)
    source = StampSource(StampConfig())
    for i in range(20_000):
        source.stamp(i * 4 * MS, 60 * S + i * 4 * MS + int(rnd.expovariate(1 / 200e3)))
    status = source.status()
    assert status.jitter_p99_s == pytest.approx(200e-6 * 4.605, rel=0.2)
    assert status.samples == 20_000
    assert abs(status.offset_ns - 60 * S) < 20_000


@pytest.mark.parametrize('wrong', [
    {'mode': 'least'}, {'latency_ms': True}, {'latency_ms': -1.0},
    {'latency_ms': float('nan')}, {'latency_ms': 1e6},
])
def test_wrong_settings_are_refused_by_name(wrong):
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        StampConfig(**wrong)


def test_a_clock_that_stands_after_a_restart_is_reported():
    """Its frames have no order, so that none can be stamped; silence has a reason."""
    source = StampSource(StampConfig())
    for k in range(240):
        source.stamp(100 * S + k * S // 240, S + k * S // 240)
    source.reconnected()
    for k in range(240, 600):
        assert source.stamp(0, S + k * S // 240) is None
    (found,) = of_entry('clock', StreamFacts(clock=source.status(4 * S), max_age_s=1.0))
    assert 'no pose is published' in found.text


def test_mode_sender_reports_no_frames_as_withheld():
    """A recording that is played at twice its rate is stamped as sent, and nothing is missing."""
    source = StampSource(StampConfig(mode='sender'))
    source.reconnected()
    for number in range(400):
        assert source.stamp(10 * S + number * 10 * MS, 20 * S + number * 5 * MS) is not None
    assert not source.status(25 * S).withheld
