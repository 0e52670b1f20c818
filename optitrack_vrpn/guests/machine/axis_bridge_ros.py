# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The lifecycle node axis_bridge: poses in, sensor_msgs/JointState and datagrams out."""

import functools
import threading
import time
import traceback
from typing import Any, Optional, Sequence

from diagnostic_msgs.msg import DiagnosticStatus
from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.core.axes import Pose
from optitrack_vrpn.core.doubt import doubt_of
from optitrack_vrpn.core.errors import TransportError
from optitrack_vrpn.core.names import ros_name
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.guests.machine.axes_mapper import AxesSample, AxesStatus, AxisMapper
from optitrack_vrpn.guests.machine.axes_settings import AxisBridgeSettings
from optitrack_vrpn.guests.machine.axes_teach import Recording
from optitrack_vrpn.guests.machine.axis_bridge_io import (
    encode, load_table, running_ns, UdpSender)
from optitrack_vrpn.guests.machine.machine_node_ros import MachineNode
from optitrack_vrpn.guests.machine.view import AxisView, views_of
from optitrack_vrpn.node.base.tool_node import BackgroundNode, checked_topic
from optitrack_vrpn.node.graph.reach import pose_reach
from optitrack_vrpn.node.graph.status_binding import StatusBinding
from optitrack_vrpn.node.graph.streams_ros import pose_of
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState

#: Best effort matches every publisher; those of the main node are reliable by default.
POSE_QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
STATUS_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE,
                        durability=DurabilityPolicy.TRANSIENT_LOCAL)


class AxisBridge(MachineNode[AxisBridgeSettings]):
    """Publish the axes of a machine from the poses of bodies at a fixed rate."""

    def __init__(self, node_name: str = 'axis_bridge', **kwargs: Any) -> None:
        self._mapper: Optional[AxisMapper] = None
        self._settings: Optional[AxisBridgeSettings] = None
        self._sender: Optional[UdpSender] = None
        self._publisher: Any = None
        self._sequence = 0
        self._last: Optional[AxesSample] = None
        super().__init__(node_name, AxisBridgeSettings, **kwargs)

    def prepare(self, settings: AxisBridgeSettings) -> None:
        """
        Load the table, subscribe to the bodies, and open the socket.

        :raises ConfigurationError: if the table is wrong.
        :raises TransportError: if the controller's name does not resolve.
        """
        table = load_table(settings.table)
        mapper = AxisMapper(table, settings.mapper)
        if settings.udp_host:
            self._sender = UdpSender(settings.udp_host, settings.udp_port)
            self._owned.callback(self._sender.close)
        self._settings, self._mapper, self._last = settings, mapper, None
        self._publisher = self.own(
            self.create_publisher(JointState, settings.axes_topic, 10), self.destroy_publisher)
        for body in table.bodies:
            self.bind(PoseStamped, settings.topic.replace('{body}', ros_name(body)),
                      functools.partial(self._pose, mapper, body), POSE_QOS, identify=pose_of,
                      reach=pose_reach)
            self.own(self.create_subscription(
                DiagnosticStatus, settings.status_topic.replace('{body}', ros_name(body)),
                functools.partial(self._take_status, mapper, body, StatusBinding()), STATUS_QOS),
                self.destroy_subscription)
        self.show_axes()
        self._mocap_control.set_info_topics([self._publisher.topic_name])

    def begin(self) -> None:
        """Start the cycles."""
        assert self._settings is not None and self._mapper is not None
        self._last = None
        with self._lock:
            self._mapper.end()
            self._mapper.start(running_ns())
        self.start_cycles(1.0 / self._settings.rate_hz, self._cycle)

    def end(self) -> None:
        """Stop the cycles, and report the end to the controller."""
        if self._thread is None:
            return
        self._thread.stop()
        self._thread = self._last = None    # the last state is not shown as the present one
        with self._lock:
            if self._mapper is None:
                return
            self._mapper.end()
        for _ in range(3):      # UDP can lose one
            self._send(self._mapper.sample(running_ns()))

    def release(self) -> None:
        """Destroy publisher and subscriptions, and close the socket."""
        super().release()
        self._sender = None
        self._mapper = self._settings = None

    def _pose(self, mapper: AxisMapper, body: str, message: PoseStamped) -> None:
        """Process a pose, on the executor's thread."""
        p, q = message.pose.position, message.pose.orientation
        stamp = message.header.stamp
        with self._lock:
            used = mapper.pose(
                body, stamp.sec * NS_PER_S + stamp.nanosec, (p.x, p.y, p.z),
                (q.x, q.y, q.z, q.w), running_ns(), time.time_ns())
        if not used:
            self._log(WARN, f'poses of {body!r} are not used: {mapper.counters}', 'unused')

    def _take_status(
        self, mapper: AxisMapper, body: str, binding: StatusBinding, message: DiagnosticStatus,
    ) -> None:
        """Process the state of a body, on the executor's thread."""
        report = StatusReport.of(message)
        if binding.accept(report.session, time.monotonic_ns()):
            with self._lock:
                mapper.doubt(body, doubt_of(report.values), report.count('resets'))

    def _cycle(self, periods: int) -> None:
        """Send all axes, on the thread of the cycles."""
        try:
            assert self._mapper is not None
            with self._lock:
                sample = self._mapper.sample(running_ns())
            self._send(sample)
            self._publish(sample)
            self._last = sample
        except Exception:
            self._log(ERROR, f'bug: a cycle was lost:\n{traceback.format_exc()}', 'cycle')

    def _send(self, sample: AxesSample) -> None:
        assert self._mapper is not None and self._settings is not None
        if self._sender is not None:
            self._sender.send(encode(
                sample, self._sequence, self._mapper.table.names, self._settings.datagram))
            self._sequence += 1

    def _publish(self, sample: AxesSample) -> None:
        """Publish positions in m and rad; NaN for axes that are not valid."""
        assert self._mapper is not None
        rows = self._mapper.table.axes
        message = JointState(name=[row.name for row in rows], position=[
            row.value_si(axis.value) if axis.valid else float('nan')
            for row, axis in zip(rows, sample.axes)])
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(sample.stamp_ns, NS_PER_S)
        self._publisher.publish(message)

    def views(self) -> Sequence[AxisView]:
        """Return every axis of the last cycle."""
        if self._last is None or self._mapper is None:
            return ()
        return views_of(self._mapper.table, self._last)

    def summary(self) -> tuple[Severity, str, dict[str, Any]]:
        """Return the status of the stream, and the rates of the bodies."""
        assert self._mapper is not None and self._settings is not None
        status = AxesStatus.NOT_CONNECTED if self._last is None else self._last.status
        values: dict[str, Any] = {'status': int(status)}
        if self._sender is not None:
            values.update(datagrams=self._sender.sent, datagrams_failed=self._sender.failed)
        for body in self._mapper.table.bodies:
            values[f'rate_hz {body}'] = f'{self._mapper.rate_hz(body):.1f}'
        topics = ', '.join(one.topic for one in self._inputs)
        severity, text = {
            AxesStatus.NOT_CONNECTED: (WARN, f'waiting for the first pose on {topics}'),
            AxesStatus.RECEIVING: (INFO, 'receiving poses'),
            AxesStatus.UNABLE: (
                ERROR, f'no pose for {self._settings.mapper.connect_timeout_s:g} s on {topics}: '
                'is the main node active, and has each body of the table its name in Motive?'),
            AxesStatus.ENDED: (WARN, 'ended on request')}[status]
        return severity, text, values


