# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Lifecycle node rgbd_mapper: images and odometry in; keyframes, graph and map out.

The executor's thread pairs messages; a second thread maps. A service answers when the second
thread has completed the work; the executor handles other messages during that time.
"""

from concurrent import futures
import functools
import os
from pathlib import Path as FilePath
import re
import time
import traceback
from typing import Any, Callable, NamedTuple, Optional

from geometry_msgs.msg import Point, PoseArray, PoseStamped
from nav_msgs.msg import Odometry as OdometryMessage, Path
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, STALE, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.guests.rgbd.camera_node_ros import (
    CameraNode, cloud_message, LATCHED, make_header, pose_matrix, pose_message, SENSOR_QOS,
    stamp_ns, transform_message)
from optitrack_vrpn.guests.rgbd.files_io import load_keyframes, save_keyframes, save_pcd
from optitrack_vrpn.guests.rgbd.geometry import Floats, Intrinsics, opencv
from optitrack_vrpn.guests.rgbd.images import Pairer, scaled_pair, to_depth, to_rgb
from optitrack_vrpn.guests.rgbd.mapper import Keyframe, Mapper, Solved
from optitrack_vrpn.guests.rgbd.settings import MapperNodeSettings
from optitrack_vrpn.node.base.settings_ros import read_settings
from optitrack_vrpn.node.base.tf import tf_publisher
from rclpy.task import Future
from sensor_msgs.msg import Image, PointCloud2
from std_msgs.msg import ColorRGBA, Header
from std_srvs.srv import Trigger
from tf2_msgs.msg import TFMessage
from visualization_msgs.msg import Marker, MarkerArray

#: Chosen: most frames in the queue of the mapping thread, 1 s at 30 Hz and 11 MB at QVGA.
_WAITING = 30


class _Frame(NamedTuple):
    """A pair of images with its pose by odometry, not yet decoded."""

    stamp_ns: int
    odometry: Floats
    variances: tuple[float, float]
    colour: Image
    depth: Image
    camera: Intrinsics


class RgbdMapper(CameraNode[MapperNodeSettings]):
    """Map a place."""

    subject = 'map'

    def __init__(self, node_name: str = 'rgbd_mapper', **kwargs: Any) -> None:
        self._settings = MapperNodeSettings()
        self._mapper = Mapper()
        self._poses = Pairer()
        self._odometry_frame = ''
        self._cloud_due_s = 0.0
        self._answers: list[Any] = []
        self._worker: Worker[_Frame] = self._make_worker()
        self._last_ns: Optional[int] = None
        self._taken = self._manual = 0
        self._solved: Optional[Solved] = None
        super().__init__(node_name, MapperNodeSettings, **kwargs)
        self._answered = self.create_guard_condition(lambda: None)

    # -- lifecycle -----------------------------------------------------------------------------

    def prepare(self, settings: MapperNodeSettings) -> None:
        """Create publishers and services, and start the thread."""
        opencv().setNumThreads(1)
        self._settings = settings
        self._mapper = Mapper(settings)
        self._solved, self._error, self._taken = None, '', 0
        self._last_ns = None
        for name, kind, topic, qos in (
                ('keyframes', PointCloud2, 'keyframes', 10),
                ('poses', PoseArray, 'keyframe_poses', LATCHED),
                ('edges', MarkerArray, 'keyframe_associations', LATCHED),
                ('path', Path, 'mapper_path', LATCHED),
                ('map', PointCloud2, 'map/cloud', LATCHED)):
            self._outputs[name] = self.create_publisher(kind, topic, qos)
        if settings.tf:
            self._outputs['tf'] = tf_publisher(self)
        self._mocap_control.set_info_topics([self._outputs['path'].topic_name])
        self._worker = self._make_worker()
        self._worker.start()
        for name, work in (
                ('publish_keyframes', self._publish_keyframes),
                ('save_keyframes', self._save), ('load_keyframes', self._load),
                ('save_pcd_map', self._save_pcd), ('add_manual_keyframe', self._add_manual),
                ('generate_graph', self._generate), ('solve_graph', self._solve)):
            self._answers.append(self.create_service(Trigger, f'~/{name}', self._service(work)))

    def begin(self) -> None:
        """Subscribe; the map of an earlier activation stays and grows."""
        given = self._settings
        self._poses = Pairer(round(given.tolerance_s * NS_PER_S), _WAITING)
        self._worker.call(self._mapper.start_run)
        self._subscribe(given, {'colour': given.info}, given.rectified)
        self._inputs.append(self.create_subscription(
            OdometryMessage, self._settings.odometry, self._on_odometry, SENSOR_QOS))

    def end(self) -> None:
        """Destroy the subscriptions, and empty the queue; the map stays."""
        super().end()
        self._worker.clear()

    def release(self) -> None:
        """End the thread, refuse the calls in the queue, destroy publishers and services."""
        self._worker.stop()
        for service in self._answers:
            self.destroy_service(service)
        self._answers.clear()
        super().release()

    # -- inputs, on the executor's thread ------------------------------------------------------

    def _pair(self, colour: Image, depth: Image) -> None:
        self._match(0, stamp_ns(colour.header), (colour, depth))

    def _on_odometry(self, message: OdometryMessage) -> None:
        with self._errors_reported():
            self._match(1, stamp_ns(message.header), message)

    def _match(self, stream: int, stamp: int, message: Any) -> None:
        for pair, odometry in self._poses.add(stream, stamp, message):
            self._worker.put(self._as_frame(pair[0], pair[1], odometry))

    def _as_frame(self, colour: Image, depth: Image, message: OdometryMessage) -> _Frame:
        camera = self._camera('colour')
        mount = self._base_from_camera(
            self._settings, message.child_frame_id, colour.header.frame_id)
        pose = message.pose.pose
        p, q = pose.position, pose.orientation
        quat = np.array([q.x, q.y, q.z, q.w])
        covariance = np.reshape(message.pose.covariance, (6, 6))
        if not (np.isfinite([p.x, p.y, p.z, *quat]).all() and quat @ quat > 0.25
                and np.isfinite(covariance).all()):
            raise ConfigurationError(
                f'the odometry on {self._settings.odometry} has an invalid pose: '
                f'{p.x, p.y, p.z}, {tuple(quat.tolist())}')
        self._odometry_frame = message.header.frame_id
        variance = np.maximum(np.diag(covariance), 0)
        return _Frame(stamp_ns(colour.header), pose_matrix(pose) @ mount,
                      (float(variance[:3].mean()), float(variance[3:].mean())), colour, depth,
                      camera)

    # -- the thread that maps ------------------------------------------------------------------

    def _make_worker(self) -> Worker[_Frame]:
        """Make the thread that maps; it serves the calls of services before frames."""
        return Worker('mapper', self._failed, process=self._map, limit=_WAITING, oldest=True)

    def _failed(self, error: Exception) -> bool:
        """Report an error of the thread that maps, which goes on."""
        self._error = str(error) if isinstance(error, OptitrackVrpnError) else (
            f'a bug in the mapper:\n{"".join(traceback.format_exception(error))}')
        self._log(ERROR, self._error, type(error).__name__)
        return True

    def _done(self, work: Callable[[], Any]) -> tuple[bool, str]:
        """Run ``work``; return True and its text, or False and the error."""
        try:
            return True, str(work() or '')
        except Exception as error:
            self._failed(error)
            return False, self._error

    def _map(self, frame: _Frame) -> None:
        mapper, last = self._mapper, self._last_ns
        if last is not None and frame.stamp_ns < last - NS_PER_S:
            self._log(WARN, f'the stamps went back by {(last - frame.stamp_ns) / NS_PER_S:.1f} '
                      's: the map is cleared', 'time')
            mapper.clear()
            self._solved = None
        elif last is not None and frame.stamp_ns - last > NS_PER_S:
            self._log(WARN, f'{(frame.stamp_ns - last) / NS_PER_S:.1f} s without odometry: the '
                      'motion during that time is unknown; only a loop joins the map to what '
                      'follows', 'pause')
            mapper.start_run()
        self._last_ns = frame.stamp_ns
        self._taken += 1
        mapper.add_pose(frame.stamp_ns, frame.odometry)
        self._error, due = '', mapper.is_due(frame.odometry)
        if self._manual and not due:
            due = len(mapper.keyframes) < self._settings.most_keyframes
        if due:
            self._manual = 0
            self._keep(frame)
        elif mapper.refused:
            self._log(WARN, f'{len(mapper.keyframes)} keyframes: no more are added '
                      '(most_keyframes)', 'most')
        if 'tf' in self._outputs and mapper.keyframes:
            self._outputs['tf'].publish(TFMessage(transforms=[transform_message(
                self._header(frame.stamp_ns), self._odometry_frame,
                pose_message(mapper.map_from_odometry))]))
        self._last_s = time.monotonic()

    def _keep(self, frame: _Frame) -> None:
        given, mapper = self._settings, self._mapper
        keyframe = mapper.add_keyframe(
            frame.stamp_ns, frame.odometry, frame.variances, *scaled_pair(
                to_rgb(frame.colour), to_depth(frame.depth, given.depth_unit_m), frame.camera,
                given.scale))
        found = mapper.find_loops(keyframe.number)
        if self._outputs['keyframes'].get_subscription_count():
            self._publish_cloud(keyframe)
        if found and self._settings.solve:
            self._solve()
        self._publish_graph(frame.stamp_ns)

    # -- services, on the thread that maps -----------------------------------------------------

    def _service(self, work: Callable[[], str]) -> Any:
        async def answer(_: Any, response: Any) -> Any:
            future: Any = Future()

            def done(found: 'futures.Future[tuple[bool, str]]') -> None:
                future.set_result((False, 'the node was cleaned up') if found.cancelled()
                                  else found.result())
                self._answered.trigger()
            self._worker.call(functools.partial(self._done, work)).add_done_callback(done)
            response.success, response.message = await future
            return response
        return answer

    def _file(self, name: str) -> str:
        value = getattr(read_settings(self, MapperNodeSettings), name)
        if not value:
            raise ConfigurationError(
                f'set the parameter {name} first, as in: ros2 param set '
                f'{self.get_fully_qualified_name()} {name} ...')
        return str(value)

    def _at(self, name: str) -> FilePath:
        return FilePath(os.path.expanduser(self._file(name)))

    def _publish_keyframes(self) -> str:
        text = self._file('pattern')
        try:
            pattern = re.compile(text)
        except re.error as error:
            raise ConfigurationError(
                f'pattern {text!r} is not a regular expression: {error}') from None
        chosen = [each for each in self._mapper.keyframes if pattern.fullmatch(str(each.number))]
        for keyframe in chosen:
            self._publish_cloud(keyframe)
        return f'{len(chosen)} of {len(self._mapper.keyframes)} keyframes published'

    def _save(self) -> str:
        folder, mapper = self._at('folder'), self._mapper
        if not mapper.keyframes:
            raise ConfigurationError('there is no keyframe yet')
        save_keyframes(folder, mapper.keyframes, mapper.odometry_path(), mapper.path())
        return f'{counted(len(mapper.keyframes), "keyframe")} saved in {folder}'

    def _load(self) -> str:
        folder = self._at('folder')
        keyframes, path = load_keyframes(folder)
        self._mapper.restore(keyframes, path)
        self._last_ns = keyframes[-1].stamp_ns
        loops = self._mapper.generate_graph()
        self._publish_graph(keyframes[-1].stamp_ns)
        return (f'{counted(len(keyframes), "keyframe")} loaded from {folder}, '
                f'{counted(loops, "loop")} found')

    def _save_pcd(self) -> str:
        file = self._at('pcd')
        points, colours = self._mapper.map_cloud()
        if not len(points):
            raise ConfigurationError('the map has no points yet')
        save_pcd(file, points, colours)
        return f'{counted(len(points), "point")} saved in {file}'

    def _add_manual(self) -> str:
        if not self._inputs:
            raise ConfigurationError('the node is not active')
        self._manual = 1
        return 'the next frame becomes a keyframe'

    def _generate(self) -> str:
        loops = self._mapper.generate_graph()
        self._publish_graph(self._last_ns)
        return (f'{counted(len(self._mapper.keyframes), "keyframe")}, '
                f'{counted(loops, "loop")}')

    def _solve(self) -> str:
        self._solved = solved = self._mapper.solve()
        self._publish_graph(self._last_ns)
        return (f'{counted(solved.keyframes, "keyframe")}, {counted(solved.edges, "edge")}, '
                f'{solved.loops} of them loops, {solved.outliers} left out; a keyframe moved by '
                f'up to {solved.moved_m:.3f} m')

    # -- outputs -------------------------------------------------------------------------------

    def _header(self, time_ns: int) -> Header:
        return make_header(time_ns, self._settings.map_frame)

    def _publish_cloud(self, keyframe: Keyframe) -> None:
        self._outputs['keyframes'].publish(
            cloud_message(self._header(keyframe.stamp_ns), *self._mapper.cloud(keyframe)))

    def _publish_graph(self, time_ns: Optional[int]) -> None:
        """Publish keyframes and edges; path and map only while they have subscribers."""
        mapper, outputs = self._mapper, self._outputs
        if time_ns is None:
            return
        header = self._header(time_ns)
        outputs['poses'].publish(PoseArray(
            header=header, poses=[pose_message(each.pose) for each in mapper.keyframes]))
        outputs['edges'].publish(MarkerArray(markers=_markers(mapper, header)))
        if outputs['path'].get_subscription_count():
            poses = []
            for stamp, values in mapper.path().rows():
                poses.append(PoseStamped(header=self._header(stamp)))
                at, turn = poses[-1].pose.position, poses[-1].pose.orientation
                at.x, at.y, at.z, turn.x, turn.y, turn.z, turn.w = values
            outputs['path'].publish(Path(header=header, poses=poses))
        began = time.monotonic()
        if outputs['map'].get_subscription_count() and began >= self._cloud_due_s:
            outputs['map'].publish(cloud_message(header, *mapper.map_cloud()))
            # chosen: at most every 2 s and a tenth of the thread's time, because the cost grows
            # with the map
            self._cloud_due_s = began + max(2.0, 10 * (time.monotonic() - began))

    # -- diagnostics ---------------------------------------------------------------------------

    def _values(self) -> dict[str, Any]:
        mapper = self._mapper
        values: dict[str, Any] = {
            'frames': self._taken, 'dropped frames': self._worker.dropped,
            'pairs of images': self._pairer.pairs, 'keyframes': len(mapper.keyframes),
            'refused keyframes': mapper.refused, 'loops': len(mapper.loops),
            'loops left out': sum(each.left_out for each in mapper.loops)}
        if self._solved is not None:
            values['last solution moved a keyframe by (m)'] = f'{self._solved.moved_m:.4f}'
        return values

    def _state(self) -> tuple[Severity, str]:
        return INFO, 'mapping' if self._taken else 'waiting for images and odometry'

    def _silence(self, silent_s: float) -> tuple[Severity, str]:
        given = self._settings
        if not self._pairer.pairs:
            return ERROR, f'no pairs of images on {given.colour} and {given.depth}'
        if not self._poses.pairs:
            return ERROR, (f'no odometry on {self._settings.odometry} with stamps within '
                           f'{given.tolerance_s:g} s of the images')
        return STALE, f'no odometry or images for {silent_s:.1f} s'


def _markers(mapper: Mapper, header: Header) -> list[Marker]:
    """Draw the edges of the graph as lines between keyframes, one colour for each kind."""
    places = [Point(x=x, y=y, z=z) for x, y, z in (
        each.pose[:3, 3].tolist() for each in mapper.keyframes)]
    made = []
    for number, (name, (red, green, blue), pairs) in enumerate((
            ('odometry', (0.3, 0.3, 1.0), [(each.number - 1, each.number)
                                           for each in mapper.keyframes[1:] if each.joined]),
            ('loops', (0.1, 0.8, 0.1), [each[:2] for each in mapper.loops if not each.left_out]),
            ('outliers', (1.0, 0.1, 0.1), [each[:2] for each in mapper.loops if each.left_out]))):
        marker = Marker(header=header, ns=name, id=number, type=Marker.LINE_LIST,
                        color=ColorRGBA(r=red, g=green, b=blue, a=1.0),
                        points=[places[index] for pair in pairs for index in pair])
        marker.action = Marker.ADD if pairs else Marker.DELETE
        marker.scale.x = 0.005    # width in rviz (m)
        marker.pose.orientation.w = 1.0
        made.append(marker)
    return made
