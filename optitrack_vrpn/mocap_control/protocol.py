# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The mocap_control protocol: a controller starts and stops capture systems together.

Three generations of it are in use, the same in structure but with other packages, topics and
field names. Here they are data; everything else speaks of a neutral :class:`Command`.

Nothing here knows ROS: a shell turns messages into commands, asks :class:`Follower` what a command
asks for in the lifecycle state at hand, makes the transitions and reports how they went.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
import difflib
from enum import Enum, IntEnum
from typing import Any, Optional

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.settings import Change, checked, setting


class Kind(IntEnum):
    """What a control message says; the values of ``Control.control_type``."""

    START = 0
    ACK_START = 1
    STOP = 2
    ACK_STOP = 3


@dataclass(frozen=True)
class Generation:
    """
    One generation of the protocol.

    :ivar name: as users choose it.
    :ivar package: the package of its messages ``Control`` and ``MocapInfo``.
    :ivar control_topic: where commands and acknowledgements go, as its own tools name it.
    :ivar info_topic: where systems announce themselves, likewise.
    :ivar source: field with the name of the sender, in both messages.
    :ivar session: field with the capture session, in ``Control``.
    :ivar targets: field with the systems a command is for, in ``Control``.
    """

    name: str
    package: str
    control_topic: str
    info_topic: str
    source: str
    session: str
    targets: str

    @property
    def control_fields(self) -> dict[str, str]:
        """Fields of ``Control`` in order, with their types as ROS writes them."""
        return {
            'control_type': 'int8', 'stamp': 'builtin_interfaces/Time', self.source: 'string',
            self.session: 'string', self.targets: 'sequence<string>'}

    @property
    def info_fields(self) -> dict[str, str]:
        """Fields of ``MocapInfo`` in order, with their types as ROS writes them."""
        return {self.source: 'string', 'ros_version_source': 'int8', 'topics': 'sequence<string>'}

    def topics(self, absolute: bool) -> tuple[str, str]:
        """
        Name the control topic and the info topic.

        :param absolute: True for the root namespace, False for the generation's own habit, which
            for all but the first lies in the namespace of the node.
        """
        names = (self.control_topic, self.info_topic)
        return ('/' + names[0].lstrip('/'), '/' + names[1].lstrip('/')) if absolute else names


#: Newest first. What differs between them stands here and nowhere else.
GENERATIONS: tuple[Generation, ...] = (
    Generation('mocap4r2', 'mocap4r2_control_msgs', 'mocap4r2_control', 'mocap4r2_environment',
               'mocap4r2_source', 'session_id', 'mocap4r2_systems'),
    Generation('mocap', 'mocap_control_msgs', 'mocap_control', 'mocap_environment',
               'mocap_source', 'session_id', 'mocap_systems'),
    Generation('seed', 'mocap_control_msgs', '/mocap_control', '/mocap_environment',
               'system_source', 'capture_session_id', 'capture_systems'),
)

AUTO = 'auto'
NONE = 'none'


@checked
@dataclass(frozen=True)
class ControlConfig:
    """How a system follows mocap control."""

    generations: tuple[str, ...] = setting((AUTO,), change=Change.START, doc=(
        'generations of mocap control to follow: auto (those whose messages are installed), or '
        'some of mocap4r2, mocap and seed, or none'))
    absolute_topics: bool = setting(True, change=Change.START, doc=(
        'use control topics in the root namespace, where rqt looks, whatever the namespace of '
        'the node'))
    configure_on_start: bool = setting(
        False, change=Change.START, doc='let a START configure an unconfigured node')

    def check(self) -> None:
        """
        Check the generations.

        :raises ConfigurationError: one is unknown.
        """
        choose_generations(self.generations)
        if NONE in self.generations:
            object.__setattr__(self, 'generations', ())


#: What to do first, by the transition that was asked for and the state that it does not fit.
_FIRST = {
    ('configure', 'inactive'): 'clean it up first to configure it anew',
    ('configure', 'active'): 'deactivate it and clean it up first to configure it anew',
    ('activate', 'unconfigured'): 'configure it first',
    ('activate', 'active'): 'there is nothing to do',
    ('deactivate', 'unconfigured'): 'it publishes nothing',
    ('deactivate', 'inactive'): 'it publishes nothing',
    ('cleanup', 'unconfigured'): 'there is nothing to clean up',
    ('cleanup', 'active'): 'deactivate it first',
}


