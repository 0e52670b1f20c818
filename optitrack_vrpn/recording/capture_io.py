# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read the VRPN conversations of a capture from disk, one packet at a time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording.pcap import in_order, PcapFormat, read_head, read_located
from optitrack_vrpn.recording.raw_capture import Conversation, find_conversations, read_actions
from optitrack_vrpn.recording.raw_session import Action, Session


def load_sessions(path: Path) -> list[Session]:
    """
    Find the conversations of a capture; each one is read from the file when it is needed.

    :raises ConfigurationError: if the file cannot be read, or contains the beginning of none.
    """
    try:
        with open(path, 'rb') as file:
            form = read_head(file.read)
            found = find_conversations(in_order(read_located(file.read, form)))
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None
    except ConfigurationError as error:
        raise ConfigurationError(f'{path}: {error}') from None
    if not found:
        raise ConfigurationError(
            f'{path}: contains no VRPN conversation from its beginning; start the capture before '
            'the client connects (record --raw does), and capture both TCP and UDP')
    return [_session(path, form, conversation, found) for conversation in found]


def _session(
    path: Path, form: PcapFormat, conversation: Conversation, found: list[Conversation],
) -> Session:
    server = conversation.server()
    assert server is not None    # find_conversations leaves out the others
    first, second = conversation.ends
    return Session(
        server[0], second if server == first else first, conversation.begin_ns,
        conversation.end_ns, partial(_read, path, form, conversation, found),
        'a part of its TCP stream was not captured: what follows by TCP is missing'
        if conversation.holes.get(server) else '')


def _read(
    path: Path, form: PcapFormat, conversation: Conversation, found: list[Conversation],
) -> Iterator[Action]:
    with open(path, 'rb') as file:
        file.seek(conversation.offset)
        located = in_order(read_located(file.read, form, conversation.offset))
        yield from read_actions(conversation, found, (packet for _, packet in located))
