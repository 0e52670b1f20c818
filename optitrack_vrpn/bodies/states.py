# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Names for the states of a body, the reasons for withholding, and the reports about them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class State(Enum):
    """What is thought of a body's poses; only TRACKED ones go out."""

    NEW = 'NEW'
    """Seen too briefly to be believed."""
    TRACKED = 'TRACKED'
    """Seen, moving as a body can."""
    STALE = 'STALE'
    """Nothing came for too long."""
    FROZEN = 'FROZEN'
    """The same bits again and again: the sender repeats its last pose."""
    ZEROED = 'ZEROED'
    """The sender fills in zeros for a body out of view."""
    JUMPED = 'JUMPED'
    """Seen where, or as, it cannot be: a flip, a wrong label, or it was carried unseen."""
    UNTRACKED = 'UNTRACKED'
    """The sender itself says that the cameras do not see it, or not well (NatNet)."""
    INVALID = 'INVALID'
    """Not a pose: NaN, infinite, or a quaternion far from unit norm."""


class Reason(str, Enum):
    """Why one pose was withheld; the value is the key in ``BodyStatus.withheld``."""

    ACQUIRING = 'acquiring'
    """Plausible, but not the m-th such frame in a row yet."""
    DUPLICATE = 'duplicate'
    """Same sender time as the pose before."""
    OUT_OF_ORDER = 'out_of_order'
    """Older sender time than the pose before."""
    REPEAT = 'repeat'
    """New sender time, but the bits of the pose before."""
    ZEROED = 'zeroed'
    """Exactly zero position with zero or identity attitude."""
    NOT_FINITE = 'not_finite'
    """NaN or infinite somewhere."""
    NORM = 'norm'
    """Quaternion norm beyond tolerance."""
    MOVED_TOO_FAR = 'moved_too_far'
    """Further than max_speed allows since the last good pose."""
    TURNED_TOO_FAR = 'turned_too_far'
    """Further than max_angular_rate or max_turn allow since the last good pose."""
    TAKEN = 'taken'
    """Near enough, but after a gap, and rather where another body belongs."""
    NOT_TRACKED = 'not_tracked'
    """The sender says that the cameras do not track it (NatNet)."""
    MEAN_ERROR = 'mean_error'
    """Its markers lie further from their places in the model than ``max_mean_error``."""
    JUMPED = 'jumped'
    """Consistent with the jump before it, which is not accepted yet."""


class StateChange(NamedTuple):
    """
    Tell of one change of state; for the log and for a latched status.

    ``time_ns`` is on the clock of the ``receive_ns`` and ``now_ns`` given to the body.
    """

    body: str
    time_ns: int
    before: State
    after: State
    detail: str


class BodyStatus(NamedTuple):
    """
    Describe a body at one moment; times are on the clock of ``receive_ns``.

    :ivar since_ns: when the state began (ns).
    :ivar rate_hz: the body's own frame rate by sender time (Hz), 0 when not known yet.
    :ivar age_s: time (s) since the last good pose arrived; NaN when there was none.
    :ivar resets: discontinuities of what was published: jumps accepted, acquisitions after more
        than ``memory_s``, sender restarts. Modulo 256 it is an autopilot's reset counter.
    :ivar good: poses that were believed; what became of them then is not known here.
    :ivar withheld: poses kept back, by ``Reason`` value, reasons that never occurred left out.
    :ivar gaps: times that frames were missing between two that came.
    :ivar lost: frames missing in gaps shorter than ``memory_s``, estimated from the rate.
    :ivar detail: one sentence on the state.
    :ivar held_by: the body that this one seems to have exchanged names with, '' for none.
    """

    name: str
    state: State
    since_ns: int
    rate_hz: float
    age_s: float
    resets: int
    good: int
    withheld: dict[str, int]
    gaps: int
    lost: int
    detail: str
    held_by: str = ''
