# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Limit the rate of samples by their stamps."""

from typing import Final

#: A sample may be early by this part of a period, a tenth. Chosen: the jitter of stamps where the
#: period is a multiple of the frame interval.
_EARLY_PART: Final = 10
#: Without a period: step back (ns) that means a clock that was set. Chosen as for the bodies.
_BACK_NS: Final = 1_000_000_000


def period_ns(rate_hz: float) -> int:
    """Return the period of a rate (ns); 0, every sample, for the rate 0."""
    return round(1e9 / rate_hz) if rate_hz else 0


class Decimator:
    """
    Select samples by their stamps so that their mean rate is at most the wanted one.

    Due times are on a grid of the period, so that the mean rate is exact where the period is no
    multiple of the frame interval; after a gap the grid begins at the next sample. A stamp is
    selected once, and none before the last selected one, unless it lies back by more than two
    periods (a second without a period): then the clock was set back, and the grid begins anew.

    :param period: time between two samples (ns); 0 selects every new stamp.
    :ivar newest_ns: stamp of the last selected sample (ns); -1 if there is none.
    """

    def __init__(self, period: int) -> None:
        self.newest_ns = self._due_ns = -1
        self._period_ns = period
        self._slack_ns = period // _EARLY_PART

    def retime(self, period: int) -> None:
        """Change the period (ns); the next sample is due one period after the last one."""
        if period == self._period_ns:
            return
        self._period_ns = period
        self._slack_ns = period // _EARLY_PART
        if self.newest_ns >= 0:
            self._due_ns = self.newest_ns + period

    def restart(self) -> None:
        """Select the next sample, whatever its stamp."""
        self.newest_ns = self._due_ns = -1

    def due(self, stamp_ns: int) -> bool:
        """Return whether a sample of this stamp is to be used."""
        if stamp_ns > self.newest_ns:
            return stamp_ns >= self._due_ns - self._slack_ns
        return self.newest_ns - stamp_ns > (2 * self._period_ns or _BACK_NS)

    def advance(self, stamp_ns: int) -> None:
        """Process the use of a sample that is due."""
        self.newest_ns = stamp_ns
        due_ns = self._due_ns + self._period_ns
        latest_ns = stamp_ns + self._period_ns
        self._due_ns = due_ns if stamp_ns < due_ns <= latest_ns + self._slack_ns else latest_ns

    def take(self, stamp_ns: int) -> bool:
        """Return whether a sample is to be used, which is then done."""
        if not self.due(stamp_ns):
            return False
        self.advance(stamp_ns)
        return True


class FrameDecimator:
    """Select frames by their stamps; the samples of a frame share its stamp."""

    def __init__(self, period: int) -> None:
        self._decimator = Decimator(period)
        self._stamp_ns = -1
        self._taken = False

    def take(self, stamp_ns: int) -> bool:
        """Return whether the frame of a sample is to be used; equal for all its samples."""
        if stamp_ns != self._stamp_ns:
            self._stamp_ns = stamp_ns
            self._taken = self._decimator.take(stamp_ns)
        return self._taken
