# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Select the samples for the autopilot, and count its resets.

Rules, in this order; the first that applies withholds a sample:

1. ``untracked``: the last state of the body from the node is not TRACKED, or there is none.
2. ``repeated``: its stamp equals that of the previous sample.
3. ``backwards``: its stamp is older, unless the source's clock was set back (below).
4. ``old``, ``future``: its stamp is too far behind or ahead of the clock.
5. ``invalid``: not finite, or a quaternion far from unit norm.
6. ``decimated``: the next sample is not due yet, by stamp.

Before these: ``publishers``, if the sample may come from one of several (``feed.py``).

The reset counter is incremented (mod 256) with the next sample that is sent after a gap, after a
reset that the node reports, after the clock was set back, and after the link has failed for as
long as a gap.
"""

from __future__ import annotations

from enum import Enum
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.autopilot.messages import Sample

#: A stamp further ahead of the clock (ns) is not sent. Chosen: NTP keeps clocks of one network
#: within a few milliseconds; more means unsynchronised clocks, and an estimator would fuse the
#: pose at a wrong time.
MAX_AHEAD_NS = 20_000_000
#: Time between two samples (ns) after which the reset counter is incremented. PX4's EKF2 does not
#: begin to fuse over longer gaps, and ends at twice this.
GAP_NS = 200_000_000
#: Deviation of a quaternion's norm from 1 beyond which the sample is not an attitude. It equals
#: the node's tolerance; smaller deviations are normalised.
NORM_TOLERANCE = 0.01
#: Number of consecutive fresh samples with stamps before the newest one after which the clock
#: counts as set back. Chosen: 10 at 100 Hz are 0.1 s.
BACKWARDS_LIMIT = 10
#: Fraction of a period by which a sample may be early. Chosen: the jitter of stamps if the period
#: is a multiple of the frame interval; the grid keeps the mean rate.
SLACK = 0.1


class Withheld(Enum):
    """Reason why a sample was not sent; the value is the key in counters."""

    UNTRACKED = 'untracked'
    REPEATED = 'repeated'
    BACKWARDS = 'backwards'
    OLD = 'old'
    FUTURE = 'future'
    INVALID = 'invalid'
    DECIMATED = 'decimated'
    PUBLISHERS = 'publishers'


class GateConfig(NamedTuple):
    """
    Limits of a gate.

    :ivar period_ns: time between two samples that are sent (ns).
    :ivar min_interval_ns: minimum time between two of them (ns).
    :ivar max_age_ns: maximum age of a sample when it is sent (ns).
    """

    period_ns: int
    min_interval_ns: int
    max_age_ns: int


class Gate:
    """
    Decide which samples of one body are sent; not thread-safe.

    :param reset_counter: of the first sample; it must differ from the last one that the autopilot
        has received.
    :ivar reset_counter: reset counter of the last sample that was sent, 0 to 255.
    :ivar sent: number of accepted samples.
    :ivar withheld: numbers of withheld samples by reason.
    :ivar age_ns: age of the last sample offered (ns), for diagnostics.
    """

    def __init__(self, config: GateConfig, reset_counter: int = 0) -> None:
        self._config = config
        self._slack_ns = round(SLACK * config.period_ns)
        self._tracked = False
        self._resets: Optional[int] = None
        self._newest_ns = -1
        self._sent_ns = -1
        self._due_ns = -1
        self._behind = 0
        self._bump = False
        self._bumped_ns = -1
        self.reset_counter = reset_counter % 256
        self.sent = 0
        self.withheld = dict.fromkeys(Withheld, 0)
        self.age_ns: Optional[int] = None

    @property
    def tracked(self) -> bool:
        """Return whether samples may be sent according to the node's report."""
        return self._tracked

    def status(self, state: str, resets: Optional[int]) -> None:
        """
        Process the node's report on the body.

        :param state: its state, as in ``TRACKED``.
        :param resets: number of discontinuities; None if the report does not contain it.
        """
        self._tracked = state == 'TRACKED'
        if resets is not None:
            if self._resets is not None and resets != self._resets:
                self._bump = True
            self._resets = resets

    def interrupt(self) -> None:
        """Mark an interruption: the next sample sent increments the counter."""
        if self.sent:
            self._bump = True

    def written(self, stamp_ns: int, next_ns: int) -> None:
        """
        Process what the link has written; a failed link is a gap for the autopilot.

        :param stamp_ns: stamp of the last sample that was written (ns); 0 if none was.
        :param next_ns: stamp of the next sample offered (ns).
        """
        # A sample after the last written one may have a new count: one increment is enough.
        if max(self._bumped_ns, 1) <= stamp_ns < next_ns - GAP_NS:
            self._bump = True

    def offer(self, sample: Sample, now_ns: int) -> Optional[Withheld]:
        """
        Decide whether a sample is sent.

        :param now_ns: present time on the clock of the stamps (ns).
        :returns: None if it is to be sent, with ``reset_counter``; else the reason.
        """
        reason = self._judge(sample, now_ns)
        if reason is not None:
            self.withheld[reason] += 1
            return reason
        stamp_ns = sample.stamp_ns
        if self._sent_ns >= 0 and stamp_ns - self._sent_ns > GAP_NS:
            self._bump = True
        if self._bump:
            self.reset_counter = (self.reset_counter + 1) % 256
            self._bump = False
            self._bumped_ns = stamp_ns
        # Due times are on a grid, so that the mean rate is exact; after a gap the grid restarts.
        period_ns = self._config.period_ns
        self._due_ns += period_ns
        if not stamp_ns < self._due_ns <= stamp_ns + period_ns + self._slack_ns:
            self._due_ns = stamp_ns + period_ns
        self._sent_ns = stamp_ns
        self.sent += 1
        return None

    def _judge(self, sample: Sample, now_ns: int) -> Optional[Withheld]:
        stamp_ns = sample.stamp_ns
        age_ns = self.age_ns = now_ns - stamp_ns
        if not self._tracked:
            return Withheld.UNTRACKED
        if stamp_ns == self._newest_ns:
            return Withheld.REPEATED
        if age_ns > self._config.max_age_ns:
            return Withheld.BACKWARDS if stamp_ns < self._newest_ns else Withheld.OLD
        if age_ns < -MAX_AHEAD_NS:
            return Withheld.FUTURE
        if not valid(sample):
            return Withheld.INVALID
        if stamp_ns < self._newest_ns:
            self._behind += 1
            if self._behind < BACKWARDS_LIMIT or self._newest_ns <= now_ns + MAX_AHEAD_NS:
                return Withheld.BACKWARDS
            # The newest stamp lies in the future of the clock: the clock was set back.
            self._sent_ns = self._due_ns = -1
            self._bump = True
        self._behind = 0
        self._newest_ns = stamp_ns
        if stamp_ns < self._due_ns - self._slack_ns or (
                self._sent_ns >= 0 and stamp_ns - self._sent_ns < self._config.min_interval_ns):
            return Withheld.DECIMATED
        return None


def valid(sample: Sample) -> bool:
    """Return whether a pose is finite and its quaternion close to unit norm."""
    if not all(map(math.isfinite, (*sample.position, *sample.quat_xyzw))):
        return False
    return abs(math.hypot(*sample.quat_xyzw) - 1.0) <= NORM_TOLERANCE
