# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The controller's side of mocap control: who is there, and how a command to them goes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Optional

from optitrack_vrpn.core.control import Command, Kind

ANSWERS = {Kind.START: Kind.ACK_START, Kind.STOP: Kind.ACK_STOP}


@dataclass
class KnownSystem:
    """
    A system that a controller has heard of.

    :ivar name: its name.
    :ivar generations: generations it announced itself in.
    :ivar topics: topics it publishes, from its latest announcement in each generation.
    """

    name: str
    generations: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    def hear(self, generation: str, topics: Iterable[str]) -> None:
        """Take note of an announcement; topics are added, as in rqt."""
        if generation not in self.generations:
            self.generations.append(generation)
        self.topics += [topic for topic in topics if topic not in self.topics]


@dataclass(frozen=True)
class Answer:
    """
    An acknowledgement.

    :ivar kind: ACK_START or ACK_STOP.
    :ivar generation: the generation it came in.
    :ivar after_ns: time from the command to its arrival.
    :ivar deviation_ns: time of its arrival on the controller's clock minus its stamp on the
        system's clock: clock deviation and the way here.
    """

    kind: Kind
    generation: str
    after_ns: int
    deviation_ns: int


class Round:
    """
    One command, and what came of it.

    :param kind: START or STOP.
    :param wanted: systems that shall acknowledge it.
    :ivar answers: first acknowledgement of each system, wanted or not.
    :ivar poses: time from the command to the first pose of each system, and its topic.
    """

    def __init__(self, kind: Kind, wanted: Sequence[str]) -> None:
        self.kind = kind
        self.wanted = tuple(dict.fromkeys(wanted))
        self.answers: dict[str, Answer] = {}
        self.poses: dict[str, tuple[int, str]] = {}
        self._sent_ns: Optional[int] = None

    def sent(self, now_ns: int) -> None:
        """Note when the command went out, on a clock that does not step."""
        self._sent_ns = now_ns

    def hear(self, command: Command, now_ns: int, clock_ns: int) -> None:
        """
        Take a message of the control topic.

        :param now_ns: its arrival, on the clock of ``sent``.
        :param clock_ns: its arrival on the clock that stamps are made with.
        """
        kind = command.kind
        if kind is not ANSWERS[self.kind] or self._sent_ns is None:
            return
        self.answers.setdefault(command.source, Answer(
            kind, command.generation, now_ns - self._sent_ns, clock_ns - command.stamp_ns))

    def see_pose(self, system: str, topic: str, now_ns: int) -> None:
        """Note a pose of a system."""
        if self._sent_ns is not None:
            self.poses.setdefault(system, (now_ns - self._sent_ns, topic))

    @property
    def missing(self) -> list[str]:
        """Systems that have not acknowledged."""
        return [name for name in self.wanted if name not in self.answers]
