# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The lifecycle node gantry_controller: callbacks of topics and services, 100 cycles a second."""

import functools
import math
import threading
import time
import traceback
from typing import Any, Callable, Mapping, Optional, Sequence

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from optitrack_vrpn.axes import CycleThread
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.gantry.calibration import Calibration
from optitrack_vrpn.gantry.control import AxisView, cells, Machine
from optitrack_vrpn.gantry.correction import Measurement
from optitrack_vrpn.gantry.follow_ros import action_type, FollowServer
from optitrack_vrpn.gantry.machine_io import Driver, load_machine, SimDriver, UdpDriver
from optitrack_vrpn.gantry.recorder_io import Recorder, row
from optitrack_vrpn.gantry.services_ros import (
    answer, COMMANDS, load_file, paths_of, serve, start, value_of)
from optitrack_vrpn.gantry.setpoints import Cubic
from optitrack_vrpn.gantry.settings import ControllerSettings
from optitrack_vrpn.gantry.sim_model import SimulatedMachine
from optitrack_vrpn.gantry.trajectory import Trajectory
from optitrack_vrpn.graph.one_publisher_ros import OneSubscription
from optitrack_vrpn.mocap_control.participant_ros import MocapControl
from optitrack_vrpn.ros.managed_node import entry, SettingsNode
from optitrack_vrpn.units import NS_PER_S
from rcl_interfaces.srv import SetParameters
from rclpy.callback_groups import MutuallyExclusiveCallbackGroup
from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_srvs.srv import Trigger
from trajectory_msgs.msg import JointTrajectory

#: Timeout of deactivate for the stop of the axes, after which it cuts the power: multiple of the
#: longest time that an axis needs from its motor velocity. Chosen.
_STOP_PATIENCE = 2.0
#: Chosen: period (s) of the published state: smooth for the eye, a tenth of the cycles.
_VIEW_S = 0.1


def in_ns(message: JointState) -> int:
    """Return the stamp of a message (ns)."""
    return int(message.header.stamp.sec * NS_PER_S + message.header.stamp.nanosec)


