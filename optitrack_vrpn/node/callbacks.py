# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Wrappers of the node's callbacks: no exception is lost, and none ends a thread."""

import functools
import traceback
from typing import Any, Callable

from optitrack_vrpn.errors import OptitrackVrpnError
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

Transition = Callable[[Any, LifecycleState], TransitionCallbackReturn]


def failure_on_error(transition: Transition) -> Transition:
    """
    Log an error of this package in a transition, which is then a FAILURE.

    The node keeps its state. Any other exception is a bug: the base class logs it and turns it
    into an ERROR, after which the node cleans up in ``on_error``.
    """
    @functools.wraps(transition)
    def wrapper(self: Any, state: LifecycleState) -> TransitionCallbackReturn:
        name = transition.__name__[len('on_'):]
        try:
            return transition(self, state)
        except OptitrackVrpnError as error:
            for line in str(error).splitlines():
                self.get_logger().error(f'cannot {name}: {line}')
            return TransitionCallbackReturn.FAILURE
    return wrapper


def log_exceptions(
    log: Callable[[str, str, str], None], callback: Callable[[], None],
) -> Callable[[], None]:
    """
    Log what a callback raises: it would end its thread, or the executor the process.

    :param log: takes severity, text and a key.
    """
    @functools.wraps(callback)
    def wrapper() -> None:
        try:
            callback()
        except Exception:
            log('error', f'a bug in {callback.__name__}:\n{traceback.format_exc()}',
                callback.__name__)
    return wrapper
