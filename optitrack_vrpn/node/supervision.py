# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The work of the ticker thread, ten times a second: topics, silence, log, reports, conflicts."""

from collections import deque
import contextlib
import threading
import traceback
from typing import Any, Callable, Optional, Sequence, TYPE_CHECKING

from optitrack_vrpn.core.names import printable
from optitrack_vrpn.core.severity import ERROR, Severity
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.node.graph.conflicts_ros import (
    ConflictingPublishers, DuplicateNames, ForeignParents)
from optitrack_vrpn.node.receiver import TurnLock
from optitrack_vrpn.node.status import StatusReporter
from optitrack_vrpn.stream.bodies.settings import unmatched
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import TrackedBody
from rclpy.exceptions import InvalidHandle
from rclpy.lifecycle import LifecycleNode
from rclpy.node import Node

if TYPE_CHECKING:
    from optitrack_vrpn.node.publishers import Publishers


class AcceptServices:
    """
    Offer ``{body}/accept_pose`` (std_srvs/Trigger) for each body.

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
        self._changing = threading.Lock()
        self._closed = False
        #: Names of bodies whose pose the user has accepted, until their status is published.
        self.accepted: deque[str] = deque()

    def offer(self, channels: Sequence[TrackedBody]) -> None:
        """
        Create the services of bodies, without the lock: each takes milliseconds.

        :param channels: bodies that have no service.
        """
        for channel in channels:
            with self._changing:
                if self._closed:    # after a bug in its stop the ticker thread still runs
                    return
                self._offer(channel)

    def _offer(self, channel: TrackedBody) -> None:
        name = f'{channel.names.ros}/accept_pose'
        self._channels[name] = channel    # replaces that of a body that was deselected
        if name not in self._services:
            from std_srvs.srv import Trigger    # on this thread: the start does not wait
            self._services[name] = self._node.create_service(
                Trigger, name, lambda request, response: self._accept(name, response))
        channel.accept_service = self._node.resolve_service_name(name)

    def _accept(self, name: str, response: Any) -> Any:
        """Answer one request, on the executor thread."""
        with self._lock:
            channel = self._channels[name]
            selected = channel in self._pipeline.bodies
            jumped = channel.gate.state is State.JUMPED
            accepted = selected and channel.gate.accept_jump()
            state = channel.gate.state.value if selected else 'no longer selected'
        body = repr(printable(channel.names.motive))
        response.success = accepted
        if accepted:
            self.accepted.append(channel.names.motive)
            response.message = (f'body {body}: ' + (
                'the pose that it jumped to is published from the next frame on' if jumped else
                'its attitude, which time had accepted, is certain now'))
        else:
            response.message = f'body {body} is {state}: there is no jump to accept'
        self._node.get_logger().info(response.message)
        return response

    def close(self) -> None:
        """Destroy all services; call it on the executor thread, or while no executor spins."""
        with self._changing:
            self._closed = True
            while self._services:
                _, service = self._services.popitem()
                with contextlib.suppress(InvalidHandle):
                    self._node.destroy_service(service)
        with self._lock:
            for channel in self._channels.values():
                channel.accept_service = ''
            self._channels.clear()


class Supervision:
    """
    Create topics and services of bodies, detect silent bodies, log events, and report.

    :param node: the node; its name and topics are compared with those of other nodes.
    :param lock: guards pipeline and publishers.
    :param announce: takes the resolved names of all topics when they change.
    :param log: takes severity, text and a key.
    :param ticker_of: starts the ticker thread.
    """

    _pipeline: Pipeline
    _publishers: 'Publishers'
    _accept_services: AcceptServices

    def __init__(
        self, node: Node, lock: TurnLock, status: StatusReporter,
        announce: Callable[[Sequence[str]], None], log: Callable[[Severity, str, object], None],
        ticker_of: Callable[..., Worker[Any]] = Worker,
    ) -> None:
        self._node = node
        self._lock = lock
        self._status = status
        self._announce = announce
        self._log = log
        self._ticker_of = ticker_of
        self._found: deque[TrackedBody] = deque()
        self._ticker: Optional[Worker[Any]] = None
        self._clock = HostClock()
        now_ns = self._clock.now_ns()
        self._duplicate_names = DuplicateNames(node, now_ns)
        self._conflicts = ConflictingPublishers(node, now_ns)
        self._parents = ForeignParents(node)

    def discovered(self, channel: TrackedBody) -> None:
        """Queue a new body; on the client thread, which holds the lock."""
        self._found.append(channel)
        if self._ticker is not None:
            self._ticker.wake()

    def start(self, pipeline: Pipeline, publishers: 'Publishers') -> None:
        """Start the ticker thread."""
        self._pipeline = pipeline
        self._publishers = publishers
        self._accept_services = AcceptServices(self._node, self._lock, pipeline)
        # A timer of the node would cost more: before each wait rclpy's executors visit all
        # entities of a node, including the events of every publisher. At 10 Hz that takes more
        # processor time than the poses of several bodies, with the interpreter's lock held.
        # Chosen: period (s). New bodies wake the thread, so it only delays the detection of
        # silence.
        self._ticker = self._ticker_of(
            'ticker', self._failed, turn=self.tick, period_s=min(0.1, self._status.period_s))
        self._ticker.start()
        self._ticker.wake()    # the client may have found bodies already

    def stop(self) -> None:
        """
        Stop the thread and wait for its end; call it on the executor thread.

        The client must have stopped: bodies that still wait for their publishers get none.
        """
        self._found.clear()
        if self._ticker is not None:
            self._ticker.stop()

    def close_services(self) -> None:
        """Destroy services and readers, on the executor thread, also without ``stop``."""
        if self._ticker is not None:
            self._accept_services.close()
            self._parents.close()

    def _failed(self, error: Exception) -> bool:
        self._log(ERROR, f'bug in tick:\n{traceback.format_exc()}', 'tick')
        return True

    def tick(self) -> None:
        """Run all tasks once, on the ticker thread."""
        if self._found:
            self._create_publishers()
            with self._lock:
                self._announce(self._publishers.topics())
        now_ns = self._clock.now_ns()
        turn = self._conflicts.turn(now_ns)
        with self._lock:
            pipeline = self._pipeline
            pipeline.tick(now_ns)
            events = pipeline.take_events()
            changed = {change.body for change in pipeline.take_state_changes()}
            while self._accept_services.accepted:
                changed.add(self._accept_services.accepted.popleft())
            bodies = pipeline.bodies
            lacking = [channel for channel in bodies if not channel.accept_service]
            to_match = pipeline.roster.to_match(now_ns)
            self._publishers.listen()
            topics = [] if turn is None else self._publishers.pose_topics(turn)
        # First what users need to know: what follows may fail, in each tick.
        for event in events:
            self._log(event.severity, event.text, event.key)
        self._status.report(
            bodies, [body for body in bodies if body.names.motive in changed], now_ns)
        # Chosen: a few at a time, so that silence is detected meanwhile.
        self._accept_services.offer(lacking[:8])
        graph = self._status.graph
        if to_match:
            graph.unmatched = unmatched(*to_match)
        graph.same_name = self._duplicate_names.look(now_ns)
        if turn is not None:
            graph.sharing = self._conflicts.look(topics)
            of = len(self._publishers.outputs), self._publishers.settings, self._status.active
            self._parents.begin(self._frames, of, now_ns)
        graph.parents = self._parents.look(now_ns)

    def _frames(self) -> dict[str, str]:
        """Return the parent of each frame that is broadcast now."""
        with self._lock:
            return self._publishers.frames() if self._status.active else {}

    def _create_publishers(self) -> None:
        """
        Create the publishers of all queued bodies, which takes milliseconds each.

        The lock is not held meanwhile, so that the poses of other bodies do not wait.
        """
        while self._found:
            try:
                channel = self._found.popleft()
            except IndexError:    # ``stop`` has cleared the queue
                return
            try:
                output = self._publishers.prepare(channel)
                with self._lock:
                    if channel in self._pipeline.bodies:
                        self._publishers.attach(output)
                    else:
                        output.close()
            except Exception as error:
                # A topic that the middleware refuses must not affect the other bodies.
                name = channel.names.motive
                self._log(ERROR, f'body {printable(name)!r} cannot be published: {error}',
                          ('refused', name))
