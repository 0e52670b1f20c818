# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The lifecycle node gantry_controller: callbacks of topics and services, 100 cycles a second."""

import functools
import math
import threading
import time
import traceback
from typing import Any, Callable, Mapping, Optional, Sequence

from builtin_interfaces.msg import Duration
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.guests.machine.axis import Axis
from optitrack_vrpn.guests.machine.axis_bridge_io import running_ns
from optitrack_vrpn.guests.machine.correction import Measurement
from optitrack_vrpn.guests.machine.follow_ros import action_type, FollowServer
from optitrack_vrpn.guests.machine.freshness import Freshness
from optitrack_vrpn.guests.machine.gantry_settings import ControllerSettings
from optitrack_vrpn.guests.machine.gantry_sim_io import SimulatedMachine
from optitrack_vrpn.guests.machine.machine import AxisSample, Calibration, Machine
from optitrack_vrpn.guests.machine.machine_io import Driver, load_machine, UdpDriver
from optitrack_vrpn.guests.machine.machine_node_ros import MachineNode
from optitrack_vrpn.guests.machine.services_ros import (
    answer, COMMANDS, load_file, paths_of, serve, start, value_of)
from optitrack_vrpn.guests.machine.trajectory import AxisTrajectory, LARGEST
from optitrack_vrpn.guests.machine.view import AxisView, view_of
from optitrack_vrpn.node.graph.reach import any_reach, joint_reach
from optitrack_vrpn.node.graph.streams_ros import joints_of
from rcl_interfaces.srv import SetParameters
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

_INACTIVE = 'the node is not active'


