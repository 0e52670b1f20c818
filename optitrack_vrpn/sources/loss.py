# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Share of lost messages in the last seconds, from cumulative counters; warning with remedy.

Pure: the caller passes the counters and the present time about once a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
import math
from typing import NamedTuple, Optional

from optitrack_vrpn.events import Event
from optitrack_vrpn.throttle import Throttle

#: Chosen: length of the window (s).
WINDOW_S = 5.0
#: Chosen: shares of lost messages that start and end a warning, with hysteresis between them.
WARN_SHARE, CLEAR_SHARE = 0.03, 0.01
#: Chosen: smallest number of messages, and of lost messages, from which a share is computed.
FEWEST_MESSAGES = 10
#: Chosen: shortest time between two warnings (s).
_REPEAT_S = 60.0


class _Sample(NamedTuple):
    """The counters at one time."""

    now_ns: int
    messages: int
    lost: int
    unread: int


class LossWatch:
    """
    Monitor the share of a server's messages that is lost.

    :ivar share: share of lost messages in the last ``WINDOW_S``; NaN while unknown.
    :ivar trouble: the fault and its remedy; '' without a fault.
    """

    def __init__(self) -> None:
        self.share = math.nan
        self.trouble = ''
        self._samples: deque[_Sample] = deque()
        self._throttle = Throttle(_REPEAT_S)
        self._reported = False

    def update(
        self, counters: Mapping[str, int], dropped_unread: int, now_ns: int,
        transport: str = 'udp',
    ) -> Optional[Event]:
        """
        Process the counters of the connection.

        :param counters: counters of all conversations; a backend without loss counters causes no
            events.
        :param dropped_unread: datagrams that the kernel dropped because its buffer was full, in
            this conversation.
        :param now_ns: present time on a clock that does not step (ns).
        :param transport: that of the connection; VRPN by 'udp' can use TCP instead.
        :returns: the event to log when losses begin or end, else None.
        """
        samples = self._samples
        new = _Sample(now_ns, counters.get('messages', 0), counters.get('udp_lost', 0),
                      dropped_unread)
        samples.append(new)
        window_ns = round(WINDOW_S * 1e9)
        # The period of the calls varies slightly: keep the sample closest to the window's length.
        while len(samples) > 2 and now_ns - samples[1].now_ns >= 0.95 * window_ns:
            samples.popleft()
        old = samples[0]
        received, lost = new.messages - old.messages, max(new.lost - old.lost, 0)
        # A shorter window is not evaluated: a reordered message counts as lost until it arrives.
        if now_ns - old.now_ns < 0.95 * window_ns or received + lost < FEWEST_MESSAGES:
            self.share, self.trouble = math.nan, ''
            return None
        self.share = lost / (received + lost)
        if self.share < CLEAR_SHARE:
            return self._end()
        if not self.trouble and (self.share <= WARN_SHARE or lost < FEWEST_MESSAGES):
            return None
        unread = new.unread - old.unread if new.unread >= old.unread else new.unread
        return self._continue(self.share, unread > 0, transport)

    def _continue(self, share: float, unread: bool, transport: str) -> Optional[Event]:
        begins = not self.trouble
        lost = f'{share:.0%} of the messages of the last {WINDOW_S:g} s were lost'
        self.trouble = (
            f'{lost} because the receive buffer of this computer was full: reduce the load of '
            'this computer' if unread else
            f'{lost} in the network: use a cable instead of WiFi, and a separate switch' + (
                '; or set connection: tcp, which loses no messages but delays them'
                if transport == 'udp' else ''))
        if begins and self._throttle.allow('lost', self._samples[-1].now_ns) is not None:
            self._reported = True
            return Event('warn', 'loss', f'lossy: {self.trouble}')
        return None

    def _end(self) -> Optional[Event]:
        self.trouble = ''
        if not self._reported:
            return None
        self._reported = False
        return Event(
            'info', 'loss', 'losses have ended: less than '
            f'{CLEAR_SHARE:.0%} of the messages of the last {WINDOW_S:g} s were lost')
