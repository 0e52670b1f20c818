# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The controller's side of mocap control: known systems, and the progress of a command."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Optional

from optitrack_vrpn.control.protocol import ANSWERS, Command, Kind
from optitrack_vrpn.node.graph.conflicts import base_name, NAMELESS

#: Default time of the search for systems (s). Chosen: DDS repeats its announcements every 3 s by
#: default, and the first ones can be lost.
DISCOVERY_S = 4.0

#: Chosen: time to wait for further systems of the same name (s), after all named ones are found.
NAMESAKES_S = 2.0

#: Chosen: error of a deviation of clocks that is measured in software (ns): scheduling of two
#: processes.
_DEVIATION_NS = 5_000_000


class Listeners:
    """
    Nodes that subscribe to commands, by full name.

    Commands and acknowledgements contain base names only: two nodes of one base name cannot be
    distinguished. A controller addresses no such name.

    :param topics: full names of the nodes on each topic of commands, those that subscribe and
        those that publish. A system publishes its acknowledgements by one publisher: a name with
        two is of two systems. Subscriptions do not count: a recorder has a second one, by which
        it records the commands.
    """

    def __init__(self, *topics: tuple[Iterable[str], Iterable[str]]) -> None:
        counts: Counter[str] = Counter()
        for subscribers, publishers in topics:
            published = Counter(publishers)
            counts |= Counter({name: max(1, published[name]) for name in subscribers
                               if base_name(name) != NAMELESS})
        self._full_names = sorted(counts.elements())

    @property
    def names(self) -> set[str]:
        """Return their base names, which commands contain."""
        return set(map(base_name, self._full_names))

    def with_base_name(self, name: str) -> list[str]:
        """Find the full names of all nodes of one base name."""
        return [full_name for full_name in self._full_names if base_name(full_name) == name]

    def ambiguous(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Find the base names that several nodes have, with the full names of these nodes."""
        found = {name: self.with_base_name(name) for name in names}
        return {name: nodes for name, nodes in found.items() if len(nodes) > 1}

    def include(self, asked: Iterable[str]) -> bool:
        """Return whether all systems that a user names are known, by base name or full name."""
        return all(self.target(name) in self.names for name in asked)

    def target(self, asked: str) -> str:
        """
        Convert a user's name of a system to the name in a command.

        An unknown full name stays unchanged and addresses no system.
        """
        full_name = '/' + asked.strip('/')
        return base_name(full_name) if '/' in asked and full_name in self._full_names else asked


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

    @property
    def ahead_ns(self) -> int:
        """
        Return how far the system's clock is ahead of the controller's at least (ns).

        Negative if it is behind; 0 if the clocks may agree. An acknowledgement is stamped between
        the command and its arrival.
        """
        if self.deviation_ns < -_DEVIATION_NS:
            return -self.deviation_ns
        return min(self.after_ns + _DEVIATION_NS - self.deviation_ns, 0)


class Round:
    """
    One command and its result.

    :param kind: START or STOP.
    :param wanted: base names of the systems that must acknowledge it.
    :param session_id: its session; '' for none.
    :ivar answers: first acknowledgement of each base name, wanted or not.
    :ivar refusal: why systems that have not acknowledged refuse it, '' if that is not known.
    :ivar poses: time from the command to the first pose of each system (ns), and its topic.
    """

    def __init__(self, kind: Kind, wanted: Sequence[str], session_id: str = '') -> None:
        self.kind = kind
        self.session_id = session_id
        self.wanted = tuple(dict.fromkeys(wanted))
        self.answers: dict[str, Answer] = {}
        self.refusal = ''
        self.poses: dict[str, tuple[int, str]] = {}
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
        self.answers.setdefault(command.source, Answer(
            kind, command.generation, now_ns - self._sent_ns, clock_ns - command.stamp_ns))

    def record_pose(self, system: str, topic: str, now_ns: int) -> None:
        """Record a pose of a system."""
        if self._sent_ns is not None:
            self.poses.setdefault(system, (now_ns - self._sent_ns, topic))

    @property
    def missing(self) -> list[str]:
        """Return the names that have not acknowledged."""
        return [name for name in self.wanted if name not in self.answers]

    @property
    def all_have_poses(self) -> bool:
        """Return whether every system has published a pose."""
        return all(name in self.poses for name in self.wanted)
