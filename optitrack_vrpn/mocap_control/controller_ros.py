# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A controller of capture systems: hears who is there, sends commands, waits for the answers."""

from collections import Counter
import contextlib
import functools
import os
import time
from typing import Any, Callable, Iterator, Optional, Sequence

from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import GetState
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.graph.node_names import base_name, full_name
from optitrack_vrpn.mocap_control.messages_ros import CONTROL_QOS, Dialect, INFO_LISTENER_QOS
from optitrack_vrpn.mocap_control.protocol import Kind
from optitrack_vrpn.mocap_control.round import (
    KnownSystem, Listeners, Namesakes, NAMESAKES_S, Round)
import rclpy
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

_POSE_TYPE = 'geometry_msgs/msg/PoseStamped'
#: Topics of one system that are listened to for its first pose.
_MOST_POSE_TOPICS = 50
_STEP_S = 0.02
#: How long an answer may take until the question is put again (s).
_ASK_AGAIN_S = 0.5
#: How often new topics of poses are looked for.
_LOOK_S = 0.2


def _answer(futures: Sequence[Any]) -> Any:
    """Give the first answer that has come to any of the same questions; None before."""
    for future in futures:
        if future.done() and future.exception() is None and future.result() is not None:
            return future.result()
    return None


def _answered(asked: Sequence[Sequence[Any]]) -> bool:
    """Tell whether each of several questions, asked however often, has an answer."""
    return all(_answer(futures) is not None for futures in asked)


def _owner_of(endpoint: Any) -> str:
    """Give the full name of the node that a publisher or subscription belongs to."""
    return full_name(endpoint.node_name, endpoint.node_namespace)


class _Line:
    """Publisher and subscriptions of one generation."""

    def __init__(self, node: Node, dialect: Dialect, namespace: str,
                 on_control: Callable[..., None], on_info: Callable[..., None]) -> None:
        self.dialect = dialect
        control, info = (namespace + topic for topic in dialect.generation.topics(True))
        # Listen first: answers may be quick.
        self._subscriptions = [
            node.create_subscription(
                dialect.control_type, control, functools.partial(on_control, dialect),
                CONTROL_QOS),
            node.create_subscription(
                dialect.info_type, info, functools.partial(on_info, dialect),
                INFO_LISTENER_QOS)]
        self.publisher = node.create_publisher(dialect.control_type, control, CONTROL_QOS)


