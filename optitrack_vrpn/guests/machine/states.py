# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The modes of an axis and the table of their transitions; the faults of axes."""

from enum import Enum
from typing import Literal

#: Why a controlled axis stops (first two lines), or why a measured one has no valid value.
Fault = Literal[
    'soft_limit', 'limit_switch', 'motion_limit', 'stream_lost', 'mocap_lost', 'correction_limit',
    'machine_lost', 'not_found',
    'no_pose', 'stale', 'accepted_by_time', 'gimbal_lock', 'range']


class Mode(Enum):
    """
    Modes of an axis; ``TRANSITIONS`` has their rules.

    1. Every motion starts with a command of the user. Neither a returning signal nor the end of
       an alarm starts one: only commands lead out of STOPPING.
    2. EMERGENCY has priority over all other modes and ends only with RESET.
    3. A fault (a limit, a lost signal, a lost machine) leads to STOPPING from every mode with
       motion.
    4. LOCK is a stop that stores the previous mode. UNLOCK leads to STOPPING; the axis then
       repeats the command of the stored mode, unless a fault occurred meanwhile.
    """

    STOPPING = 'stopping'
    MANUAL = 'manual'
    VELOCITY = 'velocity'
    STREAM = 'stream'
    SINE = 'sine'
    TRAJECTORY = 'trajectory'
    REFERENCE = 'reference'
    LOCK = 'lock'
    EMERGENCY = 'emergency'


MOVING = (Mode.MANUAL, Mode.VELOCITY, Mode.STREAM, Mode.SINE, Mode.TRAJECTORY, Mode.REFERENCE)


class ModeEvent(Enum):
    """Events that change the mode, besides a mode with motion: the command that starts it."""

    STOP = 'stop'
    LOCK = 'lock'
    UNLOCK = 'unlock'
    FAULT = 'a fault'
    END = 'end'
    EMERGENCY = 'emergency'
    RESET = 'reset'


#: (mode, event) -> mode. A pair that is not listed is refused, or does not change the mode.
TRANSITIONS: 'dict[tuple[Mode, Mode | ModeEvent], Mode]' = {
    **{(mode, command): command for mode in (Mode.STOPPING, *MOVING) for command in MOVING},
    **{(mode, event): Mode.STOPPING
       for mode in (Mode.STOPPING, *MOVING)
       for event in (ModeEvent.STOP, ModeEvent.FAULT, ModeEvent.END)},
    **{(mode, ModeEvent.LOCK): Mode.LOCK for mode in (Mode.STOPPING, *MOVING)},
    (Mode.LOCK, ModeEvent.UNLOCK): Mode.STOPPING,
    **{(mode, ModeEvent.EMERGENCY): Mode.EMERGENCY for mode in Mode},
    (Mode.EMERGENCY, ModeEvent.RESET): Mode.STOPPING,
}
