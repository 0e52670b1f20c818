# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Which frames are fresh, and the line under their lags: one sender's clock on the arrival clock.

After an event (first frame, reconnection, stall of the arrivals, jump or fall of the sender's
time, a line pulled down too fast) frames are withheld until the arrival keeps pace with the
sender's time (``pace``). The line does not move meanwhile. Then frames fit the line, or a new line
begins. It is a new run only where the sender's time jumped or fell.
"""

from __future__ import annotations

from collections import deque

from optitrack_vrpn.stream.clock.limits import (
    EARLY_NS, GAP_NS, HOLD_NS, SPARSE, WINDOW_NS)
from optitrack_vrpn.stream.clock.line import Line
from optitrack_vrpn.stream.clock.pace import Gaps, Pace

EARLY = 'frames that would have arrived before they were sent'


class SenderClock:
    """
    Follow a sender's clock.

    :ivar line: the least lag at any sender time.
    :ivar newest_ns: newest sender time, -1 before the first frame.
    :ivar closed: the event since which frames are withheld; '' while they are fresh.
    :ivar closed_ns: arrival of the first frame after that event.
    :ivar above_ns: how far the newest frame lies above the line (ns).
    :ivar late_ns: arrival since which every frame is much above the line; -1 if they are not.
    :ivar change: what has changed with the last frame: '', 'line' or 'run'.
    :ivar fell: whether the sender's time fell then.
    :ivar falls: whether it has fallen since frames were fresh.
    :ivar moved_ns: by how much the least lag changed then (ns).
    """

    def __init__(self) -> None:
        self.line = Line()
        self.pace = Pace()
        self._gaps = Gaps()
        self.newest_ns = self.late_ns = self._arrival_ns = -1
        self.closed = self.change = ''
        self.closed_ns = self.moved_ns = 0
        self.above_ns = 0.0
        self.fell = self._jumped = self.falls = self._announced = self._begun = False
        self._recent: deque[int] = deque(maxlen=256)
        self._first_older = (0, 0)
        self._late = self._older = self._older_ns = self._gap_ns = 0

    def close(self, why: str, arrival_ns: int = -1) -> None:
        """Withhold frames until the arrival keeps pace."""
        if not self.closed:
            self.closed_ns = arrival_ns
        self.closed, self.late_ns = why, -1
        if self._begun and why != EARLY:
            self.pace.restart(self.line.lag(self.newest_ns))
        else:
            self.pace.restart()

    def reconnected(self) -> None:
        """Withhold frames: those of a new connection may come out of a buffer."""
        self.close('a new connection')
        self.closed_ns = -1
        self._jumped = self._announced = True

    @property
    def uncertainty_ns(self) -> float:
        """Return the half-width that nearly always contains the error of the newest frame (ns)."""
        line, gaps = self.line, self._gaps
        width = line.uncertainty_ns
        if gaps.usual_ns > 2.0 * line.interval_ns and line.young:
            width += line.interval_ns    # the phase of a poll
        # A frame that is so late may have been taken later, by as much.
        return width + self.above_ns if self.above_ns > 2 * EARLY_NS else width

    def update(self, sender_ns: int, arrival_ns: int) -> bool:
        """
        Take a frame; its place on the arrival clock is ``arrival_ns - above_ns``.

        :param sender_ns: its time by the sender's clock.
        :param arrival_ns: its arrival.
        :returns: whether it is fresh and newer than all before.
        """
        self.change = ''
        passed_ns = sender_ns - self.newest_ns
        if passed_ns > 0:
            self._older = 0
        elif not self._has_fallen(sender_ns, arrival_ns):
            return False
        gap_ns = arrival_ns - self._arrival_ns
        lag_ns = arrival_ns - sender_ns
        gaps = self._gaps
        first = self.newest_ns < 0
        self.newest_ns, self._arrival_ns = sender_ns, arrival_ns
        self._recent.append(sender_ns)
        if first:
            if not self.closed:
                self._begin(sender_ns, lag_ns)
        elif gap_ns > gaps.longest_ns and gaps.stalled(gap_ns):
            self.close('a stall', arrival_ns)
            self._jumped, self._gap_ns = True, gap_ns
        if not self.closed:
            line, early_ns = self.line, gaps.early_ns
            above_ns = line.above(sender_ns, lag_ns)
            if above_ns >= 0.0 or (
                    -early_ns <= above_ns and line.pulled_ns - above_ns <= early_ns):
                if above_ns > gaps.late_ns:
                    above_ns = self._hold(sender_ns, arrival_ns, lag_ns, above_ns)
                elif self.late_ns >= 0:
                    self.late_ns = -1
                if line.add(sender_ns, lag_ns, above_ns):
                    gaps.end_block(line.interval_ns)
                self.above_ns = above_ns if above_ns > 0.0 else 0.0
                return True
            self.close(EARLY, arrival_ns)
            self._jumped = passed_ns > 2 * early_ns
        if self.closed_ns < 0:
            self.closed_ns = arrival_ns
        if not self.pace.add(lag_ns, arrival_ns):
            return False
        self._open(sender_ns, arrival_ns, lag_ns)
        return True

    def _has_fallen(self, sender_ns: int, arrival_ns: int) -> bool:
        """
        Return whether the sender's time fell, with a frame that is not newer than the newest.

        Networks repeat frames, and reorder single ones while newer ones arrive.
        """
        first_ns, first_arrival_ns = self._first_older
        if sender_ns == self._older_ns and self._older:
            pass    # another body of the same frame
        elif not self._older or sender_ns < self._older_ns:
            self._older, self._first_older = 0, (sender_ns, arrival_ns)
        elif sender_ns not in self._recent and 2 * (arrival_ns - first_arrival_ns) > (
                sender_ns - first_ns):
            self._older += 1    # at the pace of frames that are sent now
        self._older, self._older_ns = max(self._older, 1), sender_ns
        if arrival_ns - self._arrival_ns < WINDOW_NS and self._older < SPARSE:
            return False
        self.falls = True
        self._recent.clear()
        self._older = 0
        self.close("a fall of the sender's time", arrival_ns)
        return True

    def _hold(
        self, sender_ns: int, arrival_ns: int, lag_ns: int, above_ns: float,
    ) -> float:
        """Begin a new line if all frames were late long enough, at pace; return the height."""
        pace = self.pace
        if self.late_ns < 0:
            self.late_ns, self._late = arrival_ns, 0
            pace.restart()
        self._late += 1
        pace.add(lag_ns, arrival_ns)
        if pace.falling_ns > EARLY_NS:
            self.late_ns, self._late = arrival_ns, 0    # a buffer drains
        if arrival_ns - self.late_ns < HOLD_NS or self._late < SPARSE:
            return above_ns
        self._change('line', sender_ns, lag_ns)
        return self.line.above(sender_ns, lag_ns)

    def _open(self, sender_ns: int, arrival_ns: int, lag_ns: int) -> None:
        """Continue with frames that are fresh: on the line if they fit, or on a new one."""
        self.closed = ''
        line, least_ns = self.line, self.pace.found_ns
        early_ns, late_ns = self._gaps.early_ns, self._gaps.late_ns
        moved_ns = line.above(sender_ns, least_ns)
        if not self._begun:
            self._begin(sender_ns, least_ns)
        elif self.falls:
            self._change('run', sender_ns, lag_ns)
        elif moved_ns < -early_ns or (self._announced and moved_ns > late_ns):
            self._change('run' if self._jumped else 'line', sender_ns, lag_ns)
        elif self._gap_ns > GAP_NS and moved_ns < late_ns:
            self._begin(sender_ns, least_ns)
        elif moved_ns > late_ns:
            self.late_ns, self._late = self.pace.begin_ns, SPARSE
        self._jumped = self.falls = self._announced = False
        self._gap_ns = 0
        above_ns = line.above(sender_ns, lag_ns)
        line.add(sender_ns, lag_ns, above_ns)
        self.above_ns = max(above_ns, 0.0)

    def _begin(self, sender_ns: int, least_ns: int) -> None:
        self._begun = True
        self.line.begin(sender_ns, least_ns)

    def _change(self, what: str, sender_ns: int, lag_ns: int) -> None:
        """Begin a new line at the least lag of the frames that were compared."""
        self.change, self.fell, self.late_ns = what, self.falls, -1
        self.moved_ns = round(self.line.above(sender_ns, lag_ns))
        self.line.begin(sender_ns, min(lag_ns, self.pace.found_ns), what == 'line')
