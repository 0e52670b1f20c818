# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What share of frames went wrong and how, and the words for it: for all checks of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from optitrack_vrpn.doctor.probe_results import Facts, Stream
from optitrack_vrpn.doctor.stream_statistics import Pace

#: What may be wrong now and then (share of poses or of the time) without a word.
MUCH = 0.01
#: Fewer frames than this are no pattern.
ENOUGH_FRAMES = 3
NEARLY_ALL = 0.95
#: Silence at the end that is worth a word (s): no hiccup of this machine's.
QUIET_S = 0.5
#: Poses that must have come before anything is held against the server.
ENOUGH_POSES = 10
BY_ARRIVAL = 'set stamps.mode: arrival, which does without the times of the server'


def established(facts: Facts) -> Optional[Stream]:
    """Give the conversation, if it got past the handshake."""
    stream = facts.stream
    return stream if stream is not None and stream.attempt.version is not None else None


def lost_share(stream: Stream) -> float:
    """Tell which share of the poses was lost on the way."""
    lost = stream.counters.get('udp_lost', 0)
    return lost / (lost + max(stream.poses, 1))


def missing_share(pace: Pace) -> float:
    """Tell which share of a body's frames is missing in short holes."""
    if pace.missing < ENOUGH_FRAMES:
        return 0.0
    return pace.missing / (pace.missing + pace.frames)


def common_share(stream: Stream) -> float:
    """Tell which share of the frames is missing of every body."""
    return min((missing_share(pace) for pace in stream.paces.values()
                if pace.frames >= ENOUGH_POSES), default=0.0)


def unsent_share(stream: Stream) -> float:
    """Tell which share of the frames no body was sent in; 0 for hardly any."""
    lost = lost_share(stream)
    unsent = common_share(stream) - lost
    # What was lost is known in messages and not in frames: so far the two may differ.
    return unsent if unsent > MUCH + 0.2 * lost else 0.0


def silence(pace: Pace) -> str:
    """Describe the silences, of which there is at least one."""
    if pace.silences == 1:
        return f'{pace.longest_s:.2f} s'
    return (f'up to {pace.longest_s:.2f} s at a time, {pace.silences} times, '
            f'{percent(pace.silent_s / pace.span_s)} of the time')


def percent(share: float) -> str:
    """Write a share, with a digit more where it is small."""
    return f'{share:.1%}' if share < 0.1 else f'{share:.0%}'


def sentences(texts: Iterable[str]) -> str:
    """Put pieces of advice one behind the other, each of them once."""
    first, *others = dict.fromkeys(texts)
    result = first
    for text in others:
        dot = '' if result.endswith(('?', '.', '!')) else '.'
        result += f'{dot} {text[:1].upper()}{text[1:]}'
    return result
