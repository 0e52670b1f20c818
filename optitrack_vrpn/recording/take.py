# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A recorded session: each body's poses, arrivals, gaps and jumps; states, clock, events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.recording.trajectory import Floats, gap_limit_ns, Stamps, Trajectory
from optitrack_vrpn.units import NS_PER_S

#: Two poses further apart than this (m) at a higher speed (m/s) than any body in a laboratory are
#: a jump; likewise for angles (rad, rad/s). Chosen. Halved, fast wands count as jumps; doubled,
#: short jumps are missed.
_JUMP_M = 0.05
_JUMP_M_S = 20.0
_JUMP_RAD = 0.5
_JUMP_RAD_S = 60.0

#: Chosen: a coordinate (m) beyond this is no position; squares of such numbers overflow. Halved or
#: doubled, nothing changes.
_FARTHEST_M = 1e100

#: Stamps (n,) and arrivals (n,) since the Unix epoch (ns), and poses (n, 7): x y z, x y z w.
Columns = tuple[Stamps, Stamps, Floats]


class StateRow(NamedTuple):
    """State of a body as published by the node; time in ns."""

    time_ns: int
    state: str
    message: str
    resets: int


@dataclass
class Body:
    """
    One body.

    :ivar trajectory: its poses in ENU.
    :ivar arrivals_ns: arrivals of the poses at the recorder, on the host's clock (ns).
    :ivar states: its published states.
    """

    name: str
    trajectory: Trajectory
    arrivals_ns: Stamps
    states: list[StateRow] = field(default_factory=list)

    @property
    def gaps(self) -> list[tuple[int, int]]:
        """Return the gaps: stamps of the last pose before and the first pose after each (ns)."""
        stamps = self.trajectory.stamps_ns
        long = np.flatnonzero(np.diff(stamps) > gap_limit_ns(self.trajectory))
        return [(int(stamps[i]), int(stamps[i + 1])) for i in long]

    @property
    def breaks_ns(self) -> Stamps:
        """Return the stamps of poses before which the trajectory is discontinuous."""
        index = set(self.jumps())
        stamps = self.trajectory.stamps_ns
        before: Optional[int] = None
        for row in self.states:
            if before is not None and row.resets > before and len(stamps) > 1:
                index.add(self._reset_index(row.time_ns))
            before = row.resets
        return stamps[sorted(index - {0})]

    def jumps(self) -> list[int]:
        """Return the poses that are further from the previous one than a body can move."""
        trajectory = self.trajectory
        if len(trajectory) < 2:
            return []
        seconds = np.diff(trajectory.stamps_ns) / NS_PER_S
        far = np.linalg.norm(np.diff(trajectory.positions, axis=0), axis=1)
        turned = (trajectory.rotations[:-1].inv() * trajectory.rotations[1:]).magnitude()
        found = ((far > _JUMP_M) & (far > _JUMP_M_S * seconds)) | (
            (turned > _JUMP_RAD) & (turned > _JUMP_RAD_S * seconds))
        return [int(i) + 1 for i in np.flatnonzero(found)]

    def frozen(self, least: int = 10) -> list[tuple[int, int]]:
        """Return the spans with repeated identical poses (first and last stamp)."""
        trajectory = self.trajectory
        same = np.concatenate((
            [False], np.all(np.diff(trajectory.positions, axis=0) == 0, axis=1)
            & np.all(np.diff(trajectory.quats_xyzw, axis=0) == 0, axis=1), [False]))
        edges = np.flatnonzero(np.diff(same.astype(int)))
        stamps = trajectory.stamps_ns
        return [(int(stamps[first]), int(stamps[last])) for first, last in
                zip(edges[::2], edges[1::2]) if last - first >= least]

    def _reset_index(self, time_ns: int) -> int:
        """Return the pose of a reported reset: the one after the largest step near the report."""
        near = np.flatnonzero(np.abs(self.arrivals_ns[1:] - time_ns) < NS_PER_S // 2)
        if not len(near):
            return min(int(np.searchsorted(self.arrivals_ns, time_ns)), len(self.arrivals_ns) - 1)
        steps = np.linalg.norm(np.diff(self.trajectory.positions, axis=0), axis=1)
        waits = np.diff(self.trajectory.stamps_ns) / NS_PER_S
        return int(near[np.argmax(steps[near] + waits[near])]) + 1


class ClockRow(NamedTuple):
    """The sender's clock according to the node's diagnostics."""

    time_ns: int
    epoch: int
    offset_s: float
    skew_ppm: float
    uncertainty_us: float


@dataclass
class Take:
    """
    A recorded session.

    :ivar name: name of the folder or file.
    :ivar kind: 'bag', 'raw' or 'motive csv'.
    :ivar bodies: by name. Those of a bag are read from disk with each access: use one at a time.
    :ivar estimates: trajectories of odometry topics and others with poses, by topic; likewise.
    :ivar clock: rows of the clock's diagnostics.
    :ivar connection: last values of the connection's diagnostics.
    :ivar notes: notes of the recorder.
    :ivar cut: reason why the file ends early, and what is missing; '' for a complete file.
    :ivar unseen: bodies with a published state and without any pose.
    :ivar arrivals_ns: first and last arrival of a pose of a body (ns); None if unknown.
    :ivar silent_s: time without poses at the begin and at the end of the recording (s).
    :ivar topics: messages by topic.
    :ivar unread: messages that could not be decoded, by topic.
    :ivar left_out: poses that ``rising`` left out, by topic.
    :ivar begin_ns: first stamp of all bodies; 0 without any.
    :ivar end_ns: last stamp of all bodies; likewise.
    """

    name: str
    kind: str
    bodies: Mapping[str, Body] = field(default_factory=dict)
    estimates: Mapping[str, Trajectory] = field(default_factory=dict)
    clock: list[ClockRow] = field(default_factory=list)
    connection: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    cut: str = ''
    topics: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)
    begin_ns: int = 0
    end_ns: int = 0
    unseen: list[str] = field(default_factory=list)
    silent_s: tuple[float, float] = (0.0, 0.0)
    arrivals_ns: Optional[tuple[int, int]] = None


