# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert sensor_msgs/Image to arrays and back.

Depth follows REP 118: 16UC1 contains millimetres with 0 for no measurement, 32FC1 metres with NaN
or infinity. Arrays of depth contain float32 metres with 0 for no measurement.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.camera import Intrinsics, opencv

Bytes = NDArray[np.uint8]
Depth = NDArray[np.float32]

#: Unit of 16UC1 depth by REP 118 (m).
MILLIMETRE = 0.001
#: Depth of 32FC1 outside of this range is no measurement (m). The lower limit is the least unit of
#: depth. The upper one admits 100 m in millimetres, so that the report of a wrong unit can name
#: the range. Some drivers send the greatest float for saturated pixels, and its square overflows.
_MEASURABLE_M = 1e-5, 1e5


class ImageError(ConfigurationError):
    """An image cannot be read; the message contains its encoding or size, and the remedy."""


class Image(Protocol):
    """The fields of sensor_msgs/Image that are used here."""

    height: int
    width: int
    encoding: str
    is_bigendian: Any
    step: int
    data: Any


class Encoding(NamedTuple):
    """
    Storage of a pixel.

    :ivar order: indices of the channels red, green and blue; None for depth.
    """

    dtype: str
    channels: int
    order: tuple[int, int, int] | None


#: Encodings of colour and grey images. 8UC1, 8UC3 and 8UC4 define no colours; drivers that use
#: OpenCV send grey, BGR and BGRA with them.
COLOUR = {
    'rgb8': Encoding('u1', 3, (0, 1, 2)), 'bgr8': Encoding('u1', 3, (2, 1, 0)),
    'rgba8': Encoding('u1', 4, (0, 1, 2)), 'bgra8': Encoding('u1', 4, (2, 1, 0)),
    '8UC3': Encoding('u1', 3, (2, 1, 0)), '8UC4': Encoding('u1', 4, (2, 1, 0)),
    'mono8': Encoding('u1', 1, (0, 0, 0)), '8UC1': Encoding('u1', 1, (0, 0, 0)),
}
#: Some drivers send 16-bit depth as mono16.
DEPTH = {
    '16UC1': Encoding('u2', 1, None), 'mono16': Encoding('u2', 1, None),
    '32FC1': Encoding('f4', 1, None),
}


def to_rgb(image: Image) -> Bytes:
    """
    Return a colour or grey image as RGB, (height, width, 3).

    :raises ImageError: if it is a depth image, has another encoding, or is too short.
    """
    encoding, pixels = _colour(image)
    assert encoding.order is not None
    if encoding.order == (0, 1, 2) and encoding.channels == 3:
        return pixels
    return np.ascontiguousarray(pixels[..., list(encoding.order)])


def to_grey(image: Image) -> Bytes:
    """
    Return a colour or grey image as brightness, (height, width).

    :raises ImageError: under the conditions of ``to_rgb``.
    """
    encoding, pixels = _colour(image)
    assert encoding.order is not None
    if encoding.channels == 1:
        return pixels[..., 0]
    name = ('RGB' if encoding.order[0] == 0 else 'BGR') + 'A' * (encoding.channels == 4)
    cv2 = opencv()
    grey: Bytes = cv2.cvtColor(
        np.ascontiguousarray(pixels), getattr(cv2, f'COLOR_{name}2GRAY'))
    return grey


def grey_of(rgb: Bytes) -> Bytes:
    """Return the brightness (height, width) of RGB (height, width, 3)."""
    cv2 = opencv()
    grey: Bytes = cv2.cvtColor(np.ascontiguousarray(rgb), cv2.COLOR_RGB2GRAY)
    return grey


def to_depth(image: Image, unit_m: float = MILLIMETRE) -> Depth:
    """
    Return a depth image in metres, (height, width); 0 where there is no measurement.

    :param unit_m: unit of the 16-bit encodings (m).
    :raises ImageError: if it is a colour image, has another encoding, or is too short.
    """
    encoding = DEPTH.get(image.encoding)
    if encoding is None:
        if image.encoding in COLOUR:
            raise ImageError(
                f'the depth image has the encoding {image.encoding!r}, which is colour; are the '
                'topics of colour and depth swapped?')
        raise ImageError(
            f'the depth image has the encoding {image.encoding!r}, which is not supported; '
            f'supported: {", ".join(DEPTH)}')
    pixels = _pixels(image, encoding)[..., 0]
    if encoding.dtype == 'u2':
        return unpack_depth(pixels, unit_m)
    depth = pixels.astype(np.float32)
    low, high = _MEASURABLE_M
    depth[~((depth >= low) & (depth <= high))] = 0
    return depth


