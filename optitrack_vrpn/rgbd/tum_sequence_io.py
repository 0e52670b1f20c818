# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read folders in the format of the TUM RGB-D benchmark."""

from pathlib import Path
from typing import Optional

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording.trajectory import Trajectory
from optitrack_vrpn.recording.tum import parse_tum
from optitrack_vrpn.rgbd.opencv import opencv
from optitrack_vrpn.rgbd.tum_sequence import DEPTH_SCALE, Pair, pair, parse_list


class Sequence:
    """
    A sequence on disk.

    :param folder: folder with rgb.txt, depth.txt and, optionally, groundtruth.txt.
    :raises ConfigurationError: if a list is missing or cannot be read.
    :ivar pairs: pairs of images, sorted by stamp.
    :ivar truth: world_from_optical; None without groundtruth.txt.
    """

    def __init__(self, folder: Path) -> None:
        self._cv2 = opencv()
        self.folder = folder
        colour, depth = (parse_list(_lines(folder / name), str(folder / name))
                         for name in ('rgb.txt', 'depth.txt'))
        self.pairs = pair(colour, depth)
        truth = folder / 'groundtruth.txt'
        self.truth: Optional[Trajectory] = None
        if truth.is_file():
            self.truth = parse_tum(_lines(truth), str(truth))

    def load(self, images: Pair) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """
        Read a pair.

        :returns: red, green and blue (height, width, 3), and depth in metres (height, width), 0
            for no measurement.
        :raises ConfigurationError: with the name of a missing, broken or unsuitable file.
        """
        bgr = self._read(images.colour, self._cv2.IMREAD_COLOR)
        depth = self._read(images.depth, self._cv2.IMREAD_UNCHANGED)
        if depth.dtype != np.uint16 or depth.ndim != 2:
            raise ConfigurationError(
                f'{self.folder / images.depth}: depth must be 16-bit grey, not '
                f'{depth.dtype} of shape {depth.shape}')
        if depth.shape != bgr.shape[:2]:
            raise ConfigurationError(
                f'{self.folder / images.depth}: is {depth.shape[1]} x {depth.shape[0]} pixels, '
                f'its colour image {bgr.shape[1]} x {bgr.shape[0]}: depth must be registered')
        metres: NDArray[np.float32] = depth.astype(np.float32) / np.float32(DEPTH_SCALE)
        rgb: NDArray[np.uint8] = np.ascontiguousarray(bgr[:, :, ::-1])
        return rgb, metres

    def _read(self, name: str, flags: int) -> NDArray[np.generic]:
        path = self.folder / name
        if not path.is_file():    # cv2.imread prints a warning of its own
            raise ConfigurationError(f'{path}: is missing')
        image = self._cv2.imread(str(path), flags)
        if image is None:
            raise ConfigurationError(f'{path}: is not an image')
        found: NDArray[np.generic] = image
        return found


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding='utf-8').splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f'{path}: cannot be read: {error}') from None
