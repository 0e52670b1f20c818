# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Times of a steady camera are recovered from ticks and jitter; others stay unchanged."""

from conftest import examples
from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.stream.clock.cadence import Cadence, common_step
from optitrack_vrpn.stream.clock.source import StampSource
from optitrack_vrpn.stream.clock.types import StampConfig
import pytest

S = 10**9
MS = 10**6
START = 5_000 * S


def exposures(seconds, rate, loss=0.0, seed=1):
    t = np.arange(0.0, seconds, 1.0 / rate)
    return t[np.random.default_rng(seed).random(len(t)) >= loss]


def ticking(t, tick_s):
    """Give the times of a clock that advances in ticks (ns)."""
    return START + np.round(np.floor(t / tick_s + 1e-9) * tick_s * 1e9).astype(int)


def placed(times):
    """Place every time as its own frame; -1 where that cannot be done yet."""
    cadence, found = Cadence(), []
    for time in times.tolist():
        if time == cadence.newest_ns:
            at = cadence.place_further()
            found.append(-1 if at is None else at)
        else:
            found.append(cadence.place(time))
    return cadence, np.array(found)


def wander(found, t, since):
    """Give the spread of the found times about the exposures (us): half of its range."""
    off = (found - START - t * 1e9)[t > since] / 1e3
    return (off.max() - off.min()) / 2


@pytest.mark.parametrize(('rate', 'tick_s', 'loss', 'limit_us'), [
    (240, 0.001, 0.0, 50), (240, 0.001, 0.005, 60), (360, 0.001, 0.02, 60),
    (240, 1 / 64, 0.0, 60), (60, 1 / 64, 0.0, 150), (180, 0.01, 0.0, 80), (500, 0.01, 0.0, 80),
])
def test_ticks_are_taken_out(rate, tick_s, loss, limit_us):
    t = exposures(60.0, rate, loss)
    cadence, found = placed(ticking(t, tick_s))
    assert cadence.smoothing
    assert cadence.tick_ns == pytest.approx(tick_s * 1e9, rel=1e-3)
    assert 1e9 / cadence.interval_ns == pytest.approx(rate, rel=1e-4)
    assert wander(found, t, 10.0) < limit_us
    assert wander(ticking(t, tick_s), t, 10.0) > 5 * limit_us or tick_s == 0.001


@pytest.mark.parametrize(('loss', 'drop'), [(0.0, 0), (0.005, 0), (0.0, 200)])
def test_software_jitter_is_taken_out(loss, drop):
    t = exposures(60.0, 240, loss)
    if drop:
        t = np.concatenate([t[:4000], t[4000 + drop:8000], t[8000 + 7 * drop:]])
    late = np.abs(np.random.default_rng(2).normal(0.0, 0.2e-3, len(t)))
    times = START + ((t + late) * 1e6).astype(int) * 1000
    cadence, found = placed(times)
    assert cadence.smoothing and not cadence.tick_ns
    assert cadence.jitter_ns == pytest.approx(0.6 * 0.2e6, rel=0.15)
    assert wander(times, t, 10.0) > 300
    assert wander(found, t, 10.0) < 30


def test_a_loss_within_a_tick_is_corrected_in_the_next():
    t = exposures(120.0, 240, 0.001)
    _, found = placed(ticking(t, 1 / 64))
    off = np.abs(found - START - t * 1e9)[t > 20.0]
    off = np.abs(off - np.median(off)) / 1e3
    # Frames after the lost one, until the next tick: three in a thousand at most.
    assert np.mean(off > 200) < 0.005
    assert off.max() < 1.01e6 / 240


@pytest.mark.parametrize('rate', [30, 60, 100, 120, 240, 360, 1000])
@pytest.mark.parametrize('loss', [0.0, 0.005, 0.3])
def test_times_of_a_clean_sender_stay_unchanged(rate, loss):
    t = exposures(20.0, rate, loss)
    jitter = np.random.default_rng(3).normal(0.0, 6.4e-6, len(t))
    for times in (START + (t * 1e6).astype(int) * 1000,
                  START + ((t + 1e-3 + jitter) * 1e6).astype(int) * 1000):
        cadence, found = placed(times)
        assert (found == times).all()
        assert not cadence.smoothing and not cadence.tick_ns


