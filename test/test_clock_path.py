# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The path under the minima: its solver held to numpy, its hull to scipy, its choices to truth."""

import math
import pickle

from conftest import examples
from hypothesis import example, given, settings, strategies as st
import numpy as np
from optitrack_vrpn.clock.cost import Node, Prior, solve, WALK
from optitrack_vrpn.clock.hypotheses import lower_hull
from optitrack_vrpn.clock.path import ClockPath
from optitrack_vrpn.clock.waits import Waits
import pytest
from scipy.spatial import ConvexHull

S = 1e9


@given(steps=st.lists(st.floats(0.1, 30.0), min_size=3, max_size=30), seed=st.integers(0, 99))
@settings(max_examples=examples(60), deadline=None)
def test_solution_is_that_of_the_dense_normal_equations(steps, seed):
    rng = np.random.default_rng(seed)
    t = np.cumsum(steps)
    n = len(t)
    y, w, scale = rng.normal(0, 50, n), rng.uniform(0.0, 1.0, n), rng.uniform(2.0, 9.0, n)
    free = rng.random(n) < 0.2
    times = np.append(t, t[-1] + 1.0)
    slopes = np.zeros((n, n + 1))
    for k in range(n):
        slopes[k, k:k + 2] = np.array([-1.0, 1.0]) / (times[k + 1] - times[k])
    changes = np.diff(slopes, axis=0)
    p = np.where(free[1:], 1e-6, 2.0 / (WALK ** 2 * (times[2:] - times[:-2])))
    w[-1] += 0.1
    prior = Prior((y[1] - y[0]) / (t[1] - t[0]), 2.0)
    a = (np.diag(np.append(w / scale ** 2, 0.0)) + changes.T @ np.diag(p) @ changes
         + np.outer(slopes[0], slopes[0]) / prior.deviation ** 2)
    expected = np.linalg.solve(a, np.append(w / scale ** 2 * y, 0.0)
                               + prior.slope / prior.deviation ** 2 * slopes[0])
    covariance = np.linalg.inv(a)
    # Minima on the first guess of the path have their full weight in the first round.
    nodes = [Node(*each) for each in zip(t, y, y, scale, w, free, strict=True)]
    found = solve(nodes, 1, prior)
    assert np.allclose([*(node.x for node in nodes), found.end], expected, rtol=1e-5, atol=1e-5)
    assert found.var == pytest.approx(covariance[-1, -1], rel=1e-5)
    assert found.slope_var == pytest.approx(slopes[-1] @ covariance @ slopes[-1], rel=1e-4)


def test_lower_hull_is_the_lower_half_of_scipys():
    rng = np.random.default_rng(4)
    points = np.column_stack([np.sort(rng.uniform(0, 300, 200)), rng.exponential(5, 200)])
    hull = ConvexHull(points)
    # A facet with a normal that points down belongs to the lower half.
    below = {int(i) for simplex, equation in zip(hull.simplices, hull.equations, strict=True)
             if equation[1] < 0 for i in simplex}
    nodes = [Node(t, y, y, 1.0) for t, y in points]
    assert [nodes.index(node) for node in lower_hull(nodes)] == sorted(below)


def floor_error(heights, clock, **attributes):
    """Feed a minimum a second; return the line's error a second later (us) and the path."""
    path = ClockPath()
    for name, value in attributes.items():
        setattr(path, name, value)
    error = []
    for k, (height, offset) in enumerate(zip(heights, clock, strict=True)):
        if k:
            error.append(path.line(k * S) / 1e3 - offset)
        path.add(k * S, (offset + height) * 1e3)
    return np.array(error), path


def minima(n, seed=1):
    return np.abs(np.random.default_rng(seed).normal(0.0, 5.0, n))


