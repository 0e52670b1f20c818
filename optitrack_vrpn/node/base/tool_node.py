# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The small node of a command: it spins on request or in a thread, and calls services."""

import contextlib
import os
import threading
import time
from typing import Any, Sequence, TypeVar

from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.node.base.process import check_domain
import rclpy
from rclpy.exceptions import NameValidationException
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.expand_topic_name import expand_topic_name
from rclpy.node import Node
from rclpy.validate_full_topic_name import validate_full_topic_name

#: Chosen: longest wait of the executor (s), which delays Ctrl-C.
SLICE_S = 0.02

T = TypeVar('T', bound='ToolNode')
B = TypeVar('B', bound='BackgroundNode')


def reason(error: Exception) -> str:
    """Return the reason from an error of rclpy in one line, without places in its source."""
    return str(error).split(':\n')[0].split(', at /')[0].strip().replace('\n', ' ')


def checked_topic(name: str) -> str:
    """
    Check the name of a topic that the user gave.

    :returns: the name.
    :raises ConfigurationError: if ROS does not accept it.
    """
    try:
        validate_full_topic_name(expand_topic_name(name, 'node', '/'))
    except (NameValidationException, RuntimeError, ValueError) as error:
        raise ConfigurationError(f'{name!r} is not a topic name: {reason(error)}') from None
    return name


class ToolNode:
    """
    A node in a context of its own, so that Ctrl-C stays an exception; use it in a ``with`` block.

    :param name: name of the node.
    :param ros_args: ``--ros-args`` and what follows.
    :param options: as of rclpy's node.
    :raises ConfigurationError: if ROS rejects the arguments or a variable of the environment.
    """

    def __init__(self, name: str, ros_args: Sequence[str] = (), **options: Any) -> None:
        check_domain()
        if os.environ.get('ROS_DISCOVERY_SERVER'):
            # Other programs learn from it only of the topics that they use themselves.
            os.environ.setdefault('ROS_SUPER_CLIENT', 'TRUE')
        self.context = rclpy.Context()
        try:
            self.context.init(args=list(ros_args))
            self.node = rclpy.create_node(name, context=self.context, **options)
        except (RuntimeError, NameValidationException) as error:    # RCLError
            self.context.try_shutdown()
            raise ConfigurationError(reason(error)) from None
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, *_: object) -> None:
        self.executor.shutdown(timeout_sec=0.5)
        self.node.destroy_node()
        self.context.try_shutdown()

    def spin(self, seconds: float) -> None:
        """Process messages for a time (s)."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.executor.spin_once(timeout_sec=SLICE_S)


class BackgroundNode(ToolNode):
    """A node that spins in a separate thread during the ``with`` block."""

    def __init__(self, name: str, ros_args: Sequence[str] = ()) -> None:
        super().__init__(name, ros_args)
        self._clients: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self: B) -> B:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.context.try_shutdown()
        self._thread.join(5.0)
        self.node.destroy_node()

    def _run(self) -> None:
        try:
            while self.context.ok():
                self.executor.spin_once(timeout_sec=0.1)
        except ExternalShutdownException:
            pass
        except Exception:
            if self.context.ok():
                raise

    def call(self, kind: Any, service: str, request: Any, timeout_s: float) -> Any:
        """
        Call a service.

        :param kind: its type.
        :param timeout_s: longest wait for the service, and then for the answer (s).
        :raises TransportError: if it does not answer.
        """
        client = self._clients.get(service)
        if client is None:
            client = self._clients[service] = self.node.create_client(kind, service)
        if not client.wait_for_service(timeout_s):
            raise TransportError(f'no node offers {service}: is it running and configured?')
        done = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        if not done.wait(timeout_s):
            raise TransportError(f'{service} does not answer within {timeout_s:g} s')
        return future.result()


def ask_all(
    node: Node, executor: Executor, kind: Any, services: Sequence[str], request: Any,
    timeout_s: float,
) -> dict[str, Any]:
    """
    Call services in parallel, each repeatedly until it answers.

    :param executor: spins the node meanwhile.
    :param kind: type of the services.
    :param request: an idempotent request.
    :returns: the answers by service.
    """
    clients: dict[str, Any] = {}
    answers: dict[str, Any] = {}
    try:
        for service in services:
            # rclpy refuses some names that nodes of other packages can have.
            with contextlib.suppress(Exception):
                clients[service] = node.create_client(kind, service)
        futures: dict[str, list[Any]] = {service: [] for service in clients}
        again = dict.fromkeys(clients, 0.0)
        end = time.monotonic() + timeout_s
        while len(answers) < len(clients) and (now := time.monotonic()) < end:
            for service, client in clients.items():
                if service not in answers and now >= again[service] and client.service_is_ready():
                    futures[service].append(client.call_async(request))
                    # Time (s) after which a request is repeated: an answer is lost if the node has
                    # not discovered its reader yet. Chosen.
                    again[service] = now + 0.4
            executor.spin_once(SLICE_S)
            for service, asked in futures.items():
                done = [one.result() for one in asked if one.done() and not one.exception()]
                if done and done[0] is not None:
                    answers.setdefault(service, done[0])
    finally:
        for client in clients.values():
            node.destroy_client(client)
    return answers
