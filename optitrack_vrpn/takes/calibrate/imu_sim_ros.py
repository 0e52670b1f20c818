# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A simulated IMU on the first body of a simulated Motive, as sensor_msgs/Imu."""

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.sim.imu import ImuModel, SimulatedImu
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.sim.server_io import MotiveSimServer
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Imu

#: Chosen: period (s) of publication; the samples of this time are published together.
_PERIOD_S = 0.01
#: QoS of IMU drivers (REP 2003), with a queue for bursts.
IMU_QOS = QoSProfile(depth=1000, reliability=ReliabilityPolicy.BEST_EFFORT)


class ImuSim(Node):
    """
    Simulate Motive and an IMU on its first body.

    :param topic: of the IMU.
    :raises ConfigurationError: if the scenario has no body.
    :raises TransportError: if Motive's address is not available.
    :ivar server: the simulated Motive.
    :ivar imu: the simulated IMU, with the truth.
    """

    def __init__(
        self, scenario: Scenario, model: ImuModel, topic: str = 'imu/data_raw',
        node_name: str = 'imu_sim', **kwargs: Any,
    ) -> None:
        if not scenario.bodies:
            raise ConfigurationError('imu_sim: the scenario has no body for the IMU')
        self.server = MotiveSimServer(scenario)
        self._worker: Worker[None] = Worker(
            'imu', self._failed, turn=self.publish_due, period_s=_PERIOD_S, end=self.server.stop)
        super().__init__(node_name, **kwargs)
        self._publisher = self.create_publisher(Imu, topic, IMU_QOS)
        self.topic = self._publisher.topic_name
        self._scenario, self._model, self._next = scenario, model, 0
        motion = SimpleNamespace(at=partial(self.server.world.truth, scenario.bodies[0].name))
        self.imu = SimulatedImu(motion, model)
        self._message = Imu()
        self._message.header.frame_id = 'imu_link'
        self._message.orientation_covariance[0] = -1.0    # no orientation
        # Of the white noise: its density squared times the rate. A filter takes 0 as perfect.
        self._message.angular_velocity_covariance[0::4] = [model.gyro_noise**2 * model.rate] * 3
        self._message.linear_acceleration_covariance[0::4] = [
            model.accelerometer_noise**2 * model.rate] * 3
        self.server.start()
        self.get_logger().warning('this IMU is simulated')
        self._worker.start()

    def destroy_node(self) -> None:
        """Stop the IMU and the simulated Motive."""
        self._worker.stop()
        super().destroy_node()

    def _failed(self, error: Exception) -> bool:
        if self.context.ok():    # else ROS shut down before this node, as on Ctrl-C
            self.get_logger().error(f'the simulated IMU has ended: {error!r}')
        return False

    def publish_due(self) -> None:
        """Publish the samples that are due by now, until the scenario has ended."""
        if self.server.finished.is_set():
            return
        raw_ns = HostClock.now_ns()
        host_ns = raw_ns + HostClock.host_minus_arrival_ns()
        now = self.server.time_at(raw_ns)
        last = int(now * self._model.rate)
        if last < self._next:
            return
        first, self._next = max(self._next, last - int(self._model.rate)), last + 1
        stamps, gyro, accelerometer = self.imu.sample(
            np.arange(first, last + 1) / self._model.rate)
        speed = 1.0 + self._scenario.clock.skew_ppm * 1e-6
        message = self._message
        for stamp, rate, force in zip(stamps.tolist(), gyro.tolist(), accelerometer.tolist()):
            time = message.header.stamp
            time.sec, time.nanosec = divmod(
                host_ns + round((stamp - now) / speed * NS_PER_S), NS_PER_S)
            turning, pushing = message.angular_velocity, message.linear_acceleration
            turning.x, turning.y, turning.z = rate
            pushing.x, pushing.y, pushing.z = force
            self._publisher.publish(message)
