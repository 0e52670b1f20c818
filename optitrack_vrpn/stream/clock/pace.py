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

from optitrack_vrpn.stream.clock.limits import EARLY_NS, PACE, WINDOW_NS

_NONE = 1 << 62


class Pace:
    """
    The lags of frames since an event, in half windows.

    :ivar least_ns: least lag of the half window that was compared last, and of the frame after it
        (ns).
    :ivar falling_ns: by how much it fell from the half window before (ns).
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self, before_ns: int = _NONE) -> None:
        """
        Forget the lags: something has happened.

        :param before_ns: least lag before that (ns), if it is known and of the same sender.
        """
        self._before_ns, self._least_ns = before_ns, _NONE
        self._start_ns = self._frames = self._steady = self.falling_ns = 0
        self.least_ns = _NONE

    def add(self, lag_ns: int, arrival_ns: int) -> bool:
        """
        Add a frame that is newer than those before.

        :param lag_ns: its arrival minus its sender time (ns).
        :returns: whether no buffer drains: this frame and the following ones are fresh.
        """
        if not self._frames:
            self._start_ns = arrival_ns
        passed_ns = arrival_ns - self._start_ns
        if not self._frames or 2 * passed_ns < WINDOW_NS:
            self._frames += 1
            self._least_ns = min(lag_ns, self._least_ns)
            return self._steady > 1 and lag_ns - self.least_ns <= WINDOW_NS
        before_ns, least_ns = self._before_ns, self._least_ns
        waited = self._frames == 1
        if waited:
            # For this frame: it is a window by itself.
            before_ns, least_ns = least_ns, lag_ns
        self.least_ns = min(lag_ns, least_ns)
        self.falling_ns = before_ns - least_ns if before_ns != _NONE else 0
        most_ns = max(EARLY_NS, round(PACE * passed_ns))
        steady = before_ns != _NONE and -most_ns <= self.falling_ns <= most_ns
        self._steady = self._steady + 1 if steady else 0
        self._before_ns, self._least_ns = least_ns, lag_ns
        self._start_ns, self._frames = arrival_ns, 1
        # A stall can begin with this frame: it is not as fresh as those that kept pace.
        return (self._steady > 1 or (steady and waited and passed_ns >= WINDOW_NS)) and (
            lag_ns - self.least_ns <= WINDOW_NS)
