# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A simulated stepper machine, its UDP port, and the bodies that it carries.

The motor of an axis moves in whole steps, with play between motor and load. The load loses a share
of its way that depends on the direction (slip), and a fixed way after each turn to the positive
direction.
"""

from dataclasses import replace
import functools
import socket
import threading
import time
from typing import Callable, Mapping, Optional

import numpy as np
from optitrack_vrpn.core.axes import Pose
from optitrack_vrpn.core.errors import ConfigurationError, RemoteProtocolError, TransportError
from optitrack_vrpn.guests.machine.axes_settings import AxisTable
from optitrack_vrpn.guests.machine.gantry_settings import AxisSettings, MachineSettings
from optitrack_vrpn.guests.machine.machine import Feedback
from optitrack_vrpn.guests.machine.setpoints import (
    ahead, Cubic, decode_set_points, encode_answer, MachineAnswer, MOST_BYTES, Switches)
from optitrack_vrpn.sim.motion import Array, MotionState
from optitrack_vrpn.sim.scenario_io import Scenario, SimBody


class SimulatedAxis:
    """
    One axis.

    :param settings: steps per unit, mechanics, switches.
    :ivar steps: position of the motor in steps.
    :ivar position: true position of the load (unit).
    """

    def __init__(self, settings: AxisSettings) -> None:
        self.settings = settings
        self.steps = 0
        self.position = settings.plant.start
        self._origin = 0
        self._load = 0.0      # load side of the play, in the motor's coordinate
        self._direction = 0
        self._owed = 0.0

    def recount(self, motor: float) -> None:
        """Take a set point (unit) as the count of the present position, without motion."""
        self._origin = self.steps - round(motor * self.settings.steps_per_unit)

    def drive(self, motor: float) -> None:
        """Move the motor (unit) to the nearest whole step; fractions do not accumulate."""
        self.steps = round(motor * self.settings.steps_per_unit) + self._origin
        plant = self.settings.plant
        angle = self.steps / self.settings.steps_per_unit
        half = 0.5 * plant.backlash
        load = min(max(self._load, angle - half), angle + half)
        change = load - self._load
        if change == 0.0:
            return
        self._load = load
        direction = 1 if change > 0.0 else -1
        if direction != self._direction:
            if direction > 0 and self._direction < 0:
                self._owed += plant.reversal_loss
            self._direction = direction
        if direction > 0 and self._owed > 0.0:
            lost = min(change, self._owed)
            self._owed -= lost
            change -= lost
        slip = plant.slip_positive if direction > 0 else plant.slip_negative
        self.position += change * (1.0 - slip)

    @property
    def switches(self) -> Switches:
        """Return the state of the switches."""
        settings, plant = self.settings, self.settings.plant
        return Switches(
            settings.switch_low is not None and self.position <= settings.switch_low,
            settings.switch_high is not None and self.position >= settings.switch_high,
            settings.reference_velocity != 0.0
            and plant.reference <= self.position <= plant.reference + plant.reference_width)


class SimulatedMachine:
    """
    All axes of a machine, driven by the cubics of the controller.

    It is the driver ``sim`` too: see ``machine_io.Driver``.

    :param settings: settings of the machine.
    :ivar power: False after an emergency stop: the motors do not move.
    """

    trouble = ''

    def __init__(self, settings: MachineSettings) -> None:
        self.settings = settings
        self.power = True
        self._counted = False
        self._before: dict[str, float] = {}
        self._begun = self._dt = 0.0
        self.axes = {each.name: SimulatedAxis(each) for each in settings.axes}

    def recount(self) -> None:
        """Take the start of the next cubics as the count of the present positions."""
        self._counted = False

    def run(self, cubics: Mapping[str, Cubic], dt: float, now: float = 0.0) -> None:
        """
        Move every axis through one cycle, at ten points, as the stepper controller does.

        :param cubics: motion of each motor in units.
        :param dt: duration of the cycle (s).
        :param now: start of the cycle (s), for ``shown``.
        """
        self._before, self._begun, self._dt = self.positions(), now, dt
        if not self.power:
            self.recount()      # the controller's count can differ from where the motors halted
            return
        for name, cubic in cubics.items():
            axis = self.axes[name]
            if not self._counted:
                axis.recount(cubic.start)
            for point in cubic.points(dt):
                axis.drive(point)
        self._counted = True

    def positions(self) -> dict[str, float]:
        """Return the true position of each axis (unit)."""
        return {name: axis.position for name, axis in self.axes.items()}

    def shown(self, now: float) -> dict[str, float]:
        """Return the true positions at a time (s, as in ``run``) within the last cycle."""
        if not self._before or self._dt <= 0.0:
            return self.positions()
        share = min(max((now - self._begun) / self._dt, 0.0), 1.0)
        return {name: self._before[name] + share * (axis.position - self._before[name])
                for name, axis in self.axes.items()}

    def switches(self) -> dict[str, Switches]:
        """Return the switches of each axis."""
        return {name: axis.switches for name, axis in self.axes.items()}

    def feedback(self) -> Feedback:
        """Return power and switches."""
        return Feedback(self.power, self.switches())

    def cut_power(self) -> None:
        """Cut the power."""
        self.power = False

    def restore_power(self) -> None:
        """Restore the power."""
        self.power = True

    def close(self) -> None:
        """Do nothing: there are no resources."""


class CarriedMotion:
    """
    Live motion, for the simulated Motive, of a body that the machine carries.

    :param table: maps axes to coordinates of the body.
    :param body: name of the body.
    :param machine: the simulated machine.
    :param lock: lock of the machine.
    """

    def __init__(self, table: AxisTable, body: str, machine: SimulatedMachine,
                 lock: threading.Lock) -> None:
        self._table = table
        self._body = body
        self._machine = machine
        self._lock = lock
        # A frozen body keeps its pose: 8 s at 240 Hz.
        self._pose: Callable[[float], Pose] = functools.lru_cache(2000)(self._present_pose)

    def at(self, time_s: Array) -> MotionState:
        """
        Return the present pose; for a time of an earlier call, the pose of that call.

        :param time_s: (n,) seconds of the scenario.
        """
        poses = [self._pose(float(each)) for each in time_s]
        zero = np.zeros((len(poses), 3))
        return MotionState(
            np.array([pose.position for pose in poses], dtype=np.float64), zero, zero,
            np.array([pose.quat_xyzw for pose in poses], dtype=np.float64), zero)

    def _present_pose(self, time_s: float) -> Pose:
        with self._lock:
            positions = self._machine.shown(time.monotonic())
        pose: Pose = self._table.carried_pose(self._body, positions)
        return pose


def carried(
    scenario: Scenario, table: AxisTable, machine: SimulatedMachine, lock: threading.Lock,
) -> tuple[Scenario, dict[str, CarriedMotion]]:
    """
    Replace the motion of bodies in a scenario by that of a machine; noise and faults stay.

    :param scenario: bodies that are not in the table keep their motion.
    :returns: the scenario with the missing bodies added, and the motions of the carried bodies.
    :raises ConfigurationError: if the axes of table and machine differ.
    """
    only = set(machine.axes).symmetric_difference(table.names)
    if only:
        raise ConfigurationError(
            f'the axis table and the machine differ in {", ".join(sorted(only))}: both must name '
            'the same axes')
    values = dict.fromkeys(machine.axes, 0.0)
    for name in table.bodies:
        table.carried_pose(name, values)    # a mix of frames fails here, not in the first cycle
    given = [body.name for body in scenario.bodies]
    added = tuple(SimBody(name=name) for name in table.bodies if name not in given)
    return replace(scenario, bodies=scenario.bodies + added), {
        name: CarriedMotion(table, name, machine, lock) for name in table.bodies}


class UdpMachine:
    """
    A simulated machine behind the datagrams of ``wire.py``; one thread.

    The first controller that sends set points owns it until it is silent for a second. The motors
    do not move to the first set point after that: it states the count where they are.

    :param settings: the machine.
    :param host: local address.
    :param port: UDP port; 0 selects a free one, see ``port``.
    :raises TransportError: if the address is not available.
    :ivar machine: the simulation; hold ``lock`` while reading it.
    :ivar refused: number of datagrams that were not set points, old, or from another controller.
    :ivar pressed: whether the emergency button of the machine is pressed.
    """

    def __init__(self, settings: MachineSettings, host: str = '127.0.0.1',
                 port: int = 0) -> None:
        self.machine = SimulatedMachine(settings)
        self.lock = threading.Lock()
        self.refused = 0
        self.received = 0
        self.pressed = False
        self._settings = settings
        self._owner: Optional[tuple[str, int]] = None
        self._last_s = 0.0
        self._sequence = -1
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.bind((host, port))
        except OSError as error:
            self._socket.close()
            raise TransportError(
                f'cannot listen on UDP {host}:{port} ({error.strerror}): another program may '
                'use it') from None
        self._socket.settimeout(0.2)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='gantry_sim', daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Return the UDP port."""
        return int(self._socket.getsockname()[1])

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                data, sender = self._socket.recvfrom(MOST_BYTES)
            except OSError:     # including timeouts
                continue
            answer = self._take(data, sender, time.monotonic())
            if answer:
                try:
                    self._socket.sendto(answer, sender)
                except OSError:
                    pass

    def _take(self, data: bytes, sender: tuple[str, int], now_s: float) -> bytes:
        """Process a datagram; return the answer, empty if it is refused."""
        try:
            points = decode_set_points(data)
            if len(points.cubics) != len(self._settings.axes):
                raise RemoteProtocolError('a different number of axes')
        except RemoteProtocolError:
            self.refused += 1
            return b''
        silent = now_s - self._last_s >= 1.0
        if sender != self._owner:
            if self._owner is not None and not silent:
                self.refused += 1
                return b''
            self._owner, self._sequence = sender, points.sequence - 1
        self._last_s = now_s
        if ahead(points.sequence, self._sequence) <= 0:
            self.refused += 1
            return b''
        self._sequence = points.sequence
        self.received += 1
        with self.lock:
            if silent:
                self.machine.recount()
            self.machine.power = points.power and not self.pressed
            self.machine.run({
                axis.name: cubic.scaled(1.0 / axis.steps_per_unit)
                for axis, cubic in zip(self._settings.axes, points.cubics)}, points.dt, now_s)
            switches = self.machine.switches()
            answer = MachineAnswer(points.sequence, self.machine.power, tuple(switches.values()))
        return encode_answer(answer)

    def close(self) -> None:
        """End the thread and close the socket; may be called again."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()
