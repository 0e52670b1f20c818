# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Visual odometry: images with depth in; pose, covariance and status out.

The keypoints of each frame are aligned to a model of landmarks by ICP, the alignment is refined
with all covariances, and the keypoints are merged into the model. The fixed frame is the frame of
the base at the first image.

A frame that cannot be used returns a reason and no valid pose, and does not change the model. The
first such frame after a good one increments ``resets``: the motion is unknown until a later frame
matches the model again. If no frame matches for ``restart_after_s``, a new model begins at the
last known pose.
"""

from collections import deque
from dataclasses import dataclass
import enum
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.core.space import skew
from optitrack_vrpn.core.stats import frame_interval, GAP_INTERVALS
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.guests.rgbd.features import (
    CORRELATION, Features, FeatureTuning, find_features)
from optitrack_vrpn.guests.rgbd.geometry import (
    Floats, Intrinsics, motion_of, rigid, rotation_matrix, rotation_vector,
    transformed)
from optitrack_vrpn.guests.rgbd.images import Bytes, Depth, ImageError
from optitrack_vrpn.guests.rgbd.model import (
    align, ICP, LandmarkModel, Matches, ModelTuning, refine, Refined, rotated)


class FrameStatus(enum.Enum):
    """Outcome of a frame."""

    STARTED = 'started'    # first frame of a model
    TRACKED = 'tracked'
    FAILED = 'failed'
    LATE = 'late'          # not newer than the last frame: ignored


class UnusedCause(enum.Enum):
    """Reason why a frame was not used."""

    NONE = ''
    INPUT = 'images and camera_info do not fit together'
    NO_DEPTH = 'no depth'
    FEW_FEATURES = 'too few keypoints'
    NO_MATCH = 'no match with the model'
    INCONSISTENT = 'keypoints contradict the model'
    UNCERTAIN = 'motion not determined'
    JUMP = 'motion too fast'
    LATE = 'late'


@checked
@dataclass(frozen=True)
class OdometrySettings:
    """Settings of the method."""

    motion_constraint: str = setting(
        'none', choices=('none', 'level', 'planar'),
        doc='level: roll and pitch of the base are constant; planar: its height too')
    detector: str = setting(
        'gftt', choices=('gftt', 'orb'), doc='keypoints: corners of Shi and Tomasi, or orb')
    keypoints: int = setting(300, low=20, high=5000, doc='most keypoints of a frame')
    max_range_m: float = setting(
        7.0, unit='m', low=0.1, high=100.0, doc='keypoints farther away are not used')
    depth_noise: float = setting(
        0.001425, unit='1/m', low=0.0, high=0.1,
        doc='standard deviation of the depth z is this times z squared; 0.001425: Kinect '
        '(Khoshelham 2012)')
    landmarks: int = setting(
        5000, low=100, high=100000, doc='most landmarks; beyond that, a new one replaces the '
        'oldest')
    inlier_share: float = setting(
        0.35, low=0.0, high=1.0,
        doc='least share of the keypoints that match the model; a frame with less is not used')
    max_speed_m_s: float = setting(
        3.0, unit='m/s', low=0.01, high=100.0, doc='a frame with a faster motion is not used')
    max_turn_rad_s: float = setting(
        4.0, unit='rad/s', low=0.01, high=100.0, doc='a frame with a faster turn is not used')
    max_stdev_m: float = setting(
        0.05, unit='m', low=0.001, high=10.0,
        doc='greatest standard deviation of the position relative to the model')
    restart_after_s: float = setting(
        1.0, unit='s', low=0.0, high=3600.0,
        doc='time without a match after which a new model begins at the last known pose')


@dataclass(frozen=True, eq=False)
class CameraFrame:
    """
    Result of a frame; poses are valid for STARTED and TRACKED only.

    :ivar reason: one line for the user, '' without a problem.
    :ivar pose: 4x4, fixed_from_base.
    :ivar covariance: (6, 6), of position and rotation about the fixed axes (m, rad).
    :ivar linear: velocity of the base in its own axes (m/s); None if unknown.
    :ivar angular: angular velocity of the base in its own axes (rad/s); None if unknown.
    :ivar twist_covariance: (6, 6), of both velocities; None if unknown.
    :ivar features: features of the frame; None if detection did not run.
    :ivar inliers: number of features that match the model.
    :ivar chi2: their mean squared Mahalanobis distance divided by 3; 1 if covariances are right.
    :ivar resets: number of interruptions of the path so far.
    """

    stamp_ns: int
    status: FrameStatus
    cause: UnusedCause
    reason: str
    pose: Floats
    covariance: Floats
    linear: Optional[Floats] = None
    angular: Optional[Floats] = None
    twist_covariance: Optional[Floats] = None
    features: Optional[Features] = None
    inliers: int = 0
    chi2: float = 0.0
    resets: int = 0

    @property
    def good(self) -> bool:
        """Return True if the pose is that of this frame."""
        return self.status in (FrameStatus.STARTED, FrameStatus.TRACKED)


class _RefusedError(Exception):
    """A frame cannot be used; the arguments are the cause and the reason."""


@dataclass
class FrameCounters:
    """Number of frames by outcome, and of interruptions."""

    frames: int = 0
    tracked: int = 0
    failed: int = 0
    late: int = 0
    missed: int = 0
    resets: int = 0
    restarts: int = 0


class Odometry:
    """Estimate the motion of a camera, whose optical frame has a pose (4x4) in the base."""

    def __init__(
        self, settings: Optional[OdometrySettings] = None,
        base_from_camera: Optional[Floats] = None,
    ) -> None:
        self.settings = settings or OdometrySettings()
        self.base_from_camera: Floats = np.eye(4) if base_from_camera is None else base_from_camera
        self.camera_from_base = np.linalg.inv(self.base_from_camera)
        given = self.settings
        self.model = LandmarkModel(ModelTuning(given.landmarks))
        self._limits = FeatureTuning(
            given.detector, given.keypoints, max_range_m=given.max_range_m,
            depth_noise=given.depth_noise)
        self.counters = FrameCounters()
        self._pose: Floats = self.base_from_camera.copy()    # fixed_from_camera
        self._covariance: Floats = np.zeros((6, 6))          # of (rho, theta), see ``model``
        self._step: Optional[tuple[Floats, float]] = None    # motion and time between frames
        self._stamp_ns: Optional[int] = None         # stamp of the last frame
        self._good_ns = 0                            # stamp of the last frame with a pose
        self._tracking = False
        self._late: list[int] = []
        self._intervals: deque[int] = deque(maxlen=15)    # ns, for the usual interval

    @property
    def pose(self) -> Floats:
        """Return the last known fixed_from_base, 4x4."""
        return self._pose @ self.camera_from_base

    def process(self, stamp_ns: int, grey: Bytes, depth: Depth, camera: Intrinsics) -> CameraFrame:
        """Process a frame: stamp (ns), brightness, registered depth (m, 0 for none)."""
        self.counters.frames += 1
        late = self._check_stamp(stamp_ns)
        if late:
            self.counters.late += 1
            return self._frame(stamp_ns, FrameStatus.LATE, UnusedCause.LATE, late)
        features = None
        try:
            features = find_features(grey, depth, camera, self._limits)
            self._check_features(features, depth)
        except ImageError as error:
            return self._fail(stamp_ns, UnusedCause.INPUT, str(error))
        except _RefusedError as error:
            return self._fail(stamp_ns, *error.args, features=features)
        if not len(self.model):
            return self._start(stamp_ns, features, '')
        return self._track(stamp_ns, features)

    def reject(self, stamp_ns: int, reason: str) -> CameraFrame:
        """Process an unreadable frame; it fails with ``reason``."""
        self.counters.frames += 1
        return self._fail(stamp_ns, UnusedCause.INPUT, reason)

    # -- one frame -----------------------------------------------------------------------------

    def _track(self, stamp_ns: int, features: Features) -> CameraFrame:
        settings, model = self.settings, self.model
        seconds = (stamp_ns - self._good_ns) / NS_PER_S
        fit: dict[str, Any] = {'features': features}
        try:
            aligned, reason = align(
                features.means, model.tree, model.means, self._guess(seconds))
            if aligned is None:
                raise _RefusedError(UnusedCause.NO_MATCH, f'no match with the model: {reason}')
            refined = refine(aligned, features.means, features.covariances, model)
            fit.update(inliers=refined.inliers, chi2=refined.chi2)
            self._check_motion(refined, features, seconds)
        except _RefusedError as error:
            if self._tracking or seconds < settings.restart_after_s:
                return self._fail(stamp_ns, *error.args, **fit)
            return self._restart(stamp_ns, features, error.args[1])
        transform, matches = self._constrained(refined, features)
        # a frame has the errors of the frames that added its landmarks
        known = matches.landmarks[matches.landmarks >= 0]
        own = CORRELATION * max(1.0, refined.chi2) * refined.covariance
        self._covariance = model.frame_covariances[known].mean(axis=0) + own
        before, motion = self.pose, np.linalg.inv(self._pose) @ transform
        self._pose = transform
        model.update(transformed(transform, features.means),
                     rotated(transform[:3, :3], features.covariances), matches, self._covariance)
        if self._tracking:
            step = np.linalg.inv(before) @ self.pose
            # the registrations at both ends of the step have about the same covariance
            fit.update(linear=step[:3, 3] / seconds,
                       angular=rotation_vector(step[:3, :3]) / seconds,
                       twist_covariance=in_own_axes(2 * own / seconds ** 2, self.pose))
            self._step = motion, seconds
        self._tracking = True
        self._good_ns = stamp_ns
        self.counters.tracked += 1
        return self._frame(stamp_ns, FrameStatus.TRACKED, UnusedCause.NONE, '', **fit)

    def _start(self, stamp_ns: int, features: Features, reason: str) -> CameraFrame:
        """Begin a model with a frame, at the last known pose."""
        self.model.clear()
        self.model.update(transformed(self._pose, features.means),
                          rotated(self._pose[:3, :3], features.covariances),
                          frame_covariance=self._covariance)
        self._tracking, self._step = True, None
        self._good_ns = stamp_ns
        self.counters.tracked += 1
        return self._frame(stamp_ns, FrameStatus.STARTED, UnusedCause.NONE, reason,
                           features=features)

    def _restart(self, stamp_ns: int, features: Features, reason: str) -> CameraFrame:
        """Begin a new model after ``restart_after_s`` without a match."""
        self.counters.restarts += 1
        seconds = (stamp_ns - self._good_ns) / NS_PER_S
        # chosen: standard deviations of the velocity while nothing is tracked, 0.5 m/s and rad/s
        self._covariance = self._covariance + at_position(
            (0.5 * seconds) ** 2 * np.eye(6), -self._pose[:3, 3])
        return self._start(
            stamp_ns, features, f'a new model begins after {seconds:.1f} s without a match; the '
            f'motion during that time is unknown ({reason})')

    def _fail(self, stamp_ns: int, cause: UnusedCause, reason: str, **more: Any) -> CameraFrame:
        self.counters.failed += 1
        self._interrupt()
        return self._frame(stamp_ns, FrameStatus.FAILED, cause, reason, **more)

    def _interrupt(self) -> None:
        """End the tracking: the motion until the next match is unknown."""
        self.counters.resets += self._tracking
        self._tracking, self._step = False, None

    def _frame(
        self, stamp_ns: int, status: FrameStatus, cause: UnusedCause, reason: str, **more: Any,
    ) -> CameraFrame:
        pose = self.pose
        return CameraFrame(stamp_ns, status, cause, reason, pose,
                           at_position(self._covariance, pose[:3, 3]), resets=self.counters.resets,
                           **more)

    # -- parts ---------------------------------------------------------------------------------

    def _guess(self, seconds: float) -> Floats:
        """Return the pose at which the search begins."""
        if self._step is None:
            return self._pose
        motion, took = self._step
        share = min(seconds / took, 3.0)    # constant velocity for at most three intervals
        return self._pose @ rigid(
            rotation_matrix(share * rotation_vector(motion[:3, :3])), share * motion[:3, 3])

    def _check_stamp(self, stamp_ns: int) -> str:
        """Return '' for a frame that is newer than the last one, else the reason."""
        last = self._stamp_ns
        if last is not None and stamp_ns <= last:
            if self._late and stamp_ns <= self._late[-1]:
                self._late.clear()
            self._late.append(stamp_ns)
            if len(self._late) < 5:
                return (f'the frame is {(last - stamp_ns) / 1e6:.1f} ms older than the last one '
                        'and is ignored')
            # Five in rising order: the clock was set back, as by a bag that starts again, and the
            # motion since the last frame is unknown. One attempt matches the model; if it fails,
            # a new model begins.
            self._interrupt()
            self._good_ns = stamp_ns - max(
                round(self.settings.restart_after_s * NS_PER_S), NS_PER_S // 10)
            self._intervals.clear()
        elif last is not None:
            self._count_missed(stamp_ns - last)
        self._late.clear()
        self._stamp_ns = stamp_ns
        return ''

    def _count_missed(self, interval: int) -> None:
        if len(self._intervals) >= 5:
            usual = frame_interval(self._intervals)
            # a pause of 10 s or more does not count: the camera was switched off
            if interval > GAP_INTERVALS * usual and interval < 10 * NS_PER_S:
                self.counters.missed += round(interval / usual) - 1
        self._intervals.append(interval)

    def _check_features(self, features: Features, depth: Depth) -> None:
        needed = ICP.pairs
        if len(features) >= needed:
            return
        share = float(np.count_nonzero(depth)) / depth.size
        measured = f'{100 * share:.0f} % of the pixels have depth'
        if share == 0:
            raise _RefusedError(
                UnusedCause.NO_DEPTH,
                'no pixel of the depth image has a measurement: is the distance '
                'less than the minimum of the camera, or is there sunlight?')
        if features.detected >= needed:
            limits = self._limits
            raise _RefusedError(
                UnusedCause.NO_DEPTH,
                f'{len(features)} of {features.detected} keypoints have depth '
                f'within {limits.max_range_m:g} m and {limits.max_stdev_m:g} m of deviation, '
                f'{needed} are needed; {measured}')
        raise _RefusedError(
            UnusedCause.FEW_FEATURES,
            f'{features.detected} keypoints with depth, {needed} are needed: '
            f'too little texture (a white wall, darkness, blur); {measured}')

    def _check_motion(self, refined: Refined, features: Features, seconds: float) -> None:
        settings = self.settings
        share = refined.inliers / len(features)
        if refined.inliers < ICP.pairs or share < settings.inlier_share:
            raise _RefusedError(
                UnusedCause.INCONSISTENT,
                f'{refined.inliers} of {len(features)} keypoints fit the model '
                f'({100 * share:.0f} %), {100 * settings.inlier_share:.0f} % are needed: a bump '
                'of the camera, or the scene moves')
        at_camera = at_position(refined.covariance, refined.transform[:3, 3])
        stdev = float(np.sqrt(max(np.linalg.eigvalsh(at_camera[:3, :3])[-1], 0.0)))
        if not stdev <= settings.max_stdev_m:
            raise _RefusedError(
                UnusedCause.UNCERTAIN,
                f'the keypoints determine the position to {stdev:.3f} m only, '
                f'{settings.max_stdev_m:g} m are needed')
        moved, turned = motion_of(np.linalg.inv(self._pose) @ refined.transform)
        # drivers that stamp images on arrival deliver them in bursts
        limit_s = max(seconds, 1 / 30)
        if moved > settings.max_speed_m_s * limit_s or turned > settings.max_turn_rad_s * limit_s:
            raise _RefusedError(
                UnusedCause.JUMP, f'the camera would have moved {moved:.2f} m and '
                f'{np.degrees(turned):.0f} deg in {1e3 * seconds:.0f} ms: a bump, or a wrong '
                'match')

    def _constrained(self, refined: Refined, features: Features) -> tuple[Floats, Matches]:
        """Apply ``motion_constraint``; return fixed_from_camera and its matches."""
        constraint = self.settings.motion_constraint
        if constraint == 'none':
            return refined.transform, refined.matches
        [kept] = np.nonzero(refined.matches.landmarks >= 0)
        target = self.model.means[refined.matches.landmarks[kept]]
        base = refined.transform @ self.camera_from_base
        yaw = np.arctan2(base[1, 0], base[0, 0])
        level = rigid(rotation_matrix(np.array([0.0, 0.0, yaw])), 0.0)
        camera: Floats = level @ self.base_from_camera
        # for a given rotation, the best translation aligns the means
        camera[:3, 3] += (target - transformed(camera, features.means[kept])).mean(axis=0)
        if constraint == 'planar':
            camera[2, 3] = self.base_from_camera[2, 3]
        matches = self.model.match(transformed(camera, features.means),
                                   rotated(camera[:3, :3], features.covariances))
        return camera, matches


def at_position(covariance: Floats, position: Floats) -> Floats:
    """Convert the covariance of (rho, theta) to that of a position and a rotation."""
    jacobian = np.eye(6)
    jacobian[:3, 3:] = -skew(position)
    return jacobian @ covariance @ jacobian.T


def in_own_axes(covariance: Floats, pose: Floats) -> Floats:
    """Convert the covariance of (rho, theta) to that at a pose, in the axes of the pose."""
    turn = np.kron(np.eye(2), pose[:3, :3].T)
    return turn @ at_position(covariance, pose[:3, 3]) @ turn.T
