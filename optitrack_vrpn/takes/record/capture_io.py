# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read the VRPN conversations of a capture; their packets are stored in a temporary file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
import pickle

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.record.pcap import in_order, Packet, read_packets
from optitrack_vrpn.takes.record.raw_capture import find_sessions
from optitrack_vrpn.takes.record.raw_session import Session
from optitrack_vrpn.takes.rows_io import Scratch

#: Chosen: packets of a conversation in memory before they are written, some 100 kB.
_BLOCK = 256


class _Log:
    """Packets of one conversation, in a file that all share."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._blocks: list[tuple[int, int]] = []
        self._waiting: list[Packet] = []

    def add(self, packet: Packet) -> None:
        self._waiting.append(packet)
        if len(self._waiting) >= _BLOCK:
            self._blocks.append(self._scratch.append(pickle.dumps(self._waiting)))
            self._waiting = []

    def __iter__(self) -> Iterator[Packet]:
        for block in self._blocks:
            yield from pickle.loads(self._scratch.read(*block))
        yield from self._waiting


def load_sessions(path: Path) -> list[Session]:
    """
    Find the conversations of a capture.

    :raises ConfigurationError: if the file cannot be read, or contains the beginning of none.
    """
    scratch = Scratch()
    try:
        with open(path, 'rb') as file:
            found = find_sessions(in_order(read_packets(file.read)), lambda: _Log(scratch))
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None
    except ConfigurationError as error:
        raise ConfigurationError(f'{path}: {error}') from None
    if not found:
        raise ConfigurationError(
            f'{path}: contains no VRPN conversation from its beginning; start the capture before '
            'the client connects (record --raw does), and capture both TCP and UDP')
    return found
