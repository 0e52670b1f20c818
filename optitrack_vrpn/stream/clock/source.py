# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Stamp each frame of a connection: withhold backlogs, end epochs, follow the host's clock.

Promises, for every mode but ``sender``, for any input:

- no stamp is later than its arrival on the host's clock;
- within an epoch stamps rise with the sender's time: none goes backwards;
- equal sender times get equal stamps, for the last ``HISTORY`` frames at least; older frames are
  refused. Not in mode ``arrival`` once the sender's times are found unusable: then frames that
  arrive together share a stamp;
- repeated and overtaken frames do not change the estimate.

A frame that arrives before the stamp of an older one is refused. Where readings of the host's
clock differ, noise may order two frames that arrive together: then the stamp may exceed this
reading's arrival by up to ``READING_NOISE_NS``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
import math
from typing import Final, NamedTuple

import numpy as np
from optitrack_vrpn.core.events import Event
from optitrack_vrpn.stream.clock.epochs import Epochs
from optitrack_vrpn.stream.clock.estimator import HostOffset, OffsetEstimator
from optitrack_vrpn.stream.clock.types import (
    ClockStatus, HOST_STEPPED, RECONNECTED, SENDER_RESTARTED, SENDER_START, StampConfig, UNUSABLE)

HISTORY: Final = 512
"""Frames whose stamps are remembered at least: 2 s at 240 Hz, longer than a network reorders."""
NEVER: Final = -(1 << 70)
"""Before any time."""
LIMIT_NS: Final = 1 << 62
"""Times from 0 to this are stamped; u32 seconds of the wire (until 2106) are below it."""
READING_NOISE_NS: Final = 10_000
"""Noise of a reading of the host's clock at most. Measured: 1 us, 10 us where a reading is
interrupted and repeated (``hostclock_io``)."""
_FROZEN_NS, _ODD_ENOUGH = 250_000_000, 500
"""Mode ``arrival``: a sender time that is still the newest after this time (ns) has stopped;
frames out of order, less those in order, from which sender times are unusable (2 s at 240 Hz)."""


class Stamped(NamedTuple):
    """
    A frame.

    :ivar time_ns: its time without the ticks and the jitter of the sender's clock.
    :ivar stamp_ns: its stamp.
    :ivar delay_ns: its arrival on the host's clock minus the stamp.
    """

    time_ns: int
    stamp_ns: int
    delay_ns: int


