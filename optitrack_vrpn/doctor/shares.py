# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Shares of lost, missing and late frames, and their wording, for all checks of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from optitrack_vrpn.doctor.probe_results import ProbeResults, Stream
from optitrack_vrpn.doctor.stream_statistics import Intervals

#: Share of poses or of time below which a fault is not reported. Chosen: usual wireless losses
#: stay below. Halved, these are reported; doubled, one lost frame in 60 is not.
MUCH = 0.01
#: Fewest frames that are reported as a fault. Chosen; halved, single frames are; doubled, short
#: runs of the doctor report less.
ENOUGH_FRAMES = 3
#: Share above which a text says "every frame". Chosen. Twice as far from 1, "every frame" includes
#: 90 % of the frames; half as far, 97.5 % at least. Only the wording changes.
NEARLY_ALL = 0.95
#: Shortest silence at the end that is reported (s). Chosen: longer than a scheduling delay.
#: Halved, a busy computer is reported; doubled, a server that stops at the end is not.
QUIET_S = 0.5
#: Fewest poses from which a fault of the server is concluded. Chosen; halved, chance can look like
#: a fault; doubled, slow servers need a longer run.
ENOUGH_POSES = 10
BY_ARRIVAL = 'set stamps.mode: arrival, which does not use the times of the server'


def established(probed: ProbeResults) -> Optional[Stream]:
    """Return the stream if the handshake succeeded."""
    stream = probed.stream
    return stream if stream is not None and stream.attempt.version is not None else None


def lost_share(stream: Stream) -> float:
    """Compute the share of poses that the network lost."""
    lost = stream.counters.get('udp_lost', 0)
    return lost / (lost + max(stream.poses, 1))


def losses(share: float, unread: int, otherwise: str) -> list[tuple[str, str]]:
    """
    Describe lost poses or frames, with the remedy.

    :param unread: datagrams that the receive buffer could not hold.
    :param otherwise: remedy besides a better network.
    """
    if share <= MUCH:
        return []
    if unread:
        return [(f'{percent(share)} were lost because the receive buffer of this machine was full',
                 'this machine is too busy to read: reduce its load')]
    return [(f'{percent(share)} were lost in the network',
             f'use a cable instead of WiFi, and a separate switch; {otherwise}')]


def missing_share(intervals: Intervals) -> float:
    """Compute the share of a body's frames that are missing in short gaps."""
    if intervals.missing < ENOUGH_FRAMES:
        return 0.0
    return intervals.missing / (intervals.missing + intervals.frames)


def common_share(stream: Stream) -> float:
    """Compute the share of frames that are missing for every body."""
    return min((missing_share(intervals) for intervals in stream.intervals.values()
                if intervals.frames >= ENOUGH_POSES), default=0.0)


def unsent_share(stream: Stream) -> float:
    """Compute the share of frames that were never sent; 0 below the detection limit."""
    lost = lost_share(stream)
    unsent = common_share(stream) - lost
    # Loss is counted in messages, not frames, so that the two may differ by this much.
    return unsent if unsent > MUCH + 0.2 * lost else 0.0


def silence(intervals: Intervals) -> str:
    """Describe the silences, of which there is at least one."""
    if intervals.silences == 1:
        return f'{intervals.longest_s:.2f} s'
    return (f'up to {intervals.longest_s:.2f} s at a time, {intervals.silences} times, '
            f'{percent(intervals.silent_s / intervals.span_s)} of the time')


def percent(share: float) -> str:
    """Write a share, with a digit more where it is small."""
    return f'{share:.1%}' if share < 0.1 else f'{share:.0%}'


def sentences(texts: Iterable[str]) -> str:
    """Join pieces of advice into sentences, each once."""
    first, *others = dict.fromkeys(texts)
    result = first
    for text in others:
        dot = '' if result.endswith(('?', '.', '!')) else '.'
        result += f'{dot} {text[:1].upper()}{text[1:]}'
    return result
