# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The node gantry_controller: services, topics, recording; and the whole loop with gantry_sim."""

from collections import defaultdict
import contextlib
import csv
import math
import os
from pathlib import Path
import signal
import threading
import time

from conftest import lacking
from diagnostic_msgs.msg import DiagnosticStatus
from gantry_graph import Axes, controller, NODE, User
from gantry_kit import ORION
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine import gantry_command as command
from optitrack_vrpn.guests.machine.axis_bridge_ros import AxisBridge
from optitrack_vrpn.guests.machine.gantry_controller_ros import GantryController
from optitrack_vrpn.guests.machine.gantry_sim_io import UdpMachine
from optitrack_vrpn.guests.machine.machine import Machine
from optitrack_vrpn.guests.machine.machine_io import load_machine
from optitrack_vrpn.guests.machine.services_ros import COMMANDS, GantryClient, load_file, serve
from optitrack_vrpn.takes.export import export_command
import pytest
from rcl_interfaces.msg import Parameter, ParameterValue
from rcl_interfaces.srv import SetParameters
from rosgraph import NodeHere, NodeProcess, Observer, wait_until
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

pytestmark = [pytest.mark.ros, pytest.mark.network]


def test_a_user_moves_and_stops_the_simulated_machine(observer, tmp_path):
    user = User(observer)
    with controller(active=False) as here:
        axes = Axes(observer)
        trajectory = observer.node.create_publisher(
            JointTrajectory, f'{NODE}/joint_trajectory', 10)
        stream = observer.node.create_publisher(JointState, f'{NODE}/stream', 10)
        assert 'not active' in user.set('jog', chaser_x=0.01)[0]
        assert here.run(here.node.trigger_activate).name == 'SUCCESS'
        assert user.set('jog', chaser_x=0.02, target_yaw=2.0) == []
        axes.wait_position('target_yaw', 2.0)
        axes.wait_position('chaser_x', 0.02)
        assert 'soft limits' in user.set('go_to', chaser_x=99.0)[0]
        assert 'expected a number' in user.set('jog', chaser_x='far')[0]
        assert 'no axis' in user.set('jog', nothing=1.0)[0]
        wait_until(lambda: axes.commanded.messages(-1)[0].position[4] == pytest.approx(
            math.radians(2.0)))
        assert axes.commanded.messages(-1)[0].name[4] == 'target_yaw'
        # lock, unlock, sine, mode
        assert user.set('lock', all=True) == []
        axes.wait_mode('chaser_x', 'lock')
        assert 'locked' in user.set('jog', chaser_x=0.1)[0]
        assert user.set('lock', all=False) == []
        assert user.set('sine', chaser_x=[0.01, 0.2]) == []
        axes.wait_mode('chaser_x', 'sine')
        assert user.set('mode', chaser_x='manual') == []
        axes.wait_mode('chaser_x', 'manual')
        assert 'expected one of' in user.set('mode', chaser_x='dance')[0]
        # a velocity, and limits
        assert user.set('velocity', target_pitch=0.5) == []
        axes.wait_mode('target_pitch', 'velocity')
        wait_until(lambda: axes.value('target_pitch', 'velocity') == 0.5)
        assert axes.status('target_pitch')[1]['target'] == '0.50/s'
        assert user.set('soft_limits', target_pitch=[-5.0, 2.0]) == []
        assert user.set('max_velocity', target_pitch=1.0) == []
        assert 'up to 60' in user.set('max_acceleration', target_pitch=61.0)[0]
        wait_until(lambda: 'soft_limit' in axes.status('target_pitch')[1]['warnings'])
        axes.wait_position('target_pitch', 2.0)
        cells = axes.status('target_pitch')[1]
        assert (cells['limits'], cells['fastest']) == ('-5..2', '1/s, 60/s^2')
        wait_until(lambda: axes.value('chaser_x', 'velocity') == 0.0)
        # stream
        assert user.set('mode', chaser_y='stream') == []
        wait_until(lambda: stream.get_subscription_count())
        wait_until(lambda: stream.publish(JointState(
            name=['chaser_y'], position=[0.005])) or axes.value('chaser_y') == 0.005)
        axes.wait_mode('chaser_y', 'stopping')    # the stream has ended
        assert 'stream_lost' in axes.status('chaser_y')[1]['warnings']
        # a JointTrajectory, and the thesis's file
        wait_until(lambda: trajectory.get_subscription_count())
        points = []
        for seconds, x in ((0, 2.0), (1, 3.0)):
            point = JointTrajectoryPoint(positions=[math.radians(x)], velocities=[0.0])
            point.time_from_start.sec = seconds
            points.append(point)
        trajectory.publish(JointTrajectory(joint_names=['target_yaw'], points=points))
        axes.wait_mode('target_yaw', 'trajectory')
        axes.wait_position('target_yaw', 3.0)
        (tmp_path / 'move.txt').write_text('t;chaser_yaw\n' + ''.join(
            f'{k / 100};{5 + 0.075 * (1 - math.cos(math.pi * k / 50))}\n' for k in range(51)))
        assert user.set('trajectory_file', file=str(tmp_path / 'move.txt')) == []
        axes.wait_position('chaser_yaw', 0.15)
        assert 'cannot be read' in user.set('trajectory_file', file='/no/such/file')[0]
        # without mocap the loop does not stay closed
        assert user.set('tracking', chaser_x=True) == []
        wait_until(lambda: 'mocap_lost' in axes.status('chaser_x')[1]['warnings'])
        assert axes.status('chaser_x')[1]['tracking'] == 'open'
        # stop and emergency stop
        user.set('jog', chaser_x=0.3)
        assert user.trigger('stop')
        axes.wait_mode('chaser_x', 'stopping')
        assert user.trigger('emergency_stop')
        axes.wait_mode('chaser_x', 'emergency')
        assert 'reset' in user.set('jog', chaser_x=-0.1)[0]
        assert 'by ~/emergency_stop' in here.node.diagnostics()[0].message
        assert user.trigger('reset')
        axes.wait_mode('chaser_x', 'stopping')
        assert here.run(here.node.trigger_deactivate).name == 'SUCCESS'
        assert here.run(here.node.trigger_cleanup).name == 'SUCCESS'


