# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read the parameters that external vision needs, and write the wrong ones on request.

One request at a time is repeated until its answer arrives or the attempts are used up: a serial
line loses messages, and an autopilot does not answer for a parameter that it does not have.
"""

from __future__ import annotations

import math
from typing import Optional

from optitrack_vrpn.autopilot.messages import Outgoing
from optitrack_vrpn.autopilot.parameters_check import check, decode, encode, Rule, Verdict

#: Timeout of an answer (ns), and number of attempts. Chosen: a telemetry radio needs up to 200 ms
#: for both directions.
ANSWER_NS = 400_000_000
ATTEMPTS = 4
#: Components of the autopilot itself: MAV_COMP_ID_AUTOPILOT1.
AUTOPILOT_COMPONENT = 1


class ParameterProtocol:
    """
    Read and write the parameters of one autopilot.

    :param wanted: rules of the parameters.
    :param bytewise: see ``decode``.
    :param write: whether wrong parameters are written.
    :ivar done: whether all have been read, and written if requested.
    :ivar written: rules of the parameters that were written and confirmed.
    :ivar refused: reason why parameters were not written, or ''.
    """

    def __init__(self, wanted: tuple[Rule, ...], bytewise: bool, write: bool) -> None:
        self._wanted = wanted
        self._bytewise = bytewise
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Read all parameters again."""
        self._values: dict[str, Optional[float]] = {}
        self._types: dict[str, int] = {}
        self.refused = ''
        self._refused: list[str] = []
        self.written: list[Rule] = []
        self._to_read = [rule.name for rule in self._wanted]
        self._to_write: list[tuple[Rule, float]] = []
        self._attempts = 0
        self._next_ns = 0
        self._compared = False
        self.done = False

    @property
    def read(self) -> bool:
        """Return whether every parameter has been answered or given up."""
        return not self._to_read

    @property
    def reboot(self) -> str:
        """Return what to do after parameters were written that need a reboot; '' if none was."""
        names = ', '.join(rule.name for rule in self.written if rule.reboot)
        return names and f'reboot the autopilot, without which these have no effect: {names}'

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on the parameters read so far."""
        return check([rule for rule in self._wanted if rule.name in self._values], self._values)

    def tick(self, system: int, armed: bool, monotonic_ns: int) -> Optional[Outgoing]:
        """
        Return the next request if one is due.

        :param system: system id of the autopilot.
        :param armed: whether the vehicle is armed; then no parameter is written.
        """
        if self.done or monotonic_ns < self._next_ns:
            return None
        if self._attempts >= ATTEMPTS:
            self._give_up()
        if not self._to_read and not self._compared:
            self._compare()
        target = {'target_system': system, 'target_component': AUTOPILOT_COMPONENT}
        if self._to_read:
            self._wait(monotonic_ns)
            return Outgoing('PARAM_REQUEST_READ', {
                **target, 'param_id': self._to_read[0], 'param_index': -1})
        if self._to_write and armed:
            self.refused = 'parameters are not written while the vehicle is armed'
        elif self._to_write:
            self._wait(monotonic_ns)
            rule, value = self._to_write[0]
            mav_type = self._types[rule.name]
            return Outgoing('PARAM_SET', {
                **target, 'param_id': rule.name, 'param_type': mav_type,
                'param_value': encode(value, mav_type, self._bytewise)})
        self.done = True
        return None

    def receive(self, name: str, value: float, mav_type: int) -> None:
        """Process a PARAM_VALUE."""
        if not any(rule.name == name for rule in self._wanted):
            return
        present = decode(value, mav_type, self._bytewise)
        if not math.isfinite(present):
            return    # not the value of a parameter; it is requested again
        self._types[name] = mav_type
        self._values[name] = present
        if name in self._to_read:    # perhaps asked by another program, before this one
            self._to_read.remove(name)
            self._go_on()
        elif self._to_write and self._to_write[0][0].name == name and (
                present == self._to_write[0][1]):
            self.written.append(self._to_write.pop(0)[0])
            self._go_on()

    def _go_on(self) -> None:
        self._attempts = 0
        self._next_ns = 0

    def _wait(self, monotonic_ns: int) -> None:
        self._attempts += 1
        self._next_ns = monotonic_ns + ANSWER_NS

    def _give_up(self) -> None:
        self._attempts = 0
        if self._to_read:
            self._values[self._to_read.pop(0)] = None
        elif self._to_write:
            rule, _ = self._to_write.pop(0)
            self._refused.append(rule.name)
            self.refused = f'the autopilot does not accept {", ".join(self._refused)}'

    def _compare(self) -> None:
        self._compared = True
        if self._write:
            self._to_write = [(verdict.rule, verdict.right) for verdict in self.verdicts
                              if not verdict.good and verdict.right is not None]
