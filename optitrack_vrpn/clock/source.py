# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamp each frame of a connection: withhold backlogs, end epochs, follow the host's clock.

Promises, for every mode but ``sender``, for any input:

- no stamp is later than its arrival on the host's clock;
- within an epoch stamps rise with the sender's time: none goes backwards;
- equal sender times get equal stamps, for the last ``HISTORY`` distinct sender times at least;
  older frames are refused. Not in mode ``arrival`` once the sender's times are found unusable:
  then frames that arrive together share a stamp;
- repeated and overtaken frames do not change the estimate.

With a constant host offset they hold to the nanosecond. Where readings of the host's clock
differ, two frames that arrive together may be ordered by noise: then the stamp may exceed this
reading's arrival by up to ``READING_NOISE_NS``.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Final

from optitrack_vrpn.clock.cadence import Cadence
from optitrack_vrpn.clock.epochs import Epochs
from optitrack_vrpn.clock.history import FrameHistory, NEVER
from optitrack_vrpn.clock.host import HostOffset, QUIET_NS
from optitrack_vrpn.clock.rules import MinOffset
from optitrack_vrpn.clock.tracker import Tracker
from optitrack_vrpn.clock.two_way import TwoWay
from optitrack_vrpn.clock.types import (
    ClockStatus, HOST_STEPPED, RECONNECTED, SENDER_RESTARTED, StampConfig, UNUSABLE,
)
from optitrack_vrpn.events import Event

