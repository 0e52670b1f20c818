# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Serialised messages equal those of rclpy, byte for byte."""

import struct
from types import SimpleNamespace

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, TransformStamped
from hypothesis import given, settings, strategies as st
from nav_msgs.msg import Odometry
from optitrack_vrpn.core.names import BodyNames
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.node import messages
from optitrack_vrpn.node.base import cdr
from optitrack_vrpn.node.base.managed_node import entry
from optitrack_vrpn.node.body_output import BodyOutput, fill_of, message_type, supports_raw_cdr
from optitrack_vrpn.node.settings import FrameSettings, NodeSettings
from optitrack_vrpn.node.topic_kinds import KINDS
from optitrack_vrpn.stream.bodies.tracker import Tracker
from optitrack_vrpn.stream.motion.estimator import EstimateConfig, Estimator
from optitrack_vrpn.stream.roster import TrackedBody
import pytest
from rclpy.serialization import deserialize_message, serialize_message
from tf2_msgs.msg import TFMessage

#: Those with a header; a message without one is published as an object.
LAID_DOWN = {name: kind for name, kind in KINDS.items() if kind.fill and kind.world}
#: Every length of name moves the doubles to another alignment; ROS has UTF-8 in strings.
NAMES = st.text(st.characters(codec='utf-8', exclude_characters='\0'), max_size=40)
STAMPS = st.integers(0, (1 << 31) * 10**9 - 1)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def blank(data, strings, transforms=None):
    """
    Zero the padding, in which rclpy leaves whatever was in memory, by walking through CDR.

    :param strings: how many there are in a message, or in each of the transforms.
    """
    data = bytearray(data)
    place = 4

    def align(size):
        nonlocal place
        while (place - 4) % size:
            data[place] = 0
            place += 1

    place += 0 if transforms is None else 4
    for _ in range(1 if transforms is None else transforms):
        align(4)
        place += 8
        for _ in range(strings):
            align(4)
            place += 4 + int.from_bytes(data[place:place + 4], 'little')
        align(8)
        place += 7 * 8
    return bytes(data)


def vectors(sizes):
    """Draw groups of numbers of these sizes."""
    return st.tuples(*(st.lists(NUMBERS, min_size=size, max_size=size) for size in sizes))


def named(kind, frame, child):
    """Make an empty message of a kind with its names."""
    message = message_type(kind)()
    message.header.frame_id = frame
    if message_type(kind) is Odometry:
        message.child_frame_id = child
    return message


@pytest.mark.parametrize('name', LAID_DOWN)
@settings(deadline=None, max_examples=40)
@given(frame=NAMES, child=NAMES, stamp_ns=STAMPS, data=st.data())
def test_a_message_is_what_rclpy_would_serialise(name, frame, child, stamp_ns, data):
    kind = LAID_DOWN[name]
    groups = data.draw(vectors(kind.sizes))
    write = cdr.serialisation_template(named(kind, frame, child), fill_of(kind), kind.sizes)
    plain = messages.keep(named(kind, frame, child), fill_of(kind))
    stamp = cdr.stamp_bytes(stamp_ns)
    message = plain(stamp, *groups)
    assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec == stamp_ns
    data = write(stamp, *groups)
    assert data == blank(serialize_message(message), 2 if message_type(kind) is Odometry else 1)
    assert deserialize_message(data, message_type(kind)) == message


@settings(deadline=None, max_examples=40)
@given(
    bodies=st.lists(st.tuples(NAMES, vectors((3, 4))), min_size=1, max_size=12), world=NAMES,
    stamp_ns=STAMPS)
def test_transforms_of_a_frame_are_what_rclpy_would_serialise(bodies, world, stamp_ns):
    stamp = cdr.stamp_bytes(stamp_ns)
    pieces, plain = [], []
    for child, groups in bodies:
        def empty(child=child):
            transform = TransformStamped(child_frame_id=child)
            transform.header.frame_id = world
            return transform
        write = cdr.transform_template(empty(), messages.fill_transform)
        pieces.append((write.other if pieces else write.first)(stamp, *groups))
        plain.append(messages.keep(empty(), messages.fill_transform)(stamp, *groups))
    data, message = cdr.tf_message(pieces), TFMessage(transforms=plain)
    assert data == blank(serialize_message(message), 2, len(bodies))
    assert deserialize_message(data, TFMessage) == message


def test_bytes_read_back_as_the_numbers_that_went_in():
    kind = KINDS['odom']
    groups = [[100.0 * group + number for number in range(size)]
              for group, size in enumerate(kind.sizes)]
    write = cdr.serialisation_template(named(kind, 'map', 'drone'), fill_of(kind), kind.sizes)
    message = deserialize_message(write(cdr.stamp_bytes(7_000_000_008), *groups), Odometry)
    position, twist = message.pose.pose.position, message.twist.twist
    assert (message.header.frame_id, message.child_frame_id) == ('map', 'drone')
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (7, 8)
    assert (position.x, position.y, position.z) == (0.0, 1.0, 2.0)
    assert message.pose.pose.orientation.w == 103.0
    assert list(message.pose.covariance) == groups[2]
    assert (twist.linear.x, twist.angular.z) == (300.0, 402.0)
    assert list(message.twist.covariance) == groups[5]