def fits(transition: str, state: str) -> bool:
    """Tell whether a lifecycle state has a transition, whatever comes of it."""
    return (transition, state) in (
        ('configure', 'unconfigured'), ('activate', 'inactive'), ('deactivate', 'active'),
        ('cleanup', 'inactive'))


def refusal(transition: str, state: str) -> str:
    """
    Say why a transition is refused that does not fit the lifecycle state.

    :param transition: as in ``activate``.
    :param state: as in ``unconfigured``.
    """
    if state == 'finalized':
        first = 'start the process again'
    elif state.endswith('ing'):
        first = 'wait until that has ended'
    elif transition == 'shutdown':
        first = 'that shutdown is for another state'
    else:
        first = _FIRST.get((transition, state), 'there is no such transition')
    return f'{transition} refused: the node is {state}; {first}'


def choose_generations(names: Sequence[str]) -> tuple[Generation, ...]:
    """
    Find the generations that a user named.

    :param names: as in ``ControlConfig.generations``.
    :returns: those generations, newest first.
    :raises ConfigurationError: if there is none of that name, or 'none' is not alone.
    """
    if NONE in names and len(names) > 1:
        raise ConfigurationError(
            f'generations holds {NONE!r} beside others: give {NONE!r} alone, or leave '
            'it out')
    known = {generation.name: generation for generation in GENERATIONS}
    for name in names:
        if name not in (AUTO, NONE) and name not in known:
            near = difflib.get_close_matches(str(name), [AUTO, *known, NONE], 1)
            raise ConfigurationError(
                f'generations holds {name!r}; allowed: {AUTO}, {", ".join(known)}, '
                f'{NONE}'
                f'{f" (did you mean {near[0]!r}?)" if near else ""}')
    return tuple(g for g in GENERATIONS if AUTO in names or g.name in names)


def match_generation(
    package: str, control_fields: Mapping[str, str], info_fields: Mapping[str, str],
) -> Optional[Generation]:
    """
    Tell the generation of an installed package by its messages' fields.

    The name does not tell: two generations share one.

    :param control_fields: field names of its ``Control`` and their types, in order.
    :param info_fields: the same of its ``MocapInfo``.
    :returns: the generation, or None for a package of that name that is none of them.
    """
    for generation in GENERATIONS:
        if (generation.package == package
                and list(generation.control_fields.items()) == list(control_fields.items())
                and list(generation.info_fields.items()) == list(info_fields.items())):
            return generation
    return None


@dataclass(frozen=True)
class Command:
    """
    A control message of whichever generation.

    :ivar control_type: its kind; any number, when it comes from the network.
    :ivar stamp_ns: when it was sent, on the sender's clock.
    :ivar source: who sent it.
    :ivar session_id: the capture session.
    :ivar systems: the systems it is for.
    :ivar generation: name of the generation it came in.
    :ivar original: the message as it came.
    """

    control_type: int
    stamp_ns: int
    source: str
    session_id: str
    systems: tuple[str, ...]
    generation: str = ''
    original: Any = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> Optional[Kind]:
        """Say which message it is; None for a number that means nothing."""
        try:
            return Kind(self.control_type)
        except ValueError:
            return None


def is_addressed(name: str, systems: Sequence[str]) -> bool:
    """
    Tell whether a command is for a system.

    As in the reference, no system named means all of them. The empty string that rqt puts into
    every list names nobody; it makes sure that a list without a tick is not an empty one.

    :param name: the base name of the system's node.
    """
    return not systems or name in systems


class Action(Enum):
    """What a command asks a system for."""

    IGNORE = 'ignore'
    WAIT = 'wait'
    REFUSE = 'refuse'
    FOLLOW = 'follow'


@dataclass(frozen=True)
class Verdict:
    """
    What to do about a command.

    :ivar action: IGNORE it, WAIT for the transition under way and ask again, REFUSE it (say
        why, acknowledge nothing), or FOLLOW it.
    :ivar transitions: transitions to make for it, in order; all must succeed.
    :ivar answer: the acknowledgement due then.
    :ivar reason: why it is refused, and what to do about that.
    """

    action: Action
    transitions: tuple[str, ...] = ()
    answer: Optional[Kind] = None
    reason: str = ''


_UNCONFIGURED = (
    'the node is unconfigured: configure it first (ros2 lifecycle set <node> configure)')
_FINALIZED = 'the node is finalized: it was shut down for good, restart it'

