# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The bridge as a node: transitions, both transports, the check, and the doctor."""

import contextlib
import functools
import math
import re
import signal
import sys
import threading
import time

from diagnostic_msgs.msg import DiagnosticStatus, KeyValue
from nav_msgs.msg import Odometry
from optitrack_vrpn.core.rotation import angle_between
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.guests.autopilot.bridge_ros import MavlinkBridge
from optitrack_vrpn.guests.autopilot.check_ros import running
from optitrack_vrpn.guests.autopilot.fake_autopilot_io import FakeAutopilot, FakeConfig, FakeServer
from optitrack_vrpn.guests.autopilot.memory_io import SentMemory
from optitrack_vrpn.telling.doctor.graph_ros import Extensions
import pytest
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rosgraph import NodeHere, Observer, wait_until
from server_kit import free_port
from tf2_msgs.msg import TFMessage
from tool_kit import run_tool, start_tool

pytest.importorskip('pymavlink')

pytestmark = [pytest.mark.ros, pytest.mark.network]
S = math.sqrt(0.5)


class Body:
    """Publish what the node publishes of one body that looks east at (1, 2, 3)."""

    def __init__(self, observer, yaw_quat=(0.0, 0.0, 0.0, 1.0)):
        self._node = observer.node
        self._quat = yaw_quat
        self._status = self._node.create_publisher(DiagnosticStatus, '/cf1/status', QoSProfile(
            depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL))
        self._odom = self._node.create_publisher(Odometry, '/cf1/odom', 10)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.state('TRACKED')

    def state(self, state, resets=0, name='', **more):
        values = {'state': state, 'resets': str(resets), **more}
        self._status.publish(DiagnosticStatus(name=name, values=[
            KeyValue(key=key, value=value) for key, value in values.items()]))

    def _run(self):
        message = Odometry()
        message.pose.pose.position.x, message.pose.pose.position.y = 1.0, 2.0
        message.pose.pose.position.z = 3.0
        turn = message.pose.pose.orientation
        turn.x, turn.y, turn.z, turn.w = self._quat
        message.twist.twist.linear.x = 0.5
        message.pose.covariance[0::7] = [1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6]
        while not self._ended.wait(0.01):
            now = time.time_ns()
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(now, 10**9)
            self._odom.publish(message)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


@pytest.fixture
def observer():
    with Observer('cf1_source') as found:
        yield found


@pytest.fixture
def body(observer):
    with Body(observer) as found:
        yield found


def fake_server(parameters=None, **config):
    return FakeServer(FakeAutopilot(
        FakeConfig(epoch_ns=time.time_ns(), timesync_hz=50.0, convergence=20, **config),
        parameters))


@contextlib.contextmanager
def bridge(active=True, cls=MavlinkBridge, **parameters):
    """Run a bridge that is configured, and activated unless stated otherwise."""
    with NodeHere({'body': 'cf1', **parameters}, cls=cls) as here:
        here.run(here.node.trigger_configure)
        if active:
            here.run(here.node.trigger_activate)
        yield here


def finding(node, check):
    return next(one for one in node.findings() if one.check == check)


def test_poses_go_out_only_while_active_and_tracked(body):
    with fake_server() as server, bridge(False, connection=server.connection) as here:
        node = here.node

        def expect_silence(reason):
            count = len(server.heard)
            here.run(lambda: time.sleep(0.3))
            assert len(server.heard) <= count + 1, reason

        def wait_resets(count):
            first = server.heard[0].message.reset_counter
            wait_until(lambda: server.heard[-1].message.reset_counter == (
                first + count) % 256, what=f'{count} resets')

        wait_until(lambda: server.fake.companion, what='heartbeat')
        wait_until(lambda: node.firmware, what='the autopilot')
        assert not server.heard, 'inactive'
        here.run(node.trigger_activate)
        wait_until(lambda: len(server.heard) > 20, what='poses')
        first = server.heard[0].message
        assert first.get_type() == 'ODOMETRY'
        assert [first.x, first.y, first.z] == [2.0, 1.0, -3.0]
        assert first.q == pytest.approx([S, 0, 0, S], abs=1e-6)
        assert first.vx == 0.5

        body.state('STALE')
        wait_until(lambda: finding(node, 'input').values['state'] == 'STALE', what='the state')
        expect_silence('the body is not tracked')
        body.state('TRACKED', resets=1)
        wait_resets(1)
        here.run(node.trigger_deactivate)
        expect_silence('inactive')
        here.run(node.trigger_activate)
        wait_resets(2)
        here.run(node.trigger_deactivate)
        here.run(node.trigger_cleanup)
        assert node.findings() == []
        # The autopilot must see a reset after a new configuration, too.
        count, last = len(server.heard), server.heard[-1].message.reset_counter
        here.run(node.trigger_configure)
        here.run(node.trigger_activate)
        wait_until(lambda: len(server.heard) > count + 10, what='poses')
        assert last not in {
            one.message.reset_counter for one in server.heard[count + 1:]}


