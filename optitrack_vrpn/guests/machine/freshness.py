# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The one rule for the age of what arrives with a stamp: poses, measured axes, targets.

The age counts from the stamp, also while nothing arrives: what waited in a queue is as old as its
stamp states. It is counted on a clock that is never set and includes suspended time.
"""

from enum import Enum
import math

#: Before every stamp.
NEVER = -2**63
#: A stamp further in the future (ns) is not used: synchronised computers differ by less.
AHEAD_NS = 50_000_000


class StampOrder(Enum):
    """What a stamp is, compared with those before it."""

    NEWER = 'newer'
    REPEATED = 'repeated'
    OLDER = 'older'             # not used
    FUTURE = 'in the future'    # not used
    SET_BACK = 'the first after the clock of the stamps was set back'

    @property
    def used(self) -> bool:
        """Return whether a value with this stamp is used; a repeated one keeps its age."""
        return self not in (StampOrder.OLDER, StampOrder.FUTURE)


class Freshness:
    """
    Follow the stamps of one input.

    :param max_age_s: age above which its value is stale (s).
    :ivar stamp_ns: stamp of the value (ns since 1970); NEVER before the first.
    :ivar measured_ns: the same time on the running clock.
    """

    def __init__(self, max_age_s: float) -> None:
        self.max_age_s = max_age_s
        self.stamp_ns = NEVER
        self.measured_ns = 0

    def take(self, stamp_ns: int, now_ns: int, host_ns: int) -> StampOrder:
        """
        Process the stamp of a value.

        :param now_ns: present time on the running clock (ns).
        :param host_ns: present time on the clock of the stamps (ns since 1970).
        """
        if stamp_ns - host_ns > AHEAD_NS:
            return StampOrder.FUTURE
        if stamp_ns == self.stamp_ns:
            return StampOrder.REPEATED
        order = StampOrder.NEWER
        if stamp_ns < self.stamp_ns:
            # If the last stamp is in the future now, the clock was set back.
            if self.stamp_ns - host_ns <= AHEAD_NS:
                return StampOrder.OLDER
            order = StampOrder.SET_BACK
        self.stamp_ns = stamp_ns
        self.measured_ns = now_ns - (host_ns - stamp_ns)
        return order

    def age_s(self, now_ns: int) -> float:
        """Return the age of the value (s), infinite before the first."""
        return math.inf if self.stamp_ns == NEVER else (now_ns - self.measured_ns) * 1e-9

    def stale(self, now_ns: int) -> bool:
        """Return whether the value is too old to be used."""
        return self.age_s(now_ns) > self.max_age_s