def test_a_recording_of_the_controller_becomes_the_table_of_the_thesis(observer, tmp_path):
    user = User(observer)
    with controller(), NodeProcess(
            '-o', tmp_path / 'run', '--topic', '*gantry_controller/*', tool='record',
            ros=False) as record:
        axes = Axes(observer)
        record.wait_for('recording')
        wait_until(lambda: observer.node.count_subscribers(f'{NODE}/state'))
        assert user.set('go_to', chaser_x=0.05, target_yaw=2.0) == []
        axes.wait_position('target_yaw', 2.0)
        axes.wait_position('chaser_x', 0.05)
        time.sleep(0.2)
        assert record.end()[0] == 0
    # The file has no pose and no other machine.
    assert export_command.main([str(tmp_path / 'run'), '--format', 'gantry', '-o',
                                str(tmp_path / 'run.csv')]) == 0
    with open(tmp_path / 'run.csv', newline='') as file:
        header, *rows = csv.reader(file, delimiter=';')
    assert len(rows) > 50 and {len(row) for row in rows} == {1 + 3 * 6 + 3 * 6 + 6}
    assert header[:3] == ['time_ms', 'chaser_x_position', 'chaser_y_position']
    assert header[19:22] == ['chaser_x_a', 'chaser_x_b', 'chaser_x_c']
    last = dict(zip(header, rows[-1]))
    assert (float(last['chaser_x_position']), float(last['target_yaw_position'])) == (0.05, 2.0)
    assert last['chaser_x_mocap'] == '', 'no mocap: empty, and not 0'
    assert max(float(row[header.index('target_yaw_velocity')]) for row in rows) > 1.0
    # The cubic of a row leads from where the row before it ends; in open loop that is exact.
    for before, after in zip(rows, rows[1:]):
        if float(after[0]) - float(before[0]) < 15.0:
            a, b, c = map(float, after[19:22])
            assert float(before[1]) + 0.01 * (a + 0.01 * (b + 0.01 * c)) == pytest.approx(
                float(after[1]), abs=1e-8)


@pytest.mark.parametrize('value', [
    ParameterValue(type=8, double_array_value=[1.0]), ParameterValue(type=99), ParameterValue()])
@pytest.mark.parametrize('service', COMMANDS)
def test_a_request_with_any_type_of_value_is_answered(service, value):
    request = SetParameters.Request(parameters=[Parameter(name='chaser_x', value=value)])
    answer = serve(lambda: Machine(ORION), service, request, SetParameters.Response())
    result, = answer.results
    assert not result.successful and 'expected' in result.reason


