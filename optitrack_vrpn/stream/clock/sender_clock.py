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
    EARLY_NS, GAP_NS, HOLD_NS, KEPT, LATE_NS, SECOND_NS, SPARSE, WINDOW_NS)
from optitrack_vrpn.stream.clock.line import Line
from optitrack_vrpn.stream.clock.pace import Pace


class SenderClock:
    """
    Follow a sender's clock.

    :ivar line: the least lag at any sender time.
    :ivar pace: lags of frames that are withheld.
    :ivar newest_ns: newest sender time, -1 before the first frame.
    :ivar closed: the event since which frames are withheld; '' while they are fresh.
    :ivar closed_ns: arrival of the first frame after that event; -1 before it.
    :ivar above_ns: how far the newest frame lies above the line (ns).
    :ivar late: whether that is more than load explains: another route, or a clock that was set;
        ``late_ns`` is the arrival since which every frame is.
    :ivar change: what has changed with the last frame: '', 'line', or, where a run ended, 'jump'
        or 'fall'.
    :ivar fell: whether the sender's time has fallen since frames were fresh.
    :ivar moved_ns: by how much the least lag changed then (ns).
    """

    def __init__(self) -> None:
        self.line = Line()
        self.pace = Pace()
        self.newest_ns = self.closed_ns = -1
        self.late_ns = self._late_lag_ns = self._late_least_ns = 0
        self._arrival_ns = -WINDOW_NS
        self.closed = self.change = ''
        # Times of the last frames; times and arrivals of those older than the newest.
        self._recent: deque[int] = deque(maxlen=KEPT)
        self._older: list[tuple[int, int]] = []
        self.above_ns = 0.0
        self.moved_ns = 0
        self.fell = self.late = self._jumped = self._paused = self._begun = self._new = False

    def close(self, why: str, arrival_ns: int = -1, before: bool = True) -> None:
        """
        Withhold frames until the arrival keeps pace.

        :param arrival_ns: of the first frame that is withheld, if it is known.
        :param before: whether frames that return to the line are fresh after one window.
        """
        if not self.closed:
            self.closed_ns = arrival_ns
        self.closed = why
        if before and self._begun:
            self.pace.restart(self.line.lag(self.newest_ns))
        else:
            self.pace.restart()

    def reconnected(self) -> None:
        """Withhold frames: those of a new connection may come out of a buffer."""
        self.close('a new connection')
        self.closed_ns = -1
        self._new = True

    @property
    def uncertainty_ns(self) -> float:
        """Return the half-width that nearly always contains the error of the newest frame (ns)."""
        # A frame that is so late may have been taken later, by as much.
        return self.line.uncertainty_ns + (self.above_ns if self.late else 0.0)

    def update(self, sender_ns: int, arrival_ns: int) -> bool:
        """
        Take a frame; its place on the arrival clock is ``arrival_ns - above_ns``.

        :param sender_ns: its time by the sender's clock.
        :param arrival_ns: its arrival.
        :returns: whether it is fresh and newer than all before.
        """
        self.change = ''
        passed_ns, waited_ns = sender_ns - self.newest_ns, arrival_ns - self._arrival_ns
        if passed_ns <= 0:
            # No network reorders frames of two connections.
            if not (self._new or waited_ns >= WINDOW_NS or self._has_fallen(
                    sender_ns, arrival_ns)):
                return False
            self.fell = True
            self._recent.clear()
            self.close("a fall of the sender's time", arrival_ns, False)
        elif passed_ns > GAP_NS and self._begun:
            self._paused = True
            self.close('a gap', arrival_ns)
        self.newest_ns, self._arrival_ns, self._new = sender_ns, arrival_ns, False
        self._recent.append(sender_ns)
        if self._older:
            self._older.clear()
        line, lag_ns = self.line, arrival_ns - sender_ns
        if not (self._begun or self.closed):
            self._begin(sender_ns, lag_ns)
        above_ns = line.above(sender_ns, lag_ns)
        if not self.closed:
            if self.above_ns <= WINDOW_NS < above_ns:
                self.close('a stall', arrival_ns)
            elif above_ns < 0.0 and line.pulled_ns - above_ns > EARLY_NS:
                self.close('frames that would have arrived before they were sent', arrival_ns,
                           False)
        if above_ns > LATE_NS:
            self._hold(arrival_ns, lag_ns)
        elif self.late:
            self.late = False
        if self.closed:
            self._jumped |= passed_ns - waited_ns > SECOND_NS
            if self.closed_ns < 0:
                self.closed_ns = arrival_ns
            if not self.pace.add(lag_ns, arrival_ns):
                return False
            self._open(sender_ns)
            above_ns = line.above(sender_ns, lag_ns)
        if self.late and arrival_ns - self.late_ns >= HOLD_NS:
            self._change('line', sender_ns, self._late_least_ns)
            above_ns = line.above(sender_ns, lag_ns)
        line.add(sender_ns, lag_ns, above_ns)
        self.above_ns = above_ns if above_ns > 0.0 else 0.0
        return True

    def _has_fallen(self, sender_ns: int, arrival_ns: int) -> bool:
        """
        Return whether the sender's time fell, with a frame that is not newer than the newest.

        Networks repeat frames, and reorder single ones while newer ones arrive. After a fall
        frames of times that were not seen before arrive at the pace at which they are sent.
        """
        older = self._older
        if older and sender_ns < older[-1][0]:
            older.clear()
        if sender_ns not in self._recent:
            self._recent.append(sender_ns)
            older.append((sender_ns, arrival_ns))
        return len(older) >= SPARSE and 2 * (arrival_ns - older[0][1]) > (
            sender_ns - older[0][0])

    def _hold(self, arrival_ns: int, lag_ns: int) -> None:
        """Note a late frame; the time begins anew where the lag falls: a buffer drains."""
        if not self.late or lag_ns < self._late_lag_ns - LATE_NS:
            self.late, self.late_ns = self._begun, arrival_ns
            self._late_lag_ns = self._late_least_ns = lag_ns
        elif lag_ns < self._late_least_ns:
            self._late_least_ns = lag_ns

    def _open(self, sender_ns: int) -> None:
        """Continue with frames that are fresh: on the line if they fit, or on a new one."""
        self.closed, least_ns = '', self.pace.least_ns
        moved_ns = self.line.above(sender_ns, least_ns)
        if not self._begun:
            self._begin(sender_ns, least_ns)
        elif self.fell:
            self._change('fall', sender_ns, least_ns)
        elif moved_ns < -LATE_NS:
            self._change('jump' if self._jumped else 'line', sender_ns, least_ns)
        elif moved_ns < -EARLY_NS or (self._paused and not self.late):
            self.line.begin(sender_ns, least_ns, True)
        self._jumped = self._paused = self.fell = False

    def _begin(self, sender_ns: int, least_ns: int) -> None:
        self._begun = True
        self.line.begin(sender_ns, least_ns)

    def _change(self, what: str, sender_ns: int, least_ns: int) -> None:
        """Begin a new line at the least lag of the frames that showed the change."""
        self.change, self.late = what, False
        self.moved_ns = round(self.line.above(sender_ns, least_ns))
        self.line.begin(sender_ns, least_ns, what == 'line')