class MocapController:
    """
    Control capture systems over mocap control.

    Its methods spin the executor while they wait, each with an end in time.

    :param node: the node to work with.
    :param executor: what spins it.
    :param dialects: the generations to speak.
    :param namespace: of the control topics, as in ``/lab``; empty for the root.
    """

    def __init__(self, node: Node, executor: Executor, dialects: Sequence[Dialect],
                 namespace: str = '') -> None:
        self.systems: dict[str, KnownSystem] = {}
        self._node = node
        self._executor = executor
        self._round: Optional[Round] = None
        self._pose_subscriptions: dict[str, Any] = {}
        self._owners: dict[str, str] = {}
        self._looked = 0.0
        namespace = '/' + namespace.strip('/') if namespace.strip('/') else ''
        self._lines = [
            _Line(node, dialect, namespace, self._on_control, self._on_info)
            for dialect in dialects]

    def discover(self, timeout_s: float, names: Sequence[str] = ()) -> None:
        """
        Wait until systems are there.

        :param timeout_s: how long at most.
        :param names: systems to wait for, which are there when they can hear commands; without
            any the whole time is waited, since there may always be one more. With names it is two
            seconds at least, since there may be one more of the same name.
        """
        earliest = time.monotonic() + min(timeout_s, NAMESAKES_S)
        self._spin_until(
            lambda: bool(names) and time.monotonic() >= earliest and self._matched()
            and self.listeners().knows(names), timeout_s)

    def listeners(self) -> Listeners:
        """List the nodes that subscribe to commands."""
        heard = (
            (_owner_of(entry), line.dialect.generation.name) for line in self._lines
            for entry in self._node.get_subscriptions_info_by_topic(line.publisher.topic_name))
        return Listeners(heard, (name for name, _ in self._state_services()), self.systems)

    def states(self, names: Sequence[str], timeout_s: float) -> dict[str, str]:
        """
        Ask systems for their lifecycle states; those that do not tell are left out.

        :param names: full names, or base names of which there is one.

        Each is asked again and again until it answers: an answer is lost where the system has
        not found its reader yet, as happens right after discovery on a busy machine.
        """
        listeners = self.listeners()
        services = [
            (name, service) for name in names for system, service in self._state_services()
            if name in (system, base_name(system)) and (
                name == system or system in (listeners.called(name) or (system,)))]
        clients = [(name, self._node.create_client(GetState, service))
                   for name, service in services]
        self._spin_until(lambda: all(c.service_is_ready() for _, c in clients), timeout_s)
        states: dict[str, str] = {}
        left: list[tuple[str, Any, list[Any]]] = [
            (name, client, []) for name, client in clients if client.service_is_ready()]
        deadline = time.monotonic() + timeout_s
        while left and (patience_s := deadline - time.monotonic()) > 0:
            for _, client, futures in left:
                futures.append(client.call_async(GetState.Request()))
            asked = [futures for *_, futures in left]
            self._spin_until(functools.partial(_answered, asked), min(patience_s, _ASK_AGAIN_S))
            for name, _, futures in left:
                answer = _answer(futures)
                if answer is not None:
                    states[name] = answer.current_state.label
            left = [one for one in left if one[0] not in states]
        for _, client in clients:
            self._node.destroy_client(client)
        return states

    def command(self, kind: Kind, systems: Sequence[str], session_id: str,
                timeout_s: float) -> Round:
        """
        Send a command, and wait for the acknowledgements and the first poses.

        :param kind: START or STOP.
        :param systems: whom it is for; empty for all.
        :param timeout_s: time until acknowledgements and poses must have come.
        """
        wanted = list(systems) or self.everyone(kind)
        namesakes = self.listeners().shared(wanted)
        if kind is Kind.STOP and not systems:
            namesakes = self._with_something_to_stop(namesakes, min(1.0, timeout_s))
        current = self._round = Round(kind, wanted, namesakes)
        self._look_for_poses()
        current.sent(time.monotonic_ns())
        stamp = self._node.get_clock().now().to_msg()
        for line in self._lines:
            line.publisher.publish(line.dialect.write(
                kind, stamp, self._node.get_name(), session_id, systems))
        self._spin_until(lambda: self._is_over(current), timeout_s)
        return current

    def everyone(self, kind: Kind) -> list[str]:
        """
        Name the systems that a command without names is for.

        A START is meant for those too that have announced nothing yet, since nobody may go
        missing unnoticed; they have nothing that a STOP could end.
        """
        return [*self.systems, *(self.silent() if kind is Kind.START else ())]

    def _with_something_to_stop(
        self, namesakes: dict[str, Namesakes], timeout_s: float,
    ) -> dict[str, Namesakes]:
        """Leave out who is unconfigured, of each name that several systems have."""
        states = self.states([one for found in namesakes.values() for one in found], timeout_s)
        running = {
            name: {one: spoken for one, spoken in found.items()
                   if states.get(one) != 'unconfigured'}
            for name, found in namesakes.items()}
        return {name: found for name, found in running.items() if len(found) > 1}

    def _spin_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=_STEP_S)

    def silent(self) -> list[str]:
        """Name lifecycle nodes that listen to commands and have not announced themselves."""
        lifecycle_nodes = {base_name(name) for name, _ in self._state_services()}
        return sorted(self.listeners().names & lifecycle_nodes - self.systems.keys())

    def has_poses(self, name: str) -> bool:
        """
        Tell whether a system has announced a topic of poses that exists.

        :param name: as in ``Round.poses``.
        """
        system = self.systems.get(name) or self.systems.get(base_name(name))
        return system is not None and any(
            owner == name for owner, _ in self._pose_topics(system))

    def topics(self, name: str) -> dict[str, list[str]]:
        """
        Tell the topics that the systems of one base name have announced.

        :returns: the topics by the full name of the system; by the base name those of which the
            graph does not tell it.
        """
        found: dict[str, list[str]] = {}
        there = dict(self._node.get_topic_names_and_types())
        shared = self.listeners().shared([name])
        for topic in self.systems[name].topics if name in self.systems else ():
            owners = self._publishers(topic) & shared.get(name, {}).keys() if (
                topic in there) else set()
            for owner in sorted(owners) or [name]:
                found.setdefault(owner, []).append(topic)
        return found

    def _publishers(self, topic: str) -> set[str]:
        """Give the full names of the nodes that publish a topic which exists."""
        return {_owner_of(entry) for entry in self._node.get_publishers_info_by_topic(topic)}

    def _state_services(self) -> list[tuple[str, str]]:
        """List nodes' full names and the services that tell their lifecycle states."""
        return [
            (service.rpartition('/')[0], service)
            for service, types in self._node.get_service_names_and_types()
            if service.endswith('/get_state') and 'lifecycle_msgs/srv/GetState' in types]

    def _matched(self) -> bool:
        """Tell whether a command would reach everyone who is known to listen."""
        return all(
            line.publisher.get_subscription_count() >= len(
                self._node.get_subscriptions_info_by_topic(line.publisher.topic_name))
            for line in self._lines)

    def _on_info(self, dialect: Dialect, message: Any) -> None:
        name, topics = dialect.read_info(message)
        self.systems.setdefault(name, KnownSystem(name)).hear(dialect.generation.name, topics)
        self._look_for_poses()

    def _on_control(self, dialect: Dialect, message: Any) -> None:
        if self._round is not None:
            self._round.hear(dialect.read(message), time.monotonic_ns(),
                             self._node.get_clock().now().nanoseconds)

    def _owner(self, name: str, topic: str) -> str:
        """Tell whose topic it is; the base name if several have it and the graph does not tell."""
        namesakes = self._round.namesakes.get(name) if self._round is not None else None
        if not namesakes:
            return name
        if topic not in self._owners:
            owners = self._publishers(topic) & namesakes.keys()
            if len(owners) != 1:
                return name
            self._owners[topic] = owners.pop()
        return self._owners[topic]

    def _pose_topics(self, system: KnownSystem) -> list[tuple[str, str]]:
        """List topics of poses that exist and whose each is, so many of everyone."""
        types = dict(self._node.get_topic_names_and_types())
        found = []
        counts: Counter[str] = Counter()
        for topic in system.topics:
            if _POSE_TYPE not in types.get(topic, ()):
                continue
            owner = self._owner(system.name, topic)
            if counts[owner] < _MOST_POSE_TOPICS and self._node.count_publishers(topic):
                counts[owner] += 1
                found.append((owner, topic))
        return found

    def _look_for_poses(self) -> None:
        """Listen to what systems that are being started publish by now."""
        self._looked = time.monotonic()
        if self._round is None or self._round.kind is not Kind.START:
            return
        for system in self.systems.values():
            if system.name not in self._round.wanted or system.name in self._round.poses:
                continue
            for owner, topic in self._pose_topics(system):
                if topic not in self._pose_subscriptions and owner not in self._round.poses:
                    self._pose_subscriptions[topic] = self._node.create_subscription(
                        PoseStamped, topic,
                        functools.partial(self._on_pose, system.name, topic),
                        QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT))

    def _on_pose(self, name: str, topic: str, message: Any) -> None:
        if self._round is not None and not self._round.all_have_poses:
            self._round.see_pose(self._owner(name, topic), topic, time.monotonic_ns())

    def _is_over(self, current: Round) -> bool:
        """
        Tell whether everyone has acknowledged, and after a START published a pose.

        A system may announce its poses long after its acknowledgement: its bodies appear when
        its server does. One that has none at all is waited for in vain.
        """
        # The announcement of a topic may come before the topic itself is found.
        if time.monotonic() - self._looked > _LOOK_S:
            self._look_for_poses()
        return not current.missing and (
            current.kind is not Kind.START or current.all_have_poses)


@contextlib.contextmanager
def open_controller(
    argv: Sequence[str], dialects: Sequence[Dialect], namespace: str,
) -> Iterator[MocapController]:
    """
    Bring ROS up, give a controller, and end ROS.

    :param argv: the whole command line, program name first.
    :raises ConfigurationError: if ROS cannot read the command line.
    :raises KeyboardInterrupt: if a signal ends ROS.
    """
    try:
        rclpy.init(args=list(argv))
    except RuntimeError as error:    # RCLError
        raise ConfigurationError(str(error)) from None
    try:
        node = rclpy.create_node(f'mocap_control_{os.getpid()}')
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        yield MocapController(node, executor, dialects, namespace)
    except ExternalShutdownException:
        raise KeyboardInterrupt from None
    finally:
        rclpy.try_shutdown()
