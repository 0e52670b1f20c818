# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Statistics, events and envelopes of each body of a take, in one pass over blocks of its poses.

Whole arrays exist of stamps and of some bytes a pose; the poses themselves are in memory block by
block. Plots draw the minimum and maximum of each column of pixels, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.recording.columns import Rows
from optitrack_vrpn.recording.take import Body, Take
from optitrack_vrpn.recording.trajectory import Floats, GAP_INTERVALS, Mask, Stamps
from optitrack_vrpn.stats import Spread, spread
from optitrack_vrpn.units import NS_PER_S

#: Number of samples of the running standard deviation, as in the OptiTrack interface thesis.
WINDOW = 100
#: Scatter (m, rad) below which a body is at rest in a window: three times the noise of a good
#: installation, far below motion by hand.
REST_M = 0.001
REST_RAD = np.radians(0.3)
#: Smallest duration of a rest for noise and drift (s).
LEAST_REST_S = 2.0
#: Columns of pixels of a plot.
COLUMNS = 800
#: Two poses further apart than this (m) at a higher speed (m/s) than any body in a laboratory are
#: a jump; likewise for angles (rad, rad/s).
_JUMP = ((0.05, 20.0), (0.5, 60.0))
#: Identical poses in succession that are frozen data.
_FROZEN = 10
#: Frames from an end of a gap or a freeze to a jump that belongs to it.
_EDGE_FRAMES = 2.5
#: Poses of a block: 30 MB of temporary arrays.
_BLOCK = 60_000

Spans = list[tuple[int, int]]


class Rest(NamedTuple):
    """
    A body at rest.

    :ivar seconds: duration of the longest rest (s).
    :ivar begin_ns: its begin (ns).
    :ivar sigma3_mm: three standard deviations over 100 samples, worst axis, median over windows
        (mm).
    :ivar sigma3_deg: the same for the attitude (degrees).
    :ivar drift_mm: distance between the mean positions of its first and last tenth (mm).
    """

    seconds: float
    begin_ns: int
    sigma3_mm: float
    sigma3_deg: float
    drift_mm: float


class Envelope(NamedTuple):
    """
    Quantities of a body by column of pixels.

    :ivar times_ns: stamp of the first pose of each column; (columns,).
    :ivar low: minima, by quantity; (columns,) each.
    :ivar high: maxima, likewise.
    :ivar broken: whether a gap or a break lies before each column; (columns,).
    """

    times_ns: Stamps
    low: dict[str, Floats]
    high: dict[str, Floats]
    broken: Mask


class Figures(NamedTuple):
    """
    Statistics of one body.

    :ivar span_ns: first and last stamp.
    :ivar coverage: fraction of the take's duration in which its poses arrived, 0 to 1.
    :ivar gaps_ns: stamps of the last pose before and the first pose after each gap.
    :ivar frozen_ns: first and last stamp of repeated identical poses.
    :ivar jumps_ns: stamps of poses that are further from the one before than a body can move.
    :ivar resets_ns: stamps of poses at which the node reported a reset.
    :ivar latency_ms: median of arrival minus stamp (ms); NaN without arrival times.
    :ivar jitter_ms: 99th percentile of the latency minus its median (ms).
    :ivar interval_p99_ms: 99th percentile of the intervals without gaps (ms).
    :ivar envelope: position, attitude, latency and running deviation for the plots.
    :ivar path: (n, 3) positions (m) for a picture from above; NaN interrupts the line.
    :ivar rates: middles of bins (s after the begin of the take) and rates (Hz).
    :ivar intervals: edges (ms) and counts of a histogram of the intervals of stamps.
    :ivar latencies: likewise of the latency.
    """

    name: str
    poses: int
    span_ns: tuple[int, int]
    rate_hz: float
    coverage: float
    gaps_ns: Spans
    frozen_ns: Spans
    jumps_ns: list[int]
    resets_ns: list[int]
    latency_ms: float
    latency_p99_ms: float
    jitter_ms: float
    interval_p99_ms: float
    rest: Optional[Rest]
    envelope: Envelope
    path: Floats
    rates: tuple[Floats, Floats]
    intervals: tuple[Floats, Floats]
    latencies: tuple[Floats, Floats]

    @property
    def own_jumps_ns(self) -> list[int]:
        """Return the jumps that are not at an end of a gap or a freeze."""
        within_ns = _EDGE_FRAMES * NS_PER_S / self.rate_hz if self.rate_hz > 0.0 else 0.0
        edges = [edge for span in (*self.gaps_ns, *self.frozen_ns) for edge in span]
        return [at for at in self.jumps_ns if all(abs(at - edge) > within_ns for edge in edges)]

    @property
    def resets(self) -> int:
        """Return the number of resets that the node reported."""
        return len(self.resets_ns)

    @property
    def gaps(self) -> int:
        """Return the number of gaps."""
        return len(self.gaps_ns)

    @property
    def longest_gap_s(self) -> float:
        """Return the duration of the longest gap (s)."""
        return max((after - before for before, after in self.gaps_ns), default=0) / NS_PER_S

    @property
    def gap_s(self) -> float:
        """Return the duration of all gaps (s)."""
        return sum(after - before for before, after in self.gaps_ns) / NS_PER_S

    @property
    def breaks_ns(self) -> list[int]:
        """Return the stamps of poses before which the trajectory is discontinuous."""
        return sorted({*self.jumps_ns, *self.resets_ns})


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


