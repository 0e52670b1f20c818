# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Nodes that publish images: rgbd_sim, a simulated camera; rgbd_play, a recorded sequence.

rgbd_sim simulates a colour and depth camera on a body of a simulated Motive in one process, so the
poses of Motive and the images show the same motion: the camera reads the clocks at each exposure,
computes the pose of the body at that time of the scenario, and stamps both images with the system
time of the same reading.

rgbd_play publishes a sequence of the TUM RGB-D benchmark in real time, with its ground truth.
Image topics are best effort: a publisher does not know what arrived. The nodes with image input
count their images in their diagnostics, from which the player reports what each received.
"""

import threading
import time
from typing import Any, NamedTuple, Optional

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import ros_name
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.guests.rgbd.camera_node_ros import (
    image_message, info_message, make_header, pose_message, transform_message)
from optitrack_vrpn.guests.rgbd.files_io import Sequence
from optitrack_vrpn.guests.rgbd.geometry import Intrinsics, opencv
from optitrack_vrpn.guests.rgbd.images import Bytes, Depth, from_depth, from_rgb
from optitrack_vrpn.guests.rgbd.room import BodyMotion, camera_on_body, Room, Sensor, TRAJECTORIES
from optitrack_vrpn.guests.rgbd.settings import SimSettings
from optitrack_vrpn.node.base.settings_ros import declare_settings, read_settings
from optitrack_vrpn.node.base.tf import StaticTransformBroadcaster
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
import rclpy
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import CameraInfo, Image


class CameraSource(Node):
    """
    Publish the images of a camera on a thread, whose end shuts ROS down.

    :ivar failure: error that ended the thread, or None.
    """

    def __init__(self, node_name: str, **kwargs: Any) -> None:
        super().__init__(node_name, **kwargs)
        self.failure: Optional[Exception] = None
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        # topics of realsense2_camera below the camera's namespace
        self._colour, self._depth, self._camera_info = (
            self.create_publisher(kind, topic, qos_profile_sensor_data) for kind, topic in (
                (Image, 'color/image_raw'), (Image, 'aligned_depth_to_color/image_raw'),
                (CameraInfo, 'color/camera_info')))

    def work(self) -> None:
        """Publish images until there are no more, or the node is destroyed."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name='camera', daemon=True)
        self._thread.start()

    def destroy_node(self) -> None:
        """Stop the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        super().destroy_node()

    def publish(
        self, camera: Intrinsics, frame: str, stamp_ns: int, rgb: Bytes, depth: Depth,
        encoding: str = '16UC1',
    ) -> None:
        """
        Publish one exposure; camera_info first, because receivers need it for the images.

        :param camera: intrinsics of both images.
        :param frame: their optical frame.
        :param stamp_ns: time of the exposure (ns since the epoch).
        :param rgb: (height, width, 3).
        :param depth: (height, width), metres, 0 for no measurement.
        :param encoding: encoding of the depth, 16UC1 (mm) or 32FC1 (m).
        """
        header = make_header(stamp_ns, frame)
        self._camera_info.publish(info_message(header, camera))
        self._colour.publish(image_message(header, from_rgb(rgb)))
        self._depth.publish(image_message(header, from_depth(depth, encoding)))

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:
            # On Ctrl-C ROS shuts down before the node, and publishing fails.
            if self.context.ok():
                self.failure = error
        finally:
            if not self._ended.is_set():
                rclpy.try_shutdown(context=self.context)


class RgbdSim(CameraSource):
    """
    Simulate Motive and a camera on its first body.

    :param scenario: scenario of the simulated Motive; its first body gets another motion.
    :raises ConfigurationError: if a parameter is wrong or the scenario has no body.
    :raises TransportError: if Motive's address is not available.
    :ivar server: the simulated Motive.
    :ivar exposures: number of exposures so far.
    :ivar left_out: number of skipped exposures, because the one before took too long.
    """

    def __init__(self, scenario: Scenario, node_name: str = 'rgbd_sim', **kwargs: Any) -> None:
        super().__init__(node_name, **kwargs)
        self.exposures, self.left_out = 0, 0
        declare_settings(self, SimSettings)
        settings = self._settings = read_settings(self, SimSettings)
        if not scenario.bodies:
            raise ConfigurationError('rgbd_sim: the scenario has no body for the camera')
        self._body = scenario.bodies[0].name
        opencv().setNumThreads(1)    # leaves processor time for the nodes under test
        self._room, self._sensor = Room(), Sensor(settings, settings.seed)
        self._camera = settings.intrinsics()
        self._mount = settings.body_from_camera()
        self._trajectory = TRAJECTORIES[settings.trajectory]
        self._broadcaster = StaticTransformBroadcaster(self)
        now_ns = time.time_ns()
        self._broadcaster.sendTransform([
            transform_message(make_header(now_ns, parent), child, pose_message(pose))
            for parent, child, pose in (
                (settings.body_frame or ros_name(self._body), settings.link_frame,
                 settings.body_from_link()),
                (settings.link_frame, settings.optical_frame, camera_on_body()))])
        self.server = MotiveSimServer(scenario, live={self._body: BodyMotion(self._trajectory)})
        self.server.start()
        self.get_logger().warning(
            f'these images are simulated: body {self._body!r} moves along '
            f'{settings.trajectory!r}, {self._trajectory.summary}; images of '
            f'{self._camera.width} x {self._camera.height} at {settings.rate_hz:g} Hz in '
            f'the frame {settings.optical_frame}')
        self.start()

    def destroy_node(self) -> None:
        """Stop the camera and the simulated Motive."""
        started = self._thread is not None
        super().destroy_node()
        if started:
            self.server.stop()

    def expose(self) -> None:
        """Render both images of the present time, and publish them."""
        # One reading: a stamp and a pose of different times would look like an error of odometry.
        raw_ns = HostClock.now_ns()
        stamp_ns = raw_ns + HostClock.host_minus_arrival_ns()
        pose = self._trajectory.camera_poses(self.server.time_at(raw_ns), self._mount)[0]
        rgb, depth = self._room.render(self._camera, pose)
        self.publish(
            self._camera, self._settings.optical_frame, stamp_ns, self._sensor.image(rgb),
            self._sensor.depth(depth))
        self.exposures += 1

    def work(self) -> None:
        """Expose images at the rate until the scenario has ended."""
        interval = 1.0 / self._settings.rate_hz
        due = time.monotonic()
        reported, left_out = due, 0
        while not (self._ended.wait(max(0.0, due - time.monotonic()))
                   or self.server.finished.is_set()):
            self.expose()
            due += interval
            now = time.monotonic()
            if now > due:    # no backlog: skip the missed intervals
                missed = int((now - due) / interval) + 1
                self.left_out += missed
                due += missed * interval
            if now - reported > 10.0:
                if self.left_out > left_out:
                    self.get_logger().warning(
                        f'images left out in the last {now - reported:.0f} s: '
                        f'{self.left_out - left_out}; this computer is too slow for '
                        'rate_hz')
                reported, left_out = now, self.left_out


class Received(NamedTuple):
    """Numbers of images that a node has received, and of pairs among them."""

    colour: int
    depth: int
    pairs: int


class RgbdPlay(CameraSource):
    """
    Publish a sequence once, then shut down.

    :param sequence: the sequence.
    :param camera: intrinsics of both images.
    :param rate: playback speed, 1 for that of the recording.
    :param shift: add a constant to all stamps so that the first is now.
    :param listeners: number of subscribers to wait for before the first image.
    :ivar published: number of published pairs of images.
    """

    def __init__(
        self, sequence: Sequence, camera: Intrinsics, rate: float = 1.0, shift: bool = True,
        listeners: int = 0, node_name: str = 'rgbd_play', **kwargs: Any,
    ) -> None:
        super().__init__(node_name, **kwargs)
        self._sequence, self._rate, self._shift = sequence, rate, shift
        self._listeners, self._camera = listeners, camera
        self._truth = self.create_publisher(PoseStamped, 'ground_truth/pose', 100)
        self._counts: dict[str, tuple[float, Received]] = {}
        self._before: dict[str, Received] = {}
        self.create_subscription(DiagnosticArray, '/diagnostics', self._on_diagnostics, 20)
        self.published = 0
        self.start()

    def received(self) -> dict[str, Received]:
        """Return what each node with image input has received of this sequence."""
        zero = Received(0, 0, 0)
        found = {}
        for name, (_, counts) in self._counts.items():
            before = self._before.get(name, zero)
            # smaller: the node was activated again
            found[name] = counts if counts < before else Received(
                *(now - then for now, then in zip(counts, before)))
        return found

    def _on_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            report = StatusReport.of(status)
            counts = [count for key in ('colour images', 'depth images', 'pairs')
                      if (count := report.count(key)) is not None]
            if len(counts) == 3:
                self._counts[report.node] = time.monotonic(), Received(*counts)

    def _wait_for_counts(self, listeners: int, since: float) -> None:
        """Wait until so many listeners have counted their images since a time."""
        deadline = time.monotonic() + 5.0    # their period is 1 s, on a loaded computer more
        while time.monotonic() < deadline and listeners > sum(
                at > since for at, _ in list(self._counts.values())):
            if self._ended.wait(0.05):
                return

    @property
    def _subscribers(self) -> int:
        return int(self._colour.get_subscription_count())

    def work(self) -> None:
        """Wait for listeners, and publish the sequence in its time."""
        while self._subscribers < self._listeners:
            if self._ended.wait(0.05):
                return
        self._wait_for_counts(self._subscribers, 0.0)
        self._before = {name: counts for name, (_, counts) in self._counts.items()}
        pairs, truth = self._sequence.pairs, self._sequence.truth
        first_ns, begin = pairs[0].stamp_ns, time.monotonic()
        shift_ns = time.time_ns() - first_ns if self._shift else 0
        given = 0
        if truth is not None:    # begin with the last pose before the first image
            given = max(0, int(np.searchsorted(truth.stamps_ns, first_ns)) - 1)
        for images in pairs:
            rgb, depth = self._sequence.load(images)
            due = begin + (images.stamp_ns - first_ns) / 1e9 / self._rate
            if self._ended.wait(max(0.0, due - time.monotonic())):
                return
            self.publish(self._camera, 'openni_rgb_optical_frame', images.stamp_ns + shift_ns,
                         rgb, depth, '32FC1')
            self.published += 1
            while truth is not None and given < len(truth) and (
                    truth.stamps_ns[given] <= images.stamp_ns):
                self._publish_truth(given, shift_ns)
                given += 1
        if truth is not None and given < len(truth):    # one pose after the last image
            self._publish_truth(given, shift_ns)
        self._ended.wait(0.5)    # time for the middleware to send the last messages
        self._wait_for_counts(len(self._counts), time.monotonic())

    def _publish_truth(self, index: int, shift_ns: int) -> None:
        truth = self._sequence.truth
        assert truth is not None
        self._truth.publish(PoseStamped(
            header=make_header(int(truth.stamps_ns[index]) + shift_ns, 'world'),
            pose=pose_message(truth.at(slice(index, index + 1)).matrices[0])))
