# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Trajectories as arrays: stamps in integer nanoseconds, positions, attitudes.

A double represents Unix seconds with a resolution of 0.24 us only, so stamps are integers, and
every floating-point time here is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.space import slerp
from optitrack_vrpn.core.stats import usual_step
from optitrack_vrpn.core.units import NS_PER_S
from scipy.spatial.transform import Rotation

Floats = npt.NDArray[np.float64]
Stamps = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Multiple of the usual interval above which an interval is a gap. Chosen: one lost frame (2) is
#: bridged.
GAP_INTERVALS = 2.5
#: Chosen: poses that are converted at once, which bounds the memory of Python's objects.
_AT_ONCE = 8192


@dataclass(frozen=True, eq=False)
class Trajectory:
    """
    Poses of one body over time.

    :ivar stamps_ns: (n,) int64, strictly rising.
    :ivar positions: (n, 3), metres, in the parent frame.
    :ivar quats_xyzw: (n, 4), quaternions parent_from_child, of any norm above 0.
    """

    stamps_ns: Stamps
    positions: Floats
    quats_xyzw: Floats

    def __post_init__(self) -> None:
        """
        Check shapes, order and values.

        :raises ConfigurationError: if the shapes of the arrays differ, stamps do not rise, a value
            is not finite or a quaternion is zero.
        """
        stamps = np.asarray(self.stamps_ns, dtype=np.int64)
        positions = np.asarray(self.positions, dtype=float).reshape(-1, 3)
        quats = np.asarray(self.quats_xyzw, dtype=float).reshape(-1, 4)
        if not len(stamps) == len(positions) == len(quats):
            raise ConfigurationError(
                f'a trajectory needs as many stamps ({len(stamps)}) as positions '
                f'({len(positions)}) and attitudes ({len(quats)})')
        if len(stamps) > 1 and not np.all(np.diff(stamps) > 0):
            at = int(np.argmax(np.diff(stamps) <= 0)) + 1
            raise ConfigurationError(
                f'stamps of a trajectory must rise; number {at} ({stamps[at]} ns) does not')
        norms = np.linalg.norm(quats, axis=1)
        if not (np.isfinite(positions).all() and np.isfinite(norms).all() and (norms > 0).all()):
            raise ConfigurationError('a trajectory contains a pose that is not finite, or a zero '
                                     'quaternion')
        object.__setattr__(self, 'stamps_ns', stamps)
        object.__setattr__(self, 'positions', positions)
        object.__setattr__(self, 'quats_xyzw', quats)

    def __len__(self) -> int:
        return len(self.stamps_ns)

    @classmethod
    def from_matrices(cls, stamps_ns: npt.ArrayLike, poses: npt.ArrayLike) -> Trajectory:
        """
        Make a trajectory from 4x4 transforms.

        :param poses: (n, 4, 4), parent_from_child; an empty list for none.
        """
        table = np.reshape(np.asarray(poses, dtype=float), (-1, 4, 4))
        quats = Rotation.from_matrix(table[:, :3, :3]).as_quat() if len(table) else table[:, :, 0]
        return cls(np.asarray(stamps_ns, dtype=np.int64), table[:, :3, 3], quats)

    @property
    def matrices(self) -> Floats:
        """Return the poses as transforms, (n, 4, 4)."""
        made: Floats = np.tile(np.eye(4), (len(self), 1, 1))
        made[:, :3, :3], made[:, :3, 3] = self.rotations.as_matrix(), self.positions
        return made

    @property
    def rotations(self) -> Rotation:
        """Return the attitudes as one scipy Rotation."""
        return Rotation.from_quat(self.quats_xyzw)

    @property
    def duration_s(self) -> float:
        """Return the time from the first pose to the last."""
        return float(self.stamps_ns[-1] - self.stamps_ns[0]) / NS_PER_S if len(self) else 0.0

    @property
    def step_ns(self) -> int:
        """Return the usual time from one pose to the next; 0 for fewer than two poses."""
        return int(usual_step(self.stamps_ns))

    def rows(self) -> Iterator[tuple[int, list[float]]]:
        """Return the stamp and x y z, x y z w of each pose, as numbers of Python."""
        for at in range(0, len(self), _AT_ONCE):
            part = slice(at, at + _AT_ONCE)
            yield from zip(self.stamps_ns[part].tolist(), np.hstack((
                self.positions[part], self.quats_xyzw[part])).tolist())

    def at(self, index: npt.NDArray[np.intp] | Mask | slice) -> Trajectory:
        """Return the poses selected by index, mask or slice."""
        return Trajectory(
            self.stamps_ns[index], self.positions[index], self.quats_xyzw[index])

    def around(self, times_ns: Stamps) -> Trajectory:
        """Return the poses that are needed to interpolate at these times."""
        after = np.searchsorted(self.stamps_ns, times_ns)
        needed = np.zeros(len(self) + 1, dtype=bool)
        needed[after] = needed[np.maximum(after - 1, 0)] = True
        return self.at(needed[:-1])

    def shifted(self, offset_ns: int) -> Trajectory:
        """Return the trajectory with a time added to every stamp."""
        return Trajectory(self.stamps_ns + offset_ns, self.positions, self.quats_xyzw)

    def transformed(self, rotation: Rotation, translation: Floats) -> Trajectory:
        """
        Transform the poses to another parent frame: ``new_from_old`` times each pose.

        :param rotation: rotation of ``new_from_old``.
        :param translation: translation of ``new_from_old`` (m).
        """
        return Trajectory(self.stamps_ns, rotation.apply(self.positions) + translation,
                          (rotation * self.rotations).as_quat())

    def of_child(self, rotation: Rotation, translation: Floats) -> Trajectory:
        """
        Return the poses of a frame that is fixed to the body: each pose times ``body_from_child``.

        :param rotation: rotation of ``body_from_child``.
        :param translation: translation of ``body_from_child`` (m).
        """
        own = self.rotations
        return Trajectory(self.stamps_ns, self.positions + own.apply(translation),
                          (own * rotation).as_quat())


