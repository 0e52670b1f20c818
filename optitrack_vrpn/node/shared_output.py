# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Topics that all bodies share: ``poses`` for Crazyswarm2, ``pose_array`` for viewers, markers.

``publishers.py`` writes ``tf_view``, of which only the publisher is here.

Crazyswarm2 requests a deadline of 10 ms, and DDS connects it only to a publisher that offers a
deadline that is not longer. Both topics with poses contain TRACKED bodies only; a frame without
one is not published. A message has the stamp of its frame.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from geometry_msgs.msg import Pose
from optitrack_vrpn.core.throttle import Decimator, period_ns
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.base.cdr import stamp_bytes, time_of
from optitrack_vrpn.node.body_output import counter, message_type
from optitrack_vrpn.node.messages import set_pose
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS, RATES
from optitrack_vrpn.stream.roster import FrameTimes, Sample
from optitrack_vrpn.stream.server_data import MarkerCloud
from rclpy.duration import Duration
from rclpy.qos import QoSProfile, ReliabilityPolicy


class BodyFrame(NamedTuple):
    """
    The bodies seen at one time.

    :ivar stamp_ns: capture time (ns).
    :ivar samples: by name in ROS, in alphabetical order.
    """

    stamp_ns: int
    samples: dict[str, Sample]


class FrameCollector:
    """
    Collect samples into frames.

    :param rate_hz: rate of collected frames; others are skipped, by stamp; 0 collects all.
    """

    def __init__(self, rate_hz: float) -> None:
        self._decimator = Decimator(period_ns(rate_hz))
        self._stamp_ns = -1
        self._samples: dict[str, Sample] = {}
        self._before: frozenset[str] = frozenset()
        self._wanted = False
        self._done = True

    def set_rate(self, rate_hz: float) -> None:
        """Change the rate from the next frame on."""
        self._decimator.retime(period_ns(rate_hz))

    def add(self, stamp_ns: int, name: str, sample: Sample) -> Optional[BodyFrame]:
        """
        Add a sample.

        :returns: the previous frame, if this sample begins another and the previous one was
            incomplete.
        """
        ended = None
        if stamp_ns != self._stamp_ns:
            ended = self._end()
            self._begin(stamp_ns)
        if self._wanted:
            self._samples[name] = sample
        return ended

    def complete(self) -> Optional[BodyFrame]:
        """Return the present frame if it has all bodies of the previous; call after a batch."""
        if self._done or not self._before or not self._before <= self._samples.keys():
            return None
        return self._end()

    def _begin(self, stamp_ns: int) -> None:
        self._stamp_ns = stamp_ns
        self._samples = {}
        self._wanted = self._decimator.take(stamp_ns)
        self._done = not self._wanted

    def _end(self) -> Optional[BodyFrame]:
        """End the present frame; a body that arrives later belongs to no frame."""
        samples = self._samples
        if self._wanted and samples:
            self._before = frozenset(samples)
        if self._done or not samples:
            return None
        self._done = True
        return BodyFrame(self._stamp_ns, dict(sorted(samples.items())))


#: Quality of service of ``poses`` by the parameter ``qos.poses``.
# Deadline (ns) that Crazyswarm2 requests (poses_qos_deadline 100 Hz).
POSES_QOS = {
    'deadline': QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT,
                           deadline=Duration(nanoseconds=10_000_000)),
    'reliable': QoSProfile(depth=1)}
#: Quality of service of the pose for the robot itself, over WiFi: nothing is repeated while newer
#: poses wait. The middleware reports a pose that is missing for 100 ms to subscribers that request
#: this deadline or a longer one. No lifespan: it would compare the clocks of both computers.
OWN_QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT,
                     deadline=Duration(nanoseconds=100_000_000))
#: Quality of service of the draft REP: sensor data, but reliable.
DRAFT_QOS = QoSProfile(depth=5)
#: Chosen: frames of which times and markers are kept.
_RECENT = 8


#: Makes a message of a frame from what was measured and its head; the header is set afterwards.
Make = Callable[..., Any]
#: Outputs of the bodies of a frame, from their poses and its times.
ARRAYS: dict[str, Make] = {
    'poses': messages.make_poses, 'poses_v2': messages.make_poses_v2,
    'pose_array': messages.make_pose_array, 'rigid_bodies': messages.make_rigid_bodies,
    'rigid_body_array': messages.make_rigid_body_array}
#: Outputs of the markers of a frame.
CLOUDS: dict[str, Make] = {
    'point_cloud': messages.make_points, 'markers': messages.make_cloud,
    'named_markers': messages.make_markers, 'marker_array': messages.make_marker_array}
#: Outputs of the draft REP: the header of an array has the time of publication, its elements that
#: of capture.
DRAFT = ('rigid_body_array', 'marker_array')
SHARED = (*CLOUDS, *ARRAYS, 'tf_view')


