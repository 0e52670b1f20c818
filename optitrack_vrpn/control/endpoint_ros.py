# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Publishers and subscription of one generation of mocap control, and its acknowledgements."""

from collections import deque
from dataclasses import dataclass
import importlib
from typing import Any, Callable, Sequence

from builtin_interfaces.msg import Time
from optitrack_vrpn.cli.command_io import how_to_install
from optitrack_vrpn.control.protocol import (
    choose_generations, Command, Generation, GENERATIONS, Kind, match_generation)
from optitrack_vrpn.core.units import NS_PER_S
from rclpy.clock import Clock
from rclpy.node import Node
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


#: Chosen: period of the checks during that wait (s).
_RETRY_S = 0.005


def delay_timer(node: Node, period_s: float, callback: Callable[[], None], clock: Clock) -> Any:
    """
    Make a timer that calls back once, a period after each reset.

    Only its own callback cancels it: if another one cancels a timer that an executor of several
    threads has found ready, rclpy's ``spin`` raises.
    """
    def once() -> None:
        timer.cancel()
        callback()
    timer = node.create_timer(period_s, once, clock=clock)
    timer.cancel()
    return timer


class Endpoint:
    """
    Publishers and subscription of one generation in a controlled node.

    :param node: the node.
    :param dialect: the generation.
    :param absolute: topics in the root namespace.
    :param clock: a clock that does not follow simulated time.
    :param on_command: called with this endpoint and each message that arrives.
    """

    def __init__(
        self, node: Node, dialect: Dialect, absolute: bool, clock: Clock,
        on_command: Callable[['Endpoint', Command], None],
    ) -> None:
        self.generation = dialect.generation
        self._node = node
        self._dialect = dialect
        self._clock = clock
        self._due: deque[tuple[Kind, str, int]] = deque()
        control_topic, info_topic = dialect.generation.topics(absolute)
        # Plain publishers: those of a lifecycle node are silent until it is active.
        self._control = node.create_publisher(dialect.control_type, control_topic, CONTROL_QOS)
        self._info = node.create_publisher(dialect.info_type, info_topic, INFO_QOS)
        self._timer = delay_timer(node, _RETRY_S, self._send, clock)
        self._subscription = node.create_subscription(
            dialect.control_type, control_topic,
            lambda message: on_command(self, dialect.read(message)), CONTROL_QOS)

    def announce(self, topics: Sequence[str]) -> None:
        """Publish the topics of this system."""
        self._info.publish(self._dialect.write_info(self._node.get_name(), topics))

    def acknowledge(self, kind: Kind, session_id: str) -> None:
        """Send an acknowledgement as soon as all controllers have subscribed, in order."""
        # Longest wait of an acknowledgement for a controller that has not subscribed yet (ns).
        # Chosen: mocap4r2cli sends its command before it subscribes, and gives up 0.5 s after the
        # command.
        self._due.append((kind, session_id, self._clock.now().nanoseconds + 200_000_000))
        self._send()

    def _send(self) -> None:
        while self._due:
            kind, session_id, deadline_ns = self._due[0]
            if self._clock.now().nanoseconds < deadline_ns and not self._all_listen():
                self._timer.reset()
                return
            self._due.popleft()
            self._control.publish(self._dialect.write(
                kind, self._node.get_clock().now().to_msg(), self._node.get_name(), session_id))

    def _all_listen(self) -> bool:
        """Return whether every node that publishes on the control topic also subscribes to it."""
        topic = self._control.topic_name
        listeners = self._node.get_subscriptions_info_by_topic(topic)
        nodes = {(entry.node_namespace, entry.node_name) for entry in listeners}
        return self._control.get_subscription_count() >= len(listeners) and all(
            (entry.node_namespace, entry.node_name) in nodes
            for entry in self._node.get_publishers_info_by_topic(topic))
