# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Keypoints in space against closed forms and sampled noise."""

import numpy as np
from optitrack_vrpn.guests.rgbd.features import (
    covariances_of, depth_mixture, FeatureTuning, find_features)
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
import pytest
from rgbd_kit import projected


CAMERA = Intrinsics(320, 240, 262.5, 262.5, 159.5, 119.5)


def chequers(edge=20):
    """Paint squares of random brightness, whose corners are at known pixels."""
    random = np.random.default_rng(2)
    squares = random.integers(30, 226, (240 // edge, 320 // edge), dtype=np.uint8)
    return np.kron(squares, np.ones((edge, edge), np.uint8))


def flat(z=2.0):
    return np.full((240, 320), z, np.float32)


@pytest.mark.parametrize('detector', ['gftt', 'orb'])
def test_features_of_a_wall_lie_on_the_wall_at_the_corners(detector):
    features = find_features(chequers(), flat(), CAMERA, FeatureTuning(detector=detector))
    assert len(features) > 60
    np.testing.assert_allclose(features.means[:, 2], 2.0, rtol=1e-6)
    np.testing.assert_allclose(projected(CAMERA, features.means), features.pixels, atol=1e-6)
    if detector == 'gftt':
        # a corner lies between two squares, at a multiple of 20 less a half
        off = (features.pixels + 0.5 + 10) % 20 - 10
        assert (np.abs(off) < 2).all()


def test_a_depth_edge_gives_no_features():
    depth = flat()
    depth[:, 160:] = 2.5
    features = find_features(chequers(), depth, CAMERA)
    assert len(features) > 60
    assert not ((features.pixels[:, 0] >= 159) & (features.pixels[:, 0] <= 160)).any()


def test_the_noise_of_a_white_wall_gives_no_features():
    noise = np.random.default_rng(1).normal(0, 2.0, (240, 320))
    wall = np.clip(np.rint(200 + noise), 0, 255).astype(np.uint8)
    for detector in ('gftt', 'orb'):
        assert len(find_features(wall, flat(), CAMERA, FeatureTuning(detector=detector))) < 15
    # the corners that the threshold removes are there
    assert len(find_features(wall, flat(), CAMERA, FeatureTuning(contrast=0.0))) > 100


def test_mean_and_variance_of_depth_are_those_of_the_sampled_mixture():
    random = np.random.default_rng(4)
    depth = random.uniform(1.8, 2.2, (3, 3)).astype(np.float32)
    depth[0, 2] = 0
    weights = np.array([1, 2, 0, 2, 4, 2, 1, 2, 1]) / 15
    chosen = random.choice(9, 400_000, p=weights)
    samples = random.normal(depth.ravel()[chosen], 0.01 * depth.ravel()[chosen] ** 2)
    [mean], [variance], [valid] = depth_mixture(depth, np.array([[1.0, 1.0]]), 0.01)
    assert valid
    assert mean == pytest.approx(samples.mean(), abs=1e-3)
    assert variance == pytest.approx(samples.var(), rel=0.01)


def test_covariance_is_that_of_sampled_pixels_and_depths():
    random = np.random.default_rng(5)
    pixel, z, stdev, noise = np.array([60.0, 200.0]), 3.0, 0.05, 1.5
    pixels = random.normal(pixel, noise, (400_000, 2))
    samples = CAMERA.rays(pixels) * random.normal(z, stdev, (len(pixels), 1))
    [expected] = covariances_of(CAMERA.rays(pixel[None]), np.array([z]), np.array([stdev ** 2]),
                                CAMERA, noise)
    np.testing.assert_allclose(expected, np.cov(samples.T), atol=0.01 * expected.max())