def test_a_count_that_is_no_number_of_python_does_not_end_the_bridge(body):
    with fake_server() as server, bridge(connection=server.connection) as here:
        wait_until(lambda: len(server.heard) > 5, what='poses')
        body.state('STALE', resets='9' * 5000)
        wait_until(lambda: here.failure or finding(here.node, 'input').values['state'] == 'STALE')
        assert here.failure is None


def test_a_second_node_with_other_axes_changes_nothing_but_is_named(body, console):
    turned = (0.0, 0.0, S, S)
    with fake_server(armed=True) as server, bridge(connection=server.connection) as here:
        wait_until(lambda: len(server.heard) > 20, what='poses')
        first = server.heard[-1].message
        with Observer('another_source') as other, Body(other, turned):
            wait_until(lambda: 'another_source' in finding(here.node, 'input').found)
            assert finding(here.node, 'input').severity is WARN
            wait_until(lambda: re.search('/another_source and /cf1_source publish .*only those',
                                         console.unread()))
            count = len(server.heard)
            wait_until(lambda: len(server.heard) > count + 20, what='poses of the first')
        count = len(server.heard)
        wait_until(lambda: len(server.heard) > count + 20, what='poses of the first')
        assert {tuple(one.message.q) for one in server.heard} == {tuple(first.q)}
        assert {one.message.reset_counter for one in server.heard} == {first.reset_counter}


@pytest.mark.parametrize('armed', [False, True])
def test_an_attitude_that_time_alone_accepted_is_not_sent_to_an_armed_vehicle(
        body, armed, console):
    with fake_server(armed=armed) as server, bridge(connection=server.connection) as here:
        wait_until(lambda: len(server.heard) > 20 and here.node.armed is armed, what='poses')
        counter = server.heard[-1].message.reset_counter
        body.state('TRACKED', resets=1, accepted_by_time='1', accepted_by_time_deg='30.0')
        wait_until(lambda: server.heard[-1].message.reset_counter != counter)
        body.state('TRACKED', resets=2, accepted_by_time='2', accepted_by_time_deg='90.0')
        if armed:
            wait_until(lambda: 'by time alone' in finding(here.node, 'sending').found)
            wait_until(lambda: re.search(
                'turn of 90 degrees; .*call the service accept_pose', console.unread()))
            count = len(server.heard)
            here.run(lambda: time.sleep(0.3))
            assert len(server.heard) <= count + 1
            assert finding(here.node, 'sending').values['withheld_doubtful'] > 0
            body.state('TRACKED', resets=2, accepted_by_time='2', accepted_by_time_deg='0.0')
        count = len(server.heard)
        wait_until(lambda: len(server.heard) > count + 20, what='poses')
        assert server.heard[-1].message.reset_counter == (counter + 2) % 256


def test_an_inactive_node_is_named(body):
    with fake_server() as server, bridge(connection=server.connection) as here:
        wait_until(lambda: len(server.heard) > 5, what='poses')
        body.state('TRACKED', node_state='inactive', name='mocap: body cf1')
        wait_until(lambda: 'the node mocap is inactive' in finding(here.node, 'input').found)
        assert 'ros2 lifecycle set mocap activate' in finding(here.node, 'input').advice


def test_the_status_of_a_second_node_is_not_that_of_the_body(body):
    """Its resets would be resets of the estimator, its state would stop the poses."""
    body.state('TRACKED', session='a')
    with fake_server(armed=True) as server, bridge(connection=server.connection) as here:
        wait_until(lambda: len(server.heard) > 20, what='poses')
        counter = server.heard[-1].message.reset_counter
        with Observer('another_source') as other:
            intruder = Body(other)
            for resets in range(10):
                body.state('TRACKED', session='a')
                intruder.state('STALE', resets=resets, session='b')
                time.sleep(0.05)
        assert finding(here.node, 'input').values['state'] == 'TRACKED'
        assert server.heard[-1].message.reset_counter == counter


