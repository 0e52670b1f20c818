# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Machine drivers: one in this process for simulations, one over UDP for real machines."""

import socket
import threading
import time
from typing import Mapping, Optional, Protocol

from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.gantry.control import Feedback
from optitrack_vrpn.gantry.cubic import Cubic
from optitrack_vrpn.gantry.settings import MachineSettings
from optitrack_vrpn.gantry.sim_model import SimulatedMachine
from optitrack_vrpn.gantry.wire import (
    ahead, Answer, decode_answer, decode_set_points, encode_answer, encode_set_points, in_steps,
    in_units, SetPoints)

#: Chosen: buffer of one datagram (bytes), above the 1048 of a machine with 32 axes. Halved, the
#: datagrams of such a machine are cut off; doubled, nothing changes.
_MOST_BYTES = 2048
#: Chosen: answers read per cycle, 64 times as many as a machine sends. Halved or doubled, so is
#: the time that a machine which floods its controller takes of each cycle.
_MOST_ANSWERS = 64
#: Chosen: copies of the datagram that cuts the power, because UDP can lose one and no cycle may
#: follow. Halved or doubled, the machine misses it more or less often.
_CUT_COPIES = 3
#: Chosen: time without set points (s) after which the machine accepts another controller and a
#: new count. Halved, gaps in the network end the count; doubled, a restarted controller waits
#: longer.
_OWNER_S = 1.0


class Driver(Protocol):
    """
    Interface of a machine for the controller.

    :ivar trouble: reason why the last answer is missing or was not used, or ''.
    """

    trouble: str

    def feedback(self) -> Optional[Feedback]:
        """Return the machine's reports since the last call, None if there are none."""

    def run(self, cubics: Mapping[str, Cubic], dt: float) -> None:
        """Drive the motors through the next cycle; the cubics are in units."""

    def cut_power(self) -> None:
        """Cut the power: an emergency stop."""

    def restore_power(self) -> None:
        """Restore the power, after the user has reset the emergency."""

    def close(self) -> None:
        """Release all resources; idempotent."""


class SimDriver:
    """
    A simulated machine in this process.

    :param machine: the simulation.
    """

    trouble = ''

    def __init__(self, machine: SimulatedMachine) -> None:
        self.machine = machine

    def feedback(self) -> Optional[Feedback]:
        """Return power and switches."""
        return Feedback(self.machine.power, self.machine.switches())

    def run(self, cubics: Mapping[str, Cubic], dt: float) -> None:
        """Drive every axis through a cycle."""
        self.machine.run(cubics, dt)

    def cut_power(self) -> None:
        """Cut the power."""
        self.machine.power = False

    def restore_power(self) -> None:
        """Restore the power."""
        self.machine.power = True

    def close(self) -> None:
        """Do nothing: there are no resources."""


class UdpDriver:
    """
    A machine that receives set points by UDP and answers each datagram.

    :param settings: the machine.
    :param host: its address.
    :param port: its UDP port.
    :raises TransportError: if the address cannot be used.
    :ivar trouble: see ``Driver``.
    :ivar refused: number of datagrams that were not valid answers.
    """

    def __init__(self, settings: MachineSettings, host: str, port: int) -> None:
        self._settings = settings
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            # A connected socket drops datagrams from other addresses.
            self._socket.connect((host, port))
        except (OSError, TypeError) as error:    # TypeError: not a name
            self._socket.close()
            raise TransportError(
                f'machine {host}:{port} cannot be used ({error}): check machine_host '
                'and machine_port') from None
        self._sequence = 0
        self._ends = {axis.name: Cubic(0.0, 0.0, 0.0, 0.0) for axis in settings.axes}
        self._answered = -1
        self._restored = 0
        self._power = True
        self.trouble = ''
        self.refused = 0

    def feedback(self) -> Optional[Feedback]:
        """Read the answers; the newest one counts, regardless of the order of arrival."""
        newest: Optional[Answer] = None
        for _ in range(_MOST_ANSWERS):
            try:
                data = self._socket.recv(_MOST_BYTES)
            except BlockingIOError:     # nothing left
                break
            except OSError as error:    # such as no listener
                self.trouble = f'the machine cannot be reached: {error.strerror}'
                break
            try:
                answer = decode_answer(data)
                if len(answer.switches) != len(self._settings.axes):
                    raise RemoteProtocolError(
                        f'{len(answer.switches)} axes instead of {len(self._settings.axes)}')
            except RemoteProtocolError as error:
                self.refused += 1
                self.trouble = f'an answer of the machine is not valid: {error}'
                continue
            age = ahead(self._sequence - 1, answer.sequence)
            sequence = self._sequence - 1 - age
            if 0 <= age < self._settings.loss_cycles and sequence > self._answered:
                self._answered = sequence
                newest = answer
                self.trouble = ''
        if newest is None:
            if not self.trouble and (
                    self._sequence - self._answered > self._settings.loss_cycles):
                self.trouble = ('the machine does not answer: is it on, with this address, and '
                                'without another controller?')
            return None
        # An answer to a datagram from before the reset does not state the present power.
        power = newest.power or self._answered < self._restored
        return Feedback(power, {
            axis.name: each for axis, each in zip(self._settings.axes, newest.switches)})

    def run(self, cubics: Mapping[str, Cubic], dt: float) -> None:
        """Send the cubics of the next cycle, in steps."""
        points = SetPoints(self._sequence, dt, self._power, tuple(
            in_steps(cubics[axis.name], axis.steps_per_unit) for axis in self._settings.axes))
        self._ends = {name: Cubic(cubic.at(dt), 0.0, 0.0, 0.0) for name, cubic in cubics.items()}
        self._sequence += 1
        try:
            self._socket.send(encode_set_points(points))
        except OSError:
            pass    # the missing answer shows it

    def cut_power(self) -> None:
        """Command the power cut, now and in every following datagram."""
        self._power = False
        for _ in range(_CUT_COPIES):
            self.run(self._ends, 1.0 / self._settings.rate_hz)

    def restore_power(self) -> None:
        """Permit the machine to switch on again."""
        self._restored = self._sequence
        self._power = True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


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
