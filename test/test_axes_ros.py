# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node axis_bridge and its teaching, against poses published by a plain ROS node."""

import math
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

from geometry_msgs.msg import PoseStamped
from optitrack_vrpn.guests.machine.axis_bridge_ros import AxisBridge
import pytest
from rosgraph import NodeHere, Observer, ROOT, wait_until
from sensor_msgs.msg import JointState
import yaml

pytestmark = [pytest.mark.ros, pytest.mark.network]

TABLE = """
axes:
- {name: x, body: Chaser 1, quantity: x, frame: enu, unit: mm}
- {name: yaw, body: target, quantity: yaw, frame: enu, unwrap: true}
"""


class Bodies:
    """Publish poses of two bodies, as the main node would."""

    def __init__(self, observer):
        self.observer = observer
        self.publishers = {body: observer.node.create_publisher(PoseStamped, f'{body}/pose', 10)
                           for body in ('Chaser_1', 'target')}
        self.x = 0.25

    def publish(self, count=1, step=0.0, bodies=('Chaser_1', 'target')):
        """Publish poses at 200 Hz; each has moved by a step (m) along x."""
        for _ in range(count):
            self.x += step
            for body in bodies:
                message = PoseStamped()
                message.header.stamp = self.observer.node.get_clock().now().to_msg()
                message.pose.position.x = self.x
                message.pose.orientation.z = math.sin(0.25)
                message.pose.orientation.w = math.cos(0.25)
                self.publishers[body].publish(message)
            time.sleep(0.005)


@pytest.fixture
def bodies(observer):
    return Bodies(observer)


def test_the_bridge_streams_tracked_bodies(bodies, tmp_path):
    (tmp_path / 'axes.yaml').write_text(TABLE)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as controller:
        controller.bind(('127.0.0.1', 0))
        controller.settimeout(20)
        with NodeHere({
                'table': str(tmp_path / 'axes.yaml'), 'udp_host': '127.0.0.1',
                'udp_port': controller.getsockname()[1], 'datagram.header': True,
                'datagram.format': 'float64', 'datagram.byte_order': 'big',
                'control.generations': ['none']}, cls=AxisBridge).activate() as here:
            topic = bodies.observer.listen(JointState, 'axis_states', 10)

            def receive(wanted, shown=('Chaser_1', 'target')):
                for _ in range(3000):
                    bodies.publish(bodies=shown)
                    fields = struct.unpack('>IidII2d', controller.recv(100))
                    if wanted(*fields):
                        return fields
                raise AssertionError('no such datagram')

            first = receive(lambda n, status, t, valid, *_: status == 1 and valid == 3)
            assert first[5:] == pytest.approx((250.0, math.degrees(0.5)))
            assert abs(time.time() - first[2]) < 5.0
            message = wait_until(lambda: bodies.publish() or next(
                (m for m in topic.messages() if not math.isnan(sum(m.position))), None))
            assert message.name == ['x', 'yaw']
            assert list(message.position) == pytest.approx([0.25, 0.5])
            gone = receive(lambda n, status, t, valid, *_: valid == 1, ('Chaser_1',))
            assert gone[5] == pytest.approx(250.0) and math.isnan(gone[6])
            assert here.node.diagnostics()[0].message == 'receiving poses'
            assert here.run(here.node.trigger_deactivate).name == 'SUCCESS'
            # not the last state of the cycles
            assert here.node.diagnostics() == () and here.node.views() == ()
            assert receive(lambda n, status, *_: status == -1)
            controller.settimeout(0.1)
            with pytest.raises(TimeoutError):
                for _ in range(10):
                    assert struct.unpack_from('>Ii', controller.recv(100))[1] == -1
            assert here.run(here.node.trigger_cleanup).name == 'SUCCESS'


def test_the_log_names_topics_without_a_pose_and_invalid_axes(bodies, tmp_path, console):
    (tmp_path / 'axes.yaml').write_text(TABLE)
    with NodeHere({
            'table': str(tmp_path / 'axes.yaml'), 'mapper.connect_timeout_s': 0.1,
            'control.generations': ['none']}, cls=AxisBridge).activate():
        wait_until(lambda: 'no pose for 0.1 s on /Chaser_1/pose, /target/pose' in console.unread())
        log = []
        wait_until(lambda: bodies.publish(bodies=('Chaser_1',)) or log.append(
            console.unread()) or 'axis x: valid' in ''.join(log))
        assert 'axis yaw: valid' not in ''.join(log)


