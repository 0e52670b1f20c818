# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The minimal bridge from VRPN to ROS 2 in Python: the lower bound of every latency.

A thread waits for datagrams and publishes prepared CDR: the seven numbers and one time of each
pose are copied into a prepared message. It estimates no clock, converts no axes, validates no
pose, looks up no name, holds no lock and detects no silence; the numbers of senders are fixed. It
publishes the node's default topics in ENU: one PoseStamped per body and one TFMessage per
datagram. With ``calm`` its threads have the scheduling policies of the node's threads, without
other changes; with ``poses`` it publishes no TF. With ``all on`` it publishes as many messages as
the node with all outputs: for each pose a second PoseStamped, pose with covariance, odometry,
twist and acceleration, of which only the stamps are written, and a second transform.
"""

import socket
import struct
import sys
import threading
import time

from geometry_msgs.msg import PoseStamped, TransformStamped
from latency_sender import body_names
from optitrack_vrpn.drivers.client_io import use_batch_scheduling, use_default_scheduling
from optitrack_vrpn.drivers.vrpn.codec import encode_request, POSE_MESSAGE
from optitrack_vrpn.drivers.vrpn.connection import VrpnConnection
import rclpy
from rclpy.executors import ExternalShutdownException
from rclpy.qos import QoSProfile
from rclpy.serialization import serialize_message
from tf2_msgs.msg import TFMessage

_WORLD = 'optitrack'
_NS = 1_000_000_000
_NUMBERS = struct.Struct('>7d')
_POSE = struct.Struct('<7d')
_STAMP = struct.Struct('<iI')
_FIRST_NUMBER = 32


def shake_hands(port):
    """Ask the server to connect back; return the TCP and the UDP socket."""
    listener = socket.create_server(('127.0.0.1', 0))
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    datagrams.bind(('127.0.0.1', 0))
    datagrams.sendto(
        encode_request('127.0.0.1', listener.getsockname()[1]), ('127.0.0.1', port))
    stream, _ = listener.accept()
    connection = VrpnConnection(udp_address=datagrams.getsockname())
    stream.sendall(connection.data_to_send())
    while not connection.established:
        connection.receive_stream(stream.recv(65536))
    stream.sendall(connection.data_to_send())
    return stream, datagrams


def transforms(names, second):
    """
    Lay down a TFMessage; return its bytes and where stamps and numbers of the first ones go.

    :param second: whether it has another transform of each body, which is not written again.
    """
    message = TFMessage(transforms=[
        TransformStamped(child_frame_id=f'{name}{end}')
        for end in ('', '_ned')[:1 + second] for name in names])
    for number, transform in enumerate(message.transforms):
        transform.header.frame_id = _WORLD
        # Numbers that occur nowhere else are found in the bytes.
        transform.header.stamp.sec, transform.transform.translation.x = 7_000_000 + number, 0.5
    data = bytearray(serialize_message(message))
    places = []
    for number in range(len(names)):
        stamp = data.index(_STAMP.pack(7_000_000 + number, 0))
        places.append((stamp, data.index(struct.pack('<d', 0.5), stamp)))
    return data, places


def bridge(datagrams, names, node, tf_too, everything):
    """Receive and publish, for ever."""
    extra = ()
    if everything:
        from latency_receiver import EXTRA as extra    # imports messages that others do not need
    poses, more = [], []
    for name in names:
        message = PoseStamped()
        message.header.frame_id = _WORLD
        message.pose.position.x = 0.5
        data = bytearray(serialize_message(message))
        poses.append((
            node.create_publisher(PoseStamped, f'/{name}/pose', QoSProfile(depth=10)).publish,
            data, data.index(struct.pack('<d', 0.5))))
        more.append([(
            node.create_publisher(kind, f'/{name}/{topic}', QoSProfile(depth=10)).publish,
            bytearray(serialize_message(kind()))) for topic, kind in extra])
    publish_tf = node.create_publisher(TFMessage, '/tf', QoSProfile(depth=100)).publish
    size = POSE_MESSAGE.size
    layouts = {}
    while True:
        datagram = datagrams.recv(2048)
        # Senders are numbered from 1 in the order of their names.
        first = int.from_bytes(datagram[12:16], 'big') - 1
        count = len(datagram) // size
        if first not in layouts:
            layouts[first] = transforms(names[first:first + count], everything)
        tf, places = layouts[first]
        stamp = divmod(time.time_ns(), _NS)
        offset = _FIRST_NUMBER
        for (publish, data, where), others, (tf_stamp, tf_where) in zip(
                poses[first:first + count], more[first:first + count], places):
            numbers = _NUMBERS.unpack_from(datagram, offset)
            offset += size
            _STAMP.pack_into(data, 4, *stamp)
            _POSE.pack_into(data, where, *numbers)
            publish(bytes(data))
            for publish, data in others:
                _STAMP.pack_into(data, 4, *stamp)
                publish(bytes(data))
            if not tf_too:
                continue
            _STAMP.pack_into(tf, tf_stamp, *stamp)
            _POSE.pack_into(tf, tf_where, *numbers)
        if tf_too:
            publish_tf(bytes(tf))


def main():
    """Bridge the server on a port: ``latency_floor.py PORT BODIES [calm] [poses] [all on]``."""
    calm = 'calm' in sys.argv[3:]
    if calm:
        use_batch_scheduling()
    rclpy.init()
    node = rclpy.create_node('floor')
    stream, datagrams = shake_hands(int(sys.argv[1]))

    def receive():
        if calm:
            use_default_scheduling()
        bridge(datagrams, body_names(int(sys.argv[2])), node, 'poses' not in sys.argv[3:],
               'all' in sys.argv[3:])

    threading.Thread(target=receive, daemon=True).start()
    try:
        rclpy.spin(node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    stream.close()


if __name__ == '__main__':
    main()
