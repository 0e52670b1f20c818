# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Commands that record in Motive."""

from collections.abc import Sequence

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
