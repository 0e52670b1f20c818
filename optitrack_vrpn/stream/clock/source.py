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
from typing import Any, Final

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.core.severity import INFO, Severity, WARN
from optitrack_vrpn.stream.clock.limits import (
    EARLY_NS, EDGE_NS, HOLD_NS, KEPT, MOST_SLEW, SECOND_NS, WINDOW_NS)
from optitrack_vrpn.stream.clock.round_trips import RoundTrips
from optitrack_vrpn.stream.clock.sender_clock import SenderClock
from optitrack_vrpn.stream.clock.sender_times import Judgement, SenderTimes
from optitrack_vrpn.stream.clock.types import (
    ClockChange, ClockStatus, HOST_STEPPED, OFFSET_CHANGED, SENDER_RESTARTED, SENDER_START,
    StampConfig, Trouble, UNIX_EPOCH, UNKNOWN_BASE, UNUSABLE)

LIMIT_NS: Final = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) are below it."""
_NEVER: Final = -(1 << 70)
_UNIX_NS: Final = 10**18
"""Sender times from here on (year 2001) count from the Unix epoch; no computer has been running
for 31 years."""


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    Without a call of ``reconnected`` the first frames are taken as fresh.

    :param config: the settings.
    :ivar pending_events: events since the last call of ``events``; always the same list.
    :ivar by_arrival: whether arrivals are the stamps, by the settings or because of the sender's
        times.
    :ivar coarse: whether the sender's times are too coarse.
    :ivar lag_ns: delay of the newest frame that is not in its stamp, because stamps are arrivals.
    :ivar older: number of frames that were older than the newest one.
    :ivar withheld: number of frames without a stamp because they may come out of a buffer.
    """

    def __init__(self, config: StampConfig) -> None:
        self._config = config
        self._sender_mode = config.mode == 'sender'
        self._latency = round(config.latency_ms * 1e6)
        self._clock = SenderClock()
        self._trips = RoundTrips()
        self.pending_events: list[Event] = []
        self._epoch = 0
        self._restarts: dict[str, int] = {}
        self._refused = self.older = self.withheld = 0
        # Host clock minus arrival clock, when it was read, and how long after the time before.
        self._host_ns, self._read_ns, self._wait_ns = 0, -1, 0
        # The newest frame: its sender time and its stamp, -1 if it has none.
        self._sender_ns = self._stamp_ns = -1
        # The newest stamp, and its sender time.
        self._last_ns, self._stamped_ns = _NEVER, 0
        self._delays: deque[int] = deque(maxlen=KEPT)
        # Mode sender: the least age of its times so far, since when, and in the second before.
        self._age_ns, self._age_from_ns, self._least_age_ns = -_NEVER, -1, 0
        self._new_run()

    def _new_run(self) -> None:
        """Begin with a sender's clock of which nothing is known."""
        self.by_arrival, self.coarse = self._config.mode == 'arrival', False
        self._smooths = self._config.mode == 'tracking'
        self._judgement = Judgement(True)
        self._times: SenderTimes | None = None if self._sender_mode else SenderTimes()
        # Mode min_offset: frames that are still to come, and the least offset so far.
        self._missing, self._least_ns = self._config.offset_samples, -_NEVER
        self._told = False
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
        :returns: ns, or None if the frame cannot be stamped or may be old, and must be dropped.
        """
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        repeats = sender_time_ns == self._sender_ns
        if repeats and not begins:
            # Another body of the same frame, or a repeat.
            if 0 <= self._stamp_ns <= host_arrival < LIMIT_NS and arrival_ns >= 0:
                return self._stamp_ns
            self.withheld += self._stamp_ns < 0
            return None
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self._refused += 1
            return None
        clock = self._clock
        if not self._sender_mode:
            self._follow_host(arrival_ns, host_minus_arrival_clock_ns)
        if repeats:
            fresh = self._stamp_ns >= 0 or self._judgement.what == 'no times'
        else:
            fresh = clock.update(sender_time_ns, arrival_ns - processing_ns)
            if clock.newest_ns != sender_time_ns:
                self.older += 1
                return None
        self._sender_ns, self._stamp_ns = sender_time_ns, -1
        if self._sender_mode:
            return self._stamp_as_sent(sender_time_ns, arrival_ns, host_arrival)
        if not fresh:
            self.withheld += 1
            return None
        if clock.change:
            self._follow_change()
            clock.change = ''
        if self._trips.new:
            self._trips.follow(clock.line)
        placed = arrival_ns - processing_ns - int(clock.above_ns) - self._trips.delay_ns
        offset_ns = self._host_ns - self._latency
        if self._smooths:
            stamp = placed + offset_ns
        else:
            stamp = offset_ns + self._stamp_otherwise(
                sender_time_ns, arrival_ns, processing_ns, placed)
            self.lag_ns = max(0, stamp - placed - offset_ns)
        if not self._told:
            self._report_learnt(stamp - sender_time_ns)
        return self._rise(stamp, sender_time_ns, host_arrival)

    def judge(
        self, body: Any, pose: Any, sender_time_ns: int, arrival_ns: int, fresh: bool = True,
    ) -> bool:
        """
        Judge the sender's times from the first frames of each run.

        :param body: whose pose it is.
        :param fresh: whether the frame has a stamp.
        :returns: whether the judgement is still to come.
        """
        if self._times is None:
            return False
        found = self._times.add(body, pose, sender_time_ns, arrival_ns, fresh)
        if found is None:
            return True
        self._times, self._judgement = None, found
        if not found.usable:
            self.by_arrival = self.coarse = True
            self._smooths = False
            size = f' of {found.size_ns / 1e6:.3g} ms' if found.size_ns else ''
            text = (f"the sender's times have {found.what}{size}: stamps are arrivals, as in mode "
                    f'arrival, with their spread of {found.spread_ns / 1e6:.3g} ms as uncertainty')
            if found.what == 'no times':
                text = ('the sender sends no times: stamps are arrivals, and poses that waited '
                        'in a buffer cannot be recognised')
            # The gates of the bodies compare stamps from here on, as if the time had fallen.
            self._end_epoch(UNUSABLE, text, fell=self._config.mode != 'arrival', run_ended=True)
        return False

    def echo(self, sent_ns: int, server_ns: int, received_ns: int) -> None:
        """
        Add a round trip to the sender's clock; the least delay of the network follows from it.

        From then on ``latency_ms`` is not subtracted: it stands for that delay and the sender's.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there (ns).
        :param received_ns: arrival clock when the answer arrived.
        """
        if self._sender_mode or self.by_arrival or not (
                0 <= server_ns < LIMIT_NS and 0 <= sent_ns <= received_ns < LIMIT_NS
                and received_ns - sent_ns <= SECOND_NS):
            return
        self._trips.add(sent_ns, server_ns, received_ns)
        self._latency = 0

    def reconnected(self) -> None:
        """Prepare for a new connection: its first frames may come out of a buffer."""
        self._clock.reconnected()
        self._trips.restart()
        # The next sender may answer no round trips.
        self._latency = round(self._config.latency_ms * 1e6)
        self._sender_ns = -1
        if not (self.coarse or self._sender_mode):
            # The next sender may send no times, which begin no new run.
            self._times = SenderTimes()

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        events = self.pending_events[:]
        self.pending_events.clear()
        return events

    # -- what is known -------------------------------------------------------------------------

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        line = self._clock.line
        if self.coarse:
            return (self._judgement.spread_ns + line.above_ns) * 1e-9
        if not self._smooths:
            return math.nan
        width = self._clock.uncertainty_ns
        if self._trips.known:
            # Bounds from both sides: what is above the line is queueing delay.
            width += self._trips.half_width_ns - line.above_ns
        return (width + self._judgement.size_ns) * 1e-9

    def trouble(self, now_ns: int) -> Trouble | None:
        """
        Return why no frame has had a stamp for long, or why stamps are wrong; None otherwise.

        :param now_ns: the present, or the last arrival (ns).
        """
        clock = self._clock
        if self._sender_mode:
            # Nothing is withheld by the clock.
            return Trouble(age_s=self._least_age_ns * 1e-9)
        if self.coarse and self._stamp_ns >= 0:
            return None    # stamps are arrivals
        if clock.closed and clock.closed_ns >= 0:
            passed_s = (now_ns - clock.closed_ns) * 1e-9
            return Trouble(clock.closed, passed_s, clock.pace.falling_ns > 0) if (
                passed_s >= 1.0) else None
        if clock.late and clock.above_ns > WINDOW_NS:
            return Trouble(late_s=clock.above_ns * 1e-9,
                           left_s=max(clock.late_ns + HOLD_NS - now_ns, 0) * 1e-9)
        return None

    def status(self) -> ClockStatus:
        """Return the facts."""
        clock, trips = self._clock, self._trips
        line = clock.line
        delays = sorted(self._delays)
        since_s = 0.0 if line.above_since_ns < 0 else (
            clock.newest_ns - line.above_since_ns) * 1e-9
        base = SENDER_START if clock.newest_ns < _UNIX_NS else UNIX_EPOCH
        return ClockStatus(
            mode=self._config.mode, by_arrival=self.by_arrival, epoch=self._epoch,
            learnt=self._learnt(),
            offset_ns=self._stamp_ns - self._sender_ns if self._stamp_ns >= 0 else 0,
            skew_ppm=line.skew * 1e6 if self._smooths else math.nan,
            uncertainty_s=self.uncertainty_s(), above_s=line.above_ns * 1e-9,
            above_since_s=since_s, follows_in_s=EDGE_NS * 1e-9 - since_s if since_s else math.nan,
            restarts=dict(self._restarts), samples=line.frames,
            sender_base=base if clock.newest_ns >= 0 else UNKNOWN_BASE,
            jitter_p99_s=delays[len(delays) * 99 // 100] * 1e-9 if delays else math.nan,
            refused=self._refused + self.older, withheld=self.withheld,
            network_delay_s=trips.delay_ns * 1e-9 if trips.known else math.nan,
            round_trip_s=trips.round_trip_ns * 1e-9 if trips.known else math.nan,
            sender_fault=self._judgement.what, sender_jitter_s=self._judgement.size_ns * 1e-9)

    # -- one frame -----------------------------------------------------------------------------

    def _rise(self, stamp: int, sender_ns: int, host_arrival: int) -> int | None:
        """Return the stamp of a new frame, later than those before and not than its arrival."""
        if stamp > host_arrival:
            stamp = host_arrival
        last_ns = self._last_ns
        if stamp <= last_ns:
            if last_ns - stamp > SECOND_NS:
                self._end_epoch(HOST_STEPPED, 'the clock of the arrivals was set back by '
                                f'{(last_ns - stamp) / 1e9:.3f} s', fell=True)
            else:
                # The line has been lowered: stamps advance at an eighth of the rate meanwhile.
                stamp = min(host_arrival, last_ns + ((sender_ns - self._stamped_ns) >> 3))
                if stamp <= last_ns:
                    return None
        self._stamp_ns = self._last_ns = stamp
        self._stamped_ns = sender_ns
        self._delays.append(host_arrival - stamp)
        return stamp

    def _stamp_as_sent(self, sender_ns: int, arrival_ns: int, host_arrival: int) -> int | None:
        """Mode ``sender``: nothing is withheld, and the clock is followed for the status only."""
        clock = self._clock
        if clock.fell or clock.change in ('jump', 'fall'):
            self._end_epoch(
                SENDER_RESTARTED, "the sender's time jumped or fell", clock.fell, True)
            clock.fell = False
            clock.change = ''
        # The least of a second: delays of a network are shorter.
        if self._age_from_ns < 0:
            self._age_from_ns, self._age_ns = arrival_ns, -_NEVER
        self._age_ns = min(self._age_ns, host_arrival - sender_ns)
        if arrival_ns - self._age_from_ns >= SECOND_NS:
            self._age_from_ns, self._least_age_ns = -1, self._age_ns
        self._stamp_ns = sender_ns
        if not self._told:
            self._report_learnt(0)
        return sender_ns

    def _stamp_otherwise(
        self, sender_ns: int, arrival_ns: int, processing_ns: int, placed: int,
    ) -> int:
        """Return the place by the arrival, or by the original package's constant offset."""
        if self.by_arrival:
            frame_ns = self._judgement.frame_ns
            if self.coarse and frame_ns > 0.0:
                # The largest irregularity of the arrivals, also after the judgement.
                off_ns = abs(self._wait_ns - round(self._wait_ns / frame_ns) * frame_ns)
                if off_ns > self._judgement.spread_ns:
                    self._judgement = self._judgement._replace(spread_ns=off_ns)
            return arrival_ns
        found = arrival_ns - processing_ns
        if self._missing:
            self._missing -= 1
            self._least_ns = min(self._least_ns, found - sender_ns)
        else:
            found = min(found, sender_ns + self._least_ns)
        return min(found, placed) if self._trips.known else found

    def _follow_host(self, arrival_ns: int, reading_ns: int) -> None:
        """Follow a host clock that is slewed or set; stamps wait to rise, for a second at most."""
        step_ns, self._wait_ns = reading_ns - self._host_ns, arrival_ns - self._read_ns
        first, self._host_ns, self._read_ns = self._read_ns < 0, reading_ns, arrival_ns
        if -EARLY_NS <= step_ns <= EARLY_NS or first or (
                abs(step_ns) <= EARLY_NS + MOST_SLEW * max(self._wait_ns, 0)):
            return
        back = step_ns < -SECOND_NS
        if back:
            self._last_ns = _NEVER
        if step_ns > 0:
            # Or this computer was suspended, which the arrival clock does not count.
            self._clock.close('the host clock stepped', arrival_ns)
        self._end_epoch(
            HOST_STEPPED, f'the host clock stepped by {step_ns / 1e6:+.3f} ms', fell=back,
            moved_ns=step_ns)

    def _follow_change(self) -> None:
        """Follow a new line or a new run."""
        clock, trips = self._clock, self._trips
        moved = f'{clock.moved_ns * 1e-9:+.3f} s'
        if clock.change != 'line':
            trips.restart()
            self._end_epoch(SENDER_RESTARTED, (
                f'the sender restarted or its clock was set: its offset changed by {moved}'),
                clock.change == 'fall' or self.coarse, True)
            self._new_run()
            return
        self._missing, self._least_ns = self._config.offset_samples, -_NEVER
        before_ns = trips.delay_ns
        trips.follow(clock.line, True)
        self._end_epoch(OFFSET_CHANGED, (
            f'frames arrive {moved} later than before: the route changed, or a clock was set'),
            moved_ns=0 if self.by_arrival else clock.moved_ns + before_ns - trips.delay_ns)

    def _end_epoch(self, reason: str, detail: str, fell: bool = False, run_ended: bool = False,
                   moved_ns: int = 0) -> None:
        """
        Begin the next epoch.

        :param reason: one of ``types``.
        :param detail: the observation, for the log.
        :param fell: whether times or stamps of the new epoch begin in the past of the old one.
        :param run_ended: whether the sender's time jumped or fell.
        :param moved_ns: by how much stamps have moved (ns), where the run goes on.
        """
        self._epoch += 1
        self._restarts[reason] = self._restarts.get(reason, 0) + 1
        self._report(f'stamp epoch {self._epoch} begins: {detail}', ClockChange(
            'epoch_ended', reason, self._epoch, fell, run_ended, moved_ns), WARN)

    def _report(self, text: str, change: ClockChange, severity: Severity = INFO) -> None:
        """Add an event, unless too many wait."""
        if len(self.pending_events) < KEPT:
            self.pending_events.append(Event(severity, ('clock', text), text, change))

    def _learnt(self) -> bool:
        if self._smooths:
            return self._clock.line.span_ns >= 2 * HOLD_NS
        return self._sender_mode or not (self.by_arrival or self._missing)

    def _report_learnt(self, offset_ns: int) -> None:
        """Report the base of the sender's times, and the offset once it has been learnt."""
        if not self._learnt():
            return
        self._told = True
        base = 'its start' if self._sender_ns < _UNIX_NS else 'the Unix epoch'
        text = f'stamps are sender time {offset_ns / 1e9:+.6f} s, '
        if self._sender_mode:
            text = 'stamps are the times of the sender, unchanged'
        elif self._smooths:
            text += f'updated continuously; uncertainty {self.uncertainty_s() * 1e6:.0f} µs'
        else:
            text += f'constant, the least of {self._config.offset_samples} frames'
        self._report(f"{text}; the sender's clock counts from {base}",
                     ClockChange('learnt', self._config.mode, self._epoch))
