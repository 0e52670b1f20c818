# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Draw the path of the clock under the minima for docs/stamps.md.

    python bench/clock_picture.py            writes docs/img/stamp_path.svg

Five minutes of block minima with load and a slew of the host's clock, the path that the estimator
finds in them at the end, and the line that it gave out at the time. Same picture at every run.
"""

from __future__ import annotations

from pathlib import Path
import sys

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

import numpy as np  # noqa: E402
from optitrack_vrpn.clock.path import ClockPath  # noqa: E402

_SECONDS = 200
_WIDTH, _HEIGHT, _LEFT, _TOP, _WIDE, _TALL = 860, 380, 62, 46, 770, 280
_LOW_US, _HIGH_US = -40.0, 360.0
_LOAD = (60, 95)
_SLEW = 150


def session() -> tuple[list[float], list[float], list[float], list[float]]:
    """Return times (s), minima, line given out for each, and the path at the end (us)."""
    rng = np.random.default_rng(3)
    t = np.arange(_SECONDS, dtype=float)
    floor = 8.0 * np.sin(t / 60.0) + 4.0 * np.clip(t - _SLEW, 0.0, 50.0)
    minima = floor + 6.0 + np.abs(rng.normal(0.0, 5.0, _SECONDS))
    load = (t >= _LOAD[0]) & (t < _LOAD[1])
    minima += load * (120.0 + rng.exponential(60.0, _SECONDS))
    path = ClockPath()
    given = []
    for at, height in zip(t.tolist(), minima.tolist(), strict=True):
        given.append(path.line(at * 1e9) / 1e3 if path.blocks else height)
        path.add(at * 1e9, height * 1e3)
    return (t.tolist(), minima.tolist(), given, np.interp(
        t, [node.t for node in path.nodes], [node.x for node in path.nodes]).tolist())


def picture() -> str:
    """Return the picture as SVG."""
    times, minima, given, path = session()

    def x(seconds: float) -> str:
        return f'{_LEFT + _WIDE * seconds / _SECONDS:.1f}'

    def y(us: float) -> str:
        share = (min(max(us, _LOW_US), _HIGH_US) - _LOW_US) / (_HIGH_US - _LOW_US)
        return f'{_TOP + _TALL * (1.0 - share):.1f}'

    def line(heights: list[float], style: str) -> str:
        points = ' '.join(f'{x(t)},{y(h)}' for t, h in zip(times, heights, strict=True))
        return f'<polyline points="{points}" fill="none" {style}/>'

    def label(seconds: float, us: float, text: str, colour: str) -> str:
        return f'<text x="{x(seconds)}" y="{y(us)}" fill="{colour}">{text}</text>'

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#1f2328">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="22" font-size="14" font-weight="bold">'
        'The path under the minima</text>',
        f'<rect x="{x(_LOAD[0])}" y="{_TOP}" width="{_WIDE * 35 / _SECONDS:.1f}" '
        f'height="{_TALL}" fill="#fff8c5"/>',
    ]
    for us in range(0, 400, 100):
        out.append(f'<line x1="{_LEFT}" x2="{_LEFT + _WIDE}" y1="{y(us)}" y2="{y(us)}" '
                   f'stroke="#d0d7de"/><text x="{_LEFT - 8}" y="{y(us)}" text-anchor="end">'
                   f'{us} us</text>')
    for second in range(0, _SECONDS + 1, 60):
        out.append(f'<text x="{x(second)}" y="{_TOP + _TALL + 20}" text-anchor="middle">'
                   f'{second} s</text>')
    out += [f'<circle cx="{x(t)}" cy="{y(m)}" r="2" fill="#57606a"/>'
            for t, m in zip(times, minima, strict=True)]
    out += [
        line(path, 'stroke="#0969da" stroke-width="1.4"'),
        line(given, 'stroke="#d1242f" stroke-width="1.6"'),
        label(100, 300, 'dots: least residual of each second', '#57606a'),
        label(100, 270, 'blue: path of least cost, with all data', '#0969da'),
        label(100, 240, 'red: line as given out, a second ahead; stamps lie on it', '#d1242f'),
        label(_LOAD[0] + 1, 330, 'load: bounded cost', '#9a6700'),
        label(_SLEW - 22, 75, 'a clock is slewed:', '#1f2328'),
        label(_SLEW - 22, 57, 'one bend', '#1f2328'),
    ]
    return '\n'.join([*out, '</svg>', ''])


if __name__ == '__main__':
    (ROOT / 'docs' / 'img' / 'stamp_path.svg').write_text(picture(), encoding='utf-8')