def rising(columns: Columns) -> tuple[Trajectory, Stamps, int]:
    """
    Create a trajectory from poses in the order of their arrival.

    :returns: the trajectory, its arrivals, and the number of rows left out: as few as possible so
        that all stamps rise and all values are poses.
    """
    times, came, table = columns
    with np.errstate(over='ignore'):
        norms = np.linalg.norm(table[:, 3:], axis=1)
    kept = np.flatnonzero((np.abs(table[:, :3]) < _FARTHEST_M).all(axis=1)
                          & np.isfinite(norms) & (norms > 0))
    kept = kept[_longest_rise(times[kept])]
    return (Trajectory(times[kept], table[kept, :3], table[kept, 3:]), came[kept],
            len(times) - len(kept))


def _longest_rise(times: Stamps) -> npt.NDArray[np.intp]:
    """
    Return the indices of the longest part in which every time is later than the one before.

    Fredman, On computing the length of longest increasing subsequences, Discrete Mathematics
    11(1), 1975. A single wrong stamp costs one pose, not all that follow.
    """
    if (np.diff(times) > 0).all():
        return np.arange(len(times))
    lasts: list[int] = []     # least last time of a rising part, by its length
    places: list[int] = []    # and the index of that time
    before = []
    for index, time in enumerate(times.tolist()):
        length = bisect_left(lasts, time)
        before.append(places[length - 1] if length else -1)
        lasts[length:length + 1], places[length:length + 1] = [time], [index]
    chosen = places[-1:]
    while before[chosen[-1]] >= 0:
        chosen.append(before[chosen[-1]])
    return np.array(chosen[::-1])


def to_ned(trajectory: Trajectory) -> Trajectory:
    """Take poses of FLU in ENU to FRD in NED, as ``frames.enu_to_ned`` does."""
    (east, north, up), (x, y, z, w) = trajectory.positions.T, trajectory.quats_xyzw.T
    return Trajectory(trajectory.stamps_ns, np.column_stack((north, east, -up)),
                      np.column_stack((x + y, x - y, w - z, w + z)))    # scaled to unit norm there