# -- teaching -------------------------------------------------------------------------------------

#: Stands for the body where rclpy resolves the topic: a valid part of a name.
_BODY = 'body_of_axis_bridge_teach'


class TeachRecorder(BackgroundNode):
    """
    Subscribe to the poses of bodies on a thread; use it as a context manager.

    :param template: topics of the poses, as ``{body}/pose``, relative to the namespace.
    :param ros_args: arguments for ROS.
    :raises ConfigurationError: if ROS does not accept them.
    """

    def __init__(self, template: str, ros_args: Sequence[str] = ()) -> None:
        topic = checked_topic(template.replace('{body}', _BODY))
        super().__init__('axis_bridge_teach', ros_args)
        self._before, _, self._after = self.node.resolve_topic_name(topic).partition(_BODY)
        self._lock = threading.Lock()
        self._phase: Optional[str] = None
        self._recordings: dict[str, Recording] = {}
        self._subscriptions: dict[str, Any] = {}

    def find_bodies(self, timeout_s: float) -> tuple[str, ...]:
        """Subscribe to every topic of poses; return the ROS names of the bodies."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for topic, kinds in self.node.get_topic_names_and_types():
                body = topic[len(self._before):-len(self._after)]
                if (topic == self._before + body + self._after and body and '/' not in body
                        and 'geometry_msgs/msg/PoseStamped' in kinds):
                    if body not in self._subscriptions:
                        self._subscriptions[body] = self.node.create_subscription(
                            PoseStamped, topic, lambda m, b=body: self._pose(b, m), POSE_QOS)
            if self._subscriptions and time.monotonic() > deadline - 0.7 * timeout_s:
                break
            time.sleep(0.05)
        if not self._subscriptions:
            raise TransportError(
                f'no topic {self._before}BODY{self._after} within {timeout_s:g} s: start the main '
                'node and activate it; if it has a namespace, give --topic /namespace/{body}'
                f'{self._after}')
        return tuple(sorted(self._subscriptions))

    def record(self, phase: Optional[str]) -> None:
        """Begin a phase: 'still', 'moved', or None for a pause."""
        with self._lock:
            self._phase = phase

    def recordings(self) -> dict[str, Recording]:
        """Return the recordings by the name of the body."""
        with self._lock:
            return dict(self._recordings)

    def _pose(self, body: str, message: PoseStamped) -> None:
        p, q = message.pose.position, message.pose.orientation
        with self._lock:
            if self._phase is not None:
                getattr(self._recordings.setdefault(body, Recording()), self._phase).append(
                    Pose((p.x, p.y, p.z), (q.x, q.y, q.z, q.w)))
