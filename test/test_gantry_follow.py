# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Trajectories as goals of FollowJointTrajectory and as messages; calibration through the node."""

import itertools
import math
import threading
import time

from action_msgs.msg import GoalStatus
from conftest import lacking
from gantry_graph import Axes, controller, NODE, User
from gantry_kit import ORION, Rig, settings_of
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.machine import Feedback, Goal, Machine, Tolerances
from optitrack_vrpn.guests.machine.services_ros import paths_of
from optitrack_vrpn.guests.machine.setpoints import AxisMotion
from optitrack_vrpn.guests.machine.states import Mode
from optitrack_vrpn.guests.machine.trajectory import make_trajectory
import pytest
from rclpy.action import ActionClient
from rclpy.duration import Duration
from rclpy.time import Time
from rosgraph import wait_until
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint


class Client:
    """Use the action as any user would."""

    def __init__(self, observer):
        actions = pytest.importorskip(
            'control_msgs.action', reason='control_msgs is not installed')
        self.kind = actions.FollowJointTrajectory
        self.feedback = []
        self._client = ActionClient(
            observer.node, self.kind, f'{NODE}/follow_joint_trajectory')
        assert self._client.wait_for_server(20.0)

    def send(self, points, name='target_yaw', **fields):
        """Send a goal with positions (deg) at times (s); gives its handle."""
        trajectory = JointTrajectory(joint_names=[name], points=[
            JointTrajectoryPoint(positions=[math.radians(x)], velocities=[0.0])
            for _, x in points])
        for point, (seconds, _) in zip(trajectory.points, points):
            point.time_from_start.sec = seconds
        return self.wait(self._client.send_goal_async(
            self.kind.Goal(trajectory=trajectory, **fields),
            lambda message: self.feedback.append(message.feedback)))

    def result(self, handle):
        """Give the status and the result of a goal."""
        found = self.wait(handle.get_result_async())
        return found.status, found.result

    def cancel(self, handle):
        """Ask for the end of a goal; True if it was accepted."""
        return bool(self.wait(handle.cancel_goal_async()).goals_canceling)

    def wait(self, future):
        """Wait for the answer of the controller, and return it."""
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        assert done.wait(20.0)
        return future.result()


@pytest.mark.ros
@pytest.mark.network
def test_goals_of_the_action_succeed_and_are_canceled_rejected_and_aborted(observer, console):
    with controller(active=False) as here:
        client, user = Client(observer), User(observer)
        assert not client.send([(1, 1.0)]).accepted
        assert 'not active' in console.unread()
        assert here.run(here.node.trigger_activate).name == 'SUCCESS'
        axes = Axes(observer)
        axes.wait_mode('target_yaw', 'stopping')
        cycles = len(axes.commanded)

        handle = client.send([(0, 0.0), (1, 2.0)])
        assert handle.accepted
        status, result = client.result(handle)
        assert (status, result.error_code, result.error_string) == (
            GoalStatus.STATUS_SUCCEEDED, client.kind.Result.SUCCESSFUL, '')
        axes.wait_position('target_yaw', 2.0)
        assert len(axes.commanded) - cycles > 50     # the loop went on meanwhile
        moving = [f for f in client.feedback if f.desired.velocities[0] > 0.0]
        assert moving and all(0.0 < f.desired.positions[0] < math.radians(2.0) for f in moving)
        assert client.feedback[0].joint_names == ['target_yaw']

        # rejected: unknown joints, what cannot be checked, and a second goal for the same axis
        assert not client.send([(1, 1.0)], name='nothing').accepted
        assert "'nothing' are not" in console.unread()
        assert not client.send([(0, 50.0), (1, 51.0)]).accepted
        assert 'first point is 48 deg' in console.unread()
        from control_msgs.msg import JointTolerance
        assert not client.send([(1, 3.0)], path_tolerance=[
            JointTolerance(name='target_yaw', position=0.1)]).accepted
        assert 'no measurement in' in console.unread()

        # canceled: the axis stops under control, short of the end
        handle = client.send([(20, 12.0)])
        wait_until(lambda: axes.value('target_yaw', 'velocity') > 0.3)
        assert not client.send([(1, 3.0)]).accepted
        assert 'another goal' in console.unread()
        assert client.cancel(handle)
        status, result = client.result(handle)
        assert status == GoalStatus.STATUS_CANCELED
        axes.next_view()
        assert axes.status('target_yaw')[0] == 'stopping'
        assert axes.value('target_yaw', 'velocity') == 0.0
        assert 2.0 < axes.value('target_yaw') < 11.0

        # aborted: emergency stop
        handle = client.send([(20, 20.0)])
        wait_until(lambda: axes.value('target_yaw', 'velocity') > 0.3)
        assert user.trigger('emergency_stop')
        status, result = client.result(handle)
        assert status == GoalStatus.STATUS_ABORTED
        assert result.error_code == client.kind.Result.PATH_TOLERANCE_VIOLATED
        assert not lacking(result.error_string, 'target_yaw: ', 'ended by emergency')
        assert not client.send([(1, 3.0)]).accepted      # not before a reset
        assert not lacking(console.unread(), 'target_yaw', 'emergency')
        assert user.trigger('reset')

        # aborted: the node is deactivated; a shutdown with a goal under way ends cleanly
        handle = client.send([(20, 20.0)])
        assert here.run(here.node.trigger_deactivate).name == 'SUCCESS'
        status, result = client.result(handle)
        assert status == GoalStatus.STATUS_ABORTED and 'ended by stop' in result.error_string


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.parametrize('transitions', [('deactivate', 'cleanup'), ('shutdown',)])
def test_a_goal_gets_its_result_although_the_node_is_cleaned_up_at_once(observer, transitions):
    with controller() as here:
        client = Client(observer)
        handle = client.send([(20, 20.0)])

        def end():
            return [getattr(here.node, f'trigger_{each}')().name for each in transitions]
        asked = handle.get_result_async()
        assert here.run(end) == ['SUCCESS'] * len(transitions)
        for future in (asked, handle.get_result_async()):   # asked for before and after
            found = client.wait(future)
            assert found.status == GoalStatus.STATUS_ABORTED
            assert not lacking(found.result.error_string, 'target_yaw', 'stop')
        assert not client.send([(1, 1.0)]).accepted
        if transitions[-1] == 'cleanup':
            for transition in (here.node.trigger_configure, here.node.trigger_activate):
                assert here.run(transition).name == 'SUCCESS'
            assert client.result(client.send([(1, 1.0)]))[0] == GoalStatus.STATUS_SUCCEEDED


