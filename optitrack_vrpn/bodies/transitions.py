# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The state machine of the validity gate, as a table.

Rules:

1. Poses are published in state TRACKED only.
2. A fault has the same effect in every state: the last observation determines the state.
3. A body without a jump becomes TRACKED by ``acquire_frames`` consistent poses (ACQUIRED).
4. Silence, zeros and bad numbers do not end a jump. It ends when the body returns (RETURNED), when
   it was carried and has been seen in the new place for long enough (SETTLED), or when the user
   accepts it (ACCEPTED).
5. A restart of the sender's clock makes a TRACKED body NEW; the other states continue.

The gate (``validity.py``) makes the observations and applies the table. The diagram of
docs/bodies.md is generated from it.
"""

from __future__ import annotations

from enum import Enum

from optitrack_vrpn.bodies.states import State


class Observed(Enum):
    """An observation of the body: a pose, or its absence; the value is the diagram's label."""

    SILENT = 'silent'
    UNSEEN = 'no valid pose for too long'
    RESTARTED = "sender's clock restarted"
    ZEROS = 'zeros'
    NOT_A_POSE = 'not a pose'
    REFUSED = 'rejected by the sender (NatNet)'
    REPEATED = 'bit-identical for 0.2 s'
    JUMP = 'too far or turned too far, or in the place of another body'
    ACQUIRED = 'm consistent frames'
    RETURNED = 'returned for m frames'
    SETTLED = 'carried, 2 s in the new place'
    ACCEPTED = 'accepted by the user'


_FAULTS = {
    Observed.SILENT: State.STALE,
    Observed.ZEROS: State.ZEROED,
    Observed.NOT_A_POSE: State.INVALID,
    Observed.REFUSED: State.UNTRACKED,
    Observed.REPEATED: State.FROZEN,
    Observed.JUMP: State.JUMPED,
}
_RECOVERY = dict.fromkeys(
    (Observed.ACQUIRED, Observed.RETURNED, Observed.SETTLED, Observed.ACCEPTED), State.TRACKED)

TRANSITIONS: dict[State, dict[Observed, State]] = {
    **{state: {**_FAULTS, **_RECOVERY} for state in State},
    State.NEW: {**_FAULTS, Observed.ACQUIRED: State.TRACKED},
    State.TRACKED: {
        **_FAULTS, Observed.UNSEEN: State.STALE, Observed.RESTARTED: State.NEW},
}


def mermaid() -> str:
    """
    Draw the machine for docs/bodies.md.

    Transitions between two states that are not TRACKED are left out of the drawing: each fault
    leads to its own state from all of them, as the lines from TRACKED show.
    """
    lines = ['```mermaid', 'stateDiagram-v2', '    direction LR', '    [*] --> NEW']
    for before, row in TRANSITIONS.items():
        labels: dict[State, list[str]] = {}
        for observed, after in row.items():
            if after is not before and State.TRACKED in (before, after):
                labels.setdefault(after, []).append(observed.value)
        lines += [f'    {before.value} --> {after.value}: {", or ".join(each)}'
                  for after, each in labels.items()]
    return '\n'.join([*lines, '```'])
