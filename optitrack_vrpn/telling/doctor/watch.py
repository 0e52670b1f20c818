# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Receive a stream as the node does, without ROS, and note what the rules need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from optitrack_vrpn.drivers.frames import Frame, Item, Vector
from optitrack_vrpn.stream.bodies.settings import BodyConfig
from optitrack_vrpn.stream.config import PipelineConfig
from optitrack_vrpn.stream.pipeline import Pipeline
from optitrack_vrpn.stream.roster import body_name, TrackedBody
from optitrack_vrpn.telling.doctor.results import Lift, WatchedStream
from optitrack_vrpn.telling.facts import facts_of_pipeline, Observation, Twins


class Watch:
    """
    Receive the frames of one connection, in bounded memory.

    The node's pipeline with default settings validates bodies and makes stamps. It accepts a
    longer silence, because a delay of this machine does not mean a body out of view.

    :param stream: receives the results.
    :ivar first_pose_ns: arrival of the first pose (ns).
    :ivar last_pose_ns: arrival of the last (ns).
    :ivar taken_ns: when poses were first not withheld by the clock (ns); None before.
    :ivar lifting: whether displacements are measured.
    """

    def __init__(self, stream: WatchedStream) -> None:
        self._stream = stream
        self.first_pose_ns: Optional[int] = None
        self.last_pose_ns = 0
        self.taken_ns: Optional[int] = None
        self.lifting = False
        # Chosen: silence (s) that makes a body STALE here; the node's 0.1 s is within the delays
        # of a busy computer that runs the doctor.
        self._pipeline = Pipeline(PipelineConfig(body=BodyConfig(stale_min_s=0.5)))
        self._pipeline.reconnected()    # as the node does before its first connection
        self._observation = Observation(500)    # bodies, as many as the node has
        self._twins = Twins()
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
            stream.processing_s = frame.processing_ns / 1e9
            stream.ahead_s = (frame.sender_time_ns - arrival_ns - host_minus_arrival_ns) / 1e9
            stream.poses += len(frame.bodies)
            for body in frame.bodies:
                self._observation.add(
                    body_name(body.name, body.sensor), body.sender_time_ns, body.position,
                    body.quat_xyzw)
        samples = self._pipeline.process(items, arrival_ns, host_minus_arrival_ns).samples
        if self.lifting:
            for sample in samples:
                self._follow(sample.channel)
        self._pipeline.take_events()    # those of a log
        self._note_changes()

    def tick(self, now_ns: int) -> None:
        """Detect silent bodies; call it ten times a second, like the node."""
        self._pipeline.tick(now_ns)
        if self.taken_ns is None and self.first_pose_ns is not None and (
                not self._pipeline.clock_status().withheld):
            self.taken_ns = now_ns
        self._twins.update(self._pipeline.bodies, now_ns)
        self._note_changes()
        for channel in self._pipeline.bodies:
            if channel.gate.swapped_with:
                self._observation.exchanged(
                    channel.names.motive, channel.gate.swapped_with)

    def begin_lift(self) -> None:
        """Start to measure displacements, from the present positions."""
        self.lifting = True
        for channel in self._pipeline.bodies:
            self._follow(channel)

    def _note_changes(self) -> None:
        """Note the bodies that changed their state."""
        for change in self._pipeline.take_state_changes():
            self._observation.changed(change.body, change.after)

    def _follow(self, channel: TrackedBody) -> None:
        good = channel.gate.hypotheses.last_good
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
        pipeline = self._pipeline
        self._observation.fill(stream, pipeline.bodies, now_ns, self._twins)
        facts_of_pipeline(pipeline, facts=stream)
        stream.lifts = tuple(self._lifts.values()) if self.lifting else None
