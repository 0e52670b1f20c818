# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The states of a body, and the state machine of the tracker, as a table.

Rules:

1. Poses are published in state TRACKED only.
2. A fault has the same effect in every state: the last observation determines the state.
3. A body without a jump becomes TRACKED by ``acquire_frames`` consistent poses (ACQUIRED).
4. Zeros, bad numbers and silence of less than ``memory_s`` do not end a jump. It ends when the
   body returns (RETURNED), has been seen in the new pose for long enough (SETTLED), is in the pose
   of the hypothesis before (ACQUIRED), or when the user accepts it (ACCEPTED).
5. A STALE body becomes TRACKED at once (RESUMED) if its last pose was valid, and the network held
   the frames back: the sender's times show no silence.
6. A restart of the sender's clock makes a TRACKED body NEW; the other states continue.

7. One frame in a row that the sender reports as bad is withheld and changes no state.

``tracker.py`` makes the observations and applies the table. The diagram of docs/bodies.md is
generated from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import INFO, WARN


class Disposition(str, Enum):
    """
    What happened to one pose; every pose of a selected body has exactly one disposition.

    The value is its name in diagnostics.
    """

    PUBLISHED = 'published'
    """Published."""

    # -- withheld by the tracker --
    ACQUIRING = 'acquiring'
    """Consistent, but not yet the m-th consistent frame in a row."""
    DUPLICATE = 'duplicate'
    """Same sender time as the pose before."""
    OUT_OF_ORDER = 'out_of_order'
    """Older sender time than the pose before."""
    REPEAT = 'repeat'
    """New sender time, but bit for bit the pose before."""
    ZEROED = 'zeroed'
    """Exactly zero position with zero or identity attitude."""
    NOT_FINITE = 'not_finite'
    """A number is NaN or infinite, or a position beyond any place on earth (1e9 m)."""
    NORM = 'norm'
    """Quaternion norm beyond tolerance."""
    MOVED_TOO_FAR = 'moved_too_far'
    """Further than max_speed allows since the last good pose."""
    TURNED_TOO_FAR = 'turned_too_far'
    """Further than max_angular_rate or max_turn allow since the last good pose."""
    SWAPPED = 'swapped'
    """Within reach, but after a gap and closer to the expected place of another body."""
    NOT_TRACKED = 'not_tracked'
    """The sender reports that the cameras do not track it (NatNet)."""
    MEAN_ERROR = 'mean_error'
    """Its markers lie further from their places in the model than ``max_mean_error``."""
    SHARED_NAME = 'shared_name'
    """Two bodies of the sender have its name."""
    JUMPED = 'jumped'
    """Consistent with the jump before it, which is not accepted yet."""

    # -- dropped by another stage --
    BACKLOG = 'backlog'
    """It was queued by the server before the connection was live."""
    UNSTAMPED = 'unstamped'
    """The clock model has no stamp for its sender time."""
    TOO_OLD = 'too_old'
    """At arrival or before publishing, its age exceeded the limit."""
    SUPERSEDED = 'superseded'
    """It arrived together with a newer one, and arrival times are the stamps."""
    STAMP_NOT_RISING = 'stamp_not_rising'
    """Its stamp is not later than that of the pose before."""
    SHED = 'shed'
    """Load shedding left out the whole frame, because this computer cannot keep up."""
    INACTIVE = 'inactive'
    """The node is not active."""
    NO_TOPICS = 'no_topics'
    """The topics of the body are not created yet."""


BY_GATE = frozenset({
    Disposition.ACQUIRING, Disposition.DUPLICATE, Disposition.OUT_OF_ORDER, Disposition.REPEAT,
    Disposition.ZEROED, Disposition.NOT_FINITE, Disposition.NORM, Disposition.MOVED_TOO_FAR,
    Disposition.TURNED_TOO_FAR, Disposition.SWAPPED, Disposition.NOT_TRACKED,
    Disposition.MEAN_ERROR, Disposition.SHARED_NAME, Disposition.JUMPED})
