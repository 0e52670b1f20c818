# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Lifecycle node rgbd_image_proc: raw images in, rectified and registered images out."""

import functools
import time
from typing import Any, Optional, Sequence

from diagnostic_msgs.msg import DiagnosticStatus
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.calibration import parse_extrinsics, parse_intrinsics, parse_warp
from optitrack_vrpn.rgbd.camera import Intrinsics, opencv
from optitrack_vrpn.rgbd.camera_node_ros import CameraNode, SENSOR_QOS
from optitrack_vrpn.rgbd.files_io import load_storage
from optitrack_vrpn.rgbd.images import from_depth, from_rgb, to_depth, to_rgb
from optitrack_vrpn.rgbd.messages_ros import cloud_message, image_message, info_message
from optitrack_vrpn.rgbd.registration import ImageProcessor
from optitrack_vrpn.rgbd.settings import ImageProcSettings
from optitrack_vrpn.ros.managed_node import entry
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import Header

_CAMERAS = ('colour', 'depth')


class RgbdImageProc(CameraNode[ImageProcSettings]):
    """
    Rectify, unwarp, register and resize the images of a camera.

    Each image keeps its stamp. Depth, info and cloud have the frame of the colour camera.

    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str = 'rgbd_image_proc', **kwargs: Any) -> None:
        self._settings = ImageProcSettings(aligned=True)
        self._files: dict[str, Intrinsics] = {}
        self._cameras: dict[str, Intrinsics] = {}
        self._extrinsics: Any = None
        self._warp: Any = None
        self._processor: Optional[ImageProcessor] = None
        self._published = 0
        self._camera_errors: dict[str, str] = {}
        self._last_s = 0.0
        self._frame_ms = 0.0
        super().__init__(node_name, ImageProcSettings, **kwargs)

    # -- lifecycle -----------------------------------------------------------------------------

    def prepare(self, settings: ImageProcSettings) -> None:
        """
        Read the files, and create the publishers.

        :raises ConfigurationError: if a file is missing or wrong.
        :raises BackendUnavailableError: without OpenCV.
        """
        opencv().setNumThreads(1)
        if not settings.aligned and not settings.extrinsics_file:
            raise ConfigurationError(
                'extrinsics_file: set the file (extr.yml) of the transform between the cameras, '
                'or set aligned if the driver registers the depth')
        self._settings = settings
        self._files = {
            name: parse_intrinsics(load_storage(path), path) for name, path in zip(
                _CAMERAS, (settings.colour_file, settings.depth_file)) if path}
        self._extrinsics = self._warp = None
        if settings.extrinsics_file:
            self._extrinsics = parse_extrinsics(
                load_storage(settings.extrinsics_file), settings.extrinsics_file)
        if settings.warp_file:
            self._warp = parse_warp(load_storage(settings.warp_file), settings.warp_file)
        create = self.create_publisher
        self._outputs = {
            'rgb': create(Image, 'rgbd/rgb', 5), 'depth': create(Image, 'rgbd/depth', 5),
            'info': create(CameraInfo, 'rgbd/info', 5),
            'cloud': create(PointCloud2, 'rgbd/cloud', 1)}
        self._mocap_control.set_info_topics([each.topic_name for each in self._outputs.values()])

    def begin(self) -> None:
        """Reset the state, and subscribe."""
        settings = self._settings
        self._cameras, self._processor = dict(self._files), None
        self._published, self._camera_errors = 0, {}
        self._last_s = time.monotonic()
        topics = {'colour': settings.colour_info, 'depth': settings.depth_info}
        for name in self._needed():
            if name not in self._files:
                self._inputs.append(self.create_subscription(
                    CameraInfo, topics[name],
                    functools.partial(self._on_camera, name), SENSOR_QOS))
        self._subscribe_images(settings.colour, settings.depth, settings)

    # -- images --------------------------------------------------------------------------------

    def _needed(self) -> tuple[str, ...]:
        return _CAMERAS[:1] if self._settings.aligned else _CAMERAS

    def _on_camera(self, name: str, message: CameraInfo) -> None:
        try:
            camera = Intrinsics.from_camera_info(message)
        except ConfigurationError as error:
            self._camera_errors[name] = f'camera_info of the {name} camera: {error}'
            self._cameras.pop(name, None)
            self._processor = None
            self._log('error', self._camera_errors[name], name)
            return
        self._camera_errors.pop(name, None)
        if self._cameras.get(name) != camera:
            self._cameras[name], self._processor = camera, None

    def _pair(self, colour: Image, depth: Image) -> None:
        self._last_s = time.monotonic()
        began = time.thread_time()
        missing = [name for name in self._needed() if name not in self._cameras]
        if missing:
            topics = {'colour': self._settings.colour_info, 'depth': self._settings.depth_info}
            raise ConfigurationError(
                'no valid camera_info on ' + ' and '.join(topics[name] for name in missing))
        if self._processor is None:
            self._processor = ImageProcessor(
                self._cameras['colour'],
                None if self._settings.aligned else self._cameras['depth'],
                self._extrinsics, self._warp, self._settings.scale)
        rgb, metres = self._processor.process(
            to_rgb(colour), to_depth(depth, self._settings.depth_unit_m))
        self._error = ''
        self._publish(colour.header, depth.header, rgb, metres)
        self._frame_ms += 0.03 * (1e3 * (time.thread_time() - began) - self._frame_ms)

    def _publish(self, header: Header, depth_header: Header, rgb: Any, metres: Any) -> None:
        assert self._processor is not None
        outputs, camera = self._outputs, self._processor.camera
        outputs['info'].publish(info_message(header, camera))
        outputs['rgb'].publish(image_message(header, from_rgb(rgb)))
        outputs['depth'].publish(image_message(
            Header(stamp=depth_header.stamp, frame_id=header.frame_id),
            from_depth(metres, self._settings.depth_encoding)))
        self._published += 1
        if outputs['cloud'].get_subscription_count():
            seen = metres.ravel() > 0
            points = camera.rays(camera.pixel_grid()[seen]) * metres.ravel()[seen, None]
            outputs['cloud'].publish(cloud_message(header, points, rgb.reshape(-1, 3)[seen]))

    # -- diagnostics ---------------------------------------------------------------------------

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Report whether images are processed, or the reason why they are not."""
        level, message = self._verdict()
        return [entry(f'{self.get_name()}: images', level, message, {
            **self._image_counts(), 'published': self._published,
            'unwarped': self._warp is not None,
            'cpu_ms_per_frame': f'{self._frame_ms:.1f}'})]

    def _verdict(self) -> tuple[str, str]:
        if not self._inputs:
            return 'ok', 'inactive'
        for error in (*self._camera_errors.values(), self._error):
            if error:
                return 'error', error
        silent_s = time.monotonic() - self._last_s
        if silent_s > self._settings.timeout_s:
            return 'error', (
                f'no pair of images for {silent_s:.1f} s: {self._images[0]} on '
                f'{self._settings.colour}, {self._images[1]} on {self._settings.depth}')
        return ('ok', 'processing') if self._published else ('ok', 'waiting for the first images')
