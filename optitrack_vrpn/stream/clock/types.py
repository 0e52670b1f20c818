# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the stamps, reasons for the end of an epoch, changes and status of the clocks."""

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
RECONNECTED = 'reconnected'
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
    in_covariance: bool = setting(False, doc=(
        "add the stamp's uncertainty to the pose covariance of odom: position and attitude moved "
        'by velocity times that error'))


class ClockChange(NamedTuple):
    """What happened to the clocks: ``data`` of the ``Event`` that reports it."""

    kind: str
    """``epoch_ended``, ``base_recognised``, ``learnt`` or ``coarse_sender``."""
    reason: str
    """For ``epoch_ended`` the reason, for ``base_recognised`` the base, for ``coarse_sender``
    ``ticks`` or ``jitter``, else the mode."""
    epoch: int
    """The epoch that begins or goes on with this event, counted from 0."""
    fell: bool = False
    """Whether the sender's time fell: earlier frames are in its future."""


class ClockStatus(NamedTuple):
    """What is known of the sender's clock now."""

    mode: str
    epoch: int
    """Counted from 0."""
    learnt: bool
    """False while the offset is still being learnt: ``min_offset`` gives arrival times until
    then, ``tracking`` stamps by a line of less than 3 s; always False for ``arrival``."""
    offset_ns: int
    """Host time minus sender time of the newest frame, as stamped (ns)."""
    skew_ppm: float
    """How much faster the arrival clock runs than the sender's (parts per million)."""
    uncertainty_s: float
    """Half-width that nearly always contains the stamp's error; NaN if unknown (s).
    Ticks and jitter of the sender's times are included. Where round trips are measured, the least
    delay of the network is known and its asymmetry is included; else that delay is left out."""
    restarts: Mapping[str, int]
    """Epochs ended, by reason."""
    samples: int
    """Distinct frames learnt from in this epoch."""
    sender_base: str
    """``unix_epoch``, ``sender_start`` or ``unknown``."""
    jitter_std_s: float
    """Standard deviation of arrival minus stamp over the last frames (s)."""
    jitter_p99_s: float
    """99 % of the last frames arrived no later than this after their stamp (s)."""
    refused: int
    """Times that could not be stamped: absurd, or too late to place."""
    network_delay_s: float = math.nan
    """Least delay of the network, taken off the stamps, where round trips show it (s)."""
    round_trip_s: float = math.nan
    """Shortest round trip of late (s)."""
    sender_tick_s: float = 0.0
    """Size of the ticks in which the sender's clock advances (s); 0 where none are seen."""
    sender_jitter_s: float = math.nan
    """Standard deviation of the sender's times about a steady rate (s); NaN where they have
    none."""
    smoothed: bool = False
    """Whether that rate gives the stamps, in place of the sender's times."""
