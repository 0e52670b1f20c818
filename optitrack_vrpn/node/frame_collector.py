# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Collect samples into frames of several bodies, decimated by stamp; imports no ROS.

Samples of one frame share ``Sample.frame_ns`` and may come in several datagrams. A frame is
complete when it contains the bodies of the frame before; otherwise it ends with the first sample
of the next one.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from optitrack_vrpn.motion import Quat, Vector
from optitrack_vrpn.throttle import Decimator, period_ns


class NamedPose(NamedTuple):
    """A body's name in ROS, its pose in ENU, and its name at the sender."""

    name: str
    position: Vector
    quat_xyzw: Quat
    sender: str = ''


class Frame(NamedTuple):
    """
    The bodies seen at one time, by name in alphabetical order.

    :ivar stamp_ns: capture time (ns).
    """

    stamp_ns: int
    poses: list[NamedPose]


class FrameCollector:
    """
    Collect samples into frames.

    :param rate_hz: rate of collected frames; others are skipped, by stamp; 0 collects all.
    """

    def __init__(self, rate_hz: float) -> None:
        self._decimator = Decimator(period_ns(rate_hz))
        self._stamp_ns = -1
        self._poses: dict[str, NamedPose] = {}
        self._before: frozenset[str] = frozenset()
        self._wanted = False
        self._done = True

    def set_rate(self, rate_hz: float) -> None:
        """Change the rate from the next frame on."""
        self._decimator.retime(period_ns(rate_hz))

    def add(self, stamp_ns: int, pose: NamedPose) -> Optional[Frame]:
        """
        Add a sample.

        :returns: the previous frame, if this sample begins another and the previous one was
            incomplete.
        """
        ended = None
        if stamp_ns != self._stamp_ns:
            ended = self._end()
            self._begin(stamp_ns)
        if self._wanted:
            self._poses[pose.name] = pose
        return ended

    def complete(self) -> Optional[Frame]:
        """Return the present frame if it has all bodies of the previous; call after a batch."""
        if self._done or not self._before or not self._before <= self._poses.keys():
            return None
        return self._end()

    def _begin(self, stamp_ns: int) -> None:
        self._stamp_ns = stamp_ns
        self._poses = {}
        self._wanted = self._decimator.take(stamp_ns)
        self._done = not self._wanted

    def _end(self) -> Optional[Frame]:
        """End the present frame; a body that arrives later belongs to no frame."""
        poses = self._poses
        if self._wanted and poses:
            self._before = frozenset(poses)
        if self._done or not poses:
            return None
        self._done = True
        return Frame(self._stamp_ns, [poses[name] for name in sorted(poses)])
