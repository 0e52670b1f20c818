# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Deadlines and stamps of the simulated Motive, with time as an argument."""

from hypothesis import given, settings, strategies as st
from optitrack_vrpn.sim import faults
from optitrack_vrpn.sim.scenario_io import Scenario, SimClock
from optitrack_vrpn.sim.world import SimStream

START = 10**15


def make(rate=240.0, **rest):
    stream = SimStream(Scenario(rate=rate, **rest))
    stream.start(START, 1_800_000_000 * 10**9)
    return stream


@settings(deadline=None)
@given(st.floats(0.5, 2000), st.floats(-500, 500), st.integers(0, 10**7))
def test_a_frame_is_due_when_the_senders_clock_shows_its_time(rate, skew_ppm, number):
    stream = make(rate, clock=SimClock(skew_ppm=skew_ppm))
    stream.number = number
    elapsed_ns = stream.due_ns - START
    # stamp = base + (1 + skew) * elapsed, to the rounding of both sides.
    assert abs(stream.time_ns(number) - (1 + skew_ppm * 1e-6) * elapsed_ns) <= 2 + number * 1e-6
    assert abs(stream.time(stream.due_ns) * 1e9 - stream.time_ns(number)) <= 2 + number * 1e-6


def test_delays_do_not_add_up():
    stream, now_ns = make(1000.0), START
    for k in range(5000):
        now_ns = max(now_ns, stream.due_ns) + (k * 7919 % 900_000)  # each one late, some by 0.9 ms
        assert stream.take(now_ns) == (k, 0)
    assert stream.due_ns == START + 5 * 10**9


def test_frames_are_caught_up_after_a_hiccup_and_skipped_after_a_sleep():
    stream = make(100.0)
    assert stream.take(START) == (0, 0)
    assert stream.take(START + 200_000_000) == (1, 0)
    taken = []
    while stream.due_ns <= START + 200_000_000:
        taken.append(stream.take(START + 200_000_000)[0])
    assert taken == list(range(2, 21))
    slept_ns = START + 20 * 10**9
    number, missed = stream.take(slept_ns)
    assert (number, missed) == (2000, 2000 - 21)
    assert stream.due_ns > slept_ns


def test_stamps_count_from_a_given_start_or_from_the_epoch():
    assert make(clock=SimClock(start=1234.5)).base_ns == 1_234_500_000_000
    assert make().base_ns == 0
    assert make(clock=SimClock(base='epoch', start=5.0)).base_ns == 1_800_000_000 * 10**9


def test_after_a_restart_motives_stamps_begin_anew_and_epoch_stamps_go_on():
    stream = make(100.0, clock=SimClock(start=3.0))
    stream.number = 500
    stream.restart()
    assert stream.base_ns + stream.time_ns(500) == 3_000_000_000
    epoch = make(100.0, clock=SimClock(base='epoch'))
    before = epoch.base_ns
    epoch.number = 500
    epoch.restart()
    assert epoch.base_ns == before


def test_restarts_happen_when_asked():
    stream = make(100.0, faults=(
        faults.Restart(at=1.0, every=5.0), faults.Restart(at=2.5, downtime=0.2)))
    hits = {k: stream.restart_at(k).downtime for k in range(1700) if stream.restart_at(k)}
    assert hits == {100: 1.0, 250: 0.2, 600: 1.0, 1100: 1.0, 1600: 1.0}


def test_a_duration_ends_the_stream():
    stream = make(100.0, duration=0.5)
    taken = 0
    while not stream.over:
        stream.take(stream.due_ns)
        taken += 1
    assert taken == 50
