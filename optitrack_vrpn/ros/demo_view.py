# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What any ROS user would do with the node: bring it up, subscribe, and look at what arrives."""

from collections import deque
import math
import threading
import time
from typing import Any, Optional

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
import numpy as np
from optitrack_vrpn.core.view import BodyRow
from optitrack_vrpn.errors import TransportError
import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import QoSProfile
from tf2_msgs.msg import TFMessage
from transforms3d.euler import quat2euler

_KEPT = 2000


class BodyTopic:
    """One body's poses as a subscriber sees them."""

    def __init__(self) -> None:
        self.count = 0
        self.stamps: deque[float] = deque(maxlen=_KEPT)
        self.arrivals: deque[float] = deque(maxlen=_KEPT)
        self.pose: Optional[PoseStamped] = None
        self.origin = 0

    def take(self, message: PoseStamped) -> None:
        """Note one pose and when it came."""
        now = time.time_ns()
        stamp = message.header.stamp
        stamp_ns = stamp.sec * 1_000_000_000 + stamp.nanosec
        if not self.count:
            self.origin = stamp_ns
        self.count += 1
        # Relative to the first stamp: a double holds Unix seconds to 0.24 us only.
        self.stamps.append((stamp_ns - self.origin) * 1e-9)
        self.arrivals.append((now - self.origin) * 1e-9)
        self.pose = message


class DemoView:
    """
    A node beside the one that is shown.

    :param target: name of the lifecycle node.
    """

    def __init__(self, target: str) -> None:
        self._context = rclpy.Context()
        self._context.init()
        self._node = rclpy.create_node(f'{target}_view', context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._target = target
        self._client = self._node.create_client(ChangeState, f'/{target}/change_state')
        self._node.create_subscription(
            DiagnosticArray, '/diagnostics', self._take_diagnostics, 10)
        self._node.create_subscription(TFMessage, '/tf', self._take_tf, QoSProfile(depth=100))
        self._bodies: dict[str, BodyTopic] = {}
        self._transforms: dict[str, int] = {}
        self.clock: dict[str, str] = {}
        self.connection = ''
        self._thread = threading.Thread(target=self._spin, name='demo view', daemon=True)
        self._thread.start()

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            pass

    def bring_up(self, timeout_s: float) -> None:
        """
        Configure and activate the node through its lifecycle services.

        :raises TransportError: if it does not answer or a transition fails.
        """
        deadline = time.monotonic() + timeout_s
        if not self._client.wait_for_service(timeout_sec=timeout_s):
            raise TransportError(f'the node {self._target} did not appear in {timeout_s:g} s')
        for label, number in (('configure', Transition.TRANSITION_CONFIGURE),
                              ('activate', Transition.TRANSITION_ACTIVATE)):
            request = ChangeState.Request(transition=Transition(id=number))
            future = self._client.call_async(request)
            while not future.done():
                if time.monotonic() > deadline:
                    raise TransportError(f'{label} did not end in {timeout_s:g} s')
                time.sleep(0.01)
            if not future.result().success:
                raise TransportError(f'{label} failed; the node says why')

    def close(self) -> None:
        """Leave ROS."""
        self._executor.shutdown()
        self._thread.join()
        self._node.destroy_node()
        self._context.try_shutdown()

    def rows(self) -> list[BodyRow]:
        """Sum up every body seen so far, in the order of names."""
        return [self._row(name, self._bodies[name]) for name in sorted(self._bodies)]

    def _row(self, name: str, topic: BodyTopic) -> BodyRow:
        message = topic.pose
        if message is None:
            return BodyRow(name, 0, 0.0, None, math.nan, math.nan, math.nan, math.nan, 0)
        stamps, arrivals = np.array(topic.stamps), np.array(topic.arrivals)
        size = min(len(stamps), len(arrivals))
        stamps, arrivals = stamps[:size], arrivals[:size]
        known = size > 2
        p, q = message.pose.position, message.pose.orientation
        yaw = quat2euler((q.w, q.x, q.y, q.z), 'sxyz')[2]
        return BodyRow(
            name, topic.count,
            float((size - 1) / (stamps[-1] - stamps[0])) if known else 0.0,
            (p.x, p.y, p.z), (90.0 - math.degrees(yaw)) % 360.0,
            float(np.median(arrivals - stamps)) if known else math.nan,
            float(np.std(np.diff(stamps))) if known else math.nan,
            float(np.std(np.diff(arrivals))) if known else math.nan,
            self._transforms.get(name, 0))

    def _take_diagnostics(self, message: DiagnosticArray) -> None:
        prefix = f'{self._target}: '
        for status in message.status:
            if not status.name.startswith(prefix):
                continue
            what = status.name[len(prefix):]
            if what == 'clock':
                self.clock = {pair.key: pair.value for pair in status.values}
            elif what == 'connection':
                self.connection = status.message
            elif what.startswith('body '):
                self._subscribe(what[len('body '):])

    def _subscribe(self, name: str) -> None:
        if name in self._bodies:
            return
        topic = self._bodies[name] = BodyTopic()
        callback: Any = topic.take
        self._node.create_subscription(PoseStamped, f'/{name}/pose', callback, 100)

    def _take_tf(self, message: TFMessage) -> None:
        for transform in message.transforms:
            child = transform.child_frame_id
            self._transforms[child] = self._transforms.get(child, 0) + 1
