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

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.settings import checked, setting

Frames = NDArray[np.int64]

#: A number beyond all frames.
_NEVER = 1 << 60


class Activity(NamedTuple):
    """
    The frames that a fault affects.

    :ivar active: (n,) bool.
    :ivar since: (n,) the first frame of the interval that contains the frame; undefined where
        ``active`` is False.
    """

    active: NDArray[np.bool_]
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
    length = _NEVER if end is None else frame_at(end, rate) - first
    since = np.full_like(frames, first)
    if every > 0:
        step = max(1, round(every * rate))
        since = first + (frames - first) // step * step
    ahead = frames - since
    return Activity((frames >= first) & (ahead >= 0) & (ahead < length), since)


def _start() -> Any:
    return setting(0.0, unit='s', low=0.0, high=1e7, doc='start of the interval')


def _end() -> Any:
    return setting(None, unit='s', low=0.0, high=1e7, doc='end of the interval; none: unlimited')


def _every() -> Any:
    return setting(0.0, unit='s', low=0.0, high=1e7, doc='period of the repetition; 0: once')


def _probability() -> Any:
    return setting(0.0, low=0.0, high=1.0, doc='probability of each frame in the interval')


class _Stretch:
    """Base of faults that last from ``start`` to ``end``."""

    start: float
    end: Optional[float]
    every: float

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


OCCLUSION_MODES = ('silent', 'frozen', 'zeroed')


@checked
@dataclass(frozen=True)
class Occlusion(_Stretch):
    """The cameras lose the body: no reports, the last pose repeated, or zeros."""

    mode: str = setting('silent', choices=OCCLUSION_MODES, doc='reports during the occlusion')
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()
    attitude: str = setting('zero', choices=('zero', 'identity'),
                            doc='quaternion of a zeroed pose: all 0, or 0 0 0 1')


@checked
@dataclass(frozen=True)
class Flip(_Stretch):
    """The attitude has an error of half a turn about a body axis: a symmetry."""

    axis: str = setting('y', choices=('x', 'y', 'z'), doc='axis of the body')
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()


@checked
@dataclass(frozen=True)
class Teleport(_Stretch):
    """The body is reported at another position, temporarily or permanently."""

    offset: tuple[float, float, float] = setting(
        (1.0, 0.0, 0.0), unit='m', low=-1e6, high=1e6, doc='added to the position')
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()


@checked
@dataclass(frozen=True)
class NotFinite(_Stretch):
    """Reports contain NaN or infinity."""

    field: str = setting(
        'position', choices=('position', 'attitude', 'both'), doc='the affected numbers')
    value: str = setting('nan', choices=('nan', 'inf'), doc='the value that is sent')
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()


@checked
@dataclass(frozen=True)
class Outlier:
    """One single frame is wrong: mislabelled markers."""

    at: float = setting(MISSING, unit='s', low=0.0, high=1e7, doc='time of the frame')
    offset: tuple[float, float, float] = setting(
        (0.5, 0.0, 0.0), unit='m', low=-1e6, high=1e6, doc='added to the position')
    turn_deg: float = setting(0.0, unit='deg', low=-180.0, high=180.0,
                              doc='added to the attitude, about the body axis y')
    every: float = _every()

    def hits(self, frames: Frames, rate: float) -> Activity:
        """Find the affected frames: one, or one per period."""
        first = frame_at(self.at, rate)
        return activity(frames, rate, first / rate, (first + 1) / rate, self.every)


@checked
@dataclass(frozen=True)
class DropFrames(_Stretch):
    """Whole frames are never sent."""

    probability: float = _probability()
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()


@checked
@dataclass(frozen=True)
class DuplicateFrames(_Stretch):
    """Frames are sent twice, with equal stamps."""

    probability: float = _probability()
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()


@checked
@dataclass(frozen=True)
class SwapLabels(_Stretch):
    """Two bodies exchange their names."""

    bodies: tuple[str, str] = setting(MISSING, doc='names of the two')
    start: float = _start()
    end: Optional[float] = _end()
    every: float = _every()


@checked
@dataclass(frozen=True)
class Restart:
    """
    Motive is closed and opened again.

    Its clock restarts (with ``base: motive``) and its ids change.
    """

    at: float = setting(MISSING, unit='s', low=0.0, high=1e7, doc='time of the restart')
    downtime: float = setting(1.0, unit='s', low=0.0, high=3600.0, doc='time without a server')
    every: float = _every()


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
