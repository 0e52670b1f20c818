# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Due time and stamp of each frame of a scenario, actions at later times, counters; pure."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
import heapq
from typing import Optional

from optitrack_vrpn.sim.faults import frame_at, Restart
from optitrack_vrpn.sim.scenario_io import Scenario
from optitrack_vrpn.units import NS_PER_S

#: Chosen: frames later than this (ns) are skipped: the computer was suspended, not only busy.
_MAX_LATE_NS = 250_000_000


class Stream:
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
        if late_ns > _MAX_LATE_NS:
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
        for fault in self._restarts:
            ahead = number - frame_at(fault.at, self._rate)
            every = max(1, round(fault.every * self._rate)) if fault.every else 0
            if ahead == 0 or (every and ahead > 0 and ahead % every == 0):
                return fault
        return None


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
class Counters:
    """
    Counters of a server since its start.

    :ivar frames: frames sent, independent of the number of clients.
    :ivar skipped_frames: frames that were due while the computer slept.
    :ivar blocked_frames: frames that VRPN clients did not get because one client did not read.
    :ivar datagrams: datagrams of poses created.
    :ivar accepted: clients whose cookie was accepted.
    :ivar requests: requests to connect back.
    :ivar malformed_requests: datagrams that are not requests.
    :ivar restarts: restarts.
    :ivar dropped: clients dropped, by the part of the reason before its colon.
    """

    frames: int = 0
    skipped_frames: int = 0
    blocked_frames: int = 0
    datagrams: int = 0
    accepted: int = 0
    requests: int = 0
    malformed_requests: int = 0
    restarts: int = 0
    dropped: 'Counter[str]' = field(default_factory=Counter)
