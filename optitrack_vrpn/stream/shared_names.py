# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Find two rigid bodies of one name: a frame then has two different poses for the name.

Datagrams that the network repeats have equal poses, and frames of a sender with a coarse clock do
not arrive together, so that one frame has one pose of each body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from optitrack_vrpn.drivers.frames import Body
from optitrack_vrpn.stream.bodies.poses import pose_distance
from optitrack_vrpn.stream.roster import TrackedBody

APART_M: Final = 0.02
"""Distance (m, with 0.1 m per radian) of two poses that noise cannot have: ten times the noise of
a poor calibration, as ``position_margin``."""
ENOUGH, FAR, NEAR = 20, 11, 2
"""Evidence from which poses are withheld, until none is left; what a frame with poses that far
apart, or nearer, adds. A frame with one pose removes one. Two frames show it, as a body is
acquired."""


class SharedNames:
    """
    Withhold the poses of names that two bodies share; see ``Tracker.share_name``.

    :ivar evidence: evidence by body, of those for whose name a frame had two poses of late.
    """

    def __init__(self) -> None:
        self.evidence: dict[TrackedBody, int] = {}

    def begin_frame(self, channel: TrackedBody) -> None:
        """Note the first pose of a body in a frame."""
        left = self.evidence.get(channel, 0) - 1
        if left > 0:
            self.evidence[channel] = left
        else:
            self.forget(channel)

    def repeated(self, channel: TrackedBody, bodies: Sequence[Body], body: Body) -> None:
        """Compare a pose with the first one of the same name in its frame."""
        first = next(each for each in bodies if each[:2] == body[:2])
        if first[3:5] == body[3:5]:
            return
        apart = pose_distance(first.position, first.quat_xyzw, body.position, body.quat_xyzw)
        evidence = self.evidence.get(channel, 0) + (NEAR if apart <= APART_M else FAR)
        self.evidence[channel] = min(evidence, ENOUGH + 1)
        if evidence >= ENOUGH:
            channel.gate.share_name(True)

    def forget(self, channel: TrackedBody) -> None:
        """Forget a body."""
        if self.evidence.pop(channel, 0):
            channel.gate.share_name(False)

    def clear(self) -> None:
        """Forget all."""
        for channel in list(self.evidence):
            self.forget(channel)
