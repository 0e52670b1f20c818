# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The recorder: a lifecycle node that records while it is active; mocap control can start it."""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from itertools import chain
import os
from pathlib import Path
import platform
import time
from typing import Any, NamedTuple, Optional

from optitrack_vrpn import __version__
from optitrack_vrpn.control.participant_ros import ControlledLifecycleNode
from optitrack_vrpn.control.protocol import ControlConfig
from optitrack_vrpn.core.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.core.names import counted, printable
from optitrack_vrpn.core.severity import ERROR
from optitrack_vrpn.node.base.process import run
from optitrack_vrpn.node.graph.processes import without_shared_memory
from optitrack_vrpn.node.graph.processes_io import local_nodes
from optitrack_vrpn.stream.clock.difference import difference_ns
from optitrack_vrpn.takes.mcap_format import Message
from optitrack_vrpn.takes.record.bag_io import BagWriter, NewTopic
from optitrack_vrpn.takes.record.intake_ros import Intake, IntakeReader
from optitrack_vrpn.takes.record.losses import ClockSteps
from optitrack_vrpn.takes.record.node_settings_ros import RecordedSettings
from optitrack_vrpn.takes.record.spool_io import MAX_WAITING, MIN_FREE, Spool, SpoolStatus
from optitrack_vrpn.takes.topics import safe_name, TopicChoice
import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn

#: Period (s) of the queries for new topics; messages before the query are lost. A query takes 30
#: us (measured).
_LOOK_S = 0.05
#: Chosen: periods (s) of the checks of clocks and publishers, and of status reports.
_WATCH_S = 0.5
_REPORT_S = 1.0
#: Chosen: time (s) after which missing topics are reported; DDS finds a node within 3 s.
_FOUND_S = 5.0
#: Chosen: maximum number of stored messages of a latched topic with several publishers, such as
#: /tf_static, which limits the memory.
_MOST_LATCHED = 100


#: The node that publishes it is asked for its settings.
_POSE = 'geometry_msgs/msg/PoseStamped'


class RecorderConfig(NamedTuple):
    """
    Settings of a recorder.

    :ivar folder: folder of the recording, or parent folder of the sessions.
    :ivar sessions: whether each activation creates its own folder in ``folder``.
    :ivar choice: the recorded topics.
    :ivar compression: 'zstd', 'lz4' or 'none'.
    :ivar min_free: space that stays free on the disk (bytes).
    :ivar max_waiting: maximum amount of data that waits for the disk (bytes).
    """

    folder: Path
    sessions: bool = False
    choice: TopicChoice = TopicChoice()
    compression: str = 'zstd'
    min_free: int = MIN_FREE
    max_waiting: int = MAX_WAITING


class RecordingProgress(NamedTuple):
    """
    State of a recording.

    :ivar elapsed_s: time since its begin (s).
    :ivar topics: number of recorded topics.
    :ivar lost: number of messages that the middleware lost.
    :ivar fault: why no more messages are received; '' while they are.
    """

    folder: Path
    elapsed_s: float
    topics: int
    lost: int
    status: SpoolStatus
    fault: str = ''


