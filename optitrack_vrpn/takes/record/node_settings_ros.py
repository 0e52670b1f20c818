# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read the parameters of the nodes whose poses are recorded: the settings in force."""

from collections.abc import Iterable
from functools import partial
import json
from typing import Any

from rcl_interfaces.srv import GetParameters, ListParameters
from rclpy.client import Client
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python

#: Chosen: nodes that are asked; a graph with more has other publishers than this package's node.
_MOST_NODES = 4
#: Parameters of every node, which say nothing about poses.
_COMMON = ('qos_overrides', 'start_type_description_service', 'use_sim_time')


class RecordedSettings:
    """
    Ask each publisher of poses once.

    :ivar found: parameters as JSON, by the full name of their node.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._clients: dict[str, tuple[Client, Client]] = {}
        self._asked: set[str] = set()
        self._done: set[str] = set()    # topics
        self.found: dict[str, str] = {}

    def look(self, topics: Iterable[str]) -> None:
        """Ask the publishers of these topics that have not been asked; does not wait."""
        for topic in topics:
            if topic in self._done:
                continue
            names = {f'{info.node_namespace.rstrip("/")}/{info.node_name}' for info in
                     self._node.get_publishers_info_by_topic(topic)
                     if not info.node_name.startswith('_')}
            for name in names - self._asked:
                if name not in self._clients and len(self._clients) < _MOST_NODES:
                    # rclpy's AsyncParameterClient is missing in Humble.
                    self._clients[name] = (
                        self._node.create_client(ListParameters, f'{name}/list_parameters'),
                        self._node.create_client(GetParameters, f'{name}/get_parameters'))
                clients = self._clients.get(name)
                if clients is not None and all(one.service_is_ready() for one in clients):
                    self._asked.add(name)
                    clients[0].call_async(ListParameters.Request()).add_done_callback(
                        partial(self._names, name))
            if names and names <= self._asked:
                self._done.add(topic)

    def _names(self, node: str, answer: Any) -> None:
        names = [] if answer.exception() else [
            name for name in answer.result().result.names if not name.startswith(_COMMON)]
        if names:
            self._clients[node][1].call_async(GetParameters.Request(names=names)) \
                .add_done_callback(partial(self._values, node, names))

    def _values(self, node: str, names: list[str], answer: Any) -> None:
        if not answer.exception():
            self.found[node] = json.dumps({
                name: parameter_value_to_python(value)
                for name, value in zip(names, answer.result().values)}, default=list)
