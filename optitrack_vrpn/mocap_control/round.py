# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The controller's side of mocap control: known systems, and the progress of a command."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from optitrack_vrpn.graph import base_name, NAMELESS
from optitrack_vrpn.mocap_control.protocol import ANSWERS, Command, Kind

#: Default time of the search for systems (s). Chosen: DDS repeats its announcements every 3 s by
#: default, and the first ones can be lost.
DISCOVERY_S = 4.0

#: Chosen: time to wait for further systems of the same name (s), after all named ones are found.
DUPLICATES_S = 2.0

#: Systems of one base name: the generations to which each subscribes, by full name.
Duplicates = dict[str, frozenset[str]]


class Listeners:
    """
    Nodes that subscribe to commands, by full name; several nodes can have one base name.

    :param subscribed: full name of each node, and a generation that it subscribes to.
    :param lifecycle_nodes: full names of lifecycle nodes.
    :param announced: names in the announcements of systems.
    """

    def __init__(self, subscribed: Iterable[tuple[str, str]] = (),
                 lifecycle_nodes: Iterable[str] = (), announced: Iterable[str] = ()) -> None:
        found: dict[str, set[str]] = {}
        nameless: set[str] = set()
        for full_name, generation in subscribed:
            if base_name(full_name) == NAMELESS:
                nameless.add(generation)
            else:
                found.setdefault(full_name, set()).add(generation)
        if nameless:
            # Discovery may find a hanging process without its nodes' names; its services have
            # the names. Include the lifecycle nodes whose base name is known.
            known = {*map(base_name, found), *announced}
            for full_name in set(lifecycle_nodes) - found.keys():
                if base_name(full_name) in known:
                    found[full_name] = nameless
        self._generations = {name: frozenset(found[name]) for name in sorted(found)}

    @property
    def names(self) -> set[str]:
        """Return their base names, which commands contain."""
        return {base_name(name) for name in self._generations}

    def with_base_name(self, name: str) -> Duplicates:
        """Find all nodes of one base name."""
        return {full_name: generations for full_name, generations in self._generations.items()
                if base_name(full_name) == name}

    def shared(self, names: Iterable[str]) -> dict[str, Duplicates]:
        """Find the base names that several nodes have, with these nodes."""
        found = {name: self.with_base_name(name) for name in names}
        return {name: systems for name, systems in found.items() if len(systems) > 1}

    def full_name(self, asked: str) -> Optional[str]:
        """Return the full name of a listener that a user means; None if there is none."""
        full_name = '/' + asked.strip('/')
        return full_name if '/' in asked and full_name in self._generations else None

    def include(self, asked: Iterable[str]) -> bool:
        """Return whether all systems that a user names are known, by base name or full name."""
        names = self.names
        return all(name in names or self.full_name(name) for name in asked)

    def target(self, asked: str) -> str:
        """
        Convert a user's name of a system to the name in a command.

        An unknown full name stays unchanged and addresses no system.
        """
        return base_name(self.full_name(asked) or '') or asked

    def inseparable(self, asked: Collection[str]) -> dict[str, Duplicates]:
        """
        Find the systems that a command would reach in addition to the named ones.

        :returns: by base name, all systems that share it, if not all of them were named.
        """
        by_full_name = {full for name in asked if (full := self.full_name(name))}
        shared = self.shared(base_name(name) for name in by_full_name)
        return {name: systems for name, systems in shared.items()
                if name not in asked and not by_full_name >= systems.keys()}


@dataclass
class KnownSystem:
    """
    A system that has announced itself to a controller.

    :ivar name: its name.
    :ivar generations: generations it announced itself in.
    :ivar topics: topics it publishes, from its latest announcement in each generation.
    """

    name: str
    generations: list[str] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)

    def record(self, generation: str, topics: Iterable[str]) -> None:
        """Record an announcement; topics are added, as in rqt."""
        if generation not in self.generations:
            self.generations.append(generation)
        self.topics += [topic for topic in topics if topic not in self.topics]


