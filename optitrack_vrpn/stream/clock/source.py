# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamp each frame of a connection.

Promises, for every mode but ``sender``, for any input:

- no stamp is later than its arrival on the host's clock;
- within an epoch stamps rise with the sender's time: an older frame is refused, a frame of equal
  time gets an equal stamp;
- frames that may come out of a buffer get no stamp, and do not change the estimate.
"""

from __future__ import annotations

from collections import deque
import math
from typing import Any

from optitrack_vrpn.stream.clock.limits import (
    EARLY_NS, EDGE_NS, HOLD_NS, JUDGED, LIMIT_NS, MOST_SLEW, SECOND_NS)
from optitrack_vrpn.stream.clock.round_trips import RoundTrips
from optitrack_vrpn.stream.clock.sender_clock import SenderClock
from optitrack_vrpn.stream.clock.sender_times import Judgement, SenderTimes
from optitrack_vrpn.stream.clock.types import (
    ClockChange, ClockStatus, StampConfig, UNIX_EPOCH)


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    Without a call of ``reconnected`` the first frames are taken as fresh.

    :param config: the settings.
    :ivar changes: changes that the caller has not taken out yet.
    :ivar by_arrival: whether arrivals are the stamps, by the settings or because of the sender's
        times.
    :ivar coarse: whether the sender's times are too coarse.
    :ivar times: collects the sender's times until they are judged; then None.
    :ivar lag_ns: delay of the newest frame that is not in its stamp, because stamps are arrivals.
    :ivar refusal: why the last frame without a stamp has none: ``backlog`` (it may come out of a
        buffer), ``out_of_order``, ``stamp_not_rising`` or ``unstamped``.
    """

    def __init__(self, config: StampConfig) -> None:
        self._config = config
        self._sender_mode = config.mode == 'sender'
        self._latency = round(config.latency_ms * 1e6)
        self._clock = SenderClock()
        self._trips = RoundTrips()
        self.changes: deque[ClockChange] = deque(maxlen=JUDGED)
        self._change: ClockChange | None = None
        self._restarts: dict[str, int] = {}
        self.refusal = 'unstamped'
        # Host clock minus arrival clock, when it was read, and how long after the time before.
        self._host_ns, self._read_ns, self._wait_ns = 0, -1, 0
        # The newest frame: its sender time and its stamp, -1 if it has none.
        self._sender_ns = self._stamp_ns = -1
        # The newest stamp.
        self._last_ns = -LIMIT_NS
        self._delays: deque[int] = deque(maxlen=JUDGED)
        self._new_run()

    def _new_run(self) -> None:
        """Begin with a sender's clock of which nothing is known."""
        self.by_arrival, self.coarse = self._config.mode == 'arrival', False
        self._smooths = self._config.mode == 'tracking'
        self._judgement = Judgement()
        self.times: SenderTimes | None = None if self._sender_mode else SenderTimes()
        # Mode min_offset: frames that are still to come, and the least offset so far.
        self._missing, self._least_ns = self._config.offset_samples, LIMIT_NS
        self.lag_ns = 0

    def stamp(
        self, sender_time_ns: int, arrival_ns: int, host_minus_arrival_clock_ns: int = 0,
        processing_ns: int = 0, begins: bool = False,
    ) -> int | None:
        """
        Return the frame's stamp on the host's clock.

        :param sender_time_ns: the sender's time of the frame (ns, its own zero).
        :param arrival_ns: arrival on the arrival clock (ns).
        :param host_minus_arrival_clock_ns: host clock minus arrival clock, read at arrival (ns).
        :param processing_ns: from the sender's time until it transmitted the frame, where that is
            known: no delay of the network.
        :param begins: for a sender whose times are too coarse (``coarse``): whether a body
            repeats, so that this is another frame, whatever its time.
        :returns: ns, or None if the frame cannot be stamped or may be old, and must be dropped;
            the reason is in ``refusal``.
        """
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        repeats = sender_time_ns == self._sender_ns
        if repeats and not begins and self._stamp_ns < 0:
            return None    # refusal is that of the frame
        clock = self._clock
        self.refusal = 'unstamped'
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            return None
        if repeats and not begins:
            # Another body of the same frame, or a repeat.
            return self._stamp_ns if self._sender_mode or self._stamp_ns <= host_arrival else None
        step_ns, first = host_minus_arrival_clock_ns - self._host_ns, self._read_ns < 0
        self._wait_ns = arrival_ns - self._read_ns
        self._host_ns, self._read_ns = host_minus_arrival_clock_ns, arrival_ns
        if abs(step_ns) > EARLY_NS and not (first or self._sender_mode) and (
                abs(step_ns) > EARLY_NS + MOST_SLEW * max(self._wait_ns, 0)):
            if step_ns > 0:
                # Or this computer was suspended, which the arrival clock does not count.
                clock.close('the host clock stepped', arrival_ns)
            self._end_epoch('host_stepped', moved_ns=step_ns, seen_ns=step_ns)
        if repeats:
            fresh = self._stamp_ns >= 0 or not self._judgement.size_ns
        else:
            fresh = clock.update(sender_time_ns, arrival_ns - processing_ns)
            if clock.newest_ns != sender_time_ns:
                self.refusal = 'out_of_order'
                return None
        self._sender_ns, self._stamp_ns = sender_time_ns, -1
        if not (fresh or self._sender_mode):
            self.refusal = 'backlog'
            return None
        if clock.change or (self._sender_mode and clock.run == 'fall'):
            self._follow_change()
        if self._trips.new:
            self._trips.follow(clock.line)
        placed = found = arrival_ns - processing_ns - clock.above_ns
        if not self._smooths:
            found = self._place_otherwise(sender_time_ns, arrival_ns, processing_ns)
            self.lag_ns = max(0, found - placed)
        # Round trips measure the delay that the setting gives otherwise.
        stamp = found + self._host_ns - (
            self._trips.delay_ns if self._trips.known else self._latency)
        if not self._sender_mode:
            stamp = min(stamp, host_arrival)
            if stamp < self._last_ns - SECOND_NS:
                self._end_epoch('host_stepped', True)
            elif stamp <= self._last_ns:
                self.refusal = 'stamp_not_rising'
                return None
            self._delays.append(host_arrival - stamp)
        self._stamp_ns = self._last_ns = stamp
        return stamp

    def judge(
        self, body: Any, pose: Any, sender_time_ns: int, arrival_ns: int, fresh: bool = True,
    ) -> None:
        """
        Judge the sender's times from the first frames of each run.

        :param body: whose pose it is.
        :param fresh: whether the frame has a stamp.
        """
        found = None if self.times is None else self.times.add(
            body, pose, sender_time_ns, arrival_ns, fresh)
        if found is None:
            return
        self.times, self._judgement = None, found
        if found.fault:
            self.by_arrival = self.coarse = True
            self._smooths = False
            # The gates of the bodies compare stamps from here on, as if the time had fallen.
            self._end_epoch('sender_times_unusable', self._config.mode != 'arrival', True)

    def echo(self, sent_ns: int, server_ns: int, received_ns: int) -> None:
        """
        Add a round trip to the sender's clock; the least delay of the network follows from it.

        From then on ``latency_ms`` is not subtracted: it stands for that delay and the sender's.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there (ns).
        :param received_ns: arrival clock when the answer arrived.
        """
        if not (self._sender_mode or self.by_arrival) and 0 <= server_ns < LIMIT_NS and (
                0 <= sent_ns <= received_ns < LIMIT_NS and received_ns - sent_ns <= SECOND_NS):
            self._trips.add(sent_ns, server_ns, received_ns)

    def reconnected(self) -> None:
        """Prepare for a new connection: its first frames may come out of a buffer."""
        self._clock.close('a new connection')
        self._trips = RoundTrips()
        self._sender_ns = self._stamp_ns = -1
        if not (self.coarse or self._sender_mode):
            # The next sender may send no times, which begin no new run.
            self.times = SenderTimes()

    # -- what is known -------------------------------------------------------------------------

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        clock = self._clock
        if self.coarse:
            return (self._judgement.spread_ns + clock.line.above_ns) * 1e-9
        width = clock.line.uncertainty_ns + self._judgement.size_ns
        if clock.late_ns >= 0:
            # A frame that is so late may have been taken later, by as much.
            width += clock.above_ns
        if self._trips.known:
            # Bounds from both sides: what is above the line is queueing delay.
            width += self._trips.half_width_ns - clock.line.above_ns
        return width * 1e-9 if self._smooths else math.nan

    def status(self, now_ns: int = 0) -> ClockStatus:
        """
        Return the facts.

        :param now_ns: the present, or the last arrival (ns).
        """
        clock, trips, line = self._clock, self._trips, self._clock.line
        delays = sorted(self._delays)
        # A quarter of the limit is the year 2006; no computer runs for 36 years.
        base = 'sender_start' if clock.newest_ns < LIMIT_NS >> 2 else UNIX_EPOCH
        above_ns, since_ns, follows_ns = line.above_ns, 0, EDGE_NS
        if clock.late_ns >= 0:
            # mypyc has no variable of int and float.
            above_ns = float(clock.above_ns)
            since_ns, follows_ns = now_ns - clock.late_ns, HOLD_NS
        elif line.above_since_ns >= 0:
            since_ns = clock.newest_ns - line.above_since_ns
        withheld = clock.closed if self._stamp_ns < 0 <= clock.closed_ns else ''
        return ClockStatus(
            self._config.mode, self.by_arrival, line.span_ns >= 2 * HOLD_NS,
            self._stamp_ns - self._sender_ns if self._stamp_ns >= 0 else 0,
            line.skew * 1e6 if self._smooths else math.nan, self.uncertainty_s(),
            dict(self._restarts), clock.frames, base if clock.newest_ns >= 0 else 'unknown',
            delays[len(delays) * 99 // 100] * 1e-9 if delays else math.nan,
            withheld, (now_ns - clock.closed_ns) * 1e-9,
            above_ns * 1e-9, since_ns * 1e-9, max(follows_ns - since_ns, 0) * 1e-9,
            trips.delay_ns * 1e-9 if trips.known else math.nan,
            self._judgement.fault, self._judgement.size_ns * 1e-9,
            (line.lag(clock.newest_ns) + self._host_ns) * 1e-9 if self._sender_mode else 0.0,
            self._change)

    # -- one frame -----------------------------------------------------------------------------

    def _place_otherwise(
        self, sender_ns: int, arrival_ns: int, processing_ns: int,
    ) -> int:
        """Return the place (ns) by the arrival, by the sender, or with a constant offset."""
        if self._sender_mode:
            return sender_ns - self._host_ns + self._latency
        if self.by_arrival:
            frame_ns = self._judgement.frame_ns
            if frame_ns > 0.0:
                # The largest irregularity of the arrivals, also after the judgement.
                off_ns = abs(self._wait_ns - round(self._wait_ns / frame_ns) * frame_ns)
                if off_ns > self._judgement.spread_ns:
                    self._judgement = self._judgement._replace(spread_ns=off_ns)
            return arrival_ns
        found = arrival_ns - processing_ns
        if self._missing:
            self._missing -= 1
            self._least_ns = min(self._least_ns, found - sender_ns)
            return found
        return min(found, sender_ns + self._least_ns)

    def _follow_change(self) -> None:
        """Follow a new line or a new run; in mode ``sender`` a fall before frames are fresh."""
        clock, trips = self._clock, self._trips
        change, seen_ns = clock.change or clock.run, clock.moved_ns
        clock.change, clock.run = '', 'line'
        if change != 'line':
            self._trips = RoundTrips()
            self._end_epoch(
                'sender_restarted', change == 'fall' or self.coarse, True, seen_ns=seen_ns)
            self._new_run()
            return
        self._missing, self._least_ns = self._config.offset_samples, LIMIT_NS
        before_ns = trips.delay_ns
        trips.follow(clock.line, True)
        moves = not (self.by_arrival or self._sender_mode)
        self._end_epoch(
            'offset_changed', moved_ns=moves * (clock.moved_ns + before_ns - trips.delay_ns),
            seen_ns=seen_ns)

    def _end_epoch(
        self, reason: str, fell: bool = False, run_ended: bool = False, moved_ns: int = 0,
        seen_ns: int = 0,
    ) -> None:
        """
        Begin the next epoch.

        :param reason: see ``ClockChange``, also for ``seen_ns``.
        :param fell: whether times of the new epoch begin in the past of the old one.
        :param run_ended: whether the sender's time jumped or fell.
        :param moved_ns: by how much stamps have moved (ns), where the run goes on. They wait
            until they rise, for a second at most.
        """
        if moved_ns < -SECOND_NS:
            fell, self._last_ns = True, -LIMIT_NS
        self._restarts[reason] = self._restarts.get(reason, 0) + 1
        self._change = ClockChange(reason, fell, run_ended, moved_ns, seen_ns)
        self.changes.append(self._change)
