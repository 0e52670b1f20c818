# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Receive poses as bytes and compute the latency of each: the receiver of all measurements.

Latency is measured on at most four bodies, spread over the frame, because a Python subscriber to a
hundred bodies would measure itself. The other topics have subscriptions in this process that are
never read, so that the middleware delivers every message. Loss is counted on /tf, which contains
all bodies, and on the poses that are read.

Commands come line by line on the standard input, and answers in JSON.
"""

import argparse
import json
import struct
import sys
import threading
import time

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from geometry_msgs.msg import (
    AccelStamped, PoseStamped, PoseWithCovarianceStamped, TwistStamped)
from latency_mark import number_of, sent_at
from latency_sender import body_names
from nav_msgs.msg import Odometry
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from tf2_msgs.msg import TFMessage

_MOST_TIMED = 4
_U32 = struct.Struct('<I')
_VECTOR = struct.Struct('<3d')
EXTRA = (
    ('pose_ned', PoseStamped), ('pose_cov', PoseWithCovarianceStamped), ('odom', Odometry),
    ('twist', TwistStamped), ('accel', AccelStamped))


def after_string(data, offset):
    """Skip a CDR string; return the offset behind it."""
    offset = (offset + 3) // 4 * 4
    return offset + 4 + _U32.unpack_from(data, offset)[0]


def vector_at(data, offset):
    """Read a CDR vector of doubles; alignment counts from behind the encapsulation."""
    offset = 4 + (offset - 4 + 7) // 8 * 8
    return _VECTOR.unpack_from(data, offset), offset


def read_pose(data):
    """Read the position of a PoseStamped."""
    return vector_at(data, after_string(data, 12))[0]


def read_transforms(data):
    """Read child frame and translation of every transform of a TFMessage."""
    count = _U32.unpack_from(data, 4)[0]
    offset = 8
    for _ in range(count):
        offset = after_string(data, (offset + 3) // 4 * 4 + 8)
        start = (offset + 3) // 4 * 4 + 4
        offset = after_string(data, offset)
        vector, at = vector_at(data, offset)
        yield data[start:offset - 1].decode(), vector
        offset = at + 56


class Receiver:
    """
    Subscribe to everything that one bridge publishes.

    :param count: number of bodies.
    :param everything: topics beyond poses and transforms too.
    :param best_effort: reliability of the subscriptions to them; reliable else.
    """

    def __init__(self, count, everything, best_effort):
        self._reliability = (ReliabilityPolicy.BEST_EFFORT if best_effort else
                             ReliabilityPolicy.RELIABLE)
        self.names = body_names(count)
        step = max(1, count / _MOST_TIMED)
        self.timed = sorted({self.names[min(count - 1, int((i + 0.5) * step))]
                             for i in range(min(count, _MOST_TIMED))})
        self._poses = {name: [] for name in self.timed}
        self._tf = []
        # Nothing that an executor would have to look at besides.
        bare = {'start_parameter_services': False, 'enable_rosout': False}
        self._node = rclpy.create_node('receiver', **bare)
        self._silent = rclpy.create_node('silent_receiver', **bare)
        for name in self.names:
            if name in self._poses:
                self._node.create_subscription(
                    PoseStamped, f'/{name}/pose', self._taker(name), QoSProfile(
                        depth=1000, reliability=self._reliability), raw=True)
            else:
                self._ignore(PoseStamped, f'/{name}/pose')
            if everything:
                for kind, message_type in EXTRA:
                    self._ignore(message_type, f'/{name}/{kind}')
                self._ignore(DiagnosticStatus, f'/{name}/status', DurabilityPolicy.TRANSIENT_LOCAL)
        if everything:
            self._ignore(DiagnosticArray, '/diagnostics')
        self._node.create_subscription(
            TFMessage, '/tf', lambda data: self._tf.append(data), QoSProfile(
                depth=1000, reliability=self._reliability), raw=True)
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        threading.Thread(target=self._executor.spin, daemon=True).start()

    def _ignore(self, message_type, topic, durability=DurabilityPolicy.VOLATILE):
        self._silent.create_subscription(
            message_type, topic, lambda data: None, QoSProfile(
                depth=10, durability=durability, reliability=self._reliability), raw=True)

    def _taker(self, name):
        clock = time.monotonic_ns

        def take(data):
            self._poses[name].append((clock(), data))
        return take

    def forget(self):
        """Begin again."""
        self._swap()
        return {}

    def _swap(self):
        poses, self._poses = self._poses, {name: [] for name in self.timed}
        tf, self._tf = self._tf, []
        return poses, tf

    def wait(self, timeout_s):
        """Wait until every timed body was seen; gives when the first was and when the last."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            poses = self._poses
            if all(poses.values()):
                firsts = [taken[0][0] for taken in poses.values()]
                return {'first_ns': min(firsts), 'all_ns': max(firsts)}
            time.sleep(0.01)
        return {'first_ns': None, 'seen': sum(map(bool, self._poses.values()))}

    @staticmethod
    def _ages(taken, order):
        """
        Find how long after each pose was sent that pose, or a newer one, was there (us).

        A missing pose has the arrival of the one after it: otherwise a bridge that skips poses
        would seem fast. Its time of sending follows from its neighbours.

        :returns: the ages, and how many poses never came.
        """
        ages = []
        missed = 0
        last = last_sent = None
        for now, data in taken:
            x, y, z = (read_pose(data)[i] for i in order)
            sent, number = sent_at(x, y, now), number_of(z)
            if last is None:
                last, last_sent = number - 1, sent
            for skipped in range(last + 1, number):
                share = (skipped - last) / (number - last)
                ages.append((now - last_sent - share * (sent - last_sent)) / 1e3)
                missed += 1
            if number > last:
                ages.append((now - sent) / 1e3)
                last, last_sent = number, sent
        return ages, missed

    def trace(self, order):
        """Give when each pose was sent and taken (ns of CLOCK_MONOTONIC); ``order`` as below."""
        order = [int(digit) for digit in order]
        times = []
        for taken in self._swap()[0].values():
            for now, data in taken:
                x, y, _ = (read_pose(data)[i] for i in order)
                times.append((sent_at(x, y, now), now))
        return sorted(times)

    def collect(self, order):
        """
        Give latencies (us) and losses since the last command.

        :param order: which of a position's x, y, z are those that were sent: 012 as they were
            sent, 120 in ENU where Motive's x points north.
        """
        order = [int(digit) for digit in order]
        poses, tf = self._swap()
        latencies = []
        lost = expected = 0
        for taken in poses.values():
            ages, missed = self._ages(taken, order)
            latencies += ages
            expected += len(ages)
            lost += missed
        frames = {}
        known = set(self.names)
        for data in tf:
            for child, vector in read_transforms(data):
                if child in known:
                    frames.setdefault(number_of(vector[order[2]]), []).append(child)
        inner = sorted(frames)[1:-1]
        tf_expected = (inner[-1] - inner[0] + 1) * len(self.names) if inner else 0
        tf_lost = tf_expected - sum(len(set(frames[number])) for number in inner)
        return {'latencies_us': [round(x, 1) for x in latencies], 'lost': lost,
                'expected': expected, 'tf_lost': tf_lost, 'tf_expected': tf_expected}


def main():
    """Obey commands until the input ends."""
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument('--bodies', type=int, default=1)
    parser.add_argument('--everything', action='store_true')
    parser.add_argument('--best-effort', action='store_true')
    arguments = parser.parse_args()
    rclpy.init()
    receiver = Receiver(arguments.bodies, arguments.everything, arguments.best_effort)
    print(json.dumps({'timed': receiver.timed}), flush=True)
    for line in sys.stdin:
        command, *rest = line.split()
        if command == 'forget':
            answer = receiver.forget()
        elif command == 'wait':
            answer = receiver.wait(float(rest[0]))
        elif command == 'trace':
            answer = receiver.trace(rest[0])
        else:
            answer = receiver.collect(rest[0])
        print(json.dumps(answer), flush=True)


if __name__ == '__main__':
    main()
