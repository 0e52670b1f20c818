# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What happens with each datagram in the node: pipeline, publication, measurement of latency.

The client thread calls it, and publishes the samples itself: the rows of each body, and
transforms. The clock is read before each message because the process can be suspended at
any line (by the scheduler, a debugger, or the migration of a virtual machine), and a pose that
became too old meanwhile must not be published. Messages are bytes (``node/base/cdr.py``), or
objects if the encoding of the middleware is unknown. docs/evidence/performance.md lists the cost
of each step.

The file is apart from the node because it is compiled, and a compiled class cannot derive from
rclpy's node; apart from ``publishers.py``, which imports messages while the client connects.
"""

import threading
import traceback
from typing import Any, Callable, Final, Optional, Sequence, TYPE_CHECKING

from optitrack_vrpn.core.axes import pose_to_ned
from optitrack_vrpn.core.throttle import FrameDecimator
from optitrack_vrpn.drivers.frames import Item
from optitrack_vrpn.node.base.cdr import pack_stamp, PoseWriter, stamp_bytes
from optitrack_vrpn.node.topic_kinds import Content
from optitrack_vrpn.stream.bodies.states import Disposition
from optitrack_vrpn.stream.motion.estimator import MotionEstimate
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import Sample, ServerMotion, TrackedBody

if TYPE_CHECKING:    # they import messages and numpy, while the client connects
    from optitrack_vrpn.node.body_output import BodyOutput, OutputRow, Way
    from optitrack_vrpn.node.publishers import Publishers

#: One batch of this number is measured. Chosen: 15 measurements a second at 240 Hz, enough for
#: percentiles.
_MEASURED_ONE_OF: Final = 16
# Plain numbers, which mypyc compares without a look-up.
_NED: Final = int(Content.NED)
_WRITER: Final = PoseWriter
_ODOMETRY: Final = int(Content.ODOMETRY)
_TWIST: Final = int(Content.TWIST)
_ACCEL: Final = int(Content.ACCEL)


class TurnLock:
    """
    The node's lock, as a context manager for all threads but the one with the poses.

    Python's locks are not fair: a thread that releases a lock and acquires it again at once gets
    it before a waiting thread, which still has to wake up. Diagnostics hold the lock once for each
    body, so that poses would wait for the report of all bodies. The thread with the poses
    therefore holds ``turn`` while it waits for ``lock``, so that the others wait behind it.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.turn = threading.Lock()

    def __enter__(self) -> None:
        with self.turn:
            pass
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


