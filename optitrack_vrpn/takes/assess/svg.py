# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Draw charts as SVG: some kilobytes each, with the colours of the page that embeds them.

Colours are classes of the page's style (``c0`` to ``c4``, ``gap``, ``frozen``, ``break``), so that
one chart suits light mode, dark mode and print. Text stays text.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
import json
import math
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Sizes in units of the picture, which the page scales.
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _LEGEND = 380, 50, 8, 6, 32, 16
#: Half of the width of a letter.
_HALF_LETTER = 2.9
#: Marks of one kind that are drawn; more cannot be told apart.
_MOST_MARKS = 200


class SvgLine(NamedTuple):
    """
    A line of a panel.

    :ivar low: values; NaN interrupts the line.
    :ivar high: with it, each point is a vertical stroke from ``low`` to ``high``.
    :ivar broken: points before which the line is interrupted.
    :ivar own_colour: whether the line has a colour of its own, beyond the five of the page.
    """

    name: str
    x: Floats
    low: Floats
    high: Optional[Floats] = None
    broken: Optional[npt.NDArray[np.bool_]] = None
    own_colour: bool = False


class Bars(NamedTuple):
    """A histogram: edges (n + 1) and counts (n)."""

    edges: Floats
    counts: Floats


class Panel(NamedTuple):
    """
    One pair of axes.

    :ivar marks: class, begin and end of spans that are marked; of equal ends a line.
    :ivar x_range: of all panels of a chart alike; None for the range of the data.
    :ivar from_zero: whether the y axis begins at 0.
    :ivar equal: whether both axes have one scale.
    :ivar least: margin of the y axis above and below values that are alike.
    """

    y_label: str
    x_label: str
    content: Sequence[SvgLine] | Bars
    marks: Sequence[tuple[str, float, float]] = ()
    x_range: Optional[tuple[float, float]] = None
    from_zero: bool = False
    log: bool = False
    equal: bool = False
    height: int = 130
    dots: Sequence[tuple[float, float]] = ()
    least: float = 1e-3


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between two values."""
    step = 10.0 ** math.floor(math.log10(max((high - low) / most, 1e-12)))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (factor * step) <= most)
    return [step * k for k in range(math.ceil(low / step - 1e-9), math.floor(
        high / step + 1e-9) + 1)]


def _label(value: float) -> str:
    text = f'{value / 1000:.6g}k' if abs(value) >= 10_000 else f'{value:.6g}'
    return '0' if abs(value) < 1e-12 else text.replace('-', '\N{MINUS SIGN}')


def chart(panels: Sequence[Panel], title: str = '') -> str:
    """
    Draw panels one below the other.

    :param title: of the picture, for readers that cannot see it.
    """
    parts, top = [], 0
    for panel in panels:
        body, height = _panel(panel, top)
        parts.append(body)
        top += height
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img" '
            f'aria-label="{escape(title)}">{"".join(parts)}</svg>')


def zoom_data(panels: Sequence[Panel]) -> str:
    """Return the lines of panels as JSON for the script of the page."""
    found = []
    for panel in panels:
        lines: Sequence[SvgLine] = () if isinstance(panel.content, Bars) else panel.content
        if not lines or panel.equal or any(line.x is not lines[0].x for line in lines):
            continue
        broken = lines[0].broken
        breaks = np.zeros(0, np.int64) if broken is None else np.flatnonzero(broken)
        rows = [{'name': line.name, 'low': _rounded(np.insert(line.low, breaks, np.nan)),
                 'high': _rounded(np.insert(line.low if line.high is None else line.high,
                                            breaks, np.nan))} for line in lines]
        x = lines[0].x
        found.append({'x': panel.x_label, 'y': panel.y_label, 'log': panel.log, 'lines': rows,
                      'marks': panel.marks[:_MOST_MARKS], 'height': panel.height + 60,
                      'at': _rounded(np.insert(x, breaks, x[breaks]), 8)})
    return json.dumps(found, separators=(',', ':')) if found else ''


def _rounded(values: Floats, digits: int = 5) -> list[Optional[float]]:
    return [float(f'{value:.{digits}g}') if value == value else None for value in values.tolist()]


def _limits(values: Sequence[Floats], least: float) -> tuple[float, float]:
    finite = [part[np.isfinite(part)] for part in values]
    finite = [part for part in finite if len(part)]
    if not finite:
        return 0.0, 1.0
    low, high = min(map(np.min, finite)), max(map(np.max, finite))
    margin = max(0.04 * (high - low), least)
    return float(low - margin), float(high + margin)


def _panel(panel: Panel, top: int) -> tuple[str, int]:
    lines = [] if isinstance(panel.content, Bars) else list(panel.content)
    named = [(number % 5, line.name) for number, line in enumerate(lines) if line.name]
    legend = _LEGEND if len(named) > 1 else 0
    width, height = _WIDTH - _LEFT - _RIGHT, panel.height
    y0 = top + _TOP + legend
    if isinstance(panel.content, Bars):
        edges, counts = panel.content
        xs, ys = [edges], [np.append(counts, 0.0)]
    else:
        xs = [line.x for line in lines]
        ys = [values for line in lines for values in (line.low, line.high) if values is not None]
    if panel.log:
        ys = [np.log10(np.maximum(values, 0.7 if not lines else 1e-4)) for values in ys]
    x_low, x_high = panel.x_range or ((float(edges[0]), float(edges[-1])) if not lines and len(
        xs[0]) else _limits(xs, 1e-9))
    spread = max((float(np.nanmax(np.abs(v))) for v in ys if np.isfinite(v).any()), default=1.0)
    y_low, y_high = _limits(ys, 0.3 if panel.log and lines else max(panel.least, 1e-3 * spread))
    if panel.from_zero or (not lines and not panel.log):
        y_low = 0.0
    if panel.equal:
        scale = max((x_high - x_low) / width, (y_high - y_low) / height, 0.04 / height)
        x_low, x_high = ((x_low + x_high - s * scale * width) / 2 for s in (1, -1))
        y_low, y_high = ((y_low + y_high - s * scale * height) / 2 for s in (1, -1))
    x_scale, y_scale = width / max(x_high - x_low, 1e-12), height / max(y_high - y_low, 1e-12)

    def x_of(values: Any) -> Any:
        return _LEFT + (values - x_low) * x_scale

    def y_of(values: Any) -> Any:
        return y0 + height - (values - y_low) * y_scale

    made = [f'<rect x="{_LEFT}" y="{y0}" width="{width}" height="{height}" class="area"/>']
    for value in ticks(x_low, x_high, 6):
        x, shown = x_of(value), _label(value)
        inside = min(x, _WIDTH - _HALF_LETTER * len(shown))
        made.append(f'<path d="M{x:.1f} {y0}v{height}" class="grid"/><text x="{inside:.1f}" '
                    f'y="{y0 + height + 12}" class="mid">{shown}</text>')
    powers = [v for v in ticks(y_low, y_high, 4) if not panel.log or abs(v - round(v)) < 1e-6]
    for value in powers:
        y, shown = y_of(value), _label(10.0 ** value if panel.log else value)
        made.append(f'<path d="M{_LEFT} {y:.1f}h{width}" class="grid"/><text x="{_LEFT - 4}" '
                    f'y="{y + 3:.1f}" class="end">{shown}</text>')
    middle = y0 + height / 2
    made.append(f'<text x="10" y="{middle}" transform="rotate(-90 10 {middle})" class="mid">'
                f'{escape(panel.y_label)}</text><text x="{_LEFT + width / 2}" '
                f'y="{y0 + height + 25}" class="mid">{escape(panel.x_label)}</text>')
    seen: dict[str, int] = {}
    for kind, begin, end in panel.marks:
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] > _MOST_MARKS or end < x_low or begin > x_high:
            continue
        a, b = (x_of(min(max(value, x_low), x_high)) for value in (begin, end))
        made.append(
            f'<path d="M{a:.1f} {y0}v{height}" class="{kind}"/>' if begin == end else
            f'<rect x="{a:.1f}" y="{y0}" width="{max(b - a, 1.0):.1f}" height="{height}" '
            f'class="{kind}"/>')
    if isinstance(panel.content, Bars):
        sides, tops = x_of(edges), np.minimum(y_of(ys[0][:-1]), y0 + height)
        made.append('<path class="bar" d="' + ''.join(
            f'M{a:.1f} {y0 + height}V{v:.1f}H{b:.1f}V{y0 + height}z'
            for a, b, v, count in zip(sides[:-1], sides[1:], tops, counts) if count) + '"/>')
    of_line = iter(ys)
    for number, line in enumerate(lines):
        low = y_of(next(of_line))
        high = low if line.high is None else y_of(next(of_line))
        made.append(f'<path class="line c{number % 5}"{_colour(number, line, "stroke")} '
                    f'd="{_path(x_of(line.x), low, high, line)}"/>')
    for number, (x, y) in enumerate(panel.dots):
        made.append(f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" '
                    f'class="dot c{number % 5}"{_colour(number, lines[number], "fill")}/>')
    at = float(_LEFT)
    for number, name in named if legend else []:
        shown = name if len(name) <= 18 else f'{name[:17]}\N{HORIZONTAL ELLIPSIS}'
        made.append(f'<path class="line c{number}" d="M{at:.0f} {top + 10}h14"/><text '
                    f'x="{at + 18:.0f}" y="{top + 13}">{escape(shown)}</text>')
        at += 30 + 5.6 * len(shown)
    return ''.join(made), _TOP + legend + height + _BOTTOM


def _colour(number: int, line: SvgLine, what: str) -> str:
    """Return the attribute of a line of its own colour; neighbours are far apart in hue."""
    return f' style="{what}:hsl({number * 137.5 % 360:.0f} 65% 50%)"' if line.own_colour else ''


def _path(x: Floats, low: Floats, high: Floats, line: SvgLine) -> str:
    """Give the points of a line, interrupted at NaN and where it is broken."""
    broken = np.zeros(len(x), bool) if line.broken is None else line.broken
    parts, pen = [], 'M'
    for at, first, last, new in zip(x.tolist(), low.tolist(), high.tolist(), broken.tolist()):
        if first != first:
            pen = 'M'
            continue
        parts.append(f'{"M" if new else pen}{at:.1f} {first:.1f}')
        if abs(first - last) >= 0.1:
            parts.append(f'V{last:.1f}')
        elif new or pen == 'M':    # a single point is visible
            parts.append('h.1')
        pen = 'L'
    return ''.join(parts)
