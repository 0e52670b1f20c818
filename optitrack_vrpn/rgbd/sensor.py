# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Add the errors of a structured light camera, such as a Kinect, to exact images.

Depth is measured as a disparity d = f b / z with a random error, rounded to eighths of a pixel
(Khoshelham, Elberink: Accuracy and resolution of Kinect depth data, Sensors 12, 2012; its
sigma_z = 0.001425 z^2 m corresponds to an error of 0.0625 pixels). The disparity is that of a VGA
image for all image sizes. Not modelled: motion blur, rolling shutter, exposure, the shadow of the
projector, and errors that are equal in successive frames.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.settings import checked, setting

#: Chosen: pixels whose depths differ by more than this share of the depth are an edge and have no
#: measurement. Halved, oblique surfaces lose depth; doubled, small steps keep it.
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
