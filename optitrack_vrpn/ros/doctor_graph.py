# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Look at the ROS graph for the doctor: nodes, their states, who subscribes and how."""

from __future__ import annotations

from collections.abc import Sequence
import os
import time
from types import TracebackType
from typing import Any, Optional

from lifecycle_msgs.srv import GetState
from optitrack_vrpn import parameters
from optitrack_vrpn.core.doctor.facts import Graph, Mismatch, RunningNode
from rcl_interfaces.srv import GetParameters, ListParameters
import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import qos_check_compatible, QoSCompatibility

_OURS = 'optitrack_vrpn'
_SETTINGS = ('server', 'port', 'up_axis', 'bodies.allow', 'bodies.deny')
_NOT_POSES = ('/rosout', '/parameter_events')
#: Once a node is found, others and their subscriptions may still be on their way (s).
_LEAST_S = 1.0
_ANSWER_S = 2.0
#: How long an answer may take until the question is put again (s): it is lost where the node has
#: not found its reader yet.
_ASK_AGAIN_S = 0.4
_SLICE_S = 0.1
_MOST_NODES = 20
_MOST_MISMATCHES = 100


class GraphView:
    """
    A node of the doctor's own. Make it early: the middleware discovers others meanwhile.

    :param ros_args: ``--ros-args`` and what follows.
    """

    def __init__(self, ros_args: Sequence[str] = ()) -> None:
        self._began = time.monotonic()
        # A context of its own leaves signals alone, so that Ctrl-C stays an exception.
        self._context = rclpy.Context()
        self._context.init(args=list(ros_args))
        try:
            self._node = rclpy.create_node(
                f'optitrack_vrpn_doctor_{os.getpid()}', context=self._context,
                start_parameter_services=False, enable_rosout=False)
            self._executor = SingleThreadedExecutor(context=self._context)
            self._executor.add_node(self._node)
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
        Find nodes of this package, and ask them.

        :param wanted: name of the node to look at; '' for all that look like this package's.
        :param wait_s: how long after this object was made nodes may take to be discovered.
        """
        wanted = f'/{wanted.strip("/")}' if wanted else ''
        found = self._find(wanted)
        while True:
            passed_s = time.monotonic() - self._began
            if passed_s >= (min(_LEAST_S, wait_s) if found else wait_s):
                break
            time.sleep(0.05)
            found = self._find(wanted)
        nodes = tuple(
            self._ask(*key, count) for key, count in list(found.items())[:_MOST_NODES])
        return Graph(wanted=wanted, waited_s=time.monotonic() - self._began, nodes=nodes)

    def _find(self, wanted: str) -> dict[tuple[str, str], int]:
        """Find nodes by (name, namespace), and how many there are of each."""
        lifecycles = {
            name[:-len('/get_state')] for name, kinds in self._node.get_service_names_and_types()
            if name.endswith('/get_state') and 'lifecycle_msgs/srv/GetState' in kinds}
        found: dict[tuple[str, str], int] = {}
        for name, namespace in self._node.get_node_names_and_namespaces():
            full = full_name(name, namespace)
            if full == wanted or (
                    not wanted and _OURS in name and full in lifecycles):
                found[name, namespace] = found.get((name, namespace), 0) + 1
        return found

    def _ask(self, name: str, namespace: str, count: int) -> RunningNode:
        full = full_name(name, namespace)
        node = RunningNode(full, count)
        state = self._call(GetState, f'{full}/get_state', GetState.Request())
        answer = None
        if state is not None:    # who does not answer the one will not answer the other
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
                    parameters.split_body_setting(each)[0] for each in names.result.names
                    if parameters.is_body_setting(each)))
        self._look_at_topics(node, name, namespace)
        return node

    def _call(self, kind: Any, service: str, request: Any) -> Any:
        """
        Call a service, again and again until it answers; None if it does not.

        :param request: one that does no harm when it is asked twice.
        """
        try:
            client = self._node.create_client(kind, service)
        except Exception:    # a name that somebody else's node has, and rclpy refuses
            return None
        try:
            end = time.monotonic() + _ANSWER_S
            while not client.service_is_ready():
                if time.monotonic() >= end:
                    return None
                time.sleep(0.02)
            futures: list[Any] = []
            again = 0.0
            while (now := time.monotonic()) < end:
                if now >= again:
                    futures.append(client.call_async(request))
                    again = now + _ASK_AGAIN_S
                # In slices, so that Ctrl-C is heard.
                self._executor.spin_until_future_complete(
                    futures[-1], min(end - now, _SLICE_S))
                done = [future for future in futures if future.done()]
                if done:
                    return done[0].result()
            return None
        finally:
            self._node.destroy_client(client)

    def _look_at_topics(self, node: RunningNode, name: str, namespace: str) -> None:
        try:
            topics = self._node.get_publisher_names_and_types_by_node(name, namespace)
        except Exception:    # it has just gone
            return
        mismatches: list[Mismatch] = []
        for topic, _ in topics:
            if topic in _NOT_POSES:
                continue
            node.topics += 1
            offers = [
                info.qos_profile for info in self._node.get_publishers_info_by_topic(topic)
                if (info.node_name, info.node_namespace) == (name, namespace)]
            for info in self._node.get_subscriptions_info_by_topic(topic):
                if (info.node_name, info.node_namespace) == (name, namespace):
                    continue    # it hears its own mocap control
                node.subscribers += 1
                reasons = _mismatches(offers, info.qos_profile)
                if reasons and len(mismatches) < _MOST_MISMATCHES:
                    mismatches.append(Mismatch(
                        topic, full_name(info.node_name, info.node_namespace), reasons[0],
                        len(reasons), len(offers)))
        node.mismatches = tuple(mismatches)


def full_name(name: str, namespace: str) -> str:
    """Join a node's name and namespace."""
    return f'{namespace.rstrip("/")}/{name}'


def _mismatches(offers: Sequence[Any], asked: Any) -> list[str]:
    """Say of each publisher from which a subscription gets nothing why that is."""
    judged = [qos_check_compatible(offer, asked) for offer in offers]
    return [reason.strip().rstrip(';') for compatibility, reason in judged
            if compatibility == QoSCompatibility.ERROR]