"""Dispositions by the tracker."""


NEVER_NS = 1 << 62
"""Longer than any time (ns); negated, earlier than any time."""


class State(Enum):
    """State of a body by its last poses; only those of a TRACKED body are published."""

    NEW = 'NEW'
    """Seen in fewer than ``acquire_frames`` consistent frames."""
    TRACKED = 'TRACKED'
    """Seen, and its motion is possible."""
    STALE = 'STALE'
    """No pose for too long."""
    FROZEN = 'FROZEN'
    """The sender repeats its last pose bit for bit."""
    ZEROED = 'ZEROED'
    """The sender sends zeros for a body out of view."""
    JUMPED = 'JUMPED'
    """In an impossible place or attitude: a flip, a wrong label, or the body was carried."""
    UNTRACKED = 'UNTRACKED'
    """The sender reports that the cameras do not see the body, or not well (NatNet)."""
    INVALID = 'INVALID'
    """Not a pose: NaN, infinite, a quaternion far from unit norm, or poses of two bodies."""


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
    SETTLED = 'accepted by time'
    ACCEPTED = 'accepted by the user'
    RESUMED = 'late frames, none missing'


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
    State.STALE: {**_FAULTS, **_RECOVERY, Observed.RESUMED: State.TRACKED},
    State.TRACKED: {
        **_FAULTS, Observed.UNSEEN: State.STALE, Observed.RESTARTED: State.NEW},
}


class StateChange(NamedTuple):
    """
    One change of state.

    :ivar body: the body's name.
    :ivar time_ns: time of the change (ns), on the clock of the tracker's ``receive_ns``.
    :ivar before: the state that ended.
    :ivar after: the state that began.
    :ivar detail: the reason, with values.
    :ivar doubtful: whether time alone has accepted the pose.
    """

    body: str
    time_ns: int
    before: State
    after: State
    detail: str
    doubtful: bool = False


class BodyStatus(NamedTuple):
    """
    Status of a body at one moment; times are on the clock of ``receive_ns``.

    :ivar since_ns: start of the state (ns).
    :ivar rate_hz: the body's own frame rate by sender time (Hz), 0 when not known yet.
    :ivar age_s: time (s) since the last valid pose arrived; NaN when there was none.
    :ivar resets: discontinuities of the published poses: jumps and turns accepted, acquisitions
        after more than ``memory_s``, sender restarts. Modulo 256 it is an autopilot's reset
        counter.
    :ivar good: poses that passed the gate; later stages can still drop them.
    :ivar withheld: poses that did not pass, by ``Disposition`` value, where they are counted.
    :ivar gaps: number of gaps between received frames.
    :ivar lost: frames missing in gaps shorter than ``memory_s``, estimated from the rate.
    :ivar detail: one sentence on the state.
    :ivar swapped_with: the body with which this one has probably exchanged names, '' for none.
    :ivar accepted_by_time: number of times that time alone has made a pose valid, which no motion
        of the body in sight has led to.
    :ivar accepted_by_time_rad: angle (rad) by which the present attitude is turned against the
        last certain one, the turns that were accepted by time added up; 0 when there is none: the
        attitude has returned, or the user has accepted it.
    """

    name: str
    state: State
    since_ns: int
    rate_hz: float
    age_s: float
    resets: int
    good: int
    gaps: int
    lost: int
    detail: str
    swapped_with: str = ''
    withheld: Mapping[str, int] = {}
    accepted_by_time: int = 0
    accepted_by_time_rad: float = 0.0


