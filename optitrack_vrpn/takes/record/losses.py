# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Faults before the recorder: messages lost by the middleware, steps of the system clock."""

from __future__ import annotations

from dataclasses import dataclass

#: A change (ns) of system clock minus monotonic clock between two calls that is a step. Linux
#: slews both clocks alike (clock_gettime(2)), so that slewing does not change the difference.
#: Chosen: several times the error of a reading.
STEP_NS = 5_000_000
#: Chosen: publishers of a topic that are told apart, and jumps that can still be explained by
#: another one; a larger gap is that of another publisher (seven minutes of a body at 240 Hz).
_MOST_PUBLISHERS, _MOST_JUMPS = 8, 16
_MOST_LOST = 100_000
#: Chosen: stored clock steps.
_MOST_STEPS = 100
#: Chosen: stored losses (topics times seconds); later ones are only counted.
_MOST_LOSSES = 2000


@dataclass
class _Jump:
    """
    A number that is the next one of no known publisher.

    :ivar candidates: numbers that were expected then, below it.
    :ivar taken: the one whose publisher is taken to have lost messages; None for a new publisher.
    """

    number: int
    at_ns: int
    candidates: list[int]
    taken: int | None = None


class SequenceWatch:
    """
    Count the messages of a topic that the middleware lost, from the publication sequence numbers.

    Each publisher numbers its own messages, and a message does not name its publisher. A number
    that is the next one of no known publisher is taken for a loss of the publisher whose expected
    number is the nearest below it. If that number comes later, that publisher lost nothing: the
    loss is of the publisher below, or the number was the first of a new publisher. If several
    publishers lose messages at once, their shares can be mixed up; the sum is right. A loss is
    hidden where it ends at a number that another publisher was expected to send.

    :ivar lost: messages that never came.
    :ivar next: the number that is expected after the last one; -1 without any.
    :ivar uncountable: why losses were not counted; '' if they were.
    """

    def __init__(self) -> None:
        self.lost = 0
        self.next = -1
        self.uncountable = ''
        #: Expected numbers of the other publishers, the latest last; also those at which losses of
        #: ``_jumps`` began, and those of publishers that have ended.
        self._others: list[int] = []
        self._jumps: list[_Jump] = []

    def note(self, number: int | None, at_ns: int = 0) -> list[tuple[int, int]]:
        """
        Take the number of a message; None where the middleware gives none.

        :param at_ns: its arrival.
        :returns: changes of ``lost``, and when they happened.
        """
        if number is None:
            self.uncountable = 'the middleware does not number the messages'
            return []
        known = [*self._others, self.next] if self.next >= 0 else []
        changes: list[tuple[int, int]] = []
        if number in known:
            known.remove(number)
            # A number that is expected twice shows nothing: the other publisher may send it yet.
            for jump in () if number in known else self._jumps:
                if number in jump.candidates:    # it was not of this publisher
                    jump.candidates.remove(number)
                    if jump.taken == number:
                        changes.append((number - jump.number, jump.at_ns))
                        changes += self._take(jump)
        else:
            if len(self._jumps) == _MOST_JUMPS:
                self._settle(known)
            jump = _Jump(number, at_ns, [
                one for one in known if 0 < number - one <= _MOST_LOST])
            self._jumps.append(jump)
            changes += self._take(jump)
        # The losses of one publisher must not displace another that sends rarely.
        begun = {jump.taken for jump in self._jumps}
        free = [one for one in known if one not in begun]
        for one in free[:-_MOST_PUBLISHERS]:
            known.remove(one)
        self._others = known
        self.next = number + 1
        self.lost += sum(count for count, _ in changes)
        return changes

    def _settle(self, known: list[int]) -> None:
        """Leave the oldest jump as it is explained: no publisher sends its number later."""
        taken = self._jumps.pop(0).taken
        for numbers in (known, *(jump.candidates for jump in self._jumps)):
            if taken in numbers:
                numbers.remove(taken)

    def _take(self, jump: _Jump) -> list[tuple[int, int]]:
        """Choose whose loss a jump is; return the loss."""
        jump.taken = None
        taken = [one.taken for one in self._jumps]
        free = [one for one in jump.candidates if one not in taken]
        if not free:
            return []
        jump.taken = max(free)
        return [(jump.number - jump.taken, jump.at_ns)]

    def forget(self) -> None:
        """Take note that there is no publisher: the next number is that of a new one."""
        self.next, self._others, self._jumps = -1, [], []

    def restart(self) -> None:
        """Begin to count for another recording."""
        self.lost, self.uncountable, self._jumps = 0, '', []


class LossTimes:
    """
    Add up losses per topic and second, so that a report can tell when they were.

    :ivar lost: number of lost messages by second of the Unix epoch and topic.
    """

    def __init__(self) -> None:
        self.lost: dict[tuple[int, str], int] = {}

    def note(self, topic: str, count: int, at_ns: int) -> None:
        """
        Take a loss.

        :param at_ns: arrival of the first message after it, ns since the Unix epoch.
        """
        key = (at_ns // 1_000_000_000, topic)
        if key in self.lost or len(self.lost) < _MOST_LOSSES:
            self.lost[key] = self.lost.get(key, 0) + count

    def text(self) -> str:
        """Return it as ``second topic count`` separated by commas, in the order of time."""
        return ', '.join(f'{second} {topic} {count}'
                         for (second, topic), count in sorted(self.lost.items()) if count)


class ClockSteps:
    """
    Detect steps of the system clock.

    :ivar steps: pairs of system time after the step (ns) and size of the step (ns).
    """

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []
        self._difference_ns: int | None = None

    def look(self, system_ns: int, difference_ns: int) -> int:
        """
        Compare the clocks; call it every second or more often.

        :param difference_ns: system clock minus a monotonic clock, see ``clock.difference``.
        :returns: a step since the last look (ns), 0 for none.
        """
        before, self._difference_ns = self._difference_ns, difference_ns
        if before is None or abs(difference_ns - before) < STEP_NS:
            return 0
        if len(self.steps) < _MOST_STEPS:
            self.steps.append((system_ns, difference_ns - before))
        return difference_ns - before