class Recorder(ControlledLifecycleNode):
    """
    Record while active.

    The recorder subscribes to topics from configure on, so that it records the first message after
    activation, and the last message of every latched topic.

    :param config: settings of the recording.
    :param control: settings of mocap control.
    :param free_bytes: replaces the system's measurement of the free space.
    :param system_ns: reads the system clock (ns), whose steps are detected.
    :ivar finished: result of the last recording: its folder, and what went wrong ('' if nothing
        did).
    """

    def __init__(
        self, config: RecorderConfig, control: Optional[ControlConfig] = None,
        name: str = 'recorder', free_bytes: Optional[Callable[[], int]] = None,
        system_ns: Callable[[], int] = time.time_ns, **kwargs: Any,
    ) -> None:
        self._system_ns = system_ns
        self._config = config
        self._free_bytes = free_bytes
        self._intake: Optional[Intake] = None
        self._spool: Optional[Spool] = None
        self._folder = config.folder
        self._began = 0.0
        self._steps = ClockSteps()
        self._session = ''
        #: The last messages of latched topics, which every recording starts with.
        self._latched: dict[int, deque[Message]] = {}
        self.finished: Optional[tuple[Path, str]] = None
        super().__init__(name, control=control, **kwargs)
        self.set_info_topics(())
        steady = Clock(clock_type=ClockType.STEADY_TIME)
        self._settings = RecordedSettings(self)
        self._timers = [self.create_timer(_LOOK_S, self._look, clock=steady),
                        self.create_timer(_WATCH_S, self._watch, clock=steady)]
        self._looked = False

    # -- lifecycle -----------------------------------------------------------------------------

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Subscribe."""
        self._intake = Intake(self, self._config.choice.wants, self._announce, self._deliver)
        self._look()
        return TransitionCallbackReturn.SUCCESS

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Open the file and start recording."""
        if self._intake is not None and self._intake.fault:
            return self._refuse(self._intake.fault)
        pending = self.mocap_control.pending
        session = pending.session_id if pending is not None else ''
        self._folder = self._config.folder
        if self._config.sessions:
            self._folder = _new_folder(self._config.folder, session)
        try:
            writer = BagWriter(self._folder, self._config.compression)
        except OptitrackVrpnError as error:
            return self._refuse(str(error))
        assert self._intake is not None
        self._intake.restart()
        self._session, self._steps = session, ClockSteps()
        self._looked = False
        self._log.repetition.restart()
        spool = Spool(
            writer, self._folder, self._config.max_waiting, self._config.min_free,
            self._free_bytes, self._notes)
        readers = self._intake.readers
        spool.put([NewTopic(r.key, r.metadata, r.definition) for r in readers])
        self._spool = spool
        # With the time of the start: players and durations begin with the earliest message.
        now_ns = time.time_ns()
        spool.put([message._replace(log_time_ns=now_ns)
                   for kept in list(self._latched.values()) for message in list(kept)])
        spool.start()
        self._began = time.monotonic()
        self.get_logger().info(
            f'recording {counted(len(readers), "topic")} to {self._folder}')
        return super().on_activate(state)

    def _refuse(self, why: str) -> TransitionCallbackReturn:
        """Note why there is no recording; the caller of a single one prints it."""
        self._fault = why
        if self._config.sessions:
            self.get_logger().error(f'cannot record: {why}')
        return TransitionCallbackReturn.FAILURE

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the file."""
        self._close()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Unsubscribe."""
        self._leave()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Close the file and unsubscribe."""
        self._leave()
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """Close the file in any state."""
        self._leave()
        super().destroy_node()

    @property
    def fault(self) -> str:
        """Return why the last transition failed."""
        return self._fault

    # -- from the command ----------------------------------------------------------------------

    def progress(self) -> Optional[RecordingProgress]:
        """Return the state of the recording; None if there is none."""
        spool, intake = self._spool, self._intake
        if spool is None or intake is None:
            return None
        return RecordingProgress(
            self._folder, time.monotonic() - self._began, len(intake.readers),
            sum(intake.lost().values()), spool.status(), intake.fault)

    # -- parts ---------------------------------------------------------------------------------

    def _announce(self, reader: IntakeReader) -> None:
        """Process a new topic, called by the intake."""
        if all(qos['durability'] == 'transient_local' for qos in reader.metadata.qos):
            # Several publishers have a last message each, and the messages do not identify them.
            self._latched[reader.key] = deque(
                maxlen=1 if reader.publishers == 1 else _MOST_LATCHED)
        if self._spool is not None:
            self._spool.put([NewTopic(reader.key, reader.metadata, reader.definition)])

    def _deliver(self, messages: list[Message]) -> None:
        """Process messages, called by the intake in its thread."""
        spool, latched = self._spool, self._latched
        if spool is not None:
            spool.put([*messages])
        for message in messages:
            if message.channel_id in latched:
                latched[message.channel_id].append(message)

    def _look(self) -> None:
        """Subscribe to new topics of the graph."""
        if self._intake is not None:
            for text in self._intake.look():
                self.get_logger().warning(text)

    def _watch(self) -> None:
        """Look after clocks, publishers and the file."""
        # This clock continues while the computer sleeps, so that sleep is no step.
        step_ns = self._steps.look(self._system_ns(), difference_ns(
            partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME), self._system_ns))
        if step_ns:
            self.get_logger().warning(
                f'the system clock was set by {step_ns / 1e9:+.3f} s; further messages are '
                'recorded with its new time')
        if self._intake is not None:
            for text in self._intake.follow():
                self.get_logger().warning(text)
            self._settings.look(reader.metadata.name for reader in self._intake.readers
                                if reader.metadata.type_name == _POSE)
        if self._spool is not None and not self._looked and (
                time.monotonic() - self._began > _FOUND_S):
            self._looked = True
            for text in chain(*self._missing(self._spool.status().messages)):
                self.get_logger().warning(text)
        if self._spool is not None:
            stopped = self._spool.status().stopped or self._intake_fault()
            self._log.state(ERROR, stopped and f'recording has stopped: {stopped}', 'stopped')

    def _missing(self, messages: int) -> tuple[list[str], list[str]]:
        """
        Describe what was to be recorded and does not arrive, one line each.

        :param messages: number of recorded messages.
        :returns: what a recording is incomplete without; and patterns of further topics, which
            launch files give whether or not the topics exist, while anything was recorded.
        """
        readers = self._intake.readers if self._intake is not None else []
        found = ''
        if not readers:
            found = ('no topic to record was found: is the node active, and is it in this ROS '
                     'domain? See ros2 run optitrack_vrpn doctor')
        elif not messages:
            cause, remedy = without_shared_memory(local_nodes())
            found = f'no message of {counted(len(readers), "topic")} has arrived' + (
                f': {cause}; {remedy}' if cause else '')
        bodies, further = ([f'{pattern} matches nothing' for pattern in patterns]
                           for patterns in self._config.choice.unmatched(
                               reader.metadata.name for reader in readers))
        needed = [*filter(None, [found]), *bodies]
        return (needed, further) if messages else (needed + further, [])

    def _notes(self) -> dict[str, str]:
        """Return the notes that are stored in the file."""
        zone = datetime.now().astimezone().utcoffset()
        notes = {
            'session': self._session, 'host': platform.node(),
            'version': f'optitrack_vrpn {__version__}',
            'utc_offset_s': str(round(zone.total_seconds())) if zone else '',
            'ros_distribution': os.environ.get('ROS_DISTRO', ''),
            'middleware': rclpy.get_rmw_implementation_identifier(),
            'bodies': ', '.join(self._config.choice.bodies),
            'topics': ', '.join(self._config.choice.topics)}
        notes = {name: text for name, text in notes.items() if text}
        notes.update((f'settings of {name}', text) for name, text in self._settings.found.items())
        lost = self._intake.lost() if self._intake is not None else {}
        if lost:
            notes['lost'] = ', '.join(f'{name}: {count}' for name, count in lost.items())
            notes['lost_at'] = self._intake.loss_times.text() if self._intake else ''
        uncounted = self._intake.uncounted() if self._intake is not None else {}
        if uncounted:
            notes['uncounted'] = ', '.join(f'{name}: {why}' for name, why in uncounted.items())
        if self._intake is not None and self._intake.fault:
            notes['stopped'] = self._intake.fault
        if self._steps.steps:
            notes['clock_steps'] = ', '.join(
                f'{at_ns}: {step_ns}' for at_ns, step_ns in self._steps.steps)
        return notes

    def _close(self) -> None:
        spool, self._spool = self._spool, None
        if spool is None:
            return
        lost = sum(self._intake.lost().values()) if self._intake is not None else 0
        problem = '; '.join(filter(None, (spool.stop(), self._intake_fault())))
        status = spool.status()
        needed, further = self._missing(status.messages)
        problem = problem or '; '.join(needed)
        if lost:
            problem = '; '.join(filter(None, (problem, (
                f'lost on the way: {counted(lost, "message")} that publishers had dropped before '
                'the recorder received them; start the node with config/fast_recording.xml and '
                'qos.depth 200, see "Losses" in docs/recording.md'))))
        self.finished = (self._folder, problem)
        # After Ctrl-C the log topic is closed; a logger without a node does not use it.
        log = self.get_logger() if self.context.ok() else rclpy.logging.get_logger('record')
        summary = (f'{counted(status.messages, "message")}, {status.size / 1e6:.1f} MB in '
                   f'{self._folder}')
        if problem:
            log.error(f'recorded {summary}; {problem}')
        else:
            log.info(f'recorded {summary}')
        for text in further:
            log.warning(text)

    def _intake_fault(self) -> str:
        return self._intake.fault if self._intake is not None else ''

    def _leave(self) -> None:
        self._close()
        intake, self._intake = self._intake, None
        if intake is not None:
            intake.close()
        self._latched.clear()


def _new_folder(above: Path, session: str) -> Path:
    """Return a unique folder name for a session, from its id and the time."""
    moment = datetime.now(timezone.utc).strftime('%Y%m%d-%H%M%S')
    name = '_'.join(filter(None, (safe_name(printable(session)), moment)))
    folder, number = above / name, 1
    while folder.exists():
        number += 1
        folder = above / f'{name}_{number}'
    return folder


def record(
    config: RecorderConfig, control: bool, seconds: float, argv: Sequence[str],
    report: Callable[[Optional[RecordingProgress]], None], name: str = 'recorder',
) -> int:
    """
    Run a recorder until the interruption or the given time.

    :param control: whether to wait for START of mocap control instead of recording at once.
    :param seconds: duration of the recording (s), 0 for no limit.
    :param argv: the command line for ROS, with the program's name first.
    :param report: called once a second with the state of the recording.
    :returns: exit code: 1 if a recording could not be created or closed, a message was lost, none
        came, or a pattern of bodies matches nothing.
    """
    made: list[Recorder] = []

    def make() -> Recorder:
        recorder = Recorder(
            config, ControlConfig(configure_on_start=True) if control
            else ControlConfig(generations=('none',)), name)
        made.append(recorder)
        recorder.trigger_configure()
        if not control:
            recorder.trigger_activate()
            if recorder.progress() is None:
                raise ConfigurationError(recorder.fault or 'cannot record')

        def watch() -> None:
            progress = recorder.progress()
            report(progress)
            if progress is None or control:
                return
            if progress.status.stopped or progress.fault or (
                    0 < seconds <= progress.elapsed_s):
                rclpy.try_shutdown()

        steady = Clock(clock_type=ClockType.STEADY_TIME)
        recorder.create_timer(min(_REPORT_S, seconds or _REPORT_S), watch, clock=steady)
        return recorder

    code = run(make, argv)
    return code or int(any(recorder.finished is not None and bool(recorder.finished[1])
                           for recorder in made))
