# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Recording in Motive: its commands, and what a backend offers that can send them."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

TAKE_NAME, START, STOP = 'SetRecordTakeName', 'StartRecording', 'StopRecording'


def without_ended_recordings(commands: Sequence[str]) -> list[str]:
    """
    Leave out recordings that ended before Motive could be asked to start them.

    A server that comes back would else record a take of milliseconds, long after its session.

    :param commands: recording commands that wait to be sent, oldest first.
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
