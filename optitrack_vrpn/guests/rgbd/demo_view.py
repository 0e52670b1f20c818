# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Odometry beside mocap: the error while both run, its lines, and the summary at the end."""

from bisect import bisect_left
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.takes.evaluate.evaluation_odometry import OdometryEvaluation
from scipy.spatial.transform import Rotation

Floats = NDArray[np.float64]

#: Chosen: poses of mocap that are kept, 16 s at 240 Hz; odometry arrives within that time.
_KEPT = 4000


class ViewRow(NamedTuple):
    """
    The newest pose of both in the frame of mocap.

    :ivar seconds: since the first pair.
    :ivar mocap: position of the camera by mocap and the known transform (m).
    :ivar odometry: by odometry, which begins at the same pose (m).
    :ivar travelled: path length by mocap (m).
    """

    seconds: float
    mocap: Floats
    odometry: Floats
    travelled: float

    @property
    def error_mm(self) -> float:
        """Return the distance of both (mm)."""
        return float(1e3 * np.linalg.norm(self.mocap - self.odometry))


class Comparison:
    """
    Compare odometry with mocap while both run.

    The first pair aligns both, so that the error is the drift since then.

    :param body_from_camera: (4, 4); the camera is the frame whose poses odometry publishes.
    :ivar last: the newest pair; None before the first.
    """

    def __init__(self, body_from_camera: Floats) -> None:
        self._mount = body_from_camera
        self._stamps: list[int] = []
        self._mocap: list[Floats] = []
        self._world_from_odom: Optional[Floats] = None
        self._begin_ns = 0
        self.last: Optional[ViewRow] = None

    def add_mocap(self, stamp_ns: int, world_from_body: Floats) -> None:
        """Add a pose of the body; one that is not newer than the last is ignored."""
        if self._stamps and stamp_ns <= self._stamps[-1]:
            return
        self._stamps.append(stamp_ns)
        self._mocap.append(world_from_body)
        if len(self._stamps) > 2 * _KEPT:
            del self._stamps[:_KEPT], self._mocap[:_KEPT]

    def add_odometry(self, stamp_ns: int, odom_from_camera: Floats) -> None:
        """Add a pose of odometry; one without a pose of mocap near its stamp is ignored."""
        at = bisect_left(self._stamps, stamp_ns)
        # Chosen: a pose of mocap further from the stamp of an image is not compared with it (ns):
        # a fifth of a millimetre at 0.1 m/s.
        near = [index for index in (at - 1, at) if 0 <= index < len(self._stamps)
                and abs(self._stamps[index] - stamp_ns) <= 10_000_000]
        if not near:
            return
        index = min(near, key=lambda each: abs(self._stamps[each] - stamp_ns))
        camera = self._mocap[index] @ self._mount
        if self._world_from_odom is None:
            self._world_from_odom = camera @ np.linalg.inv(odom_from_camera)
            self._begin_ns = stamp_ns
        estimate = (self._world_from_odom @ odom_from_camera)[:3, 3]
        travelled = 0.0 if self.last is None else self.last.travelled + float(
            np.linalg.norm(camera[:3, 3] - self.last.mocap))
        self.last = ViewRow(
            (stamp_ns - self._begin_ns) / 1e9, camera[:3, 3], estimate, travelled)


HEAD = ('  time   mocap: x      y      z   odometry: x      y      z    path     error',
        '     s         m      m      m            m      m      m       m        mm')


def line(row: ViewRow) -> str:
    """Write a row of the table below ``HEAD``."""
    mocap, odometry = (' '.join(f'{value:6.3f}' for value in each.tolist())
                       for each in (row.mocap, row.odometry))
    return (f'{row.seconds:6.1f}    {mocap}       {odometry}  {row.travelled:6.2f}  '
            f'{row.error_mm:8.1f}')


class MountError(NamedTuple):
    """Error of an estimated transform from body to camera."""

    millimetres: float
    degrees: float


def mount_error(found: OdometryEvaluation, truth: Floats) -> MountError:
    """
    Compare the transform that an evaluation found.

    :param truth: body_from_camera (4, 4).
    """
    turn = found.hand_eye.rotation.inv() * Rotation.from_matrix(truth[:3, :3])
    return MountError(float(1e3 * np.linalg.norm(found.hand_eye.translation - truth[:3, 3])),
                      float(np.degrees(turn.magnitude())))


#: Greatest error of a right evaluation of the trajectory 'calibration'. Chosen: a wrong mount is
#: off by centimetres or degrees; runs of 28 s at 10 Hz had 0.4 to 2.1 mm
#: (docs/evidence/rgbd_odometry.md), more on a busy machine, which loses images. The stated
#: deviation is no bound: it takes successive motions as independent, but the errors of odometry
#: last for seconds.
MOST_ERROR = MountError(6.0, 0.5)


def summary(found: OdometryEvaluation, truth: Floats, resets: int) -> list[str]:
    """
    Return the lines at the end of the demo.

    :param truth: body_from_camera (4, 4).
    :param resets: interruptions of odometry, after each of which its path is displaced.
    """
    error = mount_error(found, truth)
    return [
        f'time offset   {found.hand_eye.offset_ns / 1e6:7.2f} ms, to be added to the stamps of '
        'odometry',
        f'transform     body to camera within {error.millimetres:.2f} mm and '
        f'{error.degrees:.3f} deg of the truth (standard deviation '
        f'{1e3 * found.hand_eye.translation_std_m:.1f} mm, '
        f'{found.hand_eye.rotation_std_deg:.2f} deg)',
        f'ATE           {1e3 * found.ate.translation.rmse:7.1f} mm RMSE, '
        f'{1e3 * found.ate.translation.max:.1f} mm at most, over '
        f'{found.ate.translation.samples} poses',
        f'RPE           {1e3 * found.rpe.translation.rmse:7.1f} mm and '
        f'{found.rpe.rotation_deg.rmse:.2f} deg RMSE over '
        f'{found.rpe.seconds:g} s',
        f'interruptions {resets:7d} of odometry'
        + ('; images were lost, see --rate' if resets else ''),
        f'coverage      {100 * found.continuity.coverage:7.1f} % of the reference',
        *(f'{one.severity.word:13} {one.text}' for one in found.findings)]
