# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Limit the rate of equal log messages, and count the suppressed ones."""

from typing import Hashable, Optional


class Throttle:
    """Limit messages of the same key to one per period (s); old keys are removed."""

    def __init__(self, period_s: float, most_keys: int = 1000) -> None:
        self._period_ns = round(period_s * 1e9)
        self._most_keys = most_keys
        self._said: dict[Hashable, tuple[int, int]] = {}

    def allow(self, key: Hashable, now_ns: int) -> Optional[int]:
        """
        Decide whether a message may be logged now.

        :param key: key of the message.
        :param now_ns: present time on a clock that does not step (ns).
        :returns: number of messages suppressed since the last one, or None to suppress this one.
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
