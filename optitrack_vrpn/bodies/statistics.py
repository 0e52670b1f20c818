# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Keep count of what became of a body's poses, and of the rate at which they come."""

from __future__ import annotations

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.states import Reason, State, StateChange
from optitrack_vrpn.motion.quaternion import Quat

NEVER_NS = 1 << 62
UNKNOWN_SILENCE_NS = 2_000_000_000
"""Silence that makes a body STALE before its rate is known."""
GAPS_TO_NEW_RATE = 8
"""So many gaps in a row are no gaps: the sender has slowed down."""


class Ledger:
    """
    Keep a body's state, counts and frame rate.

    :ivar name: the body's name, for events and status.
    :ivar config: the thresholds; change them with ``Body.reconfigure``.
    :ivar state: the present state.
    :ivar reason: why the last pose was withheld (valid after ``update`` returned None).
    :ivar events: changes of state not fetched by ``take_events`` yet.
    :ivar resets: discontinuities so far, see ``BodyStatus``.
    :ivar published: good poses so far.
    """

    __slots__ = (
        'name', 'config', 'state', 'reason', 'events', 'resets', 'published', '_patience',
        '_silence', '_interval', '_since', '_detail', '_counts', '_gaps', '_lost', '_gap_run',
        '_gap_at')

    def __init__(self, name: str, config: BodyConfig) -> None:
        """
        Open an empty ledger.

        :param name: the body's name.
        :param config: thresholds.
        """
        self.name = name
        self.config = config
        self.events: list[StateChange] = []
        self.state = State.NEW
        self.reason = Reason.ACQUIRING
        self.resets = 0
        self.published = 0
        # How long after the last pose the next may take the short way; below zero: none may.
        self._patience = -1
        self._silence = UNKNOWN_SILENCE_NS
        self._interval = 0.0
        self._since = -NEVER_NS
        self._detail = 'not seen yet'
        self._counts: dict[Reason, int] = {}
        self._gaps = self._lost = self._gap_run = 0
        self._gap_at = -2

    def take_events(self) -> list[StateChange]:
        """
        Fetch the changes of state since the last call.

        :returns: the changes, oldest first.
        """
        events, self.events = self.events, []
        return events

    @property
    def rate_hz(self) -> float:
        """Give the body's own frame rate by sender time (Hz); 0 when not known yet."""
        return 1e9 / self._interval if self._interval > 0.0 else 0.0

    def _withhold(self, reason: Reason) -> Quat | None:
        """Count a pose that does not go out."""
        self.reason = reason
        self._counts[reason] = self._counts.get(reason, 0) + 1
        return None

    def _change(self, state: State, time_ns: int, detail: str) -> None:
        """Change the state, and leave word of it if it is another one."""
        if state is not self.state:
            self.events.append(StateChange(self.name, time_ns, self.state, state, detail))
            self.state = state
            self._since = time_ns
            self._detail = detail

    def _measure_silence(self) -> None:
        """Work out the silence (ns) that makes the body STALE."""
        config = self.config
        if config.stale_after_s > 0:
            self._silence = round(config.stale_after_s * 1e9)
        elif config.stale_frames <= 0:
            self._silence = NEVER_NS
        elif self._interval > 0.0:
            self._silence = round(
                max(config.stale_min_s * 1e9, config.stale_frames * self._interval))
        else:
            self._silence = UNKNOWN_SILENCE_NS
        if self._patience >= 0:
            self._patience = self._silence

    def _measure_interval(self, dt: int, silent: bool = False) -> None:
        """
        Learn the frame interval from frames off the short way, and count what is missing.

        :param dt: since the frame before (ns).
        :param silent: whether that was silence, in which no frame is missing.
        """
        if self._interval <= 0.0 or (not self.published and 2.0 * dt < self._interval):
            # Until the body is TRACKED: the first interval may have been a gap.
            self._interval = float(dt)
            self._measure_silence()
        elif dt < 1.5 * self._interval:
            self._interval += 0.1 * (dt - self._interval)
        else:
            seen = self.published
            self._gap_run = self._gap_run + 1 if seen <= self._gap_at + 1 else 1
            self._gap_at = seen
            if not silent:
                self._gaps += 1
            if not silent and dt < self.config.memory_s * 1e9:
                self._lost += round(dt / self._interval) - 1
            if self._gap_run >= GAPS_TO_NEW_RATE:
                self._interval = float(dt)
                self._measure_silence()
