# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The mocap_control message packages that are installed, behind one interface."""

from dataclasses import dataclass
import importlib
from typing import Any, Sequence

from builtin_interfaces.msg import Time
from optitrack_vrpn.cli import how_to_install
from optitrack_vrpn.mocap_control.protocol import (
    choose_generations, Command, Generation, GENERATIONS, Kind, match_generation)
from optitrack_vrpn.units import NS_PER_S
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy


def _qos(depth: int, durability: DurabilityPolicy) -> QoSProfile:
    return QoSProfile(
        depth=depth, history=HistoryPolicy.KEEP_LAST, reliability=ReliabilityPolicy.RELIABLE,
        durability=durability)


#: Control: reliable and volatile as in the reference, whose depth is 100. The depth is local to
#: each endpoint; a longer history loses no message in a burst of commands and acknowledgements.
CONTROL_QOS = _qos(1000, DurabilityPolicy.VOLATILE)

#: Info of one system: reliable and transient local as in the reference. The reference keeps all
#: messages because it sends only one; here each message replaces the previous one, and a late
#: subscriber must receive only the latest.
INFO_QOS = _qos(1, DurabilityPolicy.TRANSIENT_LOCAL)

#: Info of all systems, for subscribers.
INFO_LISTENER_QOS = _qos(1000, DurabilityPolicy.TRANSIENT_LOCAL)


def time_ns(stamp: Time) -> int:
    """Convert a ROS time to nanoseconds."""
    return int(stamp.sec) * NS_PER_S + int(stamp.nanosec)


@dataclass(frozen=True)
class Dialect:
    """
    One generation with its message classes.

    :ivar generation: the generation.
    :ivar control_type: its message class ``Control``.
    :ivar info_type: its message class ``MocapInfo``.
    """

    generation: Generation
    control_type: Any
    info_type: Any

    def read(self, message: Any) -> Command:
        """Convert a ``Control`` message to a command."""
        names = self.generation
        return Command(
            control_type=int(message.control_type), stamp_ns=time_ns(message.stamp),
            source=getattr(message, names.source), session_id=getattr(message, names.session),
            systems=tuple(getattr(message, names.targets)), generation=names.name,
            original=message)

    def write(
        self, kind: Kind, stamp: Time, source: str, session_id: str, systems: Sequence[str] = (),
    ) -> Any:
        """Make a ``Control`` message."""
        names = self.generation
        return self.control_type(control_type=int(kind), stamp=stamp, **{
            names.source: source, names.session: session_id, names.targets: list(systems)})

    def read_info(self, message: Any) -> tuple[str, list[str]]:
        """Return the system's name and its topics from a ``MocapInfo`` message."""
        return getattr(message, self.generation.source), list(message.topics)

    def write_info(self, source: str, topics: Sequence[str]) -> Any:
        """Make the ``MocapInfo`` message of a ROS 2 system."""
        return self.info_type(
            ros_version_source=self.info_type.ROS2, topics=list(topics),
            **{self.generation.source: source})


def find_dialects(names: Sequence[str]) -> tuple[list[Dialect], list[str]]:
    """
    Find the requested generations that are installed.

    :param names: as in ``ControlConfig.generations``.
    :returns: the installed generations, newest first; and descriptions of problems: installed
        packages of an unknown generation, and requested generations that are not installed.
    :raises ConfigurationError: if there is no generation of that name.
    """
    wanted = choose_generations(names)
    found: list[Dialect] = []
    problems: list[str] = []
    for package in dict.fromkeys(generation.package for generation in GENERATIONS):
        asked_for = [g for g in wanted if g.package == package]
        if not asked_for:
            continue
        named = [g.name for g in asked_for if g.name in names]
        try:
            messages = importlib.import_module(f'{package}.msg')
            control, info = messages.Control, messages.MocapInfo
            generation = match_generation(
                package, control.get_fields_and_field_types(), info.get_fields_and_field_types())
        except ModuleNotFoundError as error:
            if named or not package.startswith(str(error.name)):
                problems.append(f'{package} (for {", ".join(named) or package}): {error}')
            continue
        except Exception as error:
            problems.append(f'{package} cannot be used: {error}')
            continue
        if generation is None:
            problems.append(
                f'{package} is of no known generation: its Control has the fields '
                f'{", ".join(control.get_fields_and_field_types())}')
        elif generation in asked_for:
            found.append(Dialect(generation, control, info))
        if named and generation is not None and named != [generation.name]:
            problems.append(
                f'generation {", ".join(named)} is configured, but the installed {package} is '
                f'of generation {generation.name}')
    return found, problems


def install_messages() -> str:
    """Return how to install the messages."""
    packages = dict.fromkeys(generation.package for generation in GENERATIONS)
    return f'none of {", ".join(packages)} is installed: ' + how_to_install(
        'sudo apt install ros-$ROS_DISTRO-mocap4r2-control-msgs where that is released (Humble), '
        'or build it from https://github.com/MOCAP4ROS2-Project/mocap4r2')
