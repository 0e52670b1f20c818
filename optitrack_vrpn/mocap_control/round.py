# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The controller's side of mocap control: who is there, and how a command to them goes."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Optional

from optitrack_vrpn.graph.node_names import base_name, NAMELESS
from optitrack_vrpn.mocap_control.protocol import Command, Kind

ANSWERS = {Kind.START: Kind.ACK_START, Kind.STOP: Kind.ACK_STOP}

#: How long systems are usually looked for (s). DDS repeats its announcements every 3 s by default,
#: and the first ones do get lost.
DISCOVERY_S = 4.0

#: How long for others of the same name (s), where those that are wanted are there.
NAMESAKES_S = 2.0

#: Systems of one base name: the generations each listens in, by full name.
Namesakes = dict[str, frozenset[str]]


class Listeners:
    """
    Nodes that hear commands, by their full names: a base name may be that of several.

    :param heard: the full name of each, and a generation that it listens in.
    :param lifecycle_nodes: full names of lifecycle nodes.
    :param announced: names that systems have announced themselves by.
    """

    def __init__(self, heard: Iterable[tuple[str, str]] = (),
                 lifecycle_nodes: Iterable[str] = (), announced: Iterable[str] = ()) -> None:
        found: dict[str, set[str]] = {}
        nameless: set[str] = set()
        for full_name, generation in heard:
            if base_name(full_name) == NAMELESS:
                nameless.add(generation)
            else:
                found.setdefault(full_name, set()).add(generation)
        if nameless:
            # A process that hangs may be found without its nodes' names. Its services have theirs:
            # one of a name that is known here shall not be overlooked.
            known = {*map(base_name, found), *announced}
            for full_name in set(lifecycle_nodes) - found.keys():
                if base_name(full_name) in known:
                    found[full_name] = nameless
        self._generations = {name: frozenset(found[name]) for name in sorted(found)}

    @property
    def names(self) -> set[str]:
        """Their base names, which are what commands carry."""
        return {base_name(name) for name in self._generations}

    def called(self, name: str) -> Namesakes:
        """Find all of one base name."""
        return {full_name: generations for full_name, generations in self._generations.items()
                if base_name(full_name) == name}

    def shared(self, names: Iterable[str]) -> dict[str, Namesakes]:
        """Find those base names that are the name of several, and whose."""
        found = {name: self.called(name) for name in names}
        return {name: systems for name, systems in found.items() if len(systems) > 1}

    def full_name(self, asked: str) -> Optional[str]:
        """Give the full name that a user means; None if it is no full name of a listener."""
        full_name = '/' + asked.strip('/')
        return full_name if '/' in asked and full_name in self._generations else None

    def knows(self, asked: Iterable[str]) -> bool:
        """Tell whether all that a user names are there, by base name or full name."""
        names = self.names
        return all(name in names or self.full_name(name) for name in asked)

    def targets(self, asked: Iterable[str]) -> list[str]:
        """
        Turn what a user names into what a command carries.

        A full name that nobody has stays what it is, and so is for nobody.
        """
        return [base_name(self.full_name(name) or '') or name for name in asked]

    def inseparable(self, asked: Collection[str]) -> dict[str, Namesakes]:
        """
        Find what a command would reach besides the full names that a user gives.

        :returns: by base name, all who share it, where not all of them were asked for.
        """
        by_full_name = {full for name in asked if (full := self.full_name(name))}
        shared = self.shared(base_name(name) for name in by_full_name)
        return {name: systems for name, systems in shared.items()
                if name not in asked and not by_full_name >= systems.keys()}


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
    :param wanted: base names of the systems that shall acknowledge it.
    :param namesakes: for those names that several systems have, these systems. Each shall
        acknowledge, though acknowledgements carry the base name alone.
    :ivar answers: first acknowledgement of each base name, wanted or not.
    :ivar poses: time from the command to the first pose of each system, and its topic; by full
        name where several systems have the name, unless the topic is that of more than one.
    """

    def __init__(self, kind: Kind, wanted: Sequence[str],
                 namesakes: Optional[Mapping[str, Namesakes]] = None) -> None:
        self.kind = kind
        self.wanted = tuple(dict.fromkeys(wanted))
        self.namesakes = dict(namesakes or {})
        self.answers: dict[str, Answer] = {}
        self.poses: dict[str, tuple[int, str]] = {}
        self._heard: dict[str, list[Answer]] = {}
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
        answer = Answer(
            kind, command.generation, now_ns - self._sent_ns, clock_ns - command.stamp_ns)
        self.answers.setdefault(command.source, answer)
        if command.source in self.namesakes:
            self._heard.setdefault(command.source, []).append(answer)

    def see_pose(self, system: str, topic: str, now_ns: int) -> None:
        """Note a pose of a system."""
        if self._sent_ns is not None:
            self.poses.setdefault(system, (now_ns - self._sent_ns, topic))

    def acknowledged(self, name: str) -> list[Answer]:
        """
        Give an acknowledgement for each system of a base name that is sure to have answered.

        A system acknowledges once in each generation that it hears the command in. Two answers in
        one generation are therefore those of two systems, while two in different ones may be
        those of one. All who listen in a generation have answered once it brought that many.
        """
        if name not in self.namesakes:
            return [self.answers[name]] if name in self.answers else []
        by_generation: dict[str, list[Answer]] = {}
        for answer in self._heard.get(name, ()):
            by_generation.setdefault(answer.generation, []).append(answer)
        sure: set[str] = set()
        count = 0
        for generation, answers in by_generation.items():
            listening = {system for system, spoken in self.namesakes[name].items()
                         if generation in spoken}
            if len(answers) >= len(listening):
                sure |= listening
            count = max(count, len(sure), min(len(answers), len(listening) or 1))
        heard = sorted(by_generation.values(), key=len, reverse=True)
        return [answer for answers in heard for answer in answers][:count]

    @property
    def missing(self) -> list[str]:
        """Names of which not every system has acknowledged."""
        return [name for name in self.wanted
                if len(self.acknowledged(name)) < len(self.namesakes.get(name, (name,)))]

    @property
    def all_have_poses(self) -> bool:
        """Tell whether every system has published a pose."""
        return all(
            name in self.poses or all(
                system in self.poses for system in self.namesakes.get(name, (name,)))
            for name in self.wanted)
