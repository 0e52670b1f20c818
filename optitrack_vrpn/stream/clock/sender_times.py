# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Judge once, from the first frames of a body, whether a sender's times tell when they were taken.

Cameras run at a constant rate. A sender whose clock ticks at half a frame or more, or whose times
jitter by more than a frame, tells less than the arrivals do. Its times repeat for different poses,
or their intervals, less whole frames, scatter while those of the arrivals do not follow, or
arrivals come in another interval than times (240 Hz in ticks of 4 ms with losses looks like 250
Hz).
"""

from __future__ import annotations

from collections.abc import Sequence
import math
from typing import Any, NamedTuple

from optitrack_vrpn.stream.clock.limits import JUDGED, RESOLUTION_NS, SECOND_NS


class Judgement(NamedTuple):
    """
    What the sender's times are worth.

    :ivar usable: whether stamps follow them.
    :ivar what: '' , 'no times', 'ticks' or 'jitter'.
    :ivar size_ns: size of the ticks or of the jitter (ns).
    :ivar spread_ns: by how much arrivals spread about a steady rate (ns).
    """

    usable: bool
    what: str = ''
    size_ns: float = 0.0
    spread_ns: float = 0.0


class SenderTimes:
    """Collect the times of the first frames, for each body, until one body has enough."""

    def __init__(self) -> None:
        self._rows: dict[Any, list[tuple[int, int]]] = {}
        self._last: dict[Any, Any] = {}

    def add(
        self, body: Any, pose: Any, sender_ns: int, arrival_ns: int, fresh: bool,
    ) -> Judgement | None:
        """
        Add a pose; repeats of a pose at an equal time are left out, since networks repeat frames.

        :param fresh: whether it is fresh; the arrivals of others say nothing, unless the time
            stands.
        :returns: the judgement, once; then this object has done its work.
        """
        rows = self._rows.setdefault(body, [])
        if rows and (sender_ns < rows[-1][0] or (not fresh and sender_ns > rows[-1][0])):
            rows.clear()
        if rows and sender_ns == rows[-1][0] and pose == self._last[body]:
            return None
        self._last[body] = pose
        rows.append((sender_ns, arrival_ns))
        if (len(rows) * 10 >= JUDGED and rows[0][0] == sender_ns
                and arrival_ns - rows[0][1] > SECOND_NS):
            return Judgement(False, 'no times')
        if len(rows) < JUDGED:
            return None
        if 2 * (arrival_ns - rows[0][1]) < sender_ns - rows[0][0]:
            rows.clear()    # they came at once
            return None
        return judge(rows)


def judge(rows: Sequence[tuple[int, int]]) -> Judgement:
    """
    Judge sender times and arrivals (ns) of the frames of one body.

    :param rows: in order.
    """
    steps = [(after[0] - before[0], after[1] - before[1])
             for before, after in zip(rows, rows[1:])]
    rising = sorted(step for step, _ in steps if step > 0)
    if not rising:
        return Judgement(False, 'no times')
    typical = float(rising[len(rising) // 2])
    single = [wait for step, wait in steps if step < 1.5 * typical]
    mean = math.fsum(single) / len(single)
    if len(rising) < 0.8 * len(steps):
        return Judgement(False, 'ticks', typical, _spread(steps, mean))
    if 4 * sorted(wait for _, wait in steps)[len(steps) // 2] < typical:
        return Judgement(True)    # arrivals come in bursts, and tell nothing
    # Lost frames are removed: what is left of an interval after whole frames.
    ordered = sorted(step - round(step / typical) * typical for step, _ in steps)
    size = ordered[-2] - ordered[1]
    if size > 4 * RESOLUTION_NS:
        # Where arrivals follow, cameras may be triggered, or frames are stamped and sent late.
        usable = size < 0.5 * typical or _follow(steps, mean) > 0.5
        return Judgement(usable, 'jitter' if _scatters(ordered) else 'ticks', size,
                         _spread(steps, mean))
    # Times all at whole frames: then arrivals come at that interval too, or it is that of ticks.
    scatter = math.sqrt(math.fsum((wait - mean) ** 2 for wait in single)) / len(single)
    if abs(mean - typical) > max(0.003 * typical, 4.0 * scatter):
        return Judgement(False, 'ticks', typical, _spread(steps, mean))
    return Judgement(True)


def _spread(steps: Sequence[tuple[int, int]], frame: float) -> float:
    """Return by how much arrivals spread about a steady rate (ns), but for single ones."""
    frame = max(frame, 1.0)
    late = sorted(wait - round(wait / frame) * frame for _, wait in steps)
    return late[-2] - late[1]


def _follow(steps: Sequence[tuple[int, int]], frame: float) -> float:
    """Return how much of a longer interval of times is in that of arrivals (0 to 1)."""
    near = [row for row in steps if row[1] < 1.5 * frame]
    if not near:
        return 0.0
    step, wait = (math.fsum(row[k] for row in near) / len(near) for k in (0, 1))
    energy = math.fsum((row[0] - step) ** 2 for row in near)
    return math.fsum((row[0] - step) * (row[1] - wait) for row in near) / max(energy, 1.0)


def _scatters(ordered: Sequence[float]) -> bool:
    """Return whether what is left of the intervals takes many values; ticks have two or three."""
    low, size = ordered[1], ordered[-2] - ordered[1]
    return sum(0.1 < (off - low) / size < 0.9 for off in ordered) * 3 > len(ordered)
