# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Query the ROS graph for the doctor: nodes, their states and parameters, subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
import os
import time
from typing import Any

from lifecycle_msgs.srv import GetState
from optitrack_vrpn.bodies.body_settings import is_body_setting, split
from optitrack_vrpn.doctor.extensions_ros import Extensions
from optitrack_vrpn.doctor.probe_results import (
    discovery_variables, Graph, Mismatch, RunningNode)
from optitrack_vrpn.doctor.processes_io import local_nodes
from optitrack_vrpn.doctor.result import CheckResult
from optitrack_vrpn.graph.node_names import full_name, NAMELESS, state_services
from optitrack_vrpn.ros.tool_node import ask_all, ToolNode
from rcl_interfaces.srv import GetParameters, ListParameters
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
#: Chosen limits, above the size of known systems: checked nodes, lifecycle nodes that are asked
#: whether they are of this package, reported mismatches. Halved or doubled, so is the time of the
#: checks in large graphs.
_MOST_NODES = 20
_MOST_ASKED = 100
_MOST_MISMATCHES = 100


class GraphView(ToolNode):
    """
    The doctor's node. Create it early: the middleware discovers other nodes meanwhile.

    :param ros_args: ``--ros-args`` and the arguments after it.
    """

    def __init__(self, ros_args: Sequence[str] = ()) -> None:
        self._began = time.monotonic()
        super().__init__(f'optitrack_vrpn_doctor_{os.getpid()}', ros_args,
                         start_parameter_services=False, enable_rosout=False)
        self._extensions = Extensions(self.node)

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
            early = found if wanted else [name for name, _ in found if _OURS in name]
            if passed_s >= (min(_LEAST_S, wait_s) if early else wait_s):
                break
            time.sleep(0.05)
            found = self._find(wanted)
        others = self._ours(self._find('')) if wanted and not found else []
        nodes = tuple(
            self._ask(*key) for key in (found if wanted else self._ours(found))[:_MOST_NODES])
        return Graph(wanted=wanted, others=tuple(full_name(*key) for key in others),
                     waited_s=time.monotonic() - self._began, nodes=nodes,
                     variables={**discovery_variables(os.environ),
                                'ROS_DOMAIN_ID': str(self.context.get_domain_id())},
                     processes=local_nodes())

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
        self._look_at_topics(node, name, namespace)
        return node

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        """Call a service; return None if it does not answer."""
        return self._call_all(kind, [service], request).get(service)

    def _call_all(self, kind: Any, services: Sequence[str], request: Any) -> dict[str, Any]:
        return ask_all(self.node, self.executor, kind, services, request, _ANSWER_S)

    def _look_at_topics(self, node: RunningNode, name: str, namespace: str) -> None:
        try:
            topics = self.node.get_publisher_names_and_types_by_node(name, namespace)
        except Exception:    # the node has ended
            return
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


def _mismatches(offers: Sequence[Any], asked: Any) -> list[str]:
    """Return the reason for each publisher from which a subscription receives nothing."""
    checked = [qos_check_compatible(offer, asked) for offer in offers]
    return [reason.strip().rstrip(';') for compatibility, reason in checked
            if compatibility == QoSCompatibility.ERROR]
