# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What the node knows of itself, as names, levels and values for people and monitors (REP 107).

Pure: takes snapshots, gives entries; the ROS side turns them into diagnostic_msgs.
"""

import enum
import math
from typing import Mapping, NamedTuple

from optitrack_vrpn.core.body.states import BodyStatus, State
from optitrack_vrpn.core.clock import ClockStatus
from optitrack_vrpn.core.link import LinkState
from optitrack_vrpn.core.names import printable


class Level(enum.IntEnum):
    """Levels of diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


class Entry(NamedTuple):
    """
    One diagnostic.

    :ivar name: what it is about.
    :ivar level: how it stands.
    :ivar message: one short line.
    :ivar values: details; keys carry their unit.
    """

    name: str
    level: Level
    message: str
    values: dict[str, str]


#: How each state of the connection is judged.
_LINK_LEVELS = {
    LinkState.STREAMING: Level.OK,
    LinkState.CONNECTED: Level.WARN,
    LinkState.SILENT: Level.WARN,
    LinkState.RESOLVING: Level.WARN,
    LinkState.REQUESTING: Level.WARN,
    LinkState.CONNECTING: Level.WARN,
    LinkState.HANDSHAKING: Level.WARN,
    LinkState.LOST: Level.ERROR,
    LinkState.REFUSED: Level.ERROR,
    LinkState.STOPPED: Level.ERROR,
}


def number(value: float, digits: int = 3) -> str:
    """Write a number for a table; what is not known is ``unknown``."""
    return f'{value:.{digits}f}' if math.isfinite(value) else 'unknown'


def link_entry(
    state: LinkState, reason: str, values: Mapping[str, object], counters: Mapping[str, int],
) -> Entry:
    """
    Report the connection.

    :param values: way, server, sessions and the like.
    :param counters: the protocol's counters.
    """
    details = {name: str(value) for name, value in values.items()}
    details.update({name: str(count) for name, count in counters.items()})
    return Entry(
        'connection', _LINK_LEVELS[state], f'{state.value}: {printable(reason, 200)}', details)


def clock_entry(status: ClockStatus) -> Entry:
    """Report what is known of the sender's clock."""
    level, message = Level.OK, f'{status.mode}, epoch {status.epoch}'
    if not status.samples:
        level, message = Level.WARN, f'{status.mode}, no frame yet'
    elif not status.learnt:
        message += ', learning'
    values = {
        'mode': status.mode,
        'epoch': str(status.epoch),
        'learnt': str(status.learnt).lower(),
        'offset_s': f'{status.offset_ns / 1e9:.9f}',
        'skew_ppm': number(status.skew_ppm),
        'uncertainty_us': number(status.uncertainty_s * 1e6, 1),
        'arrival_jitter_std_us': number(status.jitter_std_s * 1e6, 1),
        'arrival_jitter_p99_us': number(status.jitter_p99_s * 1e6, 1),
        'sender_base': status.sender_base,
        'samples': str(status.samples),
        'refused': str(status.refused),
    }
    values.update({
        f'epochs_ended_{reason}': str(count) for reason, count in status.restarts.items()})
    return Entry('clock', level, message, values)


def body_entry(
    name: str, status: BodyStatus, too_old: int, lowpass_delay_s: float = 0.0,
) -> Entry:
    """
    Report one body.

    :param name: its name in ROS.
    :param too_old: poses that arrived too long after their stamp.
    :param lowpass_delay_s: group delay of the low-pass, 0 where there is none.
    """
    level = {State.TRACKED: Level.OK, State.STALE: Level.STALE}.get(status.state, Level.WARN)
    values = {
        'motive_name': printable(status.name),
        'state': status.state.value,
        'rate_hz': number(status.rate_hz, 1),
        'age_s': number(status.age_s),
        'published': str(status.published),
        'resets': str(status.resets),
        'gaps': str(status.gaps),
        'lost_frames': str(status.lost),
        'too_old': str(too_old),
    }
    if lowpass_delay_s:
        values['lowpass_delay_s'] = number(lowpass_delay_s, 4)
    values.update({f'withheld_{reason}': str(n) for reason, n in status.withheld.items()})
    return Entry(
        f'body {name}', level, f'{status.state.value}: {printable(status.detail, 200)}', values)
