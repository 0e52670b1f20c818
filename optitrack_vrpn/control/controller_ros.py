# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A controller of capture systems: find systems, send commands, wait for the answers."""

import functools
import time
from typing import Any, Callable, Optional, Sequence

from geometry_msgs.msg import PoseStamped
from lifecycle_msgs.srv import GetState
from optitrack_vrpn.control.armed_ros import ArmedListener
from optitrack_vrpn.control.endpoint_ros import CONTROL_QOS, Dialect, INFO_LISTENER_QOS
from optitrack_vrpn.control.protocol import Kind
from optitrack_vrpn.control.round import KnownSystem, Listeners, NAMESAKES_S, Round
from optitrack_vrpn.node.base.tool_node import ask_all
from optitrack_vrpn.node.graph.conflicts import base_name, full_name, state_services
from rclpy.executors import Executor
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy

_POSE_TYPE = 'geometry_msgs/msg/PoseStamped'


class _GenerationTopics:
    """Publisher and subscriptions of one generation."""

    def __init__(self, node: Node, dialect: Dialect, namespace: str,
                 on_control: Callable[..., None], on_info: Callable[..., None]) -> None:
        self.dialect = dialect
        control, info = (namespace + topic for topic in dialect.generation.topics(True))
        # Subscribe first: answers may arrive immediately.
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

    Its methods spin the executor while they wait; each has a timeout.

    :param node: the controller's node.
    :param executor: the executor of the node.
    :param dialects: the generations to use.
    :param namespace: namespace of the control topics, as in ``/lab``; empty for the root.
    """

    def __init__(self, node: Node, executor: Executor, dialects: Sequence[Dialect],
                 namespace: str = '') -> None:
        self.systems: dict[str, KnownSystem] = {}
        self._node = node
        self._executor = executor
        self._round: Optional[Round] = None
        self._pose_subscriptions: dict[str, Any] = {}
        self._looked = self._sent_at = 0.0
        self._armed = ArmedListener(node)
        namespace = '/' + namespace.strip('/') if namespace.strip('/') else ''
        self._lines = [
            _GenerationTopics(node, dialect, namespace, self._on_control, self._on_info)
            for dialect in dialects]

    def discover(self, timeout_s: float, names: Sequence[str] = ()) -> None:
        """
        Wait for the discovery of systems.

        :param timeout_s: longest wait (s).
        :param names: systems to wait for; a system is found when it subscribes to commands.
            Without names the method waits for the whole time, because further systems may
            appear; with names at least 2 s, because further systems of the same name may appear.
        """
        earliest = time.monotonic() + min(timeout_s, NAMESAKES_S)
        self._spin_until(
            lambda: bool(names) and time.monotonic() >= earliest and self._matched()
            and self.listeners().include(names), timeout_s)

    def listeners(self) -> Listeners:
        """List the nodes that subscribe to commands."""
        def names(found: Sequence[Any]) -> list[str]:
            return [full_name(entry.node_name, entry.node_namespace) for entry in found]
        topics = [line.publisher.topic_name for line in self._lines]
        return Listeners(*(
            (names(self._node.get_subscriptions_info_by_topic(topic)),
             names(self._node.get_publishers_info_by_topic(topic))) for topic in topics))

    def states(self, names: Sequence[str], timeout_s: float) -> dict[str, str]:
        """
        Request the lifecycle states of systems; systems without an answer are omitted.

        :param names: full names, or unique base names.
        """
        listeners = self.listeners()
        services = [
            (name, service) for name in names for system, service in self._state_services()
            if name in (system, base_name(system)) and (
                name == system or system in (listeners.with_base_name(name) or (system,)))]
        answers = ask_all(self._node, self._executor, GetState,
                          [service for _, service in services], GetState.Request(), timeout_s)
        return {name: answers[service].current_state.label
                for name, service in services if service in answers}

    def command(self, kind: Kind, systems: Sequence[str], session_id: str,
                timeout_s: float) -> Round:
        """
        Send a command, and wait for the acknowledgements and the first poses.

        :param kind: START or STOP.
        :param systems: addressed systems; empty for all.
        :param timeout_s: time in which acknowledgements and poses must arrive (s).
        """
        current = self._round = Round(
            kind, list(systems) or self.all_systems(kind), session_id)
        self._look_for_poses()
        self._sent_at = time.monotonic()
        current.record_sent(time.monotonic_ns())
        stamp = self._node.get_clock().now().to_msg()
        for line in self._lines:
            line.publisher.publish(line.dialect.write(
                kind, stamp, self._node.get_name(), session_id, systems))
        self._spin_until(lambda: self._is_over(current), timeout_s)
        current.refusal = self._refusal(current)
        return current

    def _refusal(self, current: Round) -> str:
        """Return why systems that do not acknowledge refuse the command, '' if not known."""
        return self._armed.refusal if current.kind is Kind.STOP and current.missing else ''

    def all_systems(self, kind: Kind) -> list[str]:
        """
        List the systems that a command without names addresses.

        A START also addresses systems that have announced nothing yet, so that a missing system
        is reported; a STOP would have no effect on them.
        """
        return [*self.systems, *(self.silent() if kind is Kind.START else ())]

    def _spin_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            # Chosen: period at which a wait checks its condition (s).
            self._executor.spin_once(timeout_sec=0.02)

    def silent(self) -> list[str]:
        """Name lifecycle nodes that listen to commands and have not announced themselves."""
        lifecycle_nodes = {base_name(name) for name, _ in self._state_services()}
        return sorted(self.listeners().names & lifecycle_nodes - self.systems.keys())

    def has_poses(self, name: str) -> bool:
        """Return whether a system has announced a pose topic that exists."""
        return name in self.systems and any(self._pose_topics(self.systems[name]))

    def _state_services(self) -> list[tuple[str, str]]:
        """List the full names of nodes and the services of their lifecycle states."""
        return state_services(self._node.get_service_names_and_types())

    def _matched(self) -> bool:
        """Return whether a command would reach all known listeners."""
        return all(
            line.publisher.get_subscription_count() >= len(
                self._node.get_subscriptions_info_by_topic(line.publisher.topic_name))
            for line in self._lines)

    def _on_info(self, dialect: Dialect, message: Any) -> None:
        name, topics = dialect.read_info(message)
        self.systems.setdefault(name, KnownSystem(name)).record(dialect.generation.name, topics)
        self._look_for_poses()

    def _on_control(self, dialect: Dialect, message: Any) -> None:
        if self._round is not None:
            self._round.record_answer(dialect.read(message), time.monotonic_ns(),
                                      self._node.get_clock().now().nanoseconds)

    def _pose_topics(self, system: KnownSystem) -> list[str]:
        """List existing pose topics of a system, a limited number."""
        types = dict(self._node.get_topic_names_and_types())
        # Chosen: number of topics per system on which the first pose is awaited.
        return [topic for topic in system.topics if _POSE_TYPE in types.get(topic, ())
                and self._node.count_publishers(topic)][:50]

    def _look_for_poses(self) -> None:
        """Subscribe to the topics of the systems that are being started."""
        self._looked = time.monotonic()
        if self._round is None or self._round.kind is not Kind.START:
            return
        for system in self.systems.values():
            if system.name not in self._round.wanted or system.name in self._round.poses:
                continue
            for topic in self._pose_topics(system):
                if topic not in self._pose_subscriptions:
                    self._pose_subscriptions[topic] = self._node.create_subscription(
                        PoseStamped, topic,
                        functools.partial(self._on_pose, system.name, topic),
                        QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT))

    def _on_pose(self, name: str, topic: str, message: Any) -> None:
        if self._round is not None and not self._round.all_have_poses:
            self._round.record_pose(name, topic, time.monotonic_ns())

    def _is_over(self, current: Round) -> bool:
        """
        Return whether all systems have acknowledged and, after a START, published a pose.

        A system may announce its poses long after its acknowledgement, because its bodies appear
        with its server. For a system without bodies the wait ends at the timeout.
        """
        # The announcement of a topic may come before the topic itself is found.
        # Chosen: period of the search for new pose topics (s).
        if time.monotonic() - self._looked > 0.2:
            self._look_for_poses()
        # Systems that refuse a STOP send nothing; the others answer within a second. Chosen.
        if time.monotonic() - self._sent_at > 1.0 and self._refusal(current):
            return True
        return not current.missing and (
            current.kind is not Kind.START or current.all_have_poses)
