# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rectify colour and depth, and register the depth to the colour camera; parse calibration files.

- rgb.yml, depth.yml: intrinsics, as ROS's camera_calibration writes them or as OpenCV's
  FileStorage does (``camera_matrix``, ``distortion_coefficients``, ``image_width``,
  ``image_height``).
- extr.yml: ``ir2rgb``, 3x4, colour_from_depth with the translation in millimetres.
- warp.yml: ``c0``, ``c1`` and ``c2``, one value per pixel, and ``fit_mode``: the true depth is
  c0 + c1 d + c2 d^2 with d in millimetres.
"""

import re
from typing import Any, Mapping, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.cli.yaml_text import parse_yaml
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, opencv, rigid
from optitrack_vrpn.guests.rgbd.images import Bytes, Depth, ImageError, resized
import yaml

#: The coefficients of the polynomial of a pixel that each ``fit_mode`` uses.
_FIT_MODES: dict[float, tuple[str, ...]] = {
    0: ('c0', 'c1'), 1: ('c1',), 2: ('c0', 'c1', 'c2'), 3: ('c1', 'c2')}


class _Loader(yaml.SafeLoader):
    """YAML with the matrices of OpenCV."""


_Loader.add_constructor('tag:yaml.org,2002:opencv-matrix', _Loader.construct_yaml_map)


def read_storage(text: str, source: str) -> dict[str, Any]:
    """
    Read a YAML file of ROS or of OpenCV's FileStorage.

    OpenCV's own reader ends the process if a matrix has fewer numbers than its size.

    :param source: name of the file in error messages.
    :returns: matrices as arrays, numbers and strings; other values unchanged.
    :raises ConfigurationError: if the text is neither.
    """
    blocks: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        blocks.append(match[1])
        return f'data: {len(blocks) - 1}' + '\n' * match[1].count('\n')    # keeps the lines

    # OpenCV up to 4 writes %YAML:1.0, which is not valid YAML. The numbers of a warp file are too
    # many for the YAML parser.
    short = re.sub(r'\bdata:\s*\[([^][]*)\]', replaced, re.sub(r'\A%YAML.*', '', text))
    found = parse_yaml(short, source, _Loader)
    if not isinstance(found, dict):
        raise ConfigurationError(f'{source} does not contain a map of names to values')
    return {name: _matrix(value, blocks) for name, value in found.items()}


def _matrix(value: Any, blocks: list[str]) -> Any:
    """Convert a map {rows, cols, data} to an array; return other values unchanged."""
    if isinstance(value, Mapping) and {'rows', 'cols', 'data'} <= value.keys():
        try:
            numbers = np.array(blocks[value['data']].split(','), float)
            return numbers.reshape(value['rows'], value['cols'])
        except (TypeError, ValueError, IndexError):
            return value
    return value


def parse_intrinsics(values: Mapping[str, Any], source: str) -> Intrinsics:
    """Read rgb.yml or depth.yml, with the names that ROS uses or the samples of OpenCV."""
    matrix = _array(values, ('camera_matrix', 'cameraMatrix', 'Camera_Matrix'), (3, 3), source)
    size = [_find(values, names, source) for names in (
        ('image_width', 'image_Width'), ('image_height', 'image_Height'))]
    if not all(isinstance(each, (int, float)) for each in size):
        raise ConfigurationError(f'{source}: image_width and image_height must be numbers')
    model = values.get('distortion_model', 'plumb_bob')
    if model not in ('plumb_bob', 'rational_polynomial'):
        raise ConfigurationError(f'{source}: the distortion model {model!r} is not supported')
    given = next((values[name] for name in (
        'distortion_coefficients', 'distCoeffs', 'Distortion_Coefficients') if name in values), ())
    try:
        distortion = tuple(np.asarray(given, float).ravel().tolist())
    except (TypeError, ValueError):
        raise ConfigurationError(f'{source}: distortion_coefficients must be numbers') from None
    try:
        return Intrinsics(
            int(size[0]), int(size[1]), matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2],
            distortion if any(distortion) else ())
    except ConfigurationError as error:
        raise ConfigurationError(f'{source}: {error}') from None


def parse_extrinsics(values: Mapping[str, Any], source: str) -> Floats:
    """Read extr.yml: colour_from_depth, 4x4, metres; refuse what is not rigid."""
    matrix = _array(values, ('ir2rgb',), (3, 4), source)
    rotation, far_mm = matrix[:, :3], np.linalg.norm(matrix[:, 3])
    # the tolerance covers the rounding of the file
    if not (np.allclose(rotation @ rotation.T, np.eye(3), rtol=0, atol=1e-2)
            and np.linalg.det(rotation) > 0):
        raise ConfigurationError(f'{source}: the first three columns of ir2rgb are not a rotation')
    if not far_mm < 1000:
        raise ConfigurationError(
            f'{source}: the translation of ir2rgb is {far_mm:g} mm, too large for two cameras of '
            'one device; its unit is millimetres')
    left, _, right = np.linalg.svd(rotation)
    return rigid(left @ right, matrix[:, 3] * 0.001)    # the nearest rotation


def parse_warp(values: Mapping[str, Any], source: str) -> NDArray[np.float32]:
    """
    Read warp.yml.

    :returns: (3, height, width): c0 (mm), c1 and c2 (1/mm) of each pixel; zero for those that the
        mode does not use.
    :raises ConfigurationError: with the name of the missing or wrong value.
    """
    mode = _find(values, ('fit_mode',), source)
    if not isinstance(mode, (int, float)) or mode not in _FIT_MODES:
        raise ConfigurationError(f'{source}: fit_mode is {mode!r}; possible: 0 to 3')
    found = {name: _find(values, (name,), source) for name in _FIT_MODES[mode]}
    for name, value in found.items():
        if not isinstance(value, np.ndarray) or value.ndim != 2 or not np.isfinite(value).all():
            raise ConfigurationError(
                f'{source}: {name} must be a matrix with one number per pixel')
    if len({value.shape for value in found.values()}) > 1:
        raise ConfigurationError(f'{source}: c0, c1 and c2 have different sizes')
    return np.array([found.get(name, np.zeros_like(found['c1'])) for name in ('c0', 'c1', 'c2')],
                    np.float32)


def unwarp(warp: NDArray[np.float32], depth: Depth) -> Depth:
    """Correct depth in metres by ``parse_warp``; 0 and negative results become 0."""
    if depth.shape != warp.shape[1:]:
        raise ConfigurationError(
            f'the depth image has {depth.shape[1]} x {depth.shape[0]} pixels, the warp '
            f'calibration {warp.shape[2]} x {warp.shape[1]}')
    d = depth / np.float32(0.001)
    true = (warp[0] + d * (warp[1] + d * warp[2])) * np.float32(0.001)
    return np.where((depth > 0) & (true > 0), true, np.float32(0))


def _find(values: Mapping[str, Any], names: tuple[str, ...], source: str) -> Any:
    for name in names:
        if name in values:
            return values[name]
    present = ', '.join(map(str, values)) or 'nothing'
    raise ConfigurationError(f'{source} has no {names[0]}; it has {present}')


def _array(
    values: Mapping[str, Any], names: tuple[str, ...], shape: tuple[int, int], source: str,
) -> Floats:
    value = _find(values, names, source)
    if not isinstance(value, np.ndarray) or value.shape != shape or not np.isfinite(value).all():
        raise ConfigurationError(
            f'{source}: {names[0]} must be a matrix of {shape[0]} x {shape[1]} numbers')
    return value.astype(float)


class Rectifier:
    """
    Remove the distortion of a camera; the camera matrix does not change.

    The maps are made for the first image, because a wrong camera_info can have any size.

    :param camera: the camera with its distortion.
    """

    def __init__(self, camera: Intrinsics) -> None:
        self.camera = camera
        self._maps: Any = None

    def colour(self, image: Bytes) -> Bytes:
        """Rectify colour or brightness, bilinear; pixels outside the raw image are black."""
        return self._remap(image, opencv().INTER_LINEAR)

    def depth(self, image: Depth) -> Depth:
        """Rectify depth by the nearest pixel; the mean of two surfaces would lie on neither."""
        return self._remap(image, opencv().INTER_NEAREST)

    def _remap(self, image: NDArray[Any], method: int) -> Any:
        camera, cv2 = self.camera, opencv()
        if not any(camera.distortion):
            return image
        if self._maps is None:
            self._maps = cv2.initUndistortRectifyMap(
                camera.matrix, np.array(camera.distortion), None, camera.matrix,
                (camera.width, camera.height), cv2.CV_32FC1)
        return cv2.remap(np.ascontiguousarray(image), *self._maps, method,
                         borderMode=cv2.BORDER_CONSTANT, borderValue=0)


class Registration:
    """
    Transform the depth image of one camera to another camera.

    A pixel (u, v) with depth d is the point d K^-1 (u, v, 1). The point is transformed to the
    other camera and projected; its pixel is the one with the nearest centre. If several points
    have the same pixel, the nearest point is used. Holes are not filled.

    :param depth: the depth camera, rectified.
    :param colour: the colour camera, rectified, with the size of the result.
    :param colour_from_depth: 4x4, metres.
    """

    def __init__(self, depth: Intrinsics, colour: Intrinsics, colour_from_depth: Floats) -> None:
        self.colour = colour
        rays = depth.without_distortion().rays(depth.pixel_grid()) @ colour_from_depth[:3, :3].T
        # the rays are projected once: pixel = (d a + b) / (d a_z + b_z)
        self._rays = np.ascontiguousarray((rays @ colour.matrix.T).T, np.float32)
        self._offset = (colour.matrix @ colour_from_depth[:3, 3]).astype(np.float32)

    def register(self, depth: Depth) -> Depth:
        """Return the depth image (metres) of the colour camera."""
        flat = depth.ravel()
        [measured] = np.nonzero(flat)
        x, y, z = self._rays[:, measured] * flat[measured] + self._offset[:, None]
        with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
            u, v = (np.where(z > 0, each / z + np.float32(0.5), -1) for each in (x, y))
        width, height = self.colour.width, self.colour.height
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
        places = v[inside].astype(np.intp) * width + u[inside].astype(np.intp)
        nearest = np.full(width * height, np.inf, np.float32)
        np.minimum.at(nearest, places, z[inside])
        nearest[np.isinf(nearest)] = 0
        return nearest.reshape(height, width)


class ImageProcessor:
    """
    Convert raw images to rectified colour and registered depth.

    :param colour: the colour camera.
    :param depth: the depth camera; None if the depth is aligned to the raw colour image.
    :param colour_from_depth: 4x4, metres; None if the depth is aligned.
    :param warp: correction of the depth of each pixel.
    :param scale: scale of the results.
    :ivar camera: intrinsics of the results.
    """

    def __init__(
        self, colour: Intrinsics, depth: Optional[Intrinsics] = None,
        colour_from_depth: Optional[Floats] = None, warp: Optional[NDArray[np.float32]] = None,
        scale: float = 1.0,
    ) -> None:
        self._colour = Rectifier(colour)
        self._depth = self._colour if depth is None else Rectifier(depth)
        self._warp = warp
        self.camera = colour.without_distortion().scaled(scale)
        self._colour_from_depth = None if depth is None else colour_from_depth
        self._registration: Optional[Registration] = None

    def process(self, rgb: Bytes, depth: Depth) -> tuple[Bytes, Depth]:
        """
        Return both images with the intrinsics ``camera``.

        :param rgb: (height, width, 3).
        :param depth: (height, width), metres, 0 for no measurement.
        :raises ImageError: if the sizes of an image and its camera differ.
        :raises ConfigurationError: if the sizes of the depth and the warp calibration differ.
        """
        for name, image, camera in (('colour', rgb, self._colour.camera),
                                    ('depth', depth, self._depth.camera)):
            if image.shape[:2] != (camera.height, camera.width):
                raise ImageError(
                    f'the {name} image has {image.shape[1]} x {image.shape[0]} pixels, its '
                    f'calibration {camera.width} x {camera.height}')
        rgb, depth = self._colour.colour(rgb), self._depth.depth(depth)
        if self._warp is not None:
            depth = unwarp(self._warp, depth)
        if self._colour_from_depth is not None and self._registration is None:
            self._registration = Registration(
                self._depth.camera, self.camera, self._colour_from_depth)
        if rgb.shape[:2] != (self.camera.height, self.camera.width):
            rgb, small = resized(rgb, depth, self.camera)
            if self._registration is None:
                depth = small
        if self._registration is not None:
            depth = self._registration.register(depth)
        return rgb, depth
