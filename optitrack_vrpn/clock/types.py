# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What goes into the stamps (settings) and what comes out beside them (events, status)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
import math
from typing import NamedTuple

from optitrack_vrpn.errors import ConfigurationError

MODES = ('tracking', 'min_offset', 'arrival', 'sender')

# Why an epoch ended.
SENDER_RESTARTED = 'sender_restarted'
HOST_STEPPED = 'host_stepped'
GAP = 'gap'
RECONNECTED = 'reconnected'
WORTHLESS = 'sender_times_worthless'

# What a sender's times count from.
UNKNOWN_BASE = 'unknown'
SENDER_START = 'sender_start'
UNIX_EPOCH = 'unix_epoch'


@dataclass(frozen=True)
class StampConfig:
    """
    How a frame is stamped.

    :raises ConfigurationError: if a value is out of its range.
    """

    mode: str = 'tracking'
    """One of ``tracking``, ``min_offset``, ``arrival``, ``sender``; see docs/stamps.md."""
    offset_samples: int = 100
    """Messages from which ``min_offset`` takes its constant."""
    latency_ms: float = 0.0
    """Milliseconds from exposure to the earliest possible arrival; taken off every stamp but
    those of ``sender``."""
    max_gap_s: float = 30.0
    """Seconds without a frame, on both clocks, after which ``tracking`` ends the epoch."""

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ConfigurationError(
                f'stamps.mode is {self.mode!r}: choose one of {", ".join(MODES)}')
        if isinstance(self.offset_samples, bool) or not isinstance(self.offset_samples, int):
            raise ConfigurationError(
                f'stamps.offset_samples is {self.offset_samples!r}: give a whole number')
        if not 1 <= self.offset_samples <= 1_000_000:
            raise ConfigurationError(
                f'stamps.offset_samples is {self.offset_samples}: choose 1 to 1000000 messages')
        if not 0.0 <= self.latency_ms <= 1000.0:
            raise ConfigurationError(
                f'stamps.latency_ms is {self.latency_ms}: choose 0 to 1000 ms')
        if not 1.0 <= self.max_gap_s <= 3600.0:
            raise ConfigurationError(
                f'stamps.max_gap_s is {self.max_gap_s}: choose 1 to 3600 s')


class ClockEvent(NamedTuple):
    """Something about the clocks that a user wants to read once."""

    kind: str
    """``epoch_ended``, ``base_recognised`` or ``learnt``."""
    reason: str
    """For ``epoch_ended`` the reason, for ``base_recognised`` the base, else the mode."""
    epoch: int
    """The epoch that begins or goes on with this event, counted from 0."""
    text: str
    """One sentence with values and units."""
    fell: bool = False
    """Whether the sender's time fell: frames of before lie in its future."""


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
    """Half-width in which the stamp's error lies nearly always; NaN if unknown (s). The
    resolution of the sender's times is left out. Where round trips are measured, the least delay
    of the network is known and its asymmetry is included; else that delay is left out."""
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
