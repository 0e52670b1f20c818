# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Check the autopilot's parameters for external vision.

Names and meanings are those of the parameter references of PX4 (EKF2) and ArduPilot (EK3, VISO).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import math
import struct
from typing import NamedTuple, Optional

from optitrack_vrpn.autopilot.settings import Plan

#: MAV_PARAM_TYPE of integers, unsigned and signed, of 8, 16 and 32 bits, with their layouts.
INTEGER_TYPES = {1: '<B', 2: '<b', 3: '<H', 4: '<h', 5: '<I', 6: '<i'}
INT32, REAL32 = 6, 9
#: Largest EKF2_EV_DELAY that is not reported (ms). Chosen: stamps are capture times, and the user
#: may have measured some tens of milliseconds; 175 is the default of old releases, meant for
#: cameras.
MAX_EV_DELAY_MS = 50.0
#: Bits of EKF2_EV_CTRL.
EV_POSITION_XY, EV_POSITION_Z, EV_VELOCITY, EV_YAW = 1, 2, 4, 8


#: Parameters that matter and have no rule: their values depend on vehicle and link.
UNCHECKED = {
    'px4': 'EKF2_EV_POS_X/Y/Z (position of the body in the vehicle)',
    'ardupilot': 'GPS1_TYPE or GPS_TYPE (0), COMPASS_USE, _USE2, _USE3 (0), VISO_DELAY_MS (age of '
                 'the samples and time on the link), VISO_POS_X/Y/Z (position of the body in the '
                 'vehicle)'}


class Rule(NamedTuple):
    """
    Rule for one parameter.

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


class Verdict(NamedTuple):
    """
    Result for one parameter.

    :ivar value: present value; None if the autopilot did not answer.
    :ivar right: correct value; None if the parameter is missing.
    """

    rule: Rule
    value: Optional[float]
    right: Optional[float]

    @property
    def good(self) -> bool:
        """Return whether no change is needed."""
        return self.value is not None and self.value == self.right

    def __str__(self) -> str:
        name = self.rule.name
        if self.value is None:
            return f'{name}: no answer ({self.rule.why})'
        if self.good:
            return f'{name} is {self.value:g}'
        assert self.right is not None
        reboot = ', then reboot the autopilot' if self.rule.reboot else ''
        return f'{name} is {self.value:g}; set it to {self.right:g}{reboot} ({self.rule.why})'


def _fixed(value: float) -> Callable[[float], float]:
    return lambda present: value


def _bits(needed: int, wanted: int) -> Callable[[float], float]:
    return lambda present: (
        present if int(present) & needed == needed else float(int(present) | wanted))


def _one_of(first: float, *others: float) -> Callable[[float], float]:
    return lambda present: present if present in (first, *others) else first


def _within(low: float, high: float, right: float) -> Callable[[float], float]:
    return lambda present: present if low <= present <= high else right


def rules(autopilot: str, plan: Plan) -> tuple[Rule, ...]:
    """
    Return the rules for an autopilot.

    :param autopilot: ``px4`` or ``ardupilot``.
    :param plan: states whether velocities are sent.
    """
    if autopilot == 'px4':
        needed = EV_POSITION_XY | EV_POSITION_Z | EV_YAW
        return (
            Rule('EKF2_EV_CTRL', _bits(needed, needed | (EV_VELOCITY if plan.velocity else 0)),
                 f'fuses position in three axes, yaw: bits {needed}; velocity: {EV_VELOCITY}'),
            Rule('EKF2_HGT_REF', _fixed(3), 'height from vision', reboot=True),
            Rule('EKF2_EV_DELAY', _within(0.0, MAX_EV_DELAY_MS, 0.0),
                 'delay in ms; the stamps sent here are capture times already', reboot=True),
            # PX4 keeps an origin from GNSS, with its altitude, until a reboot.
            Rule('EKF2_GPS_CTRL', _fixed(0), 'no GNSS indoors', reboot=True),
            Rule('SYS_HAS_GPS', _fixed(0), 'PX4 refuses to arm without a GNSS receiver',
                 required=False, reboot=True),
            Rule('EKF2_MAG_TYPE', _fixed(5), 'no magnetometer: the yaw is that of vision',
                 required=False, reboot=True),
        )
    source = 6 if plan.velocity else 0
    return (
        # 2 and 3 are backends for cameras: ArduPilot turns their poses to its own yaw, ignores
        # them for 1 s after a reset (2), or shifts them so that the position does not jump (3).
        Rule('VISO_TYPE', _fixed(1), 'takes poses from MAVLink as they are', reboot=True),
        Rule('AHRS_EKF_TYPE', _fixed(3), 'EKF3 is the estimator'),
        Rule('EK3_ENABLE', _fixed(1), 'EKF3 runs', reboot=True),
        Rule('EK3_SRC1_POSXY', _fixed(6), 'horizontal position from external navigation'),
        Rule('EK3_SRC1_POSZ', _fixed(6), 'height from external navigation'),
        Rule('EK3_SRC1_YAW', _fixed(6), 'yaw from external navigation'),
        Rule('EK3_SRC1_VELXY', _one_of(source, 0), 'horizontal velocity from external navigation, '
             'or none'),
        Rule('EK3_SRC1_VELZ', _one_of(source, 0), 'vertical velocity from external navigation, '
             'or none'),
    )


def check(wanted: Sequence[Rule], values: Mapping[str, Optional[float]]) -> list[Verdict]:
    """
    Compare parameters with the rules.

    :param values: values by name; None or absent if the autopilot did not answer.
    """
    found = []
    for rule in wanted:
        value = values.get(rule.name)
        found.append(Verdict(rule, value, None if value is None else rule.right(value)))
    return found


def decode(value: float, mav_type: int, bytewise: bool) -> float:
    """
    Decode the value of a PARAM_VALUE.

    :param value: the float on the wire.
    :param mav_type: its MAV_PARAM_TYPE.
    :param bytewise: whether integers are stored in the float's bytes (PX4) or converted to a float
        (ArduPilot).
    """
    if bytewise and mav_type in INTEGER_TYPES:
        raw = struct.pack('<f', value)
        layout = INTEGER_TYPES[mav_type]
        return float(struct.unpack(layout, raw[:struct.calcsize(layout)])[0])
    if not bytewise and mav_type in INTEGER_TYPES and math.isfinite(value):
        return float(round(value))
    return value


def encode(value: float, mav_type: int, bytewise: bool) -> float:
    """Encode a value for PARAM_SET; see ``decode``."""
    if bytewise and mav_type in INTEGER_TYPES:
        raw = struct.pack('<i' if value < 0 else '<I', int(value))
        found: float = struct.unpack('<f', raw)[0]
        return found
    return value
