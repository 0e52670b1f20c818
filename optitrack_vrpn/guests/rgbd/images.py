# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert sensor_msgs/Image to arrays and back; pair images, and find transforms in /tf_static.

Depth follows REP 118: 16UC1 contains millimetres with 0 for no measurement, 32FC1 metres with NaN
or infinity. Arrays of depth contain float32 metres with 0 for no measurement.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, opencv, pose_of

Bytes = NDArray[np.uint8]
Depth = NDArray[np.float32]


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
    """Storage of a pixel, with cv2.cvtColor's names of conversions ('' for none)."""

    dtype: str
    channels: int
    to_rgb: str = ''
    to_grey: str = ''


_BGR, _BGRA = (Encoding('u1', channels, f'{name}2RGB', f'{name}2GRAY')
               for channels, name in ((3, 'BGR'), (4, 'BGRA')))
_GREY = Encoding('u1', 1, 'GRAY2RGB')
#: Encodings of colour and grey images. 8UC1, 8UC3 and 8UC4 define no colours; drivers that use
#: OpenCV send grey, BGR and BGRA with them.
COLOUR = {
    'rgb8': Encoding('u1', 3, '', 'RGB2GRAY'), 'bgr8': _BGR, '8UC3': _BGR, 'bgra8': _BGRA,
    'rgba8': Encoding('u1', 4, 'RGBA2RGB', 'RGBA2GRAY'), '8UC4': _BGRA, 'mono8': _GREY,
    '8UC1': _GREY}
#: Some drivers send 16-bit depth as mono16.
DEPTH = {'16UC1': Encoding('u2', 1), 'mono16': Encoding('u2', 1), '32FC1': Encoding('f4', 1)}


def to_rgb(image: Image) -> Bytes:
    """Return a colour or grey image as RGB, (height, width, 3)."""
    return _converted(_pixels(image, COLOUR, 'colour'), COLOUR[image.encoding].to_rgb)


def to_grey(image: Image) -> Bytes:
    """Return a colour or grey image as brightness, (height, width)."""
    pixels = _converted(_pixels(image, COLOUR, 'colour'), COLOUR[image.encoding].to_grey)
    return pixels[..., 0] if pixels.ndim == 3 else pixels


def grey_of(rgb: Bytes) -> Bytes:
    """Return the brightness (height, width) of RGB (height, width, 3)."""
    return _converted(rgb, 'RGB2GRAY')


def _converted(pixels: Bytes, code: str) -> Bytes:
    cv2 = opencv()
    return cv2.cvtColor(
        np.ascontiguousarray(pixels), getattr(cv2, f'COLOR_{code}')) if code else pixels


def to_depth(image: Image, unit_m: float = 0.001) -> Depth:
    """Return a depth image in metres, 0 for none; ``unit_m`` of 16 bits: REP 118, 1 mm."""
    pixels = _pixels(image, DEPTH, 'depth')[..., 0]
    if image.encoding != '32FC1':
        return unpack_depth(pixels, unit_m)
    depth = pixels.astype(np.float32)
    # The lower limit is the least unit of depth. The upper one admits 100 m in millimetres, so
    # that the report of a wrong unit can name the range; some drivers send the greatest float
    # for saturated pixels, and its square overflows.
    depth[~((depth >= 1e-5) & (depth <= 1e5))] = 0
    return depth


def unpack_depth(packed: NDArray[np.uint16], unit_m: float = 0.001) -> Depth:
    """Return whole units of depth in metres."""
    return np.multiply(packed, np.float32(unit_m), dtype=np.float32)


def pack_depth(depth: Depth) -> NDArray[np.uint16]:
    """Return depth (m) in whole millimetres; 0 for none, and beyond 65.535 m."""
    scaled = np.rint(depth / 0.001)
    return np.where((scaled > 0) & (scaled <= 65535), scaled, 0).astype('<u2')


def resized(image: Bytes, depth: Depth, camera: Intrinsics) -> tuple[Bytes, Depth]:
    """Resize a pair: brightness averaged, depth by the nearest pixel (a mean is no surface)."""
    cv2 = opencv()
    size = (camera.width, camera.height)
    return (cv2.resize(image, size, interpolation=cv2.INTER_AREA),
            cv2.resize(depth, size, interpolation=cv2.INTER_NEAREST))


