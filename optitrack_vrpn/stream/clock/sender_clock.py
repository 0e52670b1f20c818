# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Which frames are fresh, and the line under their lags: one sender's clock on the arrival clock.

After an event (first frame, reconnection, a stall, a jump or fall of the sender's time, a line
pulled down too fast) frames are withheld until the arrival keeps pace with the sender's time
(``pace``). The line does not move meanwhile. Then frames fit the line, or a new line begins. It is
a new run only where the sender's time jumped or fell.
"""

from __future__ import annotations

from collections import deque

from optitrack_vrpn.stream.clock.limits import (
    EARLY_NS, HOLD_NS, JUDGED, LATE_NS, LIMIT_NS, SECOND_NS, WINDOW_NS)
from optitrack_vrpn.stream.clock.line import Line
from optitrack_vrpn.stream.clock.pace import Pace


class SenderClock:
    """
    Follow a sender's clock.

    :ivar line: the least lag at any sender time.
    :ivar pace: lags of frames that are withheld.
    :ivar frames: number of fresh frames since the line began.
    :ivar newest_ns: newest sender time, -1 before the first frame.
    :ivar closed: the event since which frames are withheld; '' while they are fresh.
    :ivar closed_ns: arrival of the first frame after that event; -1 before it.
    :ivar above_ns: how far the newest fresh frame lies above the line (ns).
    :ivar late_ns: arrival since which every frame is later than load explains: another route, or
        a clock that was set; -1 if not.
    :ivar run: why the next line begins: 'jump' or 'fall' if the sender's time has jumped or fallen
        while frames are withheld; 'line' otherwise.
    :ivar change: ``run`` if a new line began with the last frame; '' otherwise.
    :ivar moved_ns: by how much the least lag changed then (ns).
    """

    def __init__(self) -> None:
        self.line, self.pace = Line(), Pace()
        self.newest_ns = self.closed_ns = self.late_ns = self._arrival_ns = -1
        # Times of the last frames; time and arrival of the first older one since the newest.
        self._recent: deque[int] = deque(maxlen=2 * JUDGED)
        self._older = (-1, -1)
        self.closed, self.change, self.run = '', '', 'line'
        self.frames = self.above_ns = self.moved_ns = self._late_lag_ns = self._late_least_ns = 0

    def close(self, why: str, arrival_ns: int = -1) -> None:
        """
        Withhold frames until the arrival keeps pace.

        :param arrival_ns: of the first frame that is withheld, if it is known.
        """
        if not self.closed or arrival_ns < 0:
            self.closed_ns = arrival_ns
        self.closed = why
        # Frames that return to the line are fresh after one window.
        self.pace = Pace(self.line.lag(self.newest_ns) if self.frames else LIMIT_NS)

    def update(self, sender_ns: int, arrival_ns: int) -> bool:
        """
        Take a frame; its place on the arrival clock is ``arrival_ns - above_ns``.

        :param sender_ns: its time by the sender's clock.
        :param arrival_ns: its arrival.
        :returns: whether it is fresh and newer than all before.
        """
        self.change = ''
        line, lag_ns = self.line, arrival_ns - sender_ns
        passed_ns, waited_ns = sender_ns - self.newest_ns, arrival_ns - self._arrival_ns
        connects = self.closed_ns < 0
        if connects:
            self.closed_ns = arrival_ns
        if passed_ns <= 0:
            if not (connects or waited_ns >= WINDOW_NS or self._has_fallen(
                    sender_ns, arrival_ns)):
                return False
            self.run = 'fall'
            self.close("a fall of the sender's time", arrival_ns)
        self.newest_ns, self._arrival_ns, self._older = sender_ns, arrival_ns, (-1, -1)
        self._recent.append(sender_ns)
        if not (self.frames or self.closed):
            self._begin('', sender_ns, lag_ns)
        above_ns = lag_ns - line.lag(sender_ns)
        if not self.closed:
            if self.above_ns <= WINDOW_NS < above_ns:
                self.close('a stall', arrival_ns)
            elif above_ns < 0 and line.pulled_ns - above_ns > EARLY_NS:
                self.close('frames that would have arrived before they were sent', arrival_ns)
        if above_ns > LATE_NS:
            self._hold(arrival_ns, lag_ns)
        else:
            self.late_ns = -1
        if self.closed:
            if passed_ns - waited_ns > SECOND_NS and self.run == 'line':
                self.run = 'jump'
            if not self.pace.add(lag_ns, arrival_ns):
                return False
            self._open(sender_ns)
            above_ns = lag_ns - line.lag(sender_ns)
        if self.late_ns >= 0 and arrival_ns - self.late_ns >= HOLD_NS:
            self._begin('line', sender_ns, self._late_least_ns)
            above_ns = lag_ns - line.lag(sender_ns)
        self.frames += 1
        if above_ns < line.least_above_ns or sender_ns >= line.end_ns:
            line.add(sender_ns, lag_ns, above_ns)
        self.above_ns = max(above_ns, 0)
        return True

    def _has_fallen(self, sender_ns: int, arrival_ns: int) -> bool:
        """
        Return whether the sender's time fell, with a frame that is not newer than the newest.

        Networks repeat frames, and deliver others late, while newer ones arrive or faster than
        they were sent.
        """
        if sender_ns in self._recent:
            return False
        self._recent.append(sender_ns)
        if self._older[1] < 0:
            self._older = sender_ns, arrival_ns
        waited_ns = arrival_ns - self._older[1]
        return waited_ns >= EARLY_NS and 2 * waited_ns > sender_ns - self._older[0]

    def _hold(self, arrival_ns: int, lag_ns: int) -> None:
        """Note a late frame; the time begins anew where the lag falls: a buffer drains."""
        if self.late_ns < 0 or lag_ns < self._late_lag_ns - LATE_NS:
            self.late_ns = arrival_ns if self.frames else -1
            self._late_lag_ns = self._late_least_ns = lag_ns
        self._late_least_ns = min(lag_ns, self._late_least_ns)

    def _open(self, sender_ns: int) -> None:
        """Continue with frames that are fresh: on the line if they fit, or on a new one."""
        self.closed, least_ns = '', self.pace.least_ns
        moved_ns = least_ns - self.line.lag(sender_ns)
        if self.frames and (self.run == 'fall' or moved_ns < -LATE_NS):
            self._begin(self.run, sender_ns, least_ns)
        elif not self.frames or moved_ns < -EARLY_NS:
            self._begin('', sender_ns, least_ns)
        self.run = 'line'

    def _begin(self, change: str, sender_ns: int, least_ns: int) -> None:
        """
        Begin a new line.

        :param least_ns: least lag of the frames that showed the change.
        """
        self.change, self.moved_ns = change, least_ns - self.line.lag(sender_ns)
        self.frames, self.late_ns = 0, -1
        self.line.begin(sender_ns, least_ns, change in ('', 'line'))
