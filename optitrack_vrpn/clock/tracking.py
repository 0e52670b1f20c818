# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The tracking rule: a line under the arrivals that turns sender time into arrival clock.

The line is pulled down at once by a frame that arrives below it, since nothing arrives before
it is sent. Once a block (a second; a quarter in the first three) the ``ClockPath`` predicts its
height at the end of the next block, and the line goes there: no step in the stamps.

Residuals are arrival - sender time - the first frame's, so that floats hold them to well below a
nanosecond; all else is integer nanoseconds.
"""

from __future__ import annotations

import math
from typing import Final

from optitrack_vrpn.clock.path import ClockPath
from optitrack_vrpn.clock.rules import Rule
from optitrack_vrpn.clock.types import GAP, HOST_STEPPED, SENDER_RESTARTED

_BELOW_NS = 5e6
"""A frame so far below the line shows that a clock stepped, since the least delay is known.
Chosen: above every error of the line; half of it takes the end of load of 3 ms for a step, twice
as much lets a slew show a step of 10 ms."""
_START_NS = 10e9
_BELOW_AT_START_NS = 250e6
"""In the first seconds, up to the second, it shows that the line began under load. Chosen: longer
than WiFi delays the first frames; half of either ends epochs under load at the start, twice as
much hides a step of the clock there."""
_LATE_NS: Final = 10e6
"""If every frame is later than this, a clock may have stepped. Chosen: load on a wire delays less;
half of it recognises smaller steps in 1.5 s and takes WiFi load for them, twice as much leaves
steps of 20 ms to the path, for 90 s."""
_LATE_FOR_NS = 1_500_000_000
_LATE_COUNT = 20
"""Time and number of frames for which they must be late. Chosen: stalls are shorter; half of
either takes stalls for steps, twice as much publishes nothing for 3 s after one."""
_PATIENCE_NS = 90_000_000_000
"""Time for which late frames that scatter more than usual are taken for load. Chosen: as
``hypotheses.JUMP_BLOCKS``; half of it takes load of a minute for a step, twice as much publishes
nothing for 3 min after a step together with load."""
_FAR_NS = 250e6
"""Frames later than this may be old ones that were delayed: the line does not learn from them.
Chosen: half of ``max_age_s``; half of it or twice as much moves that limit."""
_FAR_FOR_NS = 10_000_000_000
"""Time for which they must be as late, scattered as usual, to show a step. Chosen: longer than a
backlog drains; half of it publishes old poses of a long backlog as fresh, twice as much withholds
poses for 20 s after a step."""
_STEADY, _STEADY_NS = 2.5, 50e3
"""Frames scatter as usual up to this factor and addition. Chosen: load on a wire scatters by ten
times more; half of either misses steps on WiFi, twice as much takes load for steps."""
_WHOLE = 0.1
"""Late frames that are late by whole intervals of the frames to within this share of an interval
wait for something that keeps step with the frames. Chosen: a poll wakes within 0.4 ms; half of it
misses slow computers, twice as much takes two of five stalls for a poll."""
_WHOLE_FRAMES = 0.8
"""Share of the late frames of a block that must be late by whole intervals. Chosen: those of a
poll at the frames' own rate all are, of one at another rate one in five; half of it or twice as
much is one of these."""
_IN_STEP_GAIN = 0.125
"""Gain of the share of such blocks among those with late frames. Chosen: half of it needs twice as
many blocks, twice as much reaches the shares below by chance."""
_UNSEEN, _SUSPECTED, _CERTAIN = 0.45, 0.5, 0.95
"""The share before any frame is late, and those from which frames may be in step, which enlarges
the uncertainty, and from which they are, which lowers the line. Chosen: the first such block and
18 of them from the start; by chance one in five is. Half of the first leaves out a tenth of the
seconds of polled frames, half of the second is reached by chance, half of the third once a day on
a wire; twice as much is never reached, and of the first suspects every network."""
_LOADED_BLOCKS = 90
"""Load may have lasted since the first frame for so many blocks. Chosen: as
``hypotheses.JUMP_BLOCKS``; half of it understates the error under load of a minute at the start,
twice as much keeps the uncertainty up for 3 min."""
_LOADED = 4.0
"""The floor may then be below the least delays by so many times the scatter of the delays. Chosen:
a queue whose delay varies by a quarter of itself; half of it covers half of such load, twice as
much doubles the uncertainty of the first 90 s."""
_BACKLOG_NS = 1e9
"""Frames up to so late fit the model after a reconnection. Chosen: a backlog of the handshake;
half of it ends epochs for one, twice as much takes a restart that lost 1 s for one."""
_FITS_NS = 10e6
"""Frames up to so late continue the line after a gap. Chosen: 30 s at 300 ppm; half of it ends
lines of WiFi, twice as much continues lines of another clock."""
_UNSURE_NS = 100e3
"""Largest standard deviation of the line after a gap, due to that of its rate; above it, the line
begins anew. Chosen: the delay of a first frame on a wire; half of it begins anew after a gap of a
minute, twice as much keeps an error of 0.5 ms for 85 s after gaps in the first seconds."""
_BLOCK_NS = 1_000_000_000
"""Length of a block. Chosen: the best of 240 frames is within 10 us on a wire; half of it doubles
the cost, twice as long follows a slew in 6 s."""
_FIRST_BLOCK_NS = 250_000_000
_FIRST_BLOCKS_NS = 3_000_000_000
"""Length of the first blocks, and time for which they are short. Chosen: a first rate within a
second; half of either takes noise for a rate, twice as long knows none for 2 s."""


class TrackingRule(Rule):
    """
    Track offset and rate of a sender's clock for as long as it runs.

    :param max_gap_s: seconds without a frame, on both clocks, after which the epoch ends; the
        line continues if the next frame fits it.
    """

    def __init__(self, max_gap_s: float = 30.0) -> None:
        self._max_gap = round(max_gap_s * 1e9)
        self._revalidate = False
        self._path = ClockPath()
        self._usual = 0.0
        # Whether an epoch has lasted longer than load does.
        self._past_load = False
        self._period = 0.0
        self._half_period = math.inf
        # Share of the blocks whose late frames are late by whole intervals.
        # Then they wait for something that keeps step with the frames (polling, WiFi power save),
        # and those on time may wait too, by up to an interval.
        self._in_step = _UNSEEN
        self._wait = 0.0
        self._lay(0, 0)

    def _lay(self, sender_time_ns: int, arrival_ns: int) -> None:
        """Lay the line through a frame, which becomes the zero of time and residual."""
        self._zero = sender_time_ns
        self._base = arrival_ns - sender_time_ns
        self._height = 0.0
        self._slope = self._path.rate
        self._last_t = 0
        self._last_arrival = arrival_ns
        self._late = 0
        self._late_from = self._late_since = 0
        self._late_sum = self._late_least = 0.0
        self._late_reason = ''
        self._late_far = self._late_sure = False
        # Least residual of the last block, at time 0 by the rate.
        self._lowest = 0.0
        self._open_block(0, _FIRST_BLOCK_NS)

    def _open_block(self, t: int, length_ns: int) -> None:
        self._least = math.inf
        self._least_t = self._least_r = 0
        self._course = self._path.course()
        self._lags = 0.0
        self._near = self._block_frames = self._block_late = self._block_whole = 0
        self._block_from = t
        self._block_end = t + length_ns

    def start(self) -> None:
        """Start again with the next frame; the rate is kept."""
        self.learnt = False
        self.samples = 0

    def relearn(self) -> None:
        """Forget the minima; the line stays until there are others: old frames remain old."""
        self._path.restart()
        self._open_block(self._last_t, _FIRST_BLOCK_NS)

    def set_slewable(self, slewable: bool) -> None:
        """Take note whether the sender's clock or that of the arrivals may be slewed."""
        self._path.slewable = slewable

    def revalidate(self) -> None:
        """Start again with the next frame unless it fits."""
        self._revalidate = True

    def skew(self) -> float:
        """Return the arrival clock's rate against the sender's, less one."""
        return self._path.rate

    def skew_deviation(self) -> float:
        """Return the standard deviation of the skew."""
        return self._path.rate_deviation()

    def uncertainty_s(self) -> float:
        """
        Return the half-width that nearly always contains the random error; NaN at first.

        All frames since the first one may have arrived under load.
        """
        waited = 0.0 if self._past_load else _LOADED * self._usual
        if self._in_step > _SUSPECTED and not self._wait:
            waited += self._period
        return (self._path.uncertainty() + waited) * 1e-9

    def place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Learn from a frame and return its place."""
        if not self.samples:
            return self._begin(sender_time_ns, arrival_ns)
        t = sender_time_ns - self._zero
        if t > self._block_end and self._path.blocks:
            # What corrected the line in a block would take it away in a silence.
            self._height += (self._slope - self._path.rate) * self._block_end
            self._slope = self._path.rate
        residual = arrival_ns - sender_time_ns - self._base
        line = self._height + self._slope * t
        lag = residual - line
        if lag < 0.0 or self._revalidate or arrival_ns - self._last_arrival > self._max_gap:
            revalidated = self._revalidate
            reason = self._restart_reason(t, arrival_ns, lag)
            if reason:
                return self._restart(reason, sender_time_ns, arrival_ns)
            if lag < 0.0:
                self._height = residual - self._slope * t
                line = float(residual)
            elif lag > _LATE_NS + self._wait:
                self._late = 0
                self._is_step(t, arrival_ns, lag)
                self._late_sure = revalidated
        elif lag > _LATE_NS + self._wait:
            if self._is_step(t, arrival_ns, lag):
                return self._restart(self._late_reason, sender_time_ns, arrival_ns)
        else:
            self._lags += lag
            self._near += 1
            self._late = 0
        off = residual - self._course * t
        if off < self._least:
            self._least = off
            self._least_t = t
            self._least_r = residual
        late = residual - self._lowest - self._path.rate * t
        if late > self._half_period:
            self._block_late += 1
            if abs(late / self._period % 1.0 - 0.5) > 0.5 - _WHOLE:
                self._block_whole += 1
        self._last_t = t
        self._last_arrival = arrival_ns
        self.samples += 1
        self._block_frames += 1
        if t >= self._block_end:
            self._close_block(t)
        return sender_time_ns + self._base + int(line)

    def _restart_reason(self, t: int, arrival_ns: int, lag: float) -> str:
        """Return why a frame out of the ordinary ends the epoch, or nothing."""
        below = -_BELOW_NS - self._wait
        fits = below <= lag < _BACKLOG_NS
        revalidate, self._revalidate = self._revalidate, False
        if revalidate and not fits:
            return SENDER_RESTARTED
        if arrival_ns - self._last_arrival > self._max_gap and lag < _FAR_NS:
            # Where the sender's time shows no gap, frames were delayed, and arrive now.
            return GAP
        if lag >= below:
            return ''
        if t < _START_NS and lag > -_BELOW_AT_START_NS and arrival_ns >= self._last_arrival:
            # The first frames arrived under load, and the line was laid through them.
            self._path.restart()
            self._open_block(t, _FIRST_BLOCK_NS)
            self._slope = self._path.rate
            return ''
        return self._stepped(t, arrival_ns)

    def _is_step(self, t: int, arrival_ns: int, lag: float) -> bool:
        """
        Return whether late frames show a step of a clock rather than load.

        Both delay every frame. After a step the delays scatter as before; load, mostly, spreads
        them. Frames that are late by more than ``_FAR_NS`` may also be old, unless a reconnection
        has just been reported: then a step is assumed later, and only if they scatter as before.
        """
        far = lag > _FAR_NS
        if not self._late:
            self._late_reason = self._stepped(t, arrival_ns)
            self._late_since = arrival_ns
        if (not self._late or far is not self._late_far or (
                far and arrival_ns - self._last_arrival > _BACKLOG_NS + 4.0 * self._period)):
            # Delayed once more: the earlier late frames are no evidence for this delay.
            self._late_sure = False
            self._open_late(arrival_ns, lag, far)
            return False
        self._late += 1
        self._late_sum += lag
        self._late_least = min(self._late_least, lag)
        lasted = arrival_ns - self._late_from
        may_be_old = far and not self._late_sure
        if self._late < _LATE_COUNT or lasted <= (_FAR_FOR_NS if may_be_old else _LATE_FOR_NS):
            return False
        scatter = self._late_sum / self._late - self._late_least
        if scatter < _STEADY * self._usual + _STEADY_NS:
            return True
        if lasted > _FAR_FOR_NS:
            # Frames before this window may have scattered for another reason.
            self._open_late(arrival_ns, lag, far)
        return not may_be_old and arrival_ns - self._late_since > _PATIENCE_NS

    def _open_late(self, arrival_ns: int, lag: float, far: bool) -> None:
        """Begin a window of late frames with this frame."""
        self._late = 1
        self._late_from = arrival_ns
        self._late_sum = self._late_least = lag
        self._late_far = far

    def _stepped(self, t: int, arrival_ns: int) -> str:
        """Return whose clock stepped: the one whose interval is the odder."""
        sender = abs(t - self._last_t - self._period)
        host = abs(arrival_ns - self._last_arrival - self._period)
        return SENDER_RESTARTED if sender > host else HOST_STEPPED

    def _restart(self, reason: str, sender_time_ns: int, arrival_ns: int) -> int:
        self.restarted = reason
        t = sender_time_ns - self._zero
        unsure_ns = self._path.rate_deviation() * (arrival_ns - self._last_arrival)
        if reason == GAP and unsure_ns < _UNSURE_NS:
            line = self._height + self._slope * t
            if -_BELOW_NS / 5 < arrival_ns - sender_time_ns - self._base - line < _FITS_NS:
                # The same sender after a silence: its clock ran on meanwhile.
                self._last_arrival = arrival_ns
                self._last_t = t
                self._late = 0
                self._open_block(t, _FIRST_BLOCK_NS)
                self.samples = 1
                return self.place(sender_time_ns, arrival_ns)
        return self._begin(sender_time_ns, arrival_ns)

    def _begin(self, sender_time_ns: int, arrival_ns: int) -> int:
        self.samples = 1
        self.learnt = False
        self._revalidate = False
        self._path.restart()
        self._lay(sender_time_ns, arrival_ns)
        return arrival_ns

    def _close_block(self, t: int) -> None:
        length = _BLOCK_NS if t >= _FIRST_BLOCKS_NS else _FIRST_BLOCK_NS
        if self._least_r - self._height - self._slope * self._least_t < _FAR_NS:
            in_step = self._in_step > (_SUSPECTED if self._wait else _CERTAIN)
            self._wait = self._path.wait_ns = self._period if in_step else 0.0
            self._path.add(float(self._least_t), float(self._least_r))
            self._lowest = self._least_r - self._path.rate * self._least_t
            if self._near:
                usual = self._lags / self._near
                self._usual += (usual - self._usual) * (0.1 if self._usual else 1.0)
            self._past_load = self._past_load or self._path.blocks > _LOADED_BLOCKS
            self._period = (t - self._block_from) / self._block_frames
            self._half_period = 0.5 * self._period
            if self._block_late:
                whole = self._block_whole > _WHOLE_FRAMES * self._block_late
                self._in_step += _IN_STEP_GAIN * (whole - self._in_step)
        if self._path.blocks:
            self.learnt = self.learnt or (length == _BLOCK_NS and self._path.blocks > 3)
            now = self._height + self._slope * t
            self._slope = (self._path.line(t + length) - now) / length
            self._height = now - self._slope * t
        self._open_block(t, length)