def runs(mask: Mask) -> npt.NDArray[np.intp]:
    """Return begin and end (exclusive) of each run of true values; (n, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return edges.reshape(-1, 2)


def blocks(body: Body) -> Iterator[tuple[int, Rows]]:
    """
    Read a body's poses in blocks, each with the last 99 poses of the one before.

    :returns: number of new poses, and the poses.
    """
    before: Optional[Rows] = None
    waiting: list[Rows] = []
    size = 0

    def joined() -> tuple[int, Rows]:
        nonlocal before, waiting, size
        table = np.concatenate([*([before] if before is not None else []), *waiting])
        found = size, table
        before, waiting, size = table[1 - WINDOW:], [], 0
        return found

    for part in body.rows.blocks():
        for at in range(0, len(part), _BLOCK):
            waiting.append(part[at:at + _BLOCK])
            size += len(waiting[-1])
            if size >= _BLOCK:
                yield joined()
    if waiting:
        yield joined()


class _Pass:
    """Arrays of a body that are filled block by block."""

    def __init__(self, stamps: Stamps, starts: Stamps, after_gap: Stamps) -> None:
        count = len(stamps)
        self._after_gap = after_gap
        self.stamps, self.starts = stamps, starts
        self.same, self.jump = np.zeros(count, bool), np.zeros(count, bool)
        #: Running deviation of position (m) and attitude (rad) that ends at each pose.
        self.deviation = np.full((2, count), np.nan, np.float32)
        self.low: dict[str, Floats] = {}
        self.high: dict[str, Floats] = {}
        self.path: list[tuple[Stamps, Floats]] = []
        self._done = 0

    def add(self, new: int, table: Rows) -> None:
        """Process a block."""
        here, done = slice(self._done, self._done + new), len(table) - new
        positions, quats = table['pose'][:, :3], table['pose'][:, 3:]
        steps, turned = np.diff(positions, axis=0), turns(quats)
        seconds = np.diff(table['stamp']) / NS_PER_S
        first = max(done, 1)    # the first pose of all has no step
        step = slice(first - 1, None)
        into = slice(here.start + first - done, here.stop)
        self.same[into] = ((steps == 0.0).all(axis=1)
                           & (np.diff(quats, axis=0) == 0.0).all(axis=1))[step]
        for values, (least, speed) in zip((steps, turned), _JUMP):
            size = np.sqrt(np.einsum('ij,ij->i', values, values))
            self.jump[into] |= ((size > least) & (size > speed * seconds))[step]
        self._done = here.stop
        if len(self.starts):
            self._add_columns(here, done, table, turned)

    def _add_columns(self, here: slice, done: int, table: Rows, turned: Floats) -> None:
        """Compute what plots need."""
        positions, quats = table['pose'][:, :3], table['pose'][:, 3:]
        # Around a fixed attitude the turns of noise cancel, so that their sum is the deviation.
        angles = np.concatenate((np.zeros((1, 3)), np.cumsum(turned, axis=0)))
        for row, values in zip(self.deviation, (positions, angles)):
            found = running_deviation(values).max(axis=1, initial=0.0)
            row[here.stop - len(found):here.stop] = found
        latency = (table['arrival'] - table['stamp'])[done:] / 1e6
        quantities = dict(zip(('east', 'north', 'up'), positions[done:].T))
        quantities.update(zip(('roll', 'pitch', 'yaw'), euler_deg(quats[done:]).T))
        quantities['latency'] = latency
        # A window that contains a gap shows motion.
        index = np.arange(here.start, here.stop)
        whole = np.where(
            np.searchsorted(self._after_gap, index, 'right')
            > np.searchsorted(self._after_gap, index - WINDOW + 2), np.nan, 1.0)
        quantities['noise'], quantities['noise_deg'] = (
            1e3 * whole * self.deviation[0, here], np.degrees(whole * self.deviation[1, here]))
        self._reduce(here, quantities, positions[done:])

    def _reduce(self, here: slice, quantities: dict[str, Floats], positions: Floats) -> None:
        """Take a block into the columns of pixels, which it can share with its neighbours."""
        first = int(np.searchsorted(self.starts, here.start, 'right')) - 1
        last = int(np.searchsorted(self.starts, here.stop))
        cuts = np.maximum(self.starts[first:last] - here.start, 0)
        for name, values in quantities.items():
            for made, reduce in ((self.low, np.fmin), (self.high, np.fmax)):
                whole = made.setdefault(name, np.full(len(self.starts), np.nan))
                whole[first:last] = reduce(whole[first:last], reduce.reduceat(values, cuts))
        # the path from above: the first pose of each column, and its extremes
        of_column = np.repeat(np.arange(len(cuts)), np.diff(np.append(cuts, len(positions))))
        chosen = [cuts]
        for values in positions[:, :2].T:
            for extreme in (np.minimum, np.maximum):
                at = np.flatnonzero(values == extreme.reduceat(values, cuts)[of_column])
                chosen.append(at[np.unique(of_column[at], return_index=True)[1]])
        index = np.unique(np.concatenate(chosen))
        self.path.append((index + here.start, positions[index]))


def body_breaks(body: Body) -> tuple[Stamps, Stamps]:
    """
    Find where the trajectory of a body is interrupted.

    :returns: stamps of the first poses after gaps, and of those before which it jumps.
    """
    if len(body.rows) < 2:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    stamps, arrivals, _, long = _times(body)
    work = _Pass(stamps, np.zeros(0, np.int64), long + 1)
    for new, table in blocks(body):
        work.add(new, table)
    return stamps[long + 1], np.union1d(stamps[work.jump], stamps[_resets(body, stamps, arrivals)])


def _times(body: Body) -> tuple[Stamps, Stamps, Stamps, Stamps]:
    """Return stamps, arrivals and intervals, and the indices of the poses before gaps."""
    stamps, arrivals = np.empty((2, len(body.rows)), np.int64)
    at = 0
    for part in body.rows.blocks():
        stamps[at:at + len(part)], arrivals[at:at + len(part)] = part['stamp'], part['arrival']
        at += len(part)
    intervals = np.diff(stamps)
    return stamps, arrivals, intervals, np.flatnonzero(
        intervals > GAP_INTERVALS * int(np.median(intervals)))


def body_figures(take: Take, body: Body) -> Figures:
    """Compute the statistics of one body with two or more poses."""
    stamps, arrivals, intervals, long = _times(body)
    median = int(np.median(intervals))
    gaps = [(int(stamps[i]), int(stamps[i + 1])) for i in long]
    # The first pose of each column of pixels.
    count = min(len(stamps), COLUMNS)
    starts = np.arange(count) if len(stamps) == count else np.unique(np.searchsorted(
        stamps, stamps[0] - np.arange(count) * (stamps[0] - stamps[-1] - 1) // COLUMNS))
    work = _Pass(stamps, starts, long + 1)
    for new, table in blocks(body):
        work.add(new, table)
    resets = _resets(body, stamps, arrivals)
    breaks = np.unique(np.concatenate((long + 1, np.flatnonzero(work.jump), resets))).astype(int)
    before = np.searchsorted(breaks, starts, 'right')
    envelope = Envelope(
        stamps[starts], work.low, work.high, np.diff(before, prepend=before[0]) > 0)
    arrivals -= stamps    # in place, as memory is that of the longest body
    late, latencies = _latency(arrivals)
    del arrivals
    span = (take.end_ns - take.begin_ns) / NS_PER_S
    # A pose counts until the next one: slow bodies are seen before their first and after their
    # last pose too.
    seen_s = float(stamps[-1] - stamps[0] + median - sum(b - a for a, b in gaps)) / NS_PER_S
    p99_ms = spread(intervals[intervals <= GAP_INTERVALS * median] / 1e6).p99
    top = min(float(np.percentile(intervals, 99.5)) * 1.5, float(intervals.max()) * 1.01) / 1e6
    return Figures(
        body.name, len(stamps), (int(stamps[0]), int(stamps[-1])),
        NS_PER_S / median if median else float('nan'),
        min(max(seen_s, 0.0) / span, 1.0) if span else 1.0, gaps,
        [(int(stamps[first - 1]), int(stamps[last - 1])) for first, last in runs(work.same)
         if last - first >= _FROZEN],
        stamps[work.jump].tolist(), stamps[resets].tolist(), late.median, late.p99,
        late.p99 - late.median, p99_ms,
        _find_rest(body, work), envelope, _path(work, breaks),
        _rates((stamps - take.begin_ns) / NS_PER_S), _histogram(intervals / 1e6, 0.0, top),
        latencies)


def _latency(delays_ns: Stamps) -> tuple[Spread, tuple[Floats, Floats]]:
    """Return percentiles (ms) and a histogram; NaN and nothing without arrival times."""
    if not delays_ns.any():
        return spread(()), (np.zeros(2), np.zeros(1))
    latency = delays_ns / 1e6
    return spread(latency), _histogram(
        latency, *map(float, np.percentile(latency, (0.1, 99.5))))


def _histogram(values: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Count values, which are limited to the range in place."""
    counts, edges = np.histogram(
        np.clip(values, low, high, out=values), 80, (low, max(high, low + 0.05)))
    return edges, counts.astype(float)


