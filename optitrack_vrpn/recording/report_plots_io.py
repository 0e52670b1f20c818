# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Plots of a take as SVG, small enough to be embedded in a page.

Text stays text, and lines use the text colour of the page (``currentColor``), so that one plot
suits light mode, dark mode and print.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
import io
import re
from typing import Any, NamedTuple, Optional

import numpy as np
from optitrack_vrpn.errors import BackendUnavailableError
from optitrack_vrpn.recording.evaluation_odometry import OdometryEvaluation
from optitrack_vrpn.recording.figures import attitude_steps, running_deviation, WINDOW
from optitrack_vrpn.recording.take import Body, Take
from optitrack_vrpn.recording.trajectory import Floats
from optitrack_vrpn.units import NS_PER_S

try:
    import matplotlib
    from matplotlib.figure import Figure
except ImportError:
    matplotlib = None  # type: ignore[assignment]

#: Placeholder for the text colour of the page.
_PAGE = '#010203'
#: Colours that colour-blind readers can distinguish, on light and dark: Okabe and Ito.
_COLOURS = ('#0a84c6', '#d55e00', '#009e73', '#cc79a7', '#c98a00')
_GAP = '#d55e00'
#: Chosen: number of points of a line, more than pixels at this size. Halved, peaks can disappear;
#: doubled, the page is larger.
_MOST_POINTS = 1200
#: Chosen: width of a plot (inch), and smallest half range of a path (m), which keeps the noise of
#: a body at rest small in its plot.
_WIDTH_IN = 4.6
_LEAST_HALF_M = 0.02


def check_available() -> None:
    """
    Check that plots can be created.

    :raises BackendUnavailableError: if matplotlib is not installed.
    """
    if matplotlib is None:
        raise BackendUnavailableError(
            'the report needs matplotlib: install python3-matplotlib (pip: matplotlib)')


