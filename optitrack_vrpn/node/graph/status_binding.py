# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Bind a subscription to the status messages of one node; pure."""

from typing import Optional

from optitrack_vrpn.node.graph.streams import AttendedTime

#: Silence (ns) after which the statuses of another node are used. Chosen: the node publishes each
#: status once a second, and two are missing.
_SILENT_NS = 2_500_000_000


class StatusBinding:
    """
    Use the statuses of a body from one node.

    A status has no pose; each node has a random ``session`` in it. The first one is used until it
    has been silent.
    """

    def __init__(self) -> None:
        self._time = AttendedTime()
        self._session: Optional[str] = None
        self._heard_ns = 0

    def tick(self, monotonic_ns: int) -> None:
        """Process the time; call it about ten times a second."""
        self._time.advance(monotonic_ns)

    def accept(self, session: str, monotonic_ns: int) -> bool:
        """Return whether a status is used; '' is the session of programs that have none."""
        now_ns = self._time.advance(monotonic_ns)
        if self._session not in (None, session) and now_ns - self._heard_ns < _SILENT_NS:
            return False
        self._session, self._heard_ns = session, now_ns
        return True
