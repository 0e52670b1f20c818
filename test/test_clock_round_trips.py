# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Stamps of exposures: what round trips add to the line under the arrivals."""

import math

from conftest import examples
from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.stream.clock.limits import RATE
from optitrack_vrpn.stream.clock.line import Line
from optitrack_vrpn.stream.clock.round_trips import RoundTrips
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig
import pytest

MS = 1_000_000
S = 1_000 * MS
OFFSET = 7_000 * S


def line_at(offset_ns, skew=0.0):
    """Return a line that puts a sender's times so far from its own, and faster by a skew."""
    line = Line()
    line.skew, line.known = skew, True
    line.begin(0, offset_ns, True)
    return line


@settings(deadline=None, max_examples=examples(100))
@given(st.lists(st.tuples(st.integers(0, 5 * MS), st.integers(0, 5 * MS)), min_size=1,
                max_size=40))
def test_the_bound_holds_for_any_two_ways(ways):
    """Frames come back as answers do: the line is at the least way back, or above it."""
    round_trips, line = RoundTrips(), line_at(OFFSET + min(back for _, back in ways))
    for number, (there, back) in enumerate(ways):
        sent = OFFSET + number * S // 4
        round_trips.add(sent, sent + there - OFFSET, sent + there + back)
        round_trips.follow(line, True)
    # A frame that met no delay lies on its sender's time.
    placed = line.lag(100 * S) - round_trips.delay_ns
    assert abs(placed - OFFSET) <= round_trips.half_width_ns + 1
    drift = len(ways) / 4 * RATE * S
    assert round_trips.half_width_ns <= min(there for there, _ in ways) / 2 + min(
        back for _, back in ways) / 2 + drift + 1


def test_an_answer_below_the_line_bounds_from_above():
    round_trips, line = RoundTrips(), line_at(OFFSET + 50_000)
    round_trips.add(OFFSET - 20_000, 0, OFFSET + 10_000)
    round_trips.follow(line)
    # Between 20 us before and 10 us after the server's time.
    assert round_trips.half_width_ns == 15_000
    assert line.lag(0) - round_trips.delay_ns == OFFSET - 5_000


def test_a_skew_of_200_ppm_is_followed():
    round_trips, line = RoundTrips(), line_at(OFFSET + 100_000, 200e-6)
    for number in range(400):
        server = number * S // 4
        host = OFFSET + round(server * (1 + 200e-6))
        round_trips.add(host - 100_000, server, host + 100_000)
        round_trips.follow(line)
    assert abs(round_trips.delay_ns - 100_000) < 1_000
    assert 99_000 <= round_trips.half_width_ns < 102_000


@pytest.mark.parametrize('step', [3_600 * S, -600 * S, 30 * S, -20 * S, 2 * MS])
def test_a_step_of_a_clock_is_noticed_and_forgotten(step):
    round_trips = RoundTrips()
    for number in range(40):
        sent = OFFSET + number * S // 4
        stepped = 0 if number < 20 else step
        round_trips.add(sent, sent + 50_000 - OFFSET + 700 * S + stepped, sent + 100_000)
        round_trips.follow(line_at(OFFSET - 700 * S - stepped + 50_000), number == 20)
    assert abs(round_trips.half_width_ns - 50_000) < 100
    assert abs(round_trips.delay_ns - 50_000) < 100


def test_the_delay_never_steps():
    round_trips, line = RoundTrips(), line_at(OFFSET + 500_000)
    round_trips.add(OFFSET - 500_000, 0, OFFSET + 500_000)
    round_trips.follow(line)
    assert round_trips.delay_ns == 500_000
    before = 500_000
    for number in range(1, 40):
        server = number * S // 4
        round_trips.add(OFFSET + server - 5_000, server, OFFSET + server + 500_000)
        round_trips.follow(line)
        # A quarter of the difference in a quarter of a second.
        assert 0 <= before - round_trips.delay_ns <= 62_500
        before = round_trips.delay_ns
    assert abs(before - 252_500) < 1_000


