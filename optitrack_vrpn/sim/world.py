# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Frames of a scenario: due time, stamp and content; actions at later times, counters; pure."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
import heapq
from typing import cast, NamedTuple, Optional, Protocol, Union

import numpy as np
from optitrack_vrpn.core.rotation import IDENTITY
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.drivers.frames import Body as Pose, Motion as Derivative, Quaternion, Vector
from optitrack_vrpn.sim.faults import frame_at, FrameEffect, Frames, Restart
from optitrack_vrpn.sim.impairments import add_noise, apply_faults, Draws, occlusions
from optitrack_vrpn.sim.motion import Array, Motion, MotionState, quat_from_rotation_vector
from optitrack_vrpn.sim.scenario_io import Scenario, SimBody

Report = Union[Pose, Derivative]

#: Chosen: frames that are computed together.
_BLOCK = 64


class SimFrame(NamedTuple):
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


class SimSample(NamedTuple):
    """One body at one frame as the cameras report it; all plain numbers."""

    position: Vector
    quat_xyzw: Quaternion
    velocity: Vector
    acceleration: Vector
    turn: Quaternion
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
        # Streams of random numbers that are not for a body.
        self._frame_faults = [
            (fault, Draws(scenario.seed, (1 << 32) + i, 1, uniform=True))
            for i, fault in enumerate(scenario.faults) if not isinstance(fault, Restart)]
        self._motions: list[LiveMotion] = [
            live.get(body.name, cast(Motion, body.motion)) for body in self.bodies]
        self._block_size = 1 if live else _BLOCK
        self._block_number = -1
        self._block: list[list[SimSample]] = []

    def truth(self, name: str, time: Union[float, Array]) -> MotionState:
        """
        Evaluate a body's motion without noise or fault.

        :param name: of the body.
        :param time: (n,) or one, seconds of the scenario: the stamp minus the first stamp.
        """
        motion = self._motions[self.names.index(name)]
        return motion.at(np.atleast_1d(np.asarray(time, dtype=np.float64)))

    def frame(self, number: int, base_ns: int = 0) -> SimFrame:
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
                        name, 0, stamp_ns, False, sample.acceleration, IDENTITY, dt))
        return SimFrame(number, reports, copies, frozenset(lost))

    def _frame_effects(self, number: int) -> FrameEffect:
        effect, frames = FrameEffect(1, self.names), np.array((number,))
        for fault, draws in self._frame_faults:
            if fault.hits(frames, self._rate).active[0]:
                effect = fault.affect(effect, draws.at(frames)[0, 0])
        return effect

    def _samples(self, index: int, body: SimBody, frames: Frames) -> list[SimSample]:
        lost, silent, held = occlusions(body.faults, frames, self._rate)
        state = self._motions[index].at(held / self._rate)
        position, quat_xyzw = add_noise(
            state.position, state.quat_xyzw, self.scenario.noise,
            self._draws[index].at(held))
        # A frozen pose keeps its earlier faults.
        position, quat_xyzw = apply_faults(
            body.faults, held, self._rate, position, quat_xyzw)
        turn = quat_from_rotation_vector(state.angular_velocity / self._rate)
        columns = (position, quat_xyzw, state.velocity, state.acceleration, turn)
        rows = zip(*([tuple(row) for row in column.tolist()] for column in columns),
                   silent.tolist(), lost.tolist())
        return [SimSample(*row) for row in rows]


