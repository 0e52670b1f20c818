# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide what the bridge does with each sample, and count the resets of the autopilot.

Rules, in this order; the first that applies withholds a sample:

1. ``untracked``: the last state of the body from the node is not TRACKED, or there is none.
2. ``repeated``: its stamp equals that of the previous sample.
3. ``backwards``: its stamp is older, unless the source's clock was set back (below).
4. ``old``, ``future``: its stamp is too far behind or ahead of the clock.
5. ``invalid``: not finite, or a quaternion far from unit norm.
6. ``decimated``: the next sample is not due yet, by stamp.

Before these: ``publishers``, if the sample is not of the bound publisher, and ``doubtful``, if the
vehicle is armed and its attitude is in doubt: time alone made it valid, or it differs by more than
45 degrees from the last one sent before another publisher was taken, or before the bridge was
started again. A vehicle of which that is unknown counts as armed.

The reset counter is incremented (mod 256) with the next sample that is sent after a gap, after a
reset that the node reports, after the clock was set back, and after the link has failed for as
long as a gap.
"""

from __future__ import annotations

from enum import Enum
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.core.doubt import Doubt, DoubtGuard, MOST_DEG
from optitrack_vrpn.core.rotation import angle_between, Quat
from optitrack_vrpn.core.throttle import Decimator
from optitrack_vrpn.guests.autopilot.messages import usable, VisionSample
from optitrack_vrpn.guests.autopilot.settings import Plan

#: A stamp further ahead of the clock (ns) is not sent. Chosen: NTP keeps clocks of one network
#: within a few milliseconds; more means unsynchronised clocks, and an estimator would fuse the
#: pose at a wrong time.
MAX_AHEAD_NS = 20_000_000
#: Time between two samples (ns) after which the reset counter is incremented. PX4's EKF2 does not
#: begin to fuse over longer gaps, and ends at twice this.
GAP_NS = 200_000_000
#: Number of consecutive fresh samples with stamps before the newest one after which the clock
#: counts as set back. Chosen: 10 at 100 Hz are 0.1 s.
BACKWARDS_LIMIT = 10
#: What ends every doubt.
DISARM = 'disarm the vehicle (transport dds: deactivate the bridge)'


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
    DOUBTFUL = 'doubtful'


class Output(NamedTuple):
    """
    State of the output.

    :ivar ready: whether poses may be sent now.
    :ivar interruptions: number of times that poses may not have arrived at the same autopilot: the
        link was opened again, has another address, or discarded poses; heartbeats were lost.
    :ivar written_ns: stamp of the last sample that was written (ns), 0 if none was.
    """

    ready: bool
    interruptions: int
    written_ns: int


class Use(Enum):
    """Use of a sample."""

    SEND = 'send'
    COMPARE = 'compare with the attitude of the autopilot'
    NONE = 'none'


class Gate:
    """
    Decide which samples of one body are sent; not thread-safe.

    :param plan: its times.
    :param reset_counter: of the first sample; it must differ from the last one that the autopilot
        has received.
    :param before: attitude of the last sample that was sent to the vehicle before the bridge was
        started again, None if there is none; an armed vehicle must return to it.
    :ivar tracked: whether samples may be sent according to the node's report.
    :ivar reset_counter: reset counter of the last sample that was sent, 0 to 255.
    :ivar sent: number of accepted samples.
    :ivar withheld: numbers of withheld samples by reason.
    :ivar age_ns: age of the last sample offered (ns), for diagnostics.
    :ivar active: whether the bridge is active.
    """

    def __init__(
        self, plan: Plan, reset_counter: int = 0, before: Optional[Quat] = None,
    ) -> None:
        self._plan = plan
        self._decimator = Decimator(plan.period_ns)
        self.tracked = False
        self._resets: Optional[int] = None
        self._newest_ns = -1
        self._behind = 0
        self._bump = False
        self._bumped_ns = -1
        self.reset_counter = reset_counter % 256
        self.sent = 0
        self.withheld = dict.fromkeys(Withheld, 0)
        self.age_ns: Optional[int] = None
        self.active = False
        self._interruptions = 0
        self._doubt = DoubtGuard()
        self._armed = False
        self._sent_quat: Optional[Quat] = None
        self._before = before       # attitude to which an armed vehicle must return

    def status(
        self, state: str, resets: Optional[int], doubt: Doubt = Doubt(),  # noqa: B008
    ) -> None:
        """Process the node's report: state, as in ``TRACKED``, and discontinuities if known."""
        self.tracked = state == 'TRACKED'
        self._doubt.report(doubt, turned=resets is None or resets != self._resets)
        if resets is not None:
            if self._resets is not None and resets != self._resets:
                self._bump = True
            self._resets = resets

    @property
    def doubt(self) -> str:
        """Return why the attitude is not followed, '' if it is."""
        return self._doubt.reason or ('' if self._before is None else (
            f'its attitude differs by more than {MOST_DEG:.0f} degrees from the last one that was '
            'sent before the poses of another node, or before node or bridge were started again'))

    @property
    def doubt_advice(self) -> str:
        """
        Return what ends the doubt.

        Only the difference from the last attitude sent is one of the present attitude, which
        motion can end; what time has accepted stays until the user accepts it.
        """
        if self._doubt.lost:
            return ', or '.join(filter(None, (self._doubt.remedy, DISARM)))
        return f'wait until it returns, or {DISARM}'

    def arm(self, armed: Optional[bool]) -> None:
        """
        Process whether the vehicle is armed; without it no attitude is in doubt.

        :param armed: None before the first heartbeat: the attitude before is still remembered.
        """
        if armed is None:
            return
        self._armed = armed
        self._doubt.guard(armed)
        if not armed:
            self._before = None

    def end(self) -> None:
        """Stop sending."""
        self.active = False
        self.interrupt()

    def use(
        self, sample: VisionSample, begins: Optional[bool], output: Output, now_ns: int,
        changed: bool = True,
    ) -> Use:
        """
        Decide the use of a sample.

        :param begins: as ``Binding.accept`` returns it.
        :param now_ns: present time on the clock of the stamps (ns).
        :param changed: whether it can be of another publisher, as ``TopicsBinding.changed``. The
            node that sent before has limits of its own for turns during a silence.
        """
        if begins:
            self.interrupt()
            if changed and self._armed and self._before is None:
                self._before = self._sent_quat
        if output.interruptions != self._interruptions:
            self._interruptions = output.interruptions
            self.interrupt()
        if begins is None:
            self.withheld[Withheld.PUBLISHERS] += 1
            return Use.NONE
        if not self.active or not output.ready:
            return Use.COMPARE if self.tracked and valid(sample) else Use.NONE
        if self._doubtful(sample):
            self.withheld[Withheld.DOUBTFUL] += 1
            self.interrupt()
            return Use.NONE
        self.written(output.written_ns, sample.stamp_ns)
        return Use.SEND if self.offer(sample, now_ns) is None else Use.NONE

    def _doubtful(self, sample: VisionSample) -> bool:
        if self._before is not None and valid(sample):
            if angle_between(self._before, sample.quat_xyzw) <= math.radians(MOST_DEG):
                self._before = None
        return self._before is not None or self._doubt.lost

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

    def offer(self, sample: VisionSample, now_ns: int) -> Optional[Withheld]:
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
        sent_ns = self._decimator.newest_ns
        if sent_ns >= 0 and stamp_ns - sent_ns > GAP_NS:
            self._bump = True
        if self._bump:
            self.reset_counter = (self.reset_counter + 1) % 256
            self._bump = False
            self._bumped_ns = stamp_ns
        self._decimator.advance(stamp_ns)
        self.sent += 1
        self._sent_quat = sample.quat_xyzw
        return None

    def _judge(self, sample: VisionSample, now_ns: int) -> Optional[Withheld]:
        stamp_ns = sample.stamp_ns
        age_ns = self.age_ns = now_ns - stamp_ns
        if not self.tracked:
            return Withheld.UNTRACKED
        if stamp_ns == self._newest_ns:
            return Withheld.REPEATED
        if age_ns > self._plan.max_age_ns:
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
            self._decimator.restart()
            self._bump = True
        self._behind = 0
        self._newest_ns = stamp_ns
        sent_ns = self._decimator.newest_ns
        if not self._decimator.due(stamp_ns) or (
                sent_ns >= 0 and stamp_ns - sent_ns < self._plan.min_interval_ns):
            return Withheld.DECIMATED
        return None


def valid(sample: VisionSample) -> bool:
    """Return whether a position is usable and a quaternion close to unit norm."""
    # The tolerance is the node's; smaller deviations of the norm are normalised.
    return usable(sample.position) and abs(math.hypot(*sample.quat_xyzw) - 1.0) <= 0.01
