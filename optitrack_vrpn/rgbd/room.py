# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Render a textured room: exact depth, colour from a texture of value noise.

The room is a box seen from inside; it contains boxes seen from outside. World axes are ENU: x
east, y north, z up; the floor is at z = 0, and the centre of the room at x = y = 0.

Each face is a parallelogram o + s a + t b with 0 <= s, t <= 1. With M = [a b o] in camera axes, a
pixel's ray p = ((u - cx) / fx, (v - cy) / fy, 1) meets the plane where q = M^-1 p, and then
1/z = q3, s = q1 / q3, t = q2 / q3. The components of q are affine in the pixel, so the search for
the visible face, the one with the greatest 1/z, needs additions but no divisions. The result is
that of a ray through the centre of each pixel (a test compares it with the slab test).

``Sensor`` adds the errors of a structured light camera, such as a Kinect, to exact images.
Depth is measured as a disparity d = f b / z with a random error, rounded to eighths of a pixel
(Khoshelham, Elberink: Accuracy and resolution of Kinect depth data, Sensors 12, 2012; its
sigma_z = 0.001425 z^2 m corresponds to an error of 0.0625 pixels). The disparity is that of a VGA
image for all image sizes. Not modelled: motion blur, rolling shutter, exposure, the shadow of the
projector, and errors that are equal in successive frames.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.camera import Intrinsics, opencv
from optitrack_vrpn.settings import checked, setting

Array = NDArray[np.float64]

#: Chosen: edge of a texel (m), about the footprint of a VGA pixel at 3 m.
TEXEL_M = 0.005
#: Chosen: cells of the octaves of the texture (texels) and the standard deviation of each in grey
#: levels. The finest octave is 4 texels, 20 mm, so that a QVGA image does not alias up to 5 m.
OCTAVES = ((4, 16.0), (10, 22.0), (24, 20.0), (64, 14.0))
#: Chosen: near plane of the camera (m).
_NEAR_M = 0.02


@dataclass(frozen=True)
class Box:
    """
    A box with its edges along the world's axes.

    :ivar low: the corner with the least coordinates (m).
    :ivar high: the opposite corner (m).
    """

    low: tuple[float, float, float]
    high: tuple[float, float, float]


@dataclass(frozen=True)
class Layout:
    """
    Contents of the room.

    :ivar room: the room, seen from inside.
    :ivar boxes: boxes in the room, seen from outside.
    :ivar seed: seed of the texture.
    """

    room: Box = Box((-3.0, -2.5, 0.0), (3.0, 2.5, 2.6))
    boxes: tuple[Box, ...] = (
        Box((1.9, -2.4, 0.0), (2.9, -1.2, 0.75)),    # a desk, a cupboard and so on, along walls
        Box((2.3, 0.2, 0.0), (2.95, 1.4, 1.9)),
        Box((0.4, 1.9, 0.0), (1.5, 2.45, 1.1)),
        Box((-1.6, 1.7, 0.0), (-0.7, 2.4, 1.6)),
        Box((-2.9, 0.6, 0.0), (-2.2, 1.4, 0.6)),
        Box((-2.8, -1.5, 0.0), (-2.1, -0.4, 1.3)),
        Box((-0.9, -2.4, 0.0), (0.3, -1.9, 0.9)),
        Box((-0.6, -2.3, 0.9), (-0.1, -1.95, 1.45)))
    seed: int = 7


@dataclass(frozen=True)
class _Face:
    """A parallelogram, visible from the side of its normal, and its position in the atlas."""

    origin: Array
    along: Array
    up: Array
    normal: Array
    left: int = 0
    top: int = 0


def _faces(box: Box, inside: bool) -> list[_Face]:
    """Return the six faces of a box."""
    low, high = np.array(box.low), np.array(box.high)
    if not np.all(high > low):
        raise ConfigurationError(f'a box from {box.low} to {box.high} has no volume')
    faces = []
    for axis in range(3):
        one, two = ((1, 2), (0, 2), (0, 1))[axis]
        for side in (0, 1):
            origin = low.copy()
            origin[axis] = (low, high)[side][axis]
            along, up, normal = np.zeros(3), np.zeros(3), np.zeros(3)
            along[one], up[two] = high[one] - low[one], high[two] - low[two]
            normal[axis] = -1.0 if (side == 1) == inside else 1.0
            faces.append(_Face(origin, along, up, normal))
    return faces


def value_noise(
    random: np.random.Generator, height: int, width: int, colour: tuple[float, float, float],
) -> NDArray[np.uint8]:
    """
    Make a texture of value noise: random values on grids, interpolated and added.

    :param height: height in texels.
    :param width: width in texels.
    :param colour: mean colour, 0 to 255 each.
    :returns: (height, width, 3).
    """
    cv2 = opencv()
    total = np.empty((height, width, 3), np.float32)
    total[:] = colour
    for cell, deviation in OCTAVES:
        rows, columns = height // cell + 3, width // cell + 3
        # the part that differs between the colours has half the deviation of the grey part
        grid = random.standard_normal((rows, columns, 1)) + 0.5 * random.standard_normal(
            (rows, columns, 3))
        total += cv2.resize(
            (deviation * grid).astype(np.float32), (columns * cell, rows * cell),
            interpolation=cv2.INTER_CUBIC)[cell:cell + height, cell:cell + width]
    return np.clip(total, 0, 255).astype(np.uint8)