def _path(work: _Pass, breaks: Stamps) -> Floats:
    """Return the path, with NaN before each break."""
    index, positions = (np.concatenate(part) for part in zip(*work.path))
    return np.insert(positions, np.unique(np.searchsorted(index, breaks)), np.nan, axis=0)


def _rates(seconds: Floats) -> tuple[Floats, Floats]:
    """
    Count poses over time, in up to 200 bins of at least 0.25 s.

    The first pose ends no interval, so that a bin excludes its lower edge.
    """
    width = max((seconds[-1] - seconds[0]) / 200, 0.25)
    edges = np.arange(seconds[0], seconds[-1], width)
    counts = np.diff(np.searchsorted(seconds, edges, side='right'))
    return edges[:-1] + width / 2, counts / width


def _resets(body: Body, stamps: Stamps, arrivals: Stamps) -> Stamps:
    """Return the indices of poses at which resets were reported: near, after the largest step."""
    found: set[int] = set()
    before: Optional[int] = None
    reported = []
    for row in body.states:
        if before is not None and row.resets > before:
            reported.append(row.time_ns)
        before = row.resets
    if not reported or len(stamps) < 2:
        return np.zeros(0, np.int64)
    near = {time_ns: np.flatnonzero(np.abs(arrivals[1:] - time_ns) < NS_PER_S // 2)
            for time_ns in reported}
    index = np.unique(np.concatenate([np.zeros(0, np.int64), *near.values()])).astype(np.int64)
    wanted = np.unique(np.concatenate((index, index + 1)))
    positions = dict(zip(wanted.tolist(), positions_at(body, wanted)))
    for time_ns, places in near.items():
        if not len(places):
            found.add(min(int(np.searchsorted(arrivals, time_ns)), len(stamps) - 1))
            continue
        steps = [float(np.linalg.norm(positions[at + 1] - positions[at]))
                 + float(stamps[at + 1] - stamps[at]) / NS_PER_S for at in places.tolist()]
        found.add(int(places[int(np.argmax(steps))]) + 1)
    return np.array(sorted(found - {0}), np.int64)


def positions_at(body: Body, index: Stamps) -> Floats:
    """Return the positions of chosen poses; (n, 3)."""
    begin, found = 0, [np.zeros((0, 3))]
    for part in body.rows.blocks():
        first, last = np.searchsorted(index, (begin, begin + len(part)))
        found.append(part['pose'][index[first:last] - begin, :3])
        begin += len(part)
    return np.concatenate(found)


def _find_rest(body: Body, work: _Pass) -> Optional[Rest]:
    """Find the longest rest; return None if it is shorter than two seconds."""
    position, attitude = work.deviation[:, WINDOW - 1:]
    calm = runs((position < REST_M) & (attitude < REST_RAD))
    if not len(calm):
        return None
    first, last = calm[int(np.argmax(calm[:, 1] - calm[:, 0]))].tolist()
    end = last + WINDOW - 1
    seconds = float(work.stamps[end - 1] - work.stamps[first]) / NS_PER_S
    if seconds < LEAST_REST_S:
        return None
    tenth = max((end - first) // 10, 10)
    ends = [positions_at(body, np.arange(begin, begin + tenth)).mean(axis=0)
            for begin in (first, end - tenth)]
    return Rest(seconds, int(work.stamps[first]), 3e3 * float(np.median(position[first:last])),
                3.0 * float(np.degrees(np.median(attitude[first:last]))),
                1e3 * float(np.linalg.norm(ends[1] - ends[0])))
