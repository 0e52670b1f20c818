# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Keep a log readable: the same thing is said at most so often, and what was left out counted."""

from typing import Hashable, Optional


class Throttle:
    """
    Decide what may be said again.

    :param period_s: the same key is let through once in this time.
    :param most_keys: keys remembered; when there are more, the oldest is forgotten.
    """

    def __init__(self, period_s: float, most_keys: int = 1000) -> None:
        self._period_ns = round(period_s * 1e9)
        self._most_keys = most_keys
        self._said: dict[Hashable, tuple[int, int]] = {}

    def allow(self, key: Hashable, now_ns: int) -> Optional[int]:
        """
        Ask whether something may be said now.

        :param key: what it is about.
        :param now_ns: the present on any clock that does not step.
        :returns: how often it was left out since it was last said, or None to leave it out.
        """
        last_ns, left_out = self._said.get(key, (now_ns - self._period_ns, 0))
        if now_ns - last_ns < self._period_ns:
            self._said[key] = (last_ns, left_out + 1)
            return None
        self._said.pop(key, None)
        if len(self._said) >= self._most_keys:
            del self._said[next(iter(self._said))]
        self._said[key] = (now_ns, 0)
        return left_out