@pytest.mark.ros
@pytest.mark.network
def test_a_lost_measurement_in_closed_loop_aborts_a_goal(observer):
    with controller():
        axes = Axes(observer)
        client = Client(observer)
        assert User(observer).set('tracking', target_yaw=True) == []
        handle = client.send([(20, 20.0)])      # axis_bridge does not run
        status, result = client.result(handle)
        assert status == GoalStatus.STATUS_ABORTED and 'mocap_lost' in result.error_string
        wait_until(lambda: axes.value('target_yaw', 'velocity') == 0.0)
        assert axes.status('target_yaw')[0] == 'stopping' and axes.value('target_yaw') < 10.0


def goal_of(rig, path=math.inf, end=0.01, time_s=5.0):
    """Let an axis follow 0.15 m in 2 s; gives the goal."""
    assert rig.axis.follow(make_trajectory([0.0, 2.0], [0.0, 0.15], [0.0, 0.0])) == ''
    tolerances = Tolerances({rig.name: path}, {rig.name: end}, time_s)
    return Goal({rig.name: rig.axis}, tolerances)


def ended(rig, goal, seconds):
    """Run until a goal has ended; gives its outcome."""
    for _ in range(round(seconds * 100)):
        rig.cycle()
        outcome = goal.poll(rig.now)
        if outcome is not None:
            return outcome
    return None


def test_a_deviation_on_the_path_or_at_the_end_aborts_and_stops():
    for tolerances, code, text, lasts in (
            ({'path': 1e-6}, 'PATH_TOLERANCE_VIOLATED', 'from the path', (0.0, 2.0)),
            ({'end': 1e-9, 'time_s': 1.0}, 'GOAL_TOLERANCE_VIOLATED', 'the last point',
             (2.9, 3.2))):
        rig = Rig(settings_of('chaser_x', {'max_step': 0.0}), noise=False)
        rig.close_loop(1.0)
        began = rig.now
        outcome = ended(rig, goal_of(rig, **tolerances), 5.0)
        assert outcome.code == code and text in outcome.text
        assert lasts[0] < rig.now - began < lasts[1]
        rig.run(2.0)
        assert not rig.axis.moving and rig.axis.mode.value == 'stopping'


@pytest.mark.parametrize('interruption, text', [
    (lambda axis: axis.stop(), 'ended by stop'), (lambda axis: axis.lock(), 'ended by lock'),
    (lambda axis: axis.go_to(0.0), 'ended by manual'),
    (lambda axis: axis.emergency(), 'ended by emergency'),
    (lambda axis: axis.track(False), 'the closed loop was opened')])
def test_a_command_to_an_axis_aborts_its_goal(interruption, text):
    rig = Rig(settings_of('chaser_x'), noise=False)
    rig.close_loop(1.0)
    goal = goal_of(rig)
    assert ended(rig, goal, 1.0) is None
    interruption(rig.axis)
    outcome = ended(rig, goal, 0.01)
    assert outcome.code == 'PATH_TOLERANCE_VIOLATED' and text in outcome.text


