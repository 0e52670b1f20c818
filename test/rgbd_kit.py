# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A corner of a room in closed form: three textured planes as a depth camera sees them."""

import functools

import cv2
import numpy as np
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics, rigid
from scipy.spatial.transform import Rotation

CAMERA = Intrinsics(320, 240, 262.5, 262.5, 159.5, 119.5)
#: base (x forward, y left, z up) from the optical frame.
FORWARD = np.array([[0.0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
PERIOD = 1_000_000_000 // 30
#: Distance along the axis and the axis (0 x, 1 y, 2 z) of each plane.
PLANES = ((0, 3.0), (1, 1.5), (2, -1.0))
_TEXEL = 0.01


def _texture(seed):
    random = np.random.default_rng(seed)
    total = np.full((600, 600), 128.0)
    for cell, deviation in ((5, 22), (12, 25), (30, 20)):
        grid = random.normal(0, deviation, (600 // cell + 1, 600 // cell + 1))
        total += cv2.resize(grid, (600, 600), interpolation=cv2.INTER_CUBIC)
    return np.clip(total, 0, 255).astype(np.float32)


_TEXTURES = [_texture(seed) for seed in range(3)]


def pose(x=0.0, y=0.0, z=0.0, yaw=0.0, pitch=0.0, roll=0.0):
    """Give a pose of the base, 4x4; angles in degrees."""
    turn = Rotation.from_euler('ZYX', [yaw, pitch, roll], degrees=True)
    return rigid(turn.as_matrix(), (x, y, z))


def view(base, noise=None, camera=CAMERA):
    """
    See the corner from a pose of the base.

    :param noise: a generator for the errors of a Kinect; None for exact images.
    :returns: grey (uint8) and depth (float32, metres).
    """
    grey, depth = _exact(base.tobytes(), camera)
    if noise is not None:
        grey = grey + 2 * noise.standard_normal(grey.shape, np.float32)
        depth = depth + noise.standard_normal(
            depth.shape, np.float32) * np.float32(0.001425) * depth ** 2
    return np.clip(np.rint(grey), 0, 255).astype(np.uint8), depth.astype(np.float32)


@functools.cache
def _rays(camera):
    return camera.rays(camera.pixel_grid()).astype(np.float32)


@functools.cache
def _exact(base, camera):
    """See without noise; kept, since tests share their poses."""
    shape = (camera.height, camera.width)
    world = (np.frombuffer(base).reshape(4, 4) @ FORWARD).astype(np.float32)
    directions, eye = _rays(camera) @ world[:3, :3].T, world[:3, 3]
    depth = np.full(len(directions), np.inf, np.float32)
    grey = np.zeros(len(directions), np.float32)
    for (axis, place), texture in zip(PLANES, _TEXTURES):
        with np.errstate(divide='ignore'):
            along = (place - eye[axis]) / directions[:, axis]
        seen = (along > 0.05) & (along < depth)
        depth[seen] = along[seen]
        points = eye + directions * np.where(seen, along, 0)[:, None]
        u, v = (points[:, other].reshape(shape) / np.float32(_TEXEL) + np.float32(300)
                for other in range(3) if other != axis)
        shades = cv2.remap(texture, u, v, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
        grey[seen] = shades.ravel()[seen]
    depth[~np.isfinite(depth)] = 0
    return grey.reshape(shape), depth.reshape(shape)


def white_wall(noise, distance=2.0):
    """Give a wall without texture, with the noise of the camera."""
    shape = (CAMERA.height, CAMERA.width)
    return (np.clip(np.rint(noise.normal(220, 2, shape)), 0, 255).astype(np.uint8),
            np.full(shape, distance, np.float32))


def path(count, speed=1.0):
    """Give poses of a slow motion with all six degrees of freedom."""
    return [pose(0.01 * speed * k, 0.2 * np.sin(0.05 * speed * k), 0.05 * np.sin(0.08 * speed * k),
                 8 * np.sin(0.06 * speed * k), 3 * np.sin(0.05 * speed * k),
                 3 * np.sin(0.07 * speed * k)) for k in range(count)]


def projected(camera, points):
    """Give the pixels of points in the optical frame, by OpenCV."""
    return cv2.projectPoints(np.asarray(points, float), np.zeros(3), np.zeros(3), camera.matrix,
                             np.array(camera.distortion or [0.0] * 5))[0].reshape(-1, 2)


def written(path, **values):
    """Write a calibration file by OpenCV; give its path."""
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name, value in values.items():
        storage.write(name, value)
    storage.release()
    return str(path)
