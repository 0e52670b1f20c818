# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Counters of a simulated Motive, and its rate-limited log."""

from collections import Counter
from dataclasses import dataclass, field
import logging

from optitrack_vrpn.units import NS_PER_S


@dataclass
class Counters:
    """
    Counters of a server since its start.

    :ivar frames: frames sent, independent of the number of clients.
    :ivar skipped_frames: frames that were due while the computer slept.
    :ivar datagrams: datagrams of poses created.
    :ivar accepted: clients whose cookie was accepted.
    :ivar requests: valid requests to connect back.
    :ivar malformed_requests: datagrams on the request port that are not requests.
    :ivar refused_requests: requests for another address, and requests beyond the limit.
    :ivar refused_clients: connections beyond the number allowed.
    :ivar refused_names: names of clients that were not echoed.
    :ivar restarts: restarts.
    :ivar dropped: clients dropped, by the part of the reason before its colon.
    """

    frames: int = 0
    skipped_frames: int = 0
    datagrams: int = 0
    accepted: int = 0
    requests: int = 0
    malformed_requests: int = 0
    refused_requests: int = 0
    refused_clients: int = 0
    refused_names: int = 0
    restarts: int = 0
    dropped: 'Counter[str]' = field(default_factory=Counter)


class Throttle:
    """
    Limit the log lines per second, so that a hostile client cannot fill the disk.

    :param logger: destination of the lines.
    :param per_second: largest number of lines per second.
    """

    def __init__(self, logger: logging.Logger, per_second: int = 5) -> None:
        self._logger = logger
        self._per_second = per_second
        self._window_ns = 0
        self._count = 0

    def log(self, now_ns: int, level: int, text: str, *values: object) -> None:
        """Log a line unless the limit is reached; a later line reports the number suppressed."""
        if now_ns - self._window_ns > NS_PER_S:
            if self._count > self._per_second:
                self._logger.log(
                    level, '%d more lines of this kind', self._count - self._per_second)
            self._window_ns, self._count = now_ns, 0
        self._count += 1
        if self._count <= self._per_second:
            self._logger.log(level, text, *values)
