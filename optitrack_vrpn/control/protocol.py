# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The mocap_control protocol: a controller starts and stops capture systems together.

Three generations of the protocol are in use, with the same structure but different packages,
topics and field names. A table describes them; all other code uses the common :class:`Command`.

Pure: the node converts messages to commands, asks :class:`Follower` for the transitions that a
command requires in the current lifecycle state, makes them and reports the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple, Optional

from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import Change, checked, did_you_mean, setting


class Kind(IntEnum):
    """Kinds of control messages; the values of ``Control.control_type``."""

    START = 0
    ACK_START = 1
    STOP = 2
    ACK_STOP = 3


#: The acknowledgement of each command.
ANSWERS = {Kind.START: Kind.ACK_START, Kind.STOP: Kind.ACK_STOP}


@dataclass(frozen=True)
class Generation:
    """
    One generation of the protocol.

    :ivar name: name in the settings.
    :ivar package: the package of its messages ``Control`` and ``MocapInfo``.
    :ivar control_topic: topic of commands and acknowledgements in the generation's own tools.
    :ivar info_topic: topic of the announcements of systems in the generation's own tools.
    :ivar source: field with the name of the sender, in both messages.
    :ivar session: field with the capture session, in ``Control``.
    :ivar targets: field with the addressed systems, in ``Control``.
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
        Return the names of the control topic and the info topic.

        :param absolute: True for the root namespace, False for the generation's default, which is
            relative to the node's namespace except in the first generation.
        """
        names = (self.control_topic, self.info_topic)
        return ('/' + names[0].lstrip('/'), '/' + names[1].lstrip('/')) if absolute else names


#: Newest first. This table contains all differences between the generations.
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
    """Settings of a system that mocap control starts and stops."""

    generations: tuple[str, ...] = setting((AUTO,), change=Change.START, doc=(
        'generations of mocap control to follow: auto (those whose messages are installed), or '
        'some of mocap4r2, mocap and seed, or none'))
    absolute_topics: bool = setting(True, change=Change.START, doc=(
        'use control topics in the root namespace, as rqt does, in every namespace of the node'))
    configure_on_start: bool = setting(
        False, change=Change.START, doc='let a START configure an unconfigured node')

    def check(self) -> None:
        """
        Check the generations.

        :raises ConfigurationError: if a generation is unknown.
        """
        choose_generations(self.generations)
        if NONE in self.generations:
            object.__setattr__(self, 'generations', ())


def choose_generations(names: Sequence[str]) -> tuple[Generation, ...]:
    """
    Find the configured generations.

    :param names: as in ``ControlConfig.generations``.
    :returns: the generations, newest first.
    :raises ConfigurationError: if a name is unknown, or if 'none' is not alone.
    """
    if NONE in names and len(names) > 1:
        raise ConfigurationError(
            f'generations contains {NONE!r} and others: give {NONE!r} alone, or remove it')
    known = {generation.name: generation for generation in GENERATIONS}
    for name in names:
        if name not in (AUTO, NONE) and name not in known:
            near = did_you_mean(str(name), [AUTO, *known, NONE])
            raise ConfigurationError(
                f'generations contains {name!r}; allowed: {AUTO}, {", ".join(known)}, {NONE}'
                f'{f" ({near})" if near else ""}')
    return tuple(g for g in GENERATIONS if AUTO in names or g.name in names)


def match_generation(
    package: str, control_fields: Mapping[str, str], info_fields: Mapping[str, str],
) -> Optional[Generation]:
    """
    Identify the generation of an installed package by the fields of its messages.

    The name of the package is not sufficient: two generations share it.

    :param control_fields: field names of its ``Control`` and their types, in order.
    :param info_fields: field names of its ``MocapInfo`` and their types, in order.
    :returns: the generation, or None for an unknown one.
    """
    given = package, [*control_fields.items()], [*info_fields.items()]
    return next((g for g in GENERATIONS if given == (
        g.package, [*g.control_fields.items()], [*g.info_fields.items()])), None)


@dataclass(frozen=True)
class Command:
    """
    A control message of any generation.

    :ivar control_type: its kind; messages from the network can have any number.
    :ivar stamp_ns: time of sending on the sender's clock (ns).
    :ivar source: name of the sender.
    :ivar session_id: the capture session.
    :ivar systems: names of the addressed systems.
    :ivar generation: name of its generation.
    :ivar original: the ROS message.
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
        """Return the kind of the message; None for an unknown number."""
        try:
            return Kind(self.control_type)
        except ValueError:
            return None


class ControlVerdict(NamedTuple):
    """
    Decision about a command.

    :ivar transitions: transitions to make, in order; all must succeed before the acknowledgement.
    :ivar reason: why the command is refused, with the remedy; then no acknowledgement is sent.
    """

    transitions: tuple[str, ...] = ()
    reason: str = ''


_UNCONFIGURED = (
    'the node is unconfigured: configure it first (ros2 lifecycle set <node> configure)')
_FINALIZED = 'the node is finalized: it was shut down, restart it'

_VERDICTS: dict[tuple[Kind, str], ControlVerdict] = {
    # A controller that restarts, or uses several generations, requests the present state.
    (Kind.START, 'active'): ControlVerdict(),
    (Kind.START, 'inactive'): ControlVerdict(('activate',)),
    (Kind.START, 'unconfigured'): ControlVerdict(
        reason=_UNCONFIGURED + ', or set control.configure_on_start'),
    (Kind.START, 'finalized'): ControlVerdict(reason=_FINALIZED),
    (Kind.STOP, 'active'): ControlVerdict(('deactivate',)),
    (Kind.STOP, 'inactive'): ControlVerdict(),
    (Kind.STOP, 'unconfigured'): ControlVerdict(reason=_UNCONFIGURED),
    (Kind.STOP, 'finalized'): ControlVerdict(reason=_FINALIZED),
}


class Follower:
    """
    Decide how one system reacts to commands.

    :param name: the base name of the system's node.
    :ivar configure_on_start: as in :class:`ControlConfig`.
    :ivar session_id: the session of the last START that was followed.
    """

    def __init__(self, name: str, configure_on_start: bool = False) -> None:
        self.name = name
        self.session_id = ''
        self.configure_on_start = configure_on_start

    def concerns(self, command: Command) -> bool:
        """
        Return whether a message is a command for this system.

        As in the reference, an empty list addresses all systems. rqt adds an empty string to each
        list, which addresses no system: without a selected system it is not empty.
        """
        return command.kind in ANSWERS and (
            not command.systems or self.name in command.systems)

    def decide(self, command: Command, state: str) -> Optional[ControlVerdict]:
        """
        Decide how to execute a START or STOP for this system.

        :param state: label of the lifecycle state.
        :returns: the decision; None during a transition: decide again after its end.
        """
        kind = Kind(command.control_type)
        if (kind, state) == (Kind.START, 'unconfigured') and self.configure_on_start:
            return ControlVerdict(('configure', 'activate'))
        return _VERDICTS.get((kind, state))

    def acknowledge(self, command: Command) -> tuple[Kind, str]:
        """
        Record that a command was followed.

        :returns: the kind of the acknowledgement and its session: that of the command, or, for a
            STOP without a session (rqt sends none), that of the START before it.
        """
        if command.kind is Kind.START:
            self.session_id = command.session_id
        return ANSWERS[Kind(command.control_type)], command.session_id or self.session_id
