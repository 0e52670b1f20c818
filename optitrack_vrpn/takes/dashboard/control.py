# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Commands of mocap control with their answers: those of the pages, and those of other tools."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from optitrack_vrpn.control.protocol import Command, Kind
from optitrack_vrpn.control.round import Round
from optitrack_vrpn.core.names import printable

#: Time after which a missing answer is reported (s); later answers still count for this long (s).
#: Chosen: systems acknowledge within milliseconds, a slow transition takes a second.
NO_ANSWER_S, _LATE_S = 2.0, 30.0
#: Begin of the names of systems that record: the name of the node of ``record --control``.
RECORDER = 'recorder'
#: Chosen: commands that the page lists.
_KEPT = 20


@dataclass
class System:
    """
    A system that listens to mocap control.

    :ivar name: its base name, which commands contain.
    :ivar state: its lifecycle state; '' while unknown.
    :ivar topics: number of topics that it has announced.
    :ivar heard: whether it was ever seen in the graph.
    :ivar gone: whether it has left the graph without saying so.
    :ivar mute: whether it has answered requests for its state, and no longer does.
    """

    name: str
    state: str = ''
    topics: int = 0
    heard: bool = False
    gone: bool = False
    mute: bool = False


@dataclass
class Sent:
    """A command: who sent it, when, and the answers."""

    round: Round
    by: str
    at: float
    clock_ns: int


class ControlLog:
    """
    The last commands, oldest first.

    :ivar systems: the systems by name.
    """

    def __init__(self) -> None:
        self.systems: dict[str, System] = {}
        self._sent: deque[Sent] = deque(maxlen=_KEPT)

    @property
    def recorders(self) -> tuple[str, ...]:
        """Return the names of the recorders that listen."""
        return tuple(name for name, one in self.systems.items()
                     if name.startswith(RECORDER) and one.heard and not one.gone)

    @property
    def recording(self) -> bool:
        """Return whether a recorder is active, or closes its file, and answers."""
        return any(one.state in ('active', 'deactivating') and not one.mute
                   for one in map(self.systems.__getitem__, self.recorders))

    def add(self, kind: Kind, session_id: str, addressed: tuple[str, ...], by: str, at: float,
            clock_ns: int) -> None:
        """
        Take a command.

        :param addressed: names of systems; empty for all.
        :param at: when it was sent, on the clock of ``now`` (s).
        :param clock_ns: the same on the clock of the stamps (ns).
        """
        wanted = addressed or tuple(self.systems)
        one = Round(kind, wanted, session_id=session_id)
        one.record_sent(round(at * 1e9))
        self._sent.append(Sent(one, printable(by, 80), at, clock_ns))

    def record(self, command: Command, at: float, clock_ns: int) -> None:
        """Take an acknowledgement, or a command of another tool; times as for ``add``."""
        if command.kind in (Kind.START, Kind.STOP):
            self.add(command.kind, command.session_id,
                     tuple(name for name in command.systems if name),
                     f'{printable(command.source, 60)} (ROS)', at, clock_ns)
            return
        # A system answers in the order of the commands; a late answer is of the newest of them.
        recent = [one for one in self._sent if at - one.at <= NO_ANSWER_S]
        late = [one for one in reversed(self._sent) if NO_ANSWER_S < at - one.at < _LATE_S]
        for sent in sorted((*recent, *late),
                           key=lambda one: command.source not in one.round.wanted):
            before = len(sent.round.answers)
            sent.round.record_answer(command, round(at * 1e9), clock_ns)
            if len(sent.round.answers) > before:
                return

    def rows(self, now: float) -> list[dict[str, Any]]:
        """Describe the commands for the page, the newest first."""
        return [{
            'kind': sent.round.kind.name, 'session': printable(sent.round.session_id, 80),
            'by': sent.by, 'time': sent.clock_ns / 1e9, 'ago_s': round(now - sent.at, 2),
            'answers': [{
                'system': printable(name, 80), 'after_ms': round(one.after_ns / 1e6, 1)}
                for name, one in sent.round.answers.items()],
            'waiting': sent.round.missing if now - sent.at <= NO_ANSWER_S else [],
            'no_answer': sent.round.missing if now - sent.at > NO_ANSWER_S else []}
            for sent in reversed(self._sent)]