def test_a_restart_never_begins_with_the_reset_counter_in_use():
    seen = set()
    for name in ('/bridge', '/lab/bridge') * 200:
        memory = SentMemory(name)
        last = memory.path.read_text() if memory.path.exists() else ''
        first, quat = memory.first(1000.0)
        assert 0 <= first <= 255 and str(first) != last and quat is None
        assert memory.keep(first, None, 1000.0) == ''
        assert memory.keep((first + 1) % 256, None, 1000.0) == ''
        seen.add(first)
    assert len(seen) > 150, 'random'
    for damaged in ('damaged', '5 1000.0 nan 0 0 1', '5 1000.0 0 0 0 2', '5 1 2'):
        memory.path.write_text(damaged)
        first, quat = memory.first(1000.0)
        assert 0 <= first <= 255 and quat is None


def test_a_restart_remembers_the_attitude_of_an_armed_vehicle_for_half_a_minute():
    writes = 0
    memory = SentMemory('/bridge')
    for i in range(1000):    # 20 s at 50 Hz and 90 deg/s
        half = math.radians(0.9 * i)
        quat = (0.0, 0.0, math.sin(half), math.cos(half))
        before = memory.path.stat().st_mtime_ns if i else 0
        assert memory.keep(7, quat, 1000.0 + i / 50) == ''
        writes += memory.path.stat().st_mtime_ns != before
    assert 150 < writes < 250, 'it follows, in few writes'
    counter, kept = SentMemory('/bridge').first(1049.0)
    assert counter != 7 and math.degrees(angle_between(kept, quat)) < 11.0
    assert SentMemory('/bridge').first(1051.0)[1] is None
    assert memory.keep(7, None, 1020.0) == ''
    assert SentMemory('/bridge').first(1021.0)[1] is None, 'disarmed'


@pytest.mark.parametrize('armed', [False, True])
def test_a_bridge_that_starts_again_in_flight_remembers_the_attitude_before(observer, armed):
    with fake_server(armed=armed) as server:
        with Body(observer), bridge(connection=server.connection) as here:
            wait_until(lambda: len(server.heard) > 20 and here.node.armed is armed, what='poses')

        def sent():
            return {tuple(one.message.q) for one in list(server.heard)}

        with Body(observer, (0.0, 0.0, 1.0, 0.0)), bridge(connection=server.connection) as here:
            if not armed:
                wait_until(lambda: len(sent()) == 2, what='poses in other axes')
                return
            wait_until(lambda: 'differs by more than 45 degrees' in finding(
                here.node, 'sending').found)
            assert len(sent()) == 1


@pytest.mark.parametrize('allowed', [False, True])
def test_a_stop_for_all_systems_is_refused_while_the_vehicle_is_armed(
        observer, body, allowed, console):
    control = pytest.importorskip('mocap4r2_control_msgs.msg', reason='control messages')
    commands = observer.node.create_publisher(control.Control, '/mocap4r2_control', 100)
    with fake_server(armed=True) as server, bridge(
            connection=server.connection, stop_while_armed=allowed) as here:
        wait_until(lambda: here.node.armed and len(server.heard) > 10, what='poses')
        wait_until(lambda: commands.get_subscription_count() >= 1, what='the bridge')
        commands.publish(control.Control(
            control_type=control.Control.STOP, mocap4r2_source='tester'))
        if allowed:
            wait_until(lambda: here.node.lifecycle_label == 'inactive')
            return
        wait_until(lambda: re.search(
            "STOP from .*not acknowledged: /mavlink_bridge sends the poses of 'cf1', and the "
            'vehicle is armed', console.unread()))
        count = len(server.heard)
        wait_until(lambda: len(server.heard) > count + 10, what='poses')
        assert here.node.lifecycle_label == 'active'
        here.run(here.node.trigger_deactivate)    # a person decides otherwise
        assert here.node.lifecycle_label == 'inactive'


def test_the_log_states_why_nothing_is_sent(unused_port, console):
    impatient = functools.partial(MavlinkBridge, idle_s=0.1)
    with bridge(cls=impatient, connection=f'udpin:127.0.0.1:{unused_port}'):
        said = []

        def told():
            said.append(console.unread())
            return re.search(r'sent for 0\.1 s: .* /cf1/odom .*no heartbeat', ''.join(said))
        wait_until(told)
        assert 'before a heartbeat' not in ''.join(said), 'each cause once'