LIMIT_NS: Final = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) are below it."""
READING_NOISE_NS: Final = 10_000
"""Noise of a reading of the host's clock at most. Measured: 1 us, 10 us where a reading is
interrupted and repeated (``hostclock_io``)."""
_FROZEN_NS: Final = 250_000_000
"""A sender time that is still the newest after this time has stopped (mode ``arrival``)."""
_ODD_ENOUGH: Final = 500
"""Frames out of order, less those in order, from which sender times are unusable: 2 s at 240 Hz
(mode ``arrival``)."""


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    :param config: the settings.
    :param suspended_ns: reads for how long this computer has been suspended since its start, which
        the arrival clock does not count; it is called when the host's clock steps.
    :ivar pending_events: events since the last call of ``events``; always the same list.
    :ivar lag_ns: delay of the newest frame that is not in its stamp, because stamps are arrivals.
    :ivar withheld: number of frames without a stamp because they may be a backlog.
    """

    def __init__(
        self, config: StampConfig, suspended_ns: Callable[[], int] = lambda: 0,
    ) -> None:
        self._config = config
        self._arrival_mode = config.mode == 'arrival'
        self._sender_mode = config.mode == 'sender'
        self._min_offset = MinOffset(config.offset_samples) if (
            config.mode == 'min_offset') else None
        self._smooths = config.mode == 'tracking'
        self._suspended_ns = suspended_ns
        self._suspended = suspended_ns()
        self._first_suspended = self._suspended
        self._latency = round(config.latency_ms * 1e6)
        self._shift = 0 if self._sender_mode else -self._latency
        self._cadence = Cadence()
        # Whether ticks and jitter are removed, and whether that has been reported.
        self._smoothing = self._reported = False
        self._two_way = TwoWay()
        self._tracker = Tracker()
        self._processing = 0
        self._host = HostOffset()
        self._reading = 0
        # The reading that would change nothing; None while every reading is followed.
        self._settled: int | None = 0
        self._epochs = Epochs()
        self.pending_events = self._epochs.events
        self._refused = 0
        # Newest time that the tracker has been given, and newest sender time without a stamp.
        self._placed = self._withheld_ns = -1
        self.withheld = self.lag_ns = 0
        self._frames = FrameHistory()
        # Mode arrival: frames out of order, and whether arrivals stand in for sender times.
        self._odd = 0
        self._unusable = False

    def stamp(
        self, sender_time_ns: int, arrival_ns: int, host_minus_arrival_clock_ns: int = 0,
        processing_ns: int = 0,
    ) -> int | None:
        """
        Return the frame's stamp on the host's clock.

        :param sender_time_ns: the sender's time of the frame (ns, its own zero).
        :param arrival_ns: arrival on the arrival clock (ns).
        :param host_minus_arrival_clock_ns: host clock minus arrival clock, read at arrival (ns).
        :param processing_ns: from the sender's time until it transmitted the frame, where that is
            known: no delay of the network.
        :returns: ns, or None if the frame cannot be stamped or may be old, and must be dropped.
        """
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        # Arrivals stand for themselves, without a model of delays.
        self._processing = 0 if self._arrival_mode else processing_ns
        frames = self._frames
        if (sender_time_ns == frames.newest_ns and frames.stamp_ns <= host_arrival < LIMIT_NS
                and 0 <= arrival_ns < LIMIT_NS and not self._min_offset
                and not (self._arrival_mode
                         and host_arrival - frames.stamp_ns >= _FROZEN_NS)):
            # Another body of the same frame, or a repeat.
            return frames.stamp_ns
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self._refused += 1
            return None
        return self._stamp(sender_time_ns, arrival_ns, host_minus_arrival_clock_ns)

    def stamp_further(
        self, sender_time_ns: int, nth: int, arrival_ns: int,
        host_minus_arrival_clock_ns: int = 0,
    ) -> tuple[int, int] | None:
        """
        Stamp one of several frames that have the newest sender time.

        :param sender_time_ns: that sender time (ns); None is returned for any other.
        :param nth: counted from 0 in the order of the frames; at most one more than the last.
        :param arrival_ns: arrival on the arrival clock (ns).
        :param host_minus_arrival_clock_ns: host clock minus arrival clock, read at arrival (ns).
        :returns: the frame's time by the sender's clock without its ticks, and the stamp (ns);
            None while the frames' rate is not known, and in modes that do not measure it.
        """
        frames, cadence = self._frames, self._cadence
        if not cadence.newest_ns == frames.newest_ns == sender_time_ns or self._two_way.known:
            return None
        if not nth:
            return (frames.placed[-1], frames.stamp_ns) if cadence.smoothing else None
        if nth > len(frames.further):
            time_ns = cadence.place_further()
            found = None
            if time_ns is not None:
                self._processing = 0
                shift_ns = self._suspended - self._first_suspended
                stamp = self._stamp_newer(
                    sender_time_ns, time_ns, arrival_ns + shift_ns,
                    host_minus_arrival_clock_ns - shift_ns)
                found = None if stamp is None else (self._placed, stamp)
            # If the epoch ended with this frame, the frames before it are no longer stored.
            frames.further += [None] * (nth - 1 - len(frames.further)) + [found]
            return found
        return frames.further[nth - 1]

    def echo(self, sent_ns: int, server_ns: int, received_ns: int) -> None:
        """
        Add a round trip to the sender's clock; the least delay of the network follows from it.

        From then on ``latency_ms`` is not subtracted: it stands for that delay and the sender's.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there (ns).
        :param received_ns: arrival clock when the answer arrived.
        """
        if self._sender_mode or self._arrival_mode or not (
                0 <= server_ns < LIMIT_NS and 0 <= sent_ns <= received_ns < LIMIT_NS
                and received_ns - sent_ns <= 1_000_000_000):
            return
        shift_ns = self._suspended - self._first_suspended
        self._two_way.add(sent_ns + shift_ns, server_ns, received_ns + shift_ns,
                          self._tracker.skew(), self._tracker.skew_deviation())
        if self._latency:
            self._shift += self._latency
            self._latency = 0

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        return self._epochs.take_events()

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        if not self._smooths:
            return math.nan
        uncertainty_s = self._tracker.uncertainty_s() + self._cadence.uncertainty_ns() * 1e-9
        if self._two_way.known:
            # Queueing delay does not change what round trips bound.
            return self._two_way.error_ns(self._tracker.skew()) * 1e-9 + min(
                uncertainty_s, 1e-6 + self._tracker.skew_deviation())
        return uncertainty_s

    def trouble(self) -> str:
        """Return why no frame has had a stamp for long, and until when; '' if they have."""
        return self._tracker.trouble()

    def status(self) -> ClockStatus:
        """Return the present state of the model."""
        frames, epochs, two_way, cadence = self._frames, self._epochs, self._two_way, self._cadence
        deviation, p99 = frames.jitter_s()
        return ClockStatus(
            mode=self._config.mode, epoch=epochs.number, learnt=self._learnt(),
            offset_ns=frames.stamp_ns - frames.placed[-1] if frames.times else 0,
            skew_ppm=self._skew_ppm(), uncertainty_s=self.uncertainty_s(),
            restarts=dict(epochs.restarts), samples=self._tracker.samples,
            sender_base=epochs.base, jitter_std_s=deviation, jitter_p99_s=p99,
            refused=self._refused,
            network_delay_s=two_way.delay_ns * 1e-9 if two_way.known else math.nan,
            round_trip_s=two_way.round_trip_ns * 1e-9 if two_way.known else math.nan,
            sender_tick_s=cadence.tick_ns * 1e-9, sender_jitter_s=cadence.jitter_ns * 1e-9,
            smoothed=cadence.smoothing,
        )

    def reconnected(self) -> None:
        """Prepare for a new connection: the model is kept as long as the next frame fits it."""
        self._two_way.restart()
        # The next sender may answer no round trips.
        latency = round(self._config.latency_ms * 1e6)
        self._shift += self._latency - latency
        self._latency = latency
        self._tracker.announce()
        self._withheld_ns = -1
        self._odd = 0
        if self._unusable:
            self._end_epoch(RECONNECTED, "the new connection's sender times may be usable")
            self._unusable = False

    # -- one frame -----------------------------------------------------------------------------

    def _stamp(self, sender_time_ns: int, arrival_ns: int, reading_ns: int) -> int | None:
        """Return the stamp of a frame whose times can be stamped."""
        frames = self._frames
        if self._unusable:
            sender_time_ns = max(arrival_ns, frames.newest_ns)
        shift_ns = self._suspended - self._first_suspended
        if reading_ns - shift_ns != self._settled:
            self._read_host(arrival_ns, reading_ns)
            shift_ns = self._suspended - self._first_suspended
        arrival_ns += shift_ns
        reading_ns -= shift_ns
        if sender_time_ns <= frames.newest_ns:
            return self._stamp_old(sender_time_ns, arrival_ns, reading_ns)
        if sender_time_ns == self._withheld_ns:
            # Another body of a frame that is withheld.
            if self._is_unusable():
                return self._stamp_again(sender_time_ns, arrival_ns, reading_ns)
            self.withheld += 1
            return None
        time_ns = sender_time_ns
        # Times of exposure are exact, and round trips need the times as sent.
        if self._smooths and not self._processing and not self._two_way.known and (
                sender_time_ns > self._cadence.newest_ns):
            cadence = self._cadence
            time_ns = cadence.place(sender_time_ns)
            if cadence.smoothing is not self._smoothing:
                self._smoothing = cadence.smoothing
                if cadence.smoothing:
                    # The minima so far are of times with ticks and jitter, or of another line.
                    self._tracker.relearn()
                    if not self._reported:
                        self._reported = True
                        self._epochs.report('coarse_sender', *cadence.describe())
        return self._stamp_newer(sender_time_ns, time_ns, arrival_ns, reading_ns)

    def _stamp_newer(
        self, sender_time_ns: int, time_ns: int, arrival_ns: int, reading_ns: int,
    ) -> int | None:
        """Stamp a frame that is newer than the newest: place it, and learn from it."""
        frames, tracker = self._frames, self._tracker
        host_arrival = arrival_ns + reading_ns
        before = self._placed
        if time_ns <= before:
            time_ns = before + 1
        placed = time_ns
        if not self._unusable:
            tracker.live_at_once = self._processing > 0 or self._sender_mode
            found = tracker.place(time_ns, arrival_ns - self._processing, sender_time_ns)
            if tracker.restarted:
                self._follow_restart()
                before, time_ns = -1, sender_time_ns
            if found is not None:
                placed = found
            else:
                if tracker.early:
                    # Nothing is known of this time: a sender that restarted, or a wrong one.
                    self._cadence.reset()
                if not self._sender_mode:
                    self._withheld_ns = sender_time_ns
                    self.withheld += 1
                    return None
        self._placed = time_ns
        if self._epochs.learnt is not self._learnt():
            self._report_learnt(time_ns, placed, host_arrival)
        by_line = placed + self._shift
        if self._sender_mode:
            stamp = sender_time_ns
        elif self._arrival_mode:
            stamp = host_arrival - self._latency
            self._odd = max(0, self._odd - 1)
        else:
            if self._min_offset is not None:
                placed = self._min_offset.place(time_ns, arrival_ns - self._processing)
            if self._two_way.known:
                placed = self._two_way.place(time_ns, placed, tracker.skew())
            stamp = placed + self._shift
        if not self._sender_mode:
            if stamp > host_arrival:
                stamp = host_arrival
            if stamp <= frames.last_ns:
                stamp = self._hold(stamp, time_ns - before, host_arrival)
            if not self._smooths and not self._unusable:
                self.lag_ns = max(0, stamp - by_line)
        frames.append(sender_time_ns, time_ns, stamp, host_arrival)
        return stamp

    def _hold(self, stamp: int, passed_ns: int, host_arrival: int) -> int:
        """Return a stamp that does not go backwards, or end the epoch if none can be found."""
        last = self._frames.last_ns
        if host_arrival < last:
            # Size of the step, estimated from the interval of the sender's times.
            step_ns = stamp - last - passed_ns
            return stamp if self._arrived_early(last - host_arrival, step_ns) else last
        # The line has been lowered. Stamps advance at an eighth of the rate until they meet it,
        # so that no two frames share one.
        return min(host_arrival, max(stamp, last + (passed_ns >> 3)))

    def _arrived_early(self, early_ns: int, step_ns: int) -> bool:
        """End the epoch if a frame arrived before an older one's stamp by more than noise."""
        if self._reading and early_ns <= READING_NOISE_NS:
            return False
        self._end_epoch(HOST_STEPPED, (
            f'a frame arrived {early_ns / 1e6:.3f} ms before the stamp of an older one'),
            step_ns=step_ns)
        return True

    def _stamp_old(self, sender_time_ns: int, arrival_ns: int, reading_ns: int) -> int | None:
        """Stamp a frame that is not newer than the newest, or recognise a restart."""
        frames, tracker = self._frames, self._tracker
        host_arrival = arrival_ns + reading_ns
        if not self._unusable:
            tracker.live_at_once = self._processing > 0 or self._sender_mode
            placed = tracker.older(sender_time_ns, arrival_ns - self._processing)
            if tracker.restarted and placed is not None:
                self._follow_restart()
                self._placed = sender_time_ns
                self._report_learnt(sender_time_ns, placed, host_arrival)
                stamp = min(host_arrival, placed + self._shift)
                if self._sender_mode:
                    stamp = sender_time_ns
                elif self._arrival_mode or self._min_offset is not None:
                    stamp = host_arrival - self._latency
                frames.append(sender_time_ns, sender_time_ns, stamp, host_arrival)
                return stamp
        at, known = frames.find(sender_time_ns)
        least = frames.stamps[at] if known else (frames.lasts[at - 1] if at else NEVER)
        if host_arrival < least and not self._sender_mode:
            if self._arrived_early(least - host_arrival, host_arrival - least):
                return self._stamp_again(sender_time_ns, arrival_ns, reading_ns)
            host_arrival = least
        if (sender_time_ns == frames.newest_ns or not known) and self._is_unusable():
            return self._stamp_again(sender_time_ns, arrival_ns, reading_ns)
        if known:
            if self._min_offset is not None and sender_time_ns == frames.newest_ns:
                self._min_offset.place(sender_time_ns, arrival_ns)
            return frames.stamps[at]
        if at == 0 and frames.trimmed:
            self._refused += 1
            return None
        # The interval to the next frame is that of the sender's times.
        before = frames.times[at] - sender_time_ns
        stamp = max(frames.stamps[at] - before, least)
        if not self._sender_mode:
            stamp = min(stamp, host_arrival)
        frames.insert(at, sender_time_ns, frames.placed[at] - before, stamp, host_arrival)
        return stamp

    def _stamp_again(self, sender_time_ns: int, arrival_ns: int, reading_ns: int) -> int | None:
        """Stamp a frame that has ended an epoch."""
        shift_ns = self._suspended - self._first_suspended
        return self._stamp(sender_time_ns, arrival_ns - shift_ns, reading_ns + shift_ns)

    # -- ends of epochs ------------------------------------------------------------------------

    def _follow_restart(self) -> None:
        """End the epoch as the tracker says."""
        tracker = self._tracker
        reason, tracker.restarted = tracker.restarted, ''
        if reason == HOST_STEPPED and self._reading:
            # The raw clock of the arrivals is never set.
            reason = SENDER_RESTARTED
        self._two_way.restart()
        self._cadence.reset()
        self._smoothing = False
        self._withheld_ns = -1
        if self._min_offset is not None:
            self._min_offset.restart()
        self._end_epoch(reason, tracker.detail, tracker.fell)

    def _is_unusable(self) -> bool:
        """
        Count a frame out of order in mode ``arrival``; return whether they are too many.

        Each newer frame reduces the count by one, so that reordering and restarts do not reach
        the limit.
        """
        if not self._arrival_mode or self._unusable:
            return False
        self._odd += 1
        if self._odd < _ODD_ENOUGH:
            return False
        self._unusable = True
        self._end_epoch(
            UNUSABLE, "the sender's times do not rise; from here on stamps are arrivals alone")
        return True

    def _end_epoch(
        self, reason: str, detail: str = '', fell: bool = False, step_ns: int | None = None,
    ) -> None:
        """
        Begin the next epoch.

        :param step_ns: the step of the clock of the stamps (ns): frames stay known and move with
            it. Without it, frames are forgotten.
        """
        self._epochs.end(reason, detail, fell)
        if step_ns is None or self._unusable:
            self._frames.clear()
            self._placed = -1
        else:
            self._frames.shift(step_ns)

    # -- state and clocks ----------------------------------------------------------------------

    def _learnt(self) -> bool:
        if self._smooths:
            return self._tracker.learnt
        return self._sender_mode or (self._min_offset is not None and self._min_offset.learnt)

    def _skew_ppm(self) -> float:
        if self._arrival_mode or self._sender_mode:
            return math.nan
        return self._tracker.skew() * 1e6 if self._smooths else 0.0

    def _report_learnt(self, time_ns: int, placed_ns: int, host_arrival: int) -> None:
        """Report the base of the sender's times, and the offset once it has been learnt."""
        epochs = self._epochs
        if epochs.learnt is None and not self._unusable:
            epochs.recognise_base(time_ns, host_arrival)
        epochs.learnt = self._learnt()
        if not epochs.learnt:
            return
        offset_s = (placed_ns - time_ns + self._shift) / 1e9
        if self._sender_mode:
            text = 'stamps are the times of the sender, unchanged'
        elif self._min_offset is not None:
            offset_s = (self._min_offset.offset_ns + self._shift) / 1e9
            text = (f'stamps are sender time {offset_s:+.6f} s, constant, the least of '
                    f'{self._config.offset_samples} messages')
        else:
            text = (f'stamps are sender time {offset_s:+.6f} s, updated continuously; '
                    f'uncertainty {self.uncertainty_s() * 1e6:.0f} µs')
        epochs.report('learnt', self._config.mode, text)

    def _read_host(self, arrival_ns: int, reading_ns: int) -> None:
        """Follow the host's clock, and count the time for which this computer was suspended."""
        if self._sender_mode:
            return
        host, frames = self._host, self._frames
        shift_ns = self._suspended - self._first_suspended
        if host.steps(arrival_ns + shift_ns, reading_ns - shift_ns):
            self._suspended = self._suspended_ns()
            shift_ns = self._suspended - self._first_suspended
        arrival_ns += shift_ns
        reading_ns -= shift_ns
        before = host.offset_ns
        if not -QUIET_NS <= reading_ns - before <= QUIET_NS and frames.times:
            # Since the last frame, readings changed nothing and were not followed.
            host.seen(frames.stamp_ns + frames.delays[-1] - self._reading)
        stepped = host.follow(arrival_ns, reading_ns)
        self._reading = reading_ns
        self._settled = reading_ns if host.settled else None
        self._shift = host.offset_ns - self._latency
        if stepped and frames.times:
            self._end_epoch(
                HOST_STEPPED, f'the host clock stepped by {(reading_ns - before) / 1e6:+.3f} ms',
                step_ns=host.offset_ns - before)
