# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""The table of the demo; names that separate it from a real system: bodies, frames, topics."""

import math
import textwrap
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

from optitrack_vrpn.cli.terminal_io import format_table
from optitrack_vrpn.core.names import ros_name


class BodyRow(NamedTuple):
    """
    One body in a subscriber.

    :ivar name: its ROS name.
    :ivar poses: number of received poses.
    :ivar rate_hz: rate by their stamps (Hz).
    :ivar arrival_rate_hz: rate by their arrivals (Hz).
    :ivar position: the latest position, ENU (m).
    :ivar heading_deg: direction of its nose: 0 is north, 90 is east.
    :ivar latency_s: median of (arrival - stamp).
    :ivar stamp_jitter_s: standard deviation of the intervals between stamps.
    :ivar arrival_jitter_s: the same of the arrivals.
    :ivar transforms: number of transforms of its frame on /tf.
    """

    name: str
    poses: int
    rate_hz: float
    arrival_rate_hz: float
    position: Optional[tuple[float, float, float]]
    heading_deg: float
    latency_s: float
    stamp_jitter_s: float
    arrival_jitter_s: float
    transforms: int


_HEAD = ('body', 'poses', 'Hz', 'east', 'north', 'up m', 'heading', 'latency',
         'stamp jitter', 'arrival jitter', 'TF')
#: Columns in the order in which they are left out on a narrow terminal.
_DISPENSABLE = (
    'arrival jitter', 'stamp jitter', 'TF', 'heading', 'poses', 'up m', 'north', 'east')


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
        below.append('')
        below += _wrapped(_clock_line(clock), width) + _wrapped(_arrivals_line(clock), width)
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
    return (f'clock: {clock.get("mode")}, epoch {clock.get("epoch")}, '
            f'skew {_with_unit(clock, "skew_ppm", "ppm")}, '
            f'uncertainty {_with_unit(clock, "uncertainty_us", "µs")}, '
            f'offset {clock.get("offset_s")} s, sender counts from '
            f'{str(clock.get("sender_base")).replace("_", " ")}')


def _arrivals_line(clock: Mapping[str, str]) -> str:
    restarts = sum(int(value) for key, value in clock.items() if key.startswith('epochs_ended_'))
    std, p99 = (_with_unit(clock, f'arrival_jitter_{name}_us', 'µs') for name in ('std', 'p99'))
    return f'       {restarts} restarts, arrivals {std} (std), {p99} (99 %) around their stamps'


def _with_unit(clock: Mapping[str, str], key: str, unit: str) -> str:
    """Write a value of the clock's diagnostic, without a unit where it is unknown."""
    value = clock.get(key, 'unknown')
    return value if value == 'unknown' else f'{value} {unit}'


def _wrapped(line: str, width: int) -> list[str]:
    if not width or len(line) <= width:
        return [line]
    return textwrap.wrap(line, max(10, width), subsequent_indent='       ')


def _cells(row: BodyRow) -> tuple[str, ...]:
    if row.position is None:
        return (row.name, '0', *['-'] * (len(_HEAD) - 2))
    return (
        row.name, str(row.poses), f'{row.rate_hz:.1f}', *(f'{c:+.3f}' for c in row.position),
        f'{row.heading_deg:.0f} deg', _micro(row.latency_s), _micro(row.stamp_jitter_s),
        _micro(row.arrival_jitter_s), 'yes' if row.transforms else 'no')


def _micro(seconds: float) -> str:
    return f'{seconds * 1e6:.0f} µs' if math.isfinite(seconds) else '-'


def missing(rows: Sequence[BodyRow], expected: int, transforms: bool = True) -> list[str]:
    """
    List the bodies and transforms that did not arrive.

    :param expected: expected number of bodies.
    :param transforms: whether each must have a transform.
    :returns: one line for each failure; empty if there is none.
    """
    lines = [f'{row.name} did not stream' for row in rows if row.poses < 3]
    lines += [f'{row.name} has no transform on /tf'
              for row in rows if transforms and row.poses >= 3 and not row.transforms]
    if len(rows) < expected:
        lines.append(f'{len(rows)} of {expected} bodies appeared')
    return lines


