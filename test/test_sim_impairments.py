# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Noise, faults and networks follow the scenario and repeat under the same seed."""

from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.sim import faults as f
from optitrack_vrpn.sim.impairments import ImpairedLink
from optitrack_vrpn.sim.scenario_io import Network, scenario_from_mapping
from optitrack_vrpn.sim.world import World
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation

RATE = 100.0


def world(faults=(), frame_faults=(), count=1, **rest):
    bodies = [{'name': f'b{i}', 'faults': list(faults) if i == 0 else []} for i in range(count)]
    return World(scenario_from_mapping({
        'bodies': bodies, 'rate': RATE, 'seed': 5, 'faults': list(frame_faults),
        'noise': {'position_mm': 0.1, 'attitude_deg': 0.1}, **rest}))


def stream(some_world, count):
    return [some_world.frame(k) for k in range(count)]


def of_body(frames, name='b0'):
    """Map frame number to the pose sent for a body."""
    return {frame.number: report for frame in frames for report in frame.reports
            if report.name == name}


def truth(some_world, numbers, name='b0'):
    return some_world.truth(name, np.array(list(numbers)) / RATE)


# -- noise and seeds ---------------------------------------------------------------------------

def test_noise_is_normal_with_the_size_asked_for_on_every_axis():
    some_world = world(noise={'position_mm': 0.3, 'attitude_deg': 0.2})
    poses = of_body(stream(some_world, 4000))
    state = truth(some_world, poses)
    error = np.array([p.position for p in poses.values()]) - state.position
    turn = (Rotation.from_quat(state.quat_xyzw).inv()
            * Rotation.from_quat([p.quat_xyzw for p in poses.values()])).as_rotvec()
    for columns, size in ((error, 0.3e-3), (turn, np.radians(0.2))):
        for column in columns.T:
            assert stats.kstest(column, 'norm', (0, size)).pvalue > 1e-3
        correlation = np.corrcoef(columns.T) - np.eye(3)
        assert np.abs(correlation).max() < 0.08
        # From frame to frame it is independent too.
        assert abs(np.corrcoef(columns[:-1, 0], columns[1:, 0])[0, 1]) < 0.08


EVERYTHING = {
    'faults': [{'type': 'occlusion', 'mode': 'frozen', 'start': 1, 'end': 2, 'every': 3},
               {'type': 'flip', 'start': 4, 'end': 4.5}],
    'frame_faults': [{'type': 'drop_frames', 'probability': 0.1},
                     {'type': 'duplicate_frames', 'probability': 0.1}],
    'count': 3,
}


def test_the_same_seed_gives_the_same_frames_in_any_order():
    frames = stream(world(**EVERYTHING), 700)
    again = world(**EVERYTHING)
    for number in np.random.default_rng(0).permutation(700)[:150].tolist():
        assert again.frame(number) == frames[number]
    other = world(**EVERYTHING, seed=6)
    assert other.frame(1) != frames[1]


# -- faults of bodies --------------------------------------------------------------------------

def test_a_silent_body_is_not_sent_for_exactly_its_time():
    poses = of_body(stream(world([
        {'type': 'occlusion', 'mode': 'silent', 'start': 0.5, 'end': 0.7, 'every': 2}]), 600))
    missing = set(range(600)) - set(poses)
    assert missing == {k for k in range(600) if k % 200 in range(50, 70)}


def test_a_frozen_body_repeats_its_last_pose_to_the_bit_with_stamps_running():
    some_world = world([{'type': 'occlusion', 'mode': 'frozen', 'start': 0.5, 'end': 0.8}])
    poses = of_body(stream(some_world, 120))
    for k in range(50, 80):
        assert poses[k][3:] == poses[49][3:]
        assert poses[k].sender_time_ns == k * 10_000_000
    assert len({poses[k].position for k in (*range(50), *range(80, 120))}) == 90


@pytest.mark.parametrize('axis', ['x', 'y', 'z'])
def test_a_flip_is_half_a_turn_about_the_bodys_own_axis(axis):
    some_world = world([{'type': 'flip', 'axis': axis, 'start': 0.2, 'end': 0.4}], noise={})
    poses = of_body(stream(some_world, 60))
    state = truth(some_world, poses)
    turn = Rotation.from_quat(state.quat_xyzw).inv() * Rotation.from_quat(
        [p.quat_xyzw for p in poses.values()])
    flipped = np.arange(60) // 20 == 1
    np.testing.assert_allclose(turn.magnitude(), np.where(flipped, np.pi, 0), atol=1e-7)
    wanted = np.tile(np.eye(3)['xyz'.index(axis)], (20, 1))
    np.testing.assert_allclose(turn[flipped].apply(wanted), wanted, atol=1e-12)
    np.testing.assert_array_equal([p.position for p in poses.values()], state.position)


def test_outliers_are_single_frames_and_teleports_last():
    some_world = world([
        {'type': 'outlier', 'at': 0.1, 'offset': [0, 0, 2], 'every': 0.5},
        {'type': 'teleport', 'start': 0.8, 'offset': [1, 2, 3]}], noise={})
    poses = of_body(stream(some_world, 100))
    state = truth(some_world, poses)
    offset = np.array([p.position for p in poses.values()]) - state.position
    wanted = np.zeros((100, 3))
    wanted[[10, 60]] = (0, 0, 2)
    wanted[80:] = (1, 2, 3)
    np.testing.assert_allclose(offset, wanted, atol=1e-12)
    np.testing.assert_array_equal([p.quat_xyzw for p in poses.values()], state.quat_xyzw)