def gap_limit_ns(trajectory: Trajectory) -> int:
    """Return the longest interval between neighbours that is not a gap (ns)."""
    return int(GAP_INTERVALS * trajectory.step_ns)


def interpolate(
    trajectory: Trajectory, times_ns: Stamps, max_gap_ns: Optional[int] = None,
    breaks_ns: Optional[Stamps] = None,
) -> tuple[Floats, Floats, Mask]:
    """
    Interpolate positions linearly and attitudes by slerp.

    The function does not extrapolate, and does not interpolate across a gap or a break.

    :param times_ns: (m,) times of the results.
    :param max_gap_ns: longest interval between neighbours that is bridged; by default
        ``gap_limit_ns``.
    :param breaks_ns: stamps of poses before which the trajectory is discontinuous.
    :returns: positions (m, 3), unit quaternions x y z w (m, 4), and validity (m,); invalid values
        are NaN.
    """
    times_ns = np.asarray(times_ns, dtype=np.int64)
    count = len(times_ns)
    positions, quats = np.full((count, 3), np.nan), np.full((count, 4), np.nan)
    valid = np.zeros(count, dtype=bool)
    stamps = trajectory.stamps_ns
    if not len(trajectory):
        return positions, quats, valid
    after = np.searchsorted(stamps, times_ns, 'left')
    inside = after < len(stamps)
    exact = np.zeros(count, dtype=bool)
    exact[inside] = stamps[after[inside]] == times_ns[inside]
    limit = gap_limit_ns(trajectory) if max_gap_ns is None else max_gap_ns
    between = inside & ~exact & (after > 0)
    upper = after[between]
    span = stamps[upper] - stamps[upper - 1]
    bridged = span <= limit
    if breaks_ns is not None and len(breaks_ns):
        bridged &= ~np.isin(stamps[upper], breaks_ns)
    chosen = np.flatnonzero(between)[bridged]
    upper, span = upper[bridged], span[bridged]
    lower = upper - 1
    share = (times_ns[chosen] - stamps[lower]) / span
    positions[chosen] = (trajectory.positions[lower] * (1.0 - share[:, None])
                         + trajectory.positions[upper] * share[:, None])
    if len(chosen):
        first, second = (Rotation.from_quat(trajectory.quats_xyzw[at]) for at in (lower, upper))
        quats[chosen] = slerp(first, second, share).as_quat()
    positions[exact] = trajectory.positions[after[exact]]
    quats[exact] = trajectory.quats_xyzw[after[exact]]
    valid[chosen] = valid[exact] = True
    return positions, quats, valid


def covered(trajectory: Trajectory, from_ns: Stamps, to_ns: Stamps) -> Mask:
    """
    Return whether a trajectory can be interpolated at all times of each interval.

    :param from_ns: (m,) times at which the intervals begin.
    :param to_ns: (m,) times at which they end.
    """
    _, _, begun = interpolate(trajectory, from_ns)
    _, _, ended = interpolate(trajectory, to_ns)
    stamps = trajectory.stamps_ns
    # Number of the gaps before each stamp.
    gaps = np.append(0, np.cumsum(np.diff(stamps) > gap_limit_ns(trajectory)))
    begin, end = np.searchsorted(stamps, from_ns), np.searchsorted(stamps, to_ns)
    inside: Mask = begun & ended
    inside[inside] = gaps[begin[inside]] == gaps[end[inside]]
    return inside