def scaled_pair(
    image: Bytes, depth: Depth, camera: Intrinsics, factor: float,
) -> tuple[Bytes, Depth, Intrinsics]:
    """Resize a pair and its camera by a factor; leave other sizes to ``check_sizes``."""
    if factor == 1.0 or not image.shape[:2] == depth.shape == (camera.height, camera.width):
        return image, depth, camera
    camera = camera.scaled(factor)
    return (*resized(image, depth, camera), camera)


def check_sizes(grey: Bytes, depth: Depth, camera: Intrinsics) -> None:
    """Check that both images and the camera have the same size."""
    if grey.shape[:2] != depth.shape[:2]:
        raise ImageError(
            f'the colour image has {grey.shape[1]} x {grey.shape[0]} pixels, the depth image '
            f'{depth.shape[1]} x {depth.shape[0]}: use depth that is registered to the colour '
            'camera, or rgbd_image_proc')
    if grey.shape[:2] != (camera.height, camera.width):
        raise ImageError(
            f'the images have {grey.shape[1]} x {grey.shape[0]} pixels, camera_info has '
            f'{camera.width} x {camera.height}: camera_info belongs to another image')


def from_rgb(rgb: Bytes) -> dict[str, Any]:
    """Return the fields of an Image except the header: rgb8 for three channels, mono8 for one."""
    return _fields(np.ascontiguousarray(rgb, np.uint8), 'mono8' if rgb.ndim == 2 else 'rgb8')


def from_depth(depth: Depth, encoding: str = '16UC1') -> dict[str, Any]:
    """Return the fields of an Image: 16UC1 (mm) or 32FC1 (m, NaN for no measurement)."""
    return _fields(pack_depth(depth) if encoding == '16UC1' else np.where(
        depth > 0, depth, np.nan).astype('<f4'), encoding)


