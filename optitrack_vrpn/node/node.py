# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The lifecycle node: wiring between parameters, the VRPN client, the pipeline and the publishers.

Three threads: the executor thread makes transitions and handles parameters; the client thread
receives poses and publishes them itself, so that no pose waits for an executor (``receiver.py``);
the ticker thread creates topics, detects silence and publishes diagnostics (``supervision.py``).
``_lock`` guards pipeline and publishers. Publishers are destroyed on the executor thread,
whichever thread retires them.
"""

import contextlib
from dataclasses import replace
from operator import attrgetter
from typing import Any, Callable, Optional, Sequence, TYPE_CHECKING

from optitrack_vrpn.control.armed_ros import ArmedListener
from optitrack_vrpn.control.participant_ros import MocapControl
from optitrack_vrpn.control.protocol import Command, Kind
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.events import Event as UserEvent
from optitrack_vrpn.core.severity import ERROR, INFO, WARN
from optitrack_vrpn.core.worker_io import Worker
from optitrack_vrpn.drivers.driver import Source
from optitrack_vrpn.drivers.link import LinkState
from optitrack_vrpn.drivers.table import lacking, make_source, recording_wanted, RecordingSource
from optitrack_vrpn.node.base.managed_node import ManagedNode
from optitrack_vrpn.node.base.node_parts import DeferredDestruction
from optitrack_vrpn.node.configuration import CHANGING, Configuration, NodeParameters
from optitrack_vrpn.node.graph.conflicts_ros import describe_mismatch
from optitrack_vrpn.node.receiver import Receiver, TurnLock
from optitrack_vrpn.node.settings import NodeSettings
from optitrack_vrpn.node.status import StatusReporter
from optitrack_vrpn.node.supervision import Supervision
from optitrack_vrpn.stream.clock.hostclock_io import HostClock
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import TrackedBody

if TYPE_CHECKING:
    from optitrack_vrpn.node.publishers import Publishers

#: The settings of the publishers that can change while the node is configured.
OUTPUTS_OF = attrgetter('outputs', 'rates', 'body_rates')


class OptitrackVrpnNode(ManagedNode):
    """
    Publish the rigid bodies of Motive in ROS 2.

    Configure reads the parameters and starts to connect, activate starts to publish, deactivate
    stops publishing but keeps receiving, cleanup and shutdown release all sockets and threads.

    :param node_name: name before remapping.
    :param source_of: makes the source of the protocol, see ``make_source``.
    :param pipeline_of: makes a pipeline, likewise.
    :param ticker_of: starts a thread, likewise.
    :param kwargs: passed to rclpy's node.
    """

    def __init__(
        self, node_name: str = 'optitrack_vrpn', *,
        source_of: Callable[..., Source] = make_source,
        pipeline_of: Callable[..., Pipeline] = Pipeline,
        ticker_of: Callable[..., Worker[Any]] = Worker, **kwargs: Any,
    ) -> None:
        self._source_of, self._pipeline_of, self._ticker_of = source_of, pipeline_of, ticker_of
        super().__init__(node_name, allow_undeclared_parameters=True, **kwargs)
        self.mocap_control = MocapControl(
            self, on_start=self._start_recording, on_stop=self._stop_recording,
            refusal=self._refuse_command)
        self._armed = ArmedListener(self)
        self._lock = TurnLock()
        self._configuration: Optional[Configuration] = None
        self._backend: Optional[Source] = None
        self._supervision: Optional[Supervision] = None
        self._clock_reader = HostClock()
        self._retired = DeferredDestruction(self)
        self._status = StatusReporter(self, self._lock, self._log)
        self._path = Receiver(
            self._lock, self._clock_reader.now_ns, self._status.measure,
            lambda error: self._log(ERROR, f'bug: a frame was lost:\n{error}', 'frame'))
        #: Processes events and publishes the resulting poses, on the client thread.
        self.receive = self._path.receive
        self._node_parameters = NodeParameters(self, self._apply)
        if self.get_parameter('autostart').value is not True:
            self._node_parameters.log_errors()
        self.start_by_parameters()

    @property
    def configuration(self) -> Optional[Configuration]:
        """Return the configuration in use; None while the node is unconfigured."""
        return self._configuration

    # -- transitions ---------------------------------------------------------------------------

    def acquire(self) -> None:
        """Read and check the parameters; create publishers and the client, and start both."""
        configuration = self._node_parameters.read()
        settings = configuration.settings
        backend = self._source_of(
            settings.protocol, settings.client, settings.sources, self, configuration.source)
        self._backend = backend
        self._log.repetition.restart()    # the first lines of each configuration are logged
        supervision = self._supervision = Supervision(
            self, self._lock, self._status, self.mocap_control.set_info_topics, self._log,
            self._ticker_of)
        with self._lock:
            pipeline = self._path.pipeline = self._pipeline_of(
                configuration.pipeline, supervision.discovered)
            # Nothing proves yet that frames are fresh, however the source connects.
            pipeline.reconnected()
            self._configuration = configuration
        # The client connects and observes the first frames while the messages with numpy are
        # imported and the publishers are created; poses are published when the node is active.
        backend.start()
        from optitrack_vrpn.node.publishers import Publishers
        with self._lock:
            output = self._path.publishers = Publishers(
                self, settings, lambda topic, policy: self._log(
                    WARN, describe_mismatch(topic, policy), ('qos', topic, policy)),
                self._retired.add)
            self._status.observe(self, backend, pipeline, output)
        self._status.open()
        self.mocap_control.set_info_topics(output.topics())
        supervision.start(pipeline, output)

    def begin(self) -> None:
        """Publish from now on."""
        with self._lock:
            assert self._path.publishers is not None
            self._path.publishers.listen()
            self._path.publishers.send_static()
            self._path.active = self._status.active = True

    def end(self) -> None:
        """Publish nothing more; keep listening."""
        with self._lock:
            self._path.active = self._status.active = False

    def release(self) -> None:
        """Release sockets, threads and publishers; each of them also after a bug in another."""
        with contextlib.ExitStack() as steps:    # the last one first
            steps.callback(self._retired.run)
            steps.callback(self._close_publishers)
            if self._supervision is not None:
                steps.callback(self._supervision.close_services)
                steps.callback(self._supervision.stop)
            if self._backend is not None:
                steps.callback(self._backend.stop)
            self._supervision = self._backend = None

    def _close_publishers(self) -> None:
        with self._lock, contextlib.ExitStack() as steps:
            pipeline, output = self._path.pipeline, self._path.publishers
            self._path.publishers = self._path.pipeline = self._configuration = None
            steps.callback(self._status.close)
            if output is not None:
                steps.callback(output.close)
            if pipeline is not None and output is not None:
                with contextlib.suppress(RuntimeError):    # ROS has shut down
                    self._status.retire(pipeline.bodies, 'the node does not receive')

    # -- the client thread ---------------------------------------------------------------------

    def link_changed(self, change: UserEvent) -> None:
        """Log a change of the connection, on the client thread."""
        if change.data is LinkState.CONNECTED:
            with self._lock:
                if self._path.pipeline is not None:
                    self._path.pipeline.reconnected()
        now_ns = self._clock_reader.now_ns()
        state: LinkState = change.data
        if self._log.repetition.outage(
                state, change.text, now_ns, change.severity != INFO,
                state is LinkState.CONNECTED, state is LinkState.STREAMING):
            self._log(change.severity, state.value if change.text == state.value else
                      f'{state.value}: {change.text}', (change.key, now_ns))

    def _refuse_command(self, msg: Command) -> str:
        """Refuse STOP while a vehicle flies by poses, as its bridge reports."""
        return self._armed.refusal if msg.kind is Kind.STOP else ''

    def _start_recording(self, msg: Command) -> None:
        """Start a recording in Motive with the id of the session, if a source is to record."""
        if recorder := self._recorder():
            recorder.record(msg.session_id)

    def _stop_recording(self, msg: Command) -> None:
        """Stop the recording in Motive, if a source is to record."""
        if recorder := self._recorder():
            recorder.stop_recording()

    def _recorder(self) -> Optional[RecordingSource]:
        if self._configuration is None:
            return None
        settings = self._configuration.settings
        name = recording_wanted(settings.sources)
        if not name:
            return None
        backend: object = self._backend
        if isinstance(backend, RecordingSource):
            return backend
        self._log(ERROR, f'{name} needs protocol {lacking(settings.protocol, "recording")}: '
                  f'{settings.protocol} has no recording command', name)
        return None

    # -- the executor thread -------------------------------------------------------------------

    def _apply(self, configuration: Configuration) -> None:
        """
        Apply a change of parameters, or nothing of it.

        :raises ConfigurationError: during a transition.
        """
        with self._lock:
            pipeline, output, before = self._path.pipeline, self._path.publishers, (
                self._configuration)
            if before is None or pipeline is None or output is None:
                # Set by another thread than the executor's, or by a callback of a transition.
                raise ConfigurationError(CHANGING)
            settings, present = configuration.settings, output.settings
            changed = OUTPUTS_OF(settings) != OUTPUTS_OF(present)
            if changed:
                # New topics first: the middleware can refuse one, and then nothing has changed.
                output.apply(replace(settings, outputs=(*settings.outputs, *present.outputs)))
            gone = pipeline.apply(configuration.pipeline)
            self._configuration = configuration
            if changed or gone:
                self._end_outputs(settings, gone, pipeline, output)

    def _end_outputs(
        self, settings: NodeSettings, gone: Sequence[TrackedBody], pipeline: Pipeline,
        output: 'Publishers',
    ) -> None:
        """End the topics of bodies and outputs that are no longer selected, with the lock held."""
        self._status.retire(gone, 'no longer selected')
        if 'status' not in settings.outputs:
            self._status.retire(pipeline.bodies, 'outputs no longer contain status')
        output.retain(pipeline.bodies)
        if output.settings is not settings:
            output.apply(settings)
            if self._path.active:
                output.send_static()
        self.mocap_control.set_info_topics(output.topics())
