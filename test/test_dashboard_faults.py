# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The server of the dashboard while topics and clients do everything wrong, in random order."""

import asyncio
import contextlib
import json
import random
import signal
import time

from dashboard_kit import Served
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import TransformStamped
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile
from rosgraph import NodeProcess, Observer
from tf2_msgs.msg import TFMessage

aiohttp = pytest.importorskip('aiohttp')

#: Time after which nothing may look live that is not (s): 1 s, and delivery on a busy machine.
LATE_S = 1.5


class World:
    """What a node with bodies publishes, with its faults."""

    def __init__(self, node):
        self._node = node
        self._latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._status = []
        self._diagnostics = node.create_publisher(DiagnosticArray, '/diagnostics', 10)
        self._tf = node.create_publisher(TFMessage, '/_tf_view', 10)
        self._stamp = node.get_clock().now().to_msg()
        self.names, self.lost = ['drone', 'wand'], set()
        self.silent = self.frozen = self.without_tf = False
        self._new, self._tracked, self._stamps = {}, {}, {}

    def live_at(self, name):
        """Give the last time at which a body was live: TRACKED, with a new stamp (Unix, s)."""
        return min(self._new.get(name, 0.0), self._tracked.get(name, 0.0))

    def step(self):
        """Publish everything once."""
        if self.silent:
            return
        if not self.frozen:
            self._stamp = self._node.get_clock().now().to_msg()
        transforms = []
        self._diagnostics.publish(DiagnosticArray(status=[DiagnosticStatus(
            level=b'\0', name='mocap: connection', message='streaming')]))
        while len(self._status) < len(self.names):
            self._status.append(self._node.create_publisher(
                DiagnosticStatus, f'/body{len(self._status)}/status', self._latched))
        for publisher, name in zip(self._status, self.names):
            state = 'STALE' if name in self.lost else 'TRACKED'
            publisher.publish(DiagnosticStatus(
                level=b'\1' if name in self.lost else b'\0', name=f'mocap: body {name}',
                message=f'{state}: why', values=[KeyValue(key='state', value=state)]))
            transform = TransformStamped(child_frame_id=name)
            transform.header.stamp = self._stamp
            transforms.append(transform)
            if name not in self.lost:
                self._tracked[name] = time.time()
            if not self.without_tf and self._stamps.get(name) != self._stamp:
                self._new[name], self._stamps[name] = time.time(), self._stamp
        if not self.without_tf:
            self._tf.publish(TFMessage(transforms=transforms))

    def change(self, draw):
        """Begin or end a fault."""
        which = draw.choice(['silent', 'frozen', 'without_tf', 'lost', 'names', 'many', 'well'])
        if which in ('silent', 'frozen', 'without_tf'):
            setattr(self, which, not getattr(self, which))
        elif which == 'lost':
            self.lost ^= {draw.choice(self.names)}
        elif which == 'names':
            self.names = [f'body{draw.randrange(4)}', 'wand']
        elif which == 'many':
            self.names = [f'n{at}' for at in range(50 if len(self.names) == 2 else 2)]
        else:
            self.recover()

    def recover(self):
        """End all faults."""
        self.silent = self.frozen = self.without_tf = False
        self.lost = set()


async def watch(session, served, world, seen):
    """Be an undisturbed page, which checks all that it gets."""
    last = time.monotonic()
    async with session.ws_connect(f'{served.origin}/ws', headers={
            'Origin': served.origin}) as socket:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                continue
            found = json.loads(message.data)
            assert found['type'] == 'snapshot'
            seen['gap'] = max(seen['gap'], time.monotonic() - last)
            last = time.monotonic()
            seen['live'] = {one['name'] for one in found['bodies'] if one['sign'] != 'lost'}
            for name in seen['live']:
                age_s = found['time'] - world.live_at(name)
                assert age_s < LATE_S, f'{name} looks live after {age_s:.2f} s'
    raise AssertionError(f'the undisturbed page was closed: {socket.close_code}')


async def disturb(session, served, draw):
    """Be a page that does one thing wrong, or presses buttons."""
    with contextlib.suppress(aiohttp.WSServerHandshakeError, ConnectionError):
        socket = await session.ws_connect(f'{served.origin}/ws', headers={
            'Origin': served.origin}, autoping=draw.random() < 0.5)
        await socket.send_str(draw.choice([
            '{', '[' * 3000, 'x' * 100000, '{"type": "start"}', '{"type": "history", "body": 1}',
            '{"type": "markers", "on": true}', '\0', json.dumps({
                'type': draw.choice(['start', 'stop']), 'id': '1', 'session': '<b>'})]))
        if draw.random() < 0.3:
            await asyncio.sleep(draw.uniform(0.0, 8.0))    # reads nothing
        await asyncio.wait_for(socket.close(), 1.0) if draw.random() < 0.5 else (
            socket._response.connection.transport.abort())


def memory_mb(process):
    with open(f'/proc/{process.pid}/statm') as file:
        return int(file.read().split()[1]) * 4096 / 1e6


@pytest.mark.slow
def test_in_any_order_of_faults_nothing_looks_live_that_is_not_and_no_page_is_disturbed():
    draw = random.Random(seed := random.randrange(10**6))
    print('seed', seed)
    served = Served()
    seen = {'gap': 0.0, 'live': set(), 'recovered': False}

    async def work(world):
        async with aiohttp.ClientSession() as session:
            page = asyncio.ensure_future(watch(session, served, world, seen))
            others, memory = [], 0.0

            async def publish(seconds):
                until = time.monotonic() + seconds
                while time.monotonic() < until and not page.done():
                    world.step()
                    await asyncio.sleep(0.05)

            for step in range(25):
                await publish(draw.uniform(0.1, 0.8))
                world.change(draw)
                others.append(asyncio.ensure_future(disturb(session, served, draw)))
                memory = memory or (step > 12 and memory_mb(served.process.process))
            world.recover()
            for _ in range(40):
                await publish(0.5)
                if seen['live'] >= set(world.names) or page.done():
                    seen['recovered'] = not page.done()
                    break
            await asyncio.gather(*others, return_exceptions=True)
            if page.done():
                page.result()
            page.cancel()
            return memory_mb(served.process.process) - memory
    try:
        with Observer() as observer:
            world = World(observer.node)
            grown_mb = asyncio.run(asyncio.wait_for(work(world), 110.0))
        assert seen['recovered'], 'all are live again'
        assert seen['gap'] < 3.0 and grown_mb < 15.0
        assert len(served.process.lines) == 1, served.process.log
    finally:
        served.close()


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(number):
    process = NodeProcess('--port', '0', tool='dashboard', ros=False)
    with process:
        process.wait_for('http://', 60.0)
        code, seconds = process.end(number)
    assert code == 0 and seconds < 20.0 and 'Traceback' not in process.log
