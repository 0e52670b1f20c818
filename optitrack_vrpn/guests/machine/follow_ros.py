# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The action ~/follow_joint_trajectory (control_msgs/FollowJointTrajectory), if it is installed.

No callback waits: callbacks accept and start a goal, and a timer of the node calls ``poll``, which
publishes feedback and the result.
"""

import math
import threading
import time
from typing import Any, Callable, Optional, Sequence

from builtin_interfaces.msg import Duration
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.guests.machine.machine import Goal, GoalOutcome, Machine, Tolerances
from optitrack_vrpn.guests.machine.services_ros import FAR, paths_of, refusal, start
from optitrack_vrpn.guests.machine.trajectory import AxisTrajectory
from optitrack_vrpn.node.base.node_parts import ros_is_up
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from trajectory_msgs.msg import JointTrajectoryPoint


def action_type() -> Any:
    """Return the type FollowJointTrajectory, or None if control_msgs is not installed."""
    try:
        from control_msgs.action import FollowJointTrajectory
    except ImportError:
        return None
    return FollowJointTrajectory


class _Server(ActionServer):
    """An action server whose goals execute without a callback until ``finish``."""

    def notify_execute(self, goal_handle: Any, execute_callback: Any) -> None:
        """Schedule only the delivery of a result."""
        if execute_callback is not None:
            super().notify_execute(goal_handle, execute_callback)

    def finish(self, handle: Any, result: Any) -> None:
        """Deliver the result of a goal in a terminal state."""
        super().notify_execute(handle, lambda _: result)


class FollowServer:
    """
    Offer the action.

    :param node: owner of the action.
    :param kind: the type FollowJointTrajectory.
    :param machine: returns the machine while the node is active, None otherwise.
    :param lock: held during each use of the machine.
    """

    def __init__(
        self, node: Any, kind: Any, machine: Callable[[], Optional[Machine]],
        lock: threading.Lock,
    ) -> None:
        self._node, self._kind, self._machine, self._lock = node, kind, machine, lock
        self._goals: list[tuple[Any, Goal, float]] = []
        self._server = _Server(
            node, kind, '~/follow_joint_trajectory', execute_callback=lambda handle: None,
            goal_callback=self._check, handle_accepted_callback=self._start,
            cancel_callback=self._cancel)

    def end(self) -> None:
        """Give every active goal its result; call it after the cycles have stopped."""
        goals, self._goals = self._goals, []
        for handle, goal, _ in goals:
            self._finish(handle, goal.poll(time.monotonic()) or GoalOutcome(
                'GOAL_TOLERANCE_VIOLATED', 'the node is deactivated before the goal ended'))

    def destroy(self) -> None:
        """Destroy the action server; a result that no client has yet asked for is lost."""
        self._server.destroy()

    # -- callbacks -----------------------------------------------------------------------------

    def _check(self, goal: Any) -> GoalResponse:
        try:
            self._checked(goal)
        except ConfigurationError as error:
            self._node.get_logger().error(
                f'a goal of follow_joint_trajectory is refused: {error}')
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _checked(self, goal: Any) -> tuple[Machine, dict[str, AxisTrajectory]]:
        """Check a goal, without the lock: cycles must not wait for a long trajectory."""
        machine = self._machine()
        if machine is None:
            raise ConfigurationError('the node is not active')
        if goal.multi_dof_trajectory.points or goal.multi_dof_trajectory.joint_names:
            raise ConfigurationError(
                'multi_dof_trajectory is not supported: an axis has one degree of freedom')
        now_s = self._node.get_clock().now().nanoseconds * 1e-9
        paths = paths_of(machine, goal.trajectory, now_s)
        tolerances(machine, goal)
        for name in paths:
            if any(name in supervised.axes for _, supervised, _ in self._goals):
                raise ConfigurationError(f'{name}: another goal is active; cancel it first')
        reason = refusal(machine, paths)
        if reason:
            raise ConfigurationError(reason)
        return machine, paths

    def _start(self, handle: Any) -> None:
        handle.execute()
        try:
            machine, paths = self._checked(handle.request)
            with self._lock:
                reason = start(machine, paths)
                if reason:
                    raise ConfigurationError(reason)
                supervised = Goal({name: machine.axes[name] for name in paths},
                                  tolerances(machine, handle.request))
                self._goals.append((handle, supervised, time.monotonic()))
        except ConfigurationError as error:
            self._finish(handle, GoalOutcome('INVALID_GOAL', str(error)))

    def _cancel(self, handle: Any) -> CancelResponse:
        with self._lock:
            for each, goal, _ in self._goals:
                if each.goal_id == handle.goal_id:
                    goal.cancel()
                    return CancelResponse.ACCEPT
        return CancelResponse.REJECT

    # -- from the timer of the node --------------------------------------------------------------

    def poll(self) -> None:
        """Publish feedback for active goals, and the result of goals that have ended."""
        now_s = time.monotonic()
        for entry in tuple(self._goals):
            handle, goal, began_s = entry
            with self._lock:
                outcome = goal.poll(now_s)
                feedback = self._feedback(goal, now_s - began_s)
            # At shutdown this raises: the goal stays in the list, and `end` reports it.
            if outcome is None:
                handle.publish_feedback(feedback)
            else:
                self._goals.remove(entry)
                self._finish(handle, outcome)

    def _feedback(self, goal: Goal, elapsed_s: float) -> Any:
        feedback = self._kind.Feedback(joint_names=list(goal.axes))
        feedback.header.stamp = self._node.get_clock().now().to_msg()
        since = Duration(sec=int(elapsed_s), nanosec=int(elapsed_s % 1.0 * 1e9))
        axes = goal.axes.values()
        scale = [axis.settings.si_per_unit for axis in axes]
        desired = [axis.state.position * s for axis, s in zip(axes, scale)]
        apart = [axis.deviation * s for axis, s in zip(axes, scale)]
        feedback.desired = JointTrajectoryPoint(
            positions=desired, time_from_start=since,
            velocities=[axis.state.velocity * s for axis, s in zip(axes, scale)])
        feedback.actual = JointTrajectoryPoint(
            positions=[a + b for a, b in zip(desired, apart)], time_from_start=since)
        feedback.error = JointTrajectoryPoint(
            positions=[-each for each in apart], time_from_start=since)
        return feedback

    def _finish(self, handle: Any, outcome: GoalOutcome) -> None:
        if self._node.executor is None or not ros_is_up(self._node):
            self._node.get_logger().error(
                'ROS shuts down: a client gets no result of its goal of follow_joint_trajectory')
            return
        if outcome.canceled and handle.is_cancel_requested:
            handle.canceled()
        elif outcome.code == 'SUCCESSFUL':
            handle.succeed()
        else:
            self._node.get_logger().error(
                f'a goal of follow_joint_trajectory is aborted: {outcome.text}')
            handle.abort()
        self._server.finish(handle, self._kind.Result(
            error_code=getattr(self._kind.Result, outcome.code),
            error_string=outcome.text))


def tolerances(machine: Machine, goal: Any) -> Tolerances:
    """Read the tolerances of a goal; only those of position can be checked."""
    names = list(goal.trajectory.joint_names)
    if goal.component_path_tolerance or goal.component_goal_tolerance:
        raise ConfigurationError('component tolerances are not supported')
    time_s = goal.goal_time_tolerance.sec + goal.goal_time_tolerance.nanosec * 1e-9
    end = {name: FAR[machine.axes[name].settings.kind] for name in names}
    return Tolerances(
        _read(machine, 'path_tolerance', goal.path_tolerance, names),
        {**end, **_read(machine, 'goal_tolerance', goal.goal_tolerance, names)},
        # without one: the rule of the thesis needs some seconds to remove the effect of the delay
        time_s if time_s > 0.0 else 5.0)


def _read(
    machine: Machine, what: str, given: Sequence[Any], names: Sequence[str],
) -> dict[str, float]:
    """Return the position tolerances by axis (unit); -1 in a goal removes one: infinite."""
    found = {}
    for each in given:
        if each.name not in names:
            raise ConfigurationError(f'{what}: {each.name!r} is not a joint of the trajectory')
        if not each.position >= 0.0 and each.position != -1.0:
            raise ConfigurationError(f'{what} of {each.name}: {each.position} is not a tolerance')
        if not each.velocity <= 0.0 or not each.acceleration <= 0.0:
            raise ConfigurationError(
                f'{what} of {each.name}: velocity and acceleration are not measured')
        axis = machine.axes[each.name]
        if each.position > 0.0 and not axis.tracking:
            raise ConfigurationError(
                f'{what} of {each.name}: there is no measurement in open loop; switch tracking on')
        if each.position == -1.0:
            found[each.name] = math.inf
        elif each.position > 0.0:
            found[each.name] = each.position / axis.settings.si_per_unit
    return found