class FrameHistory:
    """
    Frames in order of their keys: sender time, and number of the frame within it.

    :ivar keys: (sender time, number from 0); a coarse clock gives several frames one time.
    :ivar frames: one record for each key.
    :ivar newest_ns: newest sender time, -1 before the first.
    :ivar stamp_ns: stamp of the first frame of this time; later than any arrival before it.
    :ivar last_ns: the newest stamp.
    :ivar trimmed: whether older frames have been removed.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Remove all frames."""
        self.keys: list[tuple[int, int]] = []
        self.frames: list[Stamped] = []
        self.newest_ns = -1
        self.stamp_ns, self.last_ns = -NEVER, NEVER
        self.trimmed = False

    def append(self, key: tuple[int, int], frame: Stamped) -> None:
        """Add the newest frame."""
        if key[0] != self.newest_ns:
            self.newest_ns, self.stamp_ns = key[0], frame.stamp_ns
        self.last_ns = frame.stamp_ns
        self.keys.append(key)
        self.frames.append(frame)
        if len(self.keys) >= 2 * HISTORY:
            del self.keys[:HISTORY], self.frames[:HISTORY]
            self.trimmed = True

    def shift(self, step_ns: int) -> None:
        """Move all stamps: the clock on which they are has stepped."""
        self.frames = [frame._replace(stamp_ns=frame.stamp_ns + step_ns) for frame in self.frames]
        self.stamp_ns += step_ns
        self.last_ns += step_ns

    def find(self, key: tuple[int, int]) -> tuple[int, bool]:
        """Return the index of the first frame that is not older, and whether it is this frame."""
        at = bisect_left(self.keys, key)
        return at, at < len(self.keys) and self.keys[at] == key

    def jitter_s(self) -> tuple[float, float]:
        """Return standard deviation and 99th percentile of the delays (s); NaN without frames."""
        if not self.frames:
            return math.nan, math.nan
        delays = np.sort(np.array([frame.delay_ns for frame in self.frames], dtype=float)) / 1e9
        return float(delays.std()), float(delays[len(delays) * 99 // 100])


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
        self._smooths = config.mode == 'tracking'
        self._latency = round(config.latency_ms * 1e6)
        self._estimator = OffsetEstimator(self._smooths)
        self._host = HostOffset(suspended_ns)
        self._coarse = False    # whether ticks or jitter have been reported
        self._epochs = Epochs()
        self.pending_events = self._epochs.events
        self._frames = FrameHistory()
        self._refused = self.withheld = self.lag_ns = 0
        self._withheld_ns = -1
        # Mode min_offset: frames that are still to come, and the least offset so far.
        self._missing = config.offset_samples
        self._least_ns = -NEVER
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
        if not (0 <= sender_time_ns < LIMIT_NS and 0 <= arrival_ns < LIMIT_NS
                and 0 <= host_arrival < LIMIT_NS):
            self._refused += 1
            return None
        frames = self._frames
        if (sender_time_ns == frames.newest_ns and frames.stamp_ns <= host_arrival
                and not (self._arrival_mode and host_arrival - frames.stamp_ns >= _FROZEN_NS)):
            # Another body of the same frame, or a repeat.
            return frames.stamp_ns
        return self._stamp(
            sender_time_ns, 0, arrival_ns, host_minus_arrival_clock_ns, processing_ns)

    def stamp_further(
        self, sender_time_ns: int, nth: int, arrival_ns: int,
        host_minus_arrival_clock_ns: int = 0,
    ) -> tuple[int, int] | None:
        """
        Stamp one of several frames that have the newest sender time.

        :param sender_time_ns: that sender time (ns); None is returned for any other.
        :param nth: counted from 0 in the order of the frames.
        :param arrival_ns: arrival on the arrival clock (ns).
        :param host_minus_arrival_clock_ns: host clock minus arrival clock, read at arrival (ns).
        :returns: the frame's time by the sender's clock without its ticks, and the stamp (ns).
        """
        frames, key = self._frames, (sender_time_ns, nth)
        if sender_time_ns != frames.newest_ns:
            return None
        at, known = frames.find(key)
        if not known and nth and key > frames.keys[-1]:
            self._stamp(sender_time_ns, nth, arrival_ns, host_minus_arrival_clock_ns, 0)
            at, known = frames.find(key)
        return (frames.frames[at].time_ns, frames.frames[at].stamp_ns) if known else None

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
        shift_ns = self._host.shift_ns
        self._estimator.add_round_trip(sent_ns + shift_ns, server_ns, received_ns + shift_ns)
        self._latency = 0

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        return self._epochs.take_events()

    def uncertainty_s(self) -> float:
        """Return the half-width that nearly always contains a stamp's error; NaN if unknown."""
        return self._estimator.uncertainty_s() if self._smooths else math.nan

    def trouble(self) -> str:
        """Return why no frame has had a stamp for long, and until when; '' if they have."""
        return self._estimator.trouble()

    def status(self) -> ClockStatus:
        """Return the present state of the model."""
        frames, estimator, epochs = self._frames, self._estimator, self._epochs
        trips, cadence = estimator.round_trips, estimator.cadence
        newest = frames.frames[-1] if frames.frames else Stamped(0, 0, 0)
        deviation, p99 = frames.jitter_s()
        skew_ppm = estimator.skew * 1e6 if self._smooths else 0.0
        return ClockStatus(
            mode=self._config.mode, epoch=epochs.number, learnt=self._learnt(),
            offset_ns=newest.stamp_ns - newest.time_ns,
            skew_ppm=math.nan if self._arrival_mode or self._sender_mode else skew_ppm,
            uncertainty_s=self.uncertainty_s(), restarts=dict(epochs.restarts),
            samples=estimator.current.samples if estimator.current else 0,
            sender_base=epochs.base, jitter_std_s=deviation, jitter_p99_s=p99,
            refused=self._refused,
            network_delay_s=trips.delay_ns * 1e-9 if trips.known else math.nan,
            round_trip_s=trips.round_trip_ns * 1e-9 if trips.known else math.nan,
            sender_tick_s=cadence.tick_ns * 1e-9, sender_jitter_s=cadence.jitter_ns * 1e-9,
            smoothed=cadence.smoothing)

    def reconnected(self) -> None:
        """Prepare for a new connection: the model is kept as long as the next frame fits it."""
        self._estimator.announce()
        # The next sender may answer no round trips.
        self._latency = round(self._config.latency_ms * 1e6)
        self._withheld_ns = -1
        self._odd = 0
        if self._unusable:
            self._epochs.end(RECONNECTED, "the new connection's sender times may be usable")
            self._frames.clear()
            self._unusable = False

    # -- one frame -----------------------------------------------------------------------------

    def _stamp(
        self, sender_ns: int, nth: int, arrival_ns: int, reading_ns: int, processing_ns: int,
    ) -> int | None:
        """Stamp a frame whose times can be stamped; see ``stamp`` and ``stamp_further``."""
        frames, estimator, host = self._frames, self._estimator, self._host
        host_arrival = arrival_ns + reading_ns
        if not self._sender_mode:
            step_ns = host.update(arrival_ns, reading_ns)
            if step_ns and frames.keys:
                self._epochs.end(
                    HOST_STEPPED, f'the host clock stepped by {step_ns / 1e6:+.3f} ms')
                frames.shift(step_ns)
        clock_ns = arrival_ns + host.shift_ns
        if self._unusable:
            sender_ns = time_ns = placed = max(clock_ns, frames.newest_ns + 1)
        else:
            if sender_ns == self._withheld_ns and not nth and not self._sender_mode:
                # Another body of a frame that is withheld, or a clock that stands.
                self.withheld += 1
                estimator.heard_ns = clock_ns
                return self._stamp_unusable(None, arrival_ns, reading_ns)
            # Arrivals stand for themselves, without a model of delays.
            found = estimator.update(
                sender_ns, clock_ns, 0 if self._arrival_mode else processing_ns, nth > 0,
                self._sender_mode)
            if estimator.restarted:
                self._withheld_ns = -1
                self._missing, self._least_ns = self._config.offset_samples, -NEVER
                # The raw clock of the arrivals is never set.
                self._epochs.end(SENDER_RESTARTED if reading_ns else estimator.restarted,
                                 estimator.detail, estimator.fell)
                frames.clear()
            elif sender_ns <= frames.newest_ns and not nth:
                return self._recall(sender_ns, arrival_ns, reading_ns)
            if found is None and not self._sender_mode:
                self._withheld_ns = sender_ns
                self.withheld += 1
                return None
            time_ns = sender_ns if found is None else estimator.time_ns
            placed = sender_ns if found is None else found
        if estimator.cadence.smoothing and not self._coarse:
            self._coarse = True
            self._epochs.report('coarse_sender', *estimator.cadence.describe())
        if not self._epochs.learnt:
            self._report_learnt(time_ns, placed, host_arrival)
        shift_ns = host.offset_ns - self._latency
        line = placed + shift_ns
        if self._sender_mode:
            stamp = sender_ns if not nth else frames.stamp_ns + time_ns - estimator.first_ns
        elif self._arrival_mode:
            stamp = host_arrival - self._latency
            self._odd = max(0, self._odd - 1)
        elif self._smooths:
            stamp = line
        else:
            stamp = shift_ns + self._min_offset(
                time_ns, clock_ns - processing_ns, placed, estimator.round_trips.known)
        if not self._sender_mode:
            # Comparisons, not ``min``: this is the path of every frame.
            if stamp > host_arrival:
                stamp = host_arrival
            last = frames.last_ns
            if stamp <= last:
                if host_arrival < last:
                    if not reading_ns or last - host_arrival > READING_NOISE_NS:
                        self._refused += 1
                        return None
                    host_arrival = last
                # The line has been lowered. Stamps advance at an eighth of the rate until they
                # meet it, so that no two frames share one.
                passed_ns = time_ns - frames.frames[-1].time_ns
                stamp = min(host_arrival, max(stamp, last + (passed_ns >> 3)))
            if not self._smooths and not self._unusable:
                self.lag_ns = max(0, stamp - line)
        # As Stamped(...), without its Python-level __new__.
        frames.append((sender_ns, nth), tuple.__new__(
            Stamped, (time_ns, stamp, host_arrival - stamp)))
        return stamp

    def _min_offset(self, time_ns: int, arrival_ns: int, placed: int, known: bool) -> int:
        """Place a frame by the original package's rule; the drift of the clocks stays in it."""
        if self._missing:
            self._missing -= 1
            self._least_ns = min(self._least_ns, arrival_ns - time_ns)
            found = arrival_ns
        else:
            found = min(arrival_ns, time_ns + self._least_ns)
        return min(found, placed) if known else found

    def _recall(self, sender_ns: int, arrival_ns: int, reading_ns: int) -> int | None:
        """Stamp a frame that is not newer than the newest."""
        frames = self._frames
        at, known = frames.find((sender_ns, 0))
        if not known and not at and frames.trimmed:
            self._refused += 1
            return None
        # The interval to the next frame is that of the sender's times.
        stamp = frames.frames[at].stamp_ns - (frames.keys[at][0] - sender_ns)
        if at and not known:
            stamp = max(stamp, frames.frames[at - 1].stamp_ns)
        if not self._sender_mode and stamp > arrival_ns + reading_ns + (
                READING_NOISE_NS if reading_ns else 0):
            self._refused += 1
            return None
        if known and sender_ns != frames.newest_ns:
            return stamp
        return self._stamp_unusable(stamp, arrival_ns, reading_ns)

    def _stamp_unusable(self, stamp: int | None, arrival_ns: int, reading_ns: int) -> int | None:
        """
        Count a frame out of order in mode ``arrival``; stamp its arrival once they are too many.

        Each newer frame reduces the count by one, so that reordering and restarts do not reach
        the limit.

        :param stamp: its stamp until then.
        """
        self._odd += self._arrival_mode
        if self._odd < _ODD_ENOUGH:
            return stamp
        self._unusable = True
        self._epochs.end(
            UNUSABLE, "the sender's times do not rise; from here on stamps are arrivals alone")
        self._frames.clear()
        return self._stamp(0, 0, arrival_ns, reading_ns, 0)

    def _learnt(self) -> bool:
        if self._smooths:
            return self._estimator.learnt
        return self._sender_mode or not (self._arrival_mode or self._missing)

    def _report_learnt(self, time_ns: int, placed_ns: int, host_arrival: int) -> None:
        """Report the base of the sender's times, and the offset once it has been learnt."""
        epochs = self._epochs
        if epochs.learnt is None and not self._unusable:
            epochs.recognise_base(time_ns, host_arrival)
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
            offset_ns = placed_ns - time_ns if self._smooths else self._least_ns
            text = (f'stamps are sender time '
                    f'{(self._host.offset_ns - self._latency + offset_ns) / 1e9:+.6f} s, ')
            text += (f'updated continuously; uncertainty {self.uncertainty_s() * 1e6:.0f} µs'
                     if self._smooths else
                     f'constant, the least of {self._config.offset_samples} frames')
        epochs.report('learnt', self._config.mode, text, warn=past)
