# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The lifecycle node: wiring between parameters, the VRPN client, the pipeline and the publishers.

It has three threads. The executor's makes the transitions, handles the parameters and publishes
the diagnostics. The client's receives poses and publishes them itself, so that no pose waits for
an executor. The ticker's creates the topics of new bodies and notices silence
(``supervision.py``). ``_lock`` lets one of them at a time use pipeline and publishers. Publishers
are destroyed on the executor's thread, whichever thread retires them.
"""

import threading
import traceback
from typing import Any, Optional, Sequence

from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.client.backend_io import Backend
from optitrack_vrpn.client.link import LinkChange, LinkState
from optitrack_vrpn.client.link_log import LinkLog
from optitrack_vrpn.clock.hostclock_io import HostClock
from optitrack_vrpn.errors import OptitrackVrpnError
from optitrack_vrpn.mocap_control.participant_ros import ControlledLifecycleNode
from optitrack_vrpn.mocap_control.protocol import Command
from optitrack_vrpn.natnet.choice_io import make_backend
from optitrack_vrpn.natnet.recording import Recorder
from optitrack_vrpn.node.accept import AcceptServices
from optitrack_vrpn.node.callbacks import failure_on_error, log_exceptions
from optitrack_vrpn.node.configuration import Configuration
from optitrack_vrpn.node.discovery import Discovery
from optitrack_vrpn.node.parameters import NodeParameters
from optitrack_vrpn.node.publishers import Publishers
from optitrack_vrpn.node.status import StatusReporter
from optitrack_vrpn.node.supervision import PERIOD_S, Supervision
from optitrack_vrpn.node.swarm import check_installed
from optitrack_vrpn.pipeline.pipeline import Pipeline
from optitrack_vrpn.ros.deferred_destruction import DeferredDestruction
from optitrack_vrpn.ros.qos_advice import what_helps
from optitrack_vrpn.ros.ticker_io import Ticker
from optitrack_vrpn.vrpn.messages import Event
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn


class OptitrackVrpnNode(ControlledLifecycleNode):
    """
    Bring the bodies of a Motive into ROS 2.

    Configure reads the parameters and starts to connect, activate publishes, deactivate stops
    publishing and keeps listening, cleanup and shutdown release every socket and thread.

    :param node_name: its name before any remapping.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(self, node_name: str = 'optitrack_vrpn', **kwargs: Any) -> None:
        super().__init__(node_name, allow_undeclared_parameters=True, **kwargs)
        self._lock = threading.Lock()
        self._active = False
        self._pipeline: Optional[Pipeline] = None
        self._output: Optional[Publishers] = None
        self._configuration: Optional[Configuration] = None
        self._backend: Optional[Backend] = None
        self._ticker: Optional[Ticker] = None
        self._clock_reader = HostClock()
        self._link_log = LinkLog()
        self._retired = DeferredDestruction(self)
        self._status = StatusReporter(self, self._lock, self._log)
        self._accept_services = AcceptServices(self, self._lock)
        self._node_parameters = NodeParameters(
            self, lambda: self._pipeline is not None, self._reconfigure)
        self._autostart_timer: Any = None
        if self.get_parameter('autostart').value is True:
            self._autostart_timer = self.create_timer(0.0, self._autostart)
        else:
            self._node_parameters.log_errors()
            self.get_logger().info(
                'unconfigured; bring it up with ros2 lifecycle set '
                f'{self.get_fully_qualified_name()} configure, then activate, or set the '
                'parameter autostart')

    @property
    def configuration(self) -> Optional[Configuration]:
        """Give the configuration in use; None while the node is unconfigured."""
        return self._configuration

    # -- transitions ---------------------------------------------------------------------------

    @failure_on_error
    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Read and check the parameters, and start to look for the server."""
        configuration = self._node_parameters.read()
        try:
            self._acquire(configuration)
        except OptitrackVrpnError:
            self._release()    # FAILURE leaves a node that has nothing
            raise
        return super().on_configure(state)

    def _acquire(self, configuration: Configuration) -> None:
        """Create publishers, timers and the client, and start the client."""
        check_installed(configuration.publish.outputs)
        backend = self._backend = make_backend(
            configuration.protocol, configuration.client, configuration.natnet, self,
            configuration.pipeline.axes.up_axis)
        discovery = Discovery(self._lock, self._wake, self._log)
        with self._lock:
            output = self._output = Publishers(
                self, configuration.publish, self._qos_mismatch, self._retired.add)
            pipeline = self._pipeline = Pipeline(configuration.pipeline, discovery.add)
            self._status.configure(configuration, backend, pipeline, output)
            self._configuration = configuration
        self._status.open()
        self.set_info_topics(output.topics())
        supervision = Supervision(
            self, self._lock, pipeline, output, discovery, self._status, self._accept_services,
            self.set_info_topics, self._log)
        self._ticker = Ticker(PERIOD_S, log_exceptions(self._log, supervision.tick))
        backend.start()

    @failure_on_error
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish from now on."""
        with self._lock:
            assert self._output is not None
            self._output.listen()
            self._output.send_static()
            self._active = True
        return super().on_activate(state)

    @failure_on_error
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Publish nothing more; keep listening."""
        with self._lock:
            self._active = False
        return super().on_deactivate(state)

    @failure_on_error
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release sockets, threads and publishers."""
        self._release()
        return super().on_cleanup(state)

    @failure_on_error
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release sockets, threads and publishers, for good."""
        self._release()
        return super().on_shutdown(state)

    @failure_on_error
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
            self._active = False
        if self._backend is not None:
            self._backend.stop()
            self._backend = None
        if self._ticker is not None:
            self._ticker.stop()
            self._ticker = None
        self._status.stop()
        self._accept_services.close()
        with self._lock:
            self._status.close()
            if self._output is not None:
                self._output.close()
            self._output = self._pipeline = self._configuration = None
        self._retired.run()

    def _autostart(self) -> None:
        self.destroy_timer(self._autostart_timer)
        self._autostart_timer = None
        try:
            if self.trigger_configure() is not TransitionCallbackReturn.SUCCESS:
                self.get_logger().error(
                    'autostart stops: configure failed; correct the errors above and '
                    'start the node again, or set it with ros2 param set and configure with ros2 '
                    f'lifecycle set {self.get_fully_qualified_name()} configure')
            elif self.get_parameter('activate').value is True and (
                    self.trigger_activate() is not TransitionCallbackReturn.SUCCESS):
                self.get_logger().error(
                    f'autostart stops: activate failed; the node is {self.lifecycle_label}')
        except Exception as error:
            # Another client made a transition meanwhile.
            self.get_logger().warning(f'autostart stops: {error}')

    # -- the client's thread -------------------------------------------------------------------

    def receive(
        self, events: Sequence[Event], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Take events from the client and publish the resulting poses, on its thread."""
        try:
            with self._lock:
                if self._pipeline is None or self._output is None:
                    return
                now_ns = self._clock_reader.now_ns()
                samples = self._pipeline.process(
                    events, arrival_ns, host_minus_arrival_ns, now_ns)
                if not self._active:
                    for sample in samples:
                        sample.channel.dropped[Disposition.INACTIVE] += 1
                    return
                if self._pipeline.markers is not None:
                    self._output.publish_markers(self._pipeline.markers)
                    self._pipeline.markers = None
                if samples or self._pipeline.server_motions:
                    self._output.publish(
                        samples, self._pipeline.server_motions, self._clock_reader.now_ns,
                        self._pipeline.max_age_ns - host_minus_arrival_ns)
                    if self._status.latency.due():
                        self._status.latency.add(
                            samples if self._pipeline.config.stamps.mode != 'sender' else (),
                            arrival_ns, host_minus_arrival_ns, now_ns,
                            self._clock_reader.now_ns())
        except Exception:
            # The thread must go on: the next frame may be sound.
            self._log('error', f'a frame was lost to a bug:\n{traceback.format_exc()}',
                      'frame lost')

    def link_changed(self, change: LinkChange) -> None:
        """Log a change of the connection, on the client's thread."""
        if change.state is LinkState.CONNECTED:
            with self._lock:
                if self._pipeline is not None:
                    self._pipeline.reconnected()
        if self._link_log.allow(change):
            state = change.state.value
            self._log(change.severity, state if change.reason == state else
                      f'{state}: {change.reason}', ('link', change.now_ns))

    # -- recording in Motive -------------------------------------------------------------------

    def control_start(self, msg: Command) -> None:
        """Start a recording in Motive, where that is wanted, under the id of the session."""
        recorder = self._recorder()
        if recorder is not None:
            recorder.record(msg.session_id)

    def control_stop(self, msg: Command) -> None:
        """Stop the recording in Motive, where that is wanted."""
        recorder = self._recorder()
        if recorder is not None:
            recorder.stop_recording()

    def _recorder(self) -> Optional[Recorder]:
        """Give what records in Motive; None where that is not wanted."""
        configuration = self._configuration
        backend: object = self._backend
        if configuration is None or not configuration.natnet.record:
            return None
        if isinstance(backend, Recorder):
            return backend
        self._log('error', 'natnet.record needs protocol natnet or auto: VRPN has no command for '
                  'it', 'natnet.record')
        return None

    def _wake(self) -> None:
        """Let the ticker's thread run at once."""
        if self._ticker is not None:
            self._ticker.wake()

    # -- the executor's thread -----------------------------------------------------------------

    def _qos_mismatch(self, topic: str, policy: int) -> None:
        self._log('warn', what_helps(topic, policy), ('qos', topic, policy))

    def _reconfigure(self, configuration: Configuration) -> None:
        """
        Apply a change of parameters.

        :raises BackendUnavailableError: if the messages of an output are not installed.
        """
        check_installed(configuration.publish.outputs)
        with self._lock:
            if self._pipeline is None or self._output is None or self._backend is None:
                return
            before = self._pipeline.bodies
            self._pipeline.reconfigure(configuration.pipeline)
            after = self._pipeline.bodies
            self._status.retire([channel for channel in before if channel not in after])
            self._output.retain(after)
            if configuration.publish != self._output.config:
                self._output.reconfigure(configuration.publish)
                if self._active:
                    self._output.send_static()
            self.set_info_topics(self._output.topics())    # bodies or topics may have changed
            self._status.configure(configuration, self._backend, self._pipeline, self._output)
            self._configuration = configuration