class Room:
    """
    The room with its textures.

    :param layout: contents of the room.
    :raises BackendUnavailableError: without OpenCV.
    """

    def __init__(self, layout: Layout = Layout()) -> None:
        self._cv2 = opencv()
        faces = _faces(layout.room, True)
        for box in layout.boxes:
            faces += _faces(box, False)
        self._atlas, self._faces = _atlas(faces, layout.seed)
        self._pixels: dict[Intrinsics, tuple[Any, Any]] = {}

    def trace(
        self, camera: Intrinsics, world_from_camera: Array,
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
        """
        Find the visible point of each pixel.

        :param camera: a camera without distortion.
        :param world_from_camera: (4, 4), of the optical frame: x right, y down, z forward.
        :returns: 1/z (1/m), 0 for no surface, and column and row in the atlas (texels); each
            (height, width).
        :raises ConfigurationError: for a camera with distortion.
        """
        if camera.distortion:
            raise ConfigurationError('the simulated camera has no distortion: leave it out')
        x, y = self._rays(camera)
        shape = (camera.height, camera.width)
        nearest = np.zeros(shape, np.float32)
        column, row = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        rotation, eye = world_from_camera[:3, :3], world_from_camera[:3, 3]
        for face in self._faces:
            offset = face.origin - eye
            if face.normal @ offset >= -1e-6:
                continue    # seen from behind
            matrix = rotation.T @ np.stack((face.along, face.up, offset), axis=1)
            area = _bounds(matrix, camera)
            if area is None:
                continue
            inverse = np.linalg.inv(matrix).astype(np.float32)
            rows, columns = area
            across, down = x[columns], y[rows, None]
            # Affine in the pixel: a column vector and a row vector, added.
            q1, q2, q3 = ((each[1] * down + each[2]) + each[0] * across for each in inverse)
            near = nearest[area]
            seen = (q3 > near) & (q1 >= 0) & (q2 >= 0) & (q1 <= q3) & (q2 <= q3)
            if not seen.any():
                continue
            found = q3[seen]
            near[seen] = found
            length, height = np.linalg.norm(face.along), np.linalg.norm(face.up)
            # In cv2.remap, integer coordinates are centres of texels.
            column[area][seen] = q1[seen] / found * np.float32(length / TEXEL_M) + np.float32(
                face.left - 0.5)
            row[area][seen] = q2[seen] / found * np.float32(height / TEXEL_M) + np.float32(
                face.top - 0.5)
        return nearest, column, row

    def render(
        self, camera: Intrinsics, world_from_camera: Array,
    ) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """
        Render an image without noise.

        :param camera: a camera without distortion.
        :param world_from_camera: (4, 4), of the optical frame: x right, y down, z forward.
        :returns: red, green and blue (height, width, 3), and the depth along z (height, width) in
            metres, 0 for no surface.
        :raises ConfigurationError: for a camera with distortion.
        """
        nearest, column, row = self.trace(camera, world_from_camera)
        image = self._cv2.remap(self._atlas, column, row, self._cv2.INTER_LINEAR)
        depth = np.zeros_like(nearest)
        hit = nearest > 0
        np.divide(1.0, nearest, out=depth, where=hit)
        if not hit.all():
            image[~hit] = 0
        return image, depth

    def _rays(self, camera: Intrinsics) -> tuple[Any, Any]:
        """Return x of the rays by column and y by row, for z = 1."""
        if camera not in self._pixels:
            self._pixels[camera] = (
                ((np.arange(camera.width) - camera.cx) / camera.fx).astype(np.float32),
                ((np.arange(camera.height) - camera.cy) / camera.fy).astype(np.float32))
        return self._pixels[camera]


def _bounds(matrix: Array, camera: Intrinsics) -> Any:
    """Return the slices of the image that contain a face; None if it is not visible."""
    origin, along, up = matrix[:, 2], matrix[:, 0], matrix[:, 1]
    corners = np.array((origin, origin + along, origin + along + up, origin + up))
    z = corners[:, 2]
    if z.max() <= _NEAR_M:
        return None
    if z.min() < _NEAR_M:    # clip the polygon at the near plane (Sutherland and Hodgman)
        kept = []
        for one, two in zip(corners, np.roll(corners, -1, axis=0)):
            if one[2] >= _NEAR_M:
                kept.append(one)
            if (one[2] >= _NEAR_M) != (two[2] >= _NEAR_M):
                kept.append(one + (two - one) * (_NEAR_M - one[2]) / (two[2] - one[2]))
        corners = np.array(kept)
    u = camera.fx * corners[:, 0] / corners[:, 2] + camera.cx
    v = camera.fy * corners[:, 1] / corners[:, 2] + camera.cy
    left, right = max(0, int(u.min())), min(camera.width, int(min(u.max(), camera.width)) + 2)
    top, bottom = max(0, int(v.min())), min(camera.height, int(min(v.max(), camera.height)) + 2)
    if left >= right or top >= bottom:
        return None
    return slice(top, bottom), slice(left, right)


def _atlas(faces: list[_Face], seed: int) -> tuple[NDArray[np.uint8], list[_Face]]:
    """
    Put the textures of all faces into one image, in rows, with a border of one texel.

    :returns: the image, and the faces with their positions; the first texel of a texture is at
        (left, top).
    """
    random = np.random.default_rng(seed)
    sizes = [[max(1, round(float(np.linalg.norm(edge)) / TEXEL_M))
              for edge in (face.up, face.along)] for face in faces]
    # 2048 texels (10 m), or more for a longer face
    width = max(2048, *(columns + 2 for _, columns in sizes))
    placed, textures = [], []
    left, top, tallest = 0, 0, 0
    for face, (lines, columns) in zip(faces, sizes):
        red, green, blue = random.uniform(80.0, 170.0, 3).tolist()
        textures.append(np.pad(value_noise(random, lines, columns, (red, green, blue)),
                               ((1, 1), (1, 1), (0, 0)), mode='edge'))
        if left + columns + 2 > width:
            left, top, tallest = 0, top + tallest, 0
        placed.append(replace(face, left=left + 1, top=top + 1))
        left, tallest = left + columns + 2, max(tallest, lines + 2)
    atlas = np.zeros((top + tallest, width, 3), np.uint8)
    for face, texture in zip(placed, textures):
        atlas[face.top - 1:, face.left - 1:][:texture.shape[0], :texture.shape[1]] = texture
    return atlas, placed


#: Chosen: pixels whose depths differ by more than this share of the depth are an edge and have no
#: measurement.
_EDGE_SHARE = 0.04


@checked
@dataclass(frozen=True)
class SensorConfig:
    """Errors of the simulated camera; the defaults are those of a Kinect."""

    baseline: float = setting(
        0.075, unit='m', low=0.001, high=1.0, doc='from projector to infrared camera')
    focal: float = setting(
        570.34, unit='px', low=1.0, high=10000.0, doc='focal length of the infrared camera')
    disparity_noise: float = setting(
        0.0625, unit='px', low=0.0, high=10.0, doc='standard deviation of a disparity')
    disparity_step: float = setting(
        0.125, unit='px', low=0.0, high=10.0, doc='rounding step of disparities; 0: none')
    near: float = setting(0.5, unit='m', low=0.0, high=100.0, doc='least measured depth')
    far: float = setting(5.0, unit='m', low=0.0, high=100.0, doc='greatest measured depth')
    image_noise: float = setting(
        2.0, unit='grey levels', low=0.0, high=255.0, doc='standard deviation of each colour')


class Sensor:
    """
    Add the errors of a camera.

    :param config: size of the errors.
    :param seed: the same seed gives the same errors.
    """

    def __init__(self, config: SensorConfig = SensorConfig(), seed: int = 0) -> None:
        self.config = config
        self._random = np.random.default_rng(seed)

    def depth(self, exact: NDArray[np.float32]) -> NDArray[np.float32]:
        """
        Measure a depth image.

        :param exact: (height, width), metres, 0 for no surface.
        :returns: (height, width), metres, 0 where there is no measurement.
        """
        config = self.config
        valid = (exact >= config.near) & (exact <= config.far) & (exact > 0) & ~_edges(exact)
        scale = np.float32(config.focal * config.baseline)
        with np.errstate(divide='ignore'):
            disparity = scale / exact
        disparity += np.float32(config.disparity_noise) * self._random.standard_normal(
            exact.shape, np.float32)
        if config.disparity_step:
            step = np.float32(config.disparity_step)
            disparity = np.rint(disparity / step) * step
        valid &= disparity > 0
        measured = np.zeros(exact.shape, np.float32)
        np.divide(scale, disparity, out=measured, where=valid)
        return measured

    def image(self, exact: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """
        Measure a colour image.

        :param exact: (height, width, 3).
        """
        noise = np.float32(self.config.image_noise) * self._random.standard_normal(
            exact.shape, np.float32)
        measured: NDArray[np.uint8] = np.clip(np.rint(exact + noise), 0, 255).astype(np.uint8)
        return measured


def _edges(depth: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Find pixels beside a step of the depth."""
    found = np.zeros(depth.shape, bool)
    limit = _EDGE_SHARE * depth
    across = np.abs(np.diff(depth, axis=1)) > limit[:, 1:]
    down = np.abs(np.diff(depth, axis=0)) > limit[1:]
    found[:, 1:] |= across
    found[:, :-1] |= across
    found[1:] |= down
    found[:-1] |= down
    return found
