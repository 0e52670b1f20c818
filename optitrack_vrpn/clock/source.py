# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamp each frame of a connection: refuse or hold old ones, end epochs, select the rule.

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

import math
from typing import Final

from optitrack_vrpn.clock.cadence import Cadence
from optitrack_vrpn.clock.epochs import Epochs
from optitrack_vrpn.clock.history import FrameHistory, NEVER
from optitrack_vrpn.clock.host import HostOffset, QUIET_NS
from optitrack_vrpn.clock.rollback import HELD_UP_NS, Rollback
from optitrack_vrpn.clock.rules import ArrivalRule, MinOffsetRule, Rule, SenderRule
from optitrack_vrpn.clock.tracking import TrackingRule
from optitrack_vrpn.clock.two_way import TwoWay
from optitrack_vrpn.clock.types import (
    ClockStatus, HOST_STEPPED, RECONNECTED, SENDER_RESTARTED, SENDER_START, StampConfig, UNUSABLE,
)
from optitrack_vrpn.events import Event

LIMIT_NS: Final = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) are below it."""
READING_NOISE_NS: Final = 10_000
"""Noise of a reading of the host's clock at most. Measured: 1 us, 10 us where a reading is
interrupted and repeated (``hostclock_io``); half of it takes such a reading for a step, twice as
much lets stamps exceed the arrival by that."""
_ODD_RESTART = 25
"""Frames out of order for which a restart of the sender counts: 20 restarts in a row are none."""
_ODD_ENOUGH = 500
"""Frames out of order, less those in order, from which sender times are unusable. Chosen: 2 s at
240 Hz; half of it takes a network that repeats for two seconds for such a sender, twice as much
publishes nothing useful for 4 s."""


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    :param config: the settings.
    :ivar pending_events: events since the last call of ``events``; always the same list.
    """

    def __init__(self, config: StampConfig) -> None:
        self._config = config
        self._arrivals = ArrivalRule() if config.mode == 'arrival' else None
        self._rule: Rule = self._arrivals or _make_rule(config)
        self._sender_mode = config.mode == 'sender'
        # Whether arrivals stand in for the sender's times, which do not rise (mode arrival).
        self._unusable = False
        self._latency = round(config.latency_ms * 1e6)
        # Ticks and jitter of the sender's clock, which the other modes do not remove.
        self._cadence = Cadence()
        self._smooths = config.mode == 'tracking'
        # Whether it does so now, and whether that has been reported.
        self._smoothing = self._reported = False
        # The network's least delay, where the sender answers round trips.
        self._two_way = TwoWay()
        self._processing = 0
        self._host = HostOffset()
        self._reading = 0
        # The reading that would change nothing; None while every reading is followed.
        self._settled: int | None = 0
        self._shift = 0 if self._sender_mode else -self._latency
        self._epochs = Epochs()
        self.pending_events = self._epochs.events
        self._refused = 0
        # Newest time that the rule has been given.
        self._placed = -1
        self._frames = FrameHistory()
        # Whether nothing newer than the newest has arrived since the connection began.
        self._reconnected = False
        self._rollback = Rollback(self._frames, not self._sender_mode)

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
        :returns: ns, or None if the frame cannot be stamped and must be dropped.
        """
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        # Arrivals stand for themselves, without a model of delays.
        self._processing = processing_ns if self._arrivals is None else 0
        if (sender_time_ns == self._frames.newest_ns
                and self._frames.stamp_ns <= host_arrival < LIMIT_NS
                and 0 <= arrival_ns < LIMIT_NS
                and self._rule.repeat(sender_time_ns, arrival_ns)):
            # Another body of the same frame, or a repeat.
            return self._frames.stamp_ns
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
                stamp = self._stamp_newer(
                    sender_time_ns, time_ns, arrival_ns, host_minus_arrival_clock_ns)
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
        if self._sender_mode or self._arrivals is not None or not (
                0 <= server_ns < LIMIT_NS and 0 <= sent_ns <= received_ns < LIMIT_NS):
            return
        self._two_way.add(sent_ns, server_ns, received_ns, self._rule.skew(),
                          self._rule.skew_deviation())
        if self._latency:
            self._shift += self._latency
            self._latency = 0

    def placed_ns(self, sender_time_ns: int) -> int:
        """Return a stamped frame's time by the sender's clock without its ticks and jitter."""
        at, known = self._frames.find(sender_time_ns)
        return self._frames.placed[at] if known else sender_time_ns

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        return self._epochs.take_events()

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        uncertainty_s = self._rule.uncertainty_s() + self._cadence.uncertainty_ns() * 1e-9
        if self._two_way.known:
            uncertainty_s += self._two_way.half_width_ns * 1e-9
        return uncertainty_s

    def status(self) -> ClockStatus:
        """Return the present state of the model."""
        frames, epochs, two_way, cadence = self._frames, self._epochs, self._two_way, self._cadence
        deviation, p99 = frames.jitter_s()
        return ClockStatus(
            mode=self._config.mode, epoch=epochs.number, learnt=self._rule.learnt,
            offset_ns=frames.stamp_ns - frames.placed[-1] if frames.times else 0,
            skew_ppm=self._rule.skew() * 1e6, uncertainty_s=self.uncertainty_s(),
            restarts=dict(epochs.restarts), samples=self._rule.samples, sender_base=epochs.base,
            jitter_std_s=deviation, jitter_p99_s=p99, refused=self._refused,
            network_delay_s=two_way.delay_ns * 1e-9 if two_way.known else math.nan,
            round_trip_s=two_way.round_trip_ns * 1e-9 if two_way.known else math.nan,
            sender_tick_s=cadence.tick_ns * 1e-9, sender_jitter_s=cadence.jitter_ns * 1e-9,
            smoothed=cadence.smoothing,
        )

    def reconnected(self) -> None:
        """Prepare for a new connection: the model is kept as long as the next frame fits it."""
        self._reconnected = True
        self._two_way.reset()
        # The next sender may answer no round trips.
        latency = round(self._config.latency_ms * 1e6)
        self._shift += self._latency - latency
        self._latency = latency
        self._rule.revalidate()
        if self._unusable:
            self._end_epoch(RECONNECTED, "the new connection's sender times may be usable")
            self._unusable = False

    # -- one frame -----------------------------------------------------------------------------

    def _stamp(self, sender_time_ns: int, arrival_ns: int, reading_ns: int) -> int | None:
        """Return the stamp of a frame whose times can be stamped."""
        frames, rollback = self._frames, self._rollback
        if self._unusable:
            sender_time_ns = max(arrival_ns, frames.newest_ns)
        if reading_ns != self._settled:
            self._read_host(arrival_ns, reading_ns)
        if sender_time_ns <= frames.newest_ns:
            return self._stamp_old(sender_time_ns, arrival_ns, arrival_ns + reading_ns)
        if rollback.begun and rollback.newer(sender_time_ns, arrival_ns):
            return self._restart(rollback.fell_ns, sender_time_ns, arrival_ns)
        time_ns = sender_time_ns
        # Times of exposure are exact, and round trips need the times as sent.
        if self._smooths and not self._processing and not self._two_way.known:
            cadence = self._cadence
            time_ns = cadence.place(sender_time_ns)
            if cadence.smoothing is not self._smoothing:
                self._smoothing = cadence.smoothing
                if cadence.smoothing:
                    # The minima so far are of times with ticks and jitter, or of another line.
                    self._rule.relearn()
                    if not self._reported:
                        self._reported = True
                        self._epochs.report('coarse_sender', *cadence.describe())
        return self._stamp_newer(sender_time_ns, time_ns, arrival_ns, reading_ns)

    def _stamp_newer(
        self, sender_time_ns: int, time_ns: int, arrival_ns: int, reading_ns: int,
    ) -> int | None:
        """Stamp a frame that is newer than the newest: place it, and learn from it."""
        frames, rule = self._frames, self._rule
        host_arrival = arrival_ns + reading_ns
        before = self._placed
        if time_ns <= before:
            time_ns = before + 1
        self._placed = time_ns
        placed = rule.place(time_ns, arrival_ns - self._processing)
        if rule.restarted or rule.learnt is not self._epochs.learnt:
            if self._follow_rule(time_ns, placed, host_arrival):
                return self._stamp(sender_time_ns, arrival_ns, reading_ns)
        stamp = placed - self._two_way.follow(time_ns, placed) + self._shift
        if not self._sender_mode:
            if stamp > host_arrival:
                stamp = host_arrival
            if stamp <= frames.last_ns:
                stamp = self._hold(stamp, time_ns - before, host_arrival)
        self._reconnected = False
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

    def _stamp_old(self, sender_time_ns: int, arrival_ns: int, host_arrival: int) -> int | None:
        """Stamp a frame that is not newer than the newest, or recognise a restart."""
        frames, rollback = self._frames, self._rollback
        at, known = frames.find(sender_time_ns)
        least = frames.stamps[at] if known else (frames.lasts[at - 1] if at else NEVER)
        if host_arrival < least and not self._sender_mode:
            if self._arrived_early(least - host_arrival, host_arrival - least):
                return self._stamp(sender_time_ns, arrival_ns, self._reading)
            host_arrival = least
        if rollback.older(sender_time_ns, arrival_ns, host_arrival, self._reconnected):
            return self._restart(rollback.fell_ns, sender_time_ns, arrival_ns)
        if ((sender_time_ns == frames.newest_ns or not known) and not rollback.steady
                and self._is_unusable(1)):
            return self._stamp(sender_time_ns, arrival_ns, self._reading)
        if known:
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

    # -- ends of epochs ------------------------------------------------------------------------

    def _restart(self, fell_ns: int, sender_time_ns: int, arrival_ns: int) -> int | None:
        """Start again with a frame of a sender whose time fell."""
        self._end_sender(arrival_ns + self._reading,
                         f'sender time went back by {fell_ns / 1e9:.3f} s', True)
        self._is_unusable(_ODD_RESTART)
        return self._stamp(sender_time_ns, arrival_ns, self._reading)

    def _end_sender(self, host_arrival: int, detail: str = '', fell: bool = False) -> None:
        """End the epoch, because the sender's clock has restarted."""
        # The frame was sent after the last one. Stamps that are arrivals do not tell when that
        # was sent; the first frames of a connection have been examined.
        dated = (self._arrivals is not None or self._reconnected
                 or host_arrival - self._frames.last_ns <= HELD_UP_NS)
        self._rule.start()
        self._two_way.restart()
        self._cadence.reset()
        self._placed = -1
        self._end_epoch(SENDER_RESTARTED, detail, fell, dated=dated)

    def _is_unusable(self, frames: int) -> bool:
        """
        Count frames out of order in mode ``arrival``; return whether they are too many.

        Each newer frame reduces the count by one, so that reordering and restarts do not reach
        the limit.
        """
        if self._arrivals is None or self._unusable:
            return False
        self._arrivals.odd += frames
        if self._arrivals.odd < _ODD_ENOUGH:
            return False
        self._unusable = True
        self._end_epoch(
            UNUSABLE, "the sender's times do not rise; from here on stamps are arrivals alone")
        return True

    def _end_epoch(
        self, reason: str, detail: str = '', fell: bool = False, step_ns: int | None = None,
        dated: bool = True,
    ) -> None:
        """
        Begin the next epoch.

        :param step_ns: the step of the clock of the stamps (ns): frames stay known and move with
            it. Without it, frames are forgotten.
        """
        self._epochs.end(reason, detail, fell, dated)
        if step_ns is None or self._unusable:
            self._frames.clear()
        else:
            self._frames.shift(step_ns)
        self._reconnected = False
        self._rollback.clear()
        if self._unusable:
            # Arrivals take the place of sender times, or no longer do.
            self._placed = -1

    # -- rule and clocks -----------------------------------------------------------------------

    def _follow_rule(self, time_ns: int, placed_ns: int, host_arrival: int) -> bool:
        """Report that the rule started again or has learnt; return whether the sender did."""
        rule, epochs = self._rule, self._epochs
        if rule.restarted:
            reason, rule.restarted = rule.restarted, ''
            # The raw clock of the arrivals is never set.
            if reason == SENDER_RESTARTED or (reason == HOST_STEPPED and self._reading):
                self._end_sender(host_arrival)
                return True
            self._end_epoch(reason)
        if epochs.learnt is None and not self._unusable and epochs.recognise_base(
                time_ns, host_arrival):
            self._set_slewable()
        if rule.learnt and not epochs.learnt:
            epochs.report('learnt', self._config.mode, self._learnt_text(placed_ns - time_ns))
        epochs.learnt = rule.learnt
        return False

    def _learnt_text(self, offset_ns: int) -> str:
        if self._sender_mode:
            return 'stamps are the times of the sender, unchanged'
        rule = self._rule
        if isinstance(rule, MinOffsetRule):
            offset_ns = rule.offset_ns
        offset_ns += self._shift - self._two_way.delay_ns
        text = f'stamps are sender time {offset_ns / 1e9:+.6f} s'
        if isinstance(rule, MinOffsetRule):
            return f'{text}, constant, the least of {self._config.offset_samples} messages'
        return (f'{text}, updated continuously; uncertainty '
                f'{rule.uncertainty_s() * 1e6:.0f} us')

    def _set_slewable(self) -> None:
        """
        Set which clocks may be slewed.

        A clock that counts from 1970 is set and disciplined. Other sender clocks, and the raw
        clock of the arrivals if there is one, are free-running oscillators.
        """
        self._rule.set_slewable(not self._reading or self._epochs.base != SENDER_START)

    def _read_host(self, arrival_ns: int, reading_ns: int) -> None:
        """Follow the host's clock."""
        if self._sender_mode:
            return
        host, frames = self._host, self._frames
        before = host.offset_ns
        if not -QUIET_NS <= reading_ns - before <= QUIET_NS and frames.times:
            # Since the last frame, readings changed nothing and were not followed.
            host.seen(frames.stamp_ns + frames.delays[-1] - self._reading)
        stepped = host.follow(arrival_ns, reading_ns)
        first = not self._reading
        self._reading = reading_ns
        if first:
            self._set_slewable()
        self._settled = reading_ns if host.settled else None
        self._shift = host.offset_ns - self._latency
        if stepped and frames.times:
            self._end_epoch(
                HOST_STEPPED, f'the host clock stepped by {(reading_ns - before) / 1e6:+.3f} ms',
                step_ns=host.offset_ns - before)


def _make_rule(config: StampConfig) -> Rule:
    if config.mode == 'tracking':
        return TrackingRule(config.max_gap_s)
    if config.mode == 'min_offset':
        return MinOffsetRule(config.offset_samples)
    return SenderRule()