@pytest.mark.parametrize('kind', ['random', 'poisson', 'wandering'])
def test_times_of_irregular_triggers_stay_unchanged(kind):
    rng = np.random.default_rng(4)
    steps = {
        'random': lambda: rng.uniform(0.004, 0.012, 5000),
        'poisson': lambda: rng.exponential(0.01, 5000) + 1e-4,
        'wandering': lambda: 0.01 + rng.normal(0.0, 0.1e-3, 5000),
    }[kind]()
    times = START + (np.cumsum(steps) * 1e6).astype(int) * 1000
    _, found = placed(times)
    moved = np.abs(found - times)
    assert (moved < 0.5e6).all() and np.mean(moved > 0) < 0.2, kind


def test_a_change_of_rate_is_recognised_and_smoothed_anew():
    t = np.concatenate([np.arange(0, 20, 1 / 240), 20 + np.arange(0, 20, 1 / 100),
                        40 + np.arange(0, 20, 1 / 360)])
    times = ticking(t, 0.001)
    cadence, found = placed(times)
    assert cadence.smoothing
    assert 1e9 / cadence.interval_ns == pytest.approx(360, rel=1e-3)
    assert (np.diff(found) > 0).all()
    assert np.abs(found - START - t * 1e9).max() < 2.5e6
    off = (found - START - t * 1e9)[t > 50]
    assert off.max() - off.min() < 120e3


@pytest.mark.parametrize('pause_s', [0.5, 20.0, 100.0])
def test_a_pause_of_the_cameras_gives_another_phase(pause_s):
    t = np.concatenate([np.arange(0, 20, 1 / 240), 20 + pause_s + 0.0017 + np.arange(
        0, 20, 1 / 240)])
    _, found = placed(ticking(t, 0.001))
    assert (np.diff(found) > 0).all()
    off = (found - START - t * 1e9)[t > 30 + pause_s]
    assert off.max() - off.min() < 120e3
    assert np.abs(found - START - t * 1e9).max() < 2.5e6


times_ns = st.lists(st.one_of(
    st.just(4_167_000), st.just(0), st.integers(-30_000_000, 40_000_000),
    st.integers(0, 40 * S)), min_size=1, max_size=60)


@given(steps=times_ns, tick=st.sampled_from([1000, 1_000_000, 15_625_000]),
       seed=st.integers(0, 100))
@settings(max_examples=examples(60), deadline=None)
def test_times_of_frames_rise(steps, tick, seed):
    t = exposures(1.5, 240, 0.01, seed)
    late = np.abs(np.random.default_rng(seed).normal(0.0, 0.2e-3, len(t)))
    times = (START + ((t + late) * 1e9).astype(int)).tolist()
    for step in steps:
        times.append(max(START, times[-1] + step))
    cadence, last = Cadence(), -1
    for time in times:
        time -= time % tick
        if time > cadence.newest_ns:
            last, before = cadence.place(time), last
            assert last > before


def test_common_step_is_found_to_a_microsecond():
    rng = np.random.default_rng(5)
    for tick in (1e6, 15.625e6, 976_562.5, 10e6):
        steps = np.diff(np.floor(np.cumsum(rng.integers(1, 5, 100)) * tick / 1e3) * 1e3)
        assert common_step(steps.tolist()) == pytest.approx(tick, abs=1e3)
    assert common_step(rng.uniform(4e6, 5e6, 100).tolist()) == 0.0


def test_a_coarse_sender_is_corrected_and_reported_once():
    t = exposures(40.0, 240, 0.005)
    rng = np.random.default_rng(6)
    arrivals = np.maximum.accumulate(t + rng.gamma(3.0, 40e-6, len(t)))
    source = StampSource(StampConfig())
    stamps = [source.stamp(sender, S + round(arrival * 1e9)) for sender, arrival in zip(
        ticking(t, 0.001).tolist(), arrivals.tolist())]
    error = np.abs(np.array(stamps) - S - t * 1e9)[t > 10] / 1e3
    assert np.percentile(error, 99) < 60
    status = source.status()
    assert status.sender_tick_s == pytest.approx(1e-3) and status.smoothed
    assert np.mean(error < status.uncertainty_s * 1e6) > 0.95
    (event,) = [event for event in source.events() if event.data.kind == 'coarse_sender']
    assert event.data.reason == 'ticks' and event.severity == 'info'
    assert 'ticks of 1 ms' in event.text and '240.0' in event.text


