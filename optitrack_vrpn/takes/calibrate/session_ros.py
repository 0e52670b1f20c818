# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the guided session: subscribe, record a take, show the bars until all quantities pass."""

from collections.abc import Sequence
from pathlib import Path
import time
from typing import Any, Optional

from geometry_msgs.msg import PoseStamped
import numpy as np
from optitrack_vrpn.control.protocol import ControlConfig
from optitrack_vrpn.core.errors import ConfigurationError, TransportError
from optitrack_vrpn.node.base.tool_node import BackgroundNode, checked_topic
from optitrack_vrpn.takes.calibrate.checks import check_samples
from optitrack_vrpn.takes.calibrate.data import ImuData, make_problem
from optitrack_vrpn.takes.calibrate.guided import GuidedProgress, is_done, measure, stage_at, view
from optitrack_vrpn.takes.calibrate.imu import calibrate_imu
from optitrack_vrpn.takes.calibrate.results import CalibrationResult
from optitrack_vrpn.takes.record.recorder_ros import Recorder, RecorderConfig
from optitrack_vrpn.takes.topics import TopicChoice
from optitrack_vrpn.takes.trajectory import Trajectory
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rich.console import Console
from rich.live import Live
from sensor_msgs.msg import Imu

#: It matches publishers of any reliability; the queue covers the time of a solution.
_QOS = QoSProfile(depth=2000, reliability=ReliabilityPolicy.BEST_EFFORT)
#: Chosen: periods (s) of the screen, of the bars, and of the joint solution.
_SCREEN_S, _SOLVE_S = 1.0, 10.0
#: Chosen: wait for the first poses and samples (s), and for those of the first bars.
_FIRST_S, _BARS_S = 15.0, 11.0


class _Session(BackgroundNode):
    """Receive poses and samples."""

    def __init__(self, pose_topic: str, imu_topic: str, ros_arguments: Sequence[str]) -> None:
        super().__init__('calibrate', ros_arguments)
        self._poses: list[tuple[Any, ...]] = []
        self._samples: list[tuple[Any, ...]] = []
        self.frame_id = ''
        self.node.create_subscription(PoseStamped, pose_topic, self._pose, _QOS)
        self.node.create_subscription(Imu, imu_topic, self._imu, _QOS)

    def _pose(self, message: PoseStamped) -> None:
        place, turn = message.pose.position, message.pose.orientation
        self._poses.append((_ns(message.header.stamp), place.x, place.y, place.z, turn.x, turn.y,
                            turn.z, turn.w))

    def _imu(self, message: Imu) -> None:
        self.frame_id = message.header.frame_id
        rate, force = message.angular_velocity, message.linear_acceleration
        self._samples.append((_ns(message.header.stamp), rate.x, rate.y, rate.z, force.x, force.y,
                              force.z))

    def counts(self) -> tuple[int, int]:
        """Return the numbers of poses and samples so far."""
        return len(self._poses), len(self._samples)

    def data(self) -> tuple[Trajectory, ImuData]:
        """Return poses and samples so far."""
        poses, samples = list(self._poses), list(self._samples)
        stamps = np.array([row[0] for row in poses], dtype=np.int64)
        rows = np.array([row[1:] for row in poses])
        rises = np.append(True, stamps[1:] > np.maximum.accumulate(stamps)[:-1])
        imu = np.array([row[1:] for row in samples])
        return (Trajectory(stamps[rises], rows[rises, :3], rows[rises, 3:]),
                ImuData(np.array([row[0] for row in samples], dtype=np.int64), imu[:, :3],
                        imu[:, 3:], self.frame_id))


def _ns(stamp: Any) -> int:
    return int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)


def guide(
    body: str, imu_topic: str, limit_s: float, ros_arguments: Sequence[str],
    console: Optional[Console] = None, json: bool = False,
) -> Path:
    """
    Run the session.

    :param body: name of the body, or topic of its poses if it contains a slash.
    :param limit_s: its longest duration (s).
    :param json: the standard output is for JSON: the screen is on the standard error output.
    :returns: the take that was recorded.
    :raises TransportError: if no poses or no samples arrive.
    :raises ConfigurationError: if the samples cannot be used, or the take cannot be recorded.
    """
    console = console or Console(stderr=json)
    pose_topic = checked_topic(body if '/' in body else f'/{body}/pose')
    folder = Path(time.strftime('calibration_%Y%m%d-%H%M%S'))
    with _Session(pose_topic, checked_topic(imu_topic), ros_arguments) as session:
        _wait(session, pose_topic, imu_topic)
        recorder = Recorder(
            RecorderConfig(folder, choice=TopicChoice((), (pose_topic, imu_topic))),
            ControlConfig(generations=('none',)), 'calibrate_recorder', context=session.context)
        try:
            session.executor.add_node(recorder)
            recorder.trigger_configure()
            recorder.trigger_activate()
            if recorder.progress() is None:
                raise ConfigurationError(recorder.fault or 'cannot record')
            _watch(session, limit_s, console, f'calibrate {body} {imu_topic}')
        finally:
            session.executor.remove_node(recorder)
            recorder.destroy_node()
    console.print(f'recorded {folder}')
    return folder


def _wait(session: _Session, pose_topic: str, imu_topic: str) -> None:
    deadline = time.monotonic() + _FIRST_S
    while not all(session.counts()):
        if time.monotonic() > deadline:
            poses, _ = session.counts()
            missing = imu_topic if poses else pose_topic
            raise TransportError(
                f'no message on {missing} for {_FIRST_S:g} s: is its node running, and in this '
                'ROS domain?')
        time.sleep(0.05)


def _watch(session: _Session, limit_s: float, console: Console, title: str) -> None:
    begin = time.monotonic()
    solved_at, result = begin, None
    progress = GuidedProgress(0.0, limit_s, np.zeros(3), 0.0, 0, 0.0, None)
    shown = ''
    with Live(view(progress, title), console=console, auto_refresh=False,
              screen=console.is_terminal) as live:
        while not is_done(progress):
            time.sleep(_SCREEN_S)
            now = time.monotonic()
            progress = progress._replace(elapsed_s=now - begin)
            if now - begin > _BARS_S:
                progress, problem_text = _measured(session, progress, result)
                if problem_text:
                    raise ConfigurationError(problem_text)
                if now - solved_at > _SOLVE_S:
                    solved_at = now
                    result = calibrate_imu(*session.data())
                    progress = progress._replace(result=result)
            live.update(view(progress, title), refresh=True)
            stage = stage_at(progress.elapsed_s)
            if not console.is_terminal and stage is not None and stage.text != shown:
                shown = stage.text
                console.print(shown)


def _measured(
    session: _Session, progress: GuidedProgress, result: Optional[CalibrationResult],
) -> tuple[GuidedProgress, str]:
    """Measure the motion so far; return why the samples cannot be used, or ''."""
    trajectory, imu = session.data()
    problem = make_problem(trajectory, imu)
    wrong = next(check_samples(imu, problem), '')
    return measure(problem, progress.elapsed_s, progress.limit_s, result), wrong
