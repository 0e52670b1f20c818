# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of poses that are read block by block: steps, deviation, samples, runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.takes.columns import Rows
from optitrack_vrpn.takes.take import Body
from optitrack_vrpn.takes.trajectory import Floats, Mask, Stamps

#: Number of samples of the running standard deviation, as in the OptiTrack interface thesis.
WINDOW = 100
#: Poses of a block: 30 MB of temporary arrays.
_BLOCK = 60_000
#: Values of which percentiles are exact: 14 minutes at 240 Hz, 2 MB.
_EXACT = 200_000


class Sample:
    """
    Values for percentiles in constant memory: all up to 200 000, then as large a random sample.

    The rank of a percentile of the sample differs by less than 0.1 % (two standard deviations at
    half of that size); the choice is the same in each run.
    """

    def __init__(self) -> None:
        self._parts: list[Floats] = []
        self._size, self._share = 0, 1.0
        self._random = np.random.default_rng(0)

    def add(self, values: npt.NDArray[np.generic]) -> None:
        """Add values."""
        if self._share < 1.0:
            values = values[self._random.random(len(values)) < self._share]
        self._parts.append(np.array(values, float))
        self._size += len(values)
        while self._size > _EXACT:
            whole = self.values()
            self._parts = [whole[self._random.random(len(whole)) < 0.5]]
            self._size, self._share = len(self._parts[0]), self._share / 2

    def values(self) -> Floats:
        """Return the sample."""
        return np.concatenate(self._parts or [np.zeros(0)])


def running_deviation(values: Floats, window: int = WINDOW) -> Floats:
    """
    Return the standard deviation over a sliding window.

    :param values: (n, k).
    :returns: (n - window + 1, k); empty for fewer values.
    """
    if len(values) < window:
        return np.zeros((0, values.shape[1]))
    centred = np.ascontiguousarray((values - values.mean(axis=0)).T)
    sums = np.zeros((2, values.shape[1], len(values) + 1))
    for row, part in zip(sums, (centred, centred ** 2)):
        np.cumsum(part, axis=1, out=row[:, 1:])
    mean, square = (sums[:, :, window:] - sums[:, :, :-window]) / window
    result: Floats = np.sqrt(np.maximum(square - mean ** 2, 0.0) * window / (window - 1)).T
    return result


def turns(quats: Floats) -> Floats:
    """
    Return the rotation vector (rad) from each attitude to the next.

    :param quats: (n, 4), x y z w, of any norm above 0.
    :returns: (n - 1, 3).
    """
    x, y, z, w = np.ascontiguousarray(quats.T) / np.sqrt(np.einsum('ij,ij->i', quats, quats))
    (x0, y0, z0, w0), (x1, y1, z1, w1) = ([part[side] for part in (x, y, z, w)]
                                          for side in (slice(-1), slice(1, None)))
    vector = np.stack((w0 * x1 - w1 * x0 - (y0 * z1 - z0 * y1),
                       w0 * y1 - w1 * y0 - (z0 * x1 - x0 * z1),
                       w0 * z1 - w1 * z0 - (x0 * y1 - y0 * x1)))
    scalar = x0 * x1 + y0 * y1 + z0 * z1 + w0 * w1
    sine = np.sqrt((vector * vector).sum(axis=0))
    angle = 2.0 * np.arctan2(sine, np.abs(scalar))
    scale = np.divide(angle, sine, out=np.full(len(sine), 2.0), where=sine > 0.0)
    result: Floats = (vector * np.where(scalar < 0.0, -scale, scale)).T
    return result


def euler_deg(quats: Floats) -> Floats:
    """Return roll, pitch and yaw (degrees) of attitudes x y z w; (n, 3)."""
    x, y, z, w = (quats / np.linalg.norm(quats, axis=1)[:, None]).T
    result: Floats = np.degrees(np.column_stack((
        np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y)),
        np.arcsin(np.clip(2 * (w * y - z * x), -1.0, 1.0)),
        np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)))))
    return result


class Run(NamedTuple):
    """
    Poses in succession.

    :ivar first: index of the first one.
    :ivar last: index after the last one.
    :ivar span_ns: begin and end (ns).
    """

    first: int
    last: int
    span_ns: tuple[int, int]


def extend_runs(
    known: list[Run], mask: Mask, first: int, begins: Stamps, ends: Stamps, least: int = 1,
) -> None:
    """
    Add the runs of true values of a block; one that continues the last known run is joined to it.

    :param first: index of the first value.
    :param begins: time at which a run begins that begins at each value (ns).
    :param ends: time at which a run ends that ends with each value (ns).
    :param least: length of a run that is kept; shorter ones are kept while they can continue.
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    found = edges.reshape(-1, 2)
    whole = (found[:, 1] - found[:, 0] >= least) | (found[:, 0] == 0) | (found[:, 1] == len(mask))
    for begin, end in found[whole].tolist():
        run = Run(first + begin, first + end, (int(begins[begin]), int(ends[end - 1])))
        if known and known[-1].last == run.first:
            before = known.pop()
            run = Run(before.first, run.last, (before.span_ns[0], run.span_ns[1]))
        elif known and known[-1].last - known[-1].first < least:
            known.pop()
        known.append(run)


class Block(NamedTuple):
    """
    Poses of a block.

    :ivar first: index of its first new pose.
    :ivar done: number of poses at its begin that were in the block before: up to 99.
    :ivar table: the poses.
    """

    first: int
    done: int
    table: Rows

    @property
    def new(self) -> slice:
        """Return where the new poses are in the table."""
        return slice(self.done, None)

    @property
    def step(self) -> slice:
        """Return which steps between poses of the table end at new poses."""
        return slice(max(self.done - 1, 0), None)

    @property
    def ends(self) -> slice:
        """Return the poses at which these steps end; the first pose of all has no step."""
        return slice(max(self.done, 1), None)

    @property
    def first_end(self) -> int:
        """Return the index of the first of them."""
        return self.first + (0 if self.done else 1)


def blocks(body: Body, begin: int = 0, end: Optional[int] = None) -> Iterator[Block]:
    """Read poses, by default all, in blocks."""
    before: Optional[Rows] = None
    waiting: list[Rows] = []
    first, size = begin, 0

    def joined() -> Block:
        nonlocal before, waiting, first, size
        old = 0 if before is None else len(before)
        table = np.concatenate([*([] if before is None else [before]), *waiting])
        found = Block(first, old, table)
        before, waiting, first, size = table[1 - WINDOW:], [], first + size, 0
        return found

    for part in body.rows.blocks(begin, end):
        for at in range(0, len(part), _BLOCK):
            waiting.append(part[at:at + _BLOCK])
            size += len(waiting[-1])
            if size >= _BLOCK:
                yield joined()
    if waiting:
        yield joined()


def deviations(table: Rows, turned: Floats) -> Floats:
    """
    Return the running deviation of position (m) and attitude (rad), of the worst axis.

    :param turned: rotation vectors between the poses.
    :returns: (2, n - 99).
    """
    # Around a fixed attitude the turns of noise cancel, so that their sum is the deviation.
    angles = np.concatenate((np.zeros((1, 3)), np.cumsum(turned, axis=0)))
    return np.stack([running_deviation(values).max(axis=1, initial=0.0)
                     for values in (table['pose'][:, :3], angles)])