def thin(times: Floats, values: Floats) -> tuple[Floats, Floats]:
    """
    Reduce the points of a line without losing peaks: each piece keeps its minimum and maximum.

    :param values: (n,), NaN at interruptions of the line.
    """
    if len(times) <= _MOST_POINTS:
        return times, values
    kept = []
    for piece in np.array_split(np.arange(len(times)), _MOST_POINTS // 3):
        inside = values[piece]
        if np.isnan(inside).all():
            kept.append(int(piece[0]))
            continue
        chosen = {int(piece[np.nanargmin(inside)]), int(piece[np.nanargmax(inside)])}
        holes = piece[np.isnan(inside)]
        if len(holes):
            chosen.add(int(holes[0]))
        kept += sorted(chosen)
    index = np.array(kept)
    return times[index], values[index]


def _drawn(
    height_in: float, draw: Callable[[Any], None], rows: int = 1, shared: bool = True,
) -> str:
    with matplotlib.rc_context({
            'svg.fonttype': 'none', 'svg.hashsalt': 'report', 'font.size': 10,
            'font.family': 'sans-serif', 'text.color': _PAGE, 'axes.labelcolor': _PAGE,
            'axes.edgecolor': _PAGE, 'xtick.color': _PAGE, 'ytick.color': _PAGE,
            'axes.grid': True, 'grid.alpha': 0.25, 'grid.color': _PAGE, 'lines.linewidth': 1.1,
            'axes.spines.top': False, 'axes.spines.right': False, 'legend.frameon': False,
            'axes.titlesize': 10, 'axes.formatter.useoffset': False}):
        figure = Figure(figsize=(_WIDTH_IN, height_in), layout='constrained')
        axes = figure.subplots(rows, 1, sharex=shared, squeeze=False)[:, 0]
        draw(axes[0] if rows == 1 else axes)
        text = io.StringIO()
        figure.savefig(text, format='svg', transparent=True, metadata={'Date': None})
    svg = text.getvalue()
    svg = svg[svg.index('<svg'):].replace(_PAGE, 'currentColor')
    svg = re.sub(r'<metadata>.*?</metadata>', '', svg, flags=re.S)
    # The page sets the size; coordinates need a resolution of a hundredth of a point.
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r'\1', svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1', svg, count=1)
    # Only in attributes: numbers in texts keep their digits.
    return re.sub(r'"[^"]*"', lambda quoted: re.sub(
        r'(\d+\.\d\d)\d+', r'\1', quoted[0]), svg)


def unique(svg: str, number: int) -> str:
    """Make the ids of a picture unique within the page."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="f{number}-\1"', svg)
    svg = re.sub(r'url\(#([^)]+)\)', rf'url(#f{number}-\1)', svg)
    return re.sub(r'href="#([^"]+)"', rf'href="#f{number}-\1"', svg)


def _broken(times: Floats, values: Floats, body: Body, begin_ns: int) -> tuple[Floats, Floats]:
    """Interrupt a line at gaps, where the body was not visible."""
    ends = np.array([(before - begin_ns) / NS_PER_S for before, _ in body.gaps])
    index = np.searchsorted(times, ends, 'right')
    return np.insert(times, index, ends), np.insert(values, index, np.nan)


def _mark(axes: Any, body: Body, begin_ns: int) -> None:
    for before, after in body.gaps[:200]:
        axes.axvspan((before - begin_ns) / NS_PER_S, (after - begin_ns) / NS_PER_S, color=_GAP,
                     alpha=0.25, linewidth=0)
    for first, last in body.frozen()[:200]:
        axes.axvspan((first - begin_ns) / NS_PER_S, (last - begin_ns) / NS_PER_S,
                     color=_COLOURS[0], alpha=0.25, linewidth=0)
    for stamp in body.breaks_ns[:200]:
        axes.axvline((stamp - begin_ns) / NS_PER_S, color=_GAP, linestyle=':')


class PathLine(NamedTuple):
    """
    The path of a body, thinned.

    :ivar shown: (n, 3) positions (m); NaN interrupts the line.
    :ivar begin: first position.
    """

    name: str
    shown: Floats
    begin: Floats


def path_line(body: Body) -> PathLine:
    """Thin a body's path."""
    positions = body.trajectory.positions
    step = max(len(positions) // _MOST_POINTS, 1)
    stamps = body.trajectory.stamps_ns
    holes = np.union1d([before for before, _ in body.gaps],
                       stamps[np.isin(stamps, body.breaks_ns).nonzero()[0] - 1])
    chosen = np.union1d(np.arange(0, len(positions), step), np.searchsorted(stamps, holes))
    chosen = chosen.astype(int)
    shown = positions[chosen].copy()
    shown[np.isin(stamps[chosen], holes)] = np.nan    # no line where nothing was seen
    return PathLine(body.name, shown, positions[0].copy())


def path_plot(lines: Sequence[PathLine]) -> str:
    """Draw paths from above, and heights over the way east."""
    def draw(axes: Any) -> None:
        for number, line in enumerate(lines):
            colour = _COLOURS[number % 5]
            # A dollar sign would begin a formula.
            axes.plot(line.shown[:, 0], line.shown[:, 1], color=colour,
                      label=line.name.replace('$', r'\$'))
            axes.plot(line.begin[0], line.begin[1], 'o', color=colour, markersize=4)
        # One scale for both, and noise alone shall not fill the picture.
        limits = (axes.get_xlim(), axes.get_ylim())
        half = max(_LEAST_HALF_M, *(abs(high - low) / 2 for low, high in limits))
        for (low, high), change in zip(limits, (axes.set_xlim, axes.set_ylim)):
            change((low + high) / 2 - half, (low + high) / 2 + half)
        axes.set_aspect('equal')
        axes.set_xlabel('east (m)')
        axes.set_ylabel('north (m)')
        if 1 < len(lines) <= 6:
            _legend_above(axes, 1.15 if len(lines) > 3 else 1.1)
    return _drawn(3.6, draw)


def position_plot(body: Body, begin_ns: int) -> str:
    """Plot position over time, including height."""
    return _three_lines(
        body, begin_ns, body.trajectory.positions, ('east', 'north', 'up'), 'position (m)')


def attitude_plot(body: Body, begin_ns: int) -> str:
    """Plot roll, pitch and yaw over time."""
    angles = np.degrees(body.trajectory.rotations.as_euler('ZYX')[:, ::-1])
    angles[1:][np.abs(np.diff(angles, axis=0)) > 180.0] = np.nan    # an angle wraps
    return _three_lines(body, begin_ns, angles, ('roll', 'pitch', 'yaw'), 'attitude (deg)')


def _three_lines(
    body: Body, begin_ns: int, values: Floats, names: Sequence[str], label: str,
) -> str:
    """Plot the columns of values over time, with marks."""
    times = (body.trajectory.stamps_ns - begin_ns) / NS_PER_S

    def draw(axes: Any) -> None:
        for column, name, colour in zip(values.T, names, _COLOURS):
            axes.plot(*thin(*_broken(times, column, body, begin_ns)), color=colour, label=name)
        _mark(axes, body, begin_ns)
        axes.set_ylabel(label)
        axes.set_xlabel('time (s)')
        _legend_above(axes, 1.17)
    return _drawn(2.6, draw)


def _legend_above(axes: Any, top: float) -> None:
    axes.legend(fontsize=8, ncols=3, loc='upper center', bbox_to_anchor=(0.5, top))


def rates(seconds: Floats) -> tuple[Floats, Floats]:
    """
    Count poses over time: the middles (s) of up to 200 bins of at least 0.25 s, and their rates.

    :param seconds: stamps (s), rising. The first one ends no interval, so that a bin excludes its
        lower edge.
    :returns: middles and rates (Hz).
    """
    width = max((seconds[-1] - seconds[0]) / 200, 0.25)
    edges = np.arange(seconds[0], seconds[-1], width)
    counts = np.diff(np.searchsorted(seconds, edges, side='right'))
    return edges[:-1] + width / 2, counts / width


def rate_plot(body: Body, begin_ns: int) -> str:
    """Plot the rate over time and the histogram of intervals."""
    stamps = body.trajectory.stamps_ns
    intervals = np.diff(stamps) / 1e6
    seconds = (stamps - begin_ns) / NS_PER_S

    def draw(axes: Any) -> None:
        axes[0].plot(*rates(seconds), color=_COLOURS[0])
        axes[0].set_ylim(bottom=0)
        axes[0].set_ylabel('rate (Hz)')
        axes[0].set_xlabel('time (s)')
        if len(intervals):
            top = min(float(np.percentile(intervals, 99.5)) * 1.5, float(intervals.max()) * 1.01)
            axes[1].hist(np.clip(intervals, 0, top), bins=80, range=(0, top), color=_COLOURS[0])
        axes[1].set_yscale('log')
        axes[1].set_ylabel('poses')
        axes[1].set_xlabel('interval of stamps (ms)')
    return _drawn(3.6, draw, rows=2, shared=False)


def latency_plot(body: Body, begin_ns: int) -> str:
    """Plot arrival minus stamp over time and as a histogram."""
    latency = (body.arrivals_ns - body.trajectory.stamps_ns) / 1e6
    times = (body.trajectory.stamps_ns - begin_ns) / NS_PER_S

    def draw(axes: Any) -> None:
        axes[0].plot(*thin(*_broken(times, latency, body, begin_ns)), color=_COLOURS[0],
                     linewidth=0.7)
        axes[0].set_ylabel('latency (ms)')
        axes[0].set_xlabel('time (s)')
        low, high = np.percentile(latency, (0.1, 99.5))
        axes[1].hist(np.clip(latency, low, high), bins=80, color=_COLOURS[0])
        axes[1].set_ylabel('poses')
        axes[1].set_xlabel('stamp to recorder (ms)')
    return _drawn(3.6, draw, rows=2, shared=False)


def noise_plot(body: Body, begin_ns: int) -> Optional[str]:
    """Plot the running standard deviation over 100 samples; return None for fewer samples."""
    positions = 1e3 * running_deviation(body.trajectory.positions).max(axis=1, initial=0.0)
    if len(positions) < 2:
        return None
    angles = np.degrees(running_deviation(attitude_steps(body)).max(axis=1, initial=0.0))
    stamps = body.trajectory.stamps_ns
    across = stamps[WINDOW - 1:] - stamps[:1 - WINDOW] > 1.5 * WINDOW * (
        body.trajectory.median_interval_ns)    # windows that contain a gap
    positions[across] = angles[across] = np.nan
    times = (body.trajectory.stamps_ns[WINDOW - 1:] - begin_ns) / NS_PER_S

    def draw(axes: Any) -> None:
        for number, (values, label) in enumerate((
                (positions, 'position (mm)'), (angles, 'attitude (deg)'))):
            axes[number].plot(*thin(*_broken(
                times, np.maximum(values, 1e-4), body, begin_ns)), color=_COLOURS[number])
            axes[number].set_yscale('log')
            low, high = axes[number].get_ylim()    # at least a decade, for labels that differ
            middle, half = np.sqrt(low * high), np.sqrt(max(high / low, 10.0))
            axes[number].set_ylim(middle / half, middle * half)
            axes[number].set_ylabel(label)
        axes[1].set_xlabel('time (s)')
    return _drawn(3.4, draw, rows=2)


def clock_plot(take: Take) -> Optional[str]:
    """Plot offset, skew and uncertainty of the sender's clock; return None without diagnostics."""
    if len(take.clock) < 3:
        return None
    times = np.array([(row.time_ns - take.begin_ns) / NS_PER_S for row in take.clock])
    offset = np.array([row.offset_s - take.clock[-1].offset_s for row in take.clock]) * 1e3
    parts = ((offset, 'offset from\nits last (ms)'),
             (np.array([row.skew_ppm for row in take.clock]), 'skew (ppm)'),
             (np.array([row.uncertainty_us for row in take.clock]), 'uncertainty\n(us)'))
    epochs = np.array([row.epoch for row in take.clock])

    def draw(axes: Any) -> None:
        for axis, (values, label), colour in zip(axes, parts, _COLOURS):
            axis.plot(times, values, color=colour)
            axis.set_ylabel(label)
            for at in times[1:][np.diff(epochs) > 0]:
                axis.axvline(at, color=_GAP, linestyle=':')
        axes[-1].set_xlabel('time (s)')
    return _drawn(4.2, draw, rows=3)


def odometry_plot(evaluation: OdometryEvaluation) -> str:
    """Plot reference and aligned estimate from above, and the errors over time."""
    ate, rpe = evaluation.ate, evaluation.rpe
    begin_ns = int(ate.stamps_ns[0])

    def draw(axes: Any) -> None:
        for trajectory, name, colour in ((ate.reference, 'mocap', _COLOURS[0]),
                                         (ate.aligned, 'estimate', _COLOURS[1])):
            step = max(len(trajectory) // _MOST_POINTS, 1)
            axes[0].plot(*trajectory.positions[::step, :2].T, color=colour, label=name)
        axes[0].set_aspect('equal', adjustable='datalim')
        axes[0].set_xlabel('east (m)')
        axes[0].set_ylabel('north (m)')
        axes[0].legend(fontsize=8)
        axes[1].plot(*thin((ate.stamps_ns - begin_ns) / NS_PER_S, 1e3 * ate.distances),
                     color=_COLOURS[0], label='absolute')
        axes[1].plot(*thin((rpe.stamps_ns - begin_ns) / NS_PER_S, 1e3 * rpe.distances),
                     color=_COLOURS[1], label=f'relative, {rpe.seconds:g} s')
        axes[1].set_xlabel('time (s)')
        axes[1].set_ylabel('error (mm)')
        axes[1].set_ylim(bottom=0)
        axes[1].legend(fontsize=8)
    return _drawn(5.6, draw, rows=2, shared=False)
