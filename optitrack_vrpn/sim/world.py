# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The frames of a scenario, in any order: the reports that Motive would send."""

from collections.abc import Mapping
from typing import cast, NamedTuple, Optional, Protocol, Union

import numpy as np

from optitrack_vrpn.sim.faults import DropFrames, Frames, Restart, SwapLabels
from optitrack_vrpn.sim.impairments import add_noise, apply_faults, Draws, occlusions
from optitrack_vrpn.sim.motion import Array, Motion, MotionState, quat_from_rotation_vector
from optitrack_vrpn.sim.scenario_io import Body, Scenario
from optitrack_vrpn.sources import Body as Pose, Motion as Derivative, Quaternion, Vector

Report = Union[Pose, Derivative]

#: Chosen: frames that are computed together.
_BLOCK = 64
#: Streams of random numbers that are not for a body.
_FRAME_STREAM = 1 << 32


class Frame(NamedTuple):
    """
    One camera frame.

    :ivar number: from 0.
    :ivar reports: the bodies in view, each with its derivatives behind it.
    :ivar copies: number of transmissions of the frame: 0 (dropped), 1 or 2 (duplicated).
    :ivar lost: names of the bodies that the cameras do not see, whether they are sent or not.
    """

    number: int
    reports: list[Report]
    copies: int
    lost: frozenset[str] = frozenset()


class Sample(NamedTuple):
    """One body at one frame as the cameras report it; all plain numbers."""

    position: Vector
    quat_xyzw: Quaternion
    velocity: Vector
    acceleration: Vector
    turn: Quaternion
    turn_change: Quaternion
    silent: bool
    lost: bool


class LiveMotion(Protocol):
    """Interface of a motion, as in ``sim.motion``."""

    def at(self, time: Array, /) -> MotionState:
        """Evaluate the motion; the times are (n,) seconds of the scenario."""


class World:
    """
    The poses of a scenario as a function of the frame number.

    :param scenario: the scenario.
    :param live: by name of the body, motions that replace the scenario's and are defined at the
        present time only, such as that of a body on a simulated machine. They are evaluated for
        each frame when it is due, and for an earlier time if a fault repeats an earlier pose.
    """

    def __init__(
        self, scenario: Scenario, live: Optional[Mapping[str, LiveMotion]] = None,
    ) -> None:
        live = live or {}
        self.scenario = scenario
        self.bodies = scenario.settled()
        self.names = [body.name for body in self.bodies]
        self._rate = scenario.rate
        self._draws = [Draws(scenario.seed, i, 6) for i in range(len(self.bodies))]
        self._frame_faults = [
            (fault, Draws(scenario.seed, _FRAME_STREAM + i, 1, uniform=True))
            for i, fault in enumerate(scenario.faults)]
        self._motions: list[LiveMotion] = [
            live.get(body.name, cast(Motion, body.motion)) for body in self.bodies]
        self._block_size = 1 if live else _BLOCK
        self._block_number = -1
        self._block: list[list[Sample]] = []

    def truth(self, name: str, time: Union[float, Array]) -> MotionState:
        """
        Evaluate a body's motion without noise or fault.

        :param name: of the body.
        :param time: (n,) or one, seconds of the scenario: the stamp minus the first stamp.
        """
        motion = self._motions[self.names.index(name)]
        return motion.at(np.atleast_1d(np.asarray(time, dtype=np.float64)))

    def frame(self, number: int, base_ns: int = 0) -> Frame:
        """
        Make one frame.

        :param number: from 0; its time is number / rate.
        :param base_ns: stamp of frame 0.
        """
        block, row = divmod(number, self._block_size)
        if block != self._block_number:
            frames = np.arange(block * self._block_size, (block + 1) * self._block_size)
            self._block = [self._samples(i, body, frames) for i, body in enumerate(self.bodies)]
            self._block_number = block
        copies, names = self._frame_effects(number)
        stamp_ns = base_ns + round(number * 1e9 / self._rate)
        reports: list[Report] = []
        lost = set()
        for name, samples in zip(names, self._block):
            sample = samples[row]
            if sample.lost:
                lost.add(name)
            if sample.silent:
                continue
            reports.append(Pose(name, 0, stamp_ns, sample.position, sample.quat_xyzw))
            if self.scenario.velocities:
                dt = 1 / self._rate
                reports += (
                    Derivative(name, 0, stamp_ns, True, sample.velocity, sample.turn, dt),
                    Derivative(
                        name, 0, stamp_ns, False, sample.acceleration, sample.turn_change, dt))
        return Frame(number, reports, copies, frozenset(lost))

    def _frame_effects(self, number: int) -> tuple[int, list[str]]:
        copies, names = 1, self.names
        frames = np.array((number,))
        for fault, draws in self._frame_faults:
            if isinstance(fault, Restart) or not fault.hits(frames, self._rate).active[0]:
                continue
            if isinstance(fault, SwapLabels):
                one, other = (names.index(name) for name in fault.bodies)
                names = list(names)
                names[one], names[other] = names[other], names[one]
            elif draws.at(frames)[0, 0] < fault.probability:
                copies = 0 if isinstance(fault, DropFrames) else min(2 * copies, 2)
        return copies, names

    def _samples(self, index: int, body: Body, frames: Frames) -> list[Sample]:
        lost, silent, held = occlusions(body.faults, frames, self._rate)
        state = self._motions[index].at(held / self._rate)
        position, quat_xyzw = add_noise(
            state.position, state.quat_xyzw, self.scenario.noise,
            self._draws[index].at(held))
        # A frozen pose keeps its earlier faults.
        position, quat_xyzw = apply_faults(
            body.faults, held, self._rate, position, quat_xyzw)
        turn = quat_from_rotation_vector(state.angular_velocity / self._rate)
        identity = np.broadcast_to(np.array((0.0, 0.0, 0.0, 1.0)), turn.shape)
        columns = (position, quat_xyzw, state.velocity, state.acceleration, turn, identity)
        rows = zip(*([tuple(row) for row in column.tolist()] for column in columns),
                   silent.tolist(), lost.tolist())
        return [Sample(*row) for row in rows]
