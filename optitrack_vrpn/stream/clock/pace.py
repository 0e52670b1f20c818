# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide whether frames are fresh: whether their arrival keeps pace with the sender's time.

Frames that come out of a buffer arrive faster than they were sent: their lag (arrival minus sender
time) falls from frame to frame. The buffer is empty when the least lags of three successive half
windows do not differ. Single intervals do not show this: frames of a poll arrive at once and are
fresh, and a buffer that drains at 1.5 times real time has usual intervals.
"""

from __future__ import annotations

from optitrack_vrpn.stream.clock.limits import (
    EARLY_NS, MOST_EARLY_NS, PACE, SECOND_NS, SPARSE, WINDOW_NS)

_NONE = 1 << 62


class Pace:
    """
    The lags of frames since an event, in half windows.

    :ivar found_ns: least lag of the half window that was compared last, and of the frame after
        (ns).
    :ivar begin_ns: arrival of the first frame of that half window (ns).
    :ivar falling_ns: by how much the least lag fell between them (ns).
    """

    def __init__(self) -> None:
        self.begin_ns = 0
        self.restart()

    def restart(self, before_ns: int = _NONE) -> None:
        """
        Forget the lags: something has happened.

        :param before_ns: least lag before that, if it is known and of the same sender.
        """
        self._least_ns = self.found_ns = _NONE
        self._before_ns, self._steady = before_ns, 0
        self._start_ns, self._single = -_NONE, False
        self.falling_ns = self._frames = 0

    def add(self, lag_ns: int, arrival_ns: int) -> bool:
        """
        Add a frame that is newer than those before.

        :param lag_ns: its arrival minus its sender time (ns).
        :returns: whether no buffer drains: this frame and the following ones are fresh.
        """
        if 2 * (arrival_ns - self._start_ns) < WINDOW_NS:
            self._frames += 1
            if lag_ns < self._least_ns:
                self._least_ns = lag_ns
            return False
        before_ns, least_ns, passed_ns = (
            self._before_ns, self._least_ns, arrival_ns - self._start_ns)
        # One frame in each half window: each was waited for.
        sparse, self._single = self._frames == 1 and self._single, self._frames == 1
        self._least_ns, self._start_ns, self._frames = lag_ns, arrival_ns, 1
        if least_ns == _NONE:
            return False
        self._before_ns = least_ns
        if before_ns == _NONE:
            return False
        self.falling_ns, self.begin_ns = before_ns - least_ns, arrival_ns - passed_ns
        self.found_ns = min(lag_ns, least_ns)
        most_ns = max(EARLY_NS, PACE * passed_ns)
        self._steady = self._steady + 1 if -most_ns <= self.falling_ns <= most_ns else 0
        return self._steady > 1 or (sparse and self._steady > 0)


class Gaps:
    """
    The gaps between arrivals: how long a stall is.

    :ivar longest_ns: longest gap of the present block (ns).
    :ivar usual_ns: longest gap of the blocks before (ns): of the frame interval, or of a poll.
    :ivar early_ns: how much the lag may fall (ns) without an event: a poll at the frame rate
        moves arrivals by a frame.
    :ivar late_ns: the same for a lag that has risen (ns).
    """

    def __init__(self) -> None:
        self.longest_ns = self.usual_ns = 0
        self.early_ns, self.late_ns = EARLY_NS, 2 * EARLY_NS

    def stalled(self, gap_ns: int) -> bool:
        """Note a gap longer than any of its block; return whether it is a stall."""
        usual_ns = max(self.usual_ns, self.longest_ns)
        if gap_ns > WINDOW_NS and gap_ns > SPARSE * usual_ns and usual_ns:
            self.usual_ns = (self.usual_ns + min(gap_ns, SECOND_NS)) // 2
            return True
        self.longest_ns = gap_ns
        return False

    def end_block(self, interval_ns: float) -> None:
        """Measure the usual gap; note the mean frame interval (ns)."""
        self.usual_ns = min(max(self.longest_ns, self.usual_ns // 2), SECOND_NS)
        self.longest_ns = 0
        self.early_ns = min(max(EARLY_NS, int(1.2 * interval_ns)), MOST_EARLY_NS)
        self.late_ns = max(2 * EARLY_NS, self.early_ns)
