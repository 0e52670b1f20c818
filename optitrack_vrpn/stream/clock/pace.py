# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide whether frames are fresh: whether their arrival keeps pace with the sender's time.

Frames that come out of a buffer arrive faster than they were sent: their lag (arrival minus sender
time) falls from frame to frame. The buffer is empty when the least lags of three successive half
windows do not differ: two may be alike by chance, where a buffer stalls again while it drains.
Single intervals do not show this: frames of a poll arrive at once and are fresh, and a buffer that
drains at 1.5 times real time has usual intervals.
"""

from __future__ import annotations

from optitrack_vrpn.stream.clock.limits import EARLY_NS, LIMIT_NS, PACE, WINDOW_NS


class Pace:
    """
    The lags of frames since an event, in half windows.

    :param before_ns: least lag before the event (ns), if it is known and of the same sender.
    :ivar least_ns: least lag of the half window that was compared last, and of the frame after it
        (ns).
    """

    def __init__(self, before_ns: int = LIMIT_NS) -> None:
        self._before_ns = before_ns
        self._least_ns = self.least_ns = LIMIT_NS
        self._start_ns = self._frames = self._steady = 0

    def add(self, lag_ns: int, arrival_ns: int) -> bool:
        """
        Add a frame that is newer than those before.

        :param lag_ns: its arrival minus its sender time (ns).
        :returns: whether no buffer drains: this frame and the following ones are fresh.
        """
        if not self._frames:
            self._start_ns = arrival_ns
        passed_ns, waited = arrival_ns - self._start_ns, False
        if self._frames and 2 * passed_ns >= WINDOW_NS:
            before_ns, least_ns = self._before_ns, self._least_ns
            if self._frames == 1:
                # For this frame: it is a window by itself.
                before_ns, least_ns, waited = least_ns, lag_ns, passed_ns >= WINDOW_NS
            self.least_ns = min(lag_ns, least_ns)
            steady = abs(before_ns - least_ns) <= max(EARLY_NS, round(PACE * passed_ns))
            self._steady = self._steady + 1 if steady else 0
            waited = waited and steady
            self._before_ns, self._least_ns = least_ns, lag_ns
            self._start_ns, self._frames = arrival_ns, 1
        else:
            self._frames += 1
            self._least_ns = min(lag_ns, self._least_ns)
        # A stall can begin with this frame: it is not as fresh as those that kept pace.
        return (self._steady > 1 or waited) and lag_ns - self.least_ns <= WINDOW_NS
