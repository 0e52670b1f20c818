# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Other rules for one-way stamps, written from their descriptions, to compare with."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

Place = Callable[[int, int], float]
"""(sender time, arrival) to a place on the arrival clock, all ns."""


def original(samples: int = 100) -> Place:
    """Return the original optitrack_vrpn's rule: least offset of the first, then constant."""
    left, least = samples, float('inf')

    def place(sender_time: int, arrival: int) -> float:
        nonlocal left, least
        if left:
            left -= 1
            least = min(least, arrival - sender_time)
            return arrival
        return sender_time + least

    return place


def sliding_minimum(seconds: float) -> Place:
    """Return the rule that takes the least offset of the last seconds."""
    window: deque[tuple[int, int]] = deque()
    span = seconds * 1e9

    def place(sender_time: int, arrival: int) -> float:
        offset = arrival - sender_time
        while window and window[-1][1] >= offset:
            window.pop()
        window.append((arrival, offset))
        while window[0][0] < arrival - span:
            window.popleft()
        return sender_time + window[0][1]

    return place


def olson(rate: float = 100e-6) -> Place:
    """
    Return the rule of Olson, "A passive solution to the sensor synchronization problem", 2010.

    The offset falls to any arrival below it and rises by no more than the clocks can differ.
    """
    offset = last = 0.0
    known = False

    def place(sender_time: int, arrival: int) -> float:
        nonlocal offset, last, known
        seen = arrival - sender_time
        risen = offset + rate * abs(sender_time - last)
        offset = seen if not known or seen < risen else risen
        last, known = sender_time, True
        return sender_time + offset

    return place


def two_hulls(seconds: float = 100.0) -> Place:
    """
    Return the rule of cuckoo_time_translator: two lower convex hulls that take turns.

    Each collects for twice the switching time and is read in the second half; the line is that of
    the hull's edge in the middle of its time (Zhang, Liu, Xia 2002).
    """
    span = seconds * 1e9
    hulls: list[list[tuple[int, int]]] = [[], []]
    switch: int | None = None

    def add(hull: list[tuple[int, int]], x: int, y: int) -> None:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2], hull[-1]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        if not hull or x > hull[-1][0]:
            hull.append((x, y))

    def place(sender_time: int, arrival: int) -> float:
        nonlocal switch
        offset = arrival - sender_time
        if switch is None:
            switch = sender_time
        if sender_time - switch > span:
            hulls[0], hulls[1] = hulls[1], []
            switch = sender_time
        for hull in hulls:
            add(hull, sender_time, offset)
        hull = hulls[0]
        if len(hull) < 2:
            return sender_time + hull[0][1]
        middle = (hull[0][0] + hull[-1][0]) >> 1
        low, high = 0, len(hull) - 1
        while high - low > 1:
            half = (low + high) >> 1
            if hull[half][0] <= middle:
                low = half
            else:
                high = half
        (x0, y0), (x1, y1) = hull[low], hull[low + 1]
        return sender_time + y0 + (sender_time - x0) * ((y1 - y0) / (x1 - x0))

    return place


BASELINES: dict[str, Callable[[], Place]] = {
    'original': original,
    'minimum 5 s': lambda: sliding_minimum(5.0),
    'minimum 30 s': lambda: sliding_minimum(30.0),
    'Olson 2010': olson,
    'two hulls': two_hulls,
}
