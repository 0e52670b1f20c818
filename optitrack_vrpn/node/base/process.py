# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Run a node as a process: check domain and parameter files, initialise ROS, spin, shut down.

A domain without UDP ports makes the middleware end the process; rcl ignores parameter files that
set nothing for a node without a message.
"""

from collections.abc import Mapping, Sequence
import gc
import os
import signal
import sys
import threading
import time
from typing import Any, Callable

from optitrack_vrpn.cli.files_io import read_parameter_file
from optitrack_vrpn.cli.signals_io import leave_to_ros
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.drivers.client_io import use_batch_scheduling
from optitrack_vrpn.node.base.parameter_files import files_given, is_for, nodes_of
import rclpy
from rclpy.exceptions import InvalidHandle
from rclpy.executors import Executor, ExternalShutdownException
from rclpy.node import Node

#: The last domain whose UDP ports exist: 7400 + 250 * 232 (RTPS, OMG formal/2022-04-01, 9.6.2). A
#: larger one makes Fast DDS call exit(1); a smaller limit would refuse domains that work.
_LAST = 232


def check_domain() -> None:
    """
    Check the domain of the environment; call it before the initialisation of ROS.

    Text that is no number is left to rcl, which raises an error.

    :raises ConfigurationError: if there are no ports for it.
    """
    text = os.environ.get('ROS_DOMAIN_ID', '')
    if text.isascii() and text.isdigit() and int(text) > _LAST:
        raise ConfigurationError(f'ROS_DOMAIN_ID is {text}; allowed: 0 to {_LAST}')


#: Chosen: names in a file that a warning lists.
_MOST_NAMES = 5


def warn_of_files_of_others(node: Node, files: Mapping[str, Any]) -> None:
    """
    Log parameter files that set nothing for this node.

    :param files: the content of each file, by its name.
    """
    name = node.get_fully_qualified_name()
    for file, content in files.items():
        found = nodes_of(content)
        if not any(is_for(pattern, name) for pattern in found):
            shown = ', '.join(printable(each) for each in found[:_MOST_NAMES])
            if len(found) > _MOST_NAMES:
                shown += f' and {len(found) - _MOST_NAMES} more'
            node.get_logger().warning(
                f'no parameter of {file} is for {name}: the file is for {shown or "no node"}; '
                f'write {name} or /** there')


#: Chosen: timeout for the shutdown of the middleware (s). Observed: Fast DDS 2.14 can spin for
#: ever when its peers leave at the same time; a supervisor must not wait for that.
LEAVE_S = 5.0
#: Chosen: maximum time (s) from a signal to rclpy's shutdown, which usually takes some
#: milliseconds.
_SIGNAL_S = 0.5
#: Beginning of rcl's error for a list with mixed types, such as [0, 0.5], in a parameter file.
_MIXED_LIST = 'Sequence should be of same type'
_NODE_FIRST = ('parameters stand below the name of the node and ros__parameters: the command '
               '"parameters" prints such a file')
#: Remedies by parts of rcl's errors when a node starts.
_REMEDIES = {
    _MIXED_LIST: 'a list must be all decimals or all whole numbers: write 0.0 for 0, as in '
                 '[0.0, 0.0, -0.05]',
    'before ros__parameters': _NODE_FIRST,
    'Sequences cannot be key': _NODE_FIRST,
    'parse parameter override rule':
        'a value follows := without a blank, and is YAML: -p "server:=\'\'" gives an empty text, '
        'and a setting that is left out keeps its default',
    'error creating node': 'the middleware does not start; it may have printed the reason above: '
                           'check the variables that it reads, such as CYCLONEDDS_URI',
}


def leave_by_force(code: int) -> None:
    """End the process immediately; the package's own resources have been released."""
    sys.stderr.write(
        f'the middleware did not shut down within {LEAVE_S:g} s; ending the process\n')
    sys.stderr.flush()
    os._exit(code)


