# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Base class of the nodes with image input: subscriptions, publishers, static transforms."""

import contextlib
import functools
import traceback
from typing import Any, Iterator, Optional, TypeVar

import numpy as np
from numpy.typing import NDArray
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.mocap_control.participant_ros import MocapControl
from optitrack_vrpn.rgbd.camera import Intrinsics
from optitrack_vrpn.rgbd.messages_ros import stamp_ns
from optitrack_vrpn.rgbd.pairing import Pairer
from optitrack_vrpn.rgbd.settings import InputSettings, MountSettings, PairSettings
from optitrack_vrpn.rgbd.transforms import StaticFrames
from optitrack_vrpn.ros.managed_node import SettingsNode
from optitrack_vrpn.units import NS_PER_S
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import CameraInfo, Image
from tf2_msgs.msg import TFMessage

Floats = NDArray[np.float64]

S = TypeVar('S')

#: QoS of camera drivers (REP 2003); it matches reliable publishers too. The depth covers short
#: delays; a longer queue delivers older images.
SENSOR_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Later subscribers receive the last message.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: QoS of the subscription of tf2_ros to /tf_static.
_STATIC_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class CameraNode(SettingsNode[S]):
    """
    A node that pairs images and receives camera_info; subclasses define ``_pair``.

    It destroys subscriptions at deactivation and publishers at cleanup.

    :param node_name: name before remapping.
    :param settings: settings class.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str, settings: type[S], **kwargs: Any) -> None:
        self._inputs: list[Any] = []
        self._outputs: dict[str, Any] = {}
        self._frames = StaticFrames()
        self._pairer = Pairer()
        self._images = [0, 0]
        self._sources: dict[str, str] = {}
        self._content: list[NDArray[np.uint8]] = []
        self._content_ns = self._frozen_ns = 0
        self._camera: Optional[Intrinsics] = None
        self._camera_error = ''
        self._error = ''
        super().__init__(node_name, settings, **kwargs)
        self._mocap_control = MocapControl(self)

    def _pair(self, colour: Image, depth: Image) -> None:
        """Process a pair of images."""
        raise NotImplementedError

    def _subscribe_images(self, colour: str, depth: str, settings: PairSettings) -> None:
        """Pair the images of two topics."""
        self._pairer = Pairer(round(settings.tolerance_s * NS_PER_S), settings.queue)
        self._frozen_ns = round(settings.frozen_after_s * NS_PER_S)
        self._images, self._error = [0, 0], ''
        self._sources, self._content = {}, []
        for stream, topic in enumerate((colour, depth)):
            self._inputs.append(self.create_subscription(
                Image, topic, functools.partial(self._on_image, stream), SENSOR_QOS))

    def _subscribe_camera(self, given: InputSettings) -> None:
        """Pair the images of a camera, and receive its intrinsics and static transforms."""
        self._camera, self._camera_error = None, ''
        self._inputs.append(self.create_subscription(
            CameraInfo, given.info, functools.partial(self._on_info, given), SENSOR_QOS))
        self._subscribe_images(given.colour, given.depth, given)
        self._inputs.append(self.create_subscription(
            TFMessage, '/tf_static', self._on_static, _STATIC_QOS))

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        """Store and log an error of the input; log any other exception as a bug."""
        try:
            yield
        except ConfigurationError as error:
            self._error = str(error)
            self._log('warn', f'images not used: {error}', 'image')
        except Exception:
            self._log('error', f'a bug lost a pair of images:\n{traceback.format_exc()}', 'pair')

    def _on_image(self, stream: int, message: Image) -> None:
        self._images[stream] += 1
        with self._errors_reported():
            for colour, depth in self._pairer.add(stream, stamp_ns(message.header), message):
                self._check_source('colour images', colour.header.frame_id)
                self._check_source('depth images', depth.header.frame_id)
                self._check_content(colour, depth)
                self._pair(colour, depth)

    def _check_source(self, stream: str, frame: str) -> None:
        """
        Check that a stream has one frame, because each camera has its own.

        :raises ConfigurationError: if the frame differs from the first one.
        """
        first = self._sources.setdefault(stream, frame)
        if frame != first:
            raise ConfigurationError(
                f'the frame of the {stream} was {first!r} and is {frame!r}: two cameras publish '
                'on the topic; after a change of the camera, deactivate and activate the node')

    def _check_content(self, colour: Image, depth: Image) -> None:
        """
        Check that the camera is alive: its noise changes each image.

        :raises ConfigurationError: if both images have had the same bytes for too long.
        """
        content = [np.frombuffer(each.data, np.uint8) for each in (depth, colour)]
        stamp = stamp_ns(colour.header)
        if not self._content or not all(map(np.array_equal, content, self._content)):
            self._content, self._content_ns = content, stamp
        elif 0 < self._frozen_ns < stamp - self._content_ns:
            raise ConfigurationError(
                f'both images have had the same bytes for '
                f'{(stamp - self._content_ns) / NS_PER_S:.1f} s: the driver repeats them, or a '
                'simulated camera has no noise: then set frozen_after_s to 0')

    def _on_info(self, given: InputSettings, message: CameraInfo) -> None:
        try:
            self._check_source('camera_info', message.header.frame_id)
            camera = Intrinsics.from_camera_info(message, given.rectified)
            if self._camera is None:    # the next pair can be used
                self._error = ''
            self._camera, self._camera_error = camera, ''
        except ConfigurationError as error:
            self._camera = None
            self._camera_error = (f'camera_info on {given.info} (matrix '
                                  f'{"P" if given.rectified else "K"}): {error}')
            self._log('error', self._camera_error, 'camera_info')

    def _known_camera(self, given: InputSettings) -> Intrinsics:
        """
        Return the intrinsics.

        :raises ConfigurationError: with the reason why they are unknown.
        """
        if self._camera is None:
            raise ConfigurationError(self._camera_error or f'no camera_info on {given.info}')
        return self._camera

    def _base_from_camera(self, mount: MountSettings, base: str, camera: str) -> Floats:
        """
        Return the pose of the frame of the images in the base, 4x4.

        :raises ConfigurationError: if no static transforms join the frames.
        """
        if mount.source == 'parameters':
            return mount.base_from_camera()
        found = self._frames.lookup(base, camera)
        if found is None:
            raise ConfigurationError(
                f'/tf_static has no transform from {base} to {camera}, the frame of the images; '
                'publish it, or set mount.source to parameters')
        return found

    def _image_counts(self) -> dict[str, Any]:
        """Return the numbers of images for the diagnostics."""
        return {
            'colour images': self._images[0], 'depth images': self._images[1],
            'pairs': self._pairer.pairs, 'colour without depth': self._pairer.unpaired[0],
            'depth without colour': self._pairer.unpaired[1],
            'late images': sum(self._pairer.late)}

    def _on_static(self, message: TFMessage) -> None:
        for each in message.transforms:
            t, r = each.transform.translation, each.transform.rotation
            self._frames.add(each.header.frame_id, each.child_frame_id, (t.x, t.y, t.z),
                             (r.x, r.y, r.z, r.w))

    def end(self) -> None:
        """Destroy the subscriptions."""
        for subscription in self._inputs:
            self.destroy_subscription(subscription)
        self._inputs.clear()

    def release(self) -> None:
        """Destroy the publishers."""
        for publisher in self._outputs.values():
            self.destroy_publisher(publisher)
        self._outputs.clear()
