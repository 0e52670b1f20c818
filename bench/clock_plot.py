# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Draw the error over the hours as an SVG, without a plotting library."""

from __future__ import annotations

import math

_WIDTH, _HEIGHT = 860, 430
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 132, 44, 46
_COLOURS = {
    'tracking': '#d1242f', 'original': '#57606a', 'minimum 5 s': '#bf8700',
    'minimum 30 s': '#8250df', 'Olson 2010': '#1a7f37', 'two hulls': '#0969da',
}
_DECADES = (1e-6, 1.0)


def error_svg(name: str, lines: dict[str, list[float]]) -> str:
    """
    Return the picture.

    :param lines: method to its worst error in each minute (us).
    """
    minutes = max(len(values) for values in lines.values())
    low, high = (math.log10(d) for d in _DECADES)
    wide, tall = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def x(minute: float) -> float:
        return _LEFT + wide * minute / max(1, minutes - 1)

    def y(seconds: float) -> float:
        share = (math.log10(min(max(seconds, _DECADES[0]), _DECADES[1])) - low) / (high - low)
        return _TOP + tall * (1.0 - share)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" fill="#1f2328">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="20" font-size="14" font-weight="bold">Error of the stamps, worst '
        f'of each minute: {name}</text>',
    ]
    for power in range(round(low), round(high) + 1):
        at = y(10.0 ** power)
        label = {0: '1 s', -3: '1 ms', -6: '1 us'}.get(power, '')
        label = label or (f'{10 ** (power + 6)} us' if power < -3 else f'{10 ** (power + 3)} ms')
        out += [
            f'<line x1="{_LEFT}" x2="{_LEFT + wide}" y1="{at:.1f}" y2="{at:.1f}" '
            'stroke="#d0d7de"/>',
            f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{label}</text>',
        ]
    step = max(1, round(minutes / 60 / 5)) * 60 if minutes > 90 else 10
    for minute in range(0, minutes + 1, step):
        label = f'{minute // 60} h' if step >= 60 else f'{minute} min'
        out.append(f'<text x="{x(min(minute, minutes - 1)):.1f}" y="{_HEIGHT - 22}" '
                   f'text-anchor="middle">{label}</text>')
    ends: list[float] = []
    for method, values in sorted(lines.items(), key=lambda item: -item[1][-1]):
        points = ' '.join(f'{x(i):.1f},{y(v * 1e-6):.1f}' for i, v in enumerate(values) if v)
        colour = _COLOURS.get(method, '#000000')
        stroke = 2.2 if method == 'tracking' else 1.1
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" '
                   f'stroke-width="{stroke}"/>')
        typical = sorted(v for v in values[-30:] if v)
        at = y(typical[len(typical) // 2] * 1e-6) if typical else _TOP
        while any(abs(at - other) < 14 for other in ends):
            at += 3
        ends.append(at)
        out.append(f'<text x="{_LEFT + wide + 8}" y="{at + 4:.1f}" fill="{colour}" '
                   f'font-weight="{"bold" if method == "tracking" else "normal"}">{method}</text>')
    return '\n'.join([*out, '</svg>', ''])
