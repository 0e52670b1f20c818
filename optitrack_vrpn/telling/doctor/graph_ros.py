# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Query the ROS graph: nodes, their states and parameters, subscriptions; added checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
import difflib
import importlib
import os
import time
from typing import Any, Optional

from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseArray, PoseStamped, PoseWithCovarianceStamped
from lifecycle_msgs.srv import GetState
from nav_msgs.msg import Odometry
from optitrack_vrpn.cli.rows_io import checks
from optitrack_vrpn.core.checks import CheckResult, cleaned, warn
from optitrack_vrpn.core.status import StatusReport
from optitrack_vrpn.node.base.tool_node import ask_all, SLICE_S, ToolNode
from optitrack_vrpn.node.graph.conflicts import base_name, full_name, NAMELESS, state_services
from optitrack_vrpn.node.graph.processes import discovery_variables
from optitrack_vrpn.node.graph.processes_io import dead_servers, local_nodes
from optitrack_vrpn.stream.bodies.settings import is_body_setting, split
from optitrack_vrpn.telling.doctor.results import (
    Graph, Mismatch, Orphan, RunningNode, target_parameters)
from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import (
    DurabilityPolicy, qos_check_compatible, QoSCompatibility, QoSProfile, ReliabilityPolicy)

_OURS = 'optitrack_vrpn'
#: Parameters that only nodes of this package have together, under any node name.
_ONLY_OURS = ('stamps.mode', 'validation.frozen_after_s', 'motive_x')
_SETTINGS = (*target_parameters(), 'protocol', 'axes', 'up_axis', 'frames.world', 'stamps.mode',
             'stamps.max_age_s', 'bodies.allow', 'bodies.deny')
_POSE = 'geometry_msgs/msg/PoseStamped'
#: Messages that contain the pose of a body.
_WITH_POSES = {_POSE: PoseStamped, 'nav_msgs/msg/Odometry': Odometry,
               'geometry_msgs/msg/PoseWithCovarianceStamped': PoseWithCovarianceStamped,
               'geometry_msgs/msg/PoseArray': PoseArray}
_NOT_POSES = ('/rosout', '/parameter_events')
#: Chosen limits, above the size of known systems: checked nodes, lifecycle nodes that are asked
#: whether they are of this package, reported mismatches.
_MOST_NODES, _MOST_ASKED, _MOST_MISMATCHES = 20, 100, 100
#: Longest wait for a pose of an active node, and for its diagnostics (s). Chosen: a node can
#: discover a subscription after 3 s; diagnostics are published once a second.
_POSE_S, _DIAGNOSTICS_S = 4.0, 1.5
#: Chosen: topics of a node to which the doctor listens, and reported subscriptions.
_MOST_TOPICS, _MOST_ORPHANS = 50, 20
#: Chosen: time (s) for which TF is followed, and frames of which the parents are noted.
_TF_S, _MOST_FRAMES = 1.0, 5000
#: Best effort matches every publisher, with any reliability.
_ANY = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)


