# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Base class of the nodes with image input (subscriptions, static transforms, diagnostics); messages.

Large arrays are copied to messages as bytes, not value by value.
"""

import array
import contextlib
import functools
import time
import traceback
from typing import Any, Iterator, Mapping, Optional, Sequence, TypeVar

from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import Pose, TransformStamped
import numpy as np
from optitrack_vrpn.control.participant_ros import MocapControl
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.guests.rgbd.calibration import (
    ImageProcessor, parse_extrinsics, parse_intrinsics, parse_warp)
from optitrack_vrpn.guests.rgbd.files_io import load_storage
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, opencv, pose_of
from optitrack_vrpn.guests.rgbd.images import (
    Bytes, from_depth, from_rgb, Pairer, StaticFrames, to_depth, to_rgb)
from optitrack_vrpn.guests.rgbd.mapper import packed_colours
from optitrack_vrpn.guests.rgbd.settings import CameraSettings, ImageProcSettings, PairSettings
from optitrack_vrpn.node.base.managed_node import entry, SettingsNode
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import CameraInfo, Image, PointCloud2, PointField
from std_msgs.msg import Header
from tf2_msgs.msg import TFMessage

S = TypeVar('S')

#: QoS of camera drivers (REP 2003); it matches reliable publishers too. The depth covers short
#: delays; a longer queue delivers older images.
SENSOR_QOS = QoSProfile(depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Later subscribers receive the last message.
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)


class CameraNode(SettingsNode[S]):
    """
    A node that pairs images and receives camera_info.

    It destroys subscriptions at deactivation and publishers at cleanup. Subclasses define
    ``_pair``, ``_values``, ``_state`` and ``_silence``.

    :param node_name: name before remapping.
    :param settings: settings class.
    :param kwargs: passed to rclpy's node.
    :cvar subject: name of the diagnostics.
    """

    subject = 'images'

    def __init__(self, node_name: str, settings: type[S], **kwargs: Any) -> None:
        self._inputs: list[Any] = []
        self._outputs: dict[str, Any] = {}
        self._frames = StaticFrames()
        self._frame_ms = 0.0
        self._reset(PairSettings(), {})
        super().__init__(node_name, settings, **kwargs)
        self._mocap_control = MocapControl(self)

    def _reset(self, given: PairSettings, infos: Mapping[str, str]) -> None:
        self._given = given
        self._pairer = Pairer(round(given.tolerance_s * NS_PER_S), given.queue)
        self._images = [0, 0]
        self._sources: dict[str, str] = {}
        self._content: list[Bytes] = []
        self._content_ns = 0
        self._infos = dict(infos)
        self._cameras: dict[str, Intrinsics] = {}
        self._camera_errors: dict[str, str] = {}
        self._error = ''
        self._last_s = time.monotonic()    # of the last result

    # -- for subclasses ------------------------------------------------------------------------

    def _pair(self, colour: Image, depth: Image) -> None:
        """Process a pair of images."""
        raise NotImplementedError

    def _values(self) -> dict[str, Any]:
        """Return values for the diagnostics."""
        raise NotImplementedError

    def _state(self) -> tuple[Severity, str]:
        """Return level and text of the diagnostics while images are processed."""
        raise NotImplementedError

    def _silence(self, silent_s: float) -> tuple[Severity, str]:
        """Return level and text after no result for more than ``timeout_s``."""
        raise NotImplementedError

    def _subscribe(self, given: Any, infos: Mapping[str, str], rectified: bool = False) -> None:
        """
        Pair the images of the topics ``given.colour`` and ``given.depth``.

        :param infos: topic of the camera_info of each camera, by name.
        :param rectified: the images have no distortion.
        """
        self._reset(given, infos)
        for kind, topic, callback in (
                *((CameraInfo, topic, functools.partial(self._on_info, name, rectified))
                  for name, topic in infos.items()),
                *((Image, topic, functools.partial(self._on_image, stream))
                  for stream, topic in enumerate((given.colour, given.depth)))):
            self._inputs.append(self.create_subscription(kind, topic, callback, SENSOR_QOS))
        self._inputs.append(self.create_subscription(    # QoS of tf2_ros
            TFMessage, '/tf_static', self._on_static, QoSProfile(
                depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)))

    def _camera(self, name: str) -> Intrinsics:
        """Return the intrinsics of a camera; ConfigurationError says why they are unknown."""
        if name not in self._cameras:
            raise ConfigurationError(
                self._camera_errors.get(name) or f'no camera_info on {self._infos[name]}')
        return self._cameras[name]

    def _base_from_camera(self, settings: CameraSettings, base: str, camera: str) -> Floats:
        """Return the pose of the frame of the images in the base, 4x4."""
        if settings.mount == 'parameters':
            return settings.base_from_camera()
        found = self._frames.lookup(base, camera)
        if found is None:
            raise ConfigurationError(
                f'/tf_static has no transform from {base} to {camera}, the frame of the images; '
                'publish it, or set mount to parameters')
        return found

    @contextlib.contextmanager
    def _errors_reported(self) -> Iterator[None]:
        """Store and log an error of the input; log any other exception as a bug."""
        try:
            yield
        except ConfigurationError as error:
            self._error = str(error)
            self._log(WARN, f'images not used: {error}', 'image')
        except Exception:
            self._log(ERROR, f'a bug lost a pair of images:\n{traceback.format_exc()}', 'pair')

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        """Measure the processor time of a frame: exponential mean, time constant 33 frames."""
        began = time.thread_time()
        yield
        self._last_s = time.monotonic()
        self._frame_ms += 0.03 * (1e3 * (time.thread_time() - began) - self._frame_ms)

    # -- inputs --------------------------------------------------------------------------------

    def _on_image(self, stream: int, message: Image) -> None:
        self._images[stream] += 1
        with self._errors_reported():
            for colour, depth in self._pairer.add(stream, stamp_ns(message.header), message):
                self._check_source('colour images', colour.header.frame_id)
                self._check_source('depth images', depth.header.frame_id)
                self._check_content(colour, depth)
                self._pair(colour, depth)

    def _check_source(self, stream: str, frame: str) -> None:
        """Check that a stream has one frame, because each camera has its own."""
        first = self._sources.setdefault(stream, frame)
        if frame != first:
            raise ConfigurationError(
                f'the frame of the {stream} was {first!r} and is {frame!r}: two cameras publish '
                'on the topic; after a change of the camera, deactivate and activate the node')

    def _check_content(self, colour: Image, depth: Image) -> None:
        """Check that the camera is alive: its noise changes each image."""
        content = [np.frombuffer(each.data, np.uint8) for each in (depth, colour)]
        stamp = stamp_ns(colour.header)
        if not self._content or not all(map(np.array_equal, content, self._content)):
            self._content, self._content_ns = content, stamp
        frozen_s = (stamp - self._content_ns) / NS_PER_S
        if 0 < self._given.frozen_after_s < frozen_s:
            raise ConfigurationError(
                f'both images have had the same bytes for {frozen_s:.1f} s: the driver repeats '
                'them, or a simulated camera has no noise: then set frozen_after_s to 0')

    def _on_info(self, name: str, rectified: bool, message: CameraInfo) -> None:
        try:
            self._check_source(f'camera_info of the {name} camera', message.header.frame_id)
            camera = Intrinsics.from_camera_info(message, rectified)
        except ConfigurationError as error:
            self._cameras.pop(name, None)
            self._camera_errors[name] = (f'camera_info on {self._infos[name]} (matrix '
                                         f'{"P" if rectified else "K"}): {error}')
            self._log(ERROR, self._camera_errors[name], f'camera_info {name}')
            return
        if name not in self._cameras:    # the next pair can be used
            self._error = ''
        self._cameras[name] = camera
        self._camera_errors.pop(name, None)

    def _on_static(self, message: TFMessage) -> None:
        for each in message.transforms:
            t, r = each.transform.translation, each.transform.rotation
            self._frames.add(each.header.frame_id, each.child_frame_id, (t.x, t.y, t.z),
                             (r.x, r.y, r.z, r.w))

    # -- diagnostics and end -------------------------------------------------------------------

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Report whether images are used, or the reason why they are not."""
        return [entry(f'{self.get_name()}: {self.subject}', *self._verdict(), {
            'colour images': self._images[0], 'depth images': self._images[1],
            'pairs': self._pairer.pairs, 'colour without depth': self._pairer.unpaired[0],
            'depth without colour': self._pairer.unpaired[1],
            'late images': sum(self._pairer.late), **self._values()})]

    def _verdict(self) -> tuple[Severity, str]:
        if not self._inputs:
            return INFO, 'inactive'
        for error in (*self._camera_errors.values(), self._error):
            if error:
                return ERROR, error.splitlines()[0]
        silent_s = time.monotonic() - self._last_s
        return self._silence(silent_s) if silent_s > self._given.timeout_s else self._state()

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