@pytest.mark.parametrize('kind', ['mkfifo', 'mkdir'])
def test_a_trajectory_is_read_from_a_regular_file_only(tmp_path, kind):
    path = tmp_path / 'path'
    getattr(os, kind)(path)
    with pytest.raises(ConfigurationError, match='regular file'):
        load_file(Machine(ORION), {'file': str(path)})


@pytest.fixture
def held_file(monkeypatch):
    """Hold who reads a CSV file until a test says; gives the events of its begin and its end."""
    begun, go_on, read = threading.Event(), threading.Event(), Path.read_text

    def held(path, *arguments, **options):
        begun.set()
        assert go_on.wait(30.0)
        return read(path, *arguments, **options)
    monkeypatch.setattr(Path, 'read_text', lambda path, *arguments, **options: (
        held if path.suffix == '.csv' else read)(path, *arguments, **options))
    return begun, go_on


def test_commands_wait_neither_for_a_file_nor_for_an_activation(observer, tmp_path, held_file):
    """The cycles go on while a file is read; an inactive node can cut the power."""
    user = User(observer)
    with controller(active=False) as here:
        axes = Axes(observer)
        assert user.trigger('emergency_stop')
        axes.wait_mode('chaser_x', 'emergency')
        assert not user.trigger('reset')
        assert here.run(here.node.trigger_activate).name == 'SUCCESS'
        assert axes.status('chaser_x')[0] == 'emergency' and user.trigger('reset')
        path = tmp_path / 'long.csv'
        path.write_text(''.join(f'{k / 100:.2f};0;0;0;0;0;0\n' for k in range(1000)))
        answers = []
        reading = threading.Thread(
            target=lambda: answers.append(user.set('trajectory_file', file=str(path))))
        with Observer('other') as other:
            assert User(other).trigger('stop')
            reading.start()
            assert held_file[0].wait(20.0)
            before = len(axes.commanded)
            assert User(other).trigger('stop') and not answers
            wait_until(lambda: len(axes.commanded) > before + 3)
        held_file[1].set()
        reading.join(20.0)
        # neither the stop nor the cycles waited, and what was read begins after no stop
        assert 'another command' in answers[0][0]
        assert axes.status('chaser_x')[0] == 'stopping'
        assert user.set('trajectory_file', file=str(path)) == []
        axes.wait_mode('chaser_x', 'trajectory')


def test_a_file_that_is_read_during_a_deactivation_moves_no_axis(
        observer, tmp_path, held_file):
    """The deactivation waits until x stands; y must not begin meanwhile."""
    (tmp_path / 'm.yaml').write_text('axes: [' + ', '.join(
        f'{{name: {name}, steps_per_unit: 1000, max_acceleration: 0.04, max_jerk: 4.0}}'
        for name in 'xy') + ']')
    path = tmp_path / 'long.csv'
    path.write_text('t;y\n' + ''.join(
        f'{k};{0.1 * (1 - math.cos(math.pi * k / 150)):.6f}\n' for k in range(301)))
    with controller(machine=str(tmp_path / 'm.yaml')) as here, Observer('other') as other:
        axes = Axes(observer)
        assert User(observer).set('velocity', x=0.15) == []
        wait_until(lambda: axes.value('x', 'velocity') == 0.15)
        answers = []
        reading = threading.Thread(
            target=lambda: answers.append(User(other).set('trajectory_file', file=str(path))))
        reading.start()
        assert held_file[0].wait(20.0)
        before = len(axes.commanded)
        # The file has been read while the deactivation waits until x stands.
        threading.Timer(0.5, held_file[1].set).start()
        assert here.run(here.node.trigger_deactivate).name == 'SUCCESS'
        reading.join(20.0)
        axes.next_view()
        assert [axes.status(name)[0] for name in 'xy'] == ['stopping'] * 2
        assert {each.position[1] for each in axes.commanded.messages(before)} == {0.0}
        assert answers[0]


def test_diagnostics_say_why_the_machine_does_not_answer(unused_port):
    with controller(driver='udp', machine_port=unused_port) as here:
        wait_until(lambda: 'cannot be reached' in here.node.diagnostics()[0].message)
        assert here.node.diagnostics()[0].level == DiagnosticStatus.ERROR
        wait_until(lambda: here.node.diagnostics()[1].message == 'stopping: machine_lost')