class GraphView(ToolNode):
    """
    The doctor's node. Create it early: the middleware discovers other nodes meanwhile.

    :param ros_args: ``--ros-args`` and the arguments after it.
    :param given: the discovery variables of the user's environment.
    :param robots: addresses of computers that the user expects in the graph.
    """

    def __init__(
        self, ros_args: Sequence[str] = (), given: Mapping[str, str] = os.environ,
        robots: Sequence[str] = (),
    ) -> None:
        self._began = time.monotonic()
        self._given = discovery_variables(given)
        super().__init__(f'optitrack_vrpn_doctor_{os.getpid()}', ros_args,
                         start_parameter_services=False, enable_rosout=False)
        self._extensions = Extensions(self.node, robots=robots)

    def settings(self, wanted: str, wait_s: float) -> list[RunningNode]:
        """Find nodes of this package, with their settings; see ``look`` for the parameters."""
        found, _ = self._discover(wanted, wait_s)
        return [self._ask(*key) for key in found]

    def _discover(
        self, wanted: str, wait_s: float,
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """Find the nodes to check; and those of this package if the requested one is missing."""
        wanted = _full(wanted)
        found = self._find(wanted)
        while True:
            passed_s = time.monotonic() - self._began
            early = found if wanted else [name for name, _ in found if _OURS in name]
            # Shortest time of discovery (s), after which other nodes and subscriptions are known
            # too. Chosen.
            if passed_s >= (min(1.0, wait_s) if early else wait_s):
                break
            time.sleep(0.05)
            found = self._find(wanted)
        others = self._ours(self._find('')) if wanted and not found else []
        return (found if wanted else self._ours(found))[:_MOST_NODES], others

    def look(self, wanted: str, wait_s: float) -> Graph:
        """
        Find nodes of this package, query them, and listen to their poses.

        :param wanted: name of the node to check; '' for all of this package.
        :param wait_s: time of the discovery (s), from the creation of this object.
        """
        found, others = self._discover(wanted, wait_s)
        topics: dict[str, dict[str, str]] = {}
        nodes = []
        for key in found:
            nodes.append(self._ask(*key))
            topics[nodes[-1].name] = self._look_at_topics(nodes[-1], *key)
        parents: dict[str, set[str]] = {}
        transforms = self._follow_frames(parents) if any(
            '/tf' in found for found in topics.values()) else []
        began = time.monotonic()
        self._listen([node for node in nodes if node.state == 'active'], topics)
        if transforms:
            self.spin(max(0.0, _TF_S - (time.monotonic() - began)))
        for one in transforms:
            self.node.destroy_subscription(one)
        variables = discovery_variables(os.environ)
        return Graph(
            wanted=_full(wanted), others=tuple(full_name(*key) for key in others),
            waited_s=time.monotonic() - self._began, nodes=tuple(nodes),
            variables={**variables, 'ROS_DOMAIN_ID': str(self.context.get_domain_id())},
            given=self._given, processes=local_nodes(), orphans=self._orphans(topics),
            dead_servers=() if nodes else dead_servers(variables['ROS_DISCOVERY_SERVER']),
            announced=() if nodes else self._announced(),
            parents={frame: tuple(sorted(found)) for frame, found in parents.items()
                     if len(found) > 1})

    def _announced(self) -> tuple[str, ...]:
        """List lifecycle nodes whose services are known, but not their names, which are data."""
        known = {full_name(*key) for key in self.node.get_node_names_and_namespaces()}
        return tuple(sorted({
            name for name, _ in state_services(self.node.get_service_names_and_types())
        } - known)[:_MOST_NODES])

    def _follow_frames(self, parents: dict[str, set[str]]) -> list[Any]:
        """Note the parents of all frames of TF; where its messages are not installed, none."""
        try:
            message = importlib.import_module('tf2_msgs.msg').TFMessage
        except ImportError:
            return []

        def note(transforms: Any) -> None:
            for one in transforms.transforms:
                found = parents.setdefault(one.child_frame_id, set())
                if len(found) < 3 and len(parents) <= _MOST_FRAMES:
                    found.add(one.header.frame_id)
        latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        return [self.node.create_subscription(message, '/tf', note, _ANY),
                self.node.create_subscription(message, '/tf_static', note, latched)]

    def _listen(
        self, nodes: Sequence[RunningNode], topics: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Count the poses of active nodes; read the diagnostics of those that publish none."""
        def note(node: RunningNode) -> Any:
            def count(_: bytes) -> None:
                node.heard = (node.heard or 0) + 1
            return count

        def diagnose(array: DiagnosticArray) -> None:
            for report in map(StatusReport.of, array.status):
                for node in nodes:
                    if report.subject == 'connection' and report.node.endswith(
                            base_name(node.name)):
                        node.connection = report.message

        subscriptions = [self.node.create_subscription(
            DiagnosticArray, '/diagnostics', diagnose, 50)] if nodes else []
        for node in nodes:
            node.heard = 0
            for topic, kind in list(topics[node.name].items())[:_MOST_TOPICS]:
                if kind in _WITH_POSES:
                    subscriptions.append(self.node.create_subscription(
                        _WITH_POSES[kind], topic, note(node), _ANY, raw=True))
        began = time.monotonic()
        while silent := [node for node in nodes if not node.heard]:
            passed_s = time.monotonic() - began
            if passed_s > _POSE_S and (
                    all(node.connection for node in silent)
                    or passed_s > _POSE_S + _DIAGNOSTICS_S):
                break
            self.executor.spin_once(SLICE_S)
        for one in subscriptions:
            self.node.destroy_subscription(one)

    def _orphans(self, topics: Mapping[str, Mapping[str, str]]) -> tuple[Orphan, ...]:
        """Find subscriptions to topics that nobody publishes, named like those of the nodes."""
        published = {topic: kind for one in topics.values() for topic, kind in one.items()}
        ends = {(base_name(topic), kind) for topic, kind in published.items()
                if kind.startswith(('geometry_msgs/', 'nav_msgs/'))}
        found = []
        for topic, kinds in self.node.get_topic_names_and_types():
            if not any((base_name(topic), kind) in ends for kind in kinds) or (
                    self.node.count_publishers(topic)):
                continue
            nodes = {full_name(info.node_name, info.node_namespace)
                     for info in self.node.get_subscriptions_info_by_topic(topic)
                     if info.node_name not in (NAMELESS, self.node.get_name())}
            if nodes:
                alike = [one for one in published if base_name(one) == base_name(topic)]
                found.append(Orphan(topic, tuple(sorted(nodes)), difflib.get_close_matches(
                    topic, alike, 1, 0.0)[0]))
        return tuple(found[:_MOST_ORPHANS])

    def extension_findings(self) -> list[CheckResult]:
        """Return the findings of the checks of other packages."""
        return self._extensions.findings(self.spin)

    def _find(self, wanted: str) -> list[tuple[str, str]]:
        """
        Find nodes, as name and namespace.

        :param wanted: full name of one node; '' for all lifecycle nodes.
        """
        names = {wanted} if wanted else {
            name for name, _ in state_services(self.node.get_service_names_and_types())}
        return [key for key in dict.fromkeys(self.node.get_node_names_and_namespaces())
                if full_name(*key) in names]

    def _ours(self, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Remove nodes of other packages; all nodes are asked at once."""
        asked = sorted(found, key=lambda key: _OURS not in key[0])[:_MOST_ASKED]
        services = {key: f'{full_name(*key)}/get_parameters' for key in asked}
        answers = self._call_all(
            GetParameters, list(services.values()), GetParameters.Request(names=_ONLY_OURS))

        def is_ours(key: tuple[str, str]) -> bool:
            answer = answers.get(services[key])
            if answer is None:    # it hangs: decide by its name
                return _OURS in key[0]
            return len(answer.values) == len(_ONLY_OURS) and all(
                value.type for value in answer.values)
        return [key for key in asked if is_ours(key)]

    def _ask(self, name: str, namespace: str) -> RunningNode:
        full = full_name(name, namespace)
        node = RunningNode(full)
        state = self._call(GetState, f'{full}/get_state', GetState.Request())
        answer = None
        if state is not None:    # a node that does not answer this will not answer the next
            node.state = state.current_state.label
            answer = self._call(
                GetParameters, f'{full}/get_parameters', GetParameters.Request(names=_SETTINGS))
        if answer is not None and len(answer.values) == len(_SETTINGS):
            node.settings = {
                key: parameter_value_to_python(value)
                for key, value in zip(_SETTINGS, answer.values) if value.type}
            names = self._call(
                ListParameters, f'{full}/list_parameters',
                ListParameters.Request(prefixes=['bodies']))
            if names is not None:
                node.bodies = tuple(dict.fromkeys(
                    split(each)[0] for each in names.result.names
                    if is_body_setting(each)))
        return node

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        """Call a service; return None if it does not answer."""
        return self._call_all(kind, [service], request).get(service)

    def _call_all(self, kind: Any, services: Sequence[str], request: Any) -> dict[str, Any]:
        # Chosen: timeout of a service (s).
        return ask_all(self.node, self.executor, kind, services, request, 2.0)

    def _look_at_topics(
        self, node: RunningNode, name: str, namespace: str,
    ) -> dict[str, str]:
        """Compare the publishers of a node with their subscribers; return topics and types."""
        try:
            topics = self.node.get_publisher_names_and_types_by_node(name, namespace)
        except Exception:    # the node has ended
            return {}
        mismatches: list[Mismatch] = []
        conflicting: dict[str, tuple[str, ...]] = {}
        own = self.node.get_name(), self.node.get_namespace()
        for topic, kinds in topics:
            if topic in _NOT_POSES:
                continue
            node.topics += 1
            publishers = self.node.get_publishers_info_by_topic(topic)
            offers = [info.qos_profile for info in publishers
                      if (info.node_name, info.node_namespace) == (name, namespace)]
            if _POSE in kinds:
                node.pose_topics += 1
                others = {full_name(info.node_name, info.node_namespace) for info in publishers
                          if info.node_name != NAMELESS} - {node.name}
                if others:
                    conflicting[topic] = tuple(sorted(others))
            for info in self.node.get_subscriptions_info_by_topic(topic):
                subscriber = info.node_name, info.node_namespace
                if subscriber in ((name, namespace), own):
                    continue    # its own mocap control, or the doctor
                node.subscribers += 1
                reasons = _mismatches(offers, info.qos_profile)
                if reasons and len(mismatches) < _MOST_MISMATCHES:
                    mismatches.append(Mismatch(
                        topic, full_name(info.node_name, info.node_namespace), reasons[0],
                        len(reasons), len(offers)))
        node.mismatches = tuple(mismatches)
        node.conflicting = conflicting
        # After the publishers: each of them belongs to one of the counted nodes.
        node.count = self.node.get_node_names_and_namespaces().count((name, namespace))
        return {topic: kinds[0] for topic, kinds in topics}


def _full(name: str) -> str:
    """Return the full name of a node that the user named; '' for none."""
    return f'/{name.strip("/")}' if name else ''


def _mismatches(offers: Sequence[Any], asked: Any) -> list[str]:
    """Return the reason for each publisher from which a subscription receives nothing."""
    checked = [qos_check_compatible(offer, asked) for offer in offers]
    return [reason.strip().rstrip(';') for compatibility, reason in checked
            if compatibility == QoSCompatibility.ERROR]


class Extensions:
    """
    The extensions of one run: each is a class that is created with a node and ``robots``.

    At the end the doctor calls its ``findings(spin)``; ``spin(seconds)`` processes messages of
    the node for that time.

    :param node: the doctor's.
    :param rows: the classes, as ``module:class``; None for those of all packages.
    :param robots: addresses of computers that the user expects in the graph.
    """

    def __init__(
        self, node: Any, rows: Optional[Sequence[str]] = None, robots: Sequence[str] = (),
    ) -> None:
        self._made: list[Any] = []
        self._failed: list[CheckResult] = []
        for place in checks() if rows is None else rows:
            module, _, name = place.partition(':')
            try:
                self._made.append(
                    getattr(importlib.import_module(module), name)(node, robots))
            except Exception as error:
                self._failed.append(_broken(place, error))

    def findings(self, spin: Callable[[float], None]) -> list[CheckResult]:
        """Return the findings of all extensions."""
        found = list(self._failed)
        for one in self._made:
            try:
                found += map(cleaned, one.findings(spin))
            except Exception as error:
                found.append(_broken(type(one).__name__, error))
        return found


def _broken(place: str, error: Exception) -> CheckResult:
    return warn('extension', f'{place} failed: {error!r}', 'please report this')
