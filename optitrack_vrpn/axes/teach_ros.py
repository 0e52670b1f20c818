# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record the poses of all bodies for ``axis_bridge --teach``."""

import threading
import time
from typing import Any, Optional, Sequence

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.axes.bridge_ros import POSE_QOS
from optitrack_vrpn.axes.teach import Recording
from optitrack_vrpn.errors import TransportError
from optitrack_vrpn.motion import Pose
from optitrack_vrpn.ros import BackgroundNode, checked_topic

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
