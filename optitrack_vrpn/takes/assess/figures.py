# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Statistics, events and envelopes of each body of a take.

One body is computed at a time, from all of its poses. Plots draw the minimum and maximum of each
column of pixels, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.space import euler_deg, lengths, turn_angles, turns
from optitrack_vrpn.core.stats import spread, usual_step
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.series import running_deviation, runs, WINDOW
from optitrack_vrpn.takes.columns import Rows
from optitrack_vrpn.takes.take import Take, TakeBody
from optitrack_vrpn.takes.trajectory import Floats, GAP_INTERVALS, Mask, Stamps

#: Scatter (m, rad) below which a body is at rest in a window: three times the noise of a good
#: installation, far below motion by hand.
REST_M = 0.001
REST_RAD = np.radians(0.3)
#: Smallest duration of a rest for noise and drift (s).
LEAST_REST_S = 2.0
#: Columns of pixels of a plot.
COLUMNS = 800
#: Chosen: intervals below this fraction of the usual one are those of arrivals that bunch.
_BUNCHED = 0.2
#: Two poses further apart than this (m) at a higher speed (m/s) than any body in a laboratory are
#: a jump; likewise for angles (rad, rad/s).
_JUMP_LEAST, _JUMP_SPEED = (0.05, 0.5), (20.0, 60.0)
#: Chosen: speeds (m/s, rad/s) of a body that is carried or flies fast. What a body cannot do over
#: a time without poses is faster than these and than _FASTER times its own speed in view.
_UNSEEN_SPEED, _FASTER = (5.0, 6.0), 1.5
#: Time (s) over which speeds are measured, and share of the poses (%) of the body's own speed.
_SPEED_S, _SPEED_PERCENT = 0.05, 99.9
#: Identical poses in succession that are frozen data.
_FROZEN = 10
#: Bars of a histogram.
_BARS = 80
#: Arrivals further than this from the median one are no arrivals: a log time of 0, or beyond 2262.
_ODD_NS = 365 * 86400 * NS_PER_S
#: Positions for the comparison of bodies are this far apart (s) in a take of up to 20 minutes; in
#: a longer one there are _MOST_PLACES.
PLACES_S, _MOST_PLACES = 0.06, 20_000

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


class GapChange(NamedTuple):
    """
    What changed between two poses.

    :ivar begin_ns: stamp of the first one; of frozen data that of the first repeated pose.
    :ivar end_ns: stamp of the second one.
    :ivar metres: distance of the positions.
    :ivar degrees: angle between the attitudes.
    """

    begin_ns: int
    end_ns: int
    metres: float
    degrees: float


