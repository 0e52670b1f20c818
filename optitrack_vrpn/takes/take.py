# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""A recorded session: each body's poses, arrivals, gaps and jumps; states, clock, events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
import contextlib
from dataclasses import dataclass, field
import functools
import json
import math
from typing import Any, NamedTuple, Optional, Protocol

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.columns import Rows
from optitrack_vrpn.takes.trajectory import Stamps, Trajectory


#: Log times and stamps further apart (ns) are of two clocks: no network waits for a minute, and
#: no clock is that far off after its first synchronisation.
OTHER_CLOCK_NS = 60 * NS_PER_S
#: Begin of the notes with the parameters of a node.
SETTINGS = 'settings of '


class StateRow(NamedTuple):
    """State of a body as published by the node; time in ns."""

    time_ns: int
    state: str
    message: str
    resets: int


class LeftOut(NamedTuple):
    """
    Poses of a topic that a take does not contain.

    :ivar poses: their number.
    :ivar total: all poses of the topic; of a transform, those of its child frame.
    """

    poses: int
    total: int
    reason: str


class PoseRows(Protocol):
    """Poses whose stamps rise, which are read when they are needed."""

    def __len__(self) -> int: ...

    def table(self) -> Rows:
        """Read all poses."""


@dataclass
class TakeBody:
    """
    One body.

    :ivar rows: its poses in ENU, with their arrivals at the recorder on the host's clock.
    :ivar states: its published states.
    """

    name: str
    rows: PoseRows
    states: list[StateRow] = field(default_factory=list)

    def table(self) -> Rows:
        """Return all poses, which can take hundreds of megabytes."""
        return self.rows.table()

    @functools.cached_property
    def trajectory(self) -> Trajectory:
        """Return all poses as a trajectory."""
        return trajectory_of(self.table())


def trajectory_of(table: Rows) -> Trajectory:
    """Return poses as a trajectory."""
    return Trajectory(table['stamp'], table['pose'][:, :3], table['pose'][:, 3:])


class ClockRow(NamedTuple):
    """
    The sender's clock according to the node's diagnostics.

    :ivar longer_us: by how much delays are longer than those of the stamps (µs).
    :ivar longer_since_s: for how long they have been longer (s); 0 if they are not.
    """

    time_ns: int
    epoch: int
    offset_s: float
    skew_ppm: float
    uncertainty_us: float
    longer_us: float = math.nan
    longer_since_s: float = 0.0


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
    :ivar stamping: last values of the clock's diagnostics.
    :ivar motive_names: Motive's names of the bodies, as their states tell.
    :ivar notes: notes of the recorder.
    :ivar cut: reason why the file ends early, and what is missing; '' for a complete file.
    :ivar unseen: bodies with a published state and without any pose.
    :ivar arrivals_ns: first and last arrival of a pose of a body (ns); None if unknown.
    :ivar silent_s: time without poses at the begin and at the end of the recording (s).
    :ivar shared_names: names of several bodies of an export; the second of them is NAME_2.
    :ivar parents: parents of each frame of TF, as far as samples of the messages show them.
    :ivar topics: messages by topic.
    :ivar unread: messages that could not be decoded, by topic.
    :ivar left_out: poses that are not finite or whose stamp does not rise, by topic.
    :ivar damaged: parts of the file that cannot be read: reason, and log times of the first and
        last message (ns; 0 if unknown).
    :ivar missing: messages that the file counts and that were not found in it.
    :ivar links: when the message of the connection's diagnostics changed (ns), and the message.
    :ivar log_offset_ns: log times minus stamps (ns) if they are of two clocks, as with a simulated
        clock; times in a take are on the clock of the stamps, but for those of states and notes.
    :ivar begin_ns: first stamp of all bodies; 0 without any.
    :ivar end_ns: last stamp of all bodies; likewise.
    """

    name: str
    kind: str
    bodies: Mapping[str, TakeBody] = field(default_factory=dict)
    estimates: Mapping[str, Trajectory] = field(default_factory=dict)
    clock: list[ClockRow] = field(default_factory=list)
    connection: dict[str, str] = field(default_factory=dict)
    stamping: dict[str, str] = field(default_factory=dict)
    motive_names: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    cut: str = ''
    topics: dict[str, int] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    damaged: list[tuple[str, tuple[int, int]]] = field(default_factory=list)
    missing: int = 0
    links: list[tuple[int, str]] = field(default_factory=list)
    begin_ns: int = 0
    end_ns: int = 0
    unseen: list[str] = field(default_factory=list)
    silent_s: tuple[float, float] = (0.0, 0.0)
    shared_names: list[str] = field(default_factory=list)
    arrivals_ns: Optional[tuple[int, int]] = None
    log_offset_ns: int = 0
    parents: dict[str, set[str]] = field(default_factory=dict)

    def put_on_stamps(self) -> None:
        """Convert log times of diagnostics and damage to the clock of the stamps."""
        first, last = (0, 0) if self.arrivals_ns is None else (
            self.arrivals_ns[0] - self.begin_ns, self.arrivals_ns[1] - self.end_ns)
        if min(abs(first), abs(last)) < OTHER_CLOCK_NS or abs(first - last) > OTHER_CLOCK_NS:
            return
        self.log_offset_ns = first
        self.clock = [row._replace(time_ns=row.time_ns - first) for row in self.clock]
        self.links = [(time_ns - first, text) for time_ns, text in self.links]
        self.damaged = [(reason, (begin - first, end - first) if end else (0, 0))
                        for reason, (begin, end) in self.damaged]

    def check_bodies(self, *names: str) -> None:
        """Raise ConfigurationError if there is no body of one of these names."""
        for name in names:
            if name not in self.bodies:
                raise ConfigurationError(f'{self.name}: has no body {name!r}, only '
                                         f'{", ".join(self.bodies) or "none"}')

    def losses(self) -> str:
        """Say what the recording had and could not be read; '' for a complete one."""
        parts = [f'messages that it counts and lacks: {self.missing}'] * (self.missing > 0)
        if self.damaged:
            parts.append(f'it is damaged in {counted(len(self.damaged), "place")} '
                         f'({self.damaged[0][0]})')
        parts += [f'{counted(count, "message")} on {topic} cannot be decoded'
                  for topic, count in self.unread.items() if count]
        return '; '.join([*parts, *([self.cut] if self.cut else [])])

    def settings(self) -> dict[str, dict[str, Any]]:
        """Return the parameters of each node that published poses."""
        found = {}
        for key, text in self.notes.items():
            with contextlib.suppress(ValueError):
                values = json.loads(text) if key.startswith(SETTINGS) else None
                if isinstance(values, dict):
                    found[key.removeprefix(SETTINGS)] = values
        return found


def longest_rise(times: Stamps) -> npt.NDArray[np.intp]:
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


def to_ned(rows: Rows) -> Rows:
    """Take poses of FLU in ENU to FRD in NED, as ``frames.enu_to_ned`` does."""
    east, north, up, x, y, z, w = rows['pose'].T
    made: Rows = rows.copy()
    made['pose'][:, :3] = np.column_stack((north, east, -up))
    made['pose'][:, 3:] = np.sqrt(0.5) * np.column_stack((x + y, x - y, w - z, w + z))
    return made