def test_a_power_cut_by_the_machine_is_logged_with_its_reason(observer, console):
    with contextlib.closing(UdpMachine(ORION)) as machine, controller(
            driver='udp', machine_port=machine.port) as here:
        axes = Axes(observer)
        axes.wait_mode('chaser_x', 'stopping')
        machine.pressed = True
        log = []
        wait_until(lambda: log.append(console.unread()) or (
            'emergency stop: the machine reports' in ''.join(log)))
        machine.pressed = False
        wait_until(lambda: User(observer).trigger('reset') and (
            axes.next_view() or axes.status('chaser_x')[0] == 'stopping'))
        assert here.node.diagnostics()[0].message == 'running'


def test_the_values_of_a_second_publisher_are_named_and_not_used(observer):
    with controller() as here, Observer('intruder') as intruder:
        axes = Axes(observer)
        assert User(observer).set('mode', chaser_x='stream') == []
        first = observer.node.create_publisher(JointState, f'{NODE}/stream', 10)

        def send(publisher, position):
            publisher.publish(JointState(name=['chaser_x'], position=[position]))
        wait_until(lambda: send(first, 0.002) or axes.value('chaser_x') == 0.002)
        second = intruder.node.create_publisher(JointState, f'{NODE}/stream', 10)
        wait_until(lambda: here.node.count_publishers(f'{NODE}/stream') == 2)

        def named():
            send(first, 0.002)
            send(second, 0.3)
            text = ' '.join(each.message for each in here.node.diagnostics())
            return not lacking(text, 'intruder', 'observer', 'only those that continue the first')
        wait_until(named)
        until = time.monotonic() + 2.0
        wait_until(lambda: named() and time.monotonic() > until)
        assert axes.value('chaser_x') == 0.002, 'the first goes on'
        assert 'stream_lost' not in axes.status('chaser_x')[1]['warnings']


def test_a_motion_does_not_continue_when_the_computer_wakes_up(observer, monkeypatch):
    user, clock = User(observer), time.clock_gettime_ns
    with controller():
        axes = Axes(observer)
        assert user.set('sine', chaser_x=[0.01, 0.2]) == []
        axes.wait_mode('chaser_x', 'sine')
        monkeypatch.setattr(time, 'clock_gettime_ns', lambda which: clock(which) + (
            60 * 10**9 if which == time.CLOCK_BOOTTIME else 0))
        axes.wait_mode('chaser_x', 'stopping')
        assert 'machine_lost' in axes.status('chaser_x')[1]['warnings']


def test_deactivating_ends_the_reference_because_the_machine_counts_anew(observer, tmp_path):
    (tmp_path / 'm.yaml').write_text(
        'axes: [{name: x, steps_per_unit: 1000, reference_velocity: -0.2, '
        'plant: {reference: -0.1}}]')
    with controller(machine=str(tmp_path / 'm.yaml')) as here:
        axes = Axes(observer)
        assert User(observer).set('home', x=True) == []
        wait_until(lambda: axes.status('x')[1].get('referenced') == 'yes')
        for transition in (here.node.trigger_deactivate, here.node.trigger_activate):
            assert here.run(transition).name == 'SUCCESS'
        axes.next_view()
        axes.next_view()
        assert axes.status('x')[1]['referenced'] == 'no'


def test_an_interrupt_stops_a_moving_axis_under_control():
    """ROS shuts down before the node; publishing fails meanwhile and must not stop the axis."""
    speeds = []
    with contextlib.closing(UdpMachine(load_machine('gantry_orion'))) as machine:
        run = machine.machine.run

        def watch(cubics, *rest):
            speeds.append(cubics['chaser_x'].a)
            run(cubics, *rest)
        machine.machine.run = watch
        with NodeProcess('-p', 'autostart:=true', '-p', 'driver:=udp', '-p',
                         f'machine_port:={machine.port}', tool='gantry_controller') as gantry:
            wait_until(lambda: speeds)
            wait_until(lambda: command.main(['jog', 'chaser_x', '1']) == 0)
            wait_until(lambda: machine.machine.axes['chaser_x'].position > 0.2, what='0.2 m')
            assert gantry.end()[0] == 0
    assert max(speeds) == pytest.approx(0.25) and abs(speeds[-1]) < 1e-9
    assert max(abs(b - a) for a, b in zip(speeds, speeds[1:])) < 0.25 * 0.01 + 1e-6


