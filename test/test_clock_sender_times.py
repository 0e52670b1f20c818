# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which sender times tell when frames were taken: ticks, jitter, losses, triggers, no times."""

from conftest import examples
from hypothesis import example, given, settings, strategies as st
import numpy as np
from optitrack_vrpn.stream.clock.sender_times import judge, SenderTimes
import pytest

NS = 1e9


def rows(rate, tick_s=1e-6, jitter_s=0.0, lost=0.0, network_s=50e-6, camera_ppm=15.0, seed=1,
         irregular=0.0, poll_s=0.0):
    """Give the times and arrivals of the first frames of a body."""
    rng = np.random.default_rng(seed)
    step = (1.0 + camera_ppm * 1e-6) / rate
    taken = 5.0 + np.cumsum(step * (1.0 + irregular * rng.uniform(-1.0, 1.0, 600)))
    sent = np.floor((taken + rng.normal(0.0, jitter_s, 600)) / tick_s) * tick_s
    arrival = np.maximum.accumulate(taken + rng.exponential(network_s, 600))
    if poll_s:
        arrival = np.ceil(arrival / poll_s) * poll_s
    keep = np.flatnonzero(rng.random(600) >= lost)[:200]
    return [(round(sent[k] * NS), round(arrival[k] * NS)) for k in keep]


@example(rate=1000, lost=0.3, network_s=20e-6, seed=2, camera_ppm=20.0, poll_s=0.0523)
@settings(max_examples=examples(100), deadline=None)
@given(rate=st.sampled_from([30, 60, 100, 240, 360, 1000]), lost=st.sampled_from([0.0, 0.05, 0.3]),
       network_s=st.sampled_from([20e-6, 200e-6, 2e-3]), seed=st.integers(0, 999),
       camera_ppm=st.floats(-50.0, 50.0), poll_s=st.sampled_from([0.0, 0.003, 0.02, 0.0523]))
def test_exact_times_are_used_whatever_the_network_does(
        rate, lost, network_s, seed, camera_ppm, poll_s):
    assert not judge(rows(rate, lost=lost, network_s=network_s, seed=seed,
                          camera_ppm=camera_ppm, poll_s=poll_s)).fault


@pytest.mark.parametrize('lost', [0.0, 0.02, 0.05])
@pytest.mark.parametrize('rate, tick_s', [
    (240, 1 / 64), (60, 1 / 64), (240, 0.004), (120, 0.064), (240, 0.003), (120, 0.005)])
def test_ticks_of_half_a_frame_or_more_are_not_used(rate, tick_s, lost):
    found = judge(rows(rate, tick_s, lost=lost))
    assert 'tick or jitter' in found.fault
    assert found.spread_ns < 2.5e6


@pytest.mark.parametrize('rate, tick_s', [(240, 0.001), (120, 0.002)])
def test_smaller_ticks_are_used_and_their_size_is_known(rate, tick_s):
    found = judge(rows(rate, tick_s))
    assert not found.fault and found.size_ns == pytest.approx(tick_s * NS, rel=0.05)


def test_times_that_jitter_by_a_frame_are_not_used():
    assert judge(rows(240, jitter_s=4e-3)).fault
    assert judge(rows(240, jitter_s=0.2e-3)).size_ns > 0.4e6


def test_triggered_cameras_are_used():
    assert not judge(rows(100, irregular=0.4)).fault


def test_two_rates_and_repeats_do_not_mix():
    times = SenderTimes()
    found = None
    for k, (sent, arrival) in enumerate(rows(240)):
        found = found or times.add('fast', k, sent, arrival, True)
        times.add('fast', k, sent, arrival + 10_000, True)
        if k % 3 == 0:
            times.add('slow', k, sent, arrival, True)
    assert found is not None and not found.fault


def test_a_sender_without_times_is_recognised_in_a_second():
    times = SenderTimes()
    when = next(k for k in range(400) if times.add('a', k, 10**9, k * 5_000_000, False))
    assert 195 <= when <= 205
