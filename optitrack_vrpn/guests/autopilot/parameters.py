# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Parameters that external vision needs: rules, and the protocol that reads and writes them.

Names and meanings are those of the parameter references of PX4 (EKF2) and ArduPilot (EK3, VISO).
"""

from __future__ import annotations

from collections.abc import Callable
import math
import struct
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.guests.autopilot.messages import make_message
from optitrack_vrpn.guests.autopilot.settings import Plan

#: MAV_PARAM_TYPE of integers, unsigned and signed, of 8, 16 and 32 bits, with their layouts.
INTEGER_TYPES = {1: '<B', 2: '<b', 3: '<H', 4: '<h', 5: '<I', 6: '<i'}
INT32, REAL32 = 6, 9
#: Timeout of an answer (ns). Chosen: a telemetry radio needs up to 200 ms for both directions.
ANSWER_NS = 400_000_000
#: Component of the autopilot itself: MAV_COMP_ID_AUTOPILOT1.
AUTOPILOT_COMPONENT = 1
#: Parameters that matter and have no rule: their values depend on vehicle and link.
UNCHECKED = {
    'px4': 'EKF2_EV_POS_X/Y/Z (position of the body in the vehicle)',
    'ardupilot': 'GPS1_TYPE or GPS_TYPE (0), COMPASS_USE, _USE2, _USE3 (0), VISO_DELAY_MS (age of '
                 'the samples and time on the link), VISO_POS_X/Y/Z (position of the body in the '
                 'vehicle)'}


class Need(NamedTuple):
    """
    What one parameter must be.

    :ivar name: name of the parameter.
    :ivar right: returns the correct value for the present one; an equal value is correct.
    :ivar why: effect of the parameter, for the user.
    :ivar required: whether external vision fails without it; otherwise the rule is advice.
    :ivar reboot: whether a change takes effect only after a reboot.
    """

    name: str
    right: Callable[[float], float]
    why: str
    required: bool = True
    reboot: bool = False


class ParameterVerdict(NamedTuple):
    """
    Result for one parameter.

    :ivar value: present value; None if the autopilot did not answer.
    :ivar right: correct value; None if the parameter is missing.
    """

    rule: Need
    value: Optional[float]
    right: Optional[float]

    @property
    def good(self) -> bool:
        """Return whether no change is needed."""
        return self.value is not None and self.value == self.right

    def __str__(self) -> str:
        name = self.rule.name
        if self.value is None or self.right is None:
            return f'{name}: no answer ({self.rule.why})'
        if self.good:
            return f'{name} is {self.value:g}'
        reboot = ', then reboot the autopilot' if self.rule.reboot else ''
        return f'{name} is {self.value:g}; set it to {self.right:g}{reboot} ({self.rule.why})'


def _one_of(first: float, *others: float) -> Callable[[float], float]:
    return lambda present: present if present in (first, *others) else first


def _bits(needed: int, wanted: int) -> Callable[[float], float]:
    return lambda present: (
        present if int(present) & needed == needed else float(int(present) | wanted))


def _within(low: float, high: float, right: float) -> Callable[[float], float]:
    return lambda present: present if low <= present <= high else right


def rules(autopilot: str, plan: Plan) -> tuple[Need, ...]:
    """
    Return the rules for an autopilot.

    :param autopilot: ``px4`` or ``ardupilot``.
    :param plan: states whether velocities are sent.
    """
    if autopilot == 'px4':
        position_yaw, velocity = 1 | 2 | 8, 4
        return (
            Need('EKF2_EV_CTRL',
                 _bits(position_yaw, position_yaw | (velocity if plan.velocity else 0)),
                 f'fuses position in three axes, yaw: bits {position_yaw}; velocity: {velocity}'),
            Need('EKF2_HGT_REF', _one_of(3), 'height from vision', reboot=True),
            # The user may have measured some tens of milliseconds; 175 is the default of old
            # releases, meant for cameras.
            Need('EKF2_EV_DELAY', _within(0.0, 50.0, 0.0),
                 'delay in ms; the stamps sent here are capture times already', reboot=True),
            # PX4 keeps an origin from GNSS, with its altitude, until a reboot.
            Need('EKF2_GPS_CTRL', _one_of(0), 'no GNSS indoors', reboot=True),
            Need('SYS_HAS_GPS', _one_of(0), 'PX4 refuses to arm without a GNSS receiver',
                 required=False, reboot=True),
            Need('EKF2_MAG_TYPE', _one_of(5), 'no magnetometer: the yaw is that of vision',
                 required=False, reboot=True),
        )
    source = 6 if plan.velocity else 0
    return (
        # 2 and 3 are backends for cameras: ArduPilot turns their poses to its own yaw, ignores
        # them for 1 s after a reset (2), or shifts them so that the position does not jump (3).
        Need('VISO_TYPE', _one_of(1), 'takes poses from MAVLink as they are', reboot=True),
        Need('AHRS_EKF_TYPE', _one_of(3), 'EKF3 is the estimator'),
        Need('EK3_ENABLE', _one_of(1), 'EKF3 runs', reboot=True),
        *(Need(f'EK3_SRC1_{name}', _one_of(6), f'{what} from external navigation')
          for name, what in (
              ('POSXY', 'horizontal position'), ('POSZ', 'height'), ('YAW', 'yaw'))),
        *(Need(f'EK3_SRC1_{name}', _one_of(source, 0),
               f'{what} velocity from external navigation, or none')
          for name, what in (('VELXY', 'horizontal'), ('VELZ', 'vertical'))),
    )


def decode(value: float, mav_type: int, bytewise: bool) -> float:
    """
    Decode the value of a PARAM_VALUE.

    :param value: the float on the wire.
    :param mav_type: its MAV_PARAM_TYPE.
    :param bytewise: whether integers are stored in the float's bytes (PX4) or converted to a float
        (ArduPilot).
    """
    if mav_type not in INTEGER_TYPES:
        return value
    if bytewise:
        return float(struct.unpack_from(INTEGER_TYPES[mav_type], struct.pack('<f', value))[0])
    return float(round(value)) if math.isfinite(value) else value


def encode(value: float, mav_type: int, bytewise: bool) -> float:
    """Encode a value for PARAM_SET; see ``decode``."""
    if not bytewise or mav_type not in INTEGER_TYPES:
        return value
    found: float = struct.unpack('<f', struct.pack('<i' if value < 0 else '<I', int(value)))[0]
    return found


class ParameterProtocol:
    """
    Read the parameters of one autopilot, and write the wrong ones on request.

    One request at a time is repeated until its answer arrives or the attempts are used up: a
    serial line loses messages, and an autopilot does not answer for a parameter that it does not
    have.

    :param wanted: rules of the parameters.
    :param bytewise: see ``decode``.
    :param write: whether wrong parameters are written.
    :ivar done: whether all have been read, and written if requested.
    :ivar written: rules of the parameters that were written and confirmed.
    :ivar refused: reason why parameters were not written, or ''.
    """

    def __init__(self, wanted: tuple[Need, ...], bytewise: bool, write: bool) -> None:
        self._wanted = wanted
        self._bytewise = bytewise
        self._write = write
        self.restart()

    def restart(self) -> None:
        """Read all parameters again."""
        #: Value and MAV_PARAM_TYPE by name; None if the autopilot did not answer.
        self._values: dict[str, tuple[Optional[float], int]] = {}
        self.refused = ''
        self._refused: list[str] = []
        self.written: list[Need] = []
        self._to_read = [rule.name for rule in self._wanted]
        self._to_write: Optional[list[ParameterVerdict]] = None
        self._attempts = 0
        self._next_ns = 0
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
    def verdicts(self) -> list[ParameterVerdict]:
        """Return the verdicts on the parameters read so far."""
        found = [(rule, self._values[rule.name][0]) for rule in self._wanted
                 if rule.name in self._values]
        return [ParameterVerdict(rule, value, None if value is None else rule.right(value))
                for rule, value in found]

    def tick(self, system: int, armed: bool, monotonic_ns: int) -> Any:
        """Return the next request, None if none is due; none is written to an armed vehicle."""
        if self.done or monotonic_ns < self._next_ns:
            return None
        if self._attempts >= 4:
            self._give_up()
        if not self._to_read and self._to_write is None:
            self._to_write = [one for one in self.verdicts if self._write and not one.good
                              and one.right is not None]
        request = None
        target = {'target_system': system, 'target_component': AUTOPILOT_COMPONENT}
        if self._to_read:
            request = make_message(
                'PARAM_REQUEST_READ', param_id=self._to_read[0], param_index=-1, **target)
        elif self._to_write and armed:
            self.refused = 'parameters are not written while the vehicle is armed'
        elif self._to_write:
            rule, _, value = self._to_write[0]
            mav_type = self._values[rule.name][1]
            request = make_message(
                'PARAM_SET', param_id=rule.name, param_type=mav_type,
                param_value=encode(value or 0.0, mav_type, self._bytewise), **target)
        if request is None:
            self.done = True
            return None
        self._attempts += 1
        self._next_ns = monotonic_ns + ANSWER_NS
        return request

    def receive(self, name: str, value: float, mav_type: int) -> None:
        """Process a PARAM_VALUE."""
        present = decode(value, mav_type, self._bytewise)
        if not math.isfinite(present) or all(rule.name != name for rule in self._wanted):
            return    # a value that is not finite is requested again
        self._values[name] = (present, mav_type)
        if name in self._to_read:    # perhaps asked by another program, before this one
            self._to_read.remove(name)
        elif self._to_write and (self._to_write[0].rule.name, self._to_write[0].right) == (
                name, present):
            self.written.append(self._to_write.pop(0).rule)
        else:
            return
        self._attempts = self._next_ns = 0

    def _give_up(self) -> None:
        self._attempts = 0
        if self._to_read:
            self._values[self._to_read.pop(0)] = (None, 0)
        elif self._to_write:
            self._refused.append(self._to_write.pop(0).rule.name)
            self.refused = f'the autopilot does not accept {", ".join(self._refused)}'
