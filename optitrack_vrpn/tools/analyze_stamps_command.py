# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Measure the regularity and the age of the stamps of a PoseStamped topic."""

from collections.abc import Sequence
import importlib
import math
from pathlib import Path
from typing import Any, Optional

from optitrack_vrpn.cli import (
    command, duration, how_to_install, loading, new_file, Parser)
from optitrack_vrpn.errors import BackendUnavailableError, TransportError
from optitrack_vrpn.stats import histogram, Spread, StampReport, summarise

#: Chosen: number of listed gaps, which fits a terminal of 24 lines.
_GAPS_SHOWN = 8


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='analyze_stamps',
        description='Measure the stamps of a PoseStamped topic: rate, regularity, gaps, age.',
        epilog='Arguments of ROS follow --ros-args. Exit code: 0, or 1 if no message arrived '
        'or something is not installed, 64 if the command line is wrong, 130 on Ctrl-C before the '
        'first message.')
    parser.add_argument('topic', help='as in /wand/pose')
    parser.add_argument('--seconds', type=duration, default=10.0, metavar='S',
                        help='duration from the first message (default %(default)s)')
    parser.add_argument('--wait', type=duration, default=10.0, metavar='S',
                        help='longest wait for the first message (default %(default)s)')
    parser.add_argument('--plot', type=new_file, metavar='FILE.png',
                        help='plot to write (needs matplotlib)')
    return parser


def describe(topic: str, report: StampReport, bars: Sequence[tuple[float, float, int]]) -> str:
    """Return a report as text."""
    lines = [
        f'{topic}: {report.messages} stamps over {report.duration_s:.3f} s, '
        f'{report.rate_hz:.3f} Hz (median)',
        '',
        f'{"ms":12}{"mean":>11}{"std":>11}{"min":>11}{"median":>11}{"p99":>11}{"max":>11}',
        _row('intervals', report.intervals),
        _row('arrivals', report.arrivals),
    ]
    if math.isnan(report.age.mean):
        lines.append("age          unknown: the stamps are not on this host's clock")
    else:
        lines.append(_row('age', report.age))
        if report.age.minimum < 0:
            lines.append(
                "             stamps in the future: the publisher's clock differs from this one")
    lines += [
        '',
        f'repeated {report.repeated}, backwards {report.backwards}, gaps {len(report.gaps)} '
        f'(room for {report.missing} frames)',
    ]
    for gap in report.gaps[:_GAPS_SHOWN]:
        lines.append(f'  at {gap.after_s:9.3f} s: {gap.length_s * 1e3:.3f} ms')
    if len(report.gaps) > _GAPS_SHOWN:
        lines.append(f'  and {len(report.gaps) - _GAPS_SHOWN} more')
    if bars:
        most = max(count for _, _, count in bars)
        lines += ['', 'intervals (ms; the outer bins include all values beyond them)']
        for low, high, count in bars:
            bar = '#' * math.ceil(40 * count / most)    # at most 40 columns of 80
            lines.append(f'  {low * 1e3:9.4f} .. {high * 1e3:9.4f} {count:7} {bar}')
    return '\n'.join(lines)


def _row(name: str, spread: Spread) -> str:
    cells = (spread.mean, spread.std, spread.minimum, spread.median, spread.p99, spread.maximum)
    return f'{name:12}' + ''.join(f'{cell * 1e3:11.4f}' for cell in cells)


def empty_figure() -> Any:
    """Make a figure of matplotlib, which needs no display."""
    try:
        return importlib.import_module('matplotlib.figure').Figure(figsize=(9, 6))
    except ImportError as error:
        raise BackendUnavailableError(
            f'--plot needs matplotlib, and {error}: '
            f'{how_to_install("install python3-matplotlib")}, or omit --plot') from None


def plot(
    figure: Any, path: Path, topic: str, stamps_ns: Sequence[int], arrivals_ns: Sequence[int],
) -> None:
    """
    Draw intervals and ages.

    :param figure: an empty figure of matplotlib.
    :raises TransportError: if the file cannot be written.
    """
    seconds = [(s - stamps_ns[0]) * 1e-9 for s in stamps_ns]
    upper, lower = figure.subplots(2, 1, sharex=True)
    for name, times in (('arrivals', arrivals_ns), ('stamps', stamps_ns)):
        steps = [(b - a) * 1e-6 for a, b in zip(times, times[1:])]
        upper.plot(seconds[1:], steps, '.', markersize=3, label=name)
    upper.set_ylabel('interval [ms]')
    upper.legend()
    upper.set_title(topic)
    lower.plot(seconds, [(a - s) * 1e-6 for a, s in zip(arrivals_ns, stamps_ns)], '.',
               markersize=3)
    lower.set_ylabel('age [ms]')
    lower.set_xlabel('stamp since the first [s]')
    try:
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:
        raise TransportError(f'--plot {path}: {error}') from None


@command('analyze_stamps')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the tool."""
    arguments, ros_args = make_parser().parse(argv)
    figure = empty_figure() if arguments.plot else None
    with loading('analyze_stamps'):
        from optitrack_vrpn.tools.topics_ros import collect
    print(f'listening to {arguments.topic} for {arguments.seconds:g} s', flush=True)
    found = collect(arguments.topic, arguments.seconds, arguments.wait, ros_args)
    if len(found.stamps_ns) < 2:
        raise TransportError(
            f'{len(found.stamps_ns)} messages on {arguments.topic} in {arguments.wait:g} s '
            f'({found.publishers} publishers): is the node active, is the name right '
            '(ros2 topic list)?')
    report = summarise(found.stamps_ns, found.arrivals_ns)
    print(f'frame {found.frame_id}')
    print(describe(arguments.topic, report, histogram(found.stamps_ns)))
    if figure is not None:
        plot(figure, arguments.plot, arguments.topic, found.stamps_ns, found.arrivals_ns)
        print(f'drawn in {arguments.plot}')
    return 0
