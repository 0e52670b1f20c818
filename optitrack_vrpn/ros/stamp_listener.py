# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Collect the stamps of a PoseStamped topic for some seconds."""

import time
from typing import NamedTuple

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.errors import ConfigurationError
import rclpy
from rclpy.exceptions import NameValidationException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy

_NS = 1_000_000_000


class Collected(NamedTuple):
    """What came, in order of arrival (ns since 1970)."""

    stamps_ns: list[int]
    arrivals_ns: list[int]
    frame_id: str
    publishers: int


def _one_line(error: Exception) -> str:
    """Take the reason of rclpy's messages, and not its drawing of the place."""
    return str(error).split(':\n')[0].strip().replace('\n', ' ')


def collect(topic: str, seconds: float, wait_s: float, ros_args: list[str]) -> Collected:
    """
    Listen to a topic from its first message on; Ctrl-C ends it early.

    :param seconds: how long, after the first message.
    :param wait_s: how long to wait for the first message.
    :param ros_args: ROS arguments, as from the command line.
    :raises ConfigurationError: if ROS takes neither these nor the topic.
    """
    stamps: list[int] = []
    arrivals: list[int] = []
    frames: list[str] = ['']
    publishers = 0
    context = rclpy.Context()
    try:
        rclpy.init(args=ros_args, context=context)
        node = rclpy.create_node('analyze_stamps', context=context)
    except (RuntimeError, NameValidationException) as error:    # RCLError
        context.try_shutdown()
        raise ConfigurationError(_one_line(error)) from None

    def take(message: PoseStamped) -> None:
        arrivals.append(time.time_ns())
        stamp = message.header.stamp
        stamps.append(stamp.sec * _NS + stamp.nanosec)
        frames[0] = message.header.frame_id

    # Best effort matches every publisher; the depth holds what comes while this is busy.
    qos = QoSProfile(
        depth=1000, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.BEST_EFFORT)
    try:
        node.create_subscription(PoseStamped, topic, take, qos)
    except (ValueError, NameValidationException) as error:
        node.destroy_node()
        context.try_shutdown()
        raise ConfigurationError(f'{topic!r} is no topic: {_one_line(error)}') from None
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    try:
        end = time.monotonic() + wait_s
        started = False
        while (left := end - time.monotonic()) > 0:
            executor.spin_once(timeout_sec=left)
            if stamps and not started:
                started = True
                end = time.monotonic() + seconds
        publishers = node.count_publishers(topic)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
    return Collected(stamps, arrivals, frames[0], publishers)
