# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Chains of static transforms against products of matrices."""

import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import rigid
from optitrack_vrpn.guests.rgbd.images import StaticFrames
from scipy.spatial.transform import Rotation


def add(frames, parent, child, seed):
    random = np.random.default_rng(seed)
    rotation, translation = Rotation.random(random_state=seed), random.normal(0, 1, 3)
    assert frames.add(parent, child, tuple(translation), tuple(rotation.as_quat()))
    return rigid(rotation.as_matrix(), translation)


def test_chains_up_down_and_across():
    frames = StaticFrames()
    link = add(frames, 'base', 'link', 1)
    colour = add(frames, 'link', '/colour', 2)
    depth = add(frames, 'link', 'depth', 3)
    np.testing.assert_allclose(frames.lookup('base', 'colour'), link @ colour)
    np.testing.assert_allclose(frames.lookup('colour', 'base'), np.linalg.inv(link @ colour))
    np.testing.assert_allclose(frames.lookup('colour', 'depth'), np.linalg.inv(colour) @ depth)
    np.testing.assert_allclose(frames.lookup('base', 'base'), np.eye(4))
    assert frames.lookup('base', 'other') is None


def test_loops_and_values_that_are_no_transform_do_no_harm():
    frames = StaticFrames()
    add(frames, 'a', 'b', 1)
    add(frames, 'b', 'a', 2)
    assert frames.lookup('a', 'c') is None
    assert frames.lookup('a', 'b') is not None
    assert not frames.add('c', 'd', (0, 0, 0), (0, 0, 0, 0))
    assert not frames.add('c', 'd', (0, float('nan'), 0), (0, 0, 0, 1))
    assert frames.lookup('c', 'd') is None
