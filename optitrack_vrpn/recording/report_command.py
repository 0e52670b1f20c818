# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write a report about a take: ``report FOLDER -o report.html``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
import sys
from typing import Optional

from optitrack_vrpn import __version__
from optitrack_vrpn.cli.arguments import duration, Parser, seconds, without_ros_arguments
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.whole_file_io import whole_file
from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.recording import report_plots_io as plots
from optitrack_vrpn.recording.evaluation_odometry import evaluate_odometry
from optitrack_vrpn.recording.figures import body_figures
from optitrack_vrpn.recording.findings import Finding, findings
from optitrack_vrpn.recording.report_page import (
    compare_table, evaluation_section, page, Picture, Section)
from optitrack_vrpn.recording.take import Body, Take
from optitrack_vrpn.recording.take_io import load_estimate, load_take
from optitrack_vrpn.recording.topics import absolute
from optitrack_vrpn.recording.trajectory import Trajectory

#: Chosen: number of bodies with their own pictures unless requested. Halved or doubled, so is the
#: size of a page with many bodies; more than 8 are too large for a telephone.
_MOST_PICTURED = 8


def make_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='report', description='Summarise a take on one HTML page, findings '
        'first.', epilog='The recording is a bag, a raw recording (.pcap) or a CSV export of '
        'Motive. See docs/recording.md.')
    parser.add_argument('recording', type=Path)
    parser.add_argument('-o', '--output', type=Path, default=Path('report.html'), metavar='FILE',
                        help='default %(default)s')
    parser.add_argument('--compare', type=Path, metavar='FOLDER2', help='a second take')
    parser.add_argument('--body', action='append', default=[], metavar='NAME',
                        help='plot these bodies instead of the worst ones')
    parser.add_argument('--reference', metavar='BODY', help='evaluate an odometry against it')
    parser.add_argument('--estimate', metavar='TOPIC_OR_FILE',
                        help='the odometry: a recorded topic, or a file in TUM format')
    parser.add_argument('--rpe-seconds', type=duration, default=1.0, metavar='S',
                        help='time over which motions are compared (default %(default)s)')
    parser.add_argument('--max-offset', type=seconds, default=2.0, metavar='S',
                        help='largest time offset of the search (default %(default)s)')
    return parser


def _estimate(take: Take, what: str) -> Trajectory:
    topic = absolute(what)
    if topic in take.estimates:
        return take.estimates[topic]
    if Path(what).is_file():
        return load_estimate(Path(what))
    raise ConfigurationError(
        f'{what}: neither a file nor a recorded topic with poses; recorded are '
        f'{", ".join(sorted(take.estimates)) or "none"}')


def _pictures(take: Take, body: Body, kind: str) -> list[Picture]:
    begin = take.begin_ns
    made = [
        Picture(plots.path_plot([plots.path_line(body)]),
                'Path from above; the dot marks the start.'),
        Picture(plots.position_plot(body, begin), 'Position. Orange: no pose; blue: frozen; '
                'dotted: a jump or reset.'),
        Picture(plots.attitude_plot(body, begin), 'Attitude.'),
        Picture(plots.rate_plot(body, begin), 'Rate, and intervals of stamps.')]
    if kind != 'motive csv':
        made.append(Picture(plots.latency_plot(body, begin), 'Delay from stamp to recorder.'))
    noise = plots.noise_plot(body, begin)
    if noise is not None:
        made.append(Picture(noise, 'Standard deviation over 100 samples, worst axis: noise while '
                            'the body is at rest, motion otherwise.'))
    return made


def make_report(arguments: argparse.Namespace) -> tuple[str, list[Finding]]:
    """
    Create the page.

    :returns: the page and the findings.
    :raises OptitrackVrpnError: if an input cannot be read or evaluated.
    """
    plots.check_available()
    take = load_take(arguments.recording, absolute(arguments.estimate or ''))
    # One body at a time is in memory.
    figures, paths = {}, []
    for name, body in take.bodies.items():
        if len(body.trajectory) > 1:
            figures[name] = body_figures(take, body)
            paths.append(plots.path_line(body))
        del body
    found = findings(take, list(figures.values()))
    sections = []
    if arguments.estimate is not None:
        if arguments.reference not in take.bodies:
            raise ConfigurationError(
                f'{arguments.reference}: no such body; recorded are '
                f'{", ".join(take.bodies) or "none"}')
        result = evaluate_odometry(
            take.bodies[arguments.reference].trajectory, _estimate(take, arguments.estimate),
            rpe_seconds=arguments.rpe_seconds, max_offset_s=arguments.max_offset)
        sections.append(evaluation_section(
            arguments.reference, arguments.estimate, result, plots.odometry_plot(result)))
    if arguments.compare is not None:
        other = load_take(arguments.compare)
        theirs = [body_figures(other, body) for body in other.bodies.values()
                  if len(body.trajectory) > 1]
        sections.append(Section('Compared with ' + other.name, [], compare_table(
            (take.name, other.name), list(figures.values()), theirs)))
    chosen = arguments.body or _worst(list(figures), found)
    for name in chosen:
        if name not in figures:
            raise ConfigurationError(f'{name}: no such body; recorded are {", ".join(figures)}')
    common = []
    if len(figures) > 1:
        common.append(Picture(
            plots.path_plot(paths), 'All paths from above.'))
    clock = plots.clock_plot(take)
    if clock is not None:
        common.append(Picture(
            clock, "The sender's clock: offset, skew and uncertainty as the node reported them; "
            'dotted: restart of the clock model.'))
    if common:
        sections.append(Section('Paths and clock' if len(common) > 1 else 'The take', common))
    sections += [Section(name, _pictures(take, take.bodies[name], take.kind)) for name in chosen]
    left = len(figures) - len(chosen)
    if left:
        sections.append(Section(
            f'{left} more', [], '<p>Plot other bodies with --body NAME.</p>'))
    number = 0
    for section in sections:
        for picture in section.pictures:
            picture.svg, number = plots.unique(picture.svg, number), number + 1
    made = f'optitrack_vrpn {__version__}: report {arguments.recording.name}'
    return page(take, found, list(figures.values()), sections, made), found


def _worst(names: list[str], found: Sequence[Finding]) -> list[str]:
    """Return the bodies in the order of the findings about them, then the others."""
    named = [name for finding in found for name in names if finding.text.startswith(f'{name}: ')]
    return list(dict.fromkeys([*named, *names]))[:_MOST_PICTURED]


@command('report')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0, even for a take with faults; else see ``exit_code``.
    """
    parser = make_parser()
    arguments = parser.parse_args(without_ros_arguments(sys.argv[1:] if argv is None else argv))
    if (arguments.reference is None) != (arguments.estimate is None):
        parser.error('--reference BODY and --estimate TOPIC_OR_FILE need each other')
    text, found = make_report(arguments)
    with whole_file(arguments.output) as path:
        path.write_text(text, encoding='utf-8')
    for finding in found[:5]:
        print(f'{finding.severity.name.lower()}: {finding.text}')
    print(f'{arguments.output}: {len(text) // 1000} kB')
    return 0
