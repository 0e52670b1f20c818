# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Recording in Motive: its commands, and the interface of a backend that can send them."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

COMMANDS = TAKE_NAME, START, STOP = 'SetRecordTakeName', 'StartRecording', 'StopRecording'


def without_ended_recordings(commands: Sequence[str]) -> list[str]:
    """
    Remove recordings that ended before Motive received their start.

    Otherwise a server that returns would record a take of some milliseconds, long after the
    session.

    :param commands: waiting commands, oldest first.
    """
    kept = list(commands)
    begun = next((i for i, command in enumerate(kept) if not command.startswith(STOP)), len(kept))
    ended = max((i for i, command in enumerate(kept) if command == STOP), default=-1)
    if begun < ended:
        del kept[begun:ended + 1]
    return kept


@runtime_checkable
class Recorder(Protocol):
    """A backend that can record in Motive."""

    def record(self, take: str) -> None:
        """Start a recording under this name."""
        ...

    def stop_recording(self) -> None:
        """Stop the recording."""
        ...
