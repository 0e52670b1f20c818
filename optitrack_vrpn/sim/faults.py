# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Faults of bodies and frames in a scenario, and their times.

Times are seconds of the scenario and are converted to frames, so that a fault affects the same
frames independent of rounding.
"""

from dataclasses import dataclass, MISSING
import math
from typing import Any, NamedTuple, Optional, Union

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.core.arrays import quat_multiply
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.settings.schema import checked, setting
from optitrack_vrpn.sim.motion import Array

Frames = NDArray[np.int64]
Mask = NDArray[np.bool_]

_HALF_TURN = {'x': (1.0, 0.0, 0.0, 0.0), 'y': (0.0, 1.0, 0.0, 0.0), 'z': (0.0, 0.0, 1.0, 0.0)}


class Activity(NamedTuple):
    """
    The frames that a fault affects.

    :ivar active: (n,) bool.
    :ivar since: (n,) the first frame of the interval that contains the frame; undefined where
        ``active`` is False.
    """

    active: Mask
    since: Frames


def frame_at(time: float, rate: float) -> int:
    """Find the first frame at or after a time (s); frame k is at k / rate."""
    return math.ceil(time * rate - 1e-6)


def activity(
    frames: Frames, rate: float, start: float, end: Optional[float], every: float,
) -> Activity:
    """
    Find the frames in [start, end), repeated periodically.

    :param frames: (n,) numbers of frames.
    :param rate: frames per second.
    :param start: seconds.
    :param end: seconds; None for ever.
    :param every: seconds from one start to the next; 0 for once.
    """
    first = frame_at(start, rate)
    # A number beyond all frames for a fault without end.
    length = 1 << 60 if end is None else frame_at(end, rate) - first
    since = np.full_like(frames, first)
    if every > 0:
        step = max(1, round(every * rate))
        since = first + (frames - first) // step * step
    ahead = frames - since
    return Activity((frames >= first) & (ahead >= 0) & (ahead < length), since)


def _time(doc: str, default: Any = 0.0) -> Any:
    return setting(default, unit='s', low=0.0, high=1e7, doc=doc)


def _offset(x: float) -> Any:
    return setting((x, 0.0, 0.0), unit='m', low=-1e6, high=1e6, doc='added to the position')


@dataclass(frozen=True, kw_only=True)
class _Repeated:
    """Base of all faults."""

    every: float = _time('period of the repetition; 0: once')


@dataclass(frozen=True, kw_only=True)
class Interval(_Repeated):
    """Base of faults that last from ``start`` to ``end``."""

    start: float = _time('start of the interval')
    end: Optional[float] = _time('end of the interval; none: unlimited', None)

    def check(self) -> None:
        """
        Check the order of the times.

        :raises ConfigurationError: if the interval ends before it begins, or overlaps the next.
        """
        if self.end is not None and self.end <= self.start:
            raise ConfigurationError(
                f'end: {self.end:g} is not after start {self.start:g}; allowed: a later time')
        if self.every and (self.end is None or self.every <= self.end - self.start):
            raise ConfigurationError(
                f'every: {self.every:g} s is not longer than the interval; allowed: 0 '
                '(once) or more than end - start')

    def hits(self, frames: Frames, rate: float) -> Activity:
        """Find the affected frames; see ``activity``."""
        return activity(frames, rate, self.start, self.end, self.every)


@dataclass(frozen=True, kw_only=True)
class _Once(_Repeated):
    """Base of faults of one frame, or of one per period."""

    at: float = _time('its time', MISSING)

    def hits(self, frames: Frames, rate: float) -> Activity:
        """Find the affected frames; see ``activity``."""
        first = frame_at(self.at, rate)
        return activity(frames, rate, first / rate, (first + 1) / rate, self.every)


OCCLUSION_MODES = ('silent', 'frozen', 'zeroed')


@checked
@dataclass(frozen=True)
class Occlusion(Interval):
    """The cameras lose the body: no reports, the last pose repeated, or zeros."""

    mode: str = setting('silent', choices=OCCLUSION_MODES, doc='reports during the occlusion')
    attitude: str = setting('zero', choices=('zero', 'identity'),
                            doc='quaternion of a zeroed pose: all 0, or 0 0 0 1')

    def apply(self, position: Array, quat_xyzw: Array, active: Mask) -> None:
        """Modify the affected poses, (n, 3) m and (n, 4), in place."""
        if self.mode == 'zeroed':
            position[active] = 0.0
            quat_xyzw[active] = (0.0, 0.0, 0.0, float(self.attitude == 'identity'))


@checked
@dataclass(frozen=True)
class Flip(Interval):
    """The attitude has an error of half a turn about a body axis: a symmetry."""

    axis: str = setting('y', choices=('x', 'y', 'z'), doc='axis of the body')

    def apply(self, position: Array, quat_xyzw: Array, active: Mask) -> None:
        """Modify the affected poses in place."""
        quat_xyzw[active] = quat_multiply(quat_xyzw[active], np.array(_HALF_TURN[self.axis]))


@checked
@dataclass(frozen=True)
class Teleport(Interval):
    """The body is reported at another position, temporarily or permanently."""

    offset: tuple[float, float, float] = _offset(1.0)

    def apply(self, position: Array, quat_xyzw: Array, active: Mask) -> None:
        """Modify the affected poses in place."""
        position[active] += self.offset


@checked
@dataclass(frozen=True)
class NotFinite(Interval):
    """Reports contain NaN only."""

    def apply(self, position: Array, quat_xyzw: Array, active: Mask) -> None:
        """Modify the affected poses in place."""
        position[active] = quat_xyzw[active] = math.nan


@checked
@dataclass(frozen=True)
class Outlier(_Once):
    """One single frame is wrong: mislabelled markers."""

    offset: tuple[float, float, float] = _offset(0.5)

    def apply(self, position: Array, quat_xyzw: Array, active: Mask) -> None:
        """Modify the affected poses in place."""
        position[active] += self.offset


class FrameEffect(NamedTuple):
    """
    What faults do to one frame.

    :ivar copies: number of its transmissions.
    :ivar names: names of the bodies, in their order.
    """

    copies: int
    names: list[str]


@dataclass(frozen=True, kw_only=True)
class _RandomFrames(Interval):
    """Base of faults that affect frames at random."""

    probability: float = setting(
        0.0, low=0.0, high=1.0, doc='probability of each frame in the interval')


@checked
@dataclass(frozen=True)
class DropFrames(_RandomFrames):
    """Whole frames are never sent."""

    def affect(self, effect: FrameEffect, draw: float) -> FrameEffect:
        """Affect one frame; ``draw`` is uniform in [0, 1)."""
        return effect._replace(copies=0) if draw < self.probability else effect


@checked
@dataclass(frozen=True)
class DuplicateFrames(_RandomFrames):
    """Frames are sent twice, with equal stamps."""

    def affect(self, effect: FrameEffect, draw: float) -> FrameEffect:
        """Affect one frame; see ``DropFrames``."""
        return effect._replace(copies=min(2 * effect.copies, 2)) if (
            draw < self.probability) else effect


@checked
@dataclass(frozen=True)
class SwapLabels(Interval):
    """Two bodies exchange their names."""

    bodies: tuple[str, str] = setting(MISSING, doc='names of the two')

    def check(self) -> None:
        """
        Check the interval and the names.

        :raises ConfigurationError: if both names are the same.
        """
        super().check()
        if self.bodies[0] == self.bodies[1]:
            raise ConfigurationError(f'bodies: {list(self.bodies)} is one body; allowed: two')

    def affect(self, effect: FrameEffect, draw: float) -> FrameEffect:
        """Affect one frame; see ``DropFrames``."""
        one, other = self.bodies
        exchanged = {one: other, other: one}
        return effect._replace(names=[exchanged.get(name, name) for name in effect.names])


@checked
@dataclass(frozen=True)
class Restart(_Once):
    """Motive is restarted: its clock (with ``base: motive``) starts again, and its ids change."""

    downtime: float = setting(1.0, unit='s', low=0.0, high=3600.0, doc='time without a server')


BodyFault = Union[Occlusion, Flip, Teleport, NotFinite, Outlier]
FrameFault = Union[DropFrames, DuplicateFrames, SwapLabels, Restart]

#: Names in scenario files.
BODY_FAULTS: dict[str, type[Any]] = {
    'occlusion': Occlusion, 'flip': Flip, 'teleport': Teleport, 'not_finite': NotFinite,
    'outlier': Outlier,
}
FRAME_FAULTS: dict[str, type[Any]] = {
    'drop_frames': DropFrames, 'duplicate_frames': DuplicateFrames, 'swap_labels': SwapLabels,
    'restart': Restart,
}
