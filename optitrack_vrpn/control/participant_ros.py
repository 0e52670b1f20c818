# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Let a lifecycle node follow mocap control: a component of any node, and a base class for users.

See docs/mocap_control.md. All methods run on the executor thread, except ``set_info_topics``,
which any thread may call.
"""

from collections import deque
import contextlib
import threading
import traceback
from typing import Any, Callable, Optional, Sequence

from optitrack_vrpn.control.endpoint_ros import delay_timer, Endpoint, find_dialects
from optitrack_vrpn.control.protocol import Command, ControlConfig, Follower, Kind
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import ERROR, INFO, Severity, WARN
from optitrack_vrpn.node.base.lifecycle_node import SafeLifecycleNode
from optitrack_vrpn.node.base.node_parts import ThrottledLog
from optitrack_vrpn.node.base.settings_ros import declare_settings, read_settings
from rclpy.clock import Clock, ClockType
from rclpy.exceptions import InvalidHandle
from rclpy.lifecycle import TransitionCallbackReturn

_PREFIX = 'control'
#: Chosen: period at which a waiting command checks whether the current transition has ended (s).
_RETRY_S = 0.02


def _nothing(command: Command) -> None:
    """React to a command: do nothing more."""


def _allowed(command: Command) -> str:
    """Refuse no command."""
    return ''


class MocapControl:
    """
    Let a node follow START and STOP of mocap control, and acknowledge them.

    :param node: the node; its own publishers up to now are not announced.
    :param config: settings; without them the node declares and reads the parameters ``control.*``.
    :param on_start: called after a START that activated the node and was acknowledged.
    :param on_stop: called after a STOP that deactivated it and was acknowledged.
    :param refusal: returns why a command that needs a transition must not be followed now; '' to
        follow it.
    """

    def __init__(
        self, node: SafeLifecycleNode, config: Optional[ControlConfig] = None, *,
        on_start: Callable[[Command], None] = _nothing,
        on_stop: Callable[[Command], None] = _nothing,
        refusal: Callable[[Command], str] = _allowed,
    ) -> None:
        self._node = node
        self._reactions = {Kind.START: on_start, Kind.STOP: on_stop}
        self._refusal = refusal
        self._follower = Follower(node.get_name())
        self._endpoints: list[Endpoint] = []
        self._waiting: deque[tuple[Endpoint, Command]] = deque()
        self._pending: Optional[Command] = None
        self._working = False
        self._log = ThrottledLog(node)
        clock = Clock(clock_type=ClockType.STEADY_TIME)
        self._retry_timer = delay_timer(node, _RETRY_S, self._execute_waiting, clock)
        self._info = _Info(node, self._endpoints, self._log, clock)
        self._set_up(config, clock)
        self._info.own_topics = {publisher.topic_name for publisher in node.publishers}
        node.transition_listeners.append(self._info.follow)
        if self._follower.configure_on_start:
            # Controllers list the systems that have announced themselves: announce this one.
            self._info.publish(())

    @property
    def pending(self) -> Optional[Command]:
        """Return the command whose transitions are executed now; None outside of commands."""
        return self._pending

    def set_info_topics(self, topics: Sequence[str]) -> None:
        """
        Set the topics that this system announces; callable from any thread, does not block.

        They are announced when the node is configured and shortly after each change, and an empty
        list when it is cleaned up or shut down. Without a call, the topics of all publishers of
        the node are announced.

        :param topics: fully resolved names.
        """
        self._info.set(tuple(topics))

    def _set_up(self, config: Optional[ControlConfig], clock: Clock) -> None:
        node, log = self._node, self._node.get_logger()
        try:
            if config is None:
                declare_settings(node, ControlConfig, _PREFIX)
                config = read_settings(node, ControlConfig, _PREFIX)
            dialects, problems = find_dialects(config.generations)
        except ConfigurationError as error:
            text = str(error)

            def refuse() -> None:
                raise ConfigurationError(text)
            node.configure_checks.append(refuse)
            log.error(f'mocap control is off: {error}')
            return
        self._follower = Follower(node.get_name(), config.configure_on_start)
        for dialect in dialects:
            try:
                self._endpoints.append(Endpoint(
                    node, dialect, config.absolute_topics, clock, self._received))
            except Exception as error:
                problems.append(f'{dialect.generation.package} cannot be used: {error}')
        for problem in problems:
            log.warning(f'mocap control: {problem}')
        if config.generations and not self._endpoints and not problems:
            log.info(
                'mocap control is off: its messages are not installed (docs/mocap_control.md)')

    # -- commands ------------------------------------------------------------------------------

    def _received(self, endpoint: Endpoint, command: Command) -> None:
        """Process a message of the control topic."""
        if not self._follower.concerns(command):
            if command.kind is None:
                self._log(WARN, f'mocap control: a message of unknown type '
                          f'{command.control_type} from {printable(command.source)!r} is ignored',
                          'unknown')
            return
        # Chosen: limit of waiting commands, far above any use.
        if len(self._waiting) >= 1000:
            self._log(ERROR, 'mocap control: too many commands wait for a transition to end; '
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
                    self._node.get_logger().error(
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
        verdict = self._follower.decide(command, self._node.lifecycle_label)
        if verdict is None:
            return False
        refusal = verdict.reason.replace('<node>', self._node.get_fully_qualified_name())
        if verdict.transitions:
            refusal = self._refusal(command)
        if refusal:
            self._refuse(command, refusal, ERROR if verdict.transitions else WARN)
            return True
        for transition in verdict.transitions:
            reason = self._node.make_transition(transition)
            if reason is None:
                return False
            if reason:
                self._refuse(command, reason)
                return True
        self._acknowledge(endpoint, command, bool(verdict.transitions))
        return True

    def _refuse(self, command: Command, reason: str, severity: Severity = WARN) -> None:
        name = Kind(command.control_type).name
        self._log(severity, f'mocap control: {name} from {printable(command.source)!r} is not '
                  f'acknowledged: {reason}', (name, reason))

    def _acknowledge(self, endpoint: Endpoint, command: Command, changed: bool) -> None:
        answer, session = self._follower.acknowledge(command)
        try:
            endpoint.acknowledge(answer, session)
        except Exception as error:   # ROS is shutting down
            self._log(ERROR, f'mocap control: no acknowledgement could be sent: {error}', 'ack')
        sender = f'{printable(command.source)!r}, session {printable(session)!r}'
        kind, label = Kind(command.control_type), self._node.lifecycle_label
        if not changed:
            self._log(INFO, f'mocap control: {kind.name} from {sender}: {label} already, '
                      'acknowledged again', (kind, 'again'))
            return
        log = self._node.get_logger()
        log.info(f'mocap control: {kind.name} from {sender}: now {label}')
        try:
            self._reactions[kind](command)
        except Exception:
            log.error(f'control_{kind.name.lower()} failed:\n{traceback.format_exc()}')


class _Info:
    """Announce the topics of a system."""

    def __init__(
        self, node: SafeLifecycleNode, endpoints: Sequence[Endpoint], log: ThrottledLog,
        clock: Clock,
    ) -> None:
        self.own_topics: set[str] = set()
        self._node = node
        self._endpoints = endpoints
        self._log = log
        self._lock = threading.Lock()
        self._topics: Optional[tuple[str, ...]] = None
        self._announced: Optional[tuple[str, ...]] = None
        # Chosen: bodies that appear within this time (s) are announced together.
        self._timer = delay_timer(node, 0.05, self._announce_later, clock)
        self._changed = node.create_guard_condition(self._schedule)

    def set(self, topics: tuple[str, ...]) -> None:
        """Set the topics; see ``MocapControl.set_info_topics``."""
        with self._lock:
            if self._topics == topics:
                return
            self._topics = topics
        with contextlib.suppress(InvalidHandle):   # the node is being destroyed
            self._changed.trigger()

    def follow(self, transition: str, result: TransitionCallbackReturn) -> None:
        """Announce the state after a transition."""
        if transition == 'configure':
            if result is TransitionCallbackReturn.SUCCESS:
                self.publish(self._present())
        elif transition in ('cleanup', 'shutdown', 'error') and self._announced and (
                (transition, result) != ('cleanup', TransitionCallbackReturn.FAILURE)):
            # The latched message would announce topics that no longer exist.
            self.publish(())

    def publish(self, topics: tuple[str, ...]) -> None:
        """Announce topics."""
        self._announced = topics
        for endpoint in self._endpoints:
            try:
                endpoint.announce(topics)
            except Exception as error:   # ROS is shutting down, or a topic is no string
                self._log(ERROR, f'mocap control: cannot announce the topics: {error}', 'info')

    def _present(self) -> tuple[str, ...]:
        with self._lock:
            if self._topics is not None:
                return self._topics
        return tuple(dict.fromkeys(
            publisher.topic_name for publisher in self._node.publishers
            if publisher.topic_name not in self.own_topics))

    def _configured(self) -> bool:
        return self._node.lifecycle_label in ('inactive', 'active')

    def _schedule(self) -> None:
        if self._configured() and self._timer.is_canceled():
            self._timer.reset()

    def _announce_later(self) -> None:
        topics = self._present()
        if self._configured() and topics != self._announced:
            self.publish(topics)


class ControlledLifecycleNode(SafeLifecycleNode):
    """
    A lifecycle node that follows START and STOP of mocap control; subclass it for any system.

    Override the ``on_...`` callbacks as in any lifecycle node, and ``control_start`` and
    ``control_stop`` to react to the commands themselves. Exceptions in ``on_...`` callbacks are
    logged here, because rclpy discards them.

    :param node_name: name of the node before remapping.
    :param control: settings of mocap control; see ``MocapControl``.
    :param kwargs: passed to rclpy's node.
    :ivar mocap_control: the component that follows the commands.
    """

    def __init__(
        self, node_name: str, *, control: Optional[ControlConfig] = None, **kwargs: Any,
    ) -> None:
        super().__init__(node_name, **kwargs)
        self.mocap_control = MocapControl(
            self, control, on_start=self.control_start, on_stop=self.control_stop,
            refusal=self.control_refusal)

    def control_start(self, msg: Command) -> None:
        """
        Handle a START that activated this system and was acknowledged.

        :param msg: the command, with ``session_id``; ``original`` is the ROS message.
        """

    def control_stop(self, msg: Command) -> None:
        """Handle a STOP that deactivated this system and was acknowledged."""

    def control_refusal(self, msg: Command) -> str:
        """Return why a START or STOP must not be followed now; '' to follow it."""
        return ''

    def set_info_topics(self, topics: Sequence[str]) -> None:
        """Set the topics that this system announces; see ``MocapControl``."""
        self.mocap_control.set_info_topics(topics)
