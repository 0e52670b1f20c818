# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the stamps, reasons for the end of an epoch, changes and facts of the clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import NamedTuple

from optitrack_vrpn.core.settings.schema import checked, setting


UNIX_EPOCH = 'unix_epoch'
"""Value of ``sender_base``."""


@checked
@dataclass(frozen=True)
class StampConfig:
    """How a frame is stamped."""

    mode: str = setting('tracking', choices=('tracking', 'min_offset', 'arrival', 'sender'), doc=(
        "how stamps are made: from the sender's clock, tracked (tracking) or with a constant "
        'offset (min_offset), from the arrival, or as sent (sender); see docs/stamps.md'))
    offset_samples: int = 100
    """Frames from which ``min_offset`` takes its offset; as the original optitrack_vrpn."""
    latency_ms: float = setting(0.0, unit='ms', low=0.0, high=1000.0, doc=(
        'time from the exposure to the earliest possible arrival, as you measured it; subtracted '
        'from every stamp except in mode sender'))


class ClockChange(NamedTuple):
    """
    What happened to the clocks.

    :ivar reason: why an epoch ended: ``sender_restarted``, ``host_stepped``, ``offset_changed``
        or ``sender_times_unusable``.
    :ivar fell: whether times or stamps of the new epoch begin in the past of the one before.
    :ivar run_ended: whether the sender's time jumped or fell: bodies, bones and motion restart.
        Otherwise a change moves stamps only.
    :ivar moved_ns: by how much stamps have moved (ns), where the run goes on.
    :ivar seen_ns: size of the step of the host clock, or of the change of the offset (ns).
    """

    reason: str
    fell: bool = False
    run_ended: bool = False
    moved_ns: int = 0
    seen_ns: int = 0


@dataclass(frozen=True)
class ClockStatus:
    """
    Facts of the sender's clock, for diagnostics, page and doctor; NaN for what is unknown.

    :ivar mode: of the settings.
    :ivar by_arrival: whether arrivals give the stamps: by the settings, or since the sender's
        times are too coarse.
    :ivar learnt: False while the offset is still being learnt; always False by arrival.
    :ivar offset_ns: host time minus sender time of the newest frame, as stamped.
    :ivar skew_ppm: how much faster the arrival clock runs than the sender's (parts per million).
    :ivar uncertainty_s: half-width that nearly always contains a stamp's error. The least delay
        of the network is left out, unless round trips show it.
    :ivar withheld: event since which frames are withheld, since they may come out of a buffer;
        '' if they are not.
    :ivar withheld_s: time since then.
    :ivar above_s: by how much the newest delays are longer than those of the line.
    :ivar above_since_s: for how long they clearly have been; 0 if they are not.
    :ivar follows_in_s: time until stamps follow them, if they stay.
    :ivar restarts: epochs ended, by reason.
    :ivar change: what ended the last one; None if none has ended.
    :ivar samples: frames learnt from since the line began.
    :ivar sender_base: ``unix_epoch``, ``sender_start`` or ``unknown``.
    :ivar jitter_p99_s: 99 % of the last frames arrived no later than this after their stamp.
    :ivar network_delay_s: least delay of the network, taken off the stamps (round trips).
    :ivar sender_fault: why stamps do not follow the sender's times; '' if they do.
    :ivar sender_jitter_s: size of the ticks or of the jitter of the sender's times.
    :ivar sender_age_s: least age of the sender's own times when they arrive (mode ``sender``).
    """

    mode: str
    by_arrival: bool
    learnt: bool
    offset_ns: int
    skew_ppm: float
    uncertainty_s: float
    restarts: Mapping[str, int]
    samples: int
    sender_base: str
    jitter_p99_s: float
    withheld: str = ''
    withheld_s: float = 0.0
    above_s: float = 0.0
    above_since_s: float = 0.0
    follows_in_s: float = 0.0
    network_delay_s: float = math.nan
    sender_fault: str = ''
    sender_jitter_s: float = 0.0
    sender_age_s: float = 0.0
    change: ClockChange | None = None

    @property
    def epoch(self) -> int:
        """Return the number of epochs that ended."""
        return sum(self.restarts.values())
