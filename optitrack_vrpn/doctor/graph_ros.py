# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Query the ROS graph for the doctor: nodes, their states and parameters, subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
import contextlib
import os
import time
from types import TracebackType
from typing import Any, Optional

from lifecycle_msgs.srv import GetState
from optitrack_vrpn.bodies.body_settings import is_body_setting, split
from optitrack_vrpn.doctor.extensions_ros import Extensions
from optitrack_vrpn.doctor.probe_results import (
    discovery_variables, Graph, Mismatch, RunningNode)
from optitrack_vrpn.doctor.processes_io import local_nodes
from optitrack_vrpn.doctor.result import CheckResult
from optitrack_vrpn.graph.node_names import full_name, NAMELESS
from rcl_interfaces.srv import GetParameters, ListParameters
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import qos_check_compatible, QoSCompatibility

_OURS = 'optitrack_vrpn'
#: Parameters that only nodes of this package have together, under any node name.
_ONLY_OURS = ('stamps.mode', 'validation.frozen_after_s', 'motive_x')
_SETTINGS = ('server', 'port', 'protocol', 'up_axis', 'bodies.allow', 'bodies.deny')
_POSE = 'geometry_msgs/msg/PoseStamped'
_NOT_POSES = ('/rosout', '/parameter_events')
#: Shortest time of discovery (s), after which other nodes and subscriptions are known too. Chosen.
#: Halved, subscriptions are missed on a busy computer; doubled, each run takes 1 s longer.
_LEAST_S = 1.0
#: Chosen: timeout of a service (s). Halved, busy nodes count as hanging; doubled, a hanging node
#: delays the result by 2 s more.
_ANSWER_S = 2.0
#: Time (s) after which a request is repeated: an answer is lost if the node has not discovered its
#: reader yet. Chosen. Halved, slow answers cause repetitions; doubled, lost ones take longer.
_ASK_AGAIN_S = 0.4
#: Chosen: longest wait of the executor (s), which delays Ctrl-C. Halved, twice as many wakes.
_SLICE_S = 0.02
#: Chosen limits, above the size of known systems: checked nodes, lifecycle nodes that are asked
#: whether they are of this package, reported mismatches. Halved or doubled, so is the time of the
#: checks in large graphs.
_MOST_NODES = 20
_MOST_ASKED = 100
_MOST_MISMATCHES = 100


