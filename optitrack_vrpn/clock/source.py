# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamps for the frames of one connection.

Promises, for every mode but ``sender``, whatever is fed in:

- no stamp is later than its arrival on the host's clock;
- within an epoch stamps rise with the sender's time: none goes backwards;
- equal sender times get equal stamps, for the last ``HISTORY`` distinct sender times at least;
  what is too old to be placed among them is refused; but not in mode ``arrival`` once the
  sender's times have shown to be worthless: then frames that arrive together share a stamp;
- a repeated or overtaken frame teaches nothing and gets what it would have got.

With a constant host offset they hold to the nanosecond. Where readings of the host's clock
differ, two frames that arrive together may be ordered by noise: then the stamp may exceed this
reading's arrival by up to ``READING_NOISE_NS``.
"""

from __future__ import annotations

from bisect import bisect_left
import math

from optitrack_vrpn.clock.cadence import Cadence
from optitrack_vrpn.clock.host import HostOffset, QUIET_NS
from optitrack_vrpn.clock.rollback import Run
from optitrack_vrpn.clock.rules import ArrivalRule, MinOffsetRule, Rule, SenderRule
from optitrack_vrpn.clock.tracking import TrackingRule
from optitrack_vrpn.clock.two_way import TwoWay
from optitrack_vrpn.clock.types import (
    ClockChange, ClockStatus, GAP, HOST_STEPPED, RECONNECTED, SENDER_RESTARTED, SENDER_START,
    StampConfig, UNIX_EPOCH, UNKNOWN_BASE, WORTHLESS,
)
from optitrack_vrpn.events import Event

HISTORY = 512
"""Distinct sender times whose stamps are remembered at least."""
LIMIT_NS = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) lie below."""
READING_NOISE_NS = 10_000
REORDERING_NS = 1_000_000_000
"""A frame that is this much older than the newest was not overtaken."""
_ODD_RESTART = 25
_ODD_ENOUGH = 500
_UNIX_NS = 1_000_000_000_000_000_000
_NEVER = -(1 << 70)
HELD_UP_NS = 250_000_000
"""What comes so long after its stamp was held up on its way."""
_MAX_EVENTS = 64


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    :param config: the settings.
    :ivar news: what happened since the last call of ``events``.
    """

    def __init__(self, config: StampConfig) -> None:
        self._config = config
        self._arrivals = ArrivalRule() if config.mode == 'arrival' else None
        self._rule = self._arrivals or _make_rule(config)
        # Whether the sender's times place no frame: they are the stamps, or are worthless.
        self._unplaced = config.mode == 'sender'
        self._latency = round(config.latency_ms * 1e6)
        # Ticks and jitter of the sender's clock, which other modes hand on.
        self._cadence = Cadence() if config.mode == 'tracking' else None
        self._told_cadence = False
        # The sender's time that comes in, and the newest that was stamped; which its stamp was.
        self._sent = -1
        self._stamped = -1
        self._stamped_as = _NEVER
        # The network's least delay, where the sender answers round trips.
        self._two_way = TwoWay()
        self._processing = 0
        self._host = HostOffset()
        self._reading = 0
        # The reading that has nothing new to say; None while any has.
        self._settled: int | None = 0
        self._shift = -self._latency
        self._epoch = 0
        self._restarts: dict[str, int] = {}
        self.news: list[Event] = []
        self._refused = 0
        self._base = UNKNOWN_BASE
        self._told_learnt: bool | None = None
        self._learnt_to = -1
        self._together = -1
        self._forget_frames()

    def _forget_frames(self) -> None:
        self._newest = self._stamped = -1
        self._last = _NEVER
        self._times: list[int] = []
        self._stamps: list[int] = []
        self._delays: list[int] = []
        # Whether nothing newer than the newest has come since the conversation began.
        self._reconnected = False
        self._trimmed = False
        self._run: Run | None = None

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
        self._processing = processing_ns
        if (sender_time_ns == self._stamped and self._stamped_as <= host_arrival < LIMIT_NS
                and 0 <= arrival_ns < LIMIT_NS
                and self._rule.repeat(sender_time_ns, arrival_ns)):
            # Another body of the same frame, or a repeat.
            return self._stamped_as
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self._refused += 1
            return None
        cadence = self._cadence
        if cadence is None or processing_ns or self._two_way.known:
            # Times of exposure are exact, and round trips use the times as they come.
            self._sent = -1
            return self._stamp(sender_time_ns, arrival_ns, host_minus_arrival_clock_ns)
        self._sent = sender_time_ns
        stamp = self._stamp(
            cadence.place(sender_time_ns), arrival_ns, host_minus_arrival_clock_ns)
        if sender_time_ns == cadence.newest_ns and stamp is not None:
            self._stamped, self._stamped_as = sender_time_ns, stamp
            if cadence.smoothing and not self._told_cadence:
                self._tell_cadence()
        return stamp

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
        :returns: when the frame was by the sender's clock, had it no ticks, and the stamp (ns);
            None while the frames' rate is not known, and in modes that do not look for it.
        """
        if (self._cadence is None or self._cadence.newest_ns != sender_time_ns
                or self._two_way.known):
            return None
        placed = self._cadence.place_further(nth)
        if placed is None:
            return None
        self._processing = 0
        self._sent = sender_time_ns
        stamp = self._stamp(placed, arrival_ns, host_minus_arrival_clock_ns)
        return None if stamp is None else (placed, stamp)

    @property
    def frame_interval_ns(self) -> float:
        """Time from frame to frame by the sender's clock (ns); 0 while it is not known."""
        return self._cadence.interval_ns if self._cadence is not None else 0.0

    def _stamp(
        self, sender_time_ns: int, arrival_ns: int, host_minus_arrival_clock_ns: int,
    ) -> int | None:
        """Return the stamp of a frame whose times can be stamped."""
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        if sender_time_ns == self._newest and self._last <= host_arrival:
            if self._rule.repeat(sender_time_ns, arrival_ns):
                return self._last
        if self._unplaced:
            if self._arrivals is None:
                return self._hand_through(sender_time_ns, arrival_ns, host_arrival)
            return self._stamp_arrival(sender_time_ns, arrival_ns, host_minus_arrival_clock_ns)
        if host_minus_arrival_clock_ns != self._settled:
            self._read_host(arrival_ns, host_minus_arrival_clock_ns)
        if sender_time_ns <= self._newest:
            return self._stamp_old(sender_time_ns, arrival_ns, host_arrival)
        if self._run is not None and self._went_past(sender_time_ns, arrival_ns):
            return self._fell(self._run.fell_ns, sender_time_ns, arrival_ns)
        if sender_time_ns > self._learnt_to:
            placed = self._place(sender_time_ns, arrival_ns)
            self._learnt_to = sender_time_ns
            if self._rule.restarted or self._rule.learnt is not self._told_learnt:
                self._take_news(sender_time_ns, host_arrival)
        elif self._learnt_to - sender_time_ns > REORDERING_NS:
            # Its time fell together with a step of the host's clock, which forgot the frames.
            return self._fell(self._learnt_to - sender_time_ns, sender_time_ns, arrival_ns)
        else:
            placed = self._read(sender_time_ns, arrival_ns)
        stamp = placed + self._shift
        last = self._last
        if stamp > host_arrival:
            stamp = host_arrival
        if stamp <= last:
            stamp = self._hold(stamp, sender_time_ns, host_arrival)
        self._newest = sender_time_ns
        self._reconnected = False
        self._last = stamp
        self._times.append(sender_time_ns)
        self._stamps.append(stamp)
        self._delays.append(host_arrival - stamp)
        if len(self._times) >= 2 * HISTORY:
            self._trim()
        return stamp

    def _place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Learn from a frame, and give its place less what is known of the delays."""
        if self._arrivals is not None:
            return self._rule.place(sender_time_ns, arrival_ns)
        placed = self._rule.place(sender_time_ns, arrival_ns - self._processing)
        if self._rule.restarted == SENDER_RESTARTED:
            self._two_way.restart()
        return placed - self._two_way.follow(sender_time_ns, placed)

    def _read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Give a frame's place without learning."""
        if self._arrivals is not None:
            return self._rule.read(sender_time_ns, arrival_ns)
        return (self._rule.read(sender_time_ns, arrival_ns - self._processing)
                - self._two_way.delay_ns)

    def echo(self, sent_ns: int, server_ns: int, received_ns: int) -> None:
        """
        Take a round trip to the sender's clock; the least delay of the network follows from it.

        ``latency_ms``, which stands for that delay and the sender's own, is not taken off then.

        :param sent_ns: arrival clock when the request left.
        :param server_ns: the sender's clock when it arrived there (ns).
        :param received_ns: arrival clock when the answer arrived.
        """
        if self._unplaced or self._arrivals is not None or not (
                0 <= server_ns < LIMIT_NS and 0 <= sent_ns <= received_ns < LIMIT_NS):
            return
        self._two_way.add(sent_ns, server_ns, received_ns, self._rule.skew(),
                          self._rule.skew_deviation())
        if self._latency:
            self._shift += self._latency
            self._latency = 0

    def _hand_through(self, sender_time_ns: int, arrival_ns: int, host_arrival: int) -> int:
        """Return the sender's time, and count its restarts."""
        if sender_time_ns < self._newest:
            at = bisect_left(self._times, sender_time_ns)
            known = self._times[at] == sender_time_ns
            came = self._times[at] + self._delays[at] if at or known else _NEVER
            if self._went_back(sender_time_ns, arrival_ns, host_arrival, came):
                self._end_fallen(self._fallen(sender_time_ns))
        elif self._run is not None and self._went_past(sender_time_ns, arrival_ns):
            self._end_fallen(self._run.fell_ns)
        if sender_time_ns > self._newest:
            self._newest = self._last = self._rule.place(sender_time_ns, host_arrival)
            self._reconnected = False
            self._times.append(sender_time_ns)
            self._delays.append(host_arrival - sender_time_ns)
            if self._told_learnt is None:
                self._take_news(sender_time_ns, host_arrival)
            if len(self._times) >= 2 * HISTORY:
                self._trim()
        return sender_time_ns

    def _stamp_arrival(self, sender_time_ns: int, arrival_ns: int, reading_ns: int) -> int:
        """Stamp a frame whose sender's time is worthless: by its arrival, and nothing else."""
        if arrival_ns == self._together and reading_ns == self._reading and self._times:
            return self._last
        if reading_ns != self._settled:
            self._read_host(arrival_ns, reading_ns)
        self._together = arrival_ns
        host_arrival = arrival_ns + reading_ns
        if self._last - host_arrival > READING_NOISE_NS:
            self._end_epoch(HOST_STEPPED, 'a frame arrived before the stamp of the one before it')
        self._last = max(min(arrival_ns + self._shift, host_arrival), self._last)
        self._times.append(sender_time_ns)
        self._stamps.append(self._last)
        self._delays.append(host_arrival - self._last)
        if len(self._times) >= 2 * HISTORY:
            self._trim()
        return self._last

    def events(self) -> list[Event]:
        """Return what happened since the last call."""
        events, self.news = self.news, []
        return events

    def uncertainty_s(self) -> float:
        """Return the half-width in which a stamp's error lies nearly always; NaN if unknown."""
        uncertainty_s = self._rule.uncertainty_s()
        if self._cadence is not None:
            uncertainty_s += self._cadence.doubt_ns() * 1e-9
        if self._two_way.known:
            uncertainty_s += self._two_way.half_width_ns * 1e-9
        return uncertainty_s

    def status(self) -> ClockStatus:
        """Return what is known now."""
        std, p99 = _spread(self._delays)
        two_way, cadence = self._two_way, self._cadence
        return ClockStatus(
            mode=self._config.mode, epoch=self._epoch, learnt=self._rule.learnt,
            offset_ns=self._last - self._times[-1] if self._times else 0,
            skew_ppm=self._rule.skew() * 1e6, uncertainty_s=self.uncertainty_s(),
            restarts=dict(self._restarts), samples=self._rule.samples, sender_base=self._base,
            jitter_std_s=std, jitter_p99_s=p99, refused=self._refused,
            network_delay_s=two_way.delay_ns * 1e-9 if two_way.known else math.nan,
            round_trip_s=two_way.round_trip_ns * 1e-9 if two_way.known else math.nan,
            sender_tick_s=cadence.tick_ns * 1e-9 if cadence is not None else 0.0,
            sender_jitter_s=cadence.jitter_ns * 1e-9 if cadence is not None else math.nan,
            smoothed=cadence is not None and cadence.smoothing,
        )

    def reset(self, reason: str) -> None:
        """
        Take note of a change known from outside.

        :param reason: ``reconnected`` keeps what was learnt as long as the next frame fits to
            it; any other reason drops it and ends the epoch.
        """
        if reason == RECONNECTED:
            self._reconnected = True
            self._two_way.reset()
            self._restore_latency()
            self._rule.revalidate()
            if self._arrivals is not None and self._unplaced:
                self._unplaced = False
                self._end_epoch(reason, "the new conversation's sender times may be of use")
            return
        self._rule.start(False)
        if self._cadence is not None:
            self._cadence.reset(True)
        self._learnt_to = -1
        self._end_epoch(reason, 'as the caller asked')

    def _restore_latency(self) -> None:
        """Take the configured latency off again: the next sender may answer no round trips."""
        latency = round(self._config.latency_ms * 1e6)
        self._shift += self._latency - latency
        self._latency = latency

    def _read_host(self, arrival_ns: int, reading_ns: int) -> None:
        host = self._host
        before = host.offset_ns
        if not -QUIET_NS <= reading_ns - before <= QUIET_NS and self._times:
            # Readings that said nothing new were not followed.
            host.seen(self._last + self._delays[-1] - self._reading)
        stepped = host.follow(arrival_ns, reading_ns)
        if not self._reading:
            self._reading = reading_ns
            self._see_clocks()
        self._reading = reading_ns
        self._settled = reading_ns if host.settled else None
        self._shift = host.offset_ns - self._latency
        if stepped and self._times:
            self._end_epoch(
                HOST_STEPPED, f'the host clock stepped by {(reading_ns - before) / 1e6:+.3f} ms')

    def _hold(self, stamp: int, sender_time_ns: int, host_arrival: int) -> int:
        """Return a stamp that does not go backwards, or end the epoch if none can be found."""
        last = self._last
        if host_arrival < last:
            if self._reading and last - host_arrival <= READING_NOISE_NS:
                return last
            self._end_epoch(
                HOST_STEPPED, f'a frame arrived {(last - host_arrival) / 1e6:.3f} ms before the '
                'stamp of the one before it')
            return stamp
        # The line has come down. Stamps go on at an eighth of the pace until it is met, so that
        # no two frames share one.
        return min(host_arrival, max(stamp, last + (sender_time_ns - self._newest >> 3)))

    def _stamp_old(self, sender_time_ns: int, arrival_ns: int, host_arrival: int) -> int | None:
        """Stamp a frame that is not newer than the newest, and tell a restart from reordering."""
        times, stamps = self._times, self._stamps
        at = bisect_left(times, sender_time_ns)
        known = times[at] == sender_time_ns
        placed = self._read(sender_time_ns, arrival_ns)
        floor = stamps[at] if known else (stamps[at - 1] if at else _NEVER)
        if host_arrival < floor:
            if not self._reading or floor - host_arrival > READING_NOISE_NS:
                self._end_epoch(
                    HOST_STEPPED, f'a frame arrived {(floor - host_arrival) / 1e6:.3f} ms before '
                    'the stamp of an older one')
                return self._stamp(sender_time_ns, arrival_ns, self._reading)
            host_arrival = floor
        held_up = self._delays[at] > HELD_UP_NS
        came = stamps[at] + self._delays[at] if at or known or held_up else _NEVER
        if self._went_back(sender_time_ns, arrival_ns, host_arrival, came):
            return self._fell(self._fallen(sender_time_ns), sender_time_ns, arrival_ns)
        if (self._arrivals is not None and (sender_time_ns == self._newest or not known)
                and self._run is not None and not self._run.steady and self._is_worthless(1)):
            return self._stamp_arrival(sender_time_ns, arrival_ns, self._reading)
        if known:
            return stamps[at]
        if at == 0 and self._trimmed:
            self._refused += 1
            return None
        stamp = min(max(placed + self._shift, floor), stamps[at], host_arrival)
        times.insert(at, sender_time_ns)
        stamps.insert(at, stamp)
        self._delays.insert(at, host_arrival - stamp)
        if len(times) >= 2 * HISTORY:
            self._trim()
        return stamp

    def _went_back(
        self, sender_time_ns: int, arrival_ns: int, host_arrival: int, came: int,
    ) -> bool:
        """
        Tell whether an old sender time means that the sender began anew.

        :param came: when, on the host's clock, the frame came that was sent with it or next
            after it (ns); long ago where it is older than all that is remembered and came in time.
        """
        # Nothing is proved by an old frame, however late, while the newest is as late: both were
        # held up. Only the pace tells then.
        # Nor is it where those sent with it came just now: it was repeated, or overtaken by them.
        if (self._newest - sender_time_ns > REORDERING_NS
                and (self._reconnected or host_arrival - came > REORDERING_NS)
                and (self._unplaced or self._delays[-1] < REORDERING_NS)):
            return True
        fell = None
        if self._run is not None:
            fell = self._run.older(self._newest, sender_time_ns, arrival_ns)
        if fell is None:
            waited = host_arrival - self._last - self._delays[-1]
            self._run = Run(self._newest, sender_time_ns, arrival_ns, waited)
        return fell is True

    def _went_past(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Tell whether frames that went on from below the newest have gone on past it."""
        if self._run is None:
            return False
        fell = self._run.newer(sender_time_ns, arrival_ns)
        if fell is None:
            self._run = None
        return fell is True

    def _fallen(self, sender_time_ns: int) -> int:
        """Return how far the sender's time fell."""
        begun = 0 if self._run is None else self._run.fell_ns
        return max(self._newest - sender_time_ns, begun)

    def _fell(self, by_ns: int, sender_time_ns: int, arrival_ns: int) -> int | None:
        """Begin anew with a frame of a sender whose time fell."""
        self._end_fallen(by_ns)
        if self._cadence is not None and self._sent >= 0:
            sender_time_ns = self._cadence.place(self._sent)
        if self._arrivals is not None and self._is_worthless(_ODD_RESTART):
            return self._stamp_arrival(sender_time_ns, arrival_ns, self._reading)
        return self._stamp(sender_time_ns, arrival_ns, self._reading)

    def _end_fallen(self, by_ns: int) -> None:
        self._rule.start(True)
        self._two_way.restart()
        if self._cadence is not None:
            self._cadence.reset(True)
        self._learnt_to = -1
        self._end_epoch(
            SENDER_RESTARTED, f'sender time went back by {by_ns / 1e9:.3f} s', fell=True)

    def _is_worthless(self, oddity: int) -> bool:
        """
        Count frames that no working clock sends, in mode ``arrival``; tell when they are too many.

        Every newer frame takes one off: neither a network that overtakes nor a restart comes
        near.
        """
        if self._arrivals is None:
            return False
        self._arrivals.odd += oddity
        if self._arrivals.odd < _ODD_ENOUGH:
            return False
        self._unplaced = True
        self._end_epoch(
            WORTHLESS, "the sender's times do not rise; from here on arrivals alone give stamps")
        return True

    def _trim(self) -> None:
        del self._times[:HISTORY], self._stamps[:HISTORY], self._delays[:HISTORY]
        self._trimmed = True

    def _take_news(self, sender_time_ns: int, host_arrival: int) -> None:
        rule = self._rule
        if rule.restarted:
            reason, rule.restarted = rule.restarted, ''
            if self._cadence is not None and reason == SENDER_RESTARTED:
                self._cadence.reset(False)
            if reason == HOST_STEPPED and self._reading:
                # Arrivals run on a clock of their own, which nobody sets.
                reason = SENDER_RESTARTED
            self._end_epoch(reason, _RESTART_TEXTS.get(reason, reason))
            self._learnt_to = sender_time_ns
        if self._told_learnt is None:
            self._recognise(sender_time_ns, host_arrival)
        if rule.learnt and not self._told_learnt:
            self._told_learnt = True
            self._tell('learnt', self._config.mode, self._learnt_text(sender_time_ns))
        elif not rule.learnt:
            self._told_learnt = False

    def _see_clocks(self) -> None:
        """
        Tell the rule which clocks may be slewed.

        Times since 1970 come from a clock that is set; others, and arrivals that the host's clock
        is read against, from bare oscillators.
        """
        self._rule.set_slewable(not self._reading or self._base != SENDER_START)

    def _learnt_text(self, sender_time_ns: int) -> str:
        rule = self._rule
        if self._config.mode == 'sender':
            return 'stamps are the times of the sender, as they come'
        offset = self._read(sender_time_ns, LIMIT_NS) + self._shift - sender_time_ns
        text = f'stamps are sender time {offset / 1e9:+.6f} s'
        if self._config.mode == 'min_offset':
            return f'{text} for good, the least of {self._config.offset_samples} messages'
        return f'{text}, followed from now on, known to {rule.uncertainty_s() * 1e6:.0f} us'

    def _tell_cadence(self) -> None:
        """Say once that the sender's clock is coarse."""
        assert self._cadence is not None
        self._told_cadence = True
        cadence = self._cadence
        what = f'ticks of {cadence.tick_ns / 1e6:.3g} ms' if cadence.tick_ns else (
            f'jitter of {cadence.jitter_ns / 1e3:.0f} us')
        self._tell('coarse_sender', 'ticks' if cadence.tick_ns else 'jitter', (
            f"the sender's times have {what} about a steady rate of "
            f'{1e9 / cadence.interval_ns:.2f} Hz; stamps follow that rate'))

    def _recognise(self, sender_time_ns: int, host_arrival: int) -> None:
        if sender_time_ns >= _UNIX_NS:
            base = UNIX_EPOCH
            ahead = (sender_time_ns - host_arrival) / 1e9
            text = f'sender times count from the Unix epoch, {ahead:+.3f} s from this host'
        else:
            base = SENDER_START
            text = f'sender times count from its start, {sender_time_ns / 1e9:.3f} s ago'
        if base != self._base:
            self._base = base
            self._see_clocks()
            self._tell('base_recognised', base, text)

    def _end_epoch(self, reason: str, detail: str, fell: bool = False) -> None:
        self._epoch += 1
        self._restarts[reason] = self._restarts.get(reason, 0) + 1
        self._tell('epoch_ended', reason, f'stamp epoch {self._epoch} begins: {detail}', fell)
        self._told_learnt = None if reason != HOST_STEPPED else self._told_learnt
        self._forget_frames()

    def _tell(self, kind: str, reason: str, text: str, fell: bool = False) -> None:
        if len(self.news) < _MAX_EVENTS:
            self.news.append(Event(
                'warn' if kind == 'epoch_ended' else 'info', ('clock', text), text,
                ClockChange(kind, reason, self._epoch, fell)))


_RESTART_TEXTS = {
    SENDER_RESTARTED: 'the sender restarted or its clock stepped',
    HOST_STEPPED: 'the clock of the arrivals stepped',
    GAP: 'no frame for too long',
}


def _make_rule(config: StampConfig) -> Rule:
    if config.mode == 'tracking':
        return TrackingRule(config.max_gap_s)
    if config.mode == 'min_offset':
        return MinOffsetRule(config.offset_samples)
    return SenderRule()


def _spread(delays: list[int]) -> tuple[float, float]:
    """Return standard deviation and 99th percentile in seconds; NaN of nothing."""
    if not delays:
        return math.nan, math.nan
    ordered = sorted(delays)
    mean = sum(ordered) / len(ordered)
    std = math.sqrt(sum((x - mean) ** 2 for x in ordered) / len(ordered))
    return std / 1e9, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1e9
