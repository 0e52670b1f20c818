# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Loop edges between images of a room whose poses are known."""

import functools

import numpy as np
from optitrack_vrpn.guests.rgbd.features import (
    describe, LOOPS, match_views, Places, ransac)
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics, motion_of, rigid, transformed
from optitrack_vrpn.guests.rgbd.room import camera_on_body, Room, rotation_from_angles, Sensor
import pytest
from scipy.spatial.transform import Rotation

cv2 = pytest.importorskip('cv2')
CAMERA = Intrinsics(320, 240, 262.5, 262.5, 159.75, 119.75)


def looking(x, y, yaw_deg, pitch_deg=0.0):
    """Give world_from_camera of a camera at a height of 1.2 m."""
    turn = rotation_from_angles(np.radians(yaw_deg), np.radians(pitch_deg), 0.0)
    return rigid(turn, (x, y, 1.2)) @ camera_on_body()


@functools.cache
def room():
    return Room()


@functools.cache
def seen(*where):
    """Give the view from a place, with the noise of a Kinect."""
    colour, depth = room().render(CAMERA, looking(*where))
    sensor = Sensor(seed=hash(where) % 1000)
    grey = cv2.cvtColor(sensor.image(colour), cv2.COLOR_RGB2GRAY)
    return describe(grey, sensor.depth(depth), CAMERA)


@pytest.mark.parametrize('first, second', [
    ((-1.0, 0.0, 0.0), (-0.8, 0.3, 10.0)),
    ((0.5, 0.5, 180.0), (0.2, 0.4, 165.0, 5.0)),
    ((0.0, -0.5, 90.0), (0.0, -0.5, 90.0)),
])
def test_the_motion_between_two_views_of_a_place_is_found(first, second):
    loop = match_views(seen(*first), seen(*second))
    assert loop is not None and loop.inliers >= LOOPS.inliers
    error = np.linalg.inv(loop.transform) @ np.linalg.inv(looking(*first)) @ looking(*second)
    moved, turned = motion_of(error)
    assert moved < 0.02 and np.degrees(turned) < 0.5
    # the error is within 4 of its standard deviations in all six axes
    whitened = np.linalg.cholesky(loop.information).T @ np.concatenate(
        [error[:3, 3], Rotation.from_matrix(error[:3, :3]).as_rotvec()])
    assert np.linalg.norm(whitened) < 4 * np.sqrt(6)


def test_views_of_different_places_are_no_loop():
    for first, second in (((-1.0, 0.0, 0.0), (-1.0, 0.0, 180.0)),
                          ((0.0, 0.0, 90.0), (0.0, 0.0, -90.0))):
        assert match_views(seen(*first), seen(*second)) is None


def test_a_place_is_found_again_among_others_and_never_next_to_itself():
    places = Places()
    for yaw in range(0, 360, 40):
        places.add(seen(-0.2, 0.1, float(yaw)))
    places.add(seen(-0.1, 0.0, 85.0))
    assert places.candidates(9)[0] == 2    # 80 degrees
    found = dict(places.loops(9))
    assert 2 in found and 8 not in found and set(found) <= {1, 2, 3}


def test_ransac_finds_the_pairs_of_one_motion_among_wrong_ones():
    rng = np.random.default_rng(3)
    source = rng.uniform(-2, 2, (200, 3))
    motion = rigid(Rotation.from_rotvec([0.4, -0.2, 0.9]).as_matrix(), (0.3, -0.5, 1.0))
    target = transformed(motion, source) + rng.normal(0, 0.004, (200, 3))
    wrong = rng.permutation(200)[:120]
    target[wrong] = rng.uniform(-2, 2, (120, 3))
    right = np.ones(200, bool)
    right[wrong] = False
    found = ransac(source, target)
    assert np.count_nonzero(found & right) >= 75 and np.count_nonzero(found & ~right) <= 1
