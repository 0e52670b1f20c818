# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Statistics, events and envelopes of each body of a take, in two passes over blocks of its poses.

Memory does not grow with the take: a first pass over stamps and arrivals samples intervals and
latency, a second one counts and finds events. Plots draw the minimum and maximum of each column of
pixels, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.stats import spread
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.series import (
    Block, blocks, deviations, euler_deg, extend_runs, Run, Sample, turns, WINDOW)
from optitrack_vrpn.takes.take import Body, Take
from optitrack_vrpn.takes.trajectory import Floats, GAP_INTERVALS, Mask, Stamps

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
#: Bars of a histogram.
_BARS = 80

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


class _Survey:
    """The first pass over a body: what must be known before its events are found."""

    def __init__(self, body: Body) -> None:
        self.intervals, self.delays = Sample(), Sample()
        self.longest_ns = 0
        self.has_arrivals = False
        first = last = None
        for part in body.rows.blocks():
            stamps = part['stamp']
            steps = np.diff(stamps, prepend=stamps[:1] if last is None else last)
            steps = steps[1:] if last is None else steps
            first = int(stamps[0]) if first is None else first
            last = int(stamps[-1])
            self.longest_ns = max(self.longest_ns, int(steps.max(initial=0)))
            self.intervals.add(steps)
            delays = part['arrival'] - stamps
            self.has_arrivals |= bool(delays.any())
            self.delays.add(delays)
        self.span_ns = (first or 0, last or 0)
        self.median_ns = int(np.median(self.intervals.values()))