#: Bodies of the demo: an ordinary name, one that is not valid in ROS, one with a space. Motive's
#: default is `Rigid Body 1`, which the demo must not use.
NAMES = ('Demo Body 1', '1demo', 'demo wand')
#: A rate above this multiple of the sent rate means another publisher. Chosen: stamps vary by
#: milliseconds in a second, arrivals are bunched on a busy computer, and a second simulator
#: doubles the rate. Nearer to 1, load is reported; nearer to 2, a second publisher is not.
_STAMP_MARGIN, _ARRIVAL_MARGIN = 1.05, 1.5


class Endpoint(NamedTuple):
    """
    A publisher in the graph.

    :ivar topic: full name.
    :ivar node: full name of its node.
    """

    topic: str
    node: str


def body_names(count: int) -> tuple[str, ...]:
    """Return names of simulated bodies."""
    return tuple(f'Demo Body {number}' for number in range(1, count + 1))


def node_parameters(namespace: str) -> dict[str, Any]:
    """
    Return the parameters that separate a simulated node's frames and control topics.

    :param namespace: namespace of the node, without slashes at its ends; not empty.
    """
    return {
        'frames.world': f'{namespace}/optitrack', 'frames.world_ned': f'{namespace}/optitrack_ned',
        'frames.body': f'{namespace}/{{body}}', 'frames.body_ned': f'{namespace}/{{body}}_ned',
        'control.absolute_topics': False}


def display(text: str, namespace: str, names: Sequence[str]) -> str:
    """
    Make the rviz display of a demo from that of the package.

    :param text: the package's file: poses of `/Rigid_Body_1` and so on, fixed frame `optitrack`.
    :param namespace: as for ``node_parameters``; may be empty.
    :param names: the simulated bodies, in the order of the file's displays.
    :returns: the same for the topics and frames of the demo.
    """
    prefix = f'{namespace}/' if namespace else ''
    for number, name in reversed(list(enumerate(names, 1))):
        text = text.replace(f'/Rigid_Body_{number}/', f'/{prefix}{ros_name(name)}/')
        text = text.replace(f'Name: Rigid_Body_{number}\n', f'Name: {ros_name(name)}\n')
    return text.replace(' optitrack\n', f' {prefix}optitrack\n')


def foreign(endpoints: Iterable[Endpoint], own: Sequence[str], count: int) -> list[str]:
    """
    Report publishers that are not the demo's.

    :param endpoints: publishers on the demo's topics.
    :param own: full names of the demo's nodes.
    :param count: how many nodes of these names there are.
    :returns: one line for each foreign node; none if the demo is alone.
    """
    topics: dict[str, list[str]] = {}
    for endpoint in endpoints:
        if endpoint.node not in own:
            topics.setdefault(endpoint.node, []).append(endpoint.topic)
    lines = [f'{node} publishes on {", ".join(sorted(set(found))[:3])}'
             for node, found in sorted(topics.items())]
    if count > len(own):
        lines.append(f'another node is called {own[0]}')
    return lines


def too_fast(
    name: str, poses: int, stamp_rate_hz: float, arrival_rate_hz: float, sent_hz: float,
) -> str:
    """
    Check the measured rates of a body.

    :param poses: number of measured poses; a check needs those of one second.
    :returns: a message if more poses arrive than are sent; else ''.
    """
    rate_hz = max(stamp_rate_hz, arrival_rate_hz)
    if poses < sent_hz or not (stamp_rate_hz > sent_hz * _STAMP_MARGIN
                               or arrival_rate_hz > sent_hz * _ARRIVAL_MARGIN):
        return ''
    return (f'{name} arrives at {rate_hz:.1f} Hz, but {sent_hz:g} Hz are sent: another node '
            'publishes on its topic')
