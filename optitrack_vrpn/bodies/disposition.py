# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The disposition of a received pose: published, or the reason why not."""

from __future__ import annotations

from enum import Enum


class Disposition(str, Enum):
    """
    What happened to one pose; every pose of a selected body has exactly one disposition.

    The value is its name in diagnostics.
    """

    PUBLISHED = 'published'
    """Published."""

    # -- withheld by the validity gate --
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
"""Dispositions by the validity gate."""