# -- faults of frames --------------------------------------------------------------------------

def test_swapped_labels_exchange_data_not_order():
    plain, swapped = world(count=3), world(count=3, frame_faults=[
        {'type': 'swap_labels', 'bodies': ['b0', 'b2'], 'start': 0.1, 'end': 0.2}])
    for one, other in zip(stream(plain, 30), stream(swapped, 30)):
        names = ['b0', 'b1', 'b2'] if one.number // 10 != 1 else ['b2', 'b1', 'b0']
        assert [r.name for r in other.reports] == names
        assert [r[1:] for r in other.reports] == [r[1:] for r in one.reports]


def test_frames_are_dropped_and_doubled_as_often_as_asked():
    frames = stream(world(frame_faults=[
        {'type': 'drop_frames', 'probability': 0.2, 'start': 5},
        {'type': 'duplicate_frames', 'probability': 0.1, 'start': 5}], count=1), 4500)
    assert {frame.copies for frame in frames[:500]} == {1}
    copies = [frame.copies for frame in frames[500:]]
    assert stats.binomtest(copies.count(0), 4000, 0.2).pvalue > 1e-4
    assert stats.binomtest(copies.count(2), 4000, 0.1 * 0.8).pvalue > 1e-4


def test_a_velocity_report_says_how_the_next_pose_comes_about():
    some_world = world(noise={}, velocities=True, motion='figure_eight')
    frames = stream(some_world, 200)
    for now, after in zip(frames, frames[1:]):
        pose, velocity, acceleration = now.reports
        following = after.reports[0]
        dt = velocity.dt
        assert dt == 1 / RATE == acceleration.dt
        predicted = (np.array(pose.position) + np.array(velocity.vector) * dt
                     + np.array(acceleration.vector) * dt**2 / 2)
        np.testing.assert_allclose(predicted, following.position, atol=2e-6)
        turned = Rotation.from_quat(velocity.quat_xyzw) * Rotation.from_quat(pose.quat_xyzw)
        apart = turned * Rotation.from_quat(following.quat_xyzw).inv()
        assert apart.magnitude() < 2e-4


@settings(max_examples=200, deadline=None)
@given(st.floats(0, 50), st.floats(0.01, 20), st.floats(0, 30), st.floats(1, 1000))
def test_a_stretch_is_a_run_of_whole_frames(start, length, gap, rate):
    fault = f.Occlusion(start=start, end=start + length, every=length + gap + 0.01)
    frames = np.arange(0, int(rate * (start + 2 * fault.every)) + 1)[:20000]
    active, since = fault.hits(frames, rate)
    assert not active[frames / rate < start - 1e-6].any()
    assert (since[active] <= frames[active]).all()
    # Never longer than asked by a frame or more.
    assert (frames[active] - since[active] <= length * rate + 1).all()


# -- the network -------------------------------------------------------------------------------

def link_of(network, seed=1, number=1):
    return ImpairedLink(network, seed, number, lambda now_ns: now_ns / 1e9)


def arrivals(network, count=20000, seed=1, step_ns=4_000_000):
    link = link_of(network, seed)
    return [link.datagram(k * step_ns) for k in range(count)]


@pytest.mark.parametrize('jitter, distribution', [
    ('gamma', stats.gamma(3, scale=0.5 / 3)), ('exponential', stats.expon(scale=0.5)),
    ('lognormal', stats.lognorm(0.6, scale=0.5))])
def test_jitter_has_the_distribution_named(jitter, distribution):
    # Frames far apart: no queueing behind one another.
    step_ns = 100_000_000
    found = arrivals(Network(delay_ms=2.0, jitter_ms=0.5, jitter=jitter), 5000, step_ns=step_ns)
    delays = [(due - k * step_ns) / 1e6 - 2.0 for k, (due,) in enumerate(found)]
    assert stats.kstest(delays, distribution.cdf).pvalue > 1e-3


def test_datagrams_are_lost_doubled_and_overtaken_as_often_as_asked():
    found = arrivals(Network(loss=0.3, duplicate=0.1, reorder=0.05, reorder_ms=10.0))
    assert stats.binomtest(found.count([]), 20000, 0.3).pvalue > 1e-4
    assert stats.binomtest(sum(len(a) == 2 for a in found), 20000, 0.07).pvalue > 1e-4
    firsts = [a[0] for a in found if a]
    overtaken = sum(one > other for one, other in zip(firsts, firsts[1:]))
    assert stats.binomtest(overtaken, len(firsts), 0.05 * 0.95).pvalue > 1e-4


def test_a_stream_is_delayed_in_order_and_loses_nothing():
    link = link_of(Network(delay_ms=1.0, jitter_ms=20.0, loss=0.5, reorder=0.5))
    due = [link.stream(k * 4_000_000) for k in range(1000)]
    assert due == sorted(due)
    assert all(at >= k * 4_000_000 + 1_000_000 for k, at in enumerate(due))


def test_an_outage_loses_datagrams_and_holds_a_stream_until_it_ends():
    network = Network(outages=((1.0, 2.0),))
    found = arrivals(network, 1000)
    lost = [k for k, a in enumerate(found) if not a]
    assert lost == [k for k in range(1000) if 1.0 <= k * 0.004 < 2.0]
    link = link_of(network)
    due = [link.stream(k * 4_000_000) for k in range(1000)]
    assert due == sorted(due)
    assert set(due[250:500]) == {2_000_000_000}
    assert due[500:] == [k * 4_000_000 for k in range(500, 1000)]
