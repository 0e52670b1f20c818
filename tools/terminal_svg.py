# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Draw the text of a terminal as an SVG, for the README.

  tmux capture-pane -p | python3 tools/terminal_svg.py TITLE > docs/img/demo.svg
"""

import html
import sys

WIDTH, HEIGHT, MARGIN, BAR = 8.0, 17.0, 12.0, 26.0


def draw(lines, title):
    """Return the SVG of some lines of text, in a window with a title."""
    columns = max((len(line) for line in lines), default=1)
    width = columns * WIDTH + 2 * MARGIN
    height = len(lines) * HEIGHT + 2 * MARGIN + BAR
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}" role="img">',
        f'<title>{html.escape(title)}</title>',
        f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#1c2128"/>',
        f'<text x="{width / 2:g}" y="{BAR - 8:g}" fill="#8b949e" font-size="13" '
        f'font-family="sans-serif" text-anchor="middle">{html.escape(title)}</text>',
        '<g fill="#d5dde6" font-size="13" font-family="DejaVu Sans Mono, Menlo, Consolas, '
        'monospace">']
    for number, line in enumerate(lines):
        if line:
            y = BAR + MARGIN + (number + 0.75) * HEIGHT
            # `textLength` keeps columns aligned in every font.
            parts.append(
                f'<text x="{MARGIN:g}" y="{y:g}" xml:space="preserve" '
                f'textLength="{len(line) * WIDTH:g}">{html.escape(line)}</text>')
    return '\n'.join([*parts, '</g>', '</svg>', ''])


if __name__ == '__main__':
    TEXT = sys.stdin.read().rstrip().splitlines()
    sys.stdout.write(draw([line.rstrip() for line in TEXT], ' '.join(sys.argv[1:])))
