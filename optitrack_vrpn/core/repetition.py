# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Repetitions that a log leaves out.

Four rules decide what is written: an event is written once in a few seconds, a state when it
changes, a change of the connection once per outage, and a problem when it begins and when it ends.
The findings of the table of rules are evaluated periodically.
"""

from collections.abc import Hashable, Mapping
import re
from typing import Final, Generic, Optional, TypeVar

P = TypeVar('P')

#: Chosen: shortest time between two equal lines (s).
REPEAT_S: Final = 5.0
#: Chosen: time after which a continuing outage is written again, and after which a problem that
#: comes and goes is (s).
REMIND_S: Final = 60.0
#: Chosen: different states that are remembered; further ones are not written.
_MOST_STATES: Final = 100
#: Ports that the system chooses differ between attempts.
_PORT: Final = re.compile(r'port \d+')


class Throttle:
    """Limit lines of the same key to one per period (s); old keys are removed."""

    def __init__(self, period_s: float, most_keys: int = 1000) -> None:
        self._period_ns = round(period_s * 1e9)
        self._most_keys = most_keys
        self._written: dict[Hashable, tuple[int, int]] = {}

    def allow(self, key: Hashable, now_ns: int) -> Optional[int]:
        """
        Decide whether a line may be written now.

        :param now_ns: present time on a clock that does not step (ns).
        :returns: number of lines left out since the last one, or None to leave this one out.
        """
        last_ns, left_out = self._written.get(key, (now_ns - self._period_ns, 0))
        if now_ns - last_ns < self._period_ns:
            self._written[key] = (last_ns, left_out + 1)
            return None
        self._written.pop(key, None)
        if len(self._written) >= self._most_keys:
            del self._written[next(iter(self._written))]
        self._written[key] = (now_ns, 0)
        return left_out


class Repetition(Generic[P]):
    """Remember what was written, and decide about what comes next."""

    def __init__(self) -> None:
        self._events = Throttle(REPEAT_S)
        self.restart()

    def restart(self) -> None:
        """Forget all but events: a new configuration writes its first lines."""
        self._outage = Throttle(REMIND_S)
        self._flapping = Throttle(REPEAT_S)
        self._outage_written = True
        self._begun = Throttle(REMIND_S)
        self._present: dict[Hashable, tuple[P, bool]] = {}
        self._states: dict[Hashable, Hashable] = {}
        self._changes = Throttle(REPEAT_S)

    def event(self, key: Hashable, now_ns: int) -> Optional[int]:
        """Return how many events of a key were left out before this one; None to leave it out."""
        return self._events.allow(key, now_ns)

    def state(self, key: Hashable, state: Hashable, now_ns: Optional[int] = None) -> bool:
        """
        Return whether a state is written: it differs from the last one of its key.

        :param state: '' for nothing to write.
        :param now_ns: present time on a clock that does not step (ns); None to write each change.
            With it, a state that comes and goes is written once per ``REPEAT_S``; a state that
            stays is written by a later call.
        """
        before = self._states.get(key, '')
        if state == before or (
                key not in self._states and len(self._states) >= _MOST_STATES):
            return False
        if state != '' and now_ns is not None and (
                self._changes.allow((key, state), now_ns) is None):
            return False
        self._states[key] = state
        return state != ''

    def outage(
        self, state: Hashable, text: str, now_ns: int, fault: bool, connected: bool,
        streaming: bool,
    ) -> bool:
        """
        Return whether to write a change of the connection.

        Each state is written once per outage, and again once a minute while the outage lasts. Of a
        server that accepts and closes connections continuously, equal changes are written once in
        5 s. The end of a written outage is always written.

        :param fault: whether the change is a warning or an error.
        :param connected: whether the conversation begins; ``streaming``: whether poses arrive.
        """
        good = not fault and (connected or streaming)
        if good and connected:
            self._outage = Throttle(REMIND_S)
        key = state, _PORT.sub('port', text)
        often = (self._outage.allow(key, now_ns) is None
                 or self._flapping.allow(key, now_ns) is None)
        if often and not (good and self._outage_written):
            return False
        if fault:
            self._outage_written = True
        elif streaming:
            self._outage_written = False
        return True

    def problems(
        self, present: Mapping[Hashable, P], now_ns: int,
    ) -> tuple[dict[Hashable, P], dict[Hashable, P]]:
        """
        Compare the problems that are there now with those before.

        :param present: all of them, by a key that stays the same while a problem lasts.
        :returns: those whose begin is to be written, and those whose end is: of each the last
            form. One that comes and goes is written once a minute.
        """
        before, self._present = self._present, {}
        begins: dict[Hashable, P] = {}
        ends: dict[Hashable, P] = {}
        for key, problem in present.items():
            _, written = before.pop(key, (problem, False))
            if not written and self._begun.allow(key, now_ns) is not None:
                written = True
                begins[key] = problem
            self._present[key] = problem, written
        for key, (problem, written) in before.items():
            if written:
                ends[key] = problem
        return begins, ends
