# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The charts of a report: paths, position, attitude, rate, latency, noise, clock, odometry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np
from optitrack_vrpn.core.units import NS_PER_S
from optitrack_vrpn.takes.assess.events import clock_restarts
from optitrack_vrpn.takes.assess.figures import Envelope, Figures
from optitrack_vrpn.takes.assess.svg import Bars, chart, Floats, Panel, SvgLine, zoom_data
from optitrack_vrpn.takes.evaluate.evaluation_odometry import OdometryEvaluation
from optitrack_vrpn.takes.take import Take
from optitrack_vrpn.takes.trajectory import Stamps

#: Points of a path from above of an odometry.
_MOST_POINTS = 1200


class Picture(NamedTuple):
    """
    A picture with its caption.

    :ivar data: its lines for zooming, see ``svg.zoom_data``.
    """

    svg: str
    caption: str
    data: str = ''


def _picture(panels: Sequence[Panel], title: str, caption: str) -> Picture:
    return Picture(chart(panels, title), caption, zoom_data(panels))


class Times:
    """
    The time axis of all charts of a take.

    :ivar span: range of the axis, from the first stamp of all bodies.
    """

    def __init__(self, take: Take) -> None:
        self._begin_ns = take.begin_ns
        seconds = (take.end_ns - take.begin_ns) / NS_PER_S
        self.label, self._unit_s = ('time (s)', 1.0) if seconds < 900 else ('time (min)', 60.0)
        self.span = (0.0, max(seconds / self._unit_s, 1e-6))

    def of(self, stamps: Stamps | Sequence[int]) -> Floats:
        """Convert stamps (ns) to the axis."""
        return (np.asarray(stamps, np.int64) - self._begin_ns) / (NS_PER_S * self._unit_s)

    def seconds(self, values: Floats) -> Floats:
        """Convert seconds since the begin to the axis."""
        return values / self._unit_s


def paths(figures: Sequence[Figures]) -> Picture:
    """Draw the paths of bodies from above, each in its own colour."""
    thin = 1 if len(figures) == 1 else 10
    lines, dots = [], []
    for f in figures:
        path = f.path[np.isnan(f.path[:, 0]) | (np.arange(len(f.path)) % thin == 0)]
        lines.append(SvgLine(f.name if len(figures) <= 5 else '', path[:, 0], path[:, 1],
                             own_colour=len(figures) > 5))
        dots.append((float(path[0, 0]), float(path[0, 1])))
    return _picture([Panel('north (m)', 'east (m)', lines, equal=True, height=255, dots=dots)],
                    'path from above', 'Path from above; the dot marks the start.'
                    if len(figures) == 1 else 'All paths from above; dots mark their starts.')


def heights(take: Take, figures: Sequence[Figures]) -> Picture:
    """Draw the heights of bodies over time, in the colours of their paths."""
    times = Times(take)
    return _picture([Panel('up (m)', times.label, [SvgLine(
        f.name if len(figures) <= 5 else '', times.of(f.envelope.times_ns),
        f.envelope.low['up'], f.envelope.high['up'], f.envelope.broken, len(figures) > 5)
        for f in figures], (), times.span, height=255)], 'heights', 'Heights of all bodies.')


def body_pictures(take: Take, f: Figures, with_latency: bool) -> list[Picture]:
    """Draw all that is known of one body."""
    times = Times(take)
    x = times.of(f.envelope.times_ns)
    marks = [(kind, float(a), float(b)) for kind, spans in (
        ('gap', f.breaks.gaps_ns), ('frozen', f.breaks.frozen_ns),
        ('break', [(at, at) for at in f.breaks.breaks_ns]))
        for a, b in times.of(np.array(spans, np.int64).reshape(-1, 2))]

    def panel(
        names: Sequence[str], label: str, height: int, log: bool = False, least: float = 1e-3,
    ) -> Panel:
        return Panel(label, times.label, [
            SvgLine(name, x, *_without_wraps(f.envelope, name), f.envelope.broken)
            for name in names], marks, times.span, log=log, height=height, least=least)

    made = [
        paths([f]),
        _picture([panel(('east', 'north', 'up'), 'position (m)', 130),
                  panel(('speed',), 'speed (m/s)', 70)], 'position and speed',
                 'Position, and speed over 50 ms. Orange: no pose; blue: frozen; dotted: a jump '
                 'or reset.'),
        _picture([panel(('roll', 'pitch', 'yaw'), 'attitude (deg)', 130, least=0.05),
                  panel(('turning',), 'turning (deg/s)', 70, least=0.05)],
                 'attitude and turn rate', 'Attitude, and turn rate over 50 ms.'),
        _picture([
            Panel('rate (Hz)', times.label, [SvgLine('', times.seconds(f.rates[0]), f.rates[1])],
                  (), times.span, from_zero=True, height=100),
            Panel('poses', 'interval of stamps (ms)', Bars(*f.intervals), log=True, height=100)],
            'rate', 'Rate, and intervals of stamps.')]
    if with_latency and len(f.latencies[0]) > 2:
        made.append(_picture([
            panel(('latency',), 'latency (ms)', 100),
            Panel('poses', 'stamp to recorder (ms)', Bars(*f.latencies), height=100)],
            'latency', 'Delay from stamp to recorder.'))
    if np.isfinite(f.envelope.high['noise']).any():
        made.append(_picture([
            panel(('noise',), 'position (mm)', 100, log=True),
            panel(('noise_deg',), 'attitude (deg)', 100, log=True)], 'noise',
            'Standard deviation over 100 samples, worst axis: noise while the body is at rest, '
            'motion otherwise.'))
    return made