class _Breaks:
    """Where a trajectory is interrupted, found block by block."""

    def __init__(self, body: Body, survey: _Survey) -> None:
        self._limit_ns = GAP_INTERVALS * survey.median_ns
        self.gaps_ns: Spans = []
        self.frozen: list[Run] = []
        self._after_gap: list[Stamps] = []
        self._jumps: list[tuple[Stamps, Stamps]] = []    # indices and stamps
        rows = body.states
        self._reported = [row.time_ns for before, row in zip(rows, rows[1:])
                          if row.resets > before.resets]
        #: By reported reset: size of the largest step near it, index and stamp.
        self._nearest: dict[int, tuple[float, int, int]] = {}
        self._later: dict[int, tuple[int, int]] = {}
        self._last = (0, 0)

    def add(self, block: Block, turned: Floats) -> None:
        """Process a block."""
        stamps, pose = block.table['stamp'], block.table['pose']
        steps, intervals = np.diff(pose[:, :3], axis=0), np.diff(stamps)
        own, ends = intervals[block.step], stamps[block.ends]
        long = np.flatnonzero(own > self._limit_ns)
        self.gaps_ns += [(int(ends[at] - own[at]), int(ends[at])) for at in long]
        self._after_gap.append(long + block.first_end)
        same = (steps == 0.0).all(axis=1) & (np.diff(pose[:, 3:], axis=0) == 0.0).all(axis=1)
        extend_runs(self.frozen, same[block.step], block.first_end, ends - own, ends, _FROZEN)
        jump = np.zeros(len(intervals), bool)
        sizes = [np.sqrt(np.einsum('ij,ij->i', values, values)) for values in (steps, turned)]
        for size, (least, speed) in zip(sizes, _JUMP):
            jump |= (size > least) & (size > speed * intervals / NS_PER_S)
        at = np.flatnonzero(jump[block.step])
        self._jumps.append((at + block.first_end, ends[at]))
        if self._reported:
            self._add_resets(block, sizes[0][block.step] + own / NS_PER_S)
        self._last = (block.first + len(stamps) - block.done - 1, int(stamps[-1]))

    def _add_resets(self, block: Block, sizes: Floats) -> None:
        """Find the largest step near each reported reset."""
        arrivals, stamps = (block.table[name][block.ends] for name in ('arrival', 'stamp'))
        came = block.table['arrival'][block.new]
        lowest, highest = int(came.min()), int(came.max())
        for time_ns in self._reported:
            if time_ns not in self._later and highest >= time_ns:
                at = int(np.argmax(came >= time_ns))
                self._later[time_ns] = at + block.first, int(block.table['stamp'][block.done + at])
            if len(arrivals) and (
                    lowest < time_ns + NS_PER_S // 2 and highest > time_ns - NS_PER_S // 2):
                near = np.abs(arrivals - time_ns) < NS_PER_S // 2
                at = int(np.argmax(np.where(near, sizes, -1.0)))
                if near[at]:
                    self._nearest[time_ns] = max(
                        self._nearest.get(time_ns, (-1.0, 0, 0)),
                        (float(sizes[at]), at + block.first_end, int(stamps[at])),
                        key=lambda found: found[0])

    def resets(self) -> list[tuple[int, int]]:
        """Return index and stamp of the poses at which resets were reported."""
        found = {self._nearest[time_ns][1:] if time_ns in self._nearest
                 else self._later.get(time_ns, self._last) for time_ns in self._reported}
        return sorted(place for place in found if place[0])

    def after_gaps(self) -> Stamps:
        """Return the indices of the first poses after gaps."""
        return np.concatenate(self._after_gap).astype(np.int64)

    def jumps(self) -> tuple[Stamps, Stamps]:
        """Return indices and stamps of the poses to which the trajectory jumps."""
        index, stamps = (np.concatenate(column).astype(np.int64) for column in zip(*self._jumps))
        return index, stamps


class _Columns:
    """What plots draw: minimum and maximum of each column of pixels; and rests."""

    def __init__(self, survey: _Survey, whole: int) -> None:
        first, last = survey.span_ns
        self._first_ns, self._limit_ns = first, GAP_INTERVALS * survey.median_ns
        #: Duration of a column; 0 if each pose has its own.
        self._width_ns = 0 if whole <= COLUMNS else -(-(last - first + 1) // COLUMNS)
        self.starts, self.times = np.full((2, COLUMNS), -1, np.int64)
        self.low: dict[str, Floats] = {}
        self.high: dict[str, Floats] = {}
        self._path: list[tuple[Stamps, Floats]] = []
        self.calm: list[Run] = []

    def add(self, block: Block, turned: Floats) -> None:
        """Process a block."""
        table, new = block.table, block.new
        stamps, pose = table['stamp'], table['pose']
        deviation = deviations(table, turned)
        if deviation.size:
            extend_runs(self.calm, (deviation[0] < REST_M) & (deviation[1] < REST_RAD),
                        block.first - block.done, stamps, stamps[WINDOW - 1:])
            self.calm = [*([max(self.calm[:-1], key=lambda run: run.last - run.first)]
                           if self.calm[1:] else []), *self.calm[-1:]]
        quantities = dict(zip(('east', 'north', 'up'), pose[new, :3].T))
        quantities.update(zip(('roll', 'pitch', 'yaw'), euler_deg(pose[new, 3:]).T))
        quantities['latency'] = (table['arrival'] - stamps)[new] / 1e6
        # A window that contains a gap shows motion.
        gaps = np.concatenate(([0], np.cumsum(np.diff(stamps) > self._limit_ns)))
        for name, scale, row in zip(('noise', 'noise_deg'), (1e3, 180.0 / np.pi), deviation):
            values = np.full(len(stamps), np.nan)
            values[WINDOW - 1:] = np.where(
                gaps[WINDOW - 1:] > gaps[:len(row)], np.nan, scale * row)
            quantities[name] = values[new]
        self._reduce(block, quantities, pose[new, :2])

    def _reduce(self, block: Block, quantities: dict[str, Floats], positions: Floats) -> None:
        """Take a block into the columns, which it can share with its neighbours."""
        stamps = block.table['stamp'][block.new]
        column = ((stamps - self._first_ns) // self._width_ns if self._width_ns
                  else np.arange(block.first, block.first + len(stamps)))
        cuts = np.flatnonzero(np.diff(column, prepend=-1))
        into = column[cuts]
        fresh = self.starts[into] < 0
        self.starts[into[fresh]], self.times[into[fresh]] = (
            cuts[fresh] + block.first, stamps[cuts[fresh]])
        for name, values in quantities.items():
            for made, reduce in ((self.low, np.fmin), (self.high, np.fmax)):
                row = made.setdefault(name, np.full(COLUMNS, np.nan))
                row[into] = reduce(row[into], reduce.reduceat(values, cuts))
        # the path from above: the first pose of each column, and its extremes
        of_column = np.repeat(np.arange(len(cuts)), np.diff(np.append(cuts, len(positions))))
        chosen = [cuts]
        for values in positions.T:
            for extreme in (np.minimum, np.maximum):
                at = np.flatnonzero(values == extreme.reduceat(values, cuts)[of_column])
                chosen.append(at[np.unique(of_column[at], return_index=True)[1]])
        index = np.unique(np.concatenate(chosen))
        self._path.append((index + block.first, positions[index]))

    def envelope(self, breaks: Stamps) -> Envelope:
        """Return the columns with poses."""
        seen = self.starts >= 0
        before = np.searchsorted(breaks, self.starts[seen], 'right')
        low, high = ({name: row[seen] for name, row in made.items()}
                     for made in (self.low, self.high))
        return Envelope(self.times[seen], low, high, np.diff(before, prepend=before[0]) > 0)

    def path(self, breaks: Stamps) -> Floats:
        """Return the path, with NaN before each break."""
        index, positions = (np.concatenate(part) for part in zip(*self._path))
        return np.insert(positions, np.unique(np.searchsorted(index, breaks)), np.nan, axis=0)


class _Histogram:
    """
    Counts of values, which are limited to the range.

    :param low: begin of the range.
    :param high: its end.
    """

    def __init__(self, low: float, high: float) -> None:
        self.edges = np.linspace(low, max(high, low + 0.05), _BARS + 1)
        self.counts = np.zeros(_BARS)

    def add(self, values: Floats) -> None:
        """Count values."""
        self.counts += np.histogram(
            np.clip(values, self.edges[0], self.edges[-1]), self.edges)[0]


class Breaks(NamedTuple):
    """
    Where the trajectory of a body is interrupted.

    :ivar after_gaps_ns: stamps of the first poses after gaps.
    :ivar jumps_ns: stamps of the poses before which it jumps.
    :ivar limit_ns: longest interval that is not a gap.
    """

    after_gaps_ns: Stamps
    jumps_ns: Stamps
    limit_ns: int


def body_breaks(body: Body) -> Breaks:
    """Find where the trajectory of a body is interrupted."""
    if len(body.rows) < 2:
        return Breaks(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    survey = _Survey(body)
    breaks = _Breaks(body, survey)
    for block in blocks(body):
        breaks.add(block, turns(block.table['pose'][:, 3:]))
    return Breaks(np.array([after for _, after in breaks.gaps_ns], np.int64),
                  np.union1d(breaks.jumps()[1], np.array(
                      [stamp for _, stamp in breaks.resets()], np.int64)),
                  int(GAP_INTERVALS * survey.median_ns))


def body_figures(take: Take, body: Body) -> Figures:
    """Compute the statistics of one body with two or more poses."""
    survey = _Survey(body)
    intervals, median = survey.intervals.values(), survey.median_ns
    late = spread(survey.delays.values() / 1e6 if survey.has_arrivals else ())
    top = min(float(np.percentile(intervals, 99.5)) * 1.5, survey.longest_ns * 1.01) / 1e6
    counted = _Histogram(0.0, top)
    delayed = _Histogram(*map(float, np.percentile(
        survey.delays.values() / 1e6, (0.1, 99.5)))) if survey.has_arrivals else None
    first_s, last_s = ((at - take.begin_ns) / NS_PER_S for at in survey.span_ns)
    # The first pose ends no interval, so that a bin of the rate excludes its lower edge.
    width = max((last_s - first_s) / 200, 0.25)
    edges = np.arange(first_s, last_s, width)
    passed = np.zeros(len(edges))
    breaks, plots = _Breaks(body, survey), _Columns(survey, len(body.rows))
    for block in blocks(body):
        turned = turns(block.table['pose'][:, 3:])
        breaks.add(block, turned)
        plots.add(block, turned)
        stamps = block.table['stamp']
        counted.add(np.diff(stamps)[block.step] / 1e6)
        passed += np.searchsorted(
            (stamps[block.new] - take.begin_ns) / NS_PER_S, edges, side='right')
        if delayed is not None:
            delayed.add((block.table['arrival'] - stamps)[block.new] / 1e6)
    index, jumps = breaks.jumps()
    resets = breaks.resets()
    interrupted = np.unique(np.concatenate(
        (breaks.after_gaps(), index, [at for at, _ in resets]))).astype(np.int64)
    span = (take.end_ns - take.begin_ns) / NS_PER_S
    # A pose counts until the next one: slow bodies are seen before their first and after their
    # last pose too.
    seen_s = float(survey.span_ns[1] - survey.span_ns[0] + median
                   - sum(b - a for a, b in breaks.gaps_ns)) / NS_PER_S
    return Figures(
        body.name, len(body.rows), survey.span_ns, NS_PER_S / median if median else float('nan'),
        min(max(seen_s, 0.0) / span, 1.0) if span else 1.0, breaks.gaps_ns,
        [run.span_ns for run in breaks.frozen if run.last - run.first >= _FROZEN],
        jumps.tolist(), [stamp for _, stamp in resets], late.median, late.p99,
        late.p99 - late.median, spread(intervals[intervals <= GAP_INTERVALS * median] / 1e6).p99,
        _find_rest(body, plots.calm), plots.envelope(interrupted), plots.path(interrupted),
        (edges[:-1] + width / 2, np.diff(passed) / width), (counted.edges, counted.counts),
        (delayed.edges, delayed.counts) if delayed else (np.zeros(2), np.zeros(1)))


def _find_rest(body: Body, calm: Sequence[Run]) -> Optional[Rest]:
    """Read the longest rest again; return None if it is shorter than two seconds."""
    if not calm:
        return None
    longest = max(calm, key=lambda run: run.last - run.first)
    seconds = (longest.span_ns[1] - longest.span_ns[0]) / NS_PER_S
    if seconds < LEAST_REST_S:
        return None
    first, end = longest.first, longest.last + WINDOW - 1
    tenth = max((end - first) // 10, 10)
    samples, sums = (Sample(), Sample()), np.zeros((2, 3))
    for block in blocks(body, first, end):
        for sample, values in zip(samples, deviations(block.table, turns(
                block.table['pose'][:, 3:]))):
            sample.add(values)
        positions, at = block.table['pose'][block.new, :3], block.first
        sums[0] += positions[:max(first + tenth - at, 0)].sum(axis=0)
        sums[1] += positions[max(end - tenth - at, 0):].sum(axis=0)
    position, attitude = (float(np.median(sample.values())) for sample in samples)
    return Rest(seconds, longest.span_ns[0], 3e3 * position, 3.0 * float(np.degrees(attitude)),
                1e3 * float(np.linalg.norm(sums[1] - sums[0])) / tenth)
