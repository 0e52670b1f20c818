# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Receive a stream as the node does, and collect the input of the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from optitrack_vrpn.bodies import BodyConfig, State
from optitrack_vrpn.doctor.results import Lift, Stream
from optitrack_vrpn.findings import BodySeen
from optitrack_vrpn.pipeline import body_name, Pipeline, PipelineConfig, TrackedBody
from optitrack_vrpn.sources import Body, Frame, Item, Vector
from optitrack_vrpn.stats import Intervals, IntervalStatistics

#: Chosen limits, above any installation: bodies (that of the node), texts of the server.
_MOST_BODIES, _MOST_TEXTS = 500, 5
#: Chosen: silence (s) that makes a body STALE here; the node's 0.1 s is within the delays of a
#: busy computer that runs the doctor.
_SILENCE_S = 0.5


class Watch:
    """
    Receive the frames of one connection, in bounded memory.

    The node's pipeline with default settings validates bodies and makes stamps. It accepts a
    longer silence, because a delay of this machine does not mean a body out of view.

    :param stream: receives the results.
    :ivar first_pose_ns: arrival of the first pose (ns).
    :ivar last_pose_ns: arrival of the last (ns).
    :ivar lifting: whether displacements are measured.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.first_pose_ns: Optional[int] = None
        self.last_pose_ns = 0
        self.lifting = False
        self._pipeline = Pipeline(PipelineConfig(body=BodyConfig(stale_min_s=_SILENCE_S)))
        self._all = IntervalStatistics()
        self._of_bodies: dict[tuple[str, int], IntervalStatistics] = {}
        self._tracked: dict[str, int] = {}
        self._exchanged: dict[str, str] = {}
        self._from: dict[str, Vector] = {}
        self._lifts: dict[str, Lift] = {}

    def receive(
        self, items: Sequence[Item], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Process the items of one datagram or one read of the stream; see ``Sink``."""
        stream = self._stream
        for frame in items:
            if not isinstance(frame, Frame) or not frame.bodies:
                continue
            if self.first_pose_ns is None:
                self.first_pose_ns = arrival_ns
            self.last_pose_ns = arrival_ns
            stream.newest_sender_ns = frame.sender_time_ns
            stream.ahead_s = (frame.sender_time_ns - arrival_ns - host_minus_arrival_ns) / 1e9
            stream.poses += len(frame.bodies)
            for body in frame.bodies:
                self._count(body)
        samples = self._pipeline.process(items, arrival_ns, host_minus_arrival_ns)
        if self.lifting:
            for sample in samples:
                self._follow(sample.channel)
        for reported in self._pipeline.take_events():
            if reported.text.startswith('the server says') and len(stream.texts) < _MOST_TEXTS:
                stream.texts += (reported.text,)
        self._note_changes()

    def tick(self, now_ns: int) -> None:
        """Detect silent bodies; call it ten times a second, like the node."""
        self._pipeline.tick(now_ns)
        self._note_changes()
        for channel in self._pipeline.bodies:
            if channel.gate.swapped_with:
                self._exchanged[channel.names.motive] = channel.gate.swapped_with

    def begin_lift(self) -> None:
        """Start to measure displacements, from the present positions."""
        self.lifting = True
        for channel in self._pipeline.bodies:
            self._follow(channel)

    def _count(self, body: Body) -> None:
        """Count a pose of a body, and of all."""
        key = body.name, body.sensor
        statistics = self._of_bodies.get(key)
        if statistics is None:
            if len(self._of_bodies) >= _MOST_BODIES:
                return
            statistics = self._of_bodies[key] = IntervalStatistics()
        for each in (statistics, self._all):
            each.update(body.sender_time_ns, body.position, body.quat_xyzw)

    def _note_changes(self) -> None:
        """Count how often each body became TRACKED."""
        for change in self._pipeline.take_state_changes():
            if change.after is State.TRACKED:
                self._tracked[change.body] = self._tracked.get(change.body, 0) + 1

    def _follow(self, channel: TrackedBody) -> None:
        good = channel.gate.last_good
        if good is None:
            return
        name, position = channel.names.motive, good[1]
        start = self._from.setdefault(name, position)
        moved = Lift(name, (
            position[0] - start[0], position[1] - start[1], position[2] - start[2]))
        largest = self._lifts.setdefault(name, moved)
        if moved.length > largest.length:
            self._lifts[name] = moved

    def fill(self, now_ns: int) -> None:
        """Write the results that are known only at the end."""
        self.tick(now_ns)
        stream = self._stream
        # Gaps do not affect these intervals; they affect the node's own estimate for some seconds.
        intervals = {body_name(*key): statistics.intervals()
                     for key, statistics in self._of_bodies.items()}
        stream.bodies = tuple(BodySeen(
            status, intervals.get(status.name, Intervals()),
            max(0, self._tracked.get(status.name, 0) - 1), self._exchanged.get(status.name, ''))
            for status in (channel.status(now_ns) for channel in self._pipeline.bodies))
        stream.more_bodies = self._pipeline.roster.refused
        stream.all_intervals = self._all.intervals()
        stream.clock = self._pipeline.stamps.status()
        stream.lifts = tuple(self._lifts.values()) if self.lifting else None
