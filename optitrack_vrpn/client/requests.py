# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Unanswered UDP requests to VRPN servers, remembered beyond the client that sent them.

A server answers a request with a connect() that blocks it for all its clients until this host
answers. While this connect() may last, another request would block the server again. All clients
of a process share one memory, so that a client that replaces another one waits as well.
"""

from optitrack_vrpn.units import NS_PER_S

#: (IPv4 address, port) of a server.
Server = tuple[str, int]


class UnansweredRequests:
    """
    The requests that have been neither refused nor answered.

    Safe from any thread: each method makes one access to one dictionary.
    """

    def __init__(self) -> None:
        self._sent_ns: dict[Server, int] = {}

    def sent(self, server: Server, now_ns: int) -> None:
        """Record a request that is being sent."""
        self._sent_ns[server] = now_ns

    def answered(self, server: Server) -> None:
        """Record that the server is not blocked: it refused, connected back or greeted."""
        self._sent_ns.pop(server, None)

    def left_s(self, server: Server, blocked_s: float, now_ns: int) -> float:
        """
        Return how long the server may still be blocked by a request (s); 0 if it is not.

        :param blocked_s: longest time for which a request blocks a server (s).
        """
        sent_ns = self._sent_ns.get(server)
        return 0.0 if sent_ns is None else max(0.0, blocked_s - (now_ns - sent_ns) / NS_PER_S)