def test_mocap_control_starts_and_stops_the_poses(observer, body):
    control = pytest.importorskip('mocap4r2_control_msgs.msg', reason='control messages')
    heard = []
    observer.node.create_subscription(
        control.Control, '/mocap4r2_control',
        lambda message: heard.append((message.control_type, message.mocap4r2_source)), 100)
    commands = observer.node.create_publisher(control.Control, '/mocap4r2_control', 100)
    kinds = control.Control
    with fake_server() as server, bridge(False, connection=server.connection) as here:
        node = here.node
        wait_until(lambda: node.firmware, what='the autopilot')
        wait_until(lambda: commands.get_subscription_count() >= 2, what='the bridge')

        def command(kind, answer):
            del heard[:]
            commands.publish(control.Control(
                control_type=kind, session_id='take 7', mocap4r2_source='tester',
                mocap4r2_systems=[node.get_name()]))
            wait_until(lambda: (answer, node.get_name()) in heard, what='the acknowledgement')

        assert not server.heard, 'inactive'
        for counter in (0, 1):
            count = len(server.heard)
            command(kinds.START, kinds.ACK_START)
            assert node.lifecycle_label == 'active'
            wait_until(lambda count=count: len(server.heard) > count + 10, what='poses')
            assert server.heard[-1].message.reset_counter == (
                server.heard[0].message.reset_counter + counter) % 256
            command(kinds.STOP, kinds.ACK_STOP)
            assert node.lifecycle_label == 'inactive'
            count = len(server.heard)
            here.run(lambda: time.sleep(0.2))
            assert len(server.heard) <= count + 1, 'poses after STOP'
        # A command for another system leaves it alone.
        commands.publish(control.Control(
            control_type=kinds.START, session_id='take 8', mocap4r2_source='tester',
            mocap4r2_systems=['another_system']))
        command(kinds.STOP, kinds.ACK_STOP)
        assert node.lifecycle_label == 'inactive'


def test_findings_are_read_by_the_check_and_by_the_doctor(observer, body):
    with fake_server(parameters={'EKF2_HGT_REF': 1}) as server, bridge(
            False, connection=server.connection) as here:
        wait_until(lambda: finding(here.node, 'parameters').values, what='parameters')
        found = running([], 10.0, 'mavlink_bridge')['mavlink_bridge']
        levels = {one.check: one.severity for one in found}
        assert levels['input'] is levels['link'] is levels['autopilot'] is INFO
        assert levels['sending'] is None, 'what was not examined is no result'
        wrong = next(one for one in found if one.check == 'parameters')
        assert wrong.severity is ERROR
        assert wrong.found.startswith('EKF2_HGT_REF is 1; set it to 3')
        assert 'reboot' in wrong.found
        assert wrong.advice.startswith('set them')

        node = here.node
        doctor = Extensions(observer.node)
        reported = wait_until(lambda: [
            one for one in doctor.findings(time.sleep) if 'EKF2_HGT_REF' in one.found], 15.0)
        assert reported[0].check == 'bridge'
        assert reported[0].severity is ERROR
        assert reported[0].found.startswith(f'{node.get_name()}: parameters: EKF2_HGT_REF')


def test_the_check_tells_of_a_body_that_does_not_look_out_of_the_nose(body):
    with fake_server(parameters={'EKF2_EV_CTRL': 1}, yaw_error=math.pi / 2) as server:
        result = run_tool(
            'mavlink_bridge', '--check', '--send', '--seconds', '3', '--ros-args', '-p',
            'body:=cf1', '-p', f'connection:={server.connection}')
    assert result.returncode == 2, result.stderr
    assert re.search('FAIL +agreement +yaw differs by 90 degrees', result.stdout), result.stdout
    assert re.search('FAIL +parameters +EKF2_EV_CTRL is 1; set it to 15', result.stdout)
    assert re.search('OK +autopilot +PX4', result.stdout)
    assert re.search('OK +estimator', result.stdout)


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
def test_a_check_that_a_signal_ends_prints_no_traceback(number):
    check = start_tool(
        'mavlink_bridge', '--check', '--ros-args', '-p', 'body:=cf1', '-p',
        f'connection:=udpin:127.0.0.1:{free_port()}')
    with check:
        while 'is open' not in check.stderr.readline():
            assert check.poll() is None
        check.send_signal(number)
        _, rest = check.communicate(timeout=20)
    assert 'Traceback' not in rest
    assert check.returncode != 0