class GantryController(SettingsNode[ControllerSettings]):
    """
    Control a machine in closed loop.

    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str = 'gantry_controller', **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._machine: Optional[Machine] = None
        self._driver: Optional[Driver] = None
        self._recorder: Optional[Recorder] = None
        self._thread: Optional[CycleThread] = None
        self._calibration: Optional[Calibration] = None
        self._used: Optional[ControllerSettings] = None
        self._entities: list[tuple[Any, Any]] = []
        self._exclusive: list[OneSubscription] = []
        self._fresh: dict[str, Measurement] = {}
        self._stamp = (0, 0.0)
        self._began_s = 0.0
        self._cut = ''                      # why the power is cut
        self._commands = 0                  # so far: a file that is read begins after none
        self._commanded: Any = None
        self._measured: Any = None
        self._view: Any = None
        self._action: Optional[FollowServer] = None
        self._shown: dict[str, tuple[str, tuple[str, ...]]] = {}
        super().__init__(node_name, ControllerSettings, **kwargs)
        self._mocap_control = MocapControl(self)

    # -- transitions ---------------------------------------------------------------------------

    def prepare(self, settings: ControllerSettings) -> None:
        """
        Load the machine, open the driver, and create topics and services.

        :raises OptitrackVrpnError: if a file is wrong, an address cannot be used, or ruckig is
            not installed.
        """
        description = load_machine(settings.machine)
        self._machine = Machine(description)
        if settings.driver == 'udp':
            self._driver = UdpDriver(
                description, settings.machine_host, settings.machine_port)
        else:
            self._driver = SimDriver(SimulatedMachine(description))
        self._used = settings
        self._commanded = self._own(self.create_publisher(
            JointState, '~/commanded', 10), self.destroy_publisher)
        self._measured = self._own(self.create_publisher(
            JointState, '~/measured', 10), self.destroy_publisher)
        self._view = self._own(self.create_publisher(
            DiagnosticArray, '~/axes', 10), self.destroy_publisher)
        for topic, callback in (
                (settings.axes_topic, self._take_measured), ('~/stream', self._take_stream)):
            one = OneSubscription(self, JointState, topic, callback, 10)
            self._exclusive.append(one)
            self._own(one, OneSubscription.destroy)
        self._own(self.create_subscription(
            JointTrajectory, '~/joint_trajectory', self._take_trajectory, 10),
            self.destroy_subscription)
        services: list[tuple[Any, str, Any]] = [
            (SetParameters, name, functools.partial(self._command, name)) for name in COMMANDS]
        services += [
            (SetParameters, 'calibrate', self._calibrate),
            (Trigger, 'stop', self._stop), (Trigger, 'emergency_stop', self._emergency_stop),
            (Trigger, 'reset', self._reset)]
        for kind, name, callback in services:
            self._own(self.create_service(kind, f'~/{name}', callback), self.destroy_service)
        # in a group of its own, because a group executes one callback at a time
        self._own(self.create_service(
            SetParameters, '~/trajectory_file', self._take_file,
            callback_group=MutuallyExclusiveCallbackGroup()), self.destroy_service)
        kind = action_type()
        if kind is None:
            self.get_logger().info(
                'control_msgs is not installed: no action ~/follow_joint_trajectory')
        elif self._action is None:      # it outlives cleanup: clients ask for results later
            self._action = FollowServer(self, kind, self._active, self._lock)
        self._own(self.create_timer(_VIEW_S, self._show, clock=self._steady), self.destroy_timer)
        self._mocap_control.set_info_topics(
            [self._commanded.topic_name, self._measured.topic_name])

    def _own(self, entity: Any, destroy: Any) -> Any:
        self._entities.append((entity, destroy))
        return entity

    def begin(self) -> None:
        """Start the cycles; every axis holds its position."""
        self._commands += 1
        assert self._machine is not None and self._used is not None
        if self._used.record_folder:
            self._recorder = Recorder(self._used.record_folder, list(self._machine.axes))
            self.get_logger().info(f'recording to {self._recorder.path}')
        self._began_s = time.monotonic()
        self._fresh.clear()
        self._thread = CycleThread(self._machine.dt, self._cycle, 'gantry')
        self._thread.start()

    def end(self) -> None:
        """Stop every axis within its limits, then stop the cycles."""
        if self._thread is None or self._machine is None:
            return
        with self._lock:
            self._machine.command('all', lambda axis: axis.stop())
        patience_s = _STOP_PATIENCE * max(
            axis.settings.stopping_s for axis in self._machine.axes.values())
        deadline = time.monotonic() + patience_s
        while any(axis.moving for axis in self._machine.axes.values()):
            if time.monotonic() > deadline:
                reason = f'an axis still moves after {patience_s:.1f} s: the power is cut'
                self.get_logger().error(reason)
                with self._lock:
                    self._cut_power(reason)
                break
            time.sleep(0.01)
        time.sleep(2.0 * self._machine.dt)      # the last set points reach the motors
        self._thread.stop()
        self._thread = None
        with self._lock:
            for axis in self._machine.axes.values():
                axis.track(False)
                axis.referenced = False     # another controller may move the machine
        if self._action is not None:
            self._action.end()
        if self._recorder is not None:
            self._recorder.close()
            if self._recorder.dropped:
                self.get_logger().error(
                    f'{self._recorder.dropped} lines are missing in {self._recorder.path}: the '
                    'disk is full or too slow')
            self._recorder = None

    def release(self) -> None:
        """Destroy topics and services, close the driver."""
        for entity, destroy in self._entities:
            destroy(entity)
        self._entities.clear()
        self._exclusive.clear()
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
                views, cubics = self._work(periods)
        except Exception:
            self._log('error', f'bug in a cycle; the power is cut:\n{traceback.format_exc()}',
                      'cycle')
            with self._lock:
                self._cut_power('a bug in a cycle: the power is cut')
            return
        # No failure of an output stops the axes: ROS shuts down before ``end`` on Ctrl-C.
        try:
            if self._recorder is not None:
                self._recorder.write(row((time.monotonic() - self._began_s) * 1e3, views, cubics))
            self._publish(views)
        except Exception:
            if self.context.ok():
                self._log('error', f'bug: a cycle is not published:\n{traceback.format_exc()}',
                          'output')

    def _cut_power(self, reason: str) -> bool:
        """Execute an emergency stop; return whether there is a machine."""
        if self._machine is None or self._driver is None:
            return False
        self._machine.emergency_stop()
        self._cut = reason
        self._driver.cut_power()
        return True

    def _work(self, periods: int) -> tuple[Sequence[AxisView], Mapping[str, Cubic]]:
        """Read the machine, compute the cycle, drive the motors."""
        machine, driver = self._machine, self._driver
        assert machine is not None and driver is not None
        fresh, self._fresh = self._fresh, {}
        cubics = machine.step(time.monotonic(), fresh, driver.feedback(), periods)
        if machine.emergency and not self._cut:
            self._cut_power('emergency stop: the machine reports that its power is cut')
        driver.run(cubics, machine.dt)
        if self._calibration is not None and not self._calibration.done:
            self._calibration.step(
                fresh.get(self._calibration.axis.settings.name), machine.dt)
        return machine.view(), cubics

    def _publish(self, views: Sequence[AxisView]) -> None:
        """Publish the set points and the measured positions of the axes, in m and rad."""
        names = [view.name for view in views]
        scale = [1.0 if view.unit == 'm' else math.radians(1.0) for view in views]
        stamp = self.get_clock().now().to_msg()
        message = JointState(
            name=names, position=[v.position * s for v, s in zip(views, scale)],
            velocity=[v.velocity * s for v, s in zip(views, scale)])
        message.header.stamp = stamp
        self._commanded.publish(message)
        message = JointState(name=names, position=[
            math.nan if v.measured is None else v.measured * s for v, s in zip(views, scale)])
        message.header.stamp = stamp
        self._measured.publish(message)

    # -- inputs, on the executor's thread ------------------------------------------------------

    def _take_measured(self, message: JointState) -> None:
        """Process the axes from axis_bridge; NaN is no measurement."""
        machine = self._machine
        if machine is None or len(message.name) != len(message.position):
            return
        if not any(value == value for value in message.position):
            return      # no value is valid, so the stamp is not valid either
        stamp_ns = in_ns(message)
        age_s = (time.time_ns() - stamp_ns) * 1e-9
        if not self._recent('measured axes', age_s):
            return
        if stamp_ns != self._stamp[0]:      # a repeated value keeps its time: it is not a new one
            self._stamp = (stamp_ns, time.monotonic() - age_s)
        found = {}
        for name, value in zip(message.name, message.position):
            axis = machine.axes.get(name)
            if axis is not None and value == value and abs(value) < 1e6:
                found[name] = Measurement(value / axis.settings.si_per_unit, self._stamp[1])
        with self._lock:
            self._fresh.update(found)

    def _recent(self, what: str, age_s: float) -> bool:
        """Return whether a message is used at its age; log why not."""
        assert self._used is not None
        recent = -0.1 < age_s < self._used.max_age_s
        if not recent:
            self._log('warn', f'{what} are {age_s:.2f} s old and not used: check the clocks, or '
                      'raise max_age_s', what)
        return recent

    def _take_stream(self, message: JointState) -> None:
        """Process targets of the mode stream; a stamp of 0 means now."""
        machine, stamp_ns = self._machine, in_ns(message)
        if machine is None or len(message.name) != len(message.position):
            return
        if stamp_ns and not self._recent('targets', (time.time_ns() - stamp_ns) * 1e-9):
            return
        with self._lock:
            for name, value in zip(message.name, message.position):
                axis = machine.axes.get(name)
                if axis is not None:
                    axis.stream_target(value / axis.settings.si_per_unit)

    def _take_trajectory(self, message: JointTrajectory) -> None:
        """Follow a trajectory_msgs/JointTrajectory."""
        now_s = self.get_clock().now().nanoseconds * 1e-9
        reason = self._begin_paths(lambda machine: paths_of(machine, message, now_s))
        if reason:
            self.get_logger().error(f'a trajectory is refused: {reason}')

    def _begin_paths(self, make: Callable[[Machine], Mapping[str, Trajectory]]) -> str:
        """Make trajectories and start them; return '' or the reason of a refusal."""
        machine, before = self._active(), self._commands
        if machine is None:
            return 'the node is not active'
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
        """
        Follow the thesis's file: parameters ``file`` and, for a loop, ``loop``.

        A thread reads it, so that a stop does not wait for it.
        """
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
            machine = self._active()
            if machine is None:
                reason = 'the node is not active'
            elif len(request.parameters) != 1:
                reason = 'give one axis and the distance to move'
            elif self._calibration is not None and not self._calibration.done:
                reason = 'a calibration is running'
            else:
                name = request.parameters[0].name
                distance = value_of(request.parameters[0])
                if name not in machine.axes or isinstance(distance, bool) or not isinstance(
                        distance, (int, float)):
                    reason = f'{name!r} with {distance!r} is not an axis with a distance'
                else:
                    self._calibration = Calibration(machine.axes[name], float(distance))
                    reason = self._calibration.reason
        return answer(request, response, reason)

    def _stop(self, request: Any, response: Any) -> Any:
        with self._lock:
            self._commands += 1
            machine = self._active()
            refusals = {'': 'the node is not active'} if machine is None else {
                name: reason for name, reason in machine.command(
                    'all', lambda axis: axis.stop()).items()
                # a lock holds still already
                if reason and machine.axes[name].mode.value not in ('lock', 'emergency')}
        response.success, response.message = not refusals, '; '.join(refusals.values())
        return response

    def _emergency_stop(self, request: Any, response: Any) -> Any:
        with self._lock:
            self._commands += 1
            response.success = self._cut_power('emergency stop by ~/emergency_stop')
        response.message = '' if response.success else 'the node is not configured'
        return response

    def _reset(self, request: Any, response: Any) -> Any:
        with self._lock:
            machine = self._active()
            if machine is None or self._driver is None:
                reason = 'the node is not active'
            else:
                reason = machine.reset()
                if not reason:
                    self._cut = ''
                    self._driver.restore_power()
        response.success, response.message = not reason, reason
        return response

    # -- published state -----------------------------------------------------------------------

    def _show(self) -> None:
        self._publish_view()
        if self._action is not None:
            self._action.poll()

    def _publish_view(self) -> None:
        with self._lock:
            if self._machine is None or self._view is None:
                return
            views = self._machine.view()
            calibration = self._calibration
        array = DiagnosticArray(status=[self._status(view) for view in views])
        array.header.stamp = self.get_clock().now().to_msg()
        self._view.publish(array)
        for view in views:
            shown = (view.mode, view.warnings)
            before = self._shown.get(view.name)
            if before is not None and before != shown:
                self._log('warn' if set(view.warnings) - set(before[1]) else 'info',
                          f'axis {view.name}: {view.mode}'
                          + (f' ({", ".join(view.warnings)})' if view.warnings else ''),
                          (view.name, shown))
            self._shown[view.name] = shown
        if calibration is not None and calibration.done:
            self._report(calibration)

    def _report(self, calibration: Calibration) -> None:
        self._calibration = None
        name = calibration.axis.settings.name
        if calibration.result is None:
            self.get_logger().error(f'calibration of {name} failed: {calibration.reason}')
            return
        result = calibration.result
        self.get_logger().info(
            f'calibration of {name}: mocap measured {result.ratio:.6f} of the way (standard error '
            f'{result.uncertainty:.1e}; up less down {result.difference:+.1e}), backlash '
            f'{result.backlash:.3g} {calibration.axis.settings.unit}: set '
            f'steps_per_unit to {result.steps_per_unit:.6g}')

    def _status(self, view: AxisView) -> DiagnosticStatus:
        level = 'error' if view.mode == 'emergency' else 'warn' if view.warnings else 'ok'
        return entry(view.name, level, view.mode, cells(view))

    def diagnostics(self) -> Sequence[DiagnosticStatus]:
        """Return the diagnostics of the cycles and the axes."""
        with self._lock:
            if self._machine is None or self._thread is None or self._driver is None:
                return ()
            cycle, views = self._thread.cycle, self._machine.view()
            trouble = self._cut or self._driver.trouble
        if trouble:
            self._log('error', trouble, 'machine')
        found = [entry(f'{self.get_name()}: cycles', 'error' if trouble else 'ok',
                       trouble or 'running', cycle.figures())]
        for view in views:
            status = self._status(view)
            status.name = f'{self.get_name()}: axis {view.name}'
            status.message = ': '.join(filter(None, (view.mode, ', '.join(view.warnings))))
            found.append(status)
        for one in self._exclusive:
            one.look()
            if one.problem:
                text = f'{one.problem}: its values are not used; end all but one'
                self._log('error', text, one.topic)
                found.append(entry(f'{self.get_name()}: {one.topic}', 'error', text, {}))
        return found
