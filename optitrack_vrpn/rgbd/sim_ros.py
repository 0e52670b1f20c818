# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Node rgbd_sim: a colour and depth camera on a body of a simulated Motive.

One process simulates both, so the poses of Motive and the images show the same motion: the camera
reads the clocks at each exposure, computes the pose of the body at that time of the scenario, and
stamps both images with the system time of the same reading.
"""

import threading
import time
import traceback
from typing import Any, Optional

from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.names import ros_name
from optitrack_vrpn.rgbd.camera import opencv
from optitrack_vrpn.rgbd.messages_ros import (
    CameraOutput, make_header, pose_message, transform_message)
from optitrack_vrpn.rgbd.room import Room, Sensor
from optitrack_vrpn.rgbd.settings import SimSettings
from optitrack_vrpn.rgbd.trajectories import BodyMotion, camera_on_body, TRAJECTORIES
from optitrack_vrpn.ros.tf import StaticTransformBroadcaster
from optitrack_vrpn.settings_ros import declare_settings, read_settings
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
import rclpy
from rclpy.node import Node

#: Chosen: period of the warning about skipped images (s).
_REPORT_S = 10.0


class RgbdSim(Node):
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
        self._thread: Optional[threading.Thread] = None
        self._ended = threading.Event()
        self.exposures, self.left_out = 0, 0
        declare_settings(self, SimSettings)
        settings = self._settings = read_settings(self, SimSettings)
        if not scenario.bodies:
            raise ConfigurationError('rgbd_sim: the scenario has no body for the camera')
        self._body = scenario.bodies[0].name
        opencv().setNumThreads(1)    # leaves processor time for the nodes under test
        self._room, self._sensor = Room(), Sensor(settings.sensor, settings.seed)
        self._camera = settings.camera.intrinsics()
        self._mount = settings.mount.body_from_camera()
        self._trajectory = TRAJECTORIES[settings.trajectory]
        self._output = CameraOutput(self, self._camera, settings.optical_frame)
        self._broadcaster = StaticTransformBroadcaster(self)
        now_ns = time.time_ns()
        self._broadcaster.sendTransform([
            transform_message(make_header(now_ns, parent), child, pose_message(pose))
            for parent, child, pose in (
                (settings.body_frame or ros_name(self._body), settings.link_frame,
                 settings.mount.body_from_link()),
                (settings.link_frame, settings.optical_frame, camera_on_body()))])
        self.server = MotiveSimServer(scenario, live={self._body: BodyMotion(self._trajectory)})
        self.server.start()
        self.get_logger().warning(
            f'these images are simulated: body {self._body!r} moves along '
            f'{settings.trajectory!r}, {self._trajectory.summary}; images of '
            f'{self._camera.width} x {self._camera.height} at {settings.camera.rate_hz:g} Hz in '
            f'the frame {settings.optical_frame}')
        self._thread = threading.Thread(target=self._run, name='camera', daemon=True)
        self._thread.start()

    def destroy_node(self) -> None:
        """Stop the camera and the simulated Motive."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self.server.stop()
        super().destroy_node()

    def expose(self) -> None:
        """Render both images of the present time, and publish them."""
        # One reading: a stamp and a pose of different times would look like an error of odometry.
        raw_ns = HostClock.now_ns()
        stamp_ns = raw_ns + HostClock.host_minus_arrival_ns()
        pose = self._trajectory.camera_poses(self.server.time_at(raw_ns), self._mount)[0]
        rgb, depth = self._room.render(self._camera, pose)
        self._output.publish(stamp_ns, self._sensor.image(rgb), self._sensor.depth(depth))
        self.exposures += 1

    def _run(self) -> None:
        try:
            self._expose_periodically()
            if not self._ended.is_set():    # the scenario has ended
                rclpy.try_shutdown(context=self.context)
        except Exception:
            # On Ctrl-C ROS shuts down before the node, and publishing fails.
            if self.context.ok():
                self.get_logger().fatal(f'a bug ended the camera:\n{traceback.format_exc()}')
                rclpy.try_shutdown(context=self.context)

    def _expose_periodically(self) -> None:
        interval = 1.0 / self._settings.camera.rate_hz
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
            if now - reported > _REPORT_S:
                if self.left_out > left_out:
                    self.get_logger().warning(
                        f'images left out in the last {now - reported:.0f} s: '
                        f'{self.left_out - left_out}; this computer is too slow for '
                        'camera.rate_hz')
                reported, left_out = now, self.left_out
