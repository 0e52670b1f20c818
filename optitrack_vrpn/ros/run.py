# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run a node in its own process, from the first argument to a clean end."""

import gc
import os
import signal
import sys
import threading
from typing import Callable, Sequence

from optitrack_vrpn.client.scheduling_io import use_batch_scheduling
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.ros.params_files import warn_of_files_of_others
import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.node import Node

#: How long a thread may keep Python's lock from one that waits for it (s). With Python's 5 ms a
#: pose that arrives while diagnostics are written would wait until after the next one.
_SWITCH_S = 1e-4

#: How often an idle executor looks whether ROS has ended (s).
_LOOK_S = 1.0
#: How long the middleware may take to let go (s). Fast DDS 2.14 was seen to spin for ever when
#: its peers left at the same moment; a supervisor must not wait for that.
_LEAVE_S = 5.0
#: How rcl begins its refusal of a list such as [0, 0.5] in a parameter file.
_MIXED_LIST = 'Sequence should be of same type'
#: Looks in a row at something destroyed before the executor is given up: it would work no more.
_MOST_STUMBLES = 100


def leave_by_force(code: int) -> None:
    """End the process at once; everything of this package's own has been released."""
    sys.stderr.write(
        f'the middleware did not let go within {_LEAVE_S:g} s; leaving without it\n')
    sys.stderr.flush()
    os._exit(code)


def explained(error: Exception) -> str:
    """Give what rcl says against the command line or a file that it names, in plain words too."""
    text = str(error)
    if _MIXED_LIST in text:
        text += ('\na list must be all decimals or all whole numbers: write 0.0 for 0, as in '
                 '[0.0, 0.0, -0.05]')
    return text


def spin(executor: Executor, node: Node) -> None:
    """
    Spin until ROS ends.

    rclpy's executors raise where another thread destroys something just as they look at it; the
    next look no longer finds it.
    """
    stumbles = 0
    # Not rclpy.spin(): rclpy wakes the executor for a signal just before it ends ROS, and an
    # executor that has looked in between waits for ever.
    while rclpy.ok():
        try:
            executor.spin_once(timeout_sec=_LOOK_S)
            stumbles = 0
        except InvalidHandle as error:
            stumbles += 1
            if stumbles >= _MOST_STUMBLES:
                raise
            if stumbles == 1 and rclpy.ok():
                node.get_logger().warning(f'the executor goes on after: {error}')


def run(make_node: Callable[[], Node], argv: Sequence[str]) -> int:
    """
    Spin one node until somebody ends it.

    :param make_node: called once ROS is up.
    :param argv: the whole command line, program name first.
    :returns: exit code; an interrupt is a normal end.
    :raises ConfigurationError: if ROS cannot read the command line, or a file that it names.
    """
    use_batch_scheduling()
    try:
        rclpy.init(args=list(argv))
    except RuntimeError as error:    # RCLError
        raise ConfigurationError(explained(error)) from None
    except KeyboardInterrupt:
        return 0
    node = None
    try:
        try:
            node = make_node()
        except RuntimeError as error:
            if _MIXED_LIST not in str(error):
                raise
            raise ConfigurationError(explained(error)) from None
        warn_of_files_of_others(node, argv)
        sys.setswitchinterval(_SWITCH_S)
        # What is loaded by now stays: the collector, which stops every thread, would find
        # nothing there, and needs tens of milliseconds to look.
        gc.collect()
        gc.freeze()
        executor = rclpy.get_global_executor()
        executor.add_node(node)
        spin(executor, node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        if rclpy.ok():
            raise
        # What was being made or called when the signal came found ROS gone.
    finally:
        # `ros2 launch` in a terminal sends a second interrupt on the heels of the terminal's.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if node is not None:
            node.destroy_node()
        code = 0 if sys.exc_info()[0] is None else 1
        patience = threading.Timer(_LEAVE_S, leave_by_force, (code,))
        patience.daemon = True
        patience.start()
        rclpy.try_shutdown()
    return 0