# -- messages -------------------------------------------------------------------------------------

def stamp_ns(header: Header) -> int:
    """Return the stamp of a header in nanoseconds."""
    return int(header.stamp.sec) * NS_PER_S + int(header.stamp.nanosec)


def make_header(time_ns: int, frame: str) -> Header:
    """Make a header."""
    seconds, nanoseconds = divmod(time_ns, NS_PER_S)
    return Header(stamp=Time(sec=seconds, nanosec=nanoseconds), frame_id=frame)


def byte_array(data: bytes) -> Any:
    """Make an array that rclpy accepts for uint8[] without a check of each value."""
    made = array.array('B')
    made.frombytes(data)
    return made


def image_message(header: Header, fields: Mapping[str, Any]) -> Image:
    """Make an Image from the fields that ``images.from_rgb`` or ``from_depth`` return."""
    return Image(header=header, **{**fields, 'data': byte_array(fields['data'])})


def info_message(header: Header, camera: Intrinsics) -> CameraInfo:
    """Make a CameraInfo."""
    return CameraInfo(header=header, **camera.info_values())


def pose_message(transform: Floats) -> Pose:
    """Convert a 4x4 transform to a Pose."""
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = transform[:3, 3].tolist()
    quat = Rotation.from_matrix(transform[:3, :3]).as_quat().tolist()
    pose.orientation.x, pose.orientation.y, pose.orientation.z, pose.orientation.w = quat
    return pose