class Receiver:
    """
    Process frames and publish the resulting poses.

    :param lock: guards pipeline and publishers; the attributes are set with it held.
    :param now_ns: reads the arrival clock (ns).
    :param measure: takes the samples of a batch that has been published, its arrival, host clock
        minus arrival clock, the time of reading and the time after publishing (ns).
    :param failed: takes the traceback of an exception; the frame is lost.
    :ivar pipeline: None while the node is unconfigured.
    :ivar publishers: None until they have been created.
    :ivar active: whether to publish.
    """

    def __init__(
        self, lock: TurnLock, now_ns: Callable[[], int],
        measure: Callable[[Sequence[Sample], int, int, int, int], None],
        failed: Callable[[str], None],
    ) -> None:
        # Bound once: they are called with each datagram.
        self._take_turn: Callable[[], object] = lock.turn.acquire
        self._end_turn: Callable[[], object] = lock.turn.release
        self._acquire: Callable[[], object] = lock.lock.acquire
        self._release: Callable[[], object] = lock.lock.release
        self._now_ns = now_ns
        self._measure = measure
        self._failed = failed
        self._batches = 0
        self.pipeline: Optional[Pipeline] = None
        self.publishers: Optional[Publishers] = None
        self.active = False

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Process what one datagram contained; see ``drivers.driver.Sink``."""
        error = ''
        self._take_turn()
        try:
            self._acquire()
        finally:
            self._end_turn()
        try:
            pipeline = self.pipeline
            if pipeline is None:
                return
            now_ns = self._now_ns()
            found = pipeline.process(items, arrival_ns, host_minus_arrival_ns, now_ns)
            samples = found.samples
            publishers = self.publishers
            if not self.active or publishers is None:
                for sample in samples:
                    sample.channel.dropped[Disposition.INACTIVE] += 1
                return
            allowance_ns = pipeline.max_age_ns - host_minus_arrival_ns
            if found.markers is not None:
                publishers.publish_markers(found.markers, self._now_ns, allowance_ns)
            if samples or found.motions:
                outputs, clock = publishers.outputs, self._now_ns
                publish_samples(samples, outputs, publishers.tf_way, clock, allowance_ns)
                if publishers.shared.heard:
                    if 'tf_view' in publishers.shared.heard:
                        publish_view(samples, outputs, publishers.view, publishers.send_view,
                                     clock, allowance_ns)
                    publishers.shared.publish(samples, clock, allowance_ns, found.times)
                for moved in found.motions:
                    if moved.channel in outputs:
                        publish_server_motion(
                            outputs[moved.channel], moved, clock, moved.stamp_ns + allowance_ns)
                self._batches += 1
                if not self._batches % _MEASURED_ONE_OF:
                    self._measure(
                        samples, arrival_ns, host_minus_arrival_ns, now_ns, self._now_ns())
            if found.extras is not None:    # last: they take longer than poses
                publishers.publish_extras(found.extras, pipeline, self._now_ns, allowance_ns)
        except Exception:
            # The thread must continue: the next frame may be valid.
            error = traceback.format_exc()
        finally:
            self._release()
        if error:
            self._failed(error)


def publish_samples(
    samples: Sequence[Sample], outputs: 'dict[TrackedBody, BodyOutput]', tf_way: 'Way',
    clock: Callable[[], int], allowance_ns: int,
) -> None:
    """
    Publish samples in order; the transforms of one frame go out in one message.

    Consecutive samples of the same ``frame_ns`` form a frame, until a body occurs twice: frames
    that arrive together can have the same stamp.

    :param outputs: publishers by body; those of a new body do not exist yet.
    :param tf_way: joins the transforms of a frame to a message, and publishes it.
    :param clock: reads the present time (ns).
    :param allowance_ns: largest difference between ``clock`` and the stamp of a frame (ns): the
        maximum age, minus the offset between the clock of the stamps and ``clock``.
    """
    join_tf, send_tf = tf_way
    present_ns = stamped_ns = -1
    stamp = b''
    transforms: list[Any] = []
    bodies: set[Any] = set()
    # Declared for mypyc; position and attitude are passed on unchanged.
    sample: tuple[Any, ...]
    channel: TrackedBody
    stamp_ns: int
    frame_ns: int
    output: Optional[BodyOutput]
    row: OutputRow
    position: tuple[Any, ...]
    quat: tuple[Any, ...]
    ned: Optional[tuple[tuple[Any, ...], tuple[Any, ...]]]
    write: Any
    for sample in samples:
        channel, stamp_ns, frame_ns, position, quat, _, lean = sample
        output = outputs.get(channel)
        if output is None:
            channel.dropped[Disposition.NO_TOPICS] += 1
            continue
        until_ns = frame_ns + allowance_ns
        if clock() > until_ns:
            channel.dropped[Disposition.TOO_OLD] += 1
            continue
        if frame_ns != present_ns or output in bodies:
            if transforms:
                if clock() <= present_ns + allowance_ns:
                    send_tf(join_tf(transforms))
                transforms = []
            bodies.clear()
            present_ns = frame_ns
        if stamp_ns != stamped_ns:
            stamped_ns = stamp_ns
            # As stamp_bytes, without a call.
            stamp = pack_stamp(stamp_ns // 1_000_000_000, stamp_ns % 1_000_000_000)
        bodies.add(output)
        channel.published += 1
        x, y, z = position
        qx, qy, qz, qw = quat
        ned = None
        for row in output.rows:
            if row.later and clock() > until_ns:
                break
            if row.other:
                if not lean:
                    _publish_other(row, sample, stamp)
            elif row.rate is None or row.rate.take(stamp_ns):
                if row.content == _NED:
                    ned = ned or pose_to_ned(position, quat)
                    if row.pack is None:
                        row.send(row.write(stamp, ned[0], ned[1]))
                    else:
                        (n, e, d), (na, nb, nc, nd) = ned
                        row.send(row.pack(
                            row.before, stamp, row.names, n, e, d, na, nb, nc, nd))
                elif row.pack is None:
                    row.send(row.write(stamp, position, quat))
                else:    # as ``write``, without a call
                    row.send(row.pack(row.before, stamp, row.names, x, y, z, qx, qy, qz, qw))
        if output.tf_heard and (
                output.tf_rate is None or output.tf_rate.take(frame_ns)):
            if output.tf:
                write = output.write_tf[1 if transforms else 0]
                transforms.append(
                    write.pack(b'', stamp, write.names, x, y, z, qx, qy, qz, qw)
                    if type(write) is _WRITER else write(stamp, position, quat))
            if output.tf_ned:
                write = output.write_tf_ned[1 if transforms else 0]
                ned = ned or pose_to_ned(position, quat)
                transforms.append(write(stamp, ned[0], ned[1]))
    if transforms and clock() <= present_ns + allowance_ns:
        send_tf(join_tf(transforms))


def _publish_other(row: 'OutputRow', sample: tuple[Any, ...], stamp: bytes) -> None:
    """Publish an output that is filled with more than a pose."""
    channel: TrackedBody
    stamp_ns: int
    motion: Optional[MotionEstimate]
    channel, stamp_ns, _, position, quat, motion, _ = sample
    content = row.content
    if row.from_server:
        return
    if content >= _ODOMETRY:
        if motion is None:
            return
        fields: tuple[Any, ...] = motion
        # The motion estimate is of the measured pose: a low-pass changes the pose of the sample.
        (stamp_ns, position, quat, velocity, acceleration, rate, change, body_velocity, body_rate,
         twist_covariance, pose_covariance) = fields
        if row.rate is not None and not row.rate.take(stamp_ns):
            return
        stamp = stamp_bytes(stamp_ns)
        if content == _ODOMETRY:
            row.send(row.write(stamp, position, quat, pose_covariance, body_velocity, body_rate,
                               twist_covariance))
        elif content == _TWIST:
            row.send(row.write(stamp, velocity, rate))
        else:
            row.send(row.write(stamp, acceleration, change))
    elif row.rate is None or row.rate.take(stamp_ns):
        row.send(row.write(stamp, position, quat, channel.estimator.pose_covariance(quat)))


def publish_view(
    samples: Sequence[Sample], outputs: 'dict[TrackedBody, BodyOutput]', frames: FrameDecimator,
    send: Callable[[list[Any]], None], clock: Callable[[], int], allowance_ns: int,
) -> None:
    """
    Publish the transforms of samples for viewers, in one message, if their frame is due.

    :param frames: selects frames.
    :param send: publishes the transforms.
    :param clock: reads the present time (ns).
    :param allowance_ns: largest difference to the stamp of a frame (ns), see ``publish_samples``.
    """
    oldest_ns = -1
    transforms: list[Any] = []
    sample: tuple[Any, ...]    # declared for mypyc
    stamp_ns: int
    frame_ns: int
    output: Optional[BodyOutput]
    for sample in samples:
        channel, stamp_ns, frame_ns, position, quat, _, _ = sample
        if not frames.take(frame_ns):
            continue
        output = outputs.get(channel)
        if output is not None:
            if not transforms or frame_ns < oldest_ns:
                oldest_ns = frame_ns
            first, other = output.write_tf
            transforms.append((other if transforms else first)(
                stamp_bytes(stamp_ns), position, quat))
    if transforms and clock() <= oldest_ns + allowance_ns:
        send(transforms)


def publish_server_motion(
    output: 'BodyOutput', moved: ServerMotion, clock: Callable[[], int], until_ns: int,
) -> None:
    """
    Publish a velocity or acceleration that the server itself sent.

    :param clock: reads the present time (ns).
    :param until_ns: time (ns) after which it is too old.
    """
    content = _TWIST if moved.is_velocity else _ACCEL
    for row in output.rows:
        if row.from_server and row.content == content and clock() <= until_ns and (
                row.rate is None or row.rate.take(moved.stamp_ns)):
            row.send(row.write(stamp_bytes(moved.stamp_ns), moved.linear, moved.angular))
