# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Which changes of a connection are worth a line of the log."""

import re

from optitrack_vrpn.client.link import LinkChange, LinkState
from optitrack_vrpn.throttle import Throttle

_EPHEMERAL_PORT = re.compile(r'port \d+')
_REPEAT_S = 5.0
_REMIND_S = 60.0


class LinkLog:
    """
    Tell of every state once for each outage, and again once a minute while it lasts.

    A server that takes connections and drops them at once changes state many times a second: the
    same is then told of once in five seconds. But the end of an outage that was told of always is.
    """

    def __init__(self) -> None:
        self._outage = Throttle(_REMIND_S)
        self._flapping = Throttle(_REPEAT_S)
        self._outage_told = True

    def allow(self, change: LinkChange) -> bool:
        """Tell whether to log a change."""
        good = change.severity == 'info' and change.state in (
            LinkState.CONNECTED, LinkState.STREAMING)
        if good and change.state is LinkState.CONNECTED:
            self._outage = Throttle(_REMIND_S)
        # Ports that the system picked differ from one attempt to the next.
        key = (change.state, _EPHEMERAL_PORT.sub('port', change.reason))
        if self._outage.allow(key, change.now_ns) is None:
            return False
        often = self._flapping.allow(key, change.now_ns) is None
        if often and not (good and self._outage_told):
            return False
        if change.severity != 'info':
            self._outage_told = True
        elif change.state is LinkState.STREAMING:
            self._outage_told = False
        return True
