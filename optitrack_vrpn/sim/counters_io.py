# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""What a simulated Motive counts, and how it keeps its log readable."""

from collections import Counter
from dataclasses import dataclass, field
import logging

_SECOND = 1_000_000_000


@dataclass
class Counters:
    """
    What a server has done and seen since it was started.

    :ivar frames: frames sent, to however many clients.
    :ivar skipped_frames: frames that were due while the machine slept.
    :ivar datagrams: datagrams of poses made.
    :ivar accepted: clients whose cookie was accepted.
    :ivar requests: valid requests to connect back.
    :ivar blocked_connects: connect-backs that blocked the server for as long as it lets them.
    :ivar malformed_requests: datagrams on the request port that are none.
    :ivar refused_requests: requests for another address than their own, or too many.
    :ivar refused_clients: connections beyond the number allowed.
    :ivar ignored_datagrams: datagrams to the port that the server describes; none are due.
    :ivar refused_names: names of clients that were not echoed.
    :ivar restarts: restarts.
    :ivar dropped: clients dropped, by what stands before the colon of the reason.
    """

    frames: int = 0
    skipped_frames: int = 0
    datagrams: int = 0
    accepted: int = 0
    requests: int = 0
    blocked_connects: int = 0
    malformed_requests: int = 0
    refused_requests: int = 0
    refused_clients: int = 0
    ignored_datagrams: int = 0
    refused_names: int = 0
    restarts: int = 0
    dropped: 'Counter[str]' = field(default_factory=Counter)


class Throttle:
    """
    Let some log lines through each second, so that a hostile client can't fill a disk.

    :param logger: where to.
    :param per_second: how many.
    """

    def __init__(self, logger: logging.Logger, per_second: int = 5) -> None:
        self._logger = logger
        self._per_second = per_second
        self._window_ns = 0
        self._count = 0

    def log(self, now_ns: int, level: int, text: str, *values: object) -> None:
        """Log a line, unless there were too many; those are counted in a later line."""
        if now_ns - self._window_ns > _SECOND:
            if self._count > self._per_second:
                self._logger.log(
                    level, '%d more lines of this kind', self._count - self._per_second)
            self._window_ns, self._count = now_ns, 0
        self._count += 1
        if self._count <= self._per_second:
            self._logger.log(level, text, *values)
