# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The error of a stamp in the covariance of a pose: against samples, and through the pipeline."""

import math

import numpy as np
from optitrack_vrpn.stream.clock.types import StampConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.motion.estimator import EstimateConfig, MotionEstimate, with_stamp_error
from optitrack_vrpn.stream.pipeline import Pipeline
from pipeline_kit import pose_report, S


def test_covariance_grows_by_what_wrong_stamps_do_to_a_moving_body():
    velocity, rate = (2.0, -1.0, 0.5), (0.3, 0.0, -4.0)
    before = np.diag([1e-6] * 3 + [1e-5] * 3)
    motion = MotionEstimate(
        0, (0.0,) * 3, (0.0, 0.0, 0.0, 1.0), velocity, (0.0,) * 3, rate, (0.0,) * 3,
        velocity, rate, [0.0] * 36, before.ravel().tolist())
    errors = np.random.default_rng(1).normal(0.0, 2e-3, 400_000)
    moved = np.outer(errors, [*velocity, *rate])
    after = np.reshape(with_stamp_error(motion, 2e-3).pose_covariance, (6, 6))
    assert np.allclose(after - before, np.cov(moved.T), rtol=0.01, atol=1e-9)
    assert motion.pose_covariance == before.ravel().tolist()


def motion_of(in_covariance):
    """Publish a body that circles at 2 m/s, with 5 ms of jitter; return pipeline and end."""
    pipeline = Pipeline(PipelineConfig(
        stamps=StampConfig(in_covariance=in_covariance),
        estimate=EstimateConfig(estimate_motion=True)),
        lambda channel: setattr(channel, 'wants_motion', True))
    rng = np.random.default_rng(2)
    found = []
    for i in range(1500):
        t = i / 100.0
        report = pose_report(
            'A', 9 * S + i * S // 100, (2.0 * math.cos(t), 1.0, 2.0 * math.sin(t)))
        for sample in pipeline.process([report], 50 * S + i * S // 100 + int(
                rng.uniform(0, 5e6)), 0).samples:
            found.append(sample.motion)
    return pipeline, found[-1]


def test_odometry_includes_the_uncertainty_of_its_stamp_where_asked():
    (_, plain), (pipeline, wide) = motion_of(False), motion_of(True)
    deviation = 0.5 * pipeline.stamps.uncertainty_s()
    twist = np.array([*wide.velocity, *wide.angular_velocity])
    added = np.reshape(wide.pose_covariance, (6, 6)) - np.reshape(plain.pose_covariance, (6, 6))
    assert np.linalg.norm(wide.velocity) > 1.5
    assert np.allclose(added, deviation ** 2 * np.outer(twist, twist), rtol=1e-6, atol=1e-18)
    assert added[0, 0] + added[1, 1] + added[2, 2] > 1e-9