def _without_wraps(envelope: Envelope, name: str) -> tuple[Floats, Floats]:
    """Return minima and maxima; for angles NaN where one passes 180 degrees."""
    low, high = envelope.low[name], envelope.high[name]
    if name not in ('roll', 'pitch', 'yaw'):
        return low, high
    wraps = (high - low > 180.0) | (np.abs(np.diff(low, prepend=low[0])) > 180.0)
    return np.where(wraps, np.nan, low), np.where(wraps, np.nan, high)


#: Most spans of longer delays that a caption lists.
_MOST_SPANS = 3


def longer_delays(take: Take) -> list[tuple[int, int, float]]:
    """Return begin, end (ns) and excess (ms) of delays longer than those of the stamps."""
    found: list[tuple[int, int, float]] = []
    for row in take.clock:
        if row.longer_since_s > 0.0:
            begin_ns = row.time_ns - round(row.longer_since_s * NS_PER_S)
            most_ms = row.longer_us / 1e3
            if found and begin_ns < found[-1][1]:
                begin_ns, _, before_ms = found.pop()
                most_ms = max(most_ms, before_ms)
            found.append((begin_ns, row.time_ns, most_ms))
    return found


def clock_picture(take: Take, time: Callable[[int], str]) -> Optional[Picture]:
    """
    Draw offset, skew and uncertainty of the sender's clock, and the delays that are longer.

    Each epoch has an offset of its own, which can differ by days: the offset is drawn against the
    last of its epoch, so that a restart does not hide all other changes.

    :param time: formats a time (ns).
    :returns: None without diagnostics.
    """
    if len(take.clock) < 3:
        return None
    times = Times(take)
    rows = take.clock
    epochs = np.array([row.epoch for row in rows])
    last = {row.epoch: row.offset_s for row in rows}
    x = times.of([row.time_ns for row in rows])
    new = np.diff(epochs, prepend=epochs[0]) != 0
    marks = [('break', float(at), float(at)) for at in times.of(clock_restarts(take))]
    longer = longer_delays(take)
    marks += [('gap', float(times.of([begin])[0]), float(times.of([end])[0]))
              for begin, end, _ in longer]
    panels = [Panel(label, times.label, [SvgLine('', x, values, None, new)], marks, times.span,
                    height=90, from_zero=label.startswith(('uncertainty', 'longer')))
              for label, values in (
                  ('offset (ms)', np.array([1e3 * (row.offset_s - last[row.epoch])
                                            for row in rows])),
                  ('skew (ppm)', np.array([row.skew_ppm for row in rows])),
                  ('uncertainty (µs)', np.array([row.uncertainty_us for row in rows])),
                  ('longer delays (ms)', np.array([row.longer_us / 1e3 for row in rows])))]
    caption = ("The sender's clock as the node reported it: offset from the last one of its "
               'epoch, skew, uncertainty, and how far the least delays lie above those of the '
               'stamps; dotted: a new epoch.')
    if longer:
        listed = '; '.join(f'{most:.1f} ms from {time(begin)} until {time(end)}'
                           for begin, end, most in longer[:_MOST_SPANS])
        more = f'; and {len(longer) - _MOST_SPANS} more times' if len(longer) > _MOST_SPANS else ''
        caption += (f' Shaded: delays were longer ({listed}{more}): load, or a longer route. '
                    'Stamps do not follow for 90 s, and the uncertainty contains it.')
    return _picture(panels, 'clock', caption)


def odometry_pictures(evaluation: OdometryEvaluation) -> list[Picture]:
    """Draw reference and aligned estimate from above, and the errors over time and path."""
    ate, rpe = evaluation.ate, evaluation.rpe
    begin_ns = int(ate.stamps_ns[0])
    lines = []
    for trajectory, name in ((ate.reference, 'mocap'), (ate.aligned, 'estimate')):
        step = max(len(trajectory) // _MOST_POINTS, 1)
        lines.append(SvgLine(name, *trajectory.positions[::step, :2].T))
    errors = []
    for found, name in ((ate, 'absolute'), (rpe, f'relative, {rpe.seconds:g} s')):
        cuts = np.arange(0, len(found.distances), max(len(found.distances) // _MOST_POINTS, 1))
        low, high = (1e3 * reduce.reduceat(found.distances, cuts)
                     for reduce in (np.minimum, np.maximum))
        errors.append(SvgLine(
            name, (found.stamps_ns[cuts] - begin_ns) / NS_PER_S, low, high))
    marks = [('gap', (a - begin_ns) / NS_PER_S, (b - begin_ns) / NS_PER_S)
             for a, b in evaluation.continuity.gaps_ns]
    marks += [('break', (at - begin_ns) / NS_PER_S, (at - begin_ns) / NS_PER_S)
              for at in evaluation.continuity.resets_ns]
    steps = np.linalg.norm(np.diff(ate.reference.positions, axis=0), axis=1)
    way = np.append(0.0, np.cumsum(steps))
    cuts = np.arange(0, len(way), max(len(way) // _MOST_POINTS, 1))
    low, high = (1e3 * reduce.reduceat(ate.distances, cuts)
                 for reduce in (np.minimum, np.maximum))
    return [
        _picture([Panel('north (m)', 'east (m)', lines, equal=True, height=205)], 'paths',
                 'Paths from above after alignment.'),
        _picture([Panel('error (mm)', 'time (s)', errors, marks, from_zero=True, height=190)],
                 'errors over time', 'Errors over time. Orange: no pose of the estimate; dotted: '
                 'it is displaced.'),
        _picture([Panel('absolute error (mm)', 'way (m)', [SvgLine('', way[cuts], low, high)],
                        from_zero=True, height=205)], 'error along the path',
                 'Absolute error along the path of the reference.')]
