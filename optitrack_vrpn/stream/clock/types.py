# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the stamps, reasons for the end of an epoch, changes and facts of the clocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import NamedTuple

from optitrack_vrpn.core.settings.schema import checked, setting

MODES = ('tracking', 'min_offset', 'arrival', 'sender')

# Why an epoch ended.
SENDER_RESTARTED = 'sender_restarted'
HOST_STEPPED = 'host_stepped'
OFFSET_CHANGED = 'offset_changed'
UNUSABLE = 'sender_times_unusable'

# What a sender's times count from.
UNKNOWN_BASE = 'unknown'
SENDER_START = 'sender_start'
UNIX_EPOCH = 'unix_epoch'


@checked
@dataclass(frozen=True)
class StampConfig:
    """How a frame is stamped."""

    mode: str = setting('tracking', choices=MODES, doc=(
        "how stamps are made: from the sender's clock, tracked (tracking) or with a constant "
        'offset (min_offset), from the arrival, or as sent (sender); see docs/stamps.md'))
    offset_samples: int = 100
    """Frames from which ``min_offset`` takes its offset; as the original optitrack_vrpn."""
    latency_ms: float = setting(0.0, unit='ms', low=0.0, high=1000.0, doc=(
        'time from the exposure to the earliest possible arrival, as you measured it; subtracted '
        'from every stamp except in mode sender'))


class ClockChange(NamedTuple):
    """
    What happened to the clocks: ``data`` of the ``Event`` that reports it.

    :ivar kind: ``epoch_ended`` or ``learnt``.
    :ivar reason: for ``epoch_ended`` the reason, else the mode.
    :ivar epoch: the epoch that begins or goes on with this event, counted from 0.
    :ivar fell: whether the times of the new run begin in the past of the run before.
    :ivar run_ended: whether the sender's time jumped or fell: bodies, bones and motion restart.
        Otherwise a change moves stamps only.
    :ivar moved_ns: by how much stamps have moved (ns), where the run goes on.
    """

    kind: str
    reason: str
    epoch: int
    fell: bool = False
    run_ended: bool = False
    moved_ns: int = 0


class Trouble(NamedTuple):
    """
    Why no frame has had a stamp for long, or why stamps are wrong.

    :ivar event: event since which frames are withheld; '' if they are not.
    :ivar for_s: time since then.
    :ivar falling: whether they arrive faster than they were sent.
    :ivar late_s: by how much all frames are late; 0 if they are not.
    :ivar left_s: time until stamps follow them.
    :ivar age_s: age of the sender's own times when they arrive (mode ``sender``).
    """

    event: str = ''
    for_s: float = 0.0
    falling: bool = False
    late_s: float = 0.0
    left_s: float = 0.0
    age_s: float = 0.0


@dataclass(frozen=True)
class ClockStatus:
    """
    Facts of the sender's clock, for diagnostics, page and doctor; NaN for what is unknown.

    :ivar mode: of the settings.
    :ivar by_arrival: whether arrivals give the stamps: by the settings, or since the sender's
        times are too coarse.
    :ivar epoch: counted from 0.
    :ivar learnt: False while the offset is still being learnt; always False by arrival.
    :ivar offset_ns: host time minus sender time of the newest frame, as stamped.
    :ivar skew_ppm: how much faster the arrival clock runs than the sender's (parts per million).
    :ivar uncertainty_s: half-width that nearly always contains a stamp's error. The least delay
        of the network is left out, unless round trips show it.
    :ivar above_s: how far the newest least delays lie above the line.
    :ivar above_since_s: for how long they have been clearly above it; 0 if they are not.
    :ivar follows_in_s: time until stamps follow them, if they stay.
    :ivar restarts: epochs ended, by reason.
    :ivar samples: distinct frames learnt from since the line began.
    :ivar sender_base: ``unix_epoch``, ``sender_start`` or ``unknown``.
    :ivar jitter_p99_s: 99 % of the last frames arrived no later than this after their stamp.
    :ivar refused: times that could not be stamped: absurd, or older than the newest.
    :ivar withheld: frames withheld because they may come out of a buffer.
    :ivar network_delay_s: least delay of the network, taken off the stamps (round trips).
    :ivar round_trip_s: shortest round trip of late.
    :ivar sender_fault: ``ticks or jitter``, or ``no times``; '' for times without.
    :ivar sender_jitter_s: size of the ticks or of the jitter of the sender's times.
    """

    mode: str
    by_arrival: bool
    epoch: int
    learnt: bool
    offset_ns: int
    skew_ppm: float
    uncertainty_s: float
    above_s: float
    above_since_s: float
    follows_in_s: float
    restarts: Mapping[str, int]
    samples: int
    sender_base: str
    jitter_p99_s: float
    refused: int
    withheld: int
    network_delay_s: float = math.nan
    round_trip_s: float = math.nan
    sender_fault: str = ''
    sender_jitter_s: float = 0.0
