# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The lifecycle node: wiring between parameters, the VRPN client, the pipeline and the publishers.

Three threads meet here. The executor's makes the transitions, answers for the parameters and makes
the diagnostics; the client's brings the poses and publishes them itself, so that no pose waits for
an executor; the ticker's makes the topics of new bodies and notices silence. ``_lock`` keeps
pipeline and publishers to one of them at a time. Whoever is done with a publisher, the executor's
thread destroys it (``disposal.py``).
"""

import functools
import threading
import traceback
from typing import Any, Callable, Optional, Sequence

from optitrack_vrpn import parameters
from optitrack_vrpn.bodies.selection import unmatched
from optitrack_vrpn.client.backend_io import Backend, make_backend
from optitrack_vrpn.client.link import LinkChange, LinkState
from optitrack_vrpn.client.link_log import LinkLog
from optitrack_vrpn.client.loss import LossWatch
from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.graph.conflicts_ros import Namesakes, Rivals
from optitrack_vrpn.mocap_control.participant_ros import ControlledLifecycleNode
from optitrack_vrpn.names import printable
from optitrack_vrpn.node.accept import AcceptServices
from optitrack_vrpn.node.configuration import make_settings, Settings
from optitrack_vrpn.node.diagnostics import Diagnostics
from optitrack_vrpn.node.publishers import Publishers
from optitrack_vrpn.node.report import (
    body_entry, clock_entry, Entry, frames_entry, Level, link_entry)
from optitrack_vrpn.pipeline.channel import Channel, how_to_accept, Sample
from optitrack_vrpn.pipeline.pipeline import Pipeline
from optitrack_vrpn.ros import parameter_server
from optitrack_vrpn.ros.disposal import Disposal
from optitrack_vrpn.ros.qos_advice import what_helps
from optitrack_vrpn.ros.ticker_io import Ticker
from optitrack_vrpn.stats import Window
from optitrack_vrpn.vrpn.messages import Event
from rcl_interfaces.msg import SetParametersResult
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.parameter import Parameter

_TICK_S = 0.1
#: One batch of so many is timed: enough for percentiles, too few to be felt.
_TIMED = 16


def guarded(
    transition: Callable[['OptitrackVrpnNode', LifecycleState], TransitionCallbackReturn],
) -> Callable[['OptitrackVrpnNode', LifecycleState], TransitionCallbackReturn]:
    """
    Log an error of this package's own in a transition, which is then a FAILURE.

    The node stays where it was. Anything else is a bug: the base class logs it and makes it an
    ERROR, after which the node cleans up in ``on_error``.
    """
    @functools.wraps(transition)
    def wrapper(self: 'OptitrackVrpnNode', state: LifecycleState) -> TransitionCallbackReturn:
        name = transition.__name__[len('on_'):]
        try:
            return transition(self, state)
        except OptitrackVrpnError as error:
            for line in str(error).splitlines():
                self.get_logger().error(f'cannot {name}: {line}')
            return TransitionCallbackReturn.FAILURE
    return wrapper


def surviving(callback: Callable[['OptitrackVrpnNode'], None],
              ) -> Callable[['OptitrackVrpnNode'], None]:
    """Log what a callback raises: it would end its thread, or the executor the process."""
    @functools.wraps(callback)
    def wrapper(self: 'OptitrackVrpnNode') -> None:
        try:
            callback(self)
        except Exception:
            self._log('error', f'a bug in {callback.__name__}:\n{traceback.format_exc()}',
                      callback.__name__)
    return wrapper


class OptitrackVrpnNode(ControlledLifecycleNode):
    """
    Bring a Motive's bodies into ROS 2.

    Configure reads the parameters and starts to connect, activate publishes, deactivate stops
    publishing and keeps listening, cleanup and shutdown release every socket and thread.

    :param node_name: its name before any remapping.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str = 'optitrack_vrpn', **kwargs: Any) -> None:
        super().__init__(node_name, allow_undeclared_parameters=True, **kwargs)
        self._lock = threading.Lock()
        self._active = False
        self._configured = False
        self._settings: Optional[Settings] = None
        self._pipeline: Optional[Pipeline] = None
        self._output: Optional[Publishers] = None
        self._backend: Optional[Backend] = None
        self._ticker: Optional[Ticker] = None
        self._namesakes: Optional[Namesakes] = None
        self._rivals: Optional[Rivals] = None
        self._newcomers: list[Channel] = []
        self._disposal = Disposal(self)
        self._diagnostics = Diagnostics(self, self._diagnose)
        self._accept_services = AcceptServices(self, self._lock)
        self._work = Window()
        self._latencies = Window()
        self._waits = Window()
        self._batches = 0
        self._link_log = LinkLog()
        self._loss = LossWatch()
        self._clock_reader = HostClock()
        self._unknown = parameter_server.declare(self)
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self._warn_of_what_configure_will_refuse()
        self._autostart_timer: Any = None
        if self.get_parameter('autostart').value is True:
            self._autostart_timer = self.create_timer(0.0, self._autostart)
        else:
            self.get_logger().info(
                'unconfigured; bring it up with ros2 lifecycle set '
                f'{self.get_fully_qualified_name()} configure, then activate, or set the '
                'parameter autostart')

    def _warn_of_what_configure_will_refuse(self) -> None:
        """Log what is wrong with the parameters at once, not only when somebody configures."""
        strange = [name for name in self._unknown if parameters.foreign(name)]
        if strange:
            self.get_logger().warning(
                f'ignored, since no parameter of this node resembles them: {", ".join(strange)}')
        if self.get_parameter('autostart').value is True:
            return    # configure comes at once, and says the same
        try:
            self._check_parameters()
        except ConfigurationError as error:
            for line in str(error).splitlines():
                self.get_logger().error(line)

    def _check_parameters(self) -> Settings:
        """
        Read and check all parameters.

        :raises ConfigurationError: if one is unknown or not allowed.
        """
        wrong = [
            parameters.unknown(name) for name in self._unknown if not parameters.foreign(name)]
        settings = None
        try:
            parameter_server.refuse_simulated_time(self)
        except ConfigurationError as error:
            wrong.append(str(error))
        try:
            settings = make_settings(parameter_server.values(self))
        except ConfigurationError as error:
            wrong.append(str(error))
        if settings is None or wrong:
            raise ConfigurationError('\n'.join(wrong))
        return settings

    # -- transitions ---------------------------------------------------------------------------

    @guarded
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, and start to look for the server."""
        settings = self._check_parameters()
        try:
            self._acquire(settings)
        except OptitrackVrpnError:
            self._release()    # FAILURE leaves a node that has nothing
            raise
        return super().on_configure(state)

    def _acquire(self, settings: Settings) -> None:
        """Make publishers, timers and the client, and start the latter."""
        self._backend = make_backend(settings.client, self)
        with self._lock:
            self._settings = settings
            self._output = Publishers(
                self, settings.publish, self._qos_mismatch, self._disposal.add)
            self._pipeline = Pipeline(settings.pipeline, self._discovered)
            self._configured = True
        self._loss = LossWatch()
        self._diagnostics.open(f'{settings.client.server}:{settings.client.port}')
        self._announce()
        self._namesakes = Namesakes(self, self._clock_reader.now_ns())
        self._rivals = Rivals(self, self._clock_reader.now_ns())
        self._ticker = Ticker(_TICK_S, self._tick)
        self._backend.start()

    @guarded
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish from now on."""
        with self._lock:
            assert self._output is not None
            self._output.listen()
            self._output.send_static()
            self._active = True
        return super().on_activate(state)

    @guarded
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish nothing more; keep listening."""
        with self._lock:
            self._active = False
        return super().on_deactivate(state)

    @guarded
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release sockets, threads and publishers."""
        self._release()
        return super().on_cleanup(state)

    @guarded
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release sockets, threads and publishers, for good."""
        self._release()
        return super().on_shutdown(state)

    @guarded
    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Go back to unconfigured after a bug in a transition."""
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """Release everything, whatever the state."""
        self._release()
        super().destroy_node()

    def _release(self) -> None:
        with self._lock:
            self._active = self._configured = False
        if self._backend is not None:
            self._backend.stop()
            self._backend = None
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        self._diagnostics.close()
        self._accept_services.close()
        with self._lock:
            if self._output is not None:
                self._output.close()
            self._output = self._pipeline = self._settings = None
            self._newcomers.clear()
        self._disposal.work_off()

    def _autostart(self) -> None:
        self.destroy_timer(self._autostart_timer)
        self._autostart_timer = None
        try:
            if self.trigger_configure() is not TransitionCallbackReturn.SUCCESS:
                self.get_logger().error(
                    'autostart ends here: configure failed; put right what is said above and '
                    'start the node again, or set it with ros2 param set and configure with ros2 '
                    f'lifecycle set {self.get_fully_qualified_name()} configure')
            elif self.get_parameter('activate').value is True and (
                    self.trigger_activate() is not TransitionCallbackReturn.SUCCESS):
                self.get_logger().error(
                    f'autostart ends here: activate failed; the node is {self.lifecycle_label}')
        except Exception as error:
            # Somebody was quicker: the state that this began from has been left.
            self.get_logger().warning(f'autostart ends here: {error}')

    # -- the client's thread -------------------------------------------------------------------

    def receive(
        self, events: Sequence[Event], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Take events from the client and publish what is worth it, from its thread."""
        try:
            with self._lock:
                if self._pipeline is None or self._output is None:
                    return
                now_ns = self._clock_reader.now_ns()
                samples = self._pipeline.process(
                    events, arrival_ns, host_minus_arrival_ns, now_ns)
                if not self._active:
                    for sample in samples:
                        sample.channel.unsent += 1
                elif samples or self._pipeline.server_motions:
                    self._output.publish(
                        samples, self._pipeline.server_motions, self._clock_reader.now_ns,
                        self._pipeline.max_age_ns - host_minus_arrival_ns)
                    self._batches += 1
                    if not self._batches % _TIMED:
                        self._time(samples, arrival_ns, host_minus_arrival_ns, now_ns)
        except Exception:
            # The thread must live on: the next frame may be sound.
            self._log('error', f'a frame was lost to a bug:\n{traceback.format_exc()}',
                      'frame lost')

    def _time(
        self, samples: Sequence[Sample], arrival_ns: int, host_minus_arrival_ns: int,
        begun_ns: int,
    ) -> None:
        """Note how long a batch took that has just been published."""
        done_ns = self._clock_reader.now_ns()
        self._waits.add((begun_ns - arrival_ns) * 1e-9)
        self._work.add((done_ns - begun_ns) * 1e-9)
        if self._settings is not None and self._settings.pipeline.stamps.mode == 'sender':
            return    # the stamps are on the sender's clock
        for sample in samples:
            latency = (done_ns + host_minus_arrival_ns - sample.stamp_ns) * 1e-9
            self._latencies.add(latency)
            sample.channel.latency.add(latency)

    def link_changed(self, change: LinkChange) -> None:
        """Log where the connection stands, from the client's thread."""
        if change.state is LinkState.CONNECTED:
            with self._lock:
                if self._pipeline is not None:
                    self._pipeline.reconnected()
        if self._link_log.allow(change):
            state = change.state.value
            self._log(change.severity, state if change.reason == state else
                      f'{state}: {change.reason}', ('link', change.now_ns))

    def _discovered(self, channel: Channel) -> None:
        """Leave a new body to the ticker's thread, so that the others' poses need not wait."""
        self._newcomers.append(channel)
        if self._ticker is not None:
            self._ticker.hurry()

    def _announce(self) -> None:
        """Let mocap control know which topics there are."""
        if self._output is not None:
            self.set_info_topics(self._output.topics())

    # -- the ticker's thread -------------------------------------------------------------------

    def _welcome(self) -> None:
        """Make the topics of new bodies, which takes milliseconds each, with the lock free."""
        if not self._newcomers:
            return
        while self._newcomers:
            with self._lock:
                channel, publishers = self._newcomers.pop(0), self._output
            if publishers is None:
                continue
            try:
                output = publishers.prepare(channel)
                with self._lock:
                    if self._pipeline is not None and channel in self._pipeline.bodies:
                        publishers.adopt(output)
                    else:
                        output.close()
            except Exception as error:
                # A topic that the middleware refuses must not cost the other bodies their frames.
                name = channel.names.motive
                self._log('error', f'body {printable(name)!r} cannot be published: {error}',
                          ('refused', name))
        with self._lock:
            self._announce()

    @surviving
    def _tick(self) -> None:
        """Welcome new bodies, notice silent ones, and say what there is to say."""
        self._welcome()
        with self._lock:
            if self._pipeline is None:
                return
            now_ns = self._clock_reader.now_ns()
            self._pipeline.tick(now_ns)
            notices = self._pipeline.take_notices()
            changes = self._pipeline.take_state_changes()
            held = [channel for channel in self._pipeline.bodies
                    if channel.truth.held and not channel.accept_service]
            to_match = self._pipeline.to_match(now_ns)
            topics: list[str] = []
            if self._output is not None:
                self._output.listen()
                if self._rivals is not None and (turn := self._rivals.turn(now_ns)) is not None:
                    topics = self._output.pose_topics(turn)
            changed = {change.body for change in changes}
            channels = [channel for channel in self._pipeline.bodies
                        if channel.names.motive in changed] if changed else []
        self._accept_services.offer(held)
        self._publish_status(channels, now_ns)
        for notice in notices:
            self._log(notice.severity, notice.text, notice.key)
        for line in unmatched(*to_match) if to_match else ():
            self._log('warn', line, line)
        namesakes = self._namesakes.look(now_ns) if self._namesakes is not None else ''
        if namesakes:
            self._log('warn', namesakes, 'namesakes')
        for line in self._rivals.look(topics) if self._rivals is not None else ():
            self._log('warn', line, line)

    # -- the executor's thread -----------------------------------------------------------------

    def _diagnose(self) -> list[Entry]:
        """Sum up what is known of connection, clock and bodies, for /diagnostics."""
        try:
            return self._entries()
        except Exception:
            self._log('error', f'a bug in the diagnostics:\n{traceback.format_exc()}', 'diagnose')
            return []

    def _entries(self) -> list[Entry]:
        if self._backend is None:
            return []
        link = self._backend.status()
        now_ns = self._clock_reader.now_ns()
        remark = self._loss.look(link.counters, link.queue.get('dropped_unread', 0), now_ns)
        if remark is not None:
            self._log(*remark, ('loss', now_ns))
        entries: list[Entry] = [link_entry(link.state, link.reason, {
            'way': link.way, 'server': link.server, 'local': link.local,
            'state_since_s': f'{(now_ns - link.since_ns) / 1e9:.1f}',
            'sessions': link.sessions, 'failed_attempts': link.failures,
            'strangers_refused': link.strangers, **link.queue}, link.counters,
            self._loss)]
        with self._lock:
            if self._pipeline is None:
                return []
            entries.append(clock_entry(self._pipeline.stamps.status()))
            entries.append(frames_entry(
                self._work.percentiles(), self._latencies.percentiles(),
                self._waits.percentiles(), self._pipeline.dropped,
                self._pipeline.config.keep_up and self._pipeline.backlog.thinning))
            channels = self._pipeline.bodies
        return entries + self._publish_status(channels, now_ns)

    def _publish_status(
        self, channels: Sequence[Channel], now_ns: int,
    ) -> list[Entry]:
        """
        Publish the state of bodies on their own topics.

        The lock is taken body by body, so that no pose waits for a hundred messages. The topics
        are latched, so they are published without subscribers too.
        """
        entries: list[Entry] = []
        fastest_hz: Optional[float] = None
        host_minus_arrival_ns = self._clock_reader.host_minus_arrival_ns()
        for channel in channels:
            with self._lock:
                pipeline, settings, output = self._pipeline, self._settings, self._output
                if pipeline is None or settings is None or output is None:
                    break
                if fastest_hz is None:
                    fastest_hz = max(
                        (body.truth.rate_hz for body in pipeline.bodies), default=0.0)
                entry = body_entry(
                    channel.names.ros, channel.truth.status(now_ns), channel.too_old,
                    host_minus_arrival_ns, channel.estimator.lowpass_delay_s,
                    settings.expected_rate_hz, fastest_hz, channel.latency.percentiles(),
                    channel.published, channel.not_rising + channel.outdone, channel.choked,
                    channel.left_out, how_to_accept(channel) if channel.truth.held else '')
                if output.status_wanted(channel):
                    output.publish_status(channel, self._diagnostics.status(entry))
            entries.append(entry)
        return entries

    def _take_leave(self, channels: Sequence[Channel]) -> None:
        """Let whoever watches the state of bodies know that no more will come."""
        assert self._output is not None
        for channel in channels:
            if self._output.status_wanted(channel):
                self._output.publish_status(channel, self._diagnostics.status(Entry(
                    channel.names.ros, Level.STALE, 'not followed any more', {})))

    def _qos_mismatch(self, topic: str, policy: int) -> None:
        preset = self.get_parameter('qos.preset').value
        self._log('warn', what_helps(topic, policy, preset), ('qos', topic, policy))

    def _on_set_parameters(self, changed: list[Parameter]) -> SetParametersResult:
        try:
            self._apply({parameter.name: parameter.value for parameter in changed})
        except ConfigurationError as error:
            return SetParametersResult(successful=False, reason=str(error))
        except Exception as error:
            self._log('error', f'a bug in a parameter:\n{traceback.format_exc()}', 'parameter')
            return SetParametersResult(successful=False, reason=f'a bug: {error!r}')
        return SetParametersResult(successful=True)

    def _apply(self, changed: dict[str, Any]) -> None:
        """
        Check parameters that somebody sets, and apply those that may change now.

        :raises ConfigurationError: if one is wrong or fixed; nothing is applied then.
        """
        parameter_server.check_change(changed, self._configured)
        if not self._configured:
            return
        values = {**parameter_server.values(self), **changed}
        settings = make_settings({
            name: value for name, value in values.items()
            if not parameter_server.is_of_others(name)
            and (value is not None or name in parameters.BY_NAME)})
        with self._lock:
            if self._pipeline is None or self._output is None:
                return
            before = self._pipeline.bodies
            self._pipeline.reconfigure(settings.pipeline)
            after = self._pipeline.bodies
            self._take_leave([channel for channel in before if channel not in after])
            self._output.retain(after)
            if settings.publish != self._output.config:
                self._output.reconfigure(settings.publish)
                if self._active:
                    self._output.send_static()
            self._announce()    # bodies may be gone, or topics gone or new
            self._settings = settings
