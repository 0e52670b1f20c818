# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The simulated machine behind its UDP port, and the bodies that it carries."""

from collections import OrderedDict
from dataclasses import replace
import socket
import threading
import time
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.axes import AxisTable
from optitrack_vrpn.errors import ConfigurationError, RemoteProtocolError, TransportError
from optitrack_vrpn.gantry.settings import MachineSettings
from optitrack_vrpn.gantry.sim_model import SimulatedMachine
from optitrack_vrpn.gantry.wire import ahead, Answer, decode_set_points, encode_answer, in_units
from optitrack_vrpn.sim.motion import Array, MotionState
from optitrack_vrpn.sim.scenario_io import Body, Scenario

#: Chosen: time without set points (s) after which the machine accepts another controller and a new
#: count.
_OWNER_S = 1.0
#: Buffer of one datagram (bytes), above the 1048 of a machine with 32 axes.
_MOST_BYTES = 2048
#: Chosen: stored frames, so that a frozen body keeps its pose (8 s at 240 Hz).
_REMEMBERED = 2000


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
        self._known: OrderedDict[float, tuple[Any, Any]] = OrderedDict()

    def at(self, time_s: Array) -> MotionState:
        """
        Return the present pose; for a time of an earlier call, the pose of that call.

        :param time_s: (n,) seconds of the scenario.
        """
        rows = [self._pose(float(each)) for each in time_s]
        zero = np.zeros((len(rows), 3))
        return MotionState(
            np.array([row[0] for row in rows], dtype=np.float64), zero, zero,
            np.array([row[1] for row in rows], dtype=np.float64), zero)

    def _pose(self, time_s: float) -> tuple[Any, Any]:
        found = self._known.get(time_s)
        if found is None:
            with self._lock:
                positions = self._machine.shown(time.monotonic())
            found = self._table.carried_pose(self._body, positions)
            self._known[time_s] = found
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(time_s)
        return found


def check_names(table: AxisTable, settings: MachineSettings) -> None:
    """
    Check that machine and axis table contain the same axes.

    :raises ConfigurationError: with the names of the axes that only one of them contains.
    """
    machine = {axis.name for axis in settings.axes}
    only = machine.symmetric_difference(table.names)
    if only:
        raise ConfigurationError(
            f'the axis table and the machine differ in {", ".join(sorted(only))}: both must name '
            'the same axes')


def carried(
    scenario: Scenario, table: AxisTable, machine: SimulatedMachine, lock: threading.Lock,
) -> tuple[Scenario, dict[str, CarriedMotion]]:
    """
    Replace the motion of bodies in a scenario by that of a machine; noise and faults stay.

    :param scenario: bodies that are not in the table keep their motion.
    :returns: the scenario with the missing bodies added, and the motions of the carried bodies.
    :raises ConfigurationError: if the axes of table and machine differ.
    """
    check_names(table, machine.settings)
    values = dict.fromkeys(machine.axes, 0.0)
    for name in table.bodies:
        table.carried_pose(name, values)    # a mix of frames fails here, not in the first cycle
    given = [body.name for body in scenario.bodies]
    added = tuple(Body(name=name) for name in table.bodies if name not in given)
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
                data, sender = self._socket.recvfrom(_MOST_BYTES)
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
        silent = now_s - self._last_s >= _OWNER_S
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
                axis.name: in_units(cubic, axis.steps_per_unit)
                for axis, cubic in zip(self._settings.axes, points.cubics)}, points.dt, now_s)
            switches = self.machine.switches()
            answer = Answer(points.sequence, self.machine.power, tuple(switches.values()))
        return encode_answer(answer)

    def close(self) -> None:
        """End the thread and close the socket; may be called again."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._socket.close()
