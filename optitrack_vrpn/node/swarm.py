# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Outputs with all bodies of a frame: ``poses`` for Crazyswarm2, ``pose_array`` for viewers.

Crazyswarm2 requests a deadline of 10 ms, and DDS connects it only to a publisher that offers a
deadline that is not longer. Messages contain TRACKED bodies only; a frame without one is not
published.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
import importlib
from typing import Any

from geometry_msgs.msg import Pose, PoseArray
from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.errors import BackendUnavailableError
from optitrack_vrpn.node.configuration import PublishConfig
from optitrack_vrpn.node.frame_collector import Frame, FrameCollector, NamedPose
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.pipeline.channel import Sample
from optitrack_vrpn.ros.cdr import stamp_bytes, time_of
from rclpy.duration import Duration
from rclpy.lifecycle import LifecycleNode
from rclpy.qos import QoSProfile, ReliabilityPolicy

_PACKAGE = 'motion_capture_tracking_interfaces'
#: Frames per second, from Crazyswarm2, which warns outside 80 to 120 Hz and sends each frame by
#: radio. Halved or doubled, it warns; doubled, the radio has twice the load.
RATE_HZ = 100.0
#: Deadline (ns) that Crazyswarm2 requests (poses_qos_deadline 100 Hz). Halved, it matches and is
#: missed at 100 Hz; doubled, the middleware does not match the topic.
DEADLINE_NS = 10_000_000
#: A frame that waited longer for a body is not published (ns). Chosen: the next frame ends the
#: wait, after 33 ms at the lowest camera rate in use. Halved, slower senders lose incomplete
#: frames; doubled, older frames are published.
_MAX_WAIT_NS = 100_000_000
SHARED = ('poses', 'pose_array')


def check_installed(outputs: Iterable[str]) -> None:
    """
    Check that the messages of all outputs are installed.

    :raises BackendUnavailableError: if not.
    """
    if 'poses' in outputs:
        _interfaces()


def _interfaces() -> Any:
    try:
        return importlib.import_module(f'{_PACKAGE}.msg')
    except ImportError as error:
        raise BackendUnavailableError(
            f'the output poses needs {_PACKAGE}, which is not installed ({error}): apt install '
            'ros-$ROS_DISTRO-motion-capture-tracking-interfaces, or remove it from outputs'
        ) from None


class SwarmOutput:
    """
    Publish frames of all bodies. The node holds its lock around every call.

    :param node: creates the publishers.
    :param destroy: retires publishers, from any thread.
    """

    def __init__(self, node: LifecycleNode, destroy: Callable[[Any], None]) -> None:
        self._node = node
        self._destroy = destroy
        self._publishers: dict[str, Any] = {}
        self._heard: tuple[str, ...] = ()
        self._world = ''
        self._collector = FrameCollector(RATE_HZ)

    def equip(self, config: PublishConfig) -> None:
        """
        Create and destroy publishers for a configuration.

        :raises BackendUnavailableError: if the messages of an output are not installed.
        """
        self._world = config.world
        for name in SHARED:
            present = name in self._publishers
            if name in config.outputs and not present:
                self._publishers[name] = self._create(name, config)
            elif present and name not in config.outputs:
                self._destroy(self._publishers.pop(name))
        self.listen()

    def _create(self, name: str, config: PublishConfig) -> Any:
        if name == 'poses':
            return self._node.create_publisher(
                _interfaces().NamedPoseArray, KINDS[name].topic, QoSProfile(
                    depth=1, reliability=ReliabilityPolicy.BEST_EFFORT,
                    deadline=Duration(nanoseconds=DEADLINE_NS)))
        return self._node.create_publisher(PoseArray, KINDS[name].topic, QoSProfile(
            depth=config.depth, reliability=ReliabilityPolicy.RELIABLE if config.reliable
            else ReliabilityPolicy.BEST_EFFORT))

    def listen(self) -> None:
        """Find the topics with subscribers; messages of others are not written."""
        self._heard = tuple(name for name, publisher in self._publishers.items()
                            if publisher.get_subscription_count())

    @property
    def topics(self) -> list[str]:
        """List the resolved names of the topics."""
        return [publisher.topic_name for publisher in self._publishers.values()]

    def publish(
        self, samples: Sequence[Sample], clock: Callable[[], int], allowance_ns: int,
    ) -> None:
        """
        Publish the frames that samples complete.

        :param clock: reads the present time (ns).
        :param allowance_ns: largest difference to a stamp (ns), see ``publish_samples``.
        """
        if not self._heard:
            return
        frames = []
        for sample in samples:
            if sample.channel.gate.state is not State.TRACKED:
                continue    # poses of publish_untracked are for debugging, not for flight
            pose = NamedPose(sample.channel.names.ros, sample.position, sample.quat_xyzw)
            frames.append(self._collector.add(sample.stamp_ns, pose))
        frames.append(self._collector.complete())
        newest_ns = samples[-1].stamp_ns if samples else 0
        for frame in frames:
            if frame is not None and newest_ns - frame.stamp_ns <= _MAX_WAIT_NS and (
                    clock() <= frame.stamp_ns + allowance_ns):
                self._send(frame)

    def _send(self, frame: Frame) -> None:
        for name in self._heard:
            if name == 'poses':
                interfaces = _interfaces()
                message = interfaces.NamedPoseArray(poses=[
                    interfaces.NamedPose(name=one.name, pose=_pose(one)) for one in frame.poses])
            else:
                message = PoseArray(poses=[_pose(one) for one in frame.poses])
            message.header.stamp = time_of(stamp_bytes(frame.stamp_ns))
            message.header.frame_id = self._world
            self._publishers[name].publish(message)

    def close(self) -> None:
        """Destroy all publishers."""
        for publisher in self._publishers.values():
            self._destroy(publisher)
        self._publishers.clear()
        self._heard = ()


def _pose(one: NamedPose) -> Pose:
    pose = Pose()
    pose.position.x, pose.position.y, pose.position.z = one.position
    (pose.orientation.x, pose.orientation.y, pose.orientation.z,
     pose.orientation.w) = one.quat_xyzw
    return pose
