# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Read the conversations of a raw recording: an MCAP file with the bytes of servers.

Its channels are ``raw/PROTOCOL/KIND``: 'begin' of a conversation, 'tcp' and 'udp' from the server,
'sent' to it. The log time of a message is its arrival on the host's clock, the publish time that
on the clock of arrivals. The messages of each channel are numbered, so that damage is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import json
from pathlib import Path
from typing import NamedTuple

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.takes.bag_read_io import read_batches, read_records
from optitrack_vrpn.takes.columns import ColumnBatch
from optitrack_vrpn.takes.mcap_format import Channel, Cut, Message
from optitrack_vrpn.takes.mcap_read_io import Damage
from optitrack_vrpn.takes.record.raw_session import Action, RawSession, StreamCutter

#: Begin of the topics of a raw recording.
RAW = 'raw/'


class RawRecording(NamedTuple):
    """
    A raw recording.

    :ivar sessions: its conversations.
    :ivar damaged: parts that cannot be read: reason, and first and last time (ns).
    :ivar missing: number of messages that are not in it.
    :ivar cut: why it ends early; '' for a complete one.
    """

    sessions: list[RawSession]
    damaged: list[tuple[str, tuple[int, int]]]
    missing: int
    cut: str


class _Piece(NamedTuple):
    """
    A message of a raw recording.

    :ivar conversation: number of its conversation.
    :ivar lost: messages of its channel that are missing before it.
    """

    conversation: int
    protocol: str
    action: Action
    lost: int


@dataclass
class _Found:
    protocol: str
    server: str
    local: str
    begin_ns: int
    end_ns: int
    lost: int = 0
    torn: bool = False


def is_raw(path: Path) -> bool:
    """Return whether an MCAP file is a raw recording."""
    if path.suffix != '.mcap':
        return False
    for item in read_batches(path):
        for record in item.others if isinstance(item, ColumnBatch) else ():
            if isinstance(record, Channel):
                return record.topic.startswith(RAW)
    return False


def load_raw(
    path: Path, progress: Callable[[float], None] = lambda share: None,
) -> RawRecording:
    """
    Find the conversations of a raw recording.

    :param progress: called with the fraction that was read, 0 to 1.
    :raises ConfigurationError: if it cannot be read or contains none.
    """
    found: list[_Found] = []
    damaged, cut = [], ''
    try:
        for piece in _pieces(path, progress):
            if isinstance(piece, Damage):
                damaged.append((piece.reason, piece.span_ns))
                continue
            if isinstance(piece, Cut):
                cut = piece.reason
                continue
            action = piece.action
            if piece.conversation == len(found):
                found.append(_Found(piece.protocol, *_ends(action), action.arrival_ns,
                                    action.arrival_ns))
            one = found[piece.conversation]
            one.end_ns = max(one.end_ns, action.arrival_ns)
            one.lost += piece.lost
            one.torn = one.torn or (action.kind == 'tcp' and piece.lost > 0)
    except OSError as error:
        raise ConfigurationError(f'{path}: {error.strerror}') from None
    if not found:
        raise ConfigurationError(
            f'{path}: contains no conversation with a server' + (f' ({cut})' if cut else ''))
    sessions = [RawSession(
        one.protocol, one.server, one.local, one.begin_ns, one.end_ns,
        lambda number=number: _actions(path, number),  # type: ignore[misc]
        '; '.join(filter(None, (
            f'{counted(one.lost, "message")} of the server missing' if one.lost else '',
            'what follows by TCP is missing' if one.torn else ''))))
        for number, one in enumerate(found)]
    return RawRecording(sessions, damaged, sum(one.lost for one in found), cut)


def _ends(action: Action) -> tuple[str, str]:
    """Return the addresses of server and recorder at the begin of a conversation."""
    if action.kind == 'begin':
        try:
            said = json.loads(action.data)
            return str(said.get('server', '')), str(said.get('local', ''))
        except (ValueError, AttributeError):
            pass
    return '', ''


def _pieces(
    path: Path, progress: Callable[[float], None] = lambda share: None,
) -> Iterator[_Piece | Damage | Cut]:
    channels: dict[int, tuple[str, str]] = {}
    numbers: dict[int, int] = {}
    current: dict[str, int] = {}
    begun = 0
    for row in read_records(path, progress):
        if isinstance(row, Channel) and row.topic.startswith(RAW):
            protocol, _, kind = row.topic.removeprefix(RAW).partition('/')
            channels[row.id] = protocol, kind
        elif isinstance(row, (Damage, Cut)):
            yield row
        elif isinstance(row, Message) and row.channel_id in channels:
            protocol, kind = channels[row.channel_id]
            if kind == 'begin' or protocol not in current:
                current[protocol] = begun
                begun += 1
            lost = max(row.sequence - numbers.get(row.channel_id, 0) - 1, 0)
            numbers[row.channel_id] = row.sequence
            yield _Piece(current[protocol], protocol, Action(
                row.log_time_ns, kind, row.data, row.log_time_ns - row.publish_time_ns), lost)


def _actions(path: Path, number: int) -> Iterator[Action]:
    """Read what belongs to one conversation; a TCP stream ends where a part is missing."""
    cutter, torn = StreamCutter(), False
    for piece in _pieces(path):
        if not isinstance(piece, _Piece) or piece.conversation != number:
            continue
        if piece.action.kind == 'tcp':
            torn = torn or piece.lost > 0
            if not torn:
                yield from cutter.push(piece.action)
        elif piece.action.kind != 'begin':
            yield piece.action