def test_the_check_sends_nothing_to_a_vehicle_that_was_armed_meanwhile(body):
    with fake_server() as server:
        check = start_tool(
            'mavlink_bridge', '--check', '--send', '--seconds', '4', '--ros-args', '-p',
            'body:=cf1', '-p', f'connection:={server.connection}')
        try:
            wait_until(lambda: len(server.heard) > 10, 30.0, 'poses')
            server.fake.config = server.fake.config._replace(armed=True)
            armed_ns = time.time_ns()
            assert 'sends no pose' in ''.join(check.communicate(timeout=30))
        finally:
            check.kill()
            check.wait()
    # The heartbeat tells it once a second.
    assert server.heard[-1].arrival_ns - armed_ns < 1_500_000_000


def test_px4_over_dds(observer, body):
    px4_msgs = pytest.importorskip('px4_msgs.msg')
    # As PX4's agent subscribes: best effort, volatile.
    topic = observer.listen(
        px4_msgs.VehicleOdometry, '/fmu/in/vehicle_visual_odometry',
        QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT))
    with bridge(transport='dds') as here:
        topic.wait(10)
        message = topic.messages()[-1]
        assert list(message.position) == [2.0, 1.0, -3.0]
        assert list(message.q) == pytest.approx([S, 0, 0, S], abs=1e-6)
        assert (message.pose_frame, message.velocity_frame) == (2, 3)
        assert list(message.position_variance) == pytest.approx([2e-6, 1e-6, 3e-6])
        assert list(message.velocity) == [0.5, 0.0, 0.0]
        assert math.isnan(message.velocity_variance[0])
        assert message.timestamp_sample == message.timestamp
        assert abs(message.timestamp_sample - time.time_ns() // 1000) < 5_000_000
        levels = {one.check: one.severity for one in here.node.findings()}
        assert levels['link'] is INFO
        assert levels['autopilot'] is None


def test_ardupilot_over_dds_gets_transforms(observer, body):
    with bridge(transport='dds', autopilot='ardupilot') as here:
        link = finding(here.node, 'link')
        assert link.severity is WARN and 'start the agent' in link.advice
        wait_until(lambda: finding(here.node, 'sending').values['samples'] > 10)
        before = finding(here.node, 'sending').values['reset_counter']
        # As AP_DDS subscribes: a reliable subscription would get nothing.
        topic = observer.listen(TFMessage, '/ap/tf', QoSProfile(
            depth=5, reliability=ReliabilityPolicy.BEST_EFFORT))
        topic.wait(5)
        assert finding(here.node, 'sending').values['reset_counter'] == (before + 1) % 256
        moved, = topic.messages()[-1].transforms
        assert (moved.header.frame_id, moved.child_frame_id) == ('odom', 'base_link')
        translation, rotation = moved.transform.translation, moved.transform.rotation
        # North, west, up; the nose east is a quarter turn clockwise from north.
        assert (translation.x, translation.y, translation.z) == (2.0, -1.0, 3.0)
        assert (rotation.x, rotation.y, rotation.z, rotation.w) == pytest.approx((0, 0, -S, S))


def test_px4_over_dds_uses_the_topic_that_is_set():
    pytest.importorskip('px4_msgs.msg')
    topic = '/fmu/in/vehicle_visual_odometry_v1'
    with bridge(False, transport='dds', **{'dds.topic': topic}) as here:
        assert here.node.count_publishers(topic) == 1


@pytest.mark.parametrize(('parameters', 'hidden', 'words'), [
    ({'transport': 'dds'}, 'px4_msgs', 'px4_msgs, which is not installed'),
    ({}, 'pymavlink', 'python3-pymavlink-pip'),
    ({'body': ''}, '', 'name the body'),
    ({'body': 'a b'}, '', 'a b'),
    ({'connection': 'udpout:nowhere'}, '', 'udpin:HOST:PORT'),
    ({'rate_hz': 99.0}, '', 'at most 95 Hz'),
    ({'autopilot': 'px5'}, '', 'px4, ardupilot')])
def test_what_cannot_work_is_refused_with_what_to_do(parameters, hidden, words, monkeypatch,
                                                     console):
    if hidden:
        for name in [name for name in sys.modules if name.split('.')[0] == hidden]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, hidden, None)
    with bridge(False, **parameters) as here:
        assert here.node.lifecycle_label == 'unconfigured'
        wait_until(lambda: words in console.unread(), 5.0, words)
