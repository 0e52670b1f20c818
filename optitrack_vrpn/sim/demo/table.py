# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The table of the demo, and what is missing in it."""

import math
import textwrap
from typing import Mapping, NamedTuple, Optional, Sequence

from optitrack_vrpn.cli.terminal_io import format_table
from optitrack_vrpn.core.names import ros_name

#: Bodies of the demo: an ordinary name, one that is not valid in ROS, one with a space. Motive's
#: default is `Rigid Body 1`, which the demo must not use.
NAMES = ('Demo Body 1', '1demo', 'demo wand')


class BodyRow(NamedTuple):
    """
    One body in a subscriber.

    :ivar name: its ROS name.
    :ivar poses: number of received poses.
    :ivar rate_hz: poses received per second; None if none arrives.
    :ivar position: the latest position, ENU (m); None if none arrives.
    :ivar heading_deg: direction of its nose: 0 is north, 90 is east.
    :ivar has_transform: whether a transform of its frame arrived on /tf.
    """

    name: str
    poses: int = 0
    rate_hz: Optional[float] = None
    position: Optional[tuple[float, float, float]] = None
    heading_deg: float = math.nan
    has_transform: bool = False


_HEAD = ('body', 'poses', 'Hz', 'east', 'north', 'up m', 'heading', 'TF')
#: Columns in the order in which they are left out on a narrow terminal.
_DISPENSABLE = ('TF', 'heading', 'poses', 'up m', 'north', 'east')


def body_names(count: int) -> tuple[str, ...]:
    """Return names of simulated bodies."""
    return tuple(f'Demo Body {number}' for number in range(1, count + 1))


def table(
    rows: Sequence[BodyRow], clock: Mapping[str, str], connection: str = '', width: int = 0,
    height: int = 0, elapsed_s: float = 0.0,
) -> list[str]:
    """
    Write the table of bodies, the clock, and the connection.

    :param clock: the values of the clock's diagnostic; empty before the first.
    :param connection: the state of the connection; empty for none.
    :param width: columns of the terminal; 0 for no limit.
    :param height: lines of the terminal, of which one stays free for the cursor; 0 for no limit.
    :param elapsed_s: time since the beginning (s), which selects the page.
    :returns: lines without colours that fit the terminal.
    """
    below: list[str] = []
    if clock:
        below += ['', *_wrapped(_clock_line(clock), width)]
    if connection:
        below += ['', *_wrapped(connection, width)]
    # One line is for the cursor, and two are the head's.
    room = height - 3 - len(below) if height else len(rows)
    if room < 3 and len(rows) > room:
        below = []
        room = height - 3
    shown, note = _page(rows, room, elapsed_s)
    bodies = format_table(_HEAD, [_cells(row) for row in shown], ('body',), width, _DISPENSABLE)
    lines = [*bodies, *([note] if note else []), *below]
    if height:
        lines = lines[:max(1, height - 1)]
    return [line[:width] for line in lines] if width else lines


def _page(
    rows: Sequence[BodyRow], room: int, elapsed_s: float,
) -> tuple[Sequence[BodyRow], str]:
    """Return the bodies of the present page, and a note."""
    if len(rows) <= room:
        return rows, ''
    size = max(1, room - 1)
    pages = math.ceil(len(rows) / size)
    # Time of a page (s) if the bodies do not fit the terminal's height. Chosen: time to read it.
    first = int(elapsed_s / 3.0) % pages * size
    last = min(first + size, len(rows))
    # Pages of one height: the lines below stay where they are.
    return rows[last - size:last], f'bodies {last - size + 1} to {last} of {len(rows)}'


def _clock_line(clock: Mapping[str, str]) -> str:
    uncertainty = clock.get('uncertainty_us', 'unknown')
    with_unit = f'{float(uncertainty) / 1000:.2f} ms' if uncertainty.replace(
        '.', '', 1).isdecimal() else uncertainty
    return (f'clock: {clock.get("mode")}, epoch {clock.get("epoch")}, '
            f'skew {clock.get("skew_ppm", "unknown")} ppm, stamps uncertain by {with_unit}')


def _wrapped(line: str, width: int) -> list[str]:
    if not width or len(line) <= width:
        return [line]
    return textwrap.wrap(line, max(10, width), subsequent_indent='       ')


def _cells(row: BodyRow) -> tuple[str, ...]:
    if row.position is None or row.rate_hz is None:
        return (row.name, str(row.poses), *['-'] * (len(_HEAD) - 2))
    return (
        row.name, str(row.poses), f'{row.rate_hz:.1f}', *(f'{c:+.3f}' for c in row.position),
        f'{row.heading_deg:.0f} deg', 'yes' if row.has_transform else 'no')


def missing(rows: Sequence[BodyRow], expected: int, transforms: bool = True) -> list[str]:
    """
    List the bodies and transforms that did not arrive.

    :param expected: expected number of bodies.
    :param transforms: whether each must have a transform.
    :returns: one line for each failure; empty if there is none.
    """
    lines = [f'{row.name} did not stream' for row in rows if row.poses < 3]
    lines += [f'{row.name} has no transform on /tf'
              for row in rows if transforms and row.poses >= 3 and not row.has_transform]
    if len(rows) < expected:
        lines.append(f'{len(rows)} of {expected} bodies appeared')
    return lines


def display(text: str, names: Sequence[str]) -> str:
    """
    Make the rviz display of a demo from that of the package.

    :param text: the package's file: poses of `/Rigid_Body_1` and so on.
    :param names: the simulated bodies, in the order of the file's displays.
    :returns: the same for the topics of the demo.
    """
    for number, name in reversed(list(enumerate(names, 1))):
        text = text.replace(f'/Rigid_Body_{number}/', f'/{ros_name(name)}/')
        text = text.replace(f'Name: Rigid_Body_{number}\n', f'Name: {ros_name(name)}\n')
    return text
