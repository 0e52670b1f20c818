# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Files and sockets of the controller: the machine's description and its UDP driver."""

from pathlib import Path
import socket
from typing import Mapping, Optional, Protocol, Union

from optitrack_vrpn.cli.files_io import find_config, read_yaml
from optitrack_vrpn.core.errors import RemoteProtocolError, TransportError
from optitrack_vrpn.core.settings.schema import build
from optitrack_vrpn.guests.machine.gantry_settings import MachineSettings
from optitrack_vrpn.guests.machine.machine import Feedback
from optitrack_vrpn.guests.machine.setpoints import (
    ahead, Cubic, decode_answer, encode_set_points, MachineAnswer, MOST_BYTES, SetPoints)


def load_machine(path: Union[str, Path]) -> MachineSettings:
    """Read a machine from a file, or by the name of one of the package's own."""
    found = find_config(str(path), 'gantry_*.yaml')
    return build(MachineSettings, read_yaml(found), f'{found}: ')


class Driver(Protocol):
    """Interface of a machine; ``trouble`` is why the last answer is missing, or ''."""

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
        newest: Optional[MachineAnswer] = None
        for _ in range(64):      # a flood of answers must not hold a cycle
            try:
                data = self._socket.recv(MOST_BYTES)
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
            cubics[axis.name].scaled(axis.steps_per_unit) for axis in self._settings.axes))
        self._ends = {name: Cubic(cubic.at(dt), 0.0, 0.0, 0.0) for name, cubic in cubics.items()}
        self._sequence += 1
        try:
            self._socket.send(encode_set_points(points))
        except OSError:
            pass    # the missing answer shows it

    def cut_power(self) -> None:
        """Command the power cut, now and in every following datagram."""
        self._power = False
        for _ in range(3):      # UDP can lose one, and no cycle may follow
            self.run(self._ends, 1.0 / self._settings.rate_hz)

    def restore_power(self) -> None:
        """Permit the machine to switch on again."""
        self._restored = self._sequence
        self._power = True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
