# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A small node of a command that spins in a separate thread."""

import threading
from typing import Any, Sequence

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor


class BackgroundNode:
    """
    Spin a node in a context of its own; use it as a context manager.

    :param name: name of the node.
    :param ros_args: ``--ros-args`` and what follows.
    """

    def __init__(self, name: str, ros_args: Sequence[str] = ()) -> None:
        self._context = rclpy.Context()
        self._context.init(args=list(ros_args) or None)
        self._node = rclpy.create_node(name, context=self._context)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name=name, daemon=True)

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._context.try_shutdown()
        self._thread.join(5.0)
        self._node.destroy_node()

    def _spin(self) -> None:
        try:
            while self._context.ok():
                self._executor.spin_once(timeout_sec=0.1)
        except ExternalShutdownException:
            pass
        except Exception:
            if self._context.ok():
                raise