def feed(source, frames=2_000, rate=100, network=300_000, processing=5_400_000, echo=True):
    """Run a session without jitter; gives (stamp, exposure on the host's clock) of each frame."""
    found = []
    for number in range(frames):
        exposure = 3_600 * S + number * S // rate
        # The processing time scatters, and must not reach the stamps.
        spent = processing + (number * 7919) % 400_000
        if echo and number % (rate // 4) == 0:
            server = exposure + 1
            source.echo(server + OFFSET - network, server, server + OFFSET + network)
        arrival = exposure + spent + network + OFFSET
        found.append((source.stamp(exposure, arrival, 0, spent), exposure + OFFSET))
    return found


@pytest.mark.parametrize('latency_ms', [0.0, 6.0])
def test_stamps_are_exposures_whatever_latency_is_configured(latency_ms):
    source = StampSource(StampConfig(latency_ms=latency_ms))
    for stamp, exposure in feed(source):
        assert abs(stamp - exposure) < 2_000
    status = source.status()
    assert status.network_delay_s == pytest.approx(300e-6, abs=2e-6)
    assert status.uncertainty_s > 300e-6    # no one can tell an asymmetry of that size


def test_without_round_trips_the_configured_latency_is_taken_off():
    source = StampSource(StampConfig(latency_ms=6.0))
    stamps = feed(source, echo=False)
    assert abs(stamps[-1][0] - stamps[-1][1] - 300_000 + 6 * MS) < 2_000
    assert math.isnan(source.status().network_delay_s)


@pytest.mark.parametrize('mode', ['tracking', 'min_offset', 'arrival', 'sender'])
def test_every_mode_keeps_its_meaning(mode):
    source = StampSource(StampConfig(mode=mode))
    found = feed(source)
    last, exposure = found[-1]
    if mode in ('tracking', 'min_offset'):
        assert abs(last - exposure) < 2_000
    elif mode == 'arrival':
        assert 5.7 * MS <= last - exposure <= 6.1 * MS + 1
    else:
        assert last == exposure - OFFSET
    stamps = [stamp for stamp, _ in found]
    assert all(b > a for a, b in zip(stamps, stamps[1:]))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(-(1 << 63), 1 << 63), st.integers(-(1 << 63), 1 << 63),
                          st.integers(-(1 << 63), 1 << 63), st.integers(0, S)), max_size=30))
def test_no_round_trip_makes_a_stamp_fall_or_pass_its_arrival(trips):
    source = StampSource(StampConfig())
    last = 0
    for number, (sent, server, received, processing) in enumerate(trips):
        source.echo(sent, server, received)
        exposure = 3_600 * S + number * 10 * MS
        arrival = exposure + OFFSET + processing
        stamp = source.stamp(exposure, max(arrival, last), 0, processing)
        if stamp is not None and not source.status().restarts:
            assert last <= stamp or number == 0
            assert stamp <= max(arrival, last)
            last = stamp


def test_another_sender_starts_without_the_delay_of_the_one_before():
    source = StampSource(StampConfig(latency_ms=1.0))
    feed(source)
    source.reconnected()
    assert math.isnan(source.status().network_delay_s)
    found = [source.stamp(n * 10 * MS, 9_000 * S + n * 10 * MS) for n in range(1, 300)]
    assert abs(found[-1] - 9_000 * S - 2_989 * MS) < 20_000


def test_the_rate_of_a_young_session_is_that_of_its_frames():
    """Before the skew is known for good; round trips are carried from one to the next by it."""
    rng, skew, source = np.random.default_rng(5), -200e-6, StampSource(StampConfig())
    for number in range(13 * 240):
        true_ns = 10 * S + number * S // 240
        source.stamp(round(true_ns * (1.0 - skew)), true_ns + round(rng.uniform(0.1, 1.1) * MS))
    assert abs(source.status().skew_ppm + 200.0) < 60.0