def explained(error: Exception) -> str:
    """Return rcl's error when a node starts, with the remedy if known."""
    # rcl has no reason for a rule without a value.
    text = str(error).partition(' Error: error not set')[0]
    return '\n'.join([text, *(remedy for part, remedy in _REMEDIES.items() if part in text)])


def spin(executor: Executor, node: Node) -> None:
    """
    Spin until ROS shuts down.

    rclpy's executors raise InvalidHandle if another thread destroys an entity while they wait for
    it; the next ``spin_once`` no longer contains the entity.
    """
    invalid_handles = 0
    # Not rclpy.spin(): on a signal rclpy wakes the executor before it shuts ROS down, and an
    # executor that checks in between waits for ever.
    while rclpy.ok():
        try:
            # Chosen: period at which an idle executor checks whether ROS has shut down (s), longer
            # than the period of the diagnostics, which wake it in any case.
            executor.spin_once(timeout_sec=1.5)
            invalid_handles = 0
        except InvalidHandle as error:
            invalid_handles += 1
            # Chosen: consecutive InvalidHandle errors after which the executor is considered
            # broken.
            if invalid_handles >= 100:
                raise
            if invalid_handles == 1 and rclpy.ok():
                node.get_logger().warning(f'the executor continues after: {error}')


def _shuts_down() -> bool:
    """
    Return whether ROS is shut down, or will be within ``_SIGNAL_S``.

    On a signal rclpy shuts down in a separate thread, some milliseconds after Python's
    KeyboardInterrupt. If that exception interrupts the conversion of a message, pybind11 replaces
    it by a RuntimeError.
    """
    deadline = time.monotonic() + _SIGNAL_S
    while rclpy.ok() and time.monotonic() < deadline:
        time.sleep(0.01)
    return not rclpy.ok()


def run(make_node: Callable[[], Node], argv: Sequence[str]) -> int:
    """
    Spin one node until ROS shuts down.

    :param make_node: creates the node after the initialisation of ROS.
    :param argv: the whole command line, with the program's name first.
    :returns: exit code; an interrupt is a normal end.
    :raises ConfigurationError: if ROS cannot read the command line or a file that it names.
    """
    check_domain()
    files = {file: read_parameter_file(file) for file in files_given(argv)}
    use_batch_scheduling()
    leave_to_ros()
    try:
        rclpy.init(args=list(argv))
    except RuntimeError as error:    # RCLError
        raise ConfigurationError(explained(error)) from None
    except KeyboardInterrupt:
        return 0
    node = None
    try:
        # before the node, whose threads can shut ROS down: without ROS rclpy prints a traceback
        executor = rclpy.get_global_executor()
        try:
            node = make_node()
        except RuntimeError as error:
            if explained(error) == str(error):
                raise
            raise ConfigurationError(explained(error)) from None
        warn_of_files_of_others(node, files)
        # Chosen: longest time for which a thread keeps Python's interpreter lock while another
        # thread waits for it (s). With Python's default of 5 ms, a pose that arrives while
        # diagnostics are written would wait for longer than the frame interval of 240 Hz.
        sys.setswitchinterval(1e-4)
        # Exclude the loaded modules from garbage collection: a full collection stops all threads
        # for tens of milliseconds and frees nothing of them. None is made here either: it would
        # free less than 1 MB and delay the first pose.
        gc.freeze()
        gc.enable()
        executor.add_node(node)
        spin(executor, node)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    except Exception:
        # A signal during the construction or a callback: rclpy converts it to various errors.
        if not _shuts_down():
            raise
    finally:
        # Ctrl-C sends two interrupts to the process: from the terminal and from `ros2 launch`.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if node is not None:
            node.destroy_node()
        code = 0 if sys.exc_info()[0] is None else 1
        patience = threading.Timer(LEAVE_S, leave_by_force, (code,))
        patience.daemon = True
        patience.start()
        rclpy.try_shutdown()
    return 0