class SharedOutput:
    """
    Publish frames of all bodies and their markers. The node holds its lock around every call.

    :param create: creates a publisher from message type, topic and kind.
    :param destroy: retires publishers, from any thread.
    :param now: returns the present time, for the messages of the draft REP.
    :ivar publishers: publishers by kind.
    :ivar heard: names of the topics with subscribers.
    :ivar topics: resolved names of the topics that are to be recorded.
    """

    def __init__(
        self, create: Callable[[Any, str, str], Any], destroy: Callable[[Any], None],
        now: Optional[Callable[[], Any]] = None,
    ) -> None:
        self._create = create
        self._destroy = destroy
        self.publishers: dict[str, Any] = {}
        self.heard: frozenset[str] = frozenset()
        self._world = ''
        self._collector = FrameCollector(RATES.poses)
        self._rate_hz: float = RATES.poses
        self._sequence: Counter[str] = Counter()
        self._now = now
        # Of recent frames: a frame is complete some datagrams after its first one.
        self._times: deque[FrameTimes] = deque(maxlen=_RECENT)
        self._seen: deque[MarkerCloud] = deque(maxlen=_RECENT)

    def create_publishers(self, settings: NodeSettings) -> None:
        """Create and destroy publishers for the settings."""
        self._world = settings.frames.world
        if settings.rates.poses != self._rate_hz:
            self._rate_hz = settings.rates.poses
            self._collector.set_rate(self._rate_hz)
        for name in SHARED:
            if name not in settings.outputs:
                if name in self.publishers:
                    self._destroy(self.publishers.pop(name))
            elif name not in self.publishers:
                self.publishers[name] = self._create(
                    message_type(KINDS[name]),
                    getattr(settings.topics, name, KINDS[name].topic), name)
        self.listen()

    def listen(self) -> None:
        """Find the topics with subscribers; messages of others are not written."""
        self.heard = frozenset(name for name, publisher in self.publishers.items()
                               if counter(publisher)())

    @property
    def topics(self) -> list[str]:
        """List the resolved names of the topics that are to be recorded."""
        return [publisher.topic_name for name, publisher in self.publishers.items()
                if name != 'tf_view']

    def publish(
        self, samples: Sequence[Sample], clock: Callable[[], int], allowance_ns: int,
        times: Sequence[FrameTimes] = (),
    ) -> None:
        """
        Publish the frames that samples complete.

        :param clock: reads the present time (ns).
        :param allowance_ns: largest difference to a stamp (ns), see ``publish_samples``.
        :param times: of the frames of the samples, as far as known.
        """
        if self.heard.isdisjoint(ARRAYS):
            return
        self._times.extend(times)
        frames = []
        for sample in samples:
            names = sample.channel.names
            frames.append(self._collector.add(
                sample.frame_ns, names.title or names.ros, sample))
        frames.append(self._collector.complete())
        newest_ns = samples[-1].frame_ns if samples else 0
        for frame in frames:
            # A frame that waited longer for a body is not published (ns). Chosen: the next frame
            # ends the wait, after 33 ms at the lowest camera rate in use.
            if frame is not None and newest_ns - frame.stamp_ns <= 100_000_000:
                self._send_frame(frame, clock, allowance_ns)

    def _send_frame(self, frame: BodyFrame, clock: Callable[[], int], allowance_ns: int) -> None:
        """Publish the poses of a frame, with its times and markers if they are known."""
        stamp_ns = frame.stamp_ns
        cloud = next((one for one in self._seen if one.stamp_ns == stamp_ns), None)
        times = next((one for one in self._times if one.stamp_ns == stamp_ns), None)
        poses = [messages.Posed(name, set_pose(Pose(), one.position, one.quat_xyzw),
                                one.channel.names.motive, cloud)
                 for name, one in frame.samples.items()]
        self._send(ARRAYS, (poses, times), stamp_ns, clock, allowance_ns)

    def publish_markers(
        self, cloud: MarkerCloud, clock: Callable[[], int], allowance_ns: int,
    ) -> None:
        """Publish the markers of a frame if there are subscribers; arguments as ``publish``."""
        self._seen.append(cloud)
        self._send(CLOUDS, (cloud,), cloud.stamp_ns, clock, allowance_ns)

    def _send(
        self, rows: Mapping[str, Make], data: tuple[Any, ...], stamp_ns: int,
        clock: Callable[[], int], allowance_ns: int,
    ) -> None:
        """Publish those outputs of a frame that have subscribers, until it is too old."""
        for name, make in rows.items():
            if name not in self.heard:
                continue
            self._sequence[name] += 1
            stamp = time_of(stamp_bytes(stamp_ns))
            message = make(*data, messages.Head(self._sequence[name], stamp, self._world))
            message.header.frame_id = self._world
            message.header.stamp = stamp if name not in DRAFT or self._now is None else self._now()
            if clock() > stamp_ns + allowance_ns:
                return
            self.publishers[name].publish(message)

    def close(self) -> None:
        """Destroy all publishers."""
        for publisher in self.publishers.values():
            self._destroy(publisher)
        self.publishers.clear()
        self.heard = frozenset()
