# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Receive a stream as the node does, and collect the input of the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.doctor.probe_results import Lift, Stream
from optitrack_vrpn.events import Event as UserEvent
from optitrack_vrpn.findings import BodySeen, Intervals, IntervalStatistics
from optitrack_vrpn.pipeline.config import PipelineConfig
from optitrack_vrpn.pipeline.pipeline import Pipeline
from optitrack_vrpn.pipeline.tracked_body import body_name, TrackedBody
from optitrack_vrpn.sources import Vector
from optitrack_vrpn.sources.vrpn import (
    CONTROL_SENDER, Event, PongReport, PoseReport, SenderDescribed, to_frames)

#: Chosen limits, above any installation: names, bodies (that of the node), texts of the server.
_MOST_NAMES = 2000
_MOST_BODIES = 500
_MOST_TEXTS = 5
#: Chosen: silence (s) that makes a body STALE here; the node's 0.1 s is within the delays of a
#: busy computer that runs the doctor.
_SILENCE_S = 0.5


class Watch:
    """
    Receive the events of one connection, in bounded memory.

    The node's pipeline with default settings validates bodies and makes stamps. It accepts a
    longer silence, because a delay of this machine does not mean a body out of view.

    :param stream: receives the results.
    :ivar poses: number of poses.
    :ivar first_pose_ns: arrival of the first (ns).
    :ivar last_pose_ns: arrival of the last (ns).
    :ivar senders: names that were described, in order.
    :ivar answered: names that answered a ping.
    :ivar texts: the first text messages of the server.
    """

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self.poses = 0
        self.first_pose_ns: Optional[int] = None
        self.last_pose_ns = 0
        self._pipeline = Pipeline(PipelineConfig(body=BodyConfig(stale_min_s=_SILENCE_S)))
        self.senders: dict[str, None] = {}
        self.answered: dict[str, None] = {}
        self.texts: list[str] = []
        self._all = IntervalStatistics()
        self._of_bodies: dict[tuple[str, int], IntervalStatistics] = {}
        self._tracked: dict[str, int] = {}
        self._exchanged: dict[str, str] = {}
        self._lifting = False
        self._from: dict[str, Vector] = {}
        self._lifts: dict[str, Lift] = {}

    def receive(
        self, events: Sequence[Event], arrival_ns: int, host_minus_arrival_ns: int,
    ) -> None:
        """Process the events of one datagram or one read of the stream; see ``Sink``."""
        for event in events:
            if isinstance(event, PoseReport):
                self.poses += 1
                if self.first_pose_ns is None:
                    self.first_pose_ns = arrival_ns
                self.last_pose_ns = arrival_ns
                self._count(event)
                self._stream.newest_sender_ns = event.sender_time_ns
                self._stream.ahead_s = (
                    event.sender_time_ns - arrival_ns - host_minus_arrival_ns) / 1e9
            elif isinstance(event, SenderDescribed):
                _note(self.senders, event.sender)
            elif isinstance(event, PongReport):
                _note(self.answered, event.sender)
        self._stream.attempt.greeted(events)
        samples = self._pipeline.process(
            to_frames(events), arrival_ns, host_minus_arrival_ns)
        if self._lifting:
            for sample in samples:
                self._follow(sample.channel)
        for reported in self._pipeline.take_events():
            if reported.text.startswith('the server says') and len(self.texts) < _MOST_TEXTS:
                self.texts.append(reported.text)
        self._note_changes()

    def link_changed(self, change: UserEvent) -> None:
        """Ignore changes of the connection; see ``Sink``."""

    def tick(self, now_ns: int) -> None:
        """Detect silent bodies; call it ten times a second, like the node."""
        self._pipeline.tick(now_ns)
        self._note_changes()
        for channel in self._pipeline.bodies:
            if channel.gate.swapped_with:
                self._exchanged[channel.names.motive] = channel.gate.swapped_with

    def begin_lift(self) -> None:
        """Start to measure displacements, from the present positions."""
        self._lifting = True
        for channel in self._pipeline.bodies:
            self._follow(channel)

    def _count(self, pose: PoseReport) -> None:
        """Count a pose of a body, and of all."""
        key = pose.name, pose.sensor
        statistics = self._of_bodies.get(key)
        if statistics is None:
            if len(self._of_bodies) >= _MOST_BODIES:
                return
            statistics = self._of_bodies[key] = IntervalStatistics()
        statistics.update(pose.sender_time_ns, pose.position, pose.quat_xyzw)
        self._all.update(pose.sender_time_ns, pose.position, pose.quat_xyzw)

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
        stream.poses, stream.texts = self.poses, tuple(self.texts)
        stream.senders, stream.answered = tuple(self.senders), tuple(self.answered)
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
        stream.lifts = tuple(self._lifts.values()) if self._lifting else None


def _note(names: dict[str, None], name: str) -> None:
    if name != CONTROL_SENDER and len(names) < _MOST_NAMES:
        names[name] = None
