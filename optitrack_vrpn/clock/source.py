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
from optitrack_vrpn.clock.rollback import RollbackCandidate
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
REORDERING_NS: Final = 1_000_000_000
"""A frame that is older than the newest by more was not overtaken. Chosen: no network reorders for
so long; half of it takes WiFi stalls for restarts, twice as much finds a restart by this rule only
if it sets the clock back by 2 s."""
HELD_UP_NS = 250_000_000
"""A frame that arrives later after its stamp was delayed, so its arrival does not date its sender
time. Chosen: above the delays of WiFi; half of it or twice as much matters for the first frame of
a backlog alone."""
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
        self._cadence = Cadence() if config.mode == 'tracking' else None
        self._cadence_reported = False
        # Sender time of the present frame as received, -1 if the cadence does not see it; newest
        # sender time as received, and its stamp.
        self._sent = self._newest_sent = -1
        self._newest_stamp = NEVER
        # The network's least delay, where the sender answers round trips.
        self._two_way = TwoWay()
        self._processing = 0
        self._host = HostOffset()
        self._reading = 0
        # The reading that would change nothing; None while every reading is followed.
        self._settled: int | None = 0
        self._shift = -self._latency
        self._epochs = Epochs()
        self.pending_events = self._epochs.events
        self._refused = 0
        # Newest sender time that the rule has learnt from.
        self._learnt_to = -1
        self._frames = FrameHistory()
        # Whether nothing newer than the newest has arrived since the connection began.
        self._reconnected = False
        self._rollback: RollbackCandidate | None = None

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
        if (sender_time_ns == self._newest_sent and self._newest_stamp <= host_arrival < LIMIT_NS
                and 0 <= arrival_ns < LIMIT_NS
                and self._rule.repeat(sender_time_ns, arrival_ns)):
            # Another body of the same frame, or a repeat.
            return self._newest_stamp
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self._refused += 1
            return None
        cadence = self._cadence
        if cadence is None or processing_ns or self._two_way.known:
            # Times of exposure are exact, and round trips need the times as sent.
            self._sent = -1
            time_ns = sender_time_ns
        else:
            self._sent = sender_time_ns
            time_ns = cadence.place(sender_time_ns)
            if cadence.smoothing and not self._cadence_reported:
                # The minima so far are those of times with ticks and jitter.
                self._rule.relearn()
                self._report_cadence(cadence)
        stamp = self._stamp(time_ns, arrival_ns, host_minus_arrival_clock_ns)
        if time_ns == self._frames.newest_ns and stamp is not None and not self._unusable:
            self._newest_sent, self._newest_stamp = sender_time_ns, stamp
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
        :returns: the frame's time by the sender's clock without its ticks, and the stamp (ns);
            None while the frames' rate is not known, and in modes that do not measure it.
        """
        if (self._cadence is None or self._cadence.newest_ns != sender_time_ns
                or self._two_way.known):
            return None
        time_ns = self._cadence.place_further(nth)
        if time_ns is None:
            return None
        self._processing = 0
        self._sent = sender_time_ns
        stamp = self._stamp(time_ns, arrival_ns, host_minus_arrival_clock_ns)
        return None if stamp is None else (time_ns, stamp)

    @property
    def frame_interval_ns(self) -> float:
        """Time from frame to frame by the sender's clock (ns); 0 while it is not known."""
        return self._cadence.interval_ns if self._cadence is not None else 0.0

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

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        return self._epochs.take_events()

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        uncertainty_s = self._rule.uncertainty_s()
        if self._cadence is not None:
            uncertainty_s += self._cadence.uncertainty_ns() * 1e-9
        if self._two_way.known:
            uncertainty_s += self._two_way.half_width_ns * 1e-9
        return uncertainty_s

    def status(self) -> ClockStatus:
        """Return the present state of the model."""
        frames, epochs, two_way, cadence = self._frames, self._epochs, self._two_way, self._cadence
        deviation, p99 = frames.jitter_s()
        return ClockStatus(
            mode=self._config.mode, epoch=epochs.number, learnt=self._rule.learnt,
            offset_ns=frames.last_ns - frames.newest_ns if frames.times else 0,
            skew_ppm=self._rule.skew() * 1e6, uncertainty_s=self.uncertainty_s(),
            restarts=dict(epochs.restarts), samples=self._rule.samples, sender_base=epochs.base,
            jitter_std_s=deviation, jitter_p99_s=p99, refused=self._refused,
            network_delay_s=two_way.delay_ns * 1e-9 if two_way.known else math.nan,
            round_trip_s=two_way.round_trip_ns * 1e-9 if two_way.known else math.nan,
            sender_tick_s=cadence.tick_ns * 1e-9 if cadence is not None else 0.0,
            sender_jitter_s=cadence.jitter_ns * 1e-9 if cadence is not None else math.nan,
            smoothed=cadence is not None and cadence.smoothing,
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
            self._unusable = False
            self._learnt_to = -1
            self._end_epoch(RECONNECTED, "the new connection's sender times may be usable")

    # -- one frame -----------------------------------------------------------------------------

    def _stamp(self, sender_time_ns: int, arrival_ns: int, reading_ns: int) -> int | None:
        """Return the stamp of a frame whose times can be stamped."""
        frames = self._frames
        host_arrival = arrival_ns + reading_ns
        if self._sender_mode:
            return self._pass_on(sender_time_ns, arrival_ns, host_arrival)
        if self._unusable:
            if frames.last_ns - host_arrival > READING_NOISE_NS:
                self._end_epoch(
                    HOST_STEPPED, 'a frame arrived before the stamp of the one before it')
            sender_time_ns = max(arrival_ns, frames.newest_ns)
        if reading_ns != self._settled:
            self._read_host(arrival_ns, reading_ns)
        if sender_time_ns <= frames.newest_ns:
            return self._stamp_old(sender_time_ns, arrival_ns, host_arrival)
        if self._rollback is not None and self._passed_newest(sender_time_ns, arrival_ns):
            return self._restart(self._rollback.fell_ns, sender_time_ns, arrival_ns)
        if sender_time_ns > self._learnt_to:
            placed = self._place(sender_time_ns, arrival_ns)
            self._learnt_to = sender_time_ns
            if self._rule.restarted or self._rule.learnt is not self._epochs.learnt:
                self._follow_rule(sender_time_ns, host_arrival)
        elif self._learnt_to - sender_time_ns > REORDERING_NS:
            # The sender's time fell together with a step of the host's clock, after which the
            # frames before it are no longer remembered.
            return self._restart(self._learnt_to - sender_time_ns, sender_time_ns, arrival_ns)
        else:
            placed = self._read(sender_time_ns, arrival_ns)
        stamp = placed + self._shift
        if stamp > host_arrival:
            stamp = host_arrival
        if stamp <= frames.last_ns:
            stamp = self._hold(stamp, sender_time_ns, host_arrival)
        self._reconnected = False
        frames.append(sender_time_ns, stamp, host_arrival)
        return stamp

    def _place(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Learn from a frame; return its place on the arrival clock without the known delays."""
        if self._arrivals is not None:
            return self._rule.place(sender_time_ns, arrival_ns)
        placed = self._rule.place(sender_time_ns, arrival_ns - self._processing)
        if self._rule.restarted == SENDER_RESTARTED:
            self._two_way.restart()
        return placed - self._two_way.follow(sender_time_ns, placed)

    def _read(self, sender_time_ns: int, arrival_ns: int) -> int:
        """Return a frame's place without learning."""
        if self._arrivals is not None:
            return self._rule.read(sender_time_ns, arrival_ns)
        return (self._rule.read(sender_time_ns, arrival_ns - self._processing)
                - self._two_way.delay_ns)

    def _hold(self, stamp: int, sender_time_ns: int, host_arrival: int) -> int:
        """Return a stamp that does not go backwards, or end the epoch if none can be found."""
        frames = self._frames
        if host_arrival < frames.last_ns:
            if self._reading and frames.last_ns - host_arrival <= READING_NOISE_NS:
                return frames.last_ns
            self._end_epoch(
                HOST_STEPPED, f'a frame arrived {(frames.last_ns - host_arrival) / 1e6:.3f} ms '
                'before the stamp of the one before it')
            return stamp
        # The line has been lowered. Stamps advance at an eighth of the rate until they meet it,
        # so that no two frames share one.
        slow = frames.last_ns + (sender_time_ns - frames.newest_ns >> 3)
        return min(host_arrival, max(stamp, slow))

    def _stamp_old(self, sender_time_ns: int, arrival_ns: int, host_arrival: int) -> int | None:
        """Stamp a frame that is not newer than the newest, or recognise a restart."""
        frames = self._frames
        stamps = frames.stamps
        at, known = frames.find(sender_time_ns)
        least = stamps[at] if known else (stamps[at - 1] if at else NEVER)
        if host_arrival < least:
            if not self._reading or least - host_arrival > READING_NOISE_NS:
                self._end_epoch(
                    HOST_STEPPED, f'a frame arrived {(least - host_arrival) / 1e6:.3f} ms before '
                    'the stamp of an older one')
                return self._stamp(sender_time_ns, arrival_ns, self._reading)
            host_arrival = least
        if self._went_back(sender_time_ns, arrival_ns, host_arrival):
            return self._restart(self._fell_by(sender_time_ns), sender_time_ns, arrival_ns)
        if ((sender_time_ns == frames.newest_ns or not known) and self._rollback is not None
                and not self._rollback.steady and self._is_unusable(1)):
            return self._stamp(sender_time_ns, arrival_ns, self._reading)
        if known:
            return stamps[at]
        if at == 0 and frames.trimmed:
            self._refused += 1
            return None
        placed = self._read(sender_time_ns, arrival_ns)
        stamp = min(max(placed + self._shift, least), stamps[at], host_arrival)
        frames.insert(at, sender_time_ns, stamp, host_arrival)
        return stamp

    def _pass_on(self, sender_time_ns: int, arrival_ns: int, host_arrival: int) -> int:
        """Return the sender's time (mode sender), and count its restarts."""
        frames = self._frames
        if sender_time_ns < frames.newest_ns:
            if self._went_back(sender_time_ns, arrival_ns, host_arrival):
                self._end_sender(self._fell_by(sender_time_ns))
        elif self._rollback is not None and self._passed_newest(sender_time_ns, arrival_ns):
            self._end_sender(self._rollback.fell_ns)
        if sender_time_ns > frames.newest_ns:
            self._rule.place(sender_time_ns, host_arrival)
            self._reconnected = False
            frames.append(sender_time_ns, sender_time_ns, host_arrival)
            if self._epochs.learnt is None:
                self._follow_rule(sender_time_ns, host_arrival)
        return sender_time_ns

    # -- restarts ------------------------------------------------------------------------------

    def _went_back(self, sender_time_ns: int, arrival_ns: int, host_arrival: int) -> bool:
        """Return whether a frame that is not newer than the newest shows a restart."""
        frames = self._frames
        at, known = frames.find(sender_time_ns)
        delay = frames.delays[at]
        # Arrival of the frame that was sent at the same time or next; long ago if the frame is
        # older than all that are remembered and that one was not delayed.
        arrived = NEVER
        if at or known or (delay > HELD_UP_NS and not self._sender_mode):
            arrived = frames.stamps[at] + delay
        # A late old frame proves nothing while the newest is as late: both were delayed. Neither
        # does it if frames of the same time arrived just now: it was repeated or overtaken.
        if (frames.newest_ns - sender_time_ns > REORDERING_NS
                and (self._reconnected or host_arrival - arrived > REORDERING_NS)
                and (self._sender_mode or frames.delays[-1] < REORDERING_NS)):
            return True
        fell = None
        if self._rollback is not None:
            fell = self._rollback.older(frames.newest_ns, sender_time_ns, arrival_ns)
        if fell is None:
            waited = host_arrival - frames.last_ns - frames.delays[-1]
            self._rollback = RollbackCandidate(
                frames.newest_ns, sender_time_ns, arrival_ns, waited)
        return fell is True

    def _passed_newest(self, sender_time_ns: int, arrival_ns: int) -> bool:
        """Return whether frames that continued from below the newest have passed it."""
        if self._rollback is None:
            return False
        fell = self._rollback.newer(sender_time_ns, arrival_ns)
        if fell is None:
            self._rollback = None
        return fell is True

    def _fell_by(self, sender_time_ns: int) -> int:
        """Return how far the sender's time fell (ns)."""
        begun = 0 if self._rollback is None else self._rollback.fell_ns
        return max(self._frames.newest_ns - sender_time_ns, begun)

    def _restart(self, fell_ns: int, sender_time_ns: int, arrival_ns: int) -> int | None:
        """Start again with a frame of a sender whose time fell."""
        self._end_sender(fell_ns)
        if self._cadence is not None and self._sent >= 0:
            sender_time_ns = self._cadence.place(self._sent)
        self._is_unusable(_ODD_RESTART)
        return self._stamp(sender_time_ns, arrival_ns, self._reading)

    def _end_sender(self, fell_ns: int) -> None:
        """End the epoch of a sender whose time fell."""
        self._rule.start()
        self._two_way.restart()
        if self._cadence is not None:
            self._cadence.reset(True)
        self._learnt_to = -1
        self._end_epoch(
            SENDER_RESTARTED, f'sender time went back by {fell_ns / 1e9:.3f} s', True)

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
        self._learnt_to = self._newest_sent = -1
        self._end_epoch(
            UNUSABLE, "the sender's times do not rise; from here on stamps are arrivals alone")
        return True

    def _end_epoch(self, reason: str, detail: str = '', fell: bool = False) -> None:
        self._epochs.end(reason, detail, fell)
        self._frames.clear()
        self._reconnected = False
        self._rollback = None

    # -- rule and clocks -----------------------------------------------------------------------

    def _follow_rule(self, sender_time_ns: int, host_arrival: int) -> None:
        """Report that the rule started again or has learnt."""
        rule, epochs = self._rule, self._epochs
        if rule.restarted:
            reason, rule.restarted = rule.restarted, ''
            if self._cadence is not None and reason == SENDER_RESTARTED:
                self._cadence.reset(False)
            if reason == HOST_STEPPED and self._reading:
                # The clock of the arrivals is never set.
                reason = SENDER_RESTARTED
            self._end_epoch(reason)
            self._learnt_to = sender_time_ns
        if epochs.learnt is None and not self._unusable and epochs.recognise_base(
                sender_time_ns, host_arrival):
            self._set_slewable()
        if rule.learnt and not epochs.learnt:
            epochs.report('learnt', self._config.mode, self._learnt_text(sender_time_ns))
        epochs.learnt = rule.learnt

    def _learnt_text(self, sender_time_ns: int) -> str:
        if self._sender_mode:
            return 'stamps are the times of the sender, unchanged'
        offset = self._read(sender_time_ns, LIMIT_NS) + self._shift - sender_time_ns
        text = f'stamps are sender time {offset / 1e9:+.6f} s'
        if self._config.mode == 'min_offset':
            return f'{text}, constant, the least of {self._config.offset_samples} messages'
        return (f'{text}, updated continuously; uncertainty '
                f'{self._rule.uncertainty_s() * 1e6:.0f} us')

    def _report_cadence(self, cadence: Cadence) -> None:
        """Report once that the sender's clock is coarse."""
        self._cadence_reported = True
        what = f'ticks of {cadence.tick_ns / 1e6:.3g} ms' if cadence.tick_ns else (
            f'jitter of {cadence.jitter_ns / 1e3:.0f} us')
        self._epochs.report('coarse_sender', 'ticks' if cadence.tick_ns else 'jitter', (
            f"the sender's times have {what} about a steady rate of "
            f'{1e9 / cadence.interval_ns:.2f} Hz; stamps follow that rate'))

    def _set_slewable(self) -> None:
        """
        Set which clocks may be slewed.

        A clock that counts from 1970 is set and disciplined. Other sender clocks, and the raw
        clock of the arrivals if there is one, are free-running oscillators.
        """
        self._rule.set_slewable(not self._reading or self._epochs.base != SENDER_START)

    def _read_host(self, arrival_ns: int, reading_ns: int) -> None:
        """Follow the host's clock."""
        host, frames = self._host, self._frames
        before = host.offset_ns
        if not -QUIET_NS <= reading_ns - before <= QUIET_NS and frames.times:
            # Since the last frame, readings changed nothing and were not followed.
            host.seen(frames.last_ns + frames.delays[-1] - self._reading)
        stepped = host.follow(arrival_ns, reading_ns)
        first = not self._reading
        self._reading = reading_ns
        if first:
            self._set_slewable()
        self._settled = reading_ns if host.settled else None
        self._shift = host.offset_ns - self._latency
        if stepped and frames.times:
            self._end_epoch(
                HOST_STEPPED, f'the host clock stepped by {(reading_ns - before) / 1e6:+.3f} ms')


def _make_rule(config: StampConfig) -> Rule:
    if config.mode == 'tracking':
        return TrackingRule(config.max_gap_s)
    if config.mode == 'min_offset':
        return MinOffsetRule(config.offset_samples)
    return SenderRule()
