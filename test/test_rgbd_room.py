# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated room against the slab test of a ray and a box, its motions against derivatives."""

import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics
from optitrack_vrpn.guests.rgbd.room import (
    camera_on_body, FLU_FROM_OPTICAL, Room, RoomLayout, TRAJECTORIES)
import pytest
from rgbd_kit import projected
from scipy.spatial.transform import Rotation

pytest.importorskip('cv2')

CAMERA = Intrinsics(160, 120, 131.0, 133.0, 78.7, 61.2)
ROOM = Room()


def slab_depth(layout, camera, world_from_camera):
    """Trace rays by the slab test (Kay and Kajiya 1986), in double precision."""
    u, v = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    rays = np.stack(((u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy,
                     np.ones(u.shape)), axis=-1) @ world_from_camera[:3, :3].T
    eye = world_from_camera[:3, 3]

    def slabs(box):
        near, far = (np.array(box.low) - eye) / rays, (np.array(box.high) - eye) / rays
        return np.minimum(near, far).max(axis=-1), np.maximum(near, far).min(axis=-1)

    depth = slabs(layout.room)[1]
    for box in layout.boxes:
        enters, leaves = slabs(box)
        hit = (enters < leaves) & (enters > 0)
        depth = np.where(hit, np.minimum(depth, enters), depth)
    return depth


@pytest.mark.parametrize('name', sorted(TRAJECTORIES))
def test_depth_is_that_of_the_slab_test(name):
    times = np.linspace(0.0, TRAJECTORIES[name].duration, 7)
    for pose in TRAJECTORIES[name].camera_poses(times, camera_on_body((0.1, 0, 0), (0, 0.4, 1))):
        _, depth = ROOM.render(CAMERA, pose)
        wanted = slab_depth(RoomLayout(), CAMERA, pose)
        # A ray through an edge may meet either side of it.
        assert np.mean(np.abs(depth - wanted) > 1e-4 * wanted) < 1e-3
        assert np.median(np.abs(depth - wanted)) < 1e-5


def test_a_point_of_a_wall_keeps_its_colour_from_any_view():
    """Points seen in one image are found in another by projection alone."""
    wide = RoomLayout(boxes=())
    room = Room(wide)
    first, second = np.eye(4), np.eye(4)
    first[:3, :3] = Rotation.from_euler('z', 4, degrees=True).as_matrix() @ FLU_FROM_OPTICAL
    second[:3, :3] = Rotation.from_euler('zy', (-3, 3), degrees=True).as_matrix() \
        @ FLU_FROM_OPTICAL
    # 2 m before a wall of 5 mm texels a pixel sees 2 mm of it: bilinear both times
    first[:3, 3], second[:3, 3] = (1.0, 0.1, 1.3), (1.3, -0.2, 1.2)
    camera = Intrinsics(400, 300, 800.0, 800.0, 199.5, 149.5)
    (one, depth), (two, _) = room.render(camera, first), room.render(camera, second)
    v, u = (each.ravel() for each in np.mgrid[20:280:3, 20:380:3])
    points = camera.rays(np.stack((u, v), axis=1)) * depth[v, u][:, None]
    world = points @ first[:3, :3].T + first[:3, 3]
    there = (world - second[:3, 3]) @ second[:3, :3]
    pixel = np.rint(projected(camera, there)).astype(int)
    seen = ((pixel >= 0) & (pixel < (400, 300))).all(axis=1) & (world[:, 0] > 2.999)
    assert seen.sum() > 2000
    difference = one[v[seen], u[seen]].astype(int) - two[pixel[seen, 1], pixel[seen, 0]]
    unrelated = one[v[seen], u[seen]].astype(int) - two[pixel[seen, 1], pixel[seen, 0] - 25]
    # rounding to a pixel moves by up to 1 mm, a fifth of a texel
    assert np.abs(difference).mean() < 0.2 * np.abs(unrelated).mean()
