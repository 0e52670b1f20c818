# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node of the demo and a subscriber of its topics, in this process."""

from collections import deque
from collections.abc import Sequence
import math
import sys
import threading
import time
from typing import Any

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import angles_from_quat
from optitrack_vrpn.core.settings.parameters import sift
from optitrack_vrpn.core.severity import ERROR
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.node.base.process import check_domain, explained, leave_by_force, LEAVE_S
from optitrack_vrpn.node.node import OptitrackVrpnNode
from optitrack_vrpn.sim.demo.table import BodyRow
from optitrack_vrpn.stream.bodies.settings import Selection
from rcl_interfaces.msg import Log
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.expand_topic_name import expand_topic_name
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

#: Chosen: arrivals of a body that its rate is computed from, 2 s at 240 Hz, and the silence after
#: which nothing is shown (s).
_KEPT, _SILENT_S = 480, 0.5
#: Best effort matches every publisher, with any reliability.
_QOS = QoSProfile(depth=100, reliability=ReliabilityPolicy.BEST_EFFORT)
_LOG_QOS = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: Chosen: lines of the node's log that are kept.
_LINES = 200


class BodyTopic:
    """
    The received poses of one body.

    :ivar frame: its frame on /tf.
    """

    def __init__(self, frame: str) -> None:
        self.count = 0
        self.frame = frame
        self._arrivals: deque[float] = deque(maxlen=_KEPT)
        self._pose: Any = None

    def take(self, message: PoseStamped) -> None:
        """Add a pose that has arrived now."""
        self.add(message, time.monotonic())

    def add(self, message: PoseStamped, now: float) -> None:
        """Add a pose with its arrival (s)."""
        self.count += 1
        self._arrivals.append(now)
        self._pose = message.pose

    def row(self, name: str, ned: bool, has_transform: bool, now: float) -> BodyRow:
        """
        Describe the body.

        :param ned: whether the poses are in NED.
        """
        arrivals = list(self._arrivals)
        if len(arrivals) < 3 or now - arrivals[-1] > _SILENT_S:
            return BodyRow(name, self.count, has_transform=has_transform)
        p, q = self._pose.position, self._pose.orientation
        yaw = math.degrees(angles_from_quat((q.x, q.y, q.z, q.w)).yaw)
        # A heading is the yaw of NED; that of ENU is from east and runs the other way.
        position, heading = (((p.y, p.x, -p.z), yaw) if ned else ((p.x, p.y, p.z), 90.0 - yaw))
        span = max(arrivals[-1] - arrivals[0], 1e-9)
        return BodyRow(name, self.count, (len(arrivals) - 1) / span, position, heading % 360.0,
                       has_transform)


class Chain:
    """
    The node, and a subscriber; use it in a ``with`` block, which ends both.

    :param ros_arguments: of the node.
    :raises ConfigurationError: if ROS cannot read them.
    :ivar clock: values of the clock's diagnostic.
    :ivar connection: the node's report of its connection.
    :ivar trouble: the last error of the connection; the node may have connected again since.
    :ivar transforms_wanted: whether the node broadcasts transforms.
    """

    def __init__(self, ros_arguments: Sequence[str]) -> None:
        check_domain()
        self.context = rclpy.Context()
        self._bodies: dict[str, BodyTopic] = {}
        self._frames: set[str] = set()
        self._log: deque[str] = deque(maxlen=_LINES)
        self.clock: dict[str, str] = {}
        self.connection = self.trouble = ''
        self._template, self._ned, self.transforms_wanted = '', False, True
        try:
            self.context.init(args=list(ros_arguments))
            self.node = OptitrackVrpnNode(context=self.context)
        except RuntimeError as error:    # RCLError
            self.context.try_shutdown()
            raise ConfigurationError(explained(error)) from None
        self._view = rclpy.create_node(
            'demo_table', context=self.context, use_global_arguments=False)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._executor.add_node(self._view)
        subscribe = self._view.create_subscription
        subscribe(Log, '/rosout', self._take_log, _LOG_QOS)
        subscribe(DiagnosticArray, '/diagnostics', self._take_diagnostics, 10)
        subscribe(TFMessage, '/tf', self._take_tf, _QOS)
        self._thread = threading.Thread(target=self._spin, name='executor', daemon=True)

    def __enter__(self) -> 'Chain':
        return self

    def __exit__(self, *_: object) -> None:
        patience = threading.Timer(LEAVE_S, leave_by_force, (1,))
        patience.daemon = True
        patience.start()
        if self._thread.ident is not None:
            self.context.try_shutdown()
            self._thread.join(2.0)
        self.node.destroy_node()
        self._view.destroy_node()
        self.context.try_shutdown()
        patience.cancel()

    def start(self) -> Selection:
        """
        Configure and activate the node, and spin both.

        :returns: the bodies that its parameters select.
        :raises ConfigurationError: if a transition fails, or the parameters enable no poses.
        """
        outputs = self._value('outputs')
        if not {'pose', 'pose_ned'} & set(outputs):
            raise ConfigurationError(
                'outputs contains neither pose nor pose_ned: there are no poses to show')
        self._ned = 'pose' not in outputs
        self._template = str(self._value('topics.pose_ned' if self._ned else 'topics.pose'))
        self.transforms_wanted = 'tf' in outputs
        for transition in ('configure', 'activate'):
            if problem := self.node.make_transition(transition):
                raise ConfigurationError(problem)
        # As in node/base/process.py: a pose must not wait for the table.
        sys.setswitchinterval(1e-4)
        self._thread.start()
        return sift(Selection, {name: self._value(name) for name in (
            'bodies.allow', 'bodies.deny')}, 'bodies.')[0]

    def _value(self, name: str) -> Any:
        return self.node.get_parameter(name).value

    def _spin(self) -> None:
        while self.context.ok():
            try:
                self._executor.spin_once(timeout_sec=0.1)
            except Exception:
                if self.context.ok():
                    raise

    def topic(self, name: str) -> str:
        """Return the topic of a body's poses."""
        return str(expand_topic_name(
            self._template.replace('{body}', name), self.node.get_name(), '/'))

    def rows(self) -> list[BodyRow]:
        """Describe each body seen so far, in the order of names."""
        now = time.monotonic()
        return [body.row(name, self._ned, body.frame in self._frames, now)
                for name, body in sorted(self._bodies.copy().items())]

    def log(self) -> str:
        """Return the node's log."""
        return '\n'.join([*self._log])

    def _take_log(self, message: Log) -> None:
        self._log.append(f'[{message.name}] {message.msg}')

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        for status in message.status:
            report = StatusReport.of(status)
            if report.subject == 'clock':
                self.clock = report.values
            elif report.subject == 'connection':
                self.connection = report.message
                if report.severity is ERROR:
                    self.trouble = report.message
            elif report.body and report.body not in self._bodies:
                topic = self._bodies[report.body] = BodyTopic(report.values.get('frame', ''))
                self._view.create_subscription(
                    PoseStamped, self.topic(report.body), topic.take, _QOS)

    def _take_tf(self, message: TFMessage) -> None:
        for transform in message.transforms:
            self._frames.add(transform.child_frame_id)