def test_the_bytes_are_used_where_rclpy_encodes_as_expected():
    assert supports_raw_cdr()


@pytest.mark.parametrize('spoil', [
    lambda data: b'\0\0' + data[2:],                   # big-endian
    lambda data: b'\0\7' + data[2:],                   # XCDR version 2
    lambda data: data + b'\0\0\0\0',                   # something behind the numbers
    lambda data: data[:-8] + struct.pack('<d', 0.25),  # numbers in another order
])
def test_an_encoding_that_is_not_known_is_refused(monkeypatch, spoil):
    monkeypatch.setattr(
        cdr, 'serialize_message', lambda message: spoil(serialize_message(message)))
    assert not supports_raw_cdr()
    kind = KINDS['pose']
    with pytest.raises(cdr.UnsupportedCdr):
        cdr.serialisation_template(message_type(kind)(), fill_of(kind), kind.sizes)
    with pytest.raises(cdr.UnsupportedCdr):
        cdr.transform_template(TransformStamped(), messages.fill_transform)


@pytest.mark.parametrize('name', ['', 'a', 'ab', 'abc', 'abcd', 'wand \N{DEGREE SIGN}'])
@pytest.mark.parametrize('values', [
    {}, {'state': 'TRACKED'}, {'a': '', 'bc': 'def', 'long key': 'x' * 100, '': 'y'}])
def test_a_status_in_bytes_is_read_as_the_message_that_rclpy_makes(name, values):
    fields = name, WARN, f'{name} is slow', values, '192.0.2.1:3883'
    assert deserialize_message(cdr.status_message(*fields), DiagnosticStatus) == entry(*fields)


def test_a_status_that_would_be_written_differently_is_noticed():
    assert supports_raw_cdr()
    cdr.check_status(entry('name', WARN, 'text', {'key': ''}, ''))
    twice = DiagnosticStatus(level=b'\1', values=[
        KeyValue(key='key', value='1'), KeyValue(key='key', value='2')])
    with pytest.raises(cdr.UnsupportedCdr):
        cdr.check_status(twice)


class Publisher:
    """A publisher that keeps its messages; ``handle`` takes bytes only, as rclpy's does."""

    def __init__(self):
        self.objects, self.bytes = [], []
        self.handle = SimpleNamespace(
            publish_raw=self.bytes.append, get_subscription_count=lambda: 1)

    def publish(self, message):
        self.objects.append(deserialize_message(serialize_message(message), type(message)))


def test_one_kind_of_message_with_another_encoding_is_published_as_objects(monkeypatch):
    """Its numbers, stamp and frame are those of the bytes; the other kinds remain bytes."""
    monkeypatch.setattr(cdr, 'serialize_message', lambda message: serialize_message(message) + (
        b'\0\0\0\0' if isinstance(message, PoseStamped) else b''))
    publishers = {}
    settings = NodeSettings(
        outputs=('pose', 'tf', 'twist'), frames=FrameSettings(world='lab'))
    names = BodyNames('wand', 'wand', {name: name for name in KINDS}, {
        'body': 'wand', 'body_ned': 'wand_ned'}, None)
    assert supports_raw_cdr(), 'transforms are as expected'
    output = BodyOutput(
        TrackedBody(names, Tracker('wand'), Estimator(EstimateConfig())),
        lambda _, topic, __: publishers.setdefault(topic, Publisher()), publishers.pop, True)
    output.create_publishers(settings)
    stamps = [cdr.stamp_bytes(7_000_000_008), cdr.stamp_bytes(7_000_000_009)]
    position, quat, rate = (1.0, 2.0, 3.0), (0.0, 0.6, 0.0, 0.8), (4.0, 5.0, 6.0)
    pose, twist = output.rows
    for stamp in stamps:
        pose.send(pose.write(stamp, position, quat))
        twist.send(twist.write(stamp, position, rate))
    first, second = publishers['pose'].objects
    assert not publishers['pose'].bytes
    expected = PoseStamped()
    expected.header.frame_id = settings.frames.world
    messages.fill_pose(expected, cdr.time_of(stamps[0]), position, quat)
    assert first == expected
    assert (second.header.stamp.sec, second.header.stamp.nanosec) == (7, 9)
    twist = deserialize_message(publishers['twist'].bytes[1], message_type(KINDS['twist']))
    assert not publishers['twist'].objects
    assert (twist.twist.linear.z, twist.twist.angular.z) == (3.0, 6.0)
    assert isinstance(output.write_tf.first(stamps[0], position, quat), bytes)
