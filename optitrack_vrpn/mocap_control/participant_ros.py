# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
A lifecycle node that mocap control starts and stops; subclass it for any capture system.

See docs/mocap_control.md. All methods run on the executor thread, except ``set_info_topics``,
which any thread may call.
"""

from collections import deque
import contextlib
import functools
import threading
import traceback
from typing import Any, Callable, Optional, Sequence
import weakref

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from optitrack_vrpn.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.mocap_control.endpoint_ros import delay_timer, Endpoint
from optitrack_vrpn.mocap_control.messages_ros import find_dialects, how_to_install
from optitrack_vrpn.mocap_control.protocol import (
    Command, ControlConfig, ControlCounters, fits, Follower, Kind, refusal)
from optitrack_vrpn.names import printable
from optitrack_vrpn.ros.log import ros_is_up, ThrottledLog
from optitrack_vrpn.settings_ros import declare_settings, read_settings
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle, NameValidationException
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

_TRANSITIONS = ('configure', 'activate', 'deactivate', 'cleanup', 'shutdown', 'error')
#: Names of the transitions that can be requested by number.
_ASKED = {
    Transition.TRANSITION_CONFIGURE: 'configure', Transition.TRANSITION_CLEANUP: 'cleanup',
    Transition.TRANSITION_ACTIVATE: 'activate', Transition.TRANSITION_DEACTIVATE: 'deactivate',
    Transition.TRANSITION_UNCONFIGURED_SHUTDOWN: 'shutdown',
    Transition.TRANSITION_INACTIVE_SHUTDOWN: 'shutdown',
    Transition.TRANSITION_ACTIVE_SHUTDOWN: 'shutdown'}
_PREFIX = 'control'
#: Chosen: bodies that appear within this time (s) are announced together. Halved, more messages at
#: the start; doubled, a controller learns the topics later.
_INFO_DELAY_S = 0.05
#: Chosen: period at which a waiting command checks whether the current transition has ended (s).
#: Halved or doubled, the command is executed by so much earlier or later.
_RETRY_S = 0.02
#: Chosen: limit of waiting commands, far above any use. Halved or doubled, so is the memory that a
#: flood can take.
_MOST_WAITING = 1000


class ControlledLifecycleNode(LifecycleNode):
    """
    A lifecycle node that follows START and STOP of mocap control and acknowledges them.

    Override the ``on_...`` callbacks as in any lifecycle node, and ``control_start`` and
    ``control_stop`` to react to the commands themselves. Exceptions in ``on_...`` callbacks are
    logged here, because rclpy discards them.

    :param node_name: name of the node before remapping.
    :param control: settings of mocap control; without it the node declares and reads the
        parameters ``control.*``.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(
        self, node_name: str, *, control: Optional[ControlConfig] = None, **kwargs: Any,
    ) -> None:
        self._transition_lock = threading.RLock()
        self._destroyed = False
        # rclpy stores the callbacks when it constructs the node.
        for name in _TRANSITIONS:
            setattr(self, f'on_{name}', self._watched(name, getattr(self, f'on_{name}')))
        super().__init__(node_name, **kwargs)
        self._fault = ''
        self._control_error = ''
        self._follower = Follower(self.get_name())
        self._endpoints: list[Endpoint] = []
        self._waiting: deque[tuple[Endpoint, Command]] = deque()
        self._working = False
        self._pending: Optional[Command] = None
        self._log = ThrottledLog(self)
        # A timer of the node's own clock stops for an hour when the system clock is set back by
        # an hour.
        self._steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._info_lock = threading.Lock()
        self._info_topics: Optional[tuple[str, ...]] = None
        self._announced: Optional[tuple[str, ...]] = None
        self._guard_change_state()
        self._retry_timer = delay_timer(self, _RETRY_S, self._execute_waiting, self._steady)
        self._info_timer = delay_timer(self, _INFO_DELAY_S, self._announce_later, self._steady)
        self._info_changed = self.create_guard_condition(self._schedule_info)
        self._set_up_control(control)
        self._own_topics = {publisher.topic_name for publisher in self.publishers}
        if self._follower.configure_on_start:
            # Controllers list the systems that have announced themselves: announce this one.
            self._publish_info(())

    # -- for subclasses ------------------------------------------------------------------------

    def control_start(self, msg: Command) -> None:
        """
        Handle a START that activated this system and was acknowledged.

        :param msg: the command, with ``session_id``; ``original`` is the ROS message.
        """

    def control_stop(self, msg: Command) -> None:
        """
        Handle a STOP that deactivated this system and was acknowledged.

        :param msg: the command; ``original`` is the ROS message.
        """

    def set_info_topics(self, topics: Sequence[str]) -> None:
        """
        Set the topics that this system announces; callable from any thread, does not block.

        The node announces them when it is configured and shortly after each change, and announces
        an empty list when it is cleaned up or shut down. A node that never calls this method
        announces the topics of all its publishers.

        :param topics: fully resolved names.
        """
        with self._info_lock:
            if self._info_topics == tuple(topics):
                return
            self._info_topics = tuple(topics)
        with contextlib.suppress(InvalidHandle):   # the node is being destroyed
            self._info_changed.trigger()

    @property
    def control_counters(self) -> ControlCounters:
        """Return the counters of the control topics."""
        return self._follower.counters

    @property
    def control_generations(self) -> tuple[str, ...]:
        """Names of the generations that this node supports."""
        return tuple(endpoint.generation.name for endpoint in self._endpoints)

    @property
    def control_pending(self) -> Optional[Command]:
        """Return the command whose transitions are executed now; None outside of commands."""
        return self._pending

    @property
    def lifecycle_label(self) -> str:
        """Name the lifecycle state; rclpy has no public name for it up to Kilted."""
        return str(self._state_machine.current_state[1])

    # -- entities ------------------------------------------------------------------------------

    def destroy_node(self) -> None:
        """Wait for the end of a transition in another thread, prevent others, and destroy."""
        with self._transition_lock:
            self._destroyed = True
            super().destroy_node()

    def destroy_publisher(self, publisher: Any) -> bool:
        """Destroy a publisher while any executor of the user waits for it."""
        self._release_events(publisher)
        return bool(super().destroy_publisher(publisher))

    def destroy_subscription(self, subscription: Any) -> bool:
        """Destroy a subscription while any executor of the user waits for it."""
        self._release_events(subscription)
        return bool(super().destroy_subscription(subscription))

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

    # -- setting up ----------------------------------------------------------------------------

    def _set_up_control(self, config: Optional[ControlConfig]) -> None:
        try:
            if config is None:
                declare_settings(self, ControlConfig, _PREFIX)
                config = read_settings(self, ControlConfig, _PREFIX)
            dialects, problems = find_dialects(config.generations)
        except ConfigurationError as error:
            self._control_error = str(error)
            self.get_logger().error(f'mocap control is off: {error}')
            return
        self._follower = Follower(self.get_name(), config.configure_on_start)
        for dialect in dialects:
            try:
                self._endpoints.append(Endpoint(
                    self, dialect, config.absolute_topics, self._steady, self._received))
            except Exception as error:
                problems.append(f'{dialect.generation.package} cannot be used: {error}')
        for problem in problems:
            self.get_logger().warning(f'mocap control: {problem}')
        if config.generations and not self._endpoints and not problems:
            self.get_logger().warning(
                f'mocap control is off, all other functions work: {how_to_install()}; or set '
                "control.generations: ['none'] to disable it")

    def _watched(
        self, name: str, callback: Callable[[LifecycleState], Any],
    ) -> Callable[[LifecycleState], TransitionCallbackReturn]:
        """Wrap an ``on_...`` callback: log its errors and announce the resulting state."""
        @functools.wraps(callback)
        def watched(state: LifecycleState) -> TransitionCallbackReturn:
            with self._transition_lock:
                if self._destroyed:
                    return TransitionCallbackReturn.FAILURE
                result = self._outcome(name, callback, state)
                if name == 'configure':
                    if result is TransitionCallbackReturn.SUCCESS:
                        self._publish_info(self._topics())
                elif name in ('cleanup', 'shutdown', 'error') and self._announced and (
                        (name, result) != ('cleanup', TransitionCallbackReturn.FAILURE)):
                    # The latched message would announce topics that no longer exist.
                    self._publish_info(())
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
            if name == 'configure' and self._control_error:
                raise ConfigurationError(self._control_error)
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
            self._log('warn', refusal(printable(asked), before), 'change_state')
        elif error is not None:
            self._log('warn', f'{printable(asked)} refused in state {before}: {error}',
                      'change_state')
        return response

    # -- commands ------------------------------------------------------------------------------

    def _received(self, endpoint: Endpoint, command: Command) -> None:
        """Process a message of the control topic."""
        if not self._follower.concerns(command):
            if command.kind is None:
                self._log('warn', f'mocap control: a message of unknown type '
                          f'{command.control_type} from {printable(command.source)!r} is ignored',
                          'unknown')
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._follower.counters.dropped += 1
            self._log('error', 'mocap control: too many commands wait for a transition to end; '
                      'the newest are dropped', 'dropped')
            return
        self._waiting.append((endpoint, command))
        self._execute_waiting()

    def _execute_waiting(self) -> None:
        """Execute the waiting commands in order, as far as the lifecycle state allows."""
        if self._working:   # a transition that spins: wait for its end
            return
        self._working = True
        try:
            while self._waiting:
                endpoint, command = self._waiting.popleft()
                try:
                    self._pending = command
                    followed = self._follow(endpoint, command)
                except Exception:   # an exception would end the executor and the node
                    self.get_logger().error(
                        f'mocap control: bug while executing a command:\n{traceback.format_exc()}')
                    continue
                if not followed:
                    self._waiting.appendleft((endpoint, command))
                    self._retry_timer.reset()
                    return
        finally:
            self._pending = None
            self._working = False

    def _follow(self, endpoint: Endpoint, command: Command) -> bool:
        """Execute a command; return False during a transition."""
        verdict = self._follower.decide(command, self.lifecycle_label)
        if verdict is None:
            return False
        if verdict.reason:
            self._follower.counters.refused += 1
            self._refuse(command, verdict.reason.replace(
                '<node>', self.get_fully_qualified_name()))
            return True
        for transition in verdict.transitions:
            reason = self._make(transition)
            if reason is None:
                return False
            if reason:
                self._follower.counters.failed += 1
                self._refuse(command, reason)
                return True
        self._acknowledge(endpoint, command, bool(verdict.transitions))
        return True

    def _make(self, transition: str) -> Optional[str]:
        """Make a transition; return the reason of a failure, None if another one is running."""
        self._fault = ''
        try:
            result = getattr(self, f'trigger_{transition}')()
        except Exception as error:
            if self.lifecycle_label.endswith('ing'):   # another thread has started one
                return None
            return f'{transition} could not be made: {error}'
        if result is TransitionCallbackReturn.SUCCESS:
            return ''
        if self.lifecycle_label.endswith('ing'):   # the same from Kilted on, which gives ERROR
            return None
        outcome = 'failed' if result is TransitionCallbackReturn.FAILURE else 'ended in an error'
        reason = self._fault or 'its reason is logged above'
        return f'{transition} {outcome} ({reason}); the node is {self.lifecycle_label}'

    def _refuse(self, command: Command, reason: str) -> None:
        name = Kind(command.control_type).name
        self._log('warn', f'mocap control: {name} from {printable(command.source)!r} is not '
                  f'acknowledged: {reason}', (name, reason))

    def _acknowledge(self, endpoint: Endpoint, command: Command, changed: bool) -> None:
        answer, session = self._follower.acknowledge(command)
        try:
            endpoint.acknowledge(answer, session)
        except Exception as error:   # ROS is shutting down
            self._log('error', f'mocap control: no acknowledgement could be sent: {error}', 'ack')
        sender = f'{printable(command.source)!r}, session {printable(session)!r}'
        name = Kind(command.control_type).name
        if not changed:
            self._log('info', f'mocap control: {name} from {sender}: {self.lifecycle_label} '
                      'already, acknowledged again', (name, 'again'))
            return
        self.get_logger().info(
            f'mocap control: {name} from {sender}: now {self.lifecycle_label}')
        try:
            (self.control_start if command.kind is Kind.START else self.control_stop)(command)
        except Exception:
            self.get_logger().error(
                f'control_{name.lower()} failed:\n{traceback.format_exc()}')

    # -- info ----------------------------------------------------------------------------------

    def _topics(self) -> tuple[str, ...]:
        with self._info_lock:
            if self._info_topics is not None:
                return self._info_topics
        return tuple(dict.fromkeys(
            publisher.topic_name for publisher in self.publishers
            if publisher.topic_name not in self._own_topics))

    def _publish_info(self, topics: tuple[str, ...]) -> None:
        self._announced = topics
        for endpoint in self._endpoints:
            try:
                endpoint.announce(topics)
            except Exception as error:   # ROS is shutting down, or a topic is no string
                self._log('error', f'mocap control: cannot announce the topics: {error}', 'info')

    def _schedule_info(self) -> None:
        if self.lifecycle_label in ('inactive', 'active') and self._info_timer.is_canceled():
            self._info_timer.reset()

    def _announce_later(self) -> None:
        topics = self._topics()
        if self.lifecycle_label in ('inactive', 'active') and topics != self._announced:
            self._publish_info(topics)
