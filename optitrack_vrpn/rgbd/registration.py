# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Rectify colour and depth, and register the depth to the rectified colour camera.

A pixel (u, v) of the depth camera with depth d is the point d K^-1 (u, v, 1). The point is
transformed to the colour camera and projected; its pixel is the one with the nearest centre. If
several points have the same pixel, the nearest point is used. Holes are not filled: depth without
a measurement stays unknown.
"""

from typing import Any, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.calibration import Warp
from optitrack_vrpn.rgbd.camera import Intrinsics, opencv
from optitrack_vrpn.rgbd.images import Bytes, Depth, ImageError, resized

Floats = NDArray[np.float64]


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
        rectified: Bytes = self._remap(image, opencv().INTER_LINEAR)
        return rectified

    def depth(self, image: Depth) -> Depth:
        """Rectify depth by the nearest pixel; the mean of two surfaces would lie on neither."""
        rectified: Depth = self._remap(image, opencv().INTER_NEAREST)
        return rectified

    def _remap(self, image: NDArray[Any], method: int) -> Any:
        camera = self.camera
        if not any(camera.distortion):
            return image
        cv2 = opencv()
        if self._maps is None:
            self._maps = cv2.initUndistortRectifyMap(
                camera.matrix, np.array(camera.distortion), None, camera.matrix,
                (camera.width, camera.height), cv2.CV_32FC1)
        return cv2.remap(
            np.ascontiguousarray(image), *self._maps, method,
            borderMode=cv2.BORDER_CONSTANT, borderValue=0)


class Registration:
    """
    Transform the depth image of one camera to another camera.

    :param depth: the depth camera, rectified.
    :param colour: the colour camera, rectified, with the size of the result.
    :param colour_from_depth: 4x4, metres.
    """

    def __init__(self, depth: Intrinsics, colour: Intrinsics, colour_from_depth: Floats) -> None:
        self.depth, self.colour = depth, colour
        rays = depth.without_distortion().rays(depth.pixel_grid()) @ colour_from_depth[:3, :3].T
        # the rays are projected once: pixel = (d a + b) / (d a_z + b_z)
        self._rays = np.ascontiguousarray((rays @ colour.matrix.T).T, np.float32)
        self._offset = (colour.matrix @ colour_from_depth[:3, 3]).astype(np.float32)

    def register(self, depth: Depth) -> Depth:
        """
        Return the depth image of the colour camera.

        :param depth: (height, width) of the depth camera, metres.
        """
        flat = depth.ravel()
        [measured] = np.nonzero(flat)
        x, y, z = self._rays[:, measured] * flat[measured] + self._offset[:, None]
        ahead = z > 0
        with np.errstate(divide='ignore', invalid='ignore', over='ignore'):
            u = np.where(ahead, x / z + np.float32(0.5), -1)
            v = np.where(ahead, y / z + np.float32(0.5), -1)
        width, height = self.colour.width, self.colour.height
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height)
        places = v[inside].astype(np.intp) * width + u[inside].astype(np.intp)
        nearest = np.full(width * height, np.inf, np.float32)
        np.minimum.at(nearest, places, z[inside])
        nearest[np.isinf(nearest)] = 0
        registered: Depth = nearest.reshape(height, width)
        return registered


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
        colour_from_depth: Optional[Floats] = None, warp: Optional[Warp] = None,
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
            depth = self._warp.unwarp(depth)
        if self._colour_from_depth is not None:
            if self._registration is None:
                self._registration = Registration(
                    self._depth.camera, self.camera, self._colour_from_depth)
            depth = self._registration.register(depth)
            if rgb.shape[:2] != depth.shape:
                cv2 = opencv()
                rgb = cv2.resize(rgb, (self.camera.width, self.camera.height),
                                 interpolation=cv2.INTER_AREA)
        elif rgb.shape[:2] != (self.camera.height, self.camera.width):
            rgb, depth = resized(rgb, depth, self.camera)
        return rgb, depth
