# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Select the changes of a connection that are logged: no repeated lines."""

import re

from optitrack_vrpn.events import Event
from optitrack_vrpn.sources.link import LinkState
from optitrack_vrpn.throttle import Throttle

_EPHEMERAL_PORT = re.compile(r'port \d+')
#: Chosen: shortest time between equal lines of a connection that changes state continuously (s).
_REPEAT_S = 5.0
#: Chosen: time after which a continuing outage is logged again (s); likewise.
_REMIND_S = 60.0


class LinkLog:
    """
    Log each state once per outage, and again once a minute while the outage lasts.

    A server that accepts and closes connections continuously causes many changes per second; equal
    changes are then logged once in 5 s. The end of a logged outage is always logged.
    """

    def __init__(self) -> None:
        self._outage = Throttle(_REMIND_S)
        self._flapping = Throttle(_REPEAT_S)
        self._outage_logged = True

    def allow(self, change: Event, now_ns: int) -> bool:
        """
        Return whether to log a change.

        :param now_ns: present time on a clock that does not step (ns).
        """
        good = change.severity == 'info' and change.data in (
            LinkState.CONNECTED, LinkState.STREAMING)
        if good and change.data is LinkState.CONNECTED:
            self._outage = Throttle(_REMIND_S)
        # Ports that the system chooses differ between attempts.
        key = (change.data, _EPHEMERAL_PORT.sub('port', change.text))
        often = (self._outage.allow(key, now_ns) is None
                 or self._flapping.allow(key, now_ns) is None)
        if often and not (good and self._outage_logged):
            return False
        if change.severity != 'info':
            self._outage_logged = True
        elif change.data is LinkState.STREAMING:
            self._outage_logged = False
        return True
