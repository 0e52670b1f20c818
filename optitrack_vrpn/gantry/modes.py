# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Modes of an axis and their transitions: one table.

Rules:

1. Every motion starts with a command of the user. Neither a returning signal nor the end of an
   alarm starts one: only commands lead out of STOPPING.
2. EMERGENCY has priority over all other modes and ends only with RESET.
3. A limit, a lost signal and a fault lead to STOPPING from every mode with motion.
4. LOCK is a stop that stores the previous mode. UNLOCK leads to STOPPING; the axis then repeats
   the command of the stored mode, unless a fault occurred meanwhile.
"""

from enum import Enum


class Mode(Enum):
    """Modes of an axis."""

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


class Event(Enum):
    """Events that change the mode, besides a mode with motion: the command that starts it."""

    STOP = 'stop'
    LOCK = 'lock'
    UNLOCK = 'unlock'
    LIMIT = 'limit'
    LOST = 'lost'
    FAULT = 'fault'
    END = 'end'
    EMERGENCY = 'emergency'
    RESET = 'reset'


#: (mode, event) -> mode. A pair that is not listed is refused, or does not change the mode.
TRANSITIONS: 'dict[tuple[Mode, Mode | Event], Mode]' = {
    **{(mode, command): command for mode in (Mode.STOPPING, *MOVING) for command in MOVING},
    **{(mode, event): Mode.STOPPING
       for mode in (Mode.STOPPING, *MOVING)
       for event in (Event.STOP, Event.LIMIT, Event.LOST, Event.FAULT, Event.END)},
    **{(mode, Event.LOCK): Mode.LOCK for mode in (Mode.STOPPING, *MOVING)},
    (Mode.LOCK, Event.UNLOCK): Mode.STOPPING,
    **{(mode, Event.EMERGENCY): Mode.EMERGENCY for mode in Mode},
    (Mode.EMERGENCY, Event.RESET): Mode.STOPPING,
}