@pytest.mark.ros
@pytest.mark.network
@pytest.mark.timed
def test_calibrate_measures_what_the_mocap_saw_of_the_way(observer, console, tmp_path):
    (tmp_path / 'm.yaml').write_text(
        'rate_hz: 500\nloss_cycles: 100000\naxes: [{name: x, steps_per_unit: 1000, kind: rotary, '
        'max_velocity: 20, max_acceleration: 100, max_jerk: 10000, correction: {limit: 5}}]')
    log = []
    with controller(machine=str(tmp_path / 'm.yaml')):
        axes, user = Axes(observer), User(observer)
        wait_until(lambda: len(axes.commanded))
        publisher = observer.node.create_publisher(JointState, 'axis_states', 10)
        wait_until(lambda: publisher.get_subscription_count())
        assert user.set('calibrate', x=0.2) == []

        def measured():
            commanded, = axes.commanded.messages(-1)
            message = JointState(name=['x'], position=[0.98 * commanded.position[0]])
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(
                time.time_ns(), 1_000_000_000)
            publisher.publish(message)
            log.append(console.unread())
            if 'left the mode manual' in ''.join(log):
                # A cycle that is 0.9 s late stops the axis, whatever loss_cycles is.
                wait_until(lambda: 'machine_lost' in axes.status('x')[1]['warnings'])
                log.clear()
                assert user.set('calibrate', x=0.2) == []
            return 'calibration of x' in ''.join(log)
        wait_until(measured, 120.0, 'the calibration')
    line = next(each for each in ''.join(log).splitlines() if 'calibration of' in each)
    assert 'measured 0.980000 of the way' in line
    assert f'set steps_per_unit to {1000 / 0.98:.6g}' in line


# -- messages -----------------------------------------------------------------------------------

def joint_trajectory(*points, velocities=(), start_s=0.0):
    """Make a trajectory of chaser_x through positions (m) at times (s)."""
    message = JointTrajectory(joint_names=['chaser_x'])
    message.header.stamp = Time(seconds=start_s).to_msg()
    for (t, x), v in itertools.zip_longest(points, velocities):
        point = JointTrajectoryPoint(positions=[x], velocities=[] if v is None else [v])
        point.time_from_start = Duration(seconds=t).to_msg()
        message.points.append(point)
    return message


def with_values(**lists):
    """Make a trajectory whose last point has these values."""
    message = joint_trajectory((0.0, 0.0), (1.0, 0.1), velocities=(0.0, 0.0))
    for name, values in lists.items():
        setattr(message.points[-1], name, values)
    return message


@pytest.mark.parametrize('times', [(0.0, 1.0, 2.0), (1.0, 2.0, 3.0)])
def test_a_joint_trajectory_ends_at_its_absolute_position(times):
    machine = Machine(ORION)
    axis = machine.axes['chaser_x']
    axis.state = AxisMotion(0.008)       # the trajectory was planned from the measured position
    message = joint_trajectory(*zip(times, (0.0, 0.05, 0.1)))
    path = paths_of(machine, message, 0.0)['chaser_x']
    assert axis.state.position + path.positions[-1] == pytest.approx(0.1, abs=1e-12)
    assert path.at(0.0).position == 0.0
    with pytest.raises(ConfigurationError, match='two points'):
        del message.points[1:]
        message.points[0].time_from_start.sec = 0
        paths_of(machine, message, 0.0)


def test_a_joint_trajectory_that_ends_between_two_cycles_stops_at_its_last_point():
    for end_s in (3.001, 3.0049, 3.005, 3.0051, 3.0099):
        machine = Machine(ORION)
        axis = machine.axes['chaser_x']
        message = joint_trajectory((0.0, 0.0), (end_s, 0.2))
        assert axis.follow(paths_of(machine, message, 0.0)['chaser_x']) == ''
        most = 0.0
        for cycle in range(400):
            machine.step(0.01 * cycle, {}, Feedback())
            most = max(most, axis.state.position)
        assert axis.mode is Mode.STOPPING and not axis.moving
        assert axis.state.position == pytest.approx(0.2, abs=1e-12) == most


# What joint_trajectory_controller of ros2_control refuses, except for a start in the future, for
# which that one waits.
@pytest.mark.parametrize('message, words', [
    (with_values(positions=[0.1, 0.2]), '1 positions'), (with_values(positions=[]), 'positions'),
    (with_values(velocities=[0.0, 0.0]), 'velocities'),
    (with_values(velocities=[0.1]), 'at rest'),
    (joint_trajectory((0.0, 0.0), (1.0, 0.1), start_s=1005.0), '5 s in the future'),
    (joint_trajectory((0.0, 0.0), (1.0, 0.1), start_s=998.0), '2 s in the past'),
    (JointTrajectory(joint_names=['chaser_x']), 'no points')])
def test_a_joint_trajectory_that_cannot_be_meant_for_now_is_refused(message, words):
    with pytest.raises(ConfigurationError, match=words):
        paths_of(Machine(ORION), message, 1000.0)


@pytest.mark.parametrize('message', [
    with_values(velocities=[1e-9]),
    joint_trajectory((0.0, 0.0), (1.0, 0.1), start_s=1000.05),
    joint_trajectory((0.0, 0.0), (1.0, 0.1), start_s=999.5)])
def test_a_joint_trajectory_for_now_is_accepted(message):
    assert paths_of(Machine(ORION), message, 1000.0)
