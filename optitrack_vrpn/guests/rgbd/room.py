# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Render a textured room (exact depth, texture of value noise); motions of a body in closed form.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
import math
from typing import Any, Optional

import numpy as np
from numpy.typing import ArrayLike, NDArray
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, opencv, rigid
from optitrack_vrpn.guests.rgbd.images import Bytes, Depth
from optitrack_vrpn.sim.motion import MotionState, oriented
from scipy.spatial.transform import Rotation

#: Chosen: edge of a texel (m), about the footprint of a VGA pixel at 3 m.
TEXEL_M = 0.005


@dataclass(frozen=True)
class Box:
    """A box along the world's axes, by its least and its greatest corner (m)."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]


@dataclass(frozen=True)
class RoomLayout:
    """The room, seen from inside, its boxes, and the seed of their textures."""

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

    origin: Floats
    along: Floats
    up: Floats
    normal: Floats
    left: int = 0
    top: int = 0

    @property
    def texels(self) -> tuple[int, int]:
        """Return rows and columns of the texture."""
        rows, columns = (max(1, round(float(np.linalg.norm(edge)) / TEXEL_M))
                         for edge in (self.up, self.along))
        return rows, columns


def _faces(box: Box, inside: bool) -> list[_Face]:
    """Return the six faces of a box."""
    low, high = np.array(box.low), np.array(box.high)
    if not np.all(high > low):
        raise ConfigurationError(f'a box from {box.low} to {box.high} has no volume')
    edges, faces = np.diag(high - low), []
    for axis, (one, two) in enumerate(((1, 2), (0, 2), (0, 1))):
        for side in (0, 1):
            normal = np.eye(3)[axis] * (-1.0 if bool(side) == inside else 1.0)
            faces.append(_Face(low + side * edges[axis], edges[one], edges[two], normal))
    return faces


def value_noise(
    random: np.random.Generator, height: int, width: int, colour: tuple[float, float, float],
) -> Bytes:
    """Make a texture (height, width, 3) around a mean colour: interpolated random grids."""
    cv2 = opencv()
    total = np.empty((height, width, 3), np.float32)
    total[:] = colour
    # Chosen: cells of the octaves (texels) and standard deviation of each in grey levels. The
    # finest octave is 20 mm, so that a QVGA image does not alias up to 5 m.
    for cell, deviation in ((4, 16.0), (10, 22.0), (24, 20.0), (64, 14.0)):
        rows, columns = height // cell + 3, width // cell + 3
        # the part that differs between the colours has half the deviation of the grey part
        grid = random.standard_normal((rows, columns, 1)) + 0.5 * random.standard_normal(
            (rows, columns, 3))
        total += cv2.resize(
            (deviation * grid).astype(np.float32), (columns * cell, rows * cell),
            interpolation=cv2.INTER_CUBIC)[cell:cell + height, cell:cell + width]
    return np.clip(total, 0, 255).astype(np.uint8)


class Room:
    """The room with its textures."""

    def __init__(self, layout: RoomLayout = RoomLayout()) -> None:
        faces = _faces(layout.room, True)
        for box in layout.boxes:
            faces += _faces(box, False)
        self._atlas, self._faces = _atlas(faces, layout.seed)

    def render(self, camera: Intrinsics, world_from_camera: Floats) -> tuple[Bytes, Depth]:
        """
        Render an image without noise.

        :param camera: a camera without distortion.
        :param world_from_camera: (4, 4), of the optical frame: x right, y down, z forward.
        :returns: red, green and blue (height, width, 3), and the depth along z (height, width) in
            metres, 0 for no surface.
        :raises ConfigurationError: for a camera with distortion.
        """
        if camera.distortion:
            raise ConfigurationError('the simulated camera has no distortion: leave it out')
        # x of the rays by column, y by row; 1/z and the position in the atlas by pixel
        x = ((np.arange(camera.width) - camera.cx) / camera.fx).astype(np.float32)
        y = ((np.arange(camera.height) - camera.cy) / camera.fy).astype(np.float32)
        nearest, column, row = np.zeros((3, camera.height, camera.width), np.float32)
        rotation, eye = world_from_camera[:3, :3], world_from_camera[:3, 3]
        for face in self._faces:
            offset = face.origin - eye
            if face.normal @ offset >= -1e-6:
                continue    # seen from behind
            matrix = rotation.T @ np.stack((face.along, face.up, offset), axis=1)
            area = _bounds(matrix, camera)
            if area is None:
                continue
            across, down = x[area[1]], y[area[0], None]
            # Affine in the pixel: a column vector and a row vector, added.
            q1, q2, q3 = ((each[1] * down + each[2]) + each[0] * across
                          for each in np.linalg.inv(matrix).astype(np.float32))
            near = nearest[area]
            seen = (q3 > near) & (q1 >= 0) & (q2 >= 0) & (q1 <= q3) & (q2 <= q3)
            found = near[seen] = q3[seen]
            # In cv2.remap, integer coordinates are centres of texels.
            for place, q, edge, first in ((column, q1, face.along, face.left),
                                          (row, q2, face.up, face.top)):
                scale = np.float32(np.linalg.norm(edge) / TEXEL_M)
                place[area][seen] = q[seen] / found * scale + np.float32(first - 0.5)
        cv2 = opencv()
        image = cv2.remap(self._atlas, column, row, cv2.INTER_LINEAR)
        hit = nearest > 0
        image[~hit] = 0
        return image, np.divide(1.0, nearest, out=np.zeros_like(nearest), where=hit)


def _bounds(matrix: Floats, camera: Intrinsics) -> Any:
    """Return the slices of the image that contain a face; None if it is not visible."""
    along, up, origin = matrix.T
    x, y, z = np.array((origin, origin + along, origin + along + up, origin + up)).T
    near_m = 0.02
    if z.max() <= near_m:
        return None
    if z.min() < near_m:    # it extends behind the camera
        return slice(None), slice(None)
    u, v = camera.fx * x / z + camera.cx, camera.fy * y / z + camera.cy
    left, right = max(0, int(u.min())), min(camera.width, int(min(u.max(), camera.width)) + 2)
    top, bottom = max(0, int(v.min())), min(camera.height, int(min(v.max(), camera.height)) + 2)
    return (slice(top, bottom), slice(left, right)) if left < right and top < bottom else None


def _atlas(faces: list[_Face], seed: int) -> tuple[Bytes, list[_Face]]:
    """Put the textures into one image, with a border of one texel; return it and the faces."""
    random = np.random.default_rng(seed)
    # 2048 texels (10 m), or more for a longer face
    width = max(2048, *(face.texels[1] + 2 for face in faces))
    placed, textures = [], []
    left, top, tallest = 0, 0, 0
    for face in faces:
        lines, columns = face.texels
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
    """Add the errors of a camera; the same seed gives the same ones."""

    def __init__(self, config: SensorConfig = SensorConfig(), seed: int = 0) -> None:
        self.config = config
        self._random = np.random.default_rng(seed)

    def depth(self, exact: Depth) -> Depth:
        """Measure a depth image (height, width; m), 0 where there is no measurement."""
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
        return np.divide(scale, disparity, out=np.zeros(exact.shape, np.float32),
                         where=valid & (disparity > 0))

    def image(self, exact: Bytes) -> Bytes:
        """Add noise to a colour image of shape (height, width, 3)."""
        noise = np.float32(self.config.image_noise) * self._random.standard_normal(
            exact.shape, np.float32)
        return np.clip(np.rint(exact + noise), 0, 255).astype(np.uint8)


def _edges(depth: Depth) -> NDArray[np.bool_]:
    """Find pixels beside a step of the depth by more than 4 % (chosen)."""
    found = np.zeros(depth.shape, bool)
    limit = 0.04 * depth
    across = np.abs(np.diff(depth, axis=1)) > limit[:, 1:]
    down = np.abs(np.diff(depth, axis=0)) > limit[1:]
    found[:, 1:] |= across
    found[:, :-1] |= across
    found[1:] |= down
    found[:-1] |= down
    return found


# -- motions of the body --------------------------------------------------------------------------
# Body axes are FLU (REP 103); the attitude is R = Rz(yaw) Ry(pitch) Rx(roll). Each of x, y, z and
# the angles is the sum of an offset, a linear term and sines, with exact derivatives.

#: Columns: the axes of the optical frame (x right, y down, z forward) in FLU.
FLU_FROM_OPTICAL = np.array(((0.0, 0.0, 1.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0)))


@dataclass(frozen=True)
class Harmonic:
    """offset + rate t + sum of amplitude sin(2 pi t / period + phase), by ``sines``."""

    offset: float = 0.0
    rate: float = 0.0
    sines: tuple[tuple[float, float, float], ...] = ()

    def at(self, time: Floats, derivative: int = 0) -> Floats:
        """Evaluate the quantity, or its first or second derivative, at times (n,) in seconds."""
        value = np.full_like(time, (self.offset, self.rate, 0.0)[derivative])
        if derivative == 0:
            value += self.rate * time
        for amplitude, period, phase in self.sines:
            speed = 2 * math.pi / period
            value += amplitude * speed**derivative * np.sin(
                speed * time + phase + derivative * math.pi / 2)
        return value


def _swing(degrees: float, period: float, phase: float = 0.0, mean: float = 0.0) -> Harmonic:
    """Return an angle (rad) that oscillates, from degrees."""
    return Harmonic(math.radians(mean), 0.0, ((math.radians(degrees), period, phase),))


@dataclass(frozen=True)
class CameraPath:
    """
    A motion of a body.

    :ivar duration: time in which the motion covers its range (s); it continues without end.
    :ivar summary: description in one line.
    :ivar x: east (m); y: north, z: up.
    :ivar yaw: angle in radians, as pitch and roll.
    """

    duration: float
    summary: str
    x: Harmonic = Harmonic()
    y: Harmonic = Harmonic()
    z: Harmonic = Harmonic(1.2)
    yaw: Harmonic = Harmonic()
    pitch: Harmonic = Harmonic()
    roll: Harmonic = Harmonic()

    def positions(self, time: ArrayLike, derivative: int = 0) -> Floats:
        """Return positions or derivatives (n, 3) in the world at times (n,) in seconds."""
        times = np.atleast_1d(np.asarray(time, float))
        return np.stack([each.at(times, derivative) for each in (self.x, self.y, self.z)], axis=1)

    def poses(self, time: ArrayLike) -> Floats:
        """Return poses of the body at (n,) seconds, world_from_body (n, 4, 4)."""
        times = np.atleast_1d(np.asarray(time, float))
        return rigid(rotation_from_angles(
            self.yaw.at(times), self.pitch.at(times), self.roll.at(times)), self.positions(times))

    def camera_poses(
        self, time: ArrayLike, body_from_camera: Optional[Floats] = None,
    ) -> Floats:
        """Return world_from_camera (n, 4, 4) of a camera on the body at times (s)."""
        return self.poses(time) @ (
            camera_on_body() if body_from_camera is None else body_from_camera)


def rotation_from_angles(yaw: ArrayLike, pitch: ArrayLike, roll: ArrayLike) -> Floats:
    """Return Rz(yaw) Ry(pitch) Rx(roll), (..., 3, 3), of angles in radians."""
    angles = np.stack(np.broadcast_arrays(yaw, pitch, roll), axis=-1)
    return Rotation.from_euler('ZYX', angles).as_matrix()


def camera_on_body(
    xyz: Sequence[float] = (0.0, 0.0, 0.0), rpy: Sequence[float] = (0.0, 0.0, 0.0),
) -> Floats:
    """Return body_from_camera (4x4) for a place (m) and angles (rad) in FLU."""
    return rigid(rotation_from_angles(rpy[2], rpy[1], rpy[0]) @ FLU_FROM_OPTICAL, xyz)


#: Chosen: speeds of a hand-held camera, up to 0.7 m/s and 60 deg/s.
TRAJECTORIES: dict[str, CameraPath] = {
    'translation': CameraPath(
        8.0, 'back and forth, sideways and up, looking east',
        x=Harmonic(-0.3, 0.0, ((0.6, 8.0, 0.0),)), y=Harmonic(0.0, 0.0, ((0.6, 6.3, 0.5),)),
        z=Harmonic(1.2, 0.0, ((0.25, 5.1, 1.0),))),
    'rotation': CameraPath(
        8.0, 'on the spot, about all three axes',
        x=Harmonic(-0.5), yaw=_swing(45.0, 8.0), pitch=_swing(12.0, 5.1, 0.7),
        roll=_swing(10.0, 6.3, 0.3)),
    'loop': CameraPath(
        24.0, 'two rounds of a circle of 0.8 m radius, facing forward, with small tilts',
        x=Harmonic(0.0, 0.0, ((0.8, 12.0, math.pi / 2),)),
        y=Harmonic(0.0, 0.0, ((0.8, 12.0, 0.0),)),
        z=Harmonic(1.2, 0.0, ((0.1, 6.0, 0.0),)),
        yaw=Harmonic(math.pi / 2, 2 * math.pi / 12),
        pitch=_swing(8.0, 4.0, 0.4, 5.0), roll=_swing(8.0, 3.0)),
    'calibration': CameraPath(
        24.0, 'turns of 20 to 50 deg about all three axes with little translation, for the '
        'estimation of the transform from body to camera',
        x=Harmonic(-0.4, 0.0, ((0.15, 7.7, 0.0),)), y=Harmonic(0.0, 0.0, ((0.15, 6.1, 1.0),)),
        z=Harmonic(1.25, 0.0, ((0.1, 5.3, 0.5),)), yaw=_swing(50.0, 8.0),
        pitch=_swing(22.0, 6.0, 0.8, 4.0), roll=_swing(35.0, 5.0, 0.3)),
    'hand_held': CameraPath(
        8.0, 'hand held: all six at once, without a short period',
        x=Harmonic(-0.4, 0.0, ((0.5, 7.3, 0.0), (0.04, 1.7, 1.0))),
        y=Harmonic(0.1, 0.0, ((0.45, 5.9, 1.2), (0.03, 1.3, 0.4))),
        z=Harmonic(1.25, 0.0, ((0.12, 4.7, 0.5), (0.02, 1.1, 0.0))),
        yaw=Harmonic(0.1, 0.0, ((math.radians(22.0), 6.1, 0.3), (math.radians(1.5), 1.2, 0.0))),
        pitch=Harmonic(0.08, 0.0, ((math.radians(9.0), 4.3, 0.9), (math.radians(1.0), 0.9, 0.0))),
        roll=Harmonic(0.0, 0.0, ((math.radians(8.0), 5.3, 0.2), (math.radians(1.0), 1.1, 0.5)))),
}


@dataclass(frozen=True)
class BodyMotion:
    """The motion of a body in Motive's axes, from that in ENU and FLU."""

    trajectory: CameraPath

    def at(self, time: Floats, /) -> MotionState:
        """
        Evaluate the motion.

        :param time: (n,) seconds of the scenario.
        """
        trajectory = self.trajectory
        # Motive's x is north (the default of the node's ``motive_x``), y up and z east
        position, velocity, acceleration = (
            trajectory.positions(time, order)[:, [1, 2, 0]] for order in (0, 1, 2))
        (yaw, yaw_rate), (pitch, pitch_rate), (roll, roll_rate) = (
            (angle.at(time), angle.at(time, 1))
            for angle in (trajectory.yaw, trajectory.pitch, trajectory.roll))
        # yaw counts from Motive's x instead of east, and pitch about its z, to the right
        return oriented(position, velocity, acceleration, yaw - np.pi / 2, -pitch, roll,
                        yaw_rate, -pitch_rate, roll_rate)
