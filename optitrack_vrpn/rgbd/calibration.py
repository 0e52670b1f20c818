# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Parse the calibration files of a colour and a depth camera.

- rgb.yml, depth.yml: intrinsics, as ROS's camera_calibration writes them or as OpenCV's
  FileStorage does (``camera_matrix``, ``distortion_coefficients``, ``image_width``,
  ``image_height``).
- extr.yml: ``ir2rgb``, 3x4, colour_from_depth with the translation in millimetres.
- warp.yml: ``c0``, ``c1`` and ``c2``, one value per pixel, and ``fit_mode``: the true depth is
  c0 + c1 d + c2 d^2 with d in millimetres.
"""

from dataclasses import dataclass
import enum
import re
from typing import Any, Mapping

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.images import Depth
from optitrack_vrpn.rgbd.transforms import rigid
import yaml

Floats = NDArray[np.float64]

_MM = 0.001
#: The numbers of a matrix, in either format.
_DATA = re.compile(r'\bdata:\s*\[([^][]*)\]')
#: Names used by ROS and by the samples of OpenCV.
_MATRIX = ('camera_matrix', 'cameraMatrix', 'Camera_Matrix')
_DISTORTION = ('distortion_coefficients', 'distCoeffs', 'Distortion_Coefficients')
_WIDTH, _HEIGHT = ('image_width', 'image_Width'), ('image_height', 'image_Height')
#: Greatest deviation from an orthonormal matrix that rounding in a file can cause.
_ORTHONORMAL = 1e-2


class FitMode(enum.IntEnum):
    """Coefficients of the polynomial of a pixel that are used."""

    LINEAR = 0          # c0 + c1 d
    LINEAR_ZERO = 1     # c1 d
    QUADRATIC = 2       # c0 + c1 d + c2 d^2
    QUADRATIC_ZERO = 3  # c1 d + c2 d^2


@dataclass(frozen=True, eq=False)
class Warp:
    """
    The polynomial that corrects the depth of each pixel.

    :ivar constant: (height, width), millimetres; zero if the mode does not use it.
    :ivar linear: (height, width).
    :ivar quadratic: (height, width), 1/mm; zero if the mode does not use it.
    """

    constant: NDArray[np.float32]
    linear: NDArray[np.float32]
    quadratic: NDArray[np.float32]

    def unwarp(self, depth: Depth) -> Depth:
        """
        Correct depth in metres; 0 stays 0, and negative results become 0.

        :raises ConfigurationError: if the sizes of image and calibration differ.
        """
        if depth.shape != self.linear.shape:
            raise ConfigurationError(
                f'the depth image has {depth.shape[1]} x {depth.shape[0]} pixels, the warp '
                f'calibration {self.linear.shape[1]} x {self.linear.shape[0]}')
        d = depth / np.float32(_MM)
        true = (self.constant + d * (self.linear + d * self.quadratic)) * np.float32(_MM)
        corrected: Depth = np.where((depth > 0) & (true > 0), true, np.float32(0))
        return corrected


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
        return f'data: {len(blocks) - 1}'

    # OpenCV up to 4 writes %YAML:1.0, which is not valid YAML. The numbers of a warp file are too
    # many for the YAML parser.
    short = _DATA.sub(replaced, re.sub(r'\A%YAML.*', '', text))
    try:
        found = yaml.load(short, _Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f'{source} is not valid YAML: {error}') from None
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
    """
    Read rgb.yml or depth.yml.

    :raises ConfigurationError: with the name of the missing or wrong value.
    """
    matrix = _array(values, _MATRIX, (3, 3), source)
    size = [_find(values, names, source) for names in (_WIDTH, _HEIGHT)]
    if not all(isinstance(each, (int, float)) for each in size):
        raise ConfigurationError(f'{source}: image_width and image_height must be numbers')
    model = values.get('distortion_model', 'plumb_bob')
    if model not in ('plumb_bob', 'rational_polynomial'):
        raise ConfigurationError(f'{source}: the distortion model {model!r} is not supported')
    distortion: tuple[float, ...] = ()
    if any(name in values for name in _DISTORTION):
        coefficients = _find(values, _DISTORTION, source)
        try:
            distortion = tuple(np.asarray(coefficients, float).ravel().tolist())
        except (TypeError, ValueError):
            raise ConfigurationError(f'{source}: {_DISTORTION[0]} must be numbers') from None
    try:
        return Intrinsics(
            int(size[0]), int(size[1]), matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2],
            distortion if any(distortion) else ())
    except ConfigurationError as error:
        raise ConfigurationError(f'{source}: {error}') from None


def parse_extrinsics(values: Mapping[str, Any], source: str) -> Floats:
    """
    Read extr.yml.

    :returns: colour_from_depth, 4x4, metres.
    :raises ConfigurationError: if it is not a rigid transform.
    """
    matrix = _array(values, ('ir2rgb',), (3, 4), source)
    rotation = matrix[:, :3]
    if not np.abs(rotation @ rotation.T - np.eye(3)).max() < _ORTHONORMAL or (
            np.linalg.det(rotation) < 0):
        raise ConfigurationError(f'{source}: the first three columns of ir2rgb are not a rotation')
    if not np.linalg.norm(matrix[:, 3]) < 1000:
        raise ConfigurationError(
            f'{source}: the translation of ir2rgb is {np.linalg.norm(matrix[:, 3]):g} mm, too '
            'large for two cameras of one device; its unit is millimetres')
    left, _, right = np.linalg.svd(rotation)
    # the nearest rotation removes the rounding of the file
    return rigid(left @ right, matrix[:, 3] * _MM)


def parse_warp(values: Mapping[str, Any], source: str) -> Warp:
    """
    Read warp.yml.

    :raises ConfigurationError: with the name of the missing or wrong value.
    """
    mode_value = _find(values, ('fit_mode',), source)
    try:
        mode = FitMode(int(mode_value))
    except (TypeError, ValueError):
        raise ConfigurationError(
            f'{source}: fit_mode is {mode_value!r}; possible: 0 to 3') from None
    linear = _image(values, 'c1', source)
    constant = quadratic = np.zeros_like(linear)
    if mode in (FitMode.LINEAR, FitMode.QUADRATIC):
        constant = _image(values, 'c0', source)
    if mode in (FitMode.QUADRATIC, FitMode.QUADRATIC_ZERO):
        quadratic = _image(values, 'c2', source)
    if not constant.shape == linear.shape == quadratic.shape:
        raise ConfigurationError(f'{source}: c0, c1 and c2 have different sizes')
    return Warp(constant, linear, quadratic)


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
    found: Floats = value.astype(float)
    return found


def _image(values: Mapping[str, Any], name: str, source: str) -> NDArray[np.float32]:
    value = _find(values, (name,), source)
    if not isinstance(value, np.ndarray) or value.ndim != 2 or not np.isfinite(value).all():
        raise ConfigurationError(f'{source}: {name} must be a matrix with one number per pixel')
    found: NDArray[np.float32] = value.astype(np.float32)
    return found
