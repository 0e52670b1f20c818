# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The last stages of a pose: second check of its age, pose message, transforms, other topics.

The protocol has decoded a datagram (``vrpn/connection.py``: ``receive_datagram``). The pipeline
has stamped its poses, validated them and converted them to ENU (``pipeline/pipeline.py``:
``process``). This file publishes the resulting samples on the client thread, with the node's lock
held. A frame with several bodies becomes one PoseStamped per body, one TFMessage for all bodies,
and messages on the other topics that have subscribers.

This file does not log and reads no parameter. It reads the clock for one purpose: the process can
be suspended at any line (by the scheduler, a debugger, or the migration of a virtual machine), and
a pose that became too old meanwhile must not be published afterwards. Messages are bytes
(``cdr.py``), or objects if the encoding of the middleware is unknown; the code is the same for
both. ``body_output.py`` and ``publishers.py`` prepare the publishers. docs/performance.md lists
the cost of each step.
"""

from typing import Any, Callable, Optional, Sequence

from optitrack_vrpn.bodies import Disposition
from optitrack_vrpn.motion import conjugate, MotionEstimate, position_to_ned, quat_to_ned, rotate
from optitrack_vrpn.node.body_output import BodyOutput
from optitrack_vrpn.pipeline import Sample, ServerMotion, TrackedBody
from optitrack_vrpn.ros import stamp_bytes

#: An unknown covariance: all zeros, by the convention of sensor_msgs.
_UNKNOWN = (0.0,) * 36


def publish_samples(
    samples: Sequence[Sample], outputs: dict[TrackedBody, BodyOutput],
    send_tf: Callable[[list[Any]], None], clock: Callable[[], int], allowance_ns: int,
) -> None:
    """
    Publish samples in order; the transforms of one frame go out in one message.

    Consecutive samples of the same ``frame_ns`` form a frame, until a body occurs twice: frames
    that arrive together can have the same stamp. Ages are computed from ``frame_ns``: the delay
    that a low-pass subtracts from a stamp is no waiting.

    :param outputs: publishers by body; those of a new body do not exist yet.
    :param send_tf: publishes the transforms of a frame.
    :param clock: reads the present time (ns).
    :param allowance_ns: largest difference between ``clock`` and the stamp of a frame (ns): the
        maximum age, minus the offset between the clock of the stamps and ``clock``.
    """
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
    for sample in samples:
        channel, stamp_ns, frame_ns, position, quat, motion = sample
        output = outputs.get(channel)
        if output is None:
            channel.dropped[Disposition.NO_TOPICS] += 1
            continue
        if clock() > frame_ns + allowance_ns:
            channel.dropped[Disposition.TOO_OLD] += 1
            continue
        if frame_ns != present_ns or output in bodies:
            if transforms:
                if clock() <= present_ns + allowance_ns:
                    send_tf(transforms)
                transforms = []
            bodies.clear()
            present_ns = frame_ns
        if stamp_ns != stamped_ns:
            stamped_ns = stamp_ns
            stamp = stamp_bytes(stamp_ns)
        bodies.add(output)
        channel.published += 1
        if output.send_pose is not None:
            output.send_pose(output.write_pose(stamp, position, quat))
        if output.tf:
            first, other = output.write_tf
            transforms.append((other if transforms else first)(stamp, position, quat))
        if output.heard or output.tf_ned:
            _publish_more(
                output, stamp, position, quat, motion, transforms, clock, frame_ns + allowance_ns)
    if transforms and clock() <= present_ns + allowance_ns:
        send_tf(transforms)


def _publish_more(
    output: BodyOutput, stamp: bytes, position: Any, quat: Any,
    motion: Optional[MotionEstimate], transforms: list[Any], clock: Callable[[], int],
    until_ns: int,
) -> None:
    """Publish the outputs on demand: NED, covariance and motion."""
    heard = output.heard
    if output.tf_ned or 'pose_ned' in heard:
        # Declared for mypyc: numbers of another type are made objects with each call.
        ned_position: Any = position_to_ned(position)
        ned_quat: Any = quat_to_ned(quat)
        if 'pose_ned' in heard:
            write, send = heard['pose_ned']
            message = write(stamp, ned_position, ned_quat)
            if clock() <= until_ns:
                send(message)
        if output.tf_ned:
            first, other = output.write_tf_ned
            transforms.append((other if transforms else first)(stamp, ned_position, ned_quat))
    if 'pose_cov' in heard:
        write, send = heard['pose_cov']
        message = write(stamp, position, quat, output.channel.estimator.pose_covariance(quat))
        if clock() <= until_ns:
            send(message)
    if motion is None:
        return
    fields: tuple[Any, ...] = motion
    (stamp_ns, position, quat, velocity, acceleration, rate, change, body_velocity, body_rate,
     twist_covariance, pose_covariance) = fields
    # The motion estimate is of the measured pose: a low-pass changes the pose above and can change
    # its stamp.
    stamp = stamp_bytes(stamp_ns)
    if 'odom' in heard:
        write, send = heard['odom']
        message = write(stamp, position, quat, pose_covariance, body_velocity, body_rate,
                        twist_covariance)
        if clock() <= until_ns:
            send(message)
    if 'twist' in heard:
        write, send = heard['twist']
        message = write(stamp, velocity, rate)
        if clock() <= until_ns:
            send(message)
    if 'accel' in heard:
        write, send = heard['accel']
        message = write(stamp, acceleration, change)
        if clock() <= until_ns:
            send(message)


def publish_server_motion(
    output: BodyOutput, moved: ServerMotion, clock: Callable[[], int], until_ns: int,
) -> None:
    """
    Publish a velocity or acceleration that the server itself sent.

    :param clock: reads the present time (ns).
    :param until_ns: time (ns) after which it is too old.
    """
    heard = output.heard
    stamp = stamp_bytes(moved.stamp_ns)
    if not moved.is_velocity:
        if 'accel' in heard:
            write, send = heard['accel']
            message = write(stamp, moved.linear, moved.angular)
            if clock() <= until_ns:
                send(message)
        return
    if 'twist' in heard:
        write, send = heard['twist']
        message = write(stamp, moved.linear, moved.angular)
        if clock() <= until_ns:
            send(message)
    if 'odom' in heard:
        write, send = heard['odom']
        quat = moved.quat_xyzw
        body_from_world = conjugate(quat)
        message = write(
            stamp, moved.position, quat, output.channel.estimator.pose_covariance(quat),
            rotate(body_from_world, moved.linear), rotate(body_from_world, moved.angular),
            _UNKNOWN)
        if clock() <= until_ns:
            send(message)