def test_a_saw_tooth_of_polling_is_recognised_by_its_cost():
    """Teeth of 30 s and 800 us, which a poll that beats with the frames makes."""
    k = np.arange(900)
    clock = 27.0 * k
    heights = 5.0 + 800.0 * (1.0 - k % 30 / 30.0)
    error, path = floor_error(heights, clock)
    assert np.abs(error[200:]).max() < 250.0
    assert path.rate == pytest.approx(27e-6, abs=0.5e-6)


@pytest.mark.parametrize('ppm', [-400.0, -60.0, 20.0, 60.0, 400.0])
def test_a_bend_is_followed_within_ten_seconds_where_clocks_are_slewed_only(ppm):
    k = np.arange(300)
    clock = 30.0 * k + ppm * np.clip(k - 150.0, 0.0, None)
    error, path = floor_error(minima(300), clock)
    assert np.abs(error[162:]).max() < 30.0
    assert path.rate == pytest.approx((30.0 + ppm) * 1e-6, abs=0.5e-6)
    error, path = floor_error(minima(300), clock, slewable=False)
    if ppm > 0.0:
        assert error[200] < -40.0 * ppm


def test_uncertainty_of_a_constant_delay_is_the_resolution():
    """A sender's whole microseconds are all that is left to be uncertain of."""
    k = np.arange(200)
    floor = -13.0 * k
    error, path = floor_error(np.random.default_rng(5).uniform(0.0, 0.5, 200), floor)
    assert np.abs(error[30:]).max() < path.uncertainty() / 1e3 < 2.0


def test_an_implausible_rate_is_followed_after_90_s():
    """Even a clock that should not be slewed is followed after 90 s, not left behind for ever."""
    k = np.arange(300)
    clock = 20.0 * k + 10.0 * np.clip(k - 100.0, 0.0, None)
    error, path = floor_error(minima(300), clock, slewable=False)
    assert error[150] < -300.0
    assert np.abs(error[210:]).max() < 40.0
    assert abs(path.rate * 1e6 - 30.0) < 1.0


@given(places=st.lists(st.sampled_from([0.0, 1e-6, 0.01, 0.5, 0.99, 1.0 - 1e-6]),
                       min_size=5, max_size=60),
       scatter=st.sampled_from([1e-3, 1.0, 300.0, 5e4]), seed=st.integers(0, 99))
@example(places=[0.99, 0.0, 0.0, 0.0], scatter=5e4, seed=4)
@settings(max_examples=examples(60), deadline=None)
def test_minima_at_nearly_one_time_have_a_finite_uncertainty(places, scatter, seed):
    """A busy sender stamps frames microseconds apart; they can be the least of two blocks."""
    rng = np.random.default_rng(seed)
    path = ClockPath()
    for block, place in enumerate(places):
        t = 0.25 * (block + place)
        path.add(t * S, 1e3 * (5000.0 + rng.exponential(scatter)))
        assert abs(path.line(t * S) * 1e-3 - 5000.0) < 10.0 * scatter + 200.0
        assert path.blocks < 4 or 0.0 < path.uncertainty() < math.inf


@pytest.mark.parametrize('ppm', [25.0, -25.0])
def test_polls_in_step_show_the_rate_after_two_steps(ppm):
    """Frames at 240 Hz, polls at 240 Hz of another clock: the wait changes by 25 us a second."""
    k = np.arange(700)
    longest = 4166.7
    heights = (1000.0 - ppm * k) % longest
    error, path = floor_error(heights, ppm * k, slewable=False, wait_ns=longest * 1e3)
    assert np.abs(error).max() < longest
    assert np.abs(error[10:180]).max() > 500.0    # until the second step only bounds are known
    assert np.abs(error[345:]).max() < 100.0
    assert path.rate == pytest.approx(ppm * 1e-6, abs=0.3e-6)


