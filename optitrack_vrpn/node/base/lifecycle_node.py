# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A lifecycle node whose errors are logged and whose transitions others can watch.

It works around defects of rclpy (up to Kilted at least): errors in ``on_...`` callbacks and
invalid requests for transitions, and entities that are destroyed while an executor waits for them.
"""

import functools
import threading
import traceback
from typing import Any, Callable, Optional
import weakref

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from optitrack_vrpn.core.errors import OptitrackVrpnError
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import WARN
from optitrack_vrpn.node.base.node_parts import ros_is_up, ThrottledLog
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import NameValidationException
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

_TRANSITIONS = ('configure', 'activate', 'deactivate', 'cleanup', 'shutdown', 'error')
#: Names of the transitions that can be requested by number.
_ASKED = {
    Transition.TRANSITION_CONFIGURE: 'configure', Transition.TRANSITION_CLEANUP: 'cleanup',
    Transition.TRANSITION_ACTIVATE: 'activate', Transition.TRANSITION_DEACTIVATE: 'deactivate',
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN: 'shutdown',
    Transition.TRANSITION_INACTIVE_SHUTDOWN: 'shutdown',
    Transition.TRANSITION_ACTIVE_SHUTDOWN: 'shutdown'}
#: Remedy for a refused transition, by transition and state.
_FIRST = {
    ('configure', 'inactive'): 'clean it up first to configure it again',
    ('configure', 'active'): 'deactivate it and clean it up first to configure it again',
    ('activate', 'unconfigured'): 'configure it first',
    ('activate', 'active'): 'there is nothing to do',
    ('deactivate', 'unconfigured'): 'it publishes nothing',
    ('deactivate', 'inactive'): 'it publishes nothing',
    ('cleanup', 'unconfigured'): 'there is nothing to clean up',
    ('cleanup', 'active'): 'deactivate it first',
}


def fits(transition: str, state: str) -> bool:
    """Return whether a lifecycle state allows a transition."""
    return (transition, state) in (
        ('configure', 'unconfigured'), ('activate', 'inactive'), ('deactivate', 'active'),
        ('cleanup', 'inactive'))


def refusal(transition: str, state: str) -> str:
    """
    Describe why a transition is refused in a lifecycle state, with the remedy.

    :param transition: as in ``activate``.
    :param state: as in ``unconfigured``.
    """
    if state == 'finalized':
        first = 'start the process again'
    elif state.endswith('ing'):
        first = 'wait until that has ended'
    elif transition == 'shutdown':
        first = 'that shutdown is for another state'
    else:
        first = _FIRST.get((transition, state), 'there is no such transition')
    return f'{transition} refused: the node is {state}; {first}'


class SafeLifecycleNode(LifecycleNode):
    """
    A lifecycle node; override the ``on_...`` callbacks as in any other.

    :param node_name: name of the node before remapping.
    :param kwargs: passed to rclpy's node.
    :ivar configure_checks: called before ``on_configure``; their errors make configure fail.
    :ivar transition_listeners: called after each ``on_...`` callback with its name, as in
        ``configure``, and its result, on the thread of the transition.
    """

    def __init__(self, node_name: str, **kwargs: Any) -> None:
        self._transition_lock = threading.RLock()
        self._ended = False
        self._fault = ''
        self.configure_checks: list[Callable[[], None]] = []
        self.transition_listeners: list[Callable[[str, TransitionCallbackReturn], None]] = []
        # rclpy stores the callbacks when it constructs the node.
        for name in _TRANSITIONS:
            setattr(self, f'on_{name}', self._watched(name, getattr(self, f'on_{name}')))
        super().__init__(node_name, **kwargs)
        self._log = ThrottledLog(self)
        # A timer of the node's own clock stops for an hour when the system clock is set back by
        # an hour.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._guard_change_state()

    @property
    def lifecycle_label(self) -> str:
        """Name the lifecycle state; rclpy has no public name for it up to Kilted."""
        return str(self._state_machine.current_state[1])

    def make_transition(self, name: str) -> Optional[str]:
        """
        Make a transition, from a callback of the executor.

        :returns: '' after success, the reason of a failure, or None if another transition runs.
        """
        self._fault = ''
        try:
            result = getattr(self, f'trigger_{name}')()
        except Exception as error:
            if self.lifecycle_label.endswith('ing'):   # another thread has started one
                return None
            return f'{name} could not be made: {error}'
        if result is TransitionCallbackReturn.SUCCESS:
            return ''
        if self.lifecycle_label.endswith('ing'):   # the same from Kilted on, which gives ERROR
            return None
        outcome = 'failed' if result is TransitionCallbackReturn.FAILURE else 'ended in an error'
        reason = self._fault or 'its reason is logged above'
        return f'{name} {outcome} ({reason}); the node is {self.lifecycle_label}'

    # -- entities ------------------------------------------------------------------------------

    def destroy_node(self) -> None:
        """Wait for the end of a transition in another thread, prevent others, and destroy."""
        with self._transition_lock:
            self._ended = True
            super().destroy_node()

    def destroy_publisher(self, publisher: Any) -> bool:
        """Destroy a publisher while any executor of the user waits for it."""
        self._release_events(publisher)
        return bool(super().destroy_publisher(publisher))

    def destroy_subscription(self, subscription: Any) -> bool:
        """Destroy a subscription while any executor of the user waits for it."""
        self._release_events(subscription)
        self._forget_when_gone(subscription)
        return bool(super().destroy_subscription(subscription))

    def destroy_service(self, service: Any) -> bool:
        """Destroy a service, and leave nothing of it in its callback group."""
        self._forget_when_gone(service)
        return bool(super().destroy_service(service))

    @staticmethod
    def _forget_when_gone(entity: Any) -> None:
        """
        Remove the reference that the callback group of an entity would keep for ever.

        The entity must be gone first: before that, an executor may have a callback of it to run,
        and the group asserts that it knows the entity.
        """
        forget = weakref.finalize(
            entity, entity.callback_group.entities.discard, weakref.ref(entity))
        forget.atexit = False

    def _release_events(self, entity: Any) -> None:
        """
        Leave the events of an entity to the executors that still use them.

        rclpy (up to Kilted at least) destroys them at once, so that ``spin`` raises InvalidHandle
        in an executor that waits in another thread, as a MultiThreadedExecutor does. Its callback
        group would keep a dead reference to each for ever.
        """
        for handler in entity.event_handlers:
            self.remove_waitable(handler)
            handler.callback_group.entities.discard(weakref.ref(handler))
        entity.event_handlers.clear()

    # -- transitions ---------------------------------------------------------------------------

    def _watched(
        self, name: str, callback: Callable[[LifecycleState], Any],
    ) -> Callable[[LifecycleState], TransitionCallbackReturn]:
        """Wrap an ``on_...`` callback: log its errors and call the listeners."""
        @functools.wraps(callback)
        def watched(state: LifecycleState) -> TransitionCallbackReturn:
            with self._transition_lock:
                if self._ended:
                    return TransitionCallbackReturn.FAILURE
                result = self._outcome(name, callback, state)
                for listener in self.transition_listeners:
                    listener(name, result)
                return result
        return watched

    def _outcome(
        self, name: str, callback: Callable[[LifecycleState], Any], state: LifecycleState,
    ) -> TransitionCallbackReturn:
        """
        Call an ``on_...`` callback, and log why it did not succeed.

        An error of this package, or of a topic's name, is a FAILURE: the node keeps its state. Any
        other exception or result is a bug, and an ERROR: the node cleans up in ``on_error``.
        """
        try:
            for check in self.configure_checks if name == 'configure' else ():
                check()
            result = callback(state)
        except (OptitrackVrpnError, NameValidationException) as error:
            lines = str(error).splitlines()
            self._fault = '; '.join(lines)
            for line in lines:
                self.get_logger().error(f'cannot {name}: {line}')
            return TransitionCallbackReturn.FAILURE
        except Exception as error:
            self._fault = f'on_{name} raised {type(error).__name__}: {error}'
            if ros_is_up(self):    # a signal can end ROS during a transition
                self.get_logger().error(f'on_{name} failed:\n{traceback.format_exc()}')
            return TransitionCallbackReturn.ERROR
        if not isinstance(result, TransitionCallbackReturn):
            # rclpy would raise and stay in the transition for ever.
            self._fault = f'on_{name} returned {result!r}, not a TransitionCallbackReturn'
            self.get_logger().error(self._fault)
            return TransitionCallbackReturn.ERROR
        return result

    def _guard_change_state(self) -> None:
        """
        Prevent an invalid request for a transition from ending the process.

        In rclpy the error of a transition that is not allowed in the state leaves the service's
        callback, which ends the executor.
        """
        for service in self.services:
            if service.srv_type is ChangeState:
                service.callback = functools.partial(self._change_state, service.callback)

    def _change_state(
        self, callback: Callable[[Any, Any], Any], request: Any, response: Any,
    ) -> Any:
        number = request.transition.id
        asked = request.transition.label or _ASKED.get(number, f'transition {number}')
        before = self.lifecycle_label
        error: Optional[Exception] = None
        try:
            response = callback(request, response)
        except Exception as raised:
            error = raised
            response.success = False
        if not response.success and not fits(asked, before) and (
                error is not None or before == self.lifecycle_label):
            self._log(WARN, refusal(printable(asked), before), 'change_state')
        elif error is not None:
            self._log(WARN, f'{printable(asked)} refused in state {before}: {error}',
                      'change_state')
        return response