def unpack_depth(packed: NDArray[np.uint16], unit_m: float = MILLIMETRE) -> Depth:
    """Return whole units of depth in metres."""
    metres: Depth = np.multiply(packed, np.float32(unit_m), dtype=np.float32)
    return metres


def pack_depth(depth: Depth) -> NDArray[np.uint16]:
    """Return depth (m) in whole millimetres; 0 for none, and beyond 65.535 m."""
    scaled = np.rint(depth / MILLIMETRE)
    packed: NDArray[np.uint16] = np.where(
        (scaled > 0) & (scaled <= 65535), scaled, 0).astype('<u2')
    return packed


def resized(image: Bytes, depth: Depth, camera: Intrinsics) -> tuple[Bytes, Depth]:
    """
    Resize both images to the size of a camera.

    Brightness and colours are averaged. Depth is that of the nearest pixel, because the mean of
    two surfaces lies on neither.
    """
    cv2 = opencv()
    size = (camera.width, camera.height)
    return (cv2.resize(image, size, interpolation=cv2.INTER_AREA),
            cv2.resize(depth, size, interpolation=cv2.INTER_NEAREST))


def scaled_pair(
    image: Bytes, depth: Depth, camera: Intrinsics, factor: float,
) -> tuple[Bytes, Depth, Intrinsics]:
    """
    Resize a pair by a factor; return it with its camera.

    Images of another size than the camera stay unchanged, so that ``check_sizes`` reports them.
    """
    if factor == 1.0 or not image.shape[:2] == depth.shape == (camera.height, camera.width):
        return image, depth, camera
    camera = camera.scaled(factor)
    return (*resized(image, depth, camera), camera)


def from_rgb(rgb: Bytes) -> dict[str, Any]:
    """Return the fields of an Image except the header: rgb8 for three channels, mono8 for one."""
    return _fields(np.ascontiguousarray(rgb, np.uint8), 'mono8' if rgb.ndim == 2 else 'rgb8')


def from_depth(depth: Depth, encoding: str = '16UC1') -> dict[str, Any]:
    """
    Return the fields of an Image except the header.

    :param depth: metres, 0 for no measurement.
    :param encoding: 16UC1 (rounded to 1 mm; 0 beyond 65.535 m) or 32FC1 (NaN for none).
    """
    if encoding == '16UC1':
        return _fields(pack_depth(depth), encoding)
    if encoding == '32FC1':
        return _fields(np.where(depth > 0, depth, np.nan).astype('<f4'), encoding)
    raise ImageError(f'depth cannot be written as {encoding!r}; possible: 16UC1, 32FC1')


def _fields(pixels: NDArray[Any], encoding: str) -> dict[str, Any]:
    height, width = pixels.shape[:2]
    return {'height': height, 'width': width, 'encoding': encoding, 'is_bigendian': 0,
            'step': pixels.nbytes // height if height else 0, 'data': pixels.tobytes()}


def _colour(image: Image) -> tuple[Encoding, Bytes]:
    encoding = COLOUR.get(image.encoding)
    if encoding is None:
        if image.encoding in DEPTH:
            raise ImageError(
                f'the colour image has the encoding {image.encoding!r}, which is depth; are the '
                'topics of colour and depth swapped?')
        hint = '; use the output of image_proc (debayer)' if image.encoding.startswith(
            'bayer') else ''
        raise ImageError(
            f'the colour image has the encoding {image.encoding!r}, which is not supported; '
            f'supported: {", ".join(COLOUR)}{hint}')
    return encoding, _pixels(image, encoding)


def _pixels(image: Image, encoding: Encoding) -> NDArray[Any]:
    """View the bytes of an image as (height, width, channels), without the padding of rows."""
    dtype = np.dtype(encoding.dtype).newbyteorder('>' if image.is_bigendian else '<')
    height, width, step = image.height, image.width, image.step
    row = width * encoding.channels * dtype.itemsize
    if height < 1 or width < 1:
        raise ImageError(f'the image is empty: {width} x {height} pixels')
    if step < row:
        raise ImageError(
            f'the image has rows of {step} bytes, but {width} pixels of {image.encoding} need '
            f'{row}: its encoding or step is wrong')
    data = np.frombuffer(image.data, np.uint8)
    if data.size < step * (height - 1) + row:
        raise ImageError(
            f'the image has {data.size} bytes, but {width} x {height} pixels of {image.encoding} '
            f'need {step * (height - 1) + row}: it is truncated, or its encoding is wrong')
    shape = (height, width, encoding.channels)
    strides = (step, encoding.channels * dtype.itemsize, dtype.itemsize)
    pixels: NDArray[Any] = np.ndarray(shape, dtype, data.data, 0, strides)
    return pixels
