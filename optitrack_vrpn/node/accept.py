# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Services with which the user accepts a pose that the validity gate withholds until then.

A body that turned in place is withheld until it turns back (docs/bodies.md). If the user redefined
its orientation in Motive, it never does. Each such body has its own service, so that a request
cannot accept a wrong pose of another body. It is created when the body is first held.
"""

import contextlib
from typing import Any, Sequence

from optitrack_vrpn.names import printable
from optitrack_vrpn.node.receiver import TurnLock
from optitrack_vrpn.pipeline import Pipeline, TrackedBody
from rclpy.exceptions import InvalidHandle
from rclpy.lifecycle import LifecycleNode


class AcceptServices:
    """
    Offer ``{body}/accept_pose`` (std_srvs/Trigger) for bodies that are held.

    :param node: creates the services.
    :param lock: guards the bodies.
    :param pipeline: contains the bodies that are selected.
    """

    def __init__(
        self, node: LifecycleNode, lock: TurnLock, pipeline: Pipeline,
    ) -> None:
        self._node = node
        self._lock = lock
        self._pipeline = pipeline
        self._services: dict[str, Any] = {}
        self._channels: dict[str, TrackedBody] = {}

    def offer(self, channels: Sequence[TrackedBody]) -> None:
        """
        Create the services of bodies, without the lock: each takes milliseconds.

        :param channels: bodies that are held and have no service.
        """
        for channel in channels:
            name = f'{channel.names.ros}/accept_pose'
            self._channels[name] = channel    # replaces that of a body that was deselected
            if name not in self._services:
                from std_srvs.srv import Trigger    # few nodes ever need it
                self._services[name] = self._node.create_service(
                    Trigger, name, lambda request, response, name=name: self._accept(
                        name, response))
            channel.accept_service = self._node.resolve_service_name(name)

    def _accept(self, name: str, response: Any) -> Any:
        """Answer one request, on the executor thread."""
        with self._lock:
            channel = self._channels[name]
            selected = channel in self._pipeline.bodies
            accepted = selected and channel.gate.accept_jump()
            state = channel.gate.state.value if selected else 'no longer selected'
        body = repr(printable(channel.names.motive))
        response.success = accepted
        response.message = (
            f'body {body}: the pose that it jumped to is published from the next frame on'
            if accepted else f'body {body} is {state}: there is no jump to accept')
        self._node.get_logger().info(response.message)
        return response

    def close(self) -> None:
        """Destroy all services; call it on the executor thread, or while no executor spins."""
        while self._services:
            _, service = self._services.popitem()
            with contextlib.suppress(InvalidHandle):
                self._node.destroy_service(service)
        with self._lock:
            for channel in self._channels.values():
                channel.accept_service = ''
            self._channels.clear()
