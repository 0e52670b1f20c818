# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The states of a body, and what is reported about them."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


class State(Enum):
    """What the last poses of a body show; only those of a TRACKED body are published."""

    NEW = 'NEW'
    """Seen in fewer than ``acquire_frames`` consistent frames."""
    TRACKED = 'TRACKED'
    """Seen, moving as a body can."""
    STALE = 'STALE'
    """Nothing came for too long."""
    FROZEN = 'FROZEN'
    """The same bits again and again: the sender repeats its last pose."""
    ZEROED = 'ZEROED'
    """The sender fills in zeros for a body out of view."""
    JUMPED = 'JUMPED'
    """Seen where, or turned as, it cannot be: a flip, a wrong label, or it was carried."""
    UNTRACKED = 'UNTRACKED'
    """The sender itself reports that the cameras do not see it, or not well (NatNet)."""
    INVALID = 'INVALID'
    """Not a pose: NaN, infinite, or a quaternion far from unit norm."""


class StateChange(NamedTuple):
    """
    Describe one change of state.

    :ivar body: the body's name.
    :ivar time_ns: when (ns), on the clock of the ``receive_ns`` given to the gate.
    :ivar before: the state that ended.
    :ivar after: the state that began.
    :ivar detail: why, with values.
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
    :ivar good: poses that passed the gate; what later stages made of them is not known here.
    :ivar withheld: poses that did not pass, by ``Disposition`` value, where they are counted.
    :ivar gaps: times that frames were missing between two that came.
    :ivar lost: frames missing in gaps shorter than ``memory_s``, estimated from the rate.
    :ivar detail: one sentence on the state.
    :ivar swapped_with: the body that this one seems to have exchanged names with, '' for none.
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
