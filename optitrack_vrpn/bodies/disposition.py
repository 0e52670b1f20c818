# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What becomes of a received pose: it is published, or there is one reason why not."""

from __future__ import annotations

from enum import Enum


class Disposition(str, Enum):
    """
    The end of one pose; every pose of a followed body has exactly one.

    The value is its name in diagnostics.
    """

    PUBLISHED = 'published'
    """It has left this node."""

    # -- the validity gate withholds it --
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
    SWAPPED = 'swapped'
    """Near enough, but after a gap, and rather where another body belongs."""
    NOT_TRACKED = 'not_tracked'
    """The sender reports that the cameras do not track it (NatNet)."""
    MEAN_ERROR = 'mean_error'
    """Its markers lie further from their places in the model than ``max_mean_error``."""
    JUMPED = 'jumped'
    """Consistent with the jump before it, which is not accepted yet."""

    # -- a later or earlier stage drops it --
    BACKLOG = 'backlog'
    """It arrived at the beginning of a conversation, before frames were live."""
    UNSTAMPED = 'unstamped'
    """The clock model cannot place its sender time."""
    TOO_OLD = 'too_old'
    """It arrived, or was to be published, too long after its stamp."""
    SUPERSEDED = 'superseded'
    """It arrived together with a newer one, where arrivals are the stamps."""
    STAMP_NOT_RISING = 'stamp_not_rising'
    """Its stamp is not later than that of the one before."""
    SHED = 'shed'
    """This computer does not keep up, and the whole frame was left out."""
    INACTIVE = 'inactive'
    """The node is not active."""
    NO_TOPICS = 'no_topics'
    """The topics of the body are not created yet."""


BY_GATE = frozenset({
    Disposition.ACQUIRING, Disposition.DUPLICATE, Disposition.OUT_OF_ORDER, Disposition.REPEAT,
    Disposition.ZEROED, Disposition.NOT_FINITE, Disposition.NORM, Disposition.MOVED_TOO_FAR,
    Disposition.TURNED_TOO_FAR, Disposition.SWAPPED, Disposition.NOT_TRACKED,
    Disposition.MEAN_ERROR, Disposition.JUMPED})
"""Those by which the validity gate withholds a pose."""