_VERDICTS: dict[tuple[Kind, str], Verdict] = {
    # A controller that restarts, or speaks several generations, asks for what is so already.
    (Kind.START, 'active'): Verdict(Action.FOLLOW, (), Kind.ACK_START),
    (Kind.START, 'inactive'): Verdict(Action.FOLLOW, ('activate',), Kind.ACK_START),
    (Kind.START, 'unconfigured'): Verdict(
        Action.REFUSE, reason=_UNCONFIGURED + ', or set control.configure_on_start'),
    (Kind.START, 'finalized'): Verdict(Action.REFUSE, reason=_FINALIZED),
    (Kind.STOP, 'active'): Verdict(Action.FOLLOW, ('deactivate',), Kind.ACK_STOP),
    (Kind.STOP, 'inactive'): Verdict(Action.FOLLOW, (), Kind.ACK_STOP),
    (Kind.STOP, 'unconfigured'): Verdict(Action.REFUSE, reason=_UNCONFIGURED),
    (Kind.STOP, 'finalized'): Verdict(Action.REFUSE, reason=_FINALIZED),
}
#: How many commands are remembered to know them again in another generation.
_MOST_REMEMBERED = 32
_CONFIGURE_FIRST = Verdict(Action.FOLLOW, ('configure', 'activate'), Kind.ACK_START)


@dataclass
class ControlCounters:
    """
    What came over the control topics.

    :ivar starts: START commands for this system.
    :ivar stops: STOP commands for this system.
    :ivar acknowledged: commands acknowledged.
    :ivar refused: commands refused in the state they met.
    :ivar failed: commands whose transition failed.
    :ivar dropped: commands lost because too many waited for a transition.
    :ivar for_others: START and STOP commands that named other systems.
    :ivar acknowledgements_heard: acknowledgements on the topic, this system's own included.
    :ivar unknown: messages whose type means nothing.
    """

    starts: int = 0
    stops: int = 0
    acknowledged: int = 0
    refused: int = 0
    failed: int = 0
    dropped: int = 0
    for_others: int = 0
    acknowledgements_heard: int = 0
    unknown: int = 0

    def as_dict(self) -> dict[str, int]:
        """List all counters by name."""
        return {counter.name: getattr(self, counter.name) for counter in fields(self)}


class Follower:
    """
    What one system makes of the commands it hears.

    :param name: the base name of the system's node.
    :ivar configure_on_start: as in :class:`ControlConfig`.
    :ivar counters: what came so far.
    :ivar session_id: the session of the last START that was followed.
    """

    def __init__(self, name: str, configure_on_start: bool = False) -> None:
        self.name = name
        self.counters = ControlCounters()
        self.session_id = ''
        self.configure_on_start = configure_on_start
        self._followed: deque[Command] = deque(maxlen=_MOST_REMEMBERED)

    def concerns(self, command: Command) -> bool:
        """Count a message that arrived, and tell whether it is a command for this system."""
        counters, kind = self.counters, command.kind
        if kind is None:
            counters.unknown += 1
            return False
        if kind in (Kind.ACK_START, Kind.ACK_STOP):
            counters.acknowledgements_heard += 1
            return False
        if not is_addressed(self.name, command.systems):
            counters.for_others += 1
            return False
        if kind is Kind.START:
            counters.starts += 1
        else:
            counters.stops += 1
        return True

    def judge(self, command: Command, state: str) -> Verdict:
        """
        Decide what a command for this system asks for.

        :param state: label of the lifecycle state; one that is none of the four primary ones
            is a transition under way.
        """
        kind = command.kind
        if kind is Kind.START and state == 'unconfigured' and self.configure_on_start:
            return _CONFIGURE_FIRST
        if kind is Kind.START or kind is Kind.STOP:
            return _VERDICTS.get((kind, state), Verdict(Action.WAIT))
        return Verdict(Action.IGNORE)

    def has_followed(self, command: Command) -> bool:
        """
        Tell whether this very command was followed when it came in another generation.

        Controllers that speak several send each command in all of them, with one stamp. Commands
        without a stamp are each their own.
        """
        return command.stamp_ns != 0 and any(
            command.generation != other.generation
            and command == replace(other, generation=command.generation)
            for other in self._followed)

    def acknowledge(self, command: Command, verdict: Verdict) -> tuple[Kind, str]:
        """
        Note that a command was followed.

        :returns: the kind of the acknowledgement and its session: that of the command, or, for
            a STOP that names none, as rqt's, that of the START before it.
        """
        assert verdict.answer is not None
        self.counters.acknowledged += 1
        self._followed.append(command)
        if command.kind is Kind.START:
            self.session_id = command.session_id
        return verdict.answer, command.session_id or self.session_id
