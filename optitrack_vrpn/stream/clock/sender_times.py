# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Judge once, from the first frames of a body, whether a sender's times show when they were taken.

Cameras run at a constant rate, so that intervals are whole frames. Where the sender's clock ticks
at half a frame or more, or its times jitter by more than a frame, arrivals that keep the rate
better are more exact. Ticks show in the intervals of the times, less whole frames; in times that
repeat for different poses; or in arrivals of another interval (240 Hz in ticks of 4 ms with losses
looks like 250 Hz).
"""

from __future__ import annotations

from collections.abc import Sequence
import math
import statistics
from typing import Any, NamedTuple

from optitrack_vrpn.stream.clock.limits import JUDGED, PACE, RESOLUTION_NS, SECOND_NS


class Judgement(NamedTuple):
    """
    Whether the sender's times are usable, and how exact they are.

    :ivar fault: why stamps do not follow them; '' if they do.
    :ivar size_ns: size of the ticks or of the jitter (ns).
    :ivar spread_ns: by how much arrivals spread about a steady rate (ns).
    :ivar frame_ns: interval of the frames by their arrivals (ns).
    """

    fault: str = ''
    size_ns: float = 0.0
    spread_ns: float = 0.0
    frame_ns: float = 0.0


class SenderTimes:
    """Collect the times of the first frames, for each body, until one body has enough."""

    def __init__(self) -> None:
        self._rows: dict[Any, list[tuple[int, int, Any]]] = {}

    def add(
        self, body: Any, pose: Any, sender_ns: int, arrival_ns: int, fresh: bool,
    ) -> Judgement | None:
        """
        Add a pose; repeats of a pose at an equal time are left out, since networks repeat frames.

        :param fresh: whether it is fresh; the arrivals of others are not used, unless their time
            does not change.
        :returns: the judgement, once; then the caller drops this object.
        """
        rows = self._rows.setdefault(body, [])
        if rows and (sender_ns < rows[-1][0] or (not fresh and sender_ns > rows[-1][0])):
            rows.clear()
        if rows and sender_ns == rows[-1][0] and pose == rows[-1][2]:
            return None
        rows.append((sender_ns, arrival_ns, pose))
        sent_ns, waited_ns = sender_ns - rows[0][0], arrival_ns - rows[0][1]
        if sent_ns == 0:
            return Judgement(
                'the sender sends no times, and poses that waited in a buffer cannot be recognised'
            ) if waited_ns > SECOND_NS else None
        return judge(rows) if len(rows) >= JUDGED else None


def judge(rows: Sequence[tuple[Any, ...]]) -> Judgement:
    """
    Judge sender times and arrivals (ns) of the frames of one body.

    :param rows: in order; not all times are equal.
    """
    steps = [after[0] - before[0] for before, after in zip(rows, rows[1:])]
    waits = [after[1] - before[1] for before, after in zip(rows, rows[1:])]
    rising = sorted(step for step in steps if step > 0)
    typical = float(rising[len(rising) // 2])
    single = [wait for step, wait in zip(steps, waits) if 2 * step < 3 * typical]
    frame = statistics.fmean(single)
    size, spread = _spread(steps, typical), _spread(waits, max(frame, 1.0))
    if size <= 2 * RESOLUTION_NS:
        # All times are at whole intervals: those of the frames, or of ticks. The longest wait,
        # as between two polls, is used also if a frame was lost in it.
        longest = typical + max(wait - step for step, wait in zip(steps, waits))
        error = max(PACE * typical, 4.0 * statistics.pstdev([*single, longest]) / math.sqrt(
            len(single)))
        size = typical if abs(frame - typical) > error else 0.0
    # Where arrivals are as irregular, cameras are triggered, or frames are stamped and sent late.
    usable = 2 * size < typical or size < 2 * spread
    return Judgement(
        '' if usable else f"the sender's times tick or jitter by {size * 1e-6:.3g} ms",
        size, spread, frame)


def _spread(intervals: Sequence[int], frame: float) -> float:
    """Return by how much intervals, less whole frames, spread (ns), but for single ones."""
    off = sorted(each - round(each / frame) * frame for each in intervals)
    return off[-2] - off[1]