def test_a_second_publisher_of_a_body_is_named_and_not_mixed_in(bodies, tmp_path, console):
    (tmp_path / 'axes.yaml').write_text(TABLE)
    with NodeHere({'table': str(tmp_path / 'axes.yaml'), 'control.generations': ['none']},
                  cls=AxisBridge).activate() as here, Observer('intruder') as intruder:
        topic = bodies.observer.listen(JointState, 'axis_states', 10)
        wait_until(lambda: bodies.publish() or any(
            m.position[0] == 0.25 for m in topic.messages(-1)))
        other = Bodies(intruder)
        other.x = 5.0
        wait_until(lambda: here.node.count_publishers('Chaser_1/pose') == 2)
        wait_until(lambda: bodies.publish() or other.publish(bodies=('Chaser_1',)) or (
            '/intruder and /observer publish /Chaser_1/pose: only' in console.unread()))
        until = time.monotonic() + 2.0
        wait_until(lambda: bodies.publish() or other.publish(bodies=('Chaser_1',)) or (
            time.monotonic() > until))
        assert not any(message.position[0] == 5.0 for message in topic.messages())
        assert topic.messages(-1)[0].position[0] == 0.25, 'the first goes on'
        assert any('publish /Chaser_1/pose' in each.message for each in here.node.diagnostics())
        intruder.close()
        wait_until(lambda: bodies.publish() or topic.messages(-1)[0].position[0] == 0.25)


def test_values_from_before_the_computer_slept_are_not_valid(bodies, tmp_path, monkeypatch):
    (tmp_path / 'axes.yaml').write_text(TABLE)
    clock = time.clock_gettime_ns
    with NodeHere({'table': str(tmp_path / 'axes.yaml'), 'mapper.max_age_s': 10.0,
                   'control.generations': ['none']}, cls=AxisBridge).activate() as here:
        def reasons():
            return [status.message for status in here.node.diagnostics()[1:]]

        wait_until(lambda: bodies.publish() or reasons() == ['valid', 'valid'])
        monkeypatch.setattr(time, 'clock_gettime_ns', lambda which: clock(which) + (
            60 * 10**9 if which == time.CLOCK_BOOTTIME else 0))
        wait_until(lambda: 'valid' not in reasons())
        seconds = [float(re.search(r'([0-9.]+) s ago', reason)[1]) for reason in reasons()]
        assert all(each >= 60.0 for each in seconds)


def test_teaching_from_the_command_line_writes_the_row(bodies, tmp_path):
    table = tmp_path / 'mine.yaml'
    program = subprocess.Popen(
        [sys.executable, '-m', 'optitrack_vrpn', 'axis_bridge', '--teach', 'x', '--frame', 'enu',
         '--distance', '-0.5', '--body', 'Chaser 1', '--write', str(table)], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, PYTHONUNBUFFERED='1'))
    out = []
    reader = threading.Thread(target=lambda: out.extend(iter(lambda: program.stdout.read(1), '')))
    reader.start()

    def answer(question, *movements):
        """Press Enter after a question and some poses."""
        wait_until(lambda: question in ''.join(out), 30.0, question)
        wait_until(bodies.publishers['Chaser_1'].get_subscription_count)
        for count, step in movements:
            bodies.publish(count, step)
        program.stdin.write('\n')
        program.stdin.flush()

    try:
        answer('stand still', (60, 0.0))
        answer('move axis x', (50, 0.01), (60, 0.0))
        assert program.wait(30) == 0, ''.join(out)
    finally:
        program.kill()
        program.wait()
        reader.join()
    line = next(each for each in ''.join(out).splitlines() if each.startswith('- {'))
    row, = yaml.safe_load(line)
    assert [row[key] for key in ('body', 'quantity', 'frame', 'sign', 'scale')] == [
        'Chaser 1', 'x', 'enu', -1, 1.0]
    assert 'sign: -1' in table.read_text()