def pose_matrix(pose: Pose) -> Floats:
    """Convert a Pose to a 4x4 transform."""
    p, q = pose.position, pose.orientation
    return pose_of((p.x, p.y, p.z), (q.x, q.y, q.z, q.w))


def transform_message(header: Header, child: str, pose: Pose) -> TransformStamped:
    """Make a transform from the pose of the child in the frame of the header."""
    transform = TransformStamped(header=header, child_frame_id=child)
    p, t = pose.position, transform.transform.translation
    t.x, t.y, t.z = p.x, p.y, p.z
    transform.transform.rotation = pose.orientation
    return transform


def cloud_message(
    header: Header, points: Floats, rgb: Optional[Bytes] = None,
) -> PointCloud2:
    """Make a cloud of points (N, 3; m) with rgb (N, 3) in the format of rviz."""
    columns = [np.ascontiguousarray(points, '<f4').reshape(-1, 3)]
    if rgb is not None:
        columns.append(packed_colours(rgb)[:, None])
    data = np.concatenate(columns, axis=1)
    fields = [PointField(name=name, offset=4 * place, datatype=PointField.FLOAT32, count=1)
              for place, name in zip(range(data.shape[1]), ('x', 'y', 'z', 'rgb'))]
    return PointCloud2(
        header=header, height=1, width=len(data), fields=fields, is_bigendian=False,
        point_step=data.shape[1] * 4, row_step=data.nbytes, data=byte_array(data.tobytes()),
        is_dense=bool(np.isfinite(columns[0]).all()))


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

    def _state(self) -> tuple[Severity, str]:
        return INFO, 'processing' if self._published else 'waiting for the first images'

    def _silence(self, silent_s: float) -> tuple[Severity, str]:
        return ERROR, (f'no pair of images for {silent_s:.1f} s: {self._images[0]} on '
                       f'{self._settings.colour}, {self._images[1]} on {self._settings.depth}')