class GraphView:
    """
    The doctor's node. Create it early: the middleware discovers other nodes meanwhile.

    :param ros_args: ``--ros-args`` and the arguments after it.
    """

    def __init__(self, ros_args: Sequence[str] = ()) -> None:
        self._began = time.monotonic()
        # A separate context installs no signal handlers, so that Ctrl-C stays an exception.
        self._context = rclpy.Context()
        self._context.init(args=list(ros_args))
        try:
            self._node = rclpy.create_node(
                f'optitrack_vrpn_doctor_{os.getpid()}', context=self._context,
                start_parameter_services=False, enable_rosout=False)
            self._executor = SingleThreadedExecutor(context=self._context)
            self._executor.add_node(self._node)
            self._extensions = Extensions(self._node)
        except BaseException:
            self._context.try_shutdown()
            raise

    def __enter__(self) -> GraphView:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self._executor.shutdown(timeout_sec=0.5)
        self._node.destroy_node()
        self._context.try_shutdown()

    def look(self, wanted: str, wait_s: float) -> Graph:
        """
        Find nodes of this package, and query them.

        :param wanted: name of the node to check; '' for all of this package.
        :param wait_s: time of the discovery (s), from the creation of this object.
        """
        wanted = f'/{wanted.strip("/")}' if wanted else ''
        found = self._find(wanted)
        while True:
            passed_s = time.monotonic() - self._began
            early = wanted or any(_OURS in name for name, _ in found)
            if passed_s >= (min(_LEAST_S, wait_s) if found and early else wait_s):
                break
            time.sleep(0.05)
            found = self._find(wanted)
        if not wanted:
            found = self._ours(found)
        nodes = tuple(
            self._ask(*key, count) for key, count in list(found.items())[:_MOST_NODES])
        return Graph(wanted=wanted, waited_s=time.monotonic() - self._began, nodes=nodes,
                     variables={**discovery_variables(os.environ),
                                'ROS_DOMAIN_ID': str(self._context.get_domain_id())},
                     processes=() if nodes else local_nodes())

    def extension_findings(self) -> list[CheckResult]:
        """Return the findings of the checks of other packages."""
        return self._extensions.findings(self._spin)

    def _spin(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._executor.spin_once(timeout_sec=_SLICE_S)

    def _find(self, wanted: str) -> dict[tuple[str, str], int]:
        """
        Find nodes by (name, namespace), and the number of each.

        :param wanted: full name of one node; '' for all lifecycle nodes.
        """
        lifecycles = {
            name[:-len('/get_state')] for name, kinds in self._node.get_service_names_and_types()
            if name.endswith('/get_state') and 'lifecycle_msgs/srv/GetState' in kinds}
        found: dict[tuple[str, str], int] = {}
        for name, namespace in self._node.get_node_names_and_namespaces():
            full = full_name(name, namespace)
            if full == wanted or (not wanted and full in lifecycles):
                found[name, namespace] = found.get((name, namespace), 0) + 1
        return found

    def _ours(self, found: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
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
        return {key: found[key] for key in asked if is_ours(key)}

    def _ask(self, name: str, namespace: str, count: int) -> RunningNode:
        full = full_name(name, namespace)
        node = RunningNode(full, count)
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
        self._look_at_topics(node, name, namespace)
        return node

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        """
        Call a service repeatedly until it answers; None if it does not.

        :param request: an idempotent request.
        """
        return self._call_all(kind, [service], request).get(service)

    def _call_all(self, kind: Any, services: Sequence[str], request: Any) -> dict[str, Any]:
        """
        Call services in parallel, within the timeout of one; return the answers by service.

        :param request: as for ``_call``.
        """
        clients: dict[str, Any] = {}
        answers: dict[str, Any] = {}
        try:
            for service in services:
                # rclpy refuses some names that nodes of other packages can have.
                with contextlib.suppress(Exception):
                    clients[service] = self._node.create_client(kind, service)
            futures: dict[str, list[Any]] = {service: [] for service in clients}
            again = dict.fromkeys(clients, 0.0)
            end = time.monotonic() + _ANSWER_S
            while len(answers) < len(clients) and (now := time.monotonic()) < end:
                for service, client in clients.items():
                    if service not in answers and now >= again[service] and (
                            client.service_is_ready()):
                        futures[service].append(client.call_async(request))
                        again[service] = now + _ASK_AGAIN_S
                # A short timeout, so that Ctrl-C has an effect.
                self._executor.spin_once(_SLICE_S)
                for service, asked in futures.items():
                    done = [future for future in asked if future.done()]
                    if done and service not in answers:
                        answers[service] = done[0].result()
        finally:
            for client in clients.values():
                self._node.destroy_client(client)
        return answers

    def _look_at_topics(self, node: RunningNode, name: str, namespace: str) -> None:
        try:
            topics = self._node.get_publisher_names_and_types_by_node(name, namespace)
        except Exception:    # the node has ended
            return
        mismatches: list[Mismatch] = []
        conflicting: dict[str, tuple[str, ...]] = {}
        own = self._node.get_name(), self._node.get_namespace()
        for topic, kinds in topics:
            if topic in _NOT_POSES:
                continue
            node.topics += 1
            publishers = self._node.get_publishers_info_by_topic(topic)
            offers = [info.qos_profile for info in publishers
                      if (info.node_name, info.node_namespace) == (name, namespace)]
            if _POSE in kinds:
                node.pose_topics += 1
                others = {full_name(info.node_name, info.node_namespace) for info in publishers
                          if info.node_name != NAMELESS} - {node.name}
                if others:
                    conflicting[topic] = tuple(sorted(others))
            for info in self._node.get_subscriptions_info_by_topic(topic):
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


def _mismatches(offers: Sequence[Any], asked: Any) -> list[str]:
    """Return the reason for each publisher from which a subscription receives nothing."""
    checked = [qos_check_compatible(offer, asked) for offer in offers]
    return [reason.strip().rstrip(';') for compatibility, reason in checked
            if compatibility == QoSCompatibility.ERROR]