class SimStream:
    """
    Frame numbers in relation to two clocks: the sender's and this computer's.

    Every deadline is computed from the start, so that delays do not accumulate.

    :param scenario: rate, clock, duration and restarts are used.
    :ivar base_ns: stamp of frame 0; a stamp minus this is a time of the scenario.
    :ivar number: number of the next frame.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._rate = scenario.rate
        self._clock = scenario.clock
        self._speed = 1 + scenario.clock.skew_ppm * 1e-6
        self._restarts = [fault for fault in scenario.faults if isinstance(fault, Restart)]
        self._end: Optional[int] = None
        if scenario.duration is not None:
            self._end = frame_at(scenario.duration, scenario.rate)
        self._origin_ns = 0
        self.base_ns = 0
        self.number = 0

    def start(self, now_ns: int, epoch_ns: int) -> None:
        """
        Begin with frame 0.

        :param now_ns: this machine's raw clock.
        :param epoch_ns: the system's time.
        """
        self._origin_ns = now_ns
        self.number = 0
        self.base_ns = epoch_ns if self._clock.base == 'epoch' else round(
            self._clock.start * NS_PER_S)

    @property
    def over(self) -> bool:
        """Return whether the scenario has no further frame."""
        return self._end is not None and self.number >= self._end

    @property
    def due_ns(self) -> int:
        """Return when the next frame is due, on this computer's raw clock."""
        return self.exposure_ns(self.number)

    def time_ns(self, number: int) -> int:
        """Return the time of a frame on the sender's clock (ns of the scenario)."""
        return round(number * 1e9 / self._rate)

    def time(self, now_ns: int) -> float:
        """Return the present time of the scenario (s)."""
        return (now_ns - self._origin_ns) * self._speed / NS_PER_S

    def server_ns(self, now_ns: int) -> int:
        """Return the sender's time (ns since the start) at a time of this machine's raw clock."""
        return round((now_ns - self._origin_ns) * self._speed)

    def exposure_ns(self, number: int) -> int:
        """Return the exposure time of a frame on this computer's raw clock."""
        return self._origin_ns + round(self.time_ns(number) / self._speed)

    def take(self, now_ns: int) -> tuple[int, int]:
        """
        Advance to the next frame, or after a suspension to the present one.

        :returns: its number, and the number of frames skipped before it.
        """
        missed = 0
        late_ns = now_ns - self.due_ns
        # Chosen: frames later than this (ns) are skipped: the computer was suspended, not only
        # busy.
        if late_ns > 250_000_000:
            missed = int(late_ns * self._speed * self._rate / NS_PER_S)
        number = self.number + missed
        self.number = number + 1
        return number, missed

    def restart(self) -> None:
        """Restart the stamps with the next frame if they count from Motive's start."""
        if self._clock.base == 'motive':
            self.base_ns = round(self._clock.start * NS_PER_S) - self.time_ns(self.number)

    def restart_at(self, number: int) -> Optional[Restart]:
        """Return the restart at a frame, if there is one."""
        frames = np.array((number,))
        return next((fault for fault in self._restarts
                     if fault.hits(frames, self._rate).active[0]), None)


class Timers:
    """Actions, in the order of their times and then of their registration."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, Callable[[], object]]] = []
        self._order = 0

    def at(self, due_ns: int, action: Callable[[], object]) -> None:
        """Register an action."""
        self._order += 1
        heapq.heappush(self._waiting, (due_ns, self._order, action))

    @property
    def next_ns(self) -> Optional[int]:
        """Return the time of the next action (ns); None without one."""
        return self._waiting[0][0] if self._waiting else None

    def run(self, now_ns: int) -> None:
        """Execute the actions that are due."""
        while self._waiting and self._waiting[0][0] <= now_ns:
            heapq.heappop(self._waiting)[2]()


@dataclass
class SimCounters:
    """
    Counters of a server since its start.

    :ivar frames: frames sent, independent of the number of clients.
    :ivar skipped_frames: frames that were due while the computer slept.
    :ivar datagrams: datagrams of poses created.
    :ivar accepted: clients whose cookie was accepted.
    :ivar requests: requests to connect back.
    :ivar malformed_requests: datagrams that are not requests.
    :ivar restarts: restarts.
    :ivar dropped: clients dropped, by the part of the reason before its colon.
    """

    frames: int = 0
    skipped_frames: int = 0
    datagrams: int = 0
    accepted: int = 0
    requests: int = 0
    malformed_requests: int = 0
    restarts: int = 0
    dropped: 'Counter[str]' = field(default_factory=Counter)
