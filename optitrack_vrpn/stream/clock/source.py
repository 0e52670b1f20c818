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

import math
from typing import Any, Final

from optitrack_vrpn.core.events import Event
from optitrack_vrpn.stream.clock.epochs import Epochs
from optitrack_vrpn.stream.clock.host_offset import HostOffset
from optitrack_vrpn.stream.clock.limits import EDGE_NS, HOLD_NS, SECOND_NS
from optitrack_vrpn.stream.clock.round_trips import RoundTrips
from optitrack_vrpn.stream.clock.sender_clock import SenderClock
from optitrack_vrpn.stream.clock.sender_times import Judgement, SenderTimes
from optitrack_vrpn.stream.clock.types import (
    ClockStatus, HOST_STEPPED, OFFSET_CHANGED, SENDER_RESTARTED, SENDER_START, StampConfig,
    UNUSABLE)

LIMIT_NS: Final = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) are below it."""
_NEVER: Final = -(1 << 70)
_DELAYS: Final = 511
"""Delays of so many frames are kept for the statistics (a mask)."""


class StampSource:
    """
    Stamp the frames of one connection, all bodies alike.

    Without a call of ``reconnected`` the first frames are taken as fresh.

    :param config: the settings.
    :ivar pending_events: events since the last call of ``events``; always the same list.
    :ivar by_arrival: whether arrivals are the stamps, by the settings or because of the sender's
        times.
    :ivar coarse: whether the sender's times are too coarse: ``stamp_arrival`` stamps its frames.
    :ivar lag_ns: delay of the newest frame that is not in its stamp, because stamps are arrivals.
    :ivar refused: number of absurd times.
    :ivar older: number of frames that were older than the newest one.
    :ivar withheld: number of frames without a stamp because they may come out of a buffer.
    """

    def __init__(self, config: StampConfig) -> None:
        self._config = config
        self.by_arrival = config.mode == 'arrival'
        self._sender_mode = config.mode == 'sender'
        self._smooths = config.mode == 'tracking'
        self._latency = round(config.latency_ms * 1e6)
        self._clock = SenderClock()
        self._host = HostOffset()
        self._trips = RoundTrips()
        self._epochs = Epochs()
        self.pending_events = self._epochs.events
        self.refused = self.older = self.withheld = self.lag_ns = self._count = self._now_ns = 0
        # The newest frame: its stamp, -1 if it has none; the newest stamp.
        self._sender_ns, self._stamp_ns, self._last_ns = -1, -1, _NEVER
        self._stamped_ns = 0
        self._delays = [0] * (_DELAYS + 1)
        # Mode min_offset: frames that are still to come, and the least offset so far.
        self._missing, self._least_ns = config.offset_samples, -_NEVER
        self._times: SenderTimes | None = None if self._sender_mode else SenderTimes()
        self._judgement = Judgement(True)
        self.coarse = self._connects = False

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
        if sender_time_ns == self._sender_ns:
            # Another body of the same frame, or a repeat.
            if 0 <= self._stamp_ns <= host_arrival < LIMIT_NS and arrival_ns >= 0:
                return self._stamp_ns
            self.withheld += self._stamp_ns < 0
            return None
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self.refused += 1
            return None
        if self._sender_mode:
            return self._stamp_as_sent(sender_time_ns, arrival_ns, host_arrival)
        host, clock = self._host, self._clock
        step_ns = host.update(arrival_ns, host_minus_arrival_clock_ns)
        self._now_ns = arrival_ns
        if step_ns:
            self._host_stepped(step_ns)
        newest_ns = clock.newest_ns
        fresh = clock.update(sender_time_ns, arrival_ns - processing_ns)
        if not fresh:
            if clock.newest_ns == newest_ns:
                self.older += 1
            else:
                self._sender_ns, self._stamp_ns = sender_time_ns, -1
                self.withheld += 1
            return None
        self._sender_ns = sender_time_ns
        if clock.change:
            self._follow_change(sender_time_ns)
        placed = arrival_ns - processing_ns - int(clock.above_ns)
        if self._trips.known:
            placed = self._trips.place(sender_time_ns, placed, clock.line.rate)
        offset_ns = host.offset_ns - self._latency
        if self._smooths and not self.by_arrival:
            stamp = placed + offset_ns
        else:
            stamp = self._stamp_otherwise(sender_time_ns, arrival_ns, processing_ns, placed)
            self.lag_ns = max(0, stamp - placed - offset_ns)
        if not self._epochs.learnt:
            self._report_learnt(sender_time_ns, placed, host_arrival)
        return self._rise(stamp, sender_time_ns, host_arrival)

    def stamp_arrival(
        self, sender_time_ns: int, arrival_ns: int, host_minus_arrival_clock_ns: int,
        begins: bool,
    ) -> int | None:
        """
        Stamp a frame of a sender whose times are too coarse (``coarse``).

        :param begins: whether a body repeats since the frame before: this is another frame.
        :returns: see ``stamp``.
        """
        if sender_time_ns != self._sender_ns:
            found = self.stamp(sender_time_ns, arrival_ns, host_minus_arrival_clock_ns)
            if found is not None or self._judgement.what != 'no times':
                return found
        host_arrival = arrival_ns + host_minus_arrival_clock_ns
        if self._stamp_ns < 0 and self._judgement.what != 'no times':
            self.withheld += 1
            return None
        if begins or self._stamp_ns < 0:
            return self._rise(host_arrival - self._latency, self._stamped_ns, host_arrival)
        return self._stamp_ns if self._stamp_ns <= host_arrival else None

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
            self._stamp_by_arrival(found)
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
        line = self._clock.line
        # Load and a longer route are in the slope of the line, until they have passed it.
        self._trips.add(sent_ns, server_ns, received_ns, line.rate, 1e-5 if line.known else 1e-4)
        self._latency = 0

    def reconnected(self) -> None:
        """Prepare for a new connection: its first frames may come out of a buffer."""
        self._clock.reconnected()
        self._trips.restart()
        # The next sender may answer no round trips.
        self._latency = round(self._config.latency_ms * 1e6)
        self._sender_ns = -1
        self._connects = True

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        return self._epochs.take_events()

    # -- what is known -------------------------------------------------------------------------

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        line = self._clock.line
        if self.coarse:
            return (2.0 * self._judgement.spread_ns + line.above_ns) * 1e-9
        if not self._smooths:
            return math.nan
        width = self._clock.uncertainty_ns
        if self._trips.known:
            # Bounds from both sides: what is above the line is queueing delay.
            width = self._trips.error_ns() + 2.0 * line.noise_ns
        return (width + self._judgement.size_ns) * 1e-9

    def trouble(self, now_ns: int) -> str:
        """
        Return why no frame has had a stamp for long, and until when; '' if they have.

        :param now_ns: the present, or the last arrival (ns).
        """
        clock = self._clock
        if self._sender_mode:
            return ''    # nothing is withheld by the clock
        if clock.closed and clock.closed_ns >= 0:
            passed_s = (now_ns - clock.closed_ns) * 1e-9
            if passed_s < 1.0:
                return ''
            text = (f'no pose is published: since {clock.closed}, for {passed_s:.1f} s, frames do '
                    'not arrive at the pace at which they were sent: they come out of a buffer')
            if clock.pace.falling_ns > 0:
                text += ('. If the server plays a recording faster than real time, set '
                         'stamps.mode: sender and stamps.max_age_s: 0')
            return text
        if clock.late_ns >= 0 and clock.above_ns > SECOND_NS / 4:
            left_s = (clock.late_ns + HOLD_NS - now_ns) * 1e-9
            return (f'no pose is published: all frames are {clock.above_ns * 1e-9:.3f} s late: '
                    'they are old, or a clock was set; that is assumed in '
                    f'{max(left_s, 0.0):.1f} s')
        return ''

    def status(self) -> ClockStatus:
        """Return the facts."""
        clock, epochs, trips = self._clock, self._epochs, self._trips
        line, config = clock.line, self._config
        frames = min(self._count, _DELAYS + 1)
        delays = sorted(self._delays[:frames])
        mean = math.fsum(delays) / max(frames, 1)
        deviation = math.sqrt(math.fsum((each - mean) ** 2 for each in delays) / max(frames, 1))
        since_s = 0.0 if line.above_since_ns < 0 else (
            clock.newest_ns - line.above_since_ns) * 1e-9
        return ClockStatus(
            mode=config.mode, by_arrival=self.by_arrival, epoch=epochs.number,
            learnt=self._learnt(),
            offset_ns=self._stamp_ns - self._sender_ns if self._stamp_ns >= 0 else 0,
            skew_ppm=math.nan if self.by_arrival or self._sender_mode else line.rate * 1e6,
            uncertainty_s=self.uncertainty_s(), above_s=line.above_ns * 1e-9,
            above_since_s=since_s, follows_in_s=EDGE_NS * 1e-9 - since_s if since_s else math.nan,
            restarts=dict(epochs.restarts), samples=line.frames, sender_base=epochs.base,
            jitter_std_s=deviation * 1e-9 if frames else math.nan,
            jitter_p99_s=delays[frames * 99 // 100] * 1e-9 if frames else math.nan,
            refused=self.refused + self.older, withheld=self.withheld,
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
                self._epochs.end(HOST_STEPPED, 'the clock of the arrivals was set back by '
                                 f'{(last_ns - stamp) / 1e9:.3f} s', fell=True)
            else:
                # The line has been lowered: stamps advance at an eighth of the rate meanwhile.
                stamp = min(host_arrival, last_ns + ((sender_ns - self._stamped_ns) >> 3))
                if stamp <= last_ns:
                    self._stamp_ns = -1
                    return None
        self._stamp_ns = self._last_ns = stamp
        self._stamped_ns = sender_ns
        count = self._count
        self._count = count + 1
        self._delays[count & _DELAYS] = host_arrival - stamp
        return stamp

    def _stamp_as_sent(self, sender_ns: int, arrival_ns: int, host_arrival: int) -> int | None:
        """Mode ``sender``: nothing is withheld, and the clock is followed for the status only."""
        clock = self._clock
        if self._connects:
            # No network reorders frames of two connections: the sender's time has fallen.
            self._connects = False
            if sender_ns < clock.newest_ns:
                clock.newest_ns, clock.falls = -1, True
        clock.update(sender_ns, arrival_ns)
        if clock.newest_ns != sender_ns:
            self.older += 1
            return None
        if clock.falls or clock.change == 'run':
            self._epochs.end(
                SENDER_RESTARTED, "the sender's time jumped or fell", clock.falls, True)
            clock.falls = False
        self._sender_ns = self._stamp_ns = sender_ns
        if not self._epochs.learnt:
            self._report_learnt(sender_ns, arrival_ns, host_arrival)
        return sender_ns

    def _stamp_otherwise(
        self, sender_ns: int, arrival_ns: int, processing_ns: int, placed: int,
    ) -> int:
        """Return the stamp by the arrival, or by the original package's constant offset."""
        offset_ns = self._host.offset_ns - self._latency
        if self.by_arrival:
            return arrival_ns + offset_ns
        arrival_ns -= processing_ns
        if self._missing:
            self._missing -= 1
            self._least_ns = min(self._least_ns, arrival_ns - sender_ns)
            found = arrival_ns
        else:
            found = min(arrival_ns, sender_ns + self._least_ns)
        return offset_ns + (min(found, placed) if self._trips.known else found)

    def _host_stepped(self, step_ns: int) -> None:
        """Follow a host clock that was set; stamps wait to rise, for a second at most."""
        back = step_ns < -SECOND_NS
        if back:
            self._last_ns = _NEVER
        if step_ns > 0:
            # Or this computer was suspended, which the arrival clock does not count.
            self._clock.close('the host clock stepped', self._now_ns)
        self._epochs.end(
            HOST_STEPPED, f'the host clock stepped by {step_ns / 1e6:+.3f} ms', fell=back,
            moved_ns=step_ns)

    def _follow_change(self, sender_ns: int) -> None:
        """Follow a new line or a new run."""
        clock = self._clock
        self._missing, self._least_ns = self._config.offset_samples, -_NEVER
        moved = f'{clock.moved_ns * 1e-9:+.3f} s'
        if clock.change == 'line':
            self._epochs.end(OFFSET_CHANGED, (
                f'frames arrive {moved} later than before: the route changed, or a clock was set; '
                'stamps follow'), moved_ns=0 if self.by_arrival else clock.moved_ns)
            return
        self._trips.restart()
        text = f'the sender restarted or its clock was set: its offset changed by {moved}'
        if clock.fell:
            text = f"the sender's clock went back by {clock.moved_ns * 1e-9:.3f} s"
        self._epochs.end(SENDER_RESTARTED, text, clock.fell or self.coarse, True)
        self._judgement = Judgement(True)
        self._times = SenderTimes()
        self.by_arrival, self.coarse = self._config.mode == 'arrival', False
        self.lag_ns = 0

    def _stamp_by_arrival(self, found: Judgement) -> None:
        """Let arrivals stand for times that are too coarse, until the run ends."""
        self.by_arrival = self.coarse = True
        size = f' of {found.size_ns / 1e6:.3g} ms' if found.size_ns else ''
        text = (f"the sender's times have {found.what}{size}: stamps are arrivals, as in mode "
                f'arrival, with their spread of {found.spread_ns / 1e6:.3g} ms as uncertainty')
        if found.what == 'no times':
            text = ('the sender sends no times: stamps are arrivals, and poses that waited in a '
                    'buffer cannot be recognised')
        # The gates of the bodies compare stamps from here on, as if the sender's time had fallen.
        self._epochs.end(UNUSABLE, text, fell=self._config.mode != 'arrival', run_ended=True)

    def _learnt(self) -> bool:
        if self._smooths and not self.by_arrival:
            return self._clock.line.learnt
        return self._sender_mode or not (self.by_arrival or self._missing)

    def _report_learnt(self, sender_ns: int, placed_ns: int, host_arrival: int) -> None:
        """Report the base of the sender's times, and the offset once it has been learnt."""
        epochs = self._epochs
        if epochs.learnt is None:
            epochs.recognise_base(sender_ns, host_arrival)
        epochs.learnt = self._learnt()
        if not epochs.learnt:
            return
        past = self._sender_mode and epochs.base == SENDER_START
        if self._sender_mode:
            text = 'stamps are the times of the sender, unchanged' + (
                ': they are in 1970, since its clock counts from its start; programs that compare '
                'them with the present find them too old: set stamps.mode: tracking'
                if past else '')
        else:
            offset_ns = placed_ns - sender_ns if self._smooths else self._least_ns
            text = (f'stamps are sender time '
                    f'{(self._host.offset_ns - self._latency + offset_ns) / 1e9:+.6f} s, ')
            text += (f'updated continuously; uncertainty {self.uncertainty_s() * 1e6:.0f} µs'
                     if self._smooths else
                     f'constant, the least of {self._config.offset_samples} frames')
        epochs.report('learnt', self._config.mode, text, warn=past)