def test_frames_of_one_tick_get_stamps_of_their_own():
    t = exposures(40.0, 240)
    rng = np.random.default_rng(7)
    arrivals = np.maximum.accumulate(t + rng.gamma(3.0, 40e-6, len(t)))
    source = StampSource(StampConfig())
    stamps, last, nth = [], -1, 0
    for sender, arrival in zip(ticking(t, 1 / 64).tolist(), arrivals.tolist()):
        arrival_ns = S + round(arrival * 1e9)
        first = source.stamp(sender, arrival_ns)
        nth = nth + 1 if sender == last else 0
        last = sender
        found = source.stamp_further(sender, nth, arrival_ns)
        if nth == 0 and found is not None:
            assert found[1] == first
        stamps.append(np.nan if found is None else found[1])
        assert found is None or found[1] <= arrival_ns
        # What came before is repeated as it was.
        assert source.stamp(sender, arrival_ns) == (first if nth == 0 else source.stamp(
            sender, arrival_ns))
    stamps = np.array(stamps)
    assert (np.diff(stamps[t > 2]) > 0).all()
    assert np.abs(stamps - S - t * 1e9)[t > 10].max() < 60e3


def coarse_source():
    """Give a source that has removed ticks of 1 ms for 4 s, and the sender time that is next."""
    source = StampSource(StampConfig())
    for sender in ticking(exposures(4.0, 240), 0.001).tolist():
        source.stamp(sender, sender + 7 * S + 300_000)
    assert source.status().smoothed
    return source, START + 4 * S


def test_a_restart_forgets_the_stamps_of_the_times_before_it():
    source, sender = coarse_source()
    source.stamp(sender, sender + 7 * S)
    new = [source.stamp(S + i * 4 * MS, sender + 7 * S + i * 4 * MS) for i in range(1, 200)][-1]
    assert source.status().restarts == {'sender_restarted': 1}
    # A late repeat of the last frame before the restart.
    late = source.stamp(sender, sender + 7 * S + 801 * MS)
    assert late is None or late >= new


@pytest.mark.parametrize('ahead', [2.0013, 2.0021, 2.0037])
def test_a_coarse_sender_that_jumps_ahead_is_stamped_by_its_new_times(ahead):
    source, _ = coarse_source()
    times = []
    t = exposures(3.0, 240)
    for sender, sent in zip(ticking(t + 4.0 + ahead, 0.001).tolist(), t.tolist()):
        arrival = START + 11 * S + round(sent * 1e9) + 1_300_000
        stamp = source.stamp(sender, arrival)
        times += [] if stamp is None else [stamp - arrival]
    assert source.status().restarts == {'sender_restarted': 1}
    assert len(times) > 720 - 60
    # No more than a tick before the arrival.
    assert min(times) >= -1_100_000


@pytest.mark.parametrize('phase', [0.0002, 0.0005, 0.0008])
def test_a_coarse_sender_that_restarts_is_as_exact_as_before(phase):
    """The minima of the times with ticks are forgotten again."""
    source, _ = coarse_source()
    off, rng = [], np.random.default_rng(3)
    t = exposures(15.0, 240)
    for sender, sent in zip((ticking(t + phase, 0.001) - START).tolist(), t.tolist()):
        arrival = START + 11 * S + round(sent * 1e9) + 1_300_000
        stamp = source.stamp(sender, arrival + int(rng.gamma(3.0, 40e3)))
        off.append(0 if stamp is None else stamp - arrival)
    assert source.status().restarts == {'sender_restarted': 1}
    assert np.abs(off)[t > 3].max() < 200e3


@pytest.mark.parametrize('phase', [0.002, 0.007, 0.012])
def test_after_a_gap_the_line_is_learnt_from_the_new_times(phase):
    """The line that replaces ticks of 15.6 ms is a millisecond off the one before the gap."""
    source, rng, off = StampSource(StampConfig()), np.random.default_rng(3), []
    t = exposures(40.0, 60)
    t[1200:] += 50.0 + phase
    for sender, sent in zip(ticking(t, 1 / 64).tolist(), t.tolist()):
        arrival = START + 11 * S + round(sent * 1e9)
        stamp = source.stamp(sender, arrival + int(rng.gamma(3.0, 40e3)), 10 ** 15)
        off.append(stamp - arrival - 10 ** 15)
    assert np.abs(off)[-600:].max() < 600e3
