# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Time the ways to do each part of a pose's way, in one process and with warm caches.

    python bench/latency_parts.py                print the table

Figures are the minimum of many rounds, which reduces the effect of other load on the machine.
"""

import argparse
import gc
import os
import struct
import sys
import time

from geometry_msgs.msg import PoseStamped, TransformStamped
from latency import environment
import numpy as np
from optitrack_vrpn.drivers.vrpn.codec import POSE_MESSAGE
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.base import cdr
import rclpy
from tf2_msgs.msg import TFMessage

POSITION, QUAT = (1.0, 2.0, 3.0), (0.0, 0.6, 0.0, 0.8)
STAMP = cdr.stamp_bytes(1_700_000_000_123_456_789)
FIELDS = np.dtype([
    ('size', '>u4'), ('seconds', '>u4'), ('microseconds', '>u4'), ('sender', '>i4'),
    ('type', '>i4'), ('sequence', '>u4'), ('sensor', '>i4'), ('filler', 'V4'),
    ('position', '>f8', 3), ('quat', '>f8', 4)])


def least_us(function, calls=300, rounds=60):
    """Time a function; return the least mean of a round in microseconds."""
    best = 1e9
    for _ in range(rounds):
        begun = time.perf_counter_ns()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter_ns() - begun) / calls)
    return best / 1e3


def datagram(poses):
    """Make a datagram of so many poses."""
    return b''.join(
        POSE_MESSAGE.pack(POSE_MESSAGE.size, 1, 2, 3, 4, 5, 0, *POSITION, *QUAT)
        for _ in range(poses))


def by_struct(data):
    """Take a datagram apart pose by pose."""
    return [
        (sender, sensor, seconds * 10**9 + microseconds * 1000, (x, y, z), (a, b, c, d))
        for _, seconds, microseconds, sender, _, _, sensor, x, y, z, a, b, c, d
        in POSE_MESSAGE.iter_unpack(data)]


def by_numpy(data):
    """Take it apart as one array, and back into plain numbers."""
    array = np.frombuffer(data, FIELDS)
    times = array['seconds'].astype(np.int64) * 10**9 + array['microseconds'] * np.int64(1000)
    return list(zip(
        array['sender'].tolist(), array['sensor'].tolist(), times.tolist(),
        map(tuple, array['position'].tolist()), map(tuple, array['quat'].tolist())))


def rows(node):
    """Time everything; gives rows of a table."""
    publisher = node.create_publisher(PoseStamped, '/timed', 10)
    tf = node.create_publisher(TFMessage, '/timed_tf', 100)
    raw, raw_tf = publisher.handle.publish_raw, tf.handle.publish_raw
    keep = messages.keep(PoseStamped(), messages.fill_pose)
    keep_tf = messages.keep(TransformStamped(), messages.fill_transform)
    write = cdr.serialisation_template(PoseStamped(), messages.fill_pose, (3, 4))
    write_tf = cdr.transform_template(TransformStamped(), messages.fill_transform)
    data = write(STAMP, POSITION, QUAT)
    kept, numbers = bytearray(data), struct.Struct('<7d')

    def objects():
        publisher.publish(keep(STAMP, POSITION, QUAT))
        tf.publish(TFMessage(transforms=[keep_tf(STAMP, POSITION, QUAT)]))

    def as_bytes():
        raw(write(STAMP, POSITION, QUAT))
        raw_tf(cdr.tf_message([write_tf.first(STAMP, POSITION, QUAT)]))

    def patch():
        kept[4:12] = STAMP
        numbers.pack_into(kept, len(kept) - numbers.size, *POSITION, *QUAT)
        return bytes(kept)

    yield 'pose and transform, made and published as objects', least_us(objects)
    yield 'the same as bytes', least_us(as_bytes)
    yield 'publishing bytes by `Publisher.publish`', least_us(lambda: publisher.publish(data))
    yield 'publishing bytes by its handle', least_us(lambda: raw(data))
    yield 'bytes of a pose made by one call of `struct`', least_us(
        lambda: write(STAMP, POSITION, QUAT))
    yield 'bytes of a pose patched into a kept `bytearray`, and copied', least_us(patch)
    for count in (1, 16, 64, 240):
        one = datagram(count)
        assert by_struct(one) == by_numpy(one)
        yield f'datagram of {count} taken apart by `struct`', least_us(
            lambda one=one: by_struct(one))
        yield f'datagram of {count} taken apart by numpy', least_us(lambda one=one: by_numpy(one))
    yield 'a whole garbage collection', least_us(gc.collect, 1, 5)
    gc.freeze()
    yield 'the same, what was there at start frozen', least_us(gc.collect, 1, 5)


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    os.environ.update(environment())
    from optitrack_vrpn.node.node import OptitrackVrpnNode
    rclpy.init(args=['parts', '--ros-args', '--log-level', 'error'])
    node = OptitrackVrpnNode()
    lines = ['| part (no subscribers) | us |', '|---|---|']
    lines += [f'| {what} | {figure:.1f} |' for what, figure in rows(node)]
    print('\n'.join(lines))
    node.destroy_node()
    rclpy.shutdown()
    return 0


if __name__ == '__main__':
    sys.exit(main())