class Breaks(NamedTuple):
    """
    Where the trajectory of a body is interrupted.

    :ivar gaps: the times without poses, with the change over each.
    :ivar frozen_ns: first and last stamp of repeated identical poses.
    :ivar jumps: changes that the body cannot have made, also over gaps and frozen data.
    :ivar resets_ns: stamps of poses at which the node reported a reset.
    :ivar limit_ns: longest interval that is not a gap.
    """

    gaps: list[GapChange]
    frozen_ns: Spans
    jumps: list[GapChange]
    resets_ns: list[int]
    limit_ns: int

    @property
    def gaps_ns(self) -> Spans:
        """Return the stamps of the last pose before and the first pose after each gap."""
        return [gap[:2] for gap in self.gaps]

    @property
    def breaks_ns(self) -> list[int]:
        """Return the stamps of poses before which the trajectory is discontinuous."""
        return sorted({*(jump.end_ns for jump in self.jumps), *self.resets_ns})


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
    :ivar breaks: gaps, frozen data, jumps and resets.
    :ivar latency_ms: median of arrival minus stamp (ms); NaN without arrival times.
    :ivar jitter_ms: 99th percentile of the latency minus its median (ms).
    :ivar ahead_ms: how far stamps are ahead of arrivals, 99th percentile (ms); 0 if they are not.
    :ivar odd_arrivals: poses whose log time is a year or more from the others.
    :ivar bunched: share of the intervals that are shorter than a fifth of the usual one.
    :ivar interval_p99_ms: 99th percentile of the intervals without gaps (ms).
    :ivar speeds: its own speed in view (m/s, rad/s): the 99.9th percentile over 50 ms.
    :ivar envelope: position, attitude, speed, latency and running deviation for the plots.
    :ivar path: (n, 3) positions (m) for a picture from above; NaN interrupts the line.
    :ivar places: stamps (ns; -1 without a pose) and positions at the same times for all bodies.
    :ivar rates: middles of bins (s after the begin of the take) and rates (Hz).
    :ivar intervals: edges (ms) and counts of a histogram of the intervals of stamps.
    :ivar latencies: likewise of the latency.
    """

    name: str
    poses: int
    span_ns: tuple[int, int]
    rate_hz: float
    coverage: float
    breaks: Breaks
    latency_ms: float
    latency_p99_ms: float
    jitter_ms: float
    ahead_ms: float
    odd_arrivals: int
    bunched: float
    interval_p99_ms: float
    speeds: tuple[float, float]
    rest: Optional[Rest]
    envelope: Envelope
    path: Floats
    places: tuple[Stamps, Floats]
    rates: tuple[Floats, Floats]
    intervals: tuple[Floats, Floats]
    latencies: tuple[Floats, Floats]

    @property
    def longest_gap_s(self) -> float:
        """Return the duration of the longest gap (s)."""
        return max((after - before for before, after in self.breaks.gaps_ns),
                   default=0) / NS_PER_S


class _Series(NamedTuple):
    """
    Poses of a body and what follows from neighbours.

    :ivar intervals: (n - 1,) ns.
    :ivar turned: (n - 1, 3) rotation vectors (rad).
    :ivar sizes: (n - 1,) each: steps (m) and turns (rad).
    :ivar step_ns: the usual interval.
    :ivar odd: whether each arrival is none.
    :ivar leaps: whether a body in view cannot have made the change.
    """

    table: Rows
    intervals: Stamps
    turned: Floats
    sizes: tuple[Floats, Floats]
    step_ns: int
    odd: Mask
    leaps: Mask

    @property
    def limit_ns(self) -> float:
        """Return the longest interval that is not a gap (ns)."""
        return GAP_INTERVALS * self.step_ns


def _series(table: Rows) -> _Series:
    intervals = np.diff(table['stamp'])
    turned = turns(table['pose'][:, 3:])
    sizes = lengths(np.diff(table['pose'][:, :3], axis=0)), lengths(turned)
    leaps = np.zeros(len(intervals), bool)
    step_ns = int(usual_step(table['stamp']))
    # Stamps of arrivals bunch: the body has moved for longer than such an interval.
    moved_ns = np.maximum(intervals, step_ns)
    for size, least, speed in zip(sizes, _JUMP_LEAST, _JUMP_SPEED):
        leaps |= (size > least) & (size > speed * moved_ns / NS_PER_S)
    odd = np.abs(table['arrival'] - int(np.median(table['arrival']))) > _ODD_NS
    return _Series(table, intervals, turned, sizes, step_ns, odd, leaps)


def _speeds(made: _Series) -> tuple[Floats, Floats]:
    """Return speeds (m/s, rad/s) from each pose to one 50 ms later; NaN across gaps, leaps."""
    table = made.table
    step = max(1, min(round(_SPEED_S * NS_PER_S / max(made.step_ns, 1)), len(table) - 1))
    seconds = (table['stamp'][step:] - table['stamp'][:-step]) / NS_PER_S
    places, quats = table['pose'][:, :3], table['pose'][:, 3:]
    breaks = np.cumsum(np.append(0, (made.intervals > made.limit_ns) | made.leaps))
    whole = breaks[step:] == breaks[:-step]
    moved, turned = lengths(places[step:] - places[:-step]), turn_angles(quats, step)
    return (np.where(whole, moved / seconds, np.nan), np.where(whole, turned / seconds, np.nan))


def _own_speed(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.percentile(known, _SPEED_PERCENT)) if len(known) else 0.0


def _breaks(made: _Series, body: TakeBody, own: tuple[float, float]) -> Breaks:
    """
    Find where a trajectory is interrupted.

    :param own: the body's own speeds in view (m/s, rad/s).
    """
    stamps, quats = made.table['stamp'], made.table['pose'][:, 3:]
    still = made.sizes[0] == 0.0
    at = np.flatnonzero(still)
    still[at] = (quats[at + 1] == quats[at]).all(axis=1)
    frozen = runs(still)
    frozen = frozen[frozen[:, 1] - frozen[:, 0] >= _FROZEN]
    # What a body does while its poses are frozen is not seen either.
    begins = stamps[:-1].copy()
    for first, last in frozen.tolist():
        begins[last:last + 1] = stamps[first]
    unseen_ns = stamps[1:] - begins
    jumps = made.leaps & (unseen_ns <= made.limit_ns)
    for size, least, usual, mine in zip(made.sizes, _JUMP_LEAST, _UNSEEN_SPEED, own):
        jumps |= (unseen_ns > made.limit_ns) & (
            size > least + max(usual, _FASTER * mine) * unseen_ns / NS_PER_S)

    def changes(chosen: Mask, since: Stamps) -> list[GapChange]:
        return [GapChange(*row) for row in zip(
            since[chosen].tolist(), stamps[1:][chosen].tolist(), made.sizes[0][chosen].tolist(),
            np.degrees(made.sizes[1][chosen]).tolist())]

    return Breaks(changes(made.intervals > made.limit_ns, stamps[:-1]),
                  [(int(stamps[first]), int(stamps[last])) for first, last in frozen],
                  changes(jumps, begins), _resets(made, body), int(made.limit_ns))


def _resets(made: _Series, body: TakeBody) -> list[int]:
    """Return the stamps of the poses at which resets were reported: the largest step near each."""
    stamps = made.table['stamp']
    arrivals = np.maximum.accumulate(np.where(made.odd, 0, made.table['arrival']))
    sizes = made.sizes[0] + made.intervals / NS_PER_S
    found = set()
    for before, row in zip(body.states, body.states[1:]):
        if row.resets <= before.resets:
            continue
        first, end = np.searchsorted(
            arrivals, (row.time_ns - NS_PER_S // 2, row.time_ns + NS_PER_S // 2))
        near = sizes[max(first - 1, 0):max(end - 1, 0)]
        at = max(first, 1) + int(np.argmax(near)) if len(near) else min(
            int(np.searchsorted(arrivals, row.time_ns)), len(stamps) - 1)
        if at:
            found.add(int(stamps[at]))
    return sorted(found)


def body_breaks(body: TakeBody, table: Rows) -> Breaks:
    """Find where the trajectory of a body with these poses is interrupted."""
    if len(table) < 2:
        return Breaks([], [], [], [], 0)
    made = _series(table)
    speed, rate = map(_own_speed, _speeds(made))
    return _breaks(made, body, (speed, rate))


def body_figures(take: Take, body: TakeBody) -> Figures:
    """Compute the statistics of one body with two or more poses."""
    table = body.table()
    made, stamps = _series(table), table['stamp']
    intervals, usual = made.intervals, made.step_ns
    speeds = _speeds(made)
    speed, rate = map(_own_speed, speeds)
    breaks = _breaks(made, body, (speed, rate))
    delays = (table['arrival'] - stamps)[~made.odd] / 1e6
    has_arrivals = bool(delays.any())
    late = spread(delays if has_arrivals else ())
    first_s, last_s = ((int(at) - take.begin_ns) / NS_PER_S for at in stamps[[0, -1]])
    # The first pose ends no interval, so that a bin of the rate excludes its lower edge.
    width = max((last_s - first_s) / 200, 0.25)
    edges = np.arange(first_s, last_s, width)
    passed = np.searchsorted((stamps - take.begin_ns) / NS_PER_S, edges, side='right')
    interrupted = np.union1d(
        np.flatnonzero(intervals > made.limit_ns) + 1, np.searchsorted(stamps, breaks.breaks_ns))
    span = (take.end_ns - take.begin_ns) / NS_PER_S
    # A pose counts until the next one: slow bodies are seen before their first and after their
    # last pose too.
    seen_s = float(stamps[-1] - stamps[0] + usual
                   - sum(b - a for a, b in breaks.gaps_ns)) / NS_PER_S
    # Around a fixed attitude the turns of noise cancel, so that their sum is the deviation.
    noise = running_deviation(table['pose'][:, :3].T), running_deviation(
        np.append(0.0, np.cumsum(turned)) for turned in made.turned.T)
    cuts = _cuts(stamps)
    return Figures(
        body.name, len(table), (int(stamps[0]), int(stamps[-1])),
        NS_PER_S / usual if usual else float('nan'),
        min(max(seen_s, 0.0) / span, 1.0) if span else 1.0, breaks, late.median, late.p99,
        late.p99 - late.median,
        max(-float(np.percentile(delays, 1.0)), 0.0) if has_arrivals else 0.0, int(made.odd.sum()),
        float(np.mean(intervals < _BUNCHED * usual)),
        spread(intervals[intervals <= made.limit_ns] / 1e6).p99, (speed, rate),
        _find_rest(table, *noise), _envelope(made, cuts, interrupted, noise, speeds),
        _path(table['pose'][:, :2], cuts, interrupted), _places(take, table, breaks.limit_ns),
        (edges[:-1] + width / 2, np.diff(passed) / width),
        _histogram(intervals / 1e6, 0.0, min(float(np.percentile(intervals, 99.5)) * 1.5,
                                             int(intervals.max()) * 1.01) / 1e6),
        _histogram(delays, *map(float, np.percentile(delays, (0.1, 99.5)))) if has_arrivals
        else (np.zeros(2), np.zeros(1)))


def _cuts(stamps: Stamps) -> Stamps:
    """Return the index of the first pose of each column of pixels that has any."""
    if len(stamps) <= COLUMNS:
        return np.arange(len(stamps))
    width_ns = -(-(int(stamps[-1] - stamps[0]) + 1) // COLUMNS)
    found: Stamps = np.flatnonzero(np.diff((stamps - stamps[0]) // width_ns, prepend=-1))
    return found


def _envelope(
    made: _Series, cuts: Stamps, interrupted: Stamps, noise: tuple[Floats, Floats],
    speeds: tuple[Floats, Floats],
) -> Envelope:
    low, high = dict[str, Floats](), dict[str, Floats]()
    for name, values in _quantities(made, noise, speeds):
        low[name], high[name] = (reduce.reduceat(values, cuts) for reduce in (np.fmin, np.fmax))
    before = np.searchsorted(interrupted, cuts, 'right')
    return Envelope(made.table['stamp'][cuts], low, high, np.diff(before, prepend=before[0]) > 0)


def _quantities(
    made: _Series, noise: tuple[Floats, Floats], speeds: tuple[Floats, Floats],
) -> Iterator[tuple[str, Floats]]:
    """Yield what the plots draw, one value a pose; NaN where it is unknown."""
    table = made.table
    yield from zip(('east', 'north', 'up'), table['pose'][:, :3].T)
    yield from zip(('roll', 'pitch', 'yaw'), euler_deg(table['pose'][:, 3:]))
    yield 'latency', np.where(made.odd, np.nan, (table['arrival'] - table['stamp']) / 1e6)
    # A window that contains a gap shows motion.
    gaps = np.append(0, np.cumsum(made.intervals > made.limit_ns))
    for name, scale, row in (('noise', 1e3, noise[0]), ('noise_deg', 180.0 / np.pi, noise[1]),
                             ('speed', 1.0, speeds[0]), ('turning', 180.0 / np.pi, speeds[1])):
        values = np.full(len(table), np.nan)
        first = len(table) - len(row)
        values[first:] = scale * row
        if name.startswith('noise') and len(row):
            values[first:][gaps[first:] > gaps[:len(row)]] = np.nan
        yield name, values


def _path(positions: Floats, cuts: Stamps, interrupted: Stamps) -> Floats:
    """Return the first position of each column and its extremes, with NaN before each break."""
    of_column = np.repeat(np.arange(len(cuts)), np.diff(np.append(cuts, len(positions))))
    chosen = [cuts]
    for values in positions.T:
        for extreme in (np.minimum, np.maximum):
            at = np.flatnonzero(values == extreme.reduceat(values, cuts)[of_column])
            chosen.append(at[np.unique(of_column[at], return_index=True)[1]])
    index = np.unique(np.concatenate(chosen))
    return np.insert(positions[index], np.unique(np.searchsorted(index, interrupted)), np.nan,
                     axis=0)


def place_times(take: Take) -> Stamps:
    """Return the times at which the positions of all bodies are compared (ns)."""
    step_ns = max(round(PLACES_S * NS_PER_S), -(-(take.end_ns - take.begin_ns) // _MOST_PLACES))
    return np.arange(take.begin_ns, take.end_ns + 1, step_ns)


def _places(take: Take, table: Rows, limit_ns: int) -> tuple[Stamps, Floats]:
    """Return stamp (-1: none) and position of the last pose before each time of comparison."""
    times = place_times(take)
    at = np.maximum(np.searchsorted(table['stamp'], times, 'right') - 1, 0)
    age = times - table['stamp'][at]
    seen = (age >= 0) & (age <= limit_ns)
    return np.where(seen, table['stamp'][at], -1), table['pose'][at, :3]


def _histogram(values: Floats, low: float, high: float) -> tuple[Floats, Floats]:
    """Count values; those beyond the range are in the outer bars."""
    edges = np.linspace(low, max(high, low + 0.05), _BARS + 1)
    counts, _ = np.histogram(np.clip(values, edges[0], edges[-1]), edges)
    return edges, counts.astype(float)


def _find_rest(table: Rows, position: Floats, attitude: Floats) -> Optional[Rest]:
    """Return the longest rest; None if it is shorter than two seconds."""
    calm = runs((position < REST_M) & (attitude < REST_RAD))
    if not len(calm):
        return None
    first, last = calm[int(np.argmax(calm[:, 1] - calm[:, 0]))].tolist()
    rest = table[first:last + WINDOW - 1]
    seconds = float(rest['stamp'][-1] - rest['stamp'][0]) / NS_PER_S
    if seconds < LEAST_REST_S:
        return None
    tenth = max(len(rest) // 10, 10)
    begin, end = (rest['pose'][part, :3].mean(axis=0)
                  for part in (slice(tenth), slice(-tenth, None)))
    return Rest(seconds, int(rest['stamp'][0]), 3e3 * float(np.median(position[first:last])),
                3.0 * float(np.degrees(np.median(attitude[first:last]))),
                1e3 * float(np.linalg.norm(end - begin)))
