# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write a report about a take: ``report FOLDER -o report.html``."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
import sys
from typing import Optional

from optitrack_vrpn import __version__
from optitrack_vrpn.cli.arguments import duration, Parser, seconds, without_ros_arguments
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.files_io import add_force, check_output, whole_file
from optitrack_vrpn.cli.terminal_io import Progress
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.takes.assess.charts import (
    body_pictures, clock_picture, odometry_picture, paths)
from optitrack_vrpn.takes.assess.figures import body_figures, Figures
from optitrack_vrpn.takes.assess.remarks import findings
from optitrack_vrpn.takes.assess.report_page_io import (
    check_available, Clock, comparison, items, OWN, page, Section)
from optitrack_vrpn.takes.calibrations_io import calibrations
from optitrack_vrpn.takes.evaluate.evaluation_odometry import evaluate_odometry
from optitrack_vrpn.takes.take import Take
from optitrack_vrpn.takes.take_io import load_estimate, load_take
from optitrack_vrpn.takes.topics import absolute
from optitrack_vrpn.takes.trajectory import Trajectory
from optitrack_vrpn.telling.catalogue import Finding

#: Chosen: number of bodies with their own pictures unless requested.
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
    add_force(parser)
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
        f'{what}: neither a file nor a recorded topic with poses (PoseStamped, '
        'PoseWithCovarianceStamped, Odometry, TF, VehicleOdometry of PX4); recorded are '
        f'{", ".join(sorted(take.estimates)) or "none"}')


def make_report(arguments: argparse.Namespace) -> tuple[str, list[Finding], Take]:
    """
    Create the page.

    :returns: the page, the findings and the take.
    :raises OptitrackVrpnError: if an input cannot be read or evaluated.
    """
    check_available()
    with Progress('reading') as reading:
        take = load_take(
            arguments.recording, absolute(arguments.estimate or ''), reading.show)
    figures = _figures(take)
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
        sections.append(Section(
            f'{arguments.estimate} against {arguments.reference}', [odometry_picture(result)],
            items(result.findings or [Finding('good estimate')]), evaluation=result))
    if arguments.compare is not None:
        with Progress('reading') as reading:
            other = load_take(arguments.compare, progress=reading.show)
        sections.append(comparison((take.name, other.name), list(figures.values()),
                                   list(_figures(other).values())))
    chosen = arguments.body or _worst(list(figures), found)
    for name in chosen:
        if name not in figures:
            raise ConfigurationError(f'{name}: no such body; recorded are {", ".join(figures)}')
    common = [paths(list(figures.values()))] if len(figures) > 1 else []
    clock = clock_picture(take)
    if common or clock is not None:
        sections.append(Section('Paths and clock' if common and clock else 'The take', [
            *common, *([clock] if clock is not None else [])]))
    sections += [Section(name, body_pictures(take, figures[name], take.kind != 'motive csv'))
                 for name in chosen]
    sections += calibrations(arguments.recording)
    left = len(figures) - len(chosen)
    if left:
        sections.append(Section(f'{left} more', text='Plot other bodies with --body NAME.'))
    now = datetime.now().astimezone()
    made = (f'Made by optitrack_vrpn {__version__} on {now:%Y-%m-%d %H:%M %z} from '
            f'{arguments.recording.resolve().name}.')
    return page(take, found, list(figures.values()), sections, made), found, take


def _figures(take: Take) -> dict[str, Figures]:
    """Compute the figures of all bodies with two or more poses, one body after the other."""
    with Progress('computing', len(take.bodies)) as bar:
        return {name: body_figures(take, body) for name, body in bar.over(take.bodies.items())
                if len(body.rows) > 1}


def _worst(names: list[str], found: Sequence[Finding]) -> list[str]:
    """Return the bodies in the order of the findings about them, then the others."""
    named = [name for finding in found if len(finding.bodies) < len(names)
             for name in finding.bodies if name in names]
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
    inputs = [path for path in (arguments.recording, arguments.compare, Path(
        arguments.estimate or '')) if path is not None and path.name]
    own = arguments.output, OWN, inputs, arguments.force
    check_output(*own)
    text, found, take = make_report(arguments)
    clock = Clock(take)
    with whole_file(*own) as path:
        path.write_text(text, encoding='utf-8')
    for finding in found[:5]:
        when = f' {clock.of_span(finding.spans[0])}' if finding.spans else ''
        print(f'{finding.severity.name.lower()}: {finding.text}{when}')
    print(f'{arguments.output}: {len(text) // 1000} kB')
    return 0
