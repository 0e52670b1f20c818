# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Lifecycle node rgbd_odometry: images in, nav_msgs/Odometry and TF out.

After a failed frame the node publishes no pose and no transform, and the diagnostics report the
reason. The value of the latched topic ``reset_count`` (std_msgs/UInt32) increments at each
interruption of the path.
"""

from collections import deque
import time
from typing import Any, Optional

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import Odometry as OdometryMessage, Path
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, STALE, WARN
from optitrack_vrpn.guests.rgbd.camera_node_ros import (
    CameraNode, cloud_message, LATCHED, make_header, pose_message, stamp_ns, transform_message)
from optitrack_vrpn.guests.rgbd.geometry import opencv, transformed
from optitrack_vrpn.guests.rgbd.images import ImageError, scaled_pair, to_depth, to_grey
from optitrack_vrpn.guests.rgbd.odometry import CameraFrame, FrameStatus, Odometry
from optitrack_vrpn.guests.rgbd.settings import OdometryNodeSettings
from optitrack_vrpn.node.base.tf import tf_publisher
from sensor_msgs.msg import Image, PointCloud2
from std_msgs.msg import UInt32
from tf2_msgs.msg import TFMessage


class RgbdOdometry(CameraNode[OdometryNodeSettings]):
    """Publish the motion of a camera."""

    subject = 'tracking'

    def __init__(self, node_name: str = 'rgbd_odometry', **kwargs: Any) -> None:
        self._settings = OdometryNodeSettings()
        self._odometry: Optional[Odometry] = None
        self._path: deque[PoseStamped] = deque(maxlen=2000)    # a message of 200 kB
        self._last: Optional[CameraFrame] = None
        self._resets_before = 0
        self._published_resets: Optional[int] = None
        self._due: dict[str, float] = {}
        super().__init__(node_name, OdometryNodeSettings, **kwargs)

    # -- lifecycle -----------------------------------------------------------------------------

    def prepare(self, settings: OdometryNodeSettings) -> None:
        """Create the publishers."""
        # one thread, because more threads would take processor time from other nodes
        opencv().setNumThreads(1)
        self._settings = settings
        for name, kind, topic, qos in (
                ('odometry', OdometryMessage, settings.odometry, 10),
                ('resets', UInt32, 'reset_count', LATCHED), ('path', Path, 'path', 1),
                ('features', PointCloud2, 'feature/cloud', 2),
                ('model', PointCloud2, 'model/cloud', 1)):
            self._outputs[name] = self.create_publisher(kind, topic, qos)
        if settings.tf:
            self._outputs['tf'] = tf_publisher(self)
        self._mocap_control.set_info_topics([self._outputs['odometry'].topic_name])

    def begin(self) -> None:
        """Start at the origin of the fixed frame."""
        if self._odometry is not None:    # the pose jumps back to the origin
            self._resets_before += self._odometry.counters.resets + 1
        self._odometry = None
        self._path.clear()
        self._last = None
        self._log.repetition.restart()
        self._log.repetition.state('tracking', 'tracking')
        self._publish_resets()
        given = self._settings
        self._subscribe(given, {'colour': given.info}, given.rectified)

    # -- inputs --------------------------------------------------------------------------------

    def _pair(self, colour: Image, depth: Image) -> None:
        given, camera = self._settings, self._camera('colour')
        base_from_camera = self._base_from_camera(
            given, given.base_frame, colour.header.frame_id)
        if self._odometry is None:
            self._odometry = Odometry(given, base_from_camera)
        odometry = self._odometry
        if not np.array_equal(base_from_camera, odometry.base_from_camera):
            raise ConfigurationError(
                'the transform of the camera on /tf_static has changed since the first image: '
                'deactivate and activate the node to use it')
        self._error = ''
        stamp = stamp_ns(colour.header)
        with self._timed():
            try:
                images = to_grey(colour), to_depth(depth, given.depth_unit_m)
            except ImageError as error:
                frame = odometry.reject(stamp, str(error))
            else:
                frame = odometry.process(stamp, *scaled_pair(*images, camera, given.scale))
            self._last = frame
            self._log_status(frame)
            self._publish_resets()
            if frame.good:
                self._publish(frame, odometry)

    # -- outputs -------------------------------------------------------------------------------

    def _log_status(self, frame: CameraFrame) -> None:
        if frame.status is FrameStatus.LATE:
            self._log(WARN, frame.reason, 'late')
            return
        failed = frame.status is FrameStatus.FAILED
        again = self._log.repetition.state('tracking', '' if failed else 'tracking')
        if failed:
            self._log(WARN, f'frame not used: {frame.reason}', f'failed {frame.cause}')
        elif frame.status is FrameStatus.STARTED and frame.reason:
            self._log(WARN, frame.reason, 'restarted')
        elif again:
            self._log(INFO, f'tracking again; reset_count is {self.reset_count}', 'again')

    @property
    def reset_count(self) -> int:
        """Return the number of interruptions of the path."""
        own = self._odometry.counters.resets if self._odometry is not None else 0
        return self._resets_before + own

    def _publish_resets(self) -> None:
        if self._published_resets != self.reset_count:
            self._published_resets = self.reset_count
            self._outputs['resets'].publish(UInt32(data=self.reset_count))

    def _publish(self, frame: CameraFrame, odometry: Odometry) -> None:
        out = self._settings
        header = make_header(frame.stamp_ns, out.fixed_frame)
        message = OdometryMessage(header=header, child_frame_id=out.base_frame)
        message.pose.pose = pose_message(frame.pose)
        message.pose.covariance = frame.covariance.ravel()
        twist = message.twist
        if frame.linear is None or frame.angular is None or frame.twist_covariance is None:
            twist.covariance = (1e6 * np.eye(6)).ravel()    # unknown
        else:
            linear, angular = twist.twist.linear, twist.twist.angular
            linear.x, linear.y, linear.z = frame.linear.tolist()
            angular.x, angular.y, angular.z = frame.angular.tolist()
            twist.covariance = frame.twist_covariance.ravel()
        self._outputs['odometry'].publish(message)
        pose = message.pose.pose
        if out.tf:
            parent = self._frames.parent(out.base_frame)
            if parent is None:
                self._outputs['tf'].publish(TFMessage(
                    transforms=[transform_message(header, out.base_frame, pose)]))
            else:       # a second parent would make the frame jump between both
                self._log(ERROR, f'no transform is published: {out.base_frame} is a child of '
                          f'{parent} in /tf_static; set tf to false, or base_frame '
                          f'to {parent}', 'parent')
        self._publish_path(PoseStamped(header=header, pose=pose))
        self._publish_clouds(frame, odometry)

    def _publish_path(self, pose: PoseStamped) -> None:
        if self._path:
            a, b = self._path[-1].pose.position, pose.pose.position
            if (a.x - b.x) ** 2 + (a.y - b.y) ** 2 + (a.z - b.z) ** 2 < 0.02 ** 2:
                return
        self._path.append(pose)
        if self._is_due('path', 1.0):
            self._outputs['path'].publish(Path(header=pose.header, poses=list(self._path)))

    def _publish_clouds(self, frame: CameraFrame, odometry: Odometry) -> None:
        fixed = make_header(frame.stamp_ns, self._settings.fixed_frame)
        if frame.features is not None and self._is_due('features', 0.0):
            self._outputs['features'].publish(cloud_message(fixed, transformed(
                frame.pose @ odometry.base_from_camera, frame.features.means)))
        if self._is_due('model', 0.5):
            self._outputs['model'].publish(cloud_message(fixed, odometry.model.means))

    def _is_due(self, name: str, period_s: float) -> bool:
        """Return True if a large message has subscribers and its period has passed."""
        now = time.monotonic()
        if now < self._due.get(name, 0.0) or not self._outputs[name].get_subscription_count():
            return False
        self._due[name] = now + period_s
        return True

    # -- diagnostics ---------------------------------------------------------------------------

    def _values(self) -> dict[str, Any]:
        values: dict[str, Any] = {'reset_count': self.reset_count}
        if self._odometry is not None:
            counters = self._odometry.counters
            values.update({
                'frames': counters.frames, 'tracked': counters.tracked,
                'failed': counters.failed, 'late frames': counters.late,
                'missed frames': counters.missed, 'new models': counters.restarts,
                'landmarks': len(self._odometry.model),
                'cpu_ms_per_frame': f'{self._frame_ms:.1f}'})
        frame = self._last
        if frame is not None:
            stdev = np.sqrt(np.maximum(np.diag(frame.covariance), 0))
            values.update({
                'last frame': frame.status.value, 'reason': frame.reason,
                'keypoints': len(frame.features) if frame.features is not None else 0,
                'inliers': frame.inliers, 'chi2': f'{frame.chi2:.2f}',
                'position_stdev_m': f'{max(stdev[:3]):.4f}',
                'rotation_stdev_deg': f'{np.degrees(max(stdev[3:])):.3f}'})
        return values

    def _state(self) -> tuple[Severity, str]:
        if self._last is None:
            return INFO, 'waiting for the first images'
        if self._last.status is FrameStatus.FAILED:
            return ERROR, f'not tracking: {self._last.reason}'
        return (WARN, self._last.reason) if self._last.status is FrameStatus.LATE else (
            INFO, 'tracking')

    def _silence(self, silent_s: float) -> tuple[Severity, str]:
        given = self._settings
        missing = [topic for topic, count in zip((given.colour, given.depth), self._images)
                   if not count]
        if missing:
            return ERROR, f'no images on {" and ".join(missing)}'
        if not self._pairer.pairs:
            return ERROR, (
                f'no colour and depth image have stamps within {given.tolerance_s:g} s: '
                f'{self._images[0]} colour and {self._images[1]} depth images were received')
        text, late = f'no new pair of images for {silent_s:.1f} s', sum(self._pairer.late)
        if late:    # of a driver that does not stamp, all
            text += f'; stamps that are not later than the one before: {late}'
        if self._last is not None and self._last.reason:
            text += f'; before: {self._last.reason}'
        return STALE, text
