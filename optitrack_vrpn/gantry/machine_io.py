# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A machine's description, and its drivers: simulated in this process, or over UDP."""

from pathlib import Path
import socket
from typing import Mapping, Optional, Protocol, Union

from optitrack_vrpn.cli.config_files_io import find_config, read_yaml
from optitrack_vrpn.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.gantry.control import Feedback
from optitrack_vrpn.gantry.setpoints import Cubic
from optitrack_vrpn.gantry.settings import MachineSettings
from optitrack_vrpn.gantry.sim_model import SimulatedMachine
from optitrack_vrpn.gantry.wire import (
    ahead, Answer, decode_answer, encode_set_points, in_steps, SetPoints)
from optitrack_vrpn.settings import build

#: Chosen: buffer of one datagram (bytes), above the 1048 of a machine with 32 axes.
_MOST_BYTES = 2048
#: Chosen: answers read per cycle, 64 times as many as a machine sends.
_MOST_ANSWERS = 64
#: Chosen: copies of the datagram that cuts the power, because UDP can lose one and no cycle may
#: follow.
_CUT_COPIES = 3


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


def load_machine(path: Union[str, Path]) -> MachineSettings:
    """
    Read a machine.

    :param path: a file, or the name of one of the package's own, as ``gantry_orion``.
    :raises ConfigurationError: if anything in it is not allowed; names file, axis and key.
    """
    found = find_config(str(path), 'gantry_*.yaml')
    return build(MachineSettings, read_yaml(found), f'{found}: ')