@dataclass(frozen=True)
class Answer:
    """
    An acknowledgement.

    :ivar kind: ACK_START or ACK_STOP.
    :ivar generation: its generation.
    :ivar after_ns: time from the command to its arrival (ns).
    :ivar deviation_ns: its arrival on the controller's clock minus its stamp on the system's
        clock (ns): clock offset plus transport delay.
    """

    kind: Kind
    generation: str
    after_ns: int
    deviation_ns: int


class Round:
    """
    One command and its result.

    :param kind: START or STOP.
    :param wanted: base names of the systems that must acknowledge it.
    :param duplicates: the systems of each name that several systems share. Each of them must
        acknowledge, although acknowledgements contain only the base name.
    :param session_id: its session; '' for none.
    :ivar answers: first acknowledgement of each base name, wanted or not.
    :ivar poses: time from the command to the first pose of each system (ns), and its topic; by
        full name if several systems share the name, unless several of them publish the topic.
    """

    def __init__(self, kind: Kind, wanted: Sequence[str],
                 duplicates: Optional[Mapping[str, Duplicates]] = None,
                 session_id: str = '') -> None:
        self.kind = kind
        self.session_id = session_id
        self.wanted = tuple(dict.fromkeys(wanted))
        self.duplicates = dict(duplicates or {})
        self.answers: dict[str, Answer] = {}
        self.poses: dict[str, tuple[int, str]] = {}
        self._repeated: dict[str, list[Answer]] = {}
        self._sent_ns: Optional[int] = None

    def record_sent(self, now_ns: int) -> None:
        """Record when the command was sent, on a clock that does not step."""
        self._sent_ns = now_ns

    def record_answer(self, command: Command, now_ns: int, clock_ns: int) -> None:
        """
        Process a message of the control topic.

        :param now_ns: its arrival, on the clock of ``record_sent``.
        :param clock_ns: its arrival on the clock of the stamps.
        """
        kind = command.kind
        if kind is not ANSWERS[self.kind] or self._sent_ns is None:
            return
        # Another controller may command the same systems. The reference answers without a session.
        if self.session_id and command.session_id not in ('', self.session_id):
            return
        answer = Answer(
            kind, command.generation, now_ns - self._sent_ns, clock_ns - command.stamp_ns)
        self.answers.setdefault(command.source, answer)
        if command.source in self.duplicates:
            self._repeated.setdefault(command.source, []).append(answer)

    def record_pose(self, system: str, topic: str, now_ns: int) -> None:
        """Record a pose of a system."""
        if self._sent_ns is not None:
            self.poses.setdefault(system, (now_ns - self._sent_ns, topic))

    def acknowledged(self, name: str) -> list[Answer]:
        """
        Return one acknowledgement for each system of a base name that has certainly answered.

        A system acknowledges once per generation in which it receives the command. Two answers in
        one generation are therefore from two systems; two in different generations can be from
        one. All listeners of a generation have answered when it has as many answers as listeners.
        """
        if name not in self.duplicates:
            return [self.answers[name]] if name in self.answers else []
        by_generation: dict[str, list[Answer]] = {}
        for answer in self._repeated.get(name, ()):
            by_generation.setdefault(answer.generation, []).append(answer)
        sure: set[str] = set()
        count = 0
        for generation, answers in by_generation.items():
            listening = {system for system, generations in self.duplicates[name].items()
                         if generation in generations}
            if len(answers) >= len(listening):
                sure |= listening
            count = max(count, len(sure), min(len(answers), len(listening) or 1))
        received = sorted(by_generation.values(), key=len, reverse=True)
        return [answer for answers in received for answer in answers][:count]

    @property
    def missing(self) -> list[str]:
        """Return the names of which not every system has acknowledged."""
        return [name for name in self.wanted
                if len(self.acknowledged(name)) < len(self.duplicates.get(name, (name,)))]

    @property
    def all_have_poses(self) -> bool:
        """Return whether every system has published a pose."""
        return all(
            name in self.poses or all(
                system in self.poses for system in self.duplicates.get(name, (name,)))
            for name in self.wanted)