@pytest.mark.slow
def test_the_whole_loop_with_gantry_sim_node_bridge_and_controller(observer):
    """
    Everything in its own processes, over UDP, VRPN and ROS, with a network that delays.

    The simulated machine slips and the loop is closed over the simulated Motive. The target is
    out of view, so that its axes leave the closed loop; then the bridge ends, and all do.
    """
    user = User(observer)
    sim = NodeProcess('--machine-port', '0', '--port', '0', '--noise-mm', '0.1', '--jitter-ms',
                      '3', '--occlude', 'target:silent:0-', tool='gantry_sim', ros=False)
    with sim:
        machine = sim.wait_for(r'machine on 127\.0\.0\.1:(\d+)').group(1)
        motive = sim.wait_for(r'listening on 127\.0\.0\.1:(\d+)').group(1)
        with NodeProcess('-p', 'server:=127.0.0.1', '-p', f'port:={motive}', '-p',
                         'autostart:=true'), \
                NodeProcess('-p', 'table:=axes_orion', '-p', 'autostart:=true',
                            tool='axis_bridge') as bridge, \
                NodeProcess('-p', 'driver:=udp', '-p', f'machine_port:={machine}', '-p',
                            'autostart:=true', tool='gantry_controller') as gantry, \
                GantryClient(NODE) as client:
            def cells(name='chaser_x'):
                return defaultdict(str, next(
                    (dict(c, mode=mode) for n, mode, c in client.axes()[0] if n == name), {}))
            measured = observer.listen(JointState, f'{NODE}/measured', 10)
            wait_until(lambda: cells().get('measured'), 30.0, 'a measured axis')
            assert user.set('tracking', all=True) == []
            assert user.set('jog', chaser_x=0.1, chaser_pitch=5.0) == []
            wait_until(lambda: cells().get('position') == '0.1000', 15.0)

            def closed():
                """Close the loop again that poses have left which a busy machine delayed."""
                now = cells()
                if now['tracking'] == 'open':
                    user.set('tracking', chaser_x=True)
                return now['tracking'] == 'closed' and now['warnings'] == '' and abs(
                    float(now['measured'] or 9.9) - 0.1) < 3e-3
            wait_until(closed, 20.0, '0.1 m measured in a closed loop')
            wait_until(lambda: (lambda now: (now['tracking'], now['warnings']))(
                cells('target_pitch')) == ('open', 'mocap_lost'), 10.0, 'an open loop')
            message = next(m for m in measured.messages()[::-1]
                           if not math.isnan(m.position[0]))
            assert abs(message.position[0] - 0.1) < 5e-3
            assert abs(message.position[3] - math.radians(5.0)) < math.radians(1.0)
            assert all(math.isnan(m.position[5]) for m in measured.messages())
            sim.process.send_signal(signal.SIGUSR1)     # the emergency button
            wait_until(lambda: cells()['mode'] == 'emergency', 10.0)
            assert user.set('jog', chaser_x=0.5) != []
            sim.process.send_signal(signal.SIGUSR1)
            wait_until(lambda: user.trigger('reset') and cells()['mode'] == 'stopping', 10.0)
            assert user.set('tracking', all=True) == []
            assert user.set('jog', chaser_x=0.5) == []
            bridge.end()
            wait_until(lambda: (lambda now: 'mocap_lost' in now['warnings'] and (
                now['mode'], now['tracking']) == ('stopping', 'open'))(cells()), 10.0,
                'a stop without mocap')
            assert gantry.process.poll() is None


def test_bridge_and_controller_follow_mocap_control(observer):
    msgs = pytest.importorskip('mocap4r2_control_msgs.msg')
    with NodeHere({'control.configure_on_start': True}, cls=AxisBridge) as bridge, \
            NodeHere({'control.configure_on_start': True}, cls=GantryController) as gantry:
        both = (bridge.node, gantry.node)
        publisher = observer.node.create_publisher(msgs.Control, '/mocap4r2_control', 10)
        wait_until(lambda: publisher.get_subscription_count() >= 2)
        for number, label in ((msgs.Control.START, 'active'), (msgs.Control.STOP, 'inactive')):
            publisher.publish(msgs.Control(
                control_type=number, mocap_source='test', session_id='take',
                mocap_systems=[node.get_name() for node in both]))
            wait_until(lambda want=label: {n.lifecycle_label for n in both} == {want}, what=label)
