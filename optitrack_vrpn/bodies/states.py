# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The states of a body (TRACKED, STALE and others), a change between them, the status."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple


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


class StateChange(NamedTuple):
    """
    One change of state.

    :ivar body: the body's name.
    :ivar time_ns: time of the change (ns), on the clock of the gate's ``receive_ns``.
    :ivar before: the state that ended.
    :ivar after: the state that began.
    :ivar detail: the reason, with values.
    """

    body: str
    time_ns: int
    before: State
    after: State
    detail: str


class BodyStatus(NamedTuple):
    """
    Status of a body at one moment; times are on the clock of ``receive_ns``.

    :ivar since_ns: start of the state (ns).
    :ivar rate_hz: the body's own frame rate by sender time (Hz), 0 when not known yet.
    :ivar age_s: time (s) since the last valid pose arrived; NaN when there was none.
    :ivar resets: discontinuities of the published poses: jumps accepted, acquisitions after more
        than ``memory_s``, sender restarts. Modulo 256 it is an autopilot's reset counter.
    :ivar good: poses that passed the gate; later stages can still drop them.
    :ivar withheld: poses that did not pass, by ``Disposition`` value, where they are counted.
    :ivar gaps: number of gaps between received frames.
    :ivar lost: frames missing in gaps shorter than ``memory_s``, estimated from the rate.
    :ivar detail: one sentence on the state.
    :ivar swapped_with: the body with which this one has probably exchanged names, '' for none.
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
