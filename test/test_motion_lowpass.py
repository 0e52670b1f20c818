# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The low-pass equals scipy's, starts without a transient, and handles attitudes without wrap."""

import math

from hypothesis import given, settings, strategies as st
import numpy as np
from optitrack_vrpn.stream.motion.lowpass import Lowpass, LowpassConfig
import pytest
from scipy import signal
from scipy.spatial.transform import Rotation

UPRIGHT = (0.0, 0.0, 0.0, 1.0)


def run(lowpass, positions, quats, rate):
    out = [lowpass.update(round(k * 1e9 / rate), tuple(p), tuple(q), rate)
           for k, (p, q) in enumerate(zip(positions, quats))]
    return np.array([p for _, p, _ in out]), np.array([q for _, _, q in out])


def scipy_filter(config, samples, rate):
    sos = signal.butter(config.order, config.cutoff_hz, output='sos', fs=rate)
    zi = signal.sosfilt_zi(sos)[:, :, None] * samples[0]
    return signal.sosfilt(sos, samples, axis=0, zi=zi)[0]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10), st.floats(0.5, 40.0), st.sampled_from([100.0, 240.0]),
       st.integers(0, 100))
def test_positions_are_those_of_sosfilt(order, cutoff, rate, seed):
    config = LowpassConfig(cutoff, order)
    samples = np.random.default_rng(seed).normal(3.0, 1.0, (200, 3))
    ours, _ = run(Lowpass(config), samples.tolist(), [UPRIGHT] * 200, rate)
    assert np.allclose(ours, scipy_filter(config, samples, rate), rtol=1e-9, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.floats(-25.0, 25.0), st.integers(0, 100))
def test_turning_about_one_axis_is_filtered_as_sosfilt_filters_the_angle(rate_of_turn, seed):
    """Many turns, noise, both signs of the quaternion: nothing wraps."""
    draw = np.random.default_rng(seed)
    config = LowpassConfig(5.0)
    axis = draw.normal(0, 1, 3)
    axis /= np.linalg.norm(axis)
    angles = rate_of_turn * np.arange(600) / 240 + draw.normal(0, 0.01, 600)
    quats = Rotation.from_rotvec(angles[:, None] * axis).as_quat()
    quats *= draw.choice([-1.0, 1.0], (600, 1))
    _, ours = run(Lowpass(config), np.zeros((600, 3)).tolist(), quats.tolist(), 240.0)
    expected = Rotation.from_rotvec(scipy_filter(config, angles[:, None], 240.0) * axis)
    assert np.max((Rotation.from_quat(ours) * expected.inv()).magnitude()) < 1e-9


def test_an_attitude_that_tumbles_lags_by_the_group_delay():
    """Axes that change: the filtered attitude is the true one a group delay ago."""
    rate = 240.0
    lowpass = Lowpass(LowpassConfig(10.0, 3))

    def attitude(t):
        return (Rotation.from_rotvec([0.0, 0.0, 1.5 * t])
                * Rotation.from_rotvec([0.6 * math.sin(1.1 * t), 0.5 * math.cos(t), 0.0]))

    quats = [attitude(k / rate).as_quat().tolist() for k in range(1500)]
    _, ours = run(lowpass, np.zeros((1500, 3)).tolist(), quats, rate)
    for k in range(300, 1500, 50):
        delayed = attitude(k / rate - lowpass.delay_s)
        lagging = (Rotation.from_quat(ours[k]) * Rotation.from_quat(quats[k]).inv()).magnitude()
        error = (Rotation.from_quat(ours[k]) * delayed.inv()).magnitude()
        assert error < 0.03 * lagging


def test_the_sign_goes_with_the_pose_given():
    lowpass = Lowpass(LowpassConfig(5.0))
    for k in range(50):
        sign = -1.0 if k % 2 else 1.0
        _, _, quat = lowpass.update(k * 10_000_000, (0.0, 0.0, 0.0),
                                    (0.0, 0.0, 0.0, sign), 100.0)
        assert quat[3] == pytest.approx(sign)


def test_the_delay_equals_that_of_scipy():
    config = LowpassConfig(5.0, 5, compensate_delay=True)
    lowpass = Lowpass(config)
    assert lowpass.delay_s == 0.0
    for k in range(200):
        now = 10**12 + k * 10_000_000
        stamp, _, _ = lowpass.update(now, (0.0, 0.0, 0.0), UPRIGHT, 100.0)
        assert k or stamp == now    # not behind yet
    b, a = signal.butter(5, 5.0, fs=100.0)
    for frequency in (0.01, 2.0, 4.5):
        expected = signal.group_delay((b, a), w=[frequency], fs=100.0)[1][0] / 100.0
        assert lowpass.group_delay(frequency) == pytest.approx(expected, rel=1e-3)
    assert stamp == pytest.approx(now - lowpass.delay_s * 1e9, abs=1e3)


