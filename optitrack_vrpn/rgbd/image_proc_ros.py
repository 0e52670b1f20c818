# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Lifecycle node rgbd_image_proc: raw images in, rectified and registered images out."""

from typing import Any, Optional

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.rgbd.calibration import (
    ImageProcessor, parse_extrinsics, parse_intrinsics, parse_warp)
from optitrack_vrpn.rgbd.camera_node_ros import (
    CameraNode, cloud_message, image_message, info_message)
from optitrack_vrpn.rgbd.files_io import load_storage
from optitrack_vrpn.rgbd.geometry import Intrinsics, opencv
from optitrack_vrpn.rgbd.images import from_depth, from_rgb, to_depth, to_rgb
from optitrack_vrpn.rgbd.settings import ImageProcSettings
from sensor_msgs.msg import CameraInfo, Image, PointCloud2
from std_msgs.msg import Header


class RgbdImageProc(CameraNode[ImageProcSettings]):
    """Rectify, unwarp, register and resize images; all get the frame of colour."""

    def __init__(self, node_name: str = 'rgbd_image_proc', **kwargs: Any) -> None:
        self._settings = ImageProcSettings(aligned=True)
        self._needed = ['colour']
        self._files: dict[str, Intrinsics] = {}
        self._extrinsics: Any = None
        self._warp: Any = None
        self._processor: Optional[ImageProcessor] = None
        self._used: list[Intrinsics] = []    # the cameras of the processor
        self._published = 0
        super().__init__(node_name, ImageProcSettings, **kwargs)

    def prepare(self, settings: ImageProcSettings) -> None:
        """Read the files, and create the publishers."""
        opencv().setNumThreads(1)
        if not settings.aligned and not settings.extrinsics_file:
            raise ConfigurationError(
                'extrinsics_file: set the file (extr.yml) of the transform between the cameras, '
                'or set aligned if the driver registers the depth')
        self._settings = settings

        def parsed(parse: Any, path: str) -> Any:
            return parse(load_storage(path), path) if path else None
        self._files = {
            name: parsed(parse_intrinsics, path) for name, path in (
                ('colour', settings.colour_file), ('depth', settings.depth_file)) if path}
        self._extrinsics = parsed(parse_extrinsics, settings.extrinsics_file)
        self._warp = parsed(parse_warp, settings.warp_file)
        self._outputs = {
            name: self.create_publisher(kind, f'rgbd/{name}', depth) for name, kind, depth in (
                ('rgb', Image, 5), ('depth', Image, 5), ('info', CameraInfo, 5),
                ('cloud', PointCloud2, 1))}
        self._mocap_control.set_info_topics([each.topic_name for each in self._outputs.values()])

    def begin(self) -> None:
        """Reset the state, and subscribe."""
        settings = self._settings
        self._published, self._processor = 0, None
        topics = {'colour': settings.colour_info, 'depth': settings.depth_info}
        self._needed = ['colour'] if settings.aligned else ['colour', 'depth']
        self._subscribe(settings, {
            name: topics[name] for name in self._needed if name not in self._files})
        self._cameras.update(self._files)

    def _pair(self, colour: Image, depth: Image) -> None:
        settings, cameras = self._settings, [self._camera(name) for name in self._needed]
        if self._processor is None or self._used != cameras:
            self._used = cameras
            self._processor = ImageProcessor(
                cameras[0], None if settings.aligned else cameras[1], self._extrinsics,
                self._warp, settings.scale)
        with self._timed():
            rgb, metres = self._processor.process(
                to_rgb(colour), to_depth(depth, settings.depth_unit_m))
            self._error = ''
            outputs, camera, header = self._outputs, self._processor.camera, colour.header
            outputs['info'].publish(info_message(header, camera))
            outputs['rgb'].publish(image_message(header, from_rgb(rgb)))
            outputs['depth'].publish(image_message(
                Header(stamp=depth.header.stamp, frame_id=header.frame_id),
                from_depth(metres, settings.depth_encoding)))
            self._published += 1
            if outputs['cloud'].get_subscription_count():
                seen = metres.ravel() > 0
                points = camera.rays(camera.pixel_grid()[seen]) * metres.ravel()[seen, None]
                outputs['cloud'].publish(cloud_message(header, points, rgb.reshape(-1, 3)[seen]))

    def _values(self) -> dict[str, Any]:
        return {'published': self._published, 'unwarped': self._warp is not None,
                'cpu_ms_per_frame': f'{self._frame_ms:.1f}'}

    def _state(self) -> tuple[str, str]:
        return 'ok', 'processing' if self._published else 'waiting for the first images'

    def _silence(self, silent_s: float) -> tuple[str, str]:
        return 'error', (f'no pair of images for {silent_s:.1f} s: {self._images[0]} on '
                         f'{self._settings.colour}, {self._images[1]} on {self._settings.depth}')
