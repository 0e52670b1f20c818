# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Publish colour, aligned depth and camera_info with the topics of a depth camera driver."""

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.images import from_depth, from_rgb
from optitrack_vrpn.rgbd.messages_ros import image_message, info_message, make_header
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, Image

#: Topics of realsense2_camera below the camera's namespace.
COLOUR, DEPTH, INFO = 'color/image_raw', 'aligned_depth_to_color/image_raw', 'color/camera_info'


class CameraOutput:
    """
    The publishers of a camera.

    :param node: owner of the publishers.
    :param camera: intrinsics of both images.
    :param frame: optical frame of both images.
    """

    def __init__(self, node: Node, camera: Intrinsics, frame: str) -> None:
        self._frame = frame
        self._camera = camera
        self._colour = node.create_publisher(Image, COLOUR, qos_profile_sensor_data)
        self._depth = node.create_publisher(Image, DEPTH, qos_profile_sensor_data)
        self._camera_info = node.create_publisher(CameraInfo, INFO, qos_profile_sensor_data)

    @property
    def listeners(self) -> int:
        """Return the number of subscribers of the colour images."""
        return int(self._colour.get_subscription_count())

    def publish(
        self, stamp_ns: int, rgb: NDArray[np.uint8], depth: NDArray[np.float32],
        encoding: str = '16UC1',
    ) -> None:
        """
        Publish one exposure; camera_info first, because receivers need it for the images.

        :param stamp_ns: time of the exposure (ns since the epoch).
        :param rgb: (height, width, 3).
        :param depth: (height, width), metres, 0 for no measurement.
        :param encoding: encoding of the depth, 16UC1 (mm) or 32FC1 (m).
        """
        header = make_header(stamp_ns, self._frame)
        self._camera_info.publish(info_message(header, self._camera))
        self._colour.publish(image_message(header, from_rgb(rgb)))
        self._depth.publish(image_message(header, from_depth(depth, encoding)))