def _fields(pixels: NDArray[Any], encoding: str) -> dict[str, Any]:
    height, width = pixels.shape[:2]
    return {'height': height, 'width': width, 'encoding': encoding, 'is_bigendian': 0,
            'step': pixels.nbytes // height if height else 0, 'data': pixels.tobytes()}


def _pixels(image: Image, known: dict[str, Encoding], name: str) -> NDArray[Any]:
    """View the bytes of an image as (height, width, channels), without the padding of rows."""
    encoding = known.get(image.encoding)
    if encoding is None:
        if image.encoding in COLOUR or image.encoding in DEPTH:
            other = 'depth' if name == 'colour' else 'colour'
            raise ImageError(
                f'the {name} image has the encoding {image.encoding!r}, which is {other}; are '
                'the topics of colour and depth swapped?')
        hint = '; use the output of image_proc (debayer)' * image.encoding.startswith('bayer')
        raise ImageError(
            f'the {name} image has the encoding {image.encoding!r}, which is not supported; '
            f'supported: {", ".join(known)}{hint}')
    dtype = np.dtype(encoding.dtype).newbyteorder('>' if image.is_bigendian else '<')
    height, width, step = image.height, image.width, image.step
    if height < 1 or width < 1:
        raise ImageError(f'the image is empty: {width} x {height} pixels')
    row = width * encoding.channels * dtype.itemsize
    needed = step * (height - 1) + row
    data = np.frombuffer(image.data, np.uint8)
    if step < row or data.size < needed:
        raise ImageError(
            f'the image has {data.size} bytes in rows of {step} bytes, but {width} x {height} '
            f'pixels of {image.encoding} need {needed} in rows of at least {row}: it is '
            'truncated, or its encoding or step is wrong')
    strides = (step, encoding.channels * dtype.itemsize, dtype.itemsize)
    return np.ndarray((height, width, encoding.channels), dtype, data.data, 0, strides)


# -- pairs of images, static transforms -----------------------------------------------------------

@dataclass
class _ImageStream:
    """One of the streams: its queue, last stamp (ns) and least recent interval (ns)."""

    waiting: deque[tuple[int, Any]] = field(default_factory=deque)
    last: Optional[int] = None
    interval: Optional[int] = None


class Pairer:
    """
    Pair messages of stream 0 with those of stream 1, with bounded queues.

    A pair is returned as soon as no later message can be nearer: the stamps are equal, or the next
    message of the stream with the earlier stamp is known, or the gap is at most half of the
    interval of that stream.

    :param tolerance_ns: greatest difference of the stamps of a pair.
    :param capacity: most messages in the queue of each stream.
    :ivar pairs: number of returned pairs.
    :ivar unpaired: number of messages that were dropped without a partner, by stream.
    :ivar late: number of messages that were not newer than the one before, by stream.
    """

    def __init__(self, tolerance_ns: int = 20_000_000, capacity: int = 10) -> None:
        self.tolerance_ns = tolerance_ns
        self.capacity = capacity
        self.pairs = 0
        self.unpaired = [0, 0]
        self.late = [0, 0]
        self._streams = (_ImageStream(), _ImageStream())

    def add(self, stream: int, stamp_ns: int, message: Any) -> list[tuple[Any, Any]]:
        """Add a message of stream 0 or 1; return the pairs that are certain now."""
        own = self._streams[stream]
        if own.last is not None and stamp_ns <= own.last:
            if own.last - stamp_ns < NS_PER_S:
                self.late[stream] += 1
                return []
            self._restart()
            own = self._streams[stream]
        if own.last is not None:
            interval = stamp_ns - own.last
            # it grows by 10 % at most, so that a dropped message does not double it
            own.interval = interval if own.interval is None else min(
                interval, own.interval + own.interval // 10)
        own.last = stamp_ns
        own.waiting.append((stamp_ns, message))
        if len(own.waiting) > self.capacity:
            self._drop(stream)
        return self._match()

    def _restart(self) -> None:
        """Empty the queues: the stamps went back by a second or more."""
        for number, stream in enumerate(self._streams):
            self.unpaired[number] += len(stream.waiting)
        self._streams = (_ImageStream(), _ImageStream())

    def _drop(self, stream: int) -> None:
        self._streams[stream].waiting.popleft()
        self.unpaired[stream] += 1

    def _match(self) -> list[tuple[Any, Any]]:
        found = []
        first, second = (stream.waiting for stream in self._streams)
        while first and second:
            behind = 0 if first[0][0] <= second[0][0] else 1
            early, late_ns = self._streams[behind], self._streams[1 - behind].waiting[0][0]
            gap = late_ns - early.waiting[0][0]
            following = early.waiting[1][0] if len(early.waiting) > 1 else None
            if gap > self.tolerance_ns or (
                    following is not None and abs(following - late_ns) < gap):
                self._drop(behind)
                continue
            if gap and following is None and (
                    early.interval is None or 2 * gap > early.interval):
                break
            found.append((first.popleft()[1], second.popleft()[1]))
            self.pairs += 1
        return found


class StaticFrames:
    """The static transforms received so far."""

    def __init__(self) -> None:
        self._parents: dict[str, tuple[str, Floats]] = {}

    def add(
        self, parent: str, child: str, translation: tuple[float, float, float],
        quat_xyzw: tuple[float, float, float, float],
    ) -> bool:
        """Store parent_from_child; return False for a zero quaternion or infinite values."""
        if not np.isfinite([*translation, *quat_xyzw]).all() or not any(quat_xyzw):
            return False
        self._parents[child.lstrip('/')] = parent.lstrip('/'), pose_of(translation, quat_xyzw)
        return True

    def parent(self, frame: str) -> Optional[str]:
        """Return the static parent of a frame, None if there is none."""
        return self._parents.get(frame.lstrip('/'), (None,))[0]

    def lookup(self, target: str, source: str) -> Optional[Floats]:
        """Return target_from_source, 4x4; None if no chain of transforms joins them."""
        to_target, to_source = self._chain(target), self._chain(source)
        for ancestor, from_target in to_target.items():
            if ancestor in to_source:
                return np.linalg.inv(from_target) @ to_source[ancestor]
        return None

    def _chain(self, frame: str) -> dict[str, Floats]:
        """Return ancestor_from_frame of a frame and each of its ancestors."""
        frame = frame.lstrip('/')
        chain = {frame: np.eye(4)}
        while frame in self._parents:
            parent, transform = self._parents[frame]
            if parent in chain:    # wrong publishers can create a loop
                break
            chain[parent] = transform @ chain[frame]
            frame = parent
        return chain
