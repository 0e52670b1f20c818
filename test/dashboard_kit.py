# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Start the dashboard as its users do, and publish what a node publishes."""

import asyncio
import json
import re

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import TransformStamped
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import NodeProcess
from tf2_msgs.msg import TFMessage

aiohttp = pytest.importorskip('aiohttp')


class Served:
    """
    A dashboard in its own process.

    :param arguments: of its command line.
    """

    def __init__(self, *arguments):
        self.process = NodeProcess('--port', '0', *arguments, tool='dashboard', ros=False)
        self.url = self.process.wait_for(r'http://\S+', 60.0)[0]
        self.host, self.port = re.match(r'http://([^/]+):(\d+)/', self.url).groups()
        self.origin = f'http://{self.host}:{self.port}'

    def close(self):
        self.process.__exit__()


class Published:
    """
    Topics of a node with some bodies.

    :param node: of rclpy.
    :param names: of the bodies.
    """

    def __init__(self, node, names):
        self._node = node
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._status = [node.create_publisher(DiagnosticStatus, f'/body{at}/status', latched)
                        for at in range(len(names))]
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._tf = node.create_publisher(TFMessage, '/tf', 10)
        self.names = names
        self.step = 0

    def publish(self, state='TRACKED', message='seen'):
        """Publish reports and transforms once."""
        self.step += 1
        level = DiagnosticStatus.OK if state == 'TRACKED' else DiagnosticStatus.WARN
        array = DiagnosticArray(status=[DiagnosticStatus(
            level=DiagnosticStatus.OK, name='mocap: connection', message='streaming')])
        self._diagnostics.publish(array)
        transforms = []
        for publisher, name in zip(self._status, self.names):
            publisher.publish(DiagnosticStatus(
                level=level, name=f'mocap: body {name}', message=f'{state}: {message}', values=[
                    KeyValue(key='state', value=state), KeyValue(key='motive_name', value=name)]))
            transform = TransformStamped(child_frame_id=name)
            transform.header.frame_id = 'optitrack'
            transform.header.stamp = self._node.get_clock().now().to_msg()
            transform.transform.translation.x = float(self.step)
            transforms.append(transform)
        if state == 'TRACKED':    # in parts, as a node receives and publishes a large frame
            for one in transforms:
                self._tf.publish(TFMessage(transforms=[one]))


def run(work, timeout_s=60.0):
    """Run a coroutine function with a session, in bounded time."""
    async def inside():
        jar = aiohttp.CookieJar(unsafe=True)    # also for addresses without a name
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            return await asyncio.wait_for(work(session), timeout_s)
    return asyncio.run(inside())


def connect(session, served, **headers):
    return session.ws_connect(f'{served.origin}/ws', headers={
        'Origin': served.origin, **{key: value for key, value in headers.items() if value}})


async def until(socket, wanted, kind='snapshot'):
    """Read messages until one is as wanted."""
    async for message in socket:
        if message.type is aiohttp.WSMsgType.TEXT:
            found = json.loads(message.data)
            if found['type'] == kind and wanted(found):
                return found
    raise AssertionError(f'closed with {socket.close_code}')
