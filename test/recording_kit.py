# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bags for tests, written byte by byte here, and independent readers of bags."""

import functools
import struct

from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter, NewTopic
from optitrack_vrpn.takes.record.bag_metadata import make_qos, TopicMetadata

POSE = 'geometry_msgs/msg/PoseStamped'
HASH = 'RIHS01_10f3786d7d40fd2b54367835614bff85d4ad3b5dab62bf8bca0cc232d73b4cd8'
POSE_TEXT = """\
std_msgs/Header header
geometry_msgs/Pose pose
""" + '=' * 80 + """
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
""" + '=' * 80 + """
MSG: geometry_msgs/Pose
geometry_msgs/Point position
geometry_msgs/Quaternion orientation
""" + '=' * 80 + """
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
""" + '=' * 80 + """
MSG: geometry_msgs/Point
float64 x
float64 y
float64 z
""" + '=' * 80 + """
MSG: geometry_msgs/Quaternion
float64 x
float64 y
float64 z
float64 w
"""
BEGIN_NS = 1_790_000_000_000_000_000


def pose_cdr(stamp_ns, position, quat, frame='optitrack'):
    """Serialise a PoseStamped by hand."""
    text = frame.encode() + b'\0'
    head = struct.pack('<iII', *divmod(stamp_ns, 10**9), len(text)) + text
    return b'\0\1\0\0' + head + b'\0' * (-len(head) % 8) + struct.pack('<7d', *position, *quat)


@functools.cache
def typestore():
    """Give the types of another program's serialiser."""
    from rosbags.typesys import get_typestore, Stores
    return get_typestore(Stores.ROS2_JAZZY)


def make(name, *values):
    """Make a message, such as std_msgs/Header, of its values in their order."""
    return typestore().types[name.replace('/', '/msg/')](*values)


def header(stamp_ns, frame='optitrack'):
    stamp = make('builtin_interfaces/Time', *divmod(stamp_ns, 10**9))
    return make('std_msgs/Header', stamp, frame)


def cdr(message):
    """Serialise a message by another program."""
    return bytes(typestore().serialize_cdr(message, message.__msgtype__))


def topic(name, type_name=POSE, **qos):
    return TopicMetadata(
        name, type_name, (make_qos(**qos),), HASH if type_name == POSE else '')


def message(number, channel=1):
    """Make a message of a pose, at so many nanoseconds."""
    return Message(channel, number, BEGIN_NS + number, BEGIN_NS + number,
                   pose_cdr(BEGIN_NS, (number, 0, 0), (0, 0, 0, 1)))


@functools.cache
def definition_of(type_name):
    """Give the definition of a type, by another program."""
    if type_name == POSE:
        return POSE_TEXT
    return typestore().generate_msgdef(type_name, ros_version=2)[0]


def add_topic(writer, metadata, channel=1):
    """Add a topic with its definition; give its channel."""
    writer.write(NewTopic(channel, metadata, definition_of(metadata.type_name)), 1)
    return channel


def write_poses(folder, poses, compression='none', notes=None, close=True):
    """
    Write a bag of poses.

    :param poses: rows of topic, log time, stamp, position, quaternion.
    """
    writer = BagWriter(folder, compression)
    channels = {}
    for number, (name, log_ns, stamp_ns, position, quat) in enumerate(poses):
        if name not in channels:
            channels[name] = add_topic(writer, topic(name), len(channels) + 1)
        writer.write(Message(channels[name], number, log_ns, log_ns - 1000,
                             pose_cdr(stamp_ns, position, quat)), log_ns)
    if close:
        writer.close(notes)
    return writer


def by_mcap(path):
    """Read a bag with the ``mcap`` package: (topic, log time, publish time, bytes)."""
    from mcap.reader import make_reader
    with open(path, 'rb') as file:
        return [(channel.topic, message.log_time, message.publish_time, bytes(message.data))
                for _, channel, message in make_reader(file).iter_messages()]


def by_rosbags(path):
    """Read a bag with the ``rosbags`` package: (topic, time, bytes), and the connections."""
    from rosbags.rosbag2 import Reader
    with Reader(path) as reader:
        return ([(connection.topic, time, bytes(data))
                 for connection, time, data in reader.messages()], list(reader.connections))