@given(wait=st.floats(0.0, 1.0), drift=st.floats(-40.0, 40.0), seed=st.integers(0, 9))
@settings(max_examples=examples(10), deadline=None)
def test_bounds_of_polled_frames_contain_the_floor(wait, drift, seed):
    longest, skew = 4166.7, 30.0
    noise = minima(200, seed) / 5.0
    bounds = Waits()
    for k in range(200):
        height = (wait * longest - drift * k) % longest + noise[k]
        bounds.update(float(k), skew * k + height, longest * 1.01)
        assert abs(skew * k - bounds.height) <= bounds.off + 2.0
    assert abs(bounds.slope - skew) <= bounds.slope_off + 0.5


def test_bounds_that_contradict_each_other_are_forgotten():
    """Load or a step raises the minima by more than a wait can."""
    bounds = Waits()
    for k in range(100):
        bounds.update(float(k), 9000.0 * (k > 50), 4166.7)
    assert 9000.0 - 4166.7 <= bounds.height + bounds.off <= 9001.0 + bounds.slope_off
    bounds.update(100.0, 9000.0, 0.0)
    assert not bounds.bounded


def test_nodes_are_bounded_however_long_it_runs():
    path, sizes = ClockPath(), []
    for k in range(3000):
        path.add(k * S, float(k % 7) * 1e3)
        sizes.append(len(pickle.dumps(path)) if k % 100 == 0 else 0)
    assert max(sizes[1500:]) < 1.1 * max(sizes[:1500])


@pytest.mark.slow
def test_bends_that_leave_the_memory_leave_no_trace():
    """A restart with a known rate, a slew of 50 s, and all of it forgotten five minutes later."""
    path = ClockPath()
    for at in range(100):
        path.add(at * S, 50e3 * at)
    path.restart()
    k = np.arange(900)
    clock = 50.0 * k + 500.0 * np.clip(k - 200.0, 0.0, 50.0)
    heights = minima(900)
    error = []
    for at in k:
        if at > 20:
            error.append(path.line(at * S) / 1e3 - clock[at])
        path.add(at * S, (clock[at] + heights[at]) * 1e3)
    assert np.abs(error[300:]).max() < 30.0


@pytest.mark.parametrize('slewable', [False, True])
@pytest.mark.parametrize('ppm', [-80.0, 20.0, 60.0, 300.0])
def test_another_rate_after_a_restart_is_followed_in_some_seconds(ppm, slewable):
    """Another computer sends now, and its clock has another rate than the one that is known."""
    path = ClockPath()
    path.slewable = slewable
    for k, height in enumerate(minima(100)):
        path.add(k * S, (30.0 * k + height) * 1e3)
    path.restart()
    for k, height in enumerate(minima(40, seed=2)):
        if k > 12:
            assert abs(path.line(k * S) / 1e3 - (30.0 + ppm) * k) < 30.0
        path.add(k * S, ((30.0 + ppm) * k + height) * 1e3)


def test_a_rate_that_changes_during_load_is_followed_soon_after_it():
    k = np.arange(300)
    clock = 30.0 * k + 4.0 * np.clip(k - 170.0, 0.0, None)
    load = 1500.0 * ((k > 150) & (k < 190))
    error, _ = floor_error(minima(300) + load, clock)
    assert np.abs(error[20:150]).max() < 30.0
    assert np.abs(error[212:]).max() < 40.0


def test_load_that_was_taken_for_a_slew_is_recognised_when_it_ends():
    """Load of 1 ms wanders within 5 s (an Ornstein-Uhlenbeck process), above a straight floor."""
    rng = np.random.default_rng(85)
    t = np.arange(200) + rng.uniform(0.0, 0.9, 200)
    share, load, path, error = math.exp(-1.0 / 5.0), 0.0, ClockPath(), []
    for k, (at, height) in enumerate(zip(t, minima(200), strict=True)):
        load = load * share + rng.normal(0.0, 1000.0 * math.sqrt(1.0 - share * share))
        if k > 20:
            error.append(path.line(k * S) / 1e3 - 30.0 * k)
        path.add(at * S, (30.0 * at + height + max(load, 0.0) * (k > 60)) * 1e3)
    assert np.percentile(np.abs(error), 90) < 300.0
