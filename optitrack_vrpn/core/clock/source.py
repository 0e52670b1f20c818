# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamps for the frames of one connection.

Promises, for every mode but ``sender``, whatever is fed in:

- no stamp is later than its arrival on the host's clock;
- within an epoch stamps rise with the sender's time: none goes backwards;
- equal sender times get equal stamps, for the last ``HISTORY`` distinct sender times at least;
  what is too old to be placed among them is refused;
- a repeated or overtaken frame teaches nothing and gets what it would have got.

With a constant host offset they hold to the nanosecond. Where readings of the host's clock
differ, two frames that arrive together may be ordered by noise: then the stamp may exceed this
reading's arrival by up to ``READING_NOISE_NS``.
"""

from __future__ import annotations

from bisect import bisect_left
import math

from optitrack_vrpn.core.clock.host import HostOffset
from optitrack_vrpn.core.clock.rules import ArrivalRule, MinOffsetRule, Rule, SenderRule
from optitrack_vrpn.core.clock.tracking import TrackingRule
from optitrack_vrpn.core.clock.types import (
    ClockEvent, ClockStatus, GAP, HOST_STEPPED, RECONNECTED, SENDER_RESTARTED, SENDER_START,
    StampConfig, UNIX_EPOCH, UNKNOWN_BASE,
)

HISTORY = 512
"""Distinct sender times whose stamps are remembered at least."""
LIMIT_NS = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) lie below."""
READING_NOISE_NS = 10_000
REORDERING_NS = 1_000_000_000
"""A frame that is this much older than the newest, or this late, was not overtaken."""
_RUN_NS = 200_000_000
_UNIX_NS = 1_000_000_000_000_000_000
_NEVER = -(1 << 70)
_MAX_EVENTS = 64


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    :param config: the settings.
    """

    def __init__(self, config: StampConfig) -> None:
        self._config = config
        self._rule = _make_rule(config)
        self._sender_mode = config.mode == 'sender'
        self._latency = round(config.latency_ms * 1e6)
        self._host = HostOffset()
        self._reading = 0
        # The reading that has nothing new to say; None while any has.
        self._settled: int | None = 0
        self._shift = -self._latency
        self._epoch = 0
        self._restarts: dict[str, int] = {}
        self._events: list[ClockEvent] = []
        self._refused = 0
        self._base = UNKNOWN_BASE
        self._told_learnt: bool | None = None
        self._learnt_to = -1
        self._last_arrival = 0
        self._forget_frames()

    def _forget_frames(self) -> None:
        self._newest = -1
        self._last = _NEVER
        self._times: list[int] = []
        self._stamps: list[int] = []
        self._delays: list[int] = []
        self._trimmed = False
        self._run_newest = -1
        self._run_from = 0
        self._run_top = 0

    def stamp(
        self, sender_time_ns: int, arrival_ns: int, host_minus_arrival_clock_ns: int = 0,
    ) -> int | None:
        """
        Return the frame's stamp on the host's clock.

        :param sender_time_ns: the sender's time of the frame (ns, its own zero).
        :param arrival_ns: arrival on the arrival clock (ns).
        :param host_minus_arrival_clock_ns: host clock minus arrival clock, read at arrival (ns).
        :returns: ns, or None if the frame cannot be stamped and must be dropped.
        """
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        if (sender_time_ns == self._newest and self._last <= host_arrival < LIMIT_NS
                and 0 <= arrival_ns < LIMIT_NS):
            # Another body of the same frame, or a repeat.
            self._rule.repeat(sender_time_ns, arrival_ns)
            return self._last
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self._refused += 1
            return None
        if self._sender_mode:
            return self._hand_through(sender_time_ns, host_arrival)
        if host_minus_arrival_clock_ns != self._settled:
            self._read_host(arrival_ns, host_minus_arrival_clock_ns)
        if sender_time_ns <= self._newest:
            return self._stamp_old(sender_time_ns, arrival_ns, host_arrival)
        if sender_time_ns > self._learnt_to:
            placed = self._rule.place(sender_time_ns, arrival_ns)
            self._learnt_to = sender_time_ns
            if self._rule.restarted or self._rule.learnt is not self._told_learnt:
                self._take_news(sender_time_ns, host_arrival)
        else:
            placed = self._rule.read(sender_time_ns, arrival_ns)
        stamp = placed + self._shift
        last = self._last
        if stamp > host_arrival:
            stamp = host_arrival
        if stamp <= last:
            stamp = self._hold(stamp, sender_time_ns, host_arrival)
        self._newest = sender_time_ns
        self._last = stamp
        self._times.append(sender_time_ns)
        self._stamps.append(stamp)
        self._delays.append(host_arrival - stamp)
        if len(self._times) >= 2 * HISTORY:
            self._trim()
        return stamp

    def _hand_through(self, sender_time_ns: int, host_arrival: int) -> int:
        """Return the sender's time, and count its restarts."""
        back = self._newest - sender_time_ns
        if back > REORDERING_NS:
            self._rule.start(False)
            self._end_epoch(SENDER_RESTARTED, f'sender time went back by {back / 1e9:.3f} s')
        if sender_time_ns > self._newest:
            self._newest = self._last = self._rule.place(sender_time_ns, host_arrival)
            self._times.append(sender_time_ns)
            self._delays.append(host_arrival - sender_time_ns)
            if self._told_learnt is None:
                self._take_news(sender_time_ns, host_arrival)
            if len(self._times) >= 2 * HISTORY:
                self._trim()
        return sender_time_ns

    def events(self) -> list[ClockEvent]:
        """Return what happened since the last call."""
        events, self._events = self._events, []
        return events

    def status(self) -> ClockStatus:
        """Return what is known now."""
        std, p99 = _spread(self._delays)
        return ClockStatus(
            mode=self._config.mode, epoch=self._epoch, learnt=self._rule.learnt,
            offset_ns=self._last - self._newest if self._times else 0,
            skew_ppm=self._rule.skew() * 1e6, uncertainty_s=self._rule.uncertainty_s(),
            restarts=dict(self._restarts), samples=self._rule.samples, sender_base=self._base,
            jitter_std_s=std, jitter_p99_s=p99, refused=self._refused,
        )

    def reset(self, reason: str) -> None:
        """
        Take note of a change known from outside.

        :param reason: ``reconnected`` keeps what was learnt as long as the next frame fits to
            it; any other reason drops it and ends the epoch.
        """
        if reason == RECONNECTED:
            self._rule.doubt()
            return
        self._rule.start(False)
        self._learnt_to = -1
        self._end_epoch(reason, 'as told from outside')

    def _read_host(self, arrival_ns: int, reading_ns: int) -> None:
        before = self._host.offset_ns
        # Readings that said nothing new were not followed.
        seen = self._last + self._delays[-1] - self._reading if self._times else None
        stepped = self._host.follow(arrival_ns, reading_ns, seen)
        self._reading = reading_ns
        self._settled = reading_ns if self._host.settled else None
        self._shift = self._host.offset_ns - self._latency
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
        placed = self._rule.read(sender_time_ns, arrival_ns)
        floor = stamps[at] if known else (stamps[at - 1] if at else _NEVER)
        if host_arrival < floor:
            if not self._reading or floor - host_arrival > READING_NOISE_NS:
                self._end_epoch(
                    HOST_STEPPED, f'a frame arrived {(floor - host_arrival) / 1e6:.3f} ms before '
                    'the stamp of an older one')
                return self.stamp(sender_time_ns, arrival_ns, self._reading)
            host_arrival = floor
        if self._went_back(known, sender_time_ns, arrival_ns, placed):
            back = (self._newest - sender_time_ns) / 1e9
            self._rule.start(True)
            self._learnt_to = -1
            self._end_epoch(SENDER_RESTARTED, f'sender time went back by {back:.3f} s')
            return self.stamp(sender_time_ns, arrival_ns, self._reading)
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
        self, known: bool, sender_time_ns: int, arrival_ns: int, placed: int,
    ) -> bool:
        """Tell whether an old sender time means that the sender began anew."""
        if self._newest - sender_time_ns > REORDERING_NS:
            return True
        if arrival_ns - placed > REORDERING_NS and not known:
            return True
        # Repeated and overtaken frames come among newer ones; a sender whose clock went back by
        # less than a second goes on below the newest at its own pace.
        if self._run_newest != self._newest:
            self._run_newest, self._run_from = self._newest, arrival_ns
            self._run_top = sender_time_ns
        elif sender_time_ns > self._run_top:
            self._run_top = sender_time_ns
            return arrival_ns - self._run_from > _RUN_NS
        return False

    def _trim(self) -> None:
        del self._times[:HISTORY], self._stamps[:HISTORY], self._delays[:HISTORY]
        self._trimmed = True

    def _take_news(self, sender_time_ns: int, host_arrival: int) -> None:
        rule = self._rule
        if rule.restarted:
            reason, rule.restarted = rule.restarted, ''
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

    def _learnt_text(self, sender_time_ns: int) -> str:
        rule = self._rule
        if self._config.mode == 'sender':
            return 'stamps are the times of the sender, as they come'
        offset = rule.read(sender_time_ns, LIMIT_NS) + self._shift - sender_time_ns
        text = f'stamps are sender time {offset / 1e9:+.6f} s'
        if self._config.mode == 'min_offset':
            return f'{text} for good, the least of {self._config.offset_samples} messages'
        return f'{text}, followed from now on, known to {rule.uncertainty_s() * 1e6:.0f} us'

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
            self._tell('base_recognised', base, text)

    def _end_epoch(self, reason: str, detail: str) -> None:
        self._epoch += 1
        self._restarts[reason] = self._restarts.get(reason, 0) + 1
        self._tell('epoch_ended', reason, f'stamp epoch {self._epoch} begins: {detail}')
        self._told_learnt = None if reason != HOST_STEPPED else self._told_learnt
        self._forget_frames()

    def _tell(self, kind: str, reason: str, text: str) -> None:
        if len(self._events) < _MAX_EVENTS:
            self._events.append(ClockEvent(kind, reason, self._epoch, text))


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
    return SenderRule() if config.mode == 'sender' else ArrivalRule()


def _spread(delays: list[int]) -> tuple[float, float]:
    """Return standard deviation and 99th percentile in seconds; NaN of nothing."""
    if not delays:
        return math.nan, math.nan
    ordered = sorted(delays)
    mean = sum(ordered) / len(ordered)
    std = math.sqrt(sum((x - mean) ** 2 for x in ordered) / len(ordered))
    return std / 1e9, ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1e9