def turned(angle):
    return (0.0, 0.0, math.sin(angle / 2), math.cos(angle / 2))


def test_a_moving_body_is_where_it_was_at_its_stamp():
    lowpass = Lowpass(LowpassConfig(5.0, compensate_delay=True))
    last = -1
    for k in range(400):
        missing = 150 <= k < 155 or 250 <= k < 290    # bridged; started again
        if missing:
            continue
        stamp, position, quat = lowpass.update(
            k * 10_000_000, (0.02 * k, 0.0, 0.0), turned(0.01 * k), 100.0)
        # From the first pose on, and after gaps: with 2 m/s and 1 rad/s.
        assert position[0] == pytest.approx(stamp * 1e-9 * 2.0, abs=1e-5)
        off = Rotation.from_quat(quat) * Rotation.from_quat(turned(stamp * 1e-9)).inv()
        assert off.magnitude() < 1e-5
        assert stamp > last
        last = stamp
    assert stamp == pytest.approx(3_990_000_000 - lowpass.delay_s * 1e9, abs=1e3)


@pytest.mark.parametrize('compensate', [False, True])
@pytest.mark.parametrize('before, after', [(100, 94), (120, 100), (94, 100), (60, 240), (240, 60)])
def test_a_new_design_goes_on_where_the_old_one_was(before, after, compensate):
    lowpass = Lowpass(LowpassConfig(5.0, compensate_delay=compensate))
    times = [k / before for k in range(3 * before)] + [3.0 + k / after for k in range(3 * after)]
    for t in times:
        stamp, position, _ = lowpass.update(
            round(t * 1e9), (2.0 * t, 0.0, 0.0), UPRIGHT, float(before if t < 3.0 else after))
        if t > 1.0:    # 0.2 m behind, but for rounding to whole frames
            assert position[0] == pytest.approx(2.0 * (t - lowpass.delay_s), abs=0.03)
        if compensate:
            assert position[0] == pytest.approx(stamp * 2e-9, abs=1e-5)
    assert lowpass.rate_hz == after and lowpass.starts == 2


def test_a_few_missing_frames_are_bridged_and_many_start_anew():
    lowpass = Lowpass(LowpassConfig(5.0))
    whole = Lowpass(LowpassConfig(5.0))
    for k in range(300):
        full = whole.update(k * 10_000_000, (0.02 * k, 0.0, 0.0), UPRIGHT, 100.0)
        if k % 3 != 1:
            left = lowpass.update(k * 10_000_000, (0.02 * k, 0.0, 0.0), UPRIGHT, 100.0)
            if k > 1:
                assert left[1] == pytest.approx(full[1], abs=1e-9)
    assert lowpass.starts == 1
    _, position, _ = lowpass.update(4_000_000_000, (50.0, 0.0, 0.0), UPRIGHT, 100.0)
    assert lowpass.starts == 2
    assert position == pytest.approx((50.0, 0.0, 0.0))


def test_reset_starts_anew_and_a_new_rate_designs_anew():
    lowpass = Lowpass(LowpassConfig(5.0))
    for k in range(100):
        lowpass.update(k * 10_000_000, (0.0, 0.0, 0.0), UPRIGHT, 100.0)
    lowpass.reset()
    _, position, _ = lowpass.update(10**9, (9.0, 0.0, 0.0), UPRIGHT, 101.0)
    assert position[0] == pytest.approx(9.0)
    assert lowpass.rate_hz == 100.0
    lowpass.update(10**9 + 4_000_000, (9.0, 0.0, 0.0), UPRIGHT, 240.0)
    assert lowpass.rate_hz == 240.0


@pytest.mark.parametrize('rate', [1e5, 1e12])
def test_a_rate_far_above_that_of_the_inputs_costs_no_more_than_the_memory_of_the_filter(rate):
    lowpass = Lowpass(LowpassConfig(cutoff_hz=5.0, compensate_delay=False))
    for k in range(100):
        lowpass.update(k * 50_000_000, (1.0, 2.0, 3.0), UPRIGHT, 20.0)
    _, position, _ = lowpass.update(100 * 50_000_000, (1.0, 2.0, 3.0), UPRIGHT, rate)
    assert np.allclose(position, (1.0, 2.0, 3.0))
