# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Statistics of each body of a take: rate, latency, gaps, noise at rest, drift."""

from __future__ import annotations

from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.recording.take import Body, Take
from optitrack_vrpn.recording.trajectory import Floats, gap_limit_ns
from optitrack_vrpn.units import NS_PER_S
from scipy.ndimage import uniform_filter1d

#: Number of samples of the running standard deviation, as in the OptiTrack interface thesis.
#: Halved, it scatters by 10 % instead of 7 %; doubled, a rest must last longer.
WINDOW = 100
#: Scatter (m) below which a body is at rest in a window. Chosen: three times the noise of a good
#: installation, far below motion by hand. Halved, noisy installations have no rest; doubled, slow
#: motion counts as rest.
REST_M = 0.001
REST_RAD = np.radians(0.3)
#: Smallest duration of a rest for noise and drift (s). Chosen. Halved, pauses in motion are used;
#: doubled, fewer takes have figures.
LEAST_REST_S = 2.0


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


class Figures(NamedTuple):
    """
    Statistics of one body.

    :ivar coverage: fraction of the take's duration in which its poses arrived, 0 to 1.
    :ivar latency_ms: median of arrival minus stamp (ms); NaN without arrival times.
    :ivar jitter_ms: 99th percentile of the latency minus its median (ms).
    :ivar interval_p99_ms: 99th percentile of the intervals without gaps (ms).
    """

    name: str
    poses: int
    rate_hz: float
    coverage: float
    gaps: int
    longest_gap_s: float
    gap_s: float
    frozen: int
    jumps: int
    resets: int
    latency_ms: float
    latency_p99_ms: float
    jitter_ms: float
    interval_p99_ms: float
    rest: Optional[Rest]


def running_deviation(values: Floats, window: int = WINDOW) -> Floats:
    """
    Return the standard deviation over a sliding window.

    :param values: (n, k).
    :returns: (n - window + 1, k); empty for fewer values.
    """
    if len(values) < window:
        return np.zeros((0, values.shape[1]))
    centred, count = values - values.mean(axis=0), len(values) - window + 1
    mean, square = (
        uniform_filter1d(part, window, axis=0, origin=-(window // 2))[:count]
        for part in (centred, centred ** 2))
    result: Floats = np.sqrt(np.maximum(square - mean ** 2, 0.0) * window / (window - 1))
    return result


def attitude_steps(body: Body) -> Floats:
    """
    Return the cumulative sum of small rotations (rad), which is continuous at any attitude.

    Around a fixed attitude the rotations of noise cancel, so that the sum is the deviation.
    """
    turns = body.trajectory.rotations
    steps = np.zeros((len(body.trajectory), 3))
    steps[1:] = (turns[:-1].inv() * turns[1:]).as_rotvec()
    result: Floats = np.cumsum(steps, axis=0)
    return result


def find_rest(body: Body) -> Optional[Rest]:
    """Find the longest rest; return None if it is shorter than two seconds."""
    trajectory = body.trajectory
    positions = running_deviation(trajectory.positions)
    if not len(positions):
        return None
    angles = running_deviation(attitude_steps(body))
    calm = (positions.max(axis=1) < REST_M) & (angles.max(axis=1) < REST_RAD)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], calm.astype(int), [0]))))
    best: Optional[tuple[int, int]] = None
    for first, last in zip(edges[::2], edges[1::2]):
        if best is None or last - first > best[1] - best[0]:
            best = (int(first), int(last))
    if best is None:
        return None
    first, last = best[0], best[1] + WINDOW - 1
    seconds = float(trajectory.stamps_ns[last - 1] - trajectory.stamps_ns[first]) / NS_PER_S
    if seconds < LEAST_REST_S:
        return None
    calm_positions = trajectory.positions[first:last]
    tenth = max(len(calm_positions) // 10, 10)
    drift = np.linalg.norm(calm_positions[-tenth:].mean(axis=0)
                           - calm_positions[:tenth].mean(axis=0))
    return Rest(seconds, int(trajectory.stamps_ns[first]),
                3e3 * float(np.median(positions[best[0]:best[1]].max(axis=1))),
                3.0 * float(np.degrees(np.median(angles[best[0]:best[1]].max(axis=1)))),
                1e3 * float(drift))


def body_figures(take: Take, body: Body) -> Figures:
    """Compute the statistics of one body."""
    trajectory = body.trajectory
    intervals = np.diff(trajectory.stamps_ns)
    gaps = body.gaps
    waited = [(after - before) / NS_PER_S for before, after in gaps]
    normal = intervals[intervals <= gap_limit_ns(trajectory)] / 1e6
    latency = (body.arrivals_ns - trajectory.stamps_ns) / 1e6
    known = len(latency) > 0 and bool(np.any(latency != 0.0))
    median = float(np.median(latency)) if known else float('nan')
    p99 = float(np.percentile(latency, 99)) if known else float('nan')
    span = (take.end_ns - take.begin_ns) / NS_PER_S
    # A pose counts until the next one: slow bodies are seen before their first and after their
    # last pose too.
    seen_s = trajectory.duration_s + trajectory.median_interval_ns / NS_PER_S
    resets = (max(row.resets for row in body.states) - body.states[0].resets
              if body.states else 0)
    return Figures(
        body.name, len(trajectory),
        NS_PER_S / float(np.median(intervals)) if len(intervals) else float('nan'),
        min(max(seen_s - sum(waited), 0.0) / span, 1.0) if span else 1.0,
        len(gaps), max(waited, default=0.0), sum(waited), len(body.frozen()),
        len(body.jumps()), resets, median, p99, p99 - median,
        float(np.percentile(normal, 99)) if len(normal) else float('nan'), find_rest(body))