class GantryController(MachineNode[ControllerSettings]):
    """Control a machine in closed loop."""

    def __init__(self, node_name: str = 'gantry_controller', **kwargs: Any) -> None:
        self._machine: Optional[Machine] = None
        self._driver: Optional[Driver] = None
        self._calibration: Optional[Calibration] = None
        self._used: Optional[ControllerSettings] = None
        self._fresh: dict[str, Measurement] = {}
        self._ages: dict[tuple[str, str], Freshness] = {}
        self._cut = ''                      # why the power is cut
        self._commands = 0                  # so far: a file that is read begins after none
        self._commanded: Any = None
        self._measured: Any = None
        self._state: Any = None
        self._action: Optional[FollowServer] = None
        super().__init__(node_name, ControllerSettings, **kwargs)

    # -- transitions ---------------------------------------------------------------------------

    def prepare(self, settings: ControllerSettings) -> None:
        """
        Load the machine, open the driver, and create topics and services.

        :raises OptitrackVrpnError: if a file is wrong, an address cannot be used, or ruckig is
            not installed.
        """
        description = load_machine(settings.machine)
        self._machine = Machine(description)
        self._driver = UdpDriver(
            description, settings.machine_host, settings.machine_port,
        ) if settings.driver == 'udp' else SimulatedMachine(description)
        self._used = settings
        self._ages.clear()
        self._commanded, self._measured, self._state = (
            self.own(self.create_publisher(kind, f'~/{name}', 10), self.destroy_publisher)
            for kind, name in ((JointState, 'commanded'), (JointState, 'measured'),
                               (JointTrajectory, 'state')))
        for topic, take, reach in (
                (settings.axes_topic, self._take_measured, joint_reach),
                ('~/stream', self._take_stream, any_reach)):
            self.bind(JointState, topic, take, 10, identify=joints_of, reach=reach)
        self.own(self.create_subscription(
            JointTrajectory, '~/joint_trajectory', self._take_trajectory, 10),
            self.destroy_subscription)
        services: dict[str, tuple[Any, Any]] = {
            **{name: (SetParameters, functools.partial(self._command, name)) for name in COMMANDS},
            **{name: (Trigger, functools.partial(self._trigger, act)) for name, act in (
                ('stop', self._stop), ('emergency_stop', self._emergency_stop),
                ('reset', self._reset))},
            'calibrate': (SetParameters, self._calibrate)}
        for name, (kind, callback) in services.items():
            self.own(self.create_service(kind, f'~/{name}', callback), self.destroy_service)
        # in a group of its own, because a group executes one callback at a time
        self.own(self.create_service(
            SetParameters, '~/trajectory_file', self._take_file,
            callback_group=MutuallyExclusiveCallbackGroup()), self.destroy_service)
        kind = action_type()
        if kind is None:
            self.get_logger().info(
                'control_msgs is not installed: no action ~/follow_joint_trajectory')
        elif self._action is None:      # it outlives cleanup: clients ask for results later
            self._action = FollowServer(self, kind, self._active, self._lock)
        self.show_axes()
        self._mocap_control.set_info_topics(
            [self._commanded.topic_name, self._measured.topic_name])

    def begin(self) -> None:
        """Start the cycles; every axis holds its position."""
        self._commands += 1
        assert self._machine is not None and self._used is not None
        self._fresh.clear()
        self.start_cycles(self._machine.dt, self._cycle)

    def end(self) -> None:
        """Stop every axis within its limits, then stop the cycles."""
        thread, machine = self._thread, self._machine
        if thread is None or machine is None:
            return
        axes = machine.axes.values()
        with self._lock:
            self._thread = None     # inactive: a file that is still read begins no motion
            machine.command('all', Axis.stop)
        patience_s = 2.0 * max(axis.settings.stopping_s for axis in axes)
        deadline = time.monotonic() + patience_s
        while any(axis.moving for axis in axes):
            if time.monotonic() > deadline:
                reason = f'an axis still moves after {patience_s:.1f} s: the power is cut'
                self.get_logger().error(reason)
                with self._lock:
                    self._cut_power(reason)
                break
            time.sleep(0.01)
        time.sleep(2.0 * machine.dt)      # the last set points reach the motors
        thread.stop()
        with self._lock:
            for axis in axes:
                axis.track(False)
                axis.referenced = False     # another controller may move the machine
        if self._action is not None:
            self._action.end()

    def release(self) -> None:
        """Destroy topics and services, close the driver."""
        super().release()
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._machine = self._used = self._calibration = None
        self._cut = ''

    def destroy_node(self) -> None:
        """Release all resources in any state, and the action, which needs the node."""
        with self._transition_lock:
            self._release()
            if self._action is not None:
                self._action.destroy()
                self._action = None
            super().destroy_node()

    # -- the thread of the cycles --------------------------------------------------------------

    def _cycle(self, periods: int) -> None:
        try:
            with self._lock:
                samples = self._work(periods)
        except Exception:
            self._log(ERROR, f'bug in a cycle; the power is cut:\n{traceback.format_exc()}',
                      'cycle')
            with self._lock:
                self._cut_power('a bug in a cycle: the power is cut')
            return
        # No failure of an output stops the axes: ROS shuts down before ``end`` on Ctrl-C.
        try:
            self._publish(samples)
        except Exception:
            if self.context.ok():
                self._log(ERROR, f'bug: a cycle is not published:\n{traceback.format_exc()}',
                          'output')

    def _cut_power(self, reason: str) -> bool:
        """Execute an emergency stop; return whether there is a machine."""
        if self._machine is None or self._driver is None:
            return False
        self._machine.emergency_stop()
        self._cut = reason
        self._driver.cut_power()
        return True

    def _work(self, periods: int) -> list[AxisSample]:
        """Read the machine, compute the cycle, drive the motors."""
        machine, driver = self._machine, self._driver
        assert machine is not None and driver is not None
        fresh, self._fresh = self._fresh, {}
        cubics = machine.step(running_ns() * 1e-9, fresh, driver.feedback(), periods)
        if machine.emergency and not self._cut:
            self._cut_power('emergency stop: the machine reports that its power is cut')
        driver.run(cubics, machine.dt)
        if self._calibration is not None:
            self._calibration.step(machine.dt)
        return machine.samples()

    def _publish(self, samples: Sequence[AxisSample]) -> None:
        """Publish set points, measurements and the motion of the cycle, in m and rad."""
        commanded, measured = JointState(), JointState()
        commanded.header.stamp = measured.header.stamp = self.get_clock().now().to_msg()
        commanded.name = measured.name = [each.axis.settings.name for each in samples]
        scales = [each.axis.settings.si_per_unit for each in samples]
        commanded.position = [s.state.position * k for s, k in zip(samples, scales)]
        commanded.velocity = [s.state.velocity * k for s, k in zip(samples, scales)]
        measured.position = [
            math.nan if s.measured is None else s.measured * k for s, k in zip(samples, scales)]
        self._commanded.publish(commanded)
        self._measured.publish(measured)
        self._publish_state(samples, commanded, measured)

    def _publish_state(
        self, samples: Sequence[AxisSample], commanded: JointState, measured: JointState,
    ) -> None:
        """Publish begin and end of the motor's motion, the set point and the measurement."""
        assert self._machine is not None
        dt = self._machine.dt
        scaled = [each.cubic.scaled(each.axis.settings.si_per_unit) for each in samples]
        end = Duration(nanosec=round(dt * NS_PER_S))
        self._state.publish(JointTrajectory(
            header=commanded.header, joint_names=commanded.name, points=[
                JointTrajectoryPoint(
                    positions=[cubic.start for cubic in scaled],
                    velocities=[cubic.a for cubic in scaled],
                    accelerations=[2.0 * cubic.b for cubic in scaled]),
                JointTrajectoryPoint(
                    positions=[cubic.at(dt) for cubic in scaled], time_from_start=end),
                JointTrajectoryPoint(
                    positions=commanded.position, velocities=commanded.velocity,
                    accelerations=[each.state.acceleration * each.axis.settings.si_per_unit
                                   for each in samples], time_from_start=end),
                JointTrajectoryPoint(positions=measured.position)]))

    # -- inputs, on the executor's thread ------------------------------------------------------

    def _take(self, what: str, message: JointState, zero_ns: int) -> dict[str, Measurement]:
        """
        Return the finite values of a message (unit) that are used, by axis; log why one is not.

        :param zero_ns: what a stamp of 0 means (ns since 1970).
        """
        machine, used = self._machine, self._used
        if machine is None or used is None or len(message.name) != len(message.position):
            return {}
        now_ns, host_ns = running_ns(), time.time_ns()
        stamp_ns = message.header.stamp.sec * NS_PER_S + message.header.stamp.nanosec or zero_ns
        found = {}
        for name, value in zip(message.name, message.position):
            # NaN is no value, and without a valid value the stamp is not valid either
            if name not in machine.axes or not abs(value) <= LARGEST:
                continue
            age = self._ages.setdefault((what, name), Freshness(used.max_age_s))
            arrival = age.take(stamp_ns, now_ns, host_ns)
            if not arrival.used or age.stale(now_ns):
                self._log(WARN, f'{what} are {(host_ns - stamp_ns) * 1e-9:.2f} s old and not '
                          'used: check the clocks, or raise max_age_s', what)
                continue
            found[name] = Measurement(
                value / machine.axes[name].settings.si_per_unit, age.measured_ns * 1e-9)
        return found

    def _take_measured(self, message: JointState) -> None:
        """Process the axes from axis_bridge."""
        found = self._take('measured axes', message, 0)
        with self._lock:
            self._fresh.update(found)

    def _take_stream(self, message: JointState) -> None:
        """Process targets of the mode stream; a stamp of 0 means now."""
        found = self._take('targets', message, time.time_ns())
        with self._lock:
            for name, target in found.items():
                if self._machine is not None:
                    self._machine.axes[name].stream_target(target.value)

    def _take_trajectory(self, message: JointTrajectory) -> None:
        """Follow a trajectory_msgs/JointTrajectory."""
        now_s = self.get_clock().now().nanoseconds * 1e-9
        reason = self._begin_paths(lambda machine: paths_of(machine, message, now_s))
        if reason:
            self.get_logger().error(f'a trajectory is refused: {reason}')

    def _begin_paths(self, make: Callable[[Machine], Mapping[str, AxisTrajectory]]) -> str:
        """Make trajectories and start them; return '' or the reason of a refusal."""
        machine, before = self._active(), self._commands
        if machine is None:
            return _INACTIVE
        try:
            paths = make(machine)   # without the lock: cycles must not wait for a file
        except ConfigurationError as error:
            return str(error)
        with self._lock:
            if self._active() is not machine or self._commands != before:
                return 'another command arrived while it was read; send it again'
            return start(machine, paths)

    # -- services ------------------------------------------------------------------------------

    def _active(self) -> Optional[Machine]:
        return self._machine if self._thread is not None else None

    def _command(self, name: str, request: Any, response: Any) -> Any:
        with self._lock:
            self._commands += 1
            return serve(self._active, name, request, response)

    async def _take_file(self, request: Any, response: Any) -> Any:
        """Follow the thesis's file; a thread reads it, so that a stop does not wait for it."""
        values = {each.name: value_of(each) for each in request.parameters}
        reason: Future = Future(executor=self.executor)

        def read() -> None:
            try:
                reason.set_result(self._begin_paths(lambda machine: load_file(machine, values)))
            except Exception as error:
                reason.set_exception(error)
        threading.Thread(target=read, name='trajectory_file', daemon=True).start()
        return answer(request, response, await reason)

    def _calibrate(self, request: Any, response: Any) -> Any:
        """Calibrate the steps per unit of an axis: the parameter is its name and a distance."""
        reason = ''
        with self._lock:
            self._commands += 1
            machine = self._active()
            if machine is None:
                reason = _INACTIVE
            elif len(request.parameters) != 1:
                reason = 'give one axis and the distance to move'
            elif self._calibration is not None:
                reason = 'a calibration is running'
            else:
                name, distance = request.parameters[0].name, value_of(request.parameters[0])
                if name not in machine.axes or type(distance) not in (int, float):
                    reason = f'{name!r} with {distance!r} is not an axis with a distance'
                else:
                    calibration = Calibration(machine.axes[name], float(distance))
                    reason = calibration.reason
                    self._calibration = None if reason else calibration
        return answer(request, response, reason)

    def _trigger(self, act: Callable[[], str], request: Any, response: Any) -> Any:
        """Answer a command without values; ``act`` returns the reason of a refusal."""
        with self._lock:
            self._commands += 1
            response.message = act()
        response.success = not response.message
        return response

    def _stop(self) -> str:
        machine = self._active()
        if machine is None:
            return _INACTIVE
        machine.command('all', Axis.stop)       # a locked axis rests already
        return ''

    def _emergency_stop(self) -> str:
        done = self._cut_power('emergency stop by ~/emergency_stop')
        return '' if done else 'the node is not configured'

    def _reset(self) -> str:
        machine = self._active()
        if machine is None or self._driver is None:
            return _INACTIVE
        machine.reset()
        self._cut = ''
        self._driver.restore_power()
        return ''

    # -- published state -----------------------------------------------------------------------

    def _show(self) -> None:
        super()._show()
        if self._action is not None:
            self._action.poll()
        calibration = self._calibration
        if calibration is not None and calibration.done:
            self._calibration = None
            self._report(calibration)

    def views(self) -> Sequence[AxisView]:
        """Return every axis."""
        machine = self._machine
        return [view_of(axis) for axis in machine.axes.values()] if machine is not None else ()

    def _report(self, calibration: Calibration) -> None:
        name, result = calibration.axis.settings.name, calibration.result
        if result is None:
            self.get_logger().error(f'calibration of {name} failed: {calibration.reason}')
            return
        self.get_logger().info(
            f'calibration of {name}: mocap measured {result.ratio:.6f} of the way (standard error '
            f'{result.uncertainty:.1e}; up less down {result.difference:+.1e}), backlash '
            f'{result.backlash:.3g} {calibration.axis.settings.unit}: set '
            f'steps_per_unit to {result.steps_per_unit:.6g}')

    def summary(self) -> tuple[Severity, str, dict[str, Any]]:
        """Return what is wrong with the machine."""
        trouble = self._cut or (self._driver.trouble if self._driver is not None else '')
        return (ERROR, trouble, {}) if trouble else (INFO, 'running', {})