class StateMachine:
    """
    The state of one body.

    :param name: the body's name.
    :ivar state: the present state.
    :ivar changes: changes of state not fetched yet.
    :ivar since_ns: start of the state (ns).
    :ivar detail: the reason for it.
    """

    __slots__ = ('name', 'state', 'changes', 'since_ns', 'detail')

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.NEW
        self.changes: list[StateChange] = []
        self.since_ns = -NEVER_NS
        self.detail = 'not seen yet'

    def observe(self, observed: Observed, time_ns: int, detail: str) -> None:
        """Apply the table of transitions, and report a change of state."""
        after = TRANSITIONS[self.state][observed]
        if after is not self.state:
            self.changes.append(StateChange(
                self.name, time_ns, self.state, after, detail, observed is Observed.SETTLED))
            self.state, self.since_ns, self.detail = after, time_ns, detail


def mermaid() -> str:
    """
    Draw the machine for docs/bodies.md.

    Transitions between two states that are not TRACKED are left out of the drawing: each fault
    leads to its own state from all of them, as the lines from TRACKED show. What ends most faults
    has one label.
    """
    lines = ['```mermaid', 'stateDiagram-v2', '    direction LR', '    [*] --> NEW']
    recovered = {one.value for one in (
        Observed.ACQUIRED, Observed.RETURNED, Observed.SETTLED, Observed.ACCEPTED)}
    for before, row in TRANSITIONS.items():
        labels: dict[State, list[str]] = {}
        for observed, after in row.items():
            if after is not before and State.TRACKED in (before, after):
                labels.setdefault(after, []).append(observed.value)
        for after, each in labels.items():
            if set(each) >= recovered:
                each = ['recovered', *(label for label in each if label not in recovered)]
            lines.append(f'    {before.value} --> {after.value}: {", or ".join(each)}')
    return '\n'.join([*lines, '```'])


MOST_NAMES = 5
"""Names listed in one line. Chosen: usual names then make fewer than 200 characters."""


class ChangeLog:
    """Turn changes of state into events."""

    def __init__(self) -> None:
        self._silent: list[StateChange] = []

    def take(self, changes: Sequence[StateChange], states: Iterable[State]) -> list[Event]:
        """
        Report the changes since the last tick.

        :param changes: the changes, oldest first.
        :param states: the present states of all bodies.
        :returns: one event for each kind of change; those to STALE may come with the next tick.
        """
        due = list(self._silent)
        silent: list[StateChange] = []
        wait = not (self._silent or all(state is State.STALE for state in states))
        last = {change.body: change for change in changes}
        for change in changes:
            held = wait and change.after is State.STALE and last[change.body] is change
            (silent if held else due).append(change)
        self._silent = silent
        # A change joins a line after the line with the previous change of its body, so that the
        # last line about a body is its present state.
        groups: list[list[StateChange]] = []
        line_of: dict[str, int] = {}
        for change in due:
            kind = _kind(change)
            line = next((
                k for k in range(line_of.get(change.body, -1) + 1, len(groups))
                if _kind(groups[k][0]) == kind), len(groups))
            if line == len(groups):
                groups.append([])
            groups[line].append(change)
            line_of[change.body] = line
        return [_event(group) for group in groups]


def _kind(change: StateChange) -> tuple[State, State, bool]:
    return change.before, change.after, change.doubtful


def _event(changes: list[StateChange]) -> Event:
    """Make one event of changes of the same kind."""
    first = changes[0]
    severity = INFO if first.after in (
        State.TRACKED, State.NEW) and not first.doubtful else WARN
    names = list(dict.fromkeys(change.body for change in changes))
    shown = ', '.join(repr(printable(name)) for name in names[:MOST_NAMES])
    if len(names) == 1:
        subject, key = f'body {shown}', names[0]
    else:
        if len(names) > MOST_NAMES:
            shown += f' and {len(names) - MOST_NAMES} more'
        subject, key = f'{len(names)} bodies ({shown})', ''
    # A value in a detail is that of one body.
    whose = '' if all(change.detail == first.detail for change in changes) else (
        f'{printable(first.body)!r} ')
    return Event(severity, ('body state', key, first.before, first.after), (
        f'{subject}: {first.before.value} -> {first.after.value}: {whose}{first.detail}'),
        tuple(changes))
