# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Whether messages get lost on the way now, from counters that know only how many did so far.

Pure: whoever reports the counters, about once a second, hands them on with the present.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.throttle import Throttle

#: Time over which losses are looked at (s).
WINDOW_S = 5.0
#: A share above the one is worth a warning, until it is below the other.
MUCH, LITTLE = 0.03, 0.01
#: Fewer messages than this are no pattern.
ENOUGH = 10
_REPEAT_S = 60.0


class Remark(NamedTuple):
    """
    Something about losses that a user wants to read once.

    :ivar severity: 'info' or 'warn'.
    :ivar text: one sentence.
    """

    severity: str
    text: str


class _Look(NamedTuple):
    """The counters at one moment."""

    now_ns: int
    messages: int
    lost: int
    unread: int


class LossWatch:
    """
    Follow which share of a server's messages is lost.

    :ivar share: of the messages of the last ``WINDOW_S``; NaN while that is not known.
    :ivar trouble: what is wrong and what to do, '' while all is well.
    """

    def __init__(self) -> None:
        self.share = math.nan
        self.trouble = ''
        self._looks: deque[_Look] = deque()
        self._throttle = Throttle(_REPEAT_S)
        self._told = False

    def look(
        self, counters: Mapping[str, int], dropped_unread: int, now_ns: int,
    ) -> Optional[Remark]:
        """
        Take the counters of the connection.

        :param counters: of all conversations; of a backend that counts no losses, none are seen.
        :param dropped_unread: datagrams that the kernel had no room for in this conversation.
        :param now_ns: the present on any clock that does not step.
        :returns: what to log: when losses begin, and when they are over.
        """
        looks = self._looks
        new = _Look(now_ns, counters.get('messages', 0), counters.get('udp_lost', 0),
                    dropped_unread)
        looks.append(new)
        window_ns = round(WINDOW_S * 1e9)
        # Looks come a little early or late: what is nearer to the window's length is kept.
        while len(looks) > 2 and now_ns - looks[1].now_ns >= 0.95 * window_ns:
            looks.popleft()
        old = looks[0]
        came, lost = new.messages - old.messages, max(new.lost - old.lost, 0)
        # A part of the window proves nothing: what is overtaken counts as lost until it comes.
        if now_ns - old.now_ns < 0.95 * window_ns or came + lost < ENOUGH:
            self.share, self.trouble = math.nan, ''
            return None
        self.share = lost / (came + lost)
        if self.share < LITTLE:
            return self._over()
        if not self.trouble and (self.share <= MUCH or lost < ENOUGH):
            return None
        unread = new.unread - old.unread if new.unread >= old.unread else new.unread
        return self._lasts(self.share, unread > 0)

    def _lasts(self, share: float, unread: bool) -> Optional[Remark]:
        begins = not self.trouble
        lost = f'{share:.0%} of the messages of the last {WINDOW_S:g} s were lost'
        self.trouble = (
            f'{lost}, since this machine had no room for datagrams: something keeps it too busy '
            'to read; look at its load' if unread else
            f'{lost} on the way: a cable in place of WLAN, a switch of its own; or connection: '
            'tcp, which loses nothing but comes late')
        if begins and self._throttle.allow('lost', self._looks[-1].now_ns) is not None:
            self._told = True
            return Remark('warn', f'lossy: {self.trouble}')
        return None

    def _over(self) -> Optional[Remark]:
        self.trouble = ''
        if not self._told:
            return None
        self._told = False
        return Remark(
            'info', f'lossy no more: hardly any message of the last {WINDOW_S:g} s was lost')
