# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Write a report about a take: ``report FOLDER -o report.html``."""

import argparse
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, Optional

from optitrack_vrpn import __version__
from optitrack_vrpn.cli.arguments import duration, Parser, seconds
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.files_io import add_force, check_output, json_text, whole_file
from optitrack_vrpn.cli.terminal_io import Progress
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.findings import find, Finding
from optitrack_vrpn.core.severity import Severity
from optitrack_vrpn.takes.assess.charts import (
    body_pictures, clock_picture, heights, odometry_pictures, paths)
from optitrack_vrpn.takes.assess.figures import body_figures, Figures
from optitrack_vrpn.takes.assess.report_data import report_data, severity_of
from optitrack_vrpn.takes.assess.report_page_io import (
    check_available, comparison, GAP_HEAD, gap_rows, items, OWN, page, ReportClock, Section)
from optitrack_vrpn.takes.assess.rules import findings
from optitrack_vrpn.takes.calibrations_io import calibrations
from optitrack_vrpn.takes.evaluate.evaluation_odometry import evaluate_odometry, OdometryEvaluation
from optitrack_vrpn.takes.evaluate.evaluation_rules import GOOD_ESTIMATE
from optitrack_vrpn.takes.take import Take
from optitrack_vrpn.takes.take_io import load_estimate, load_take
from optitrack_vrpn.takes.topics import absolute
from optitrack_vrpn.takes.trajectory import Trajectory

#: The page, unless another is named.
PAGE = 'report.html'
#: Chosen: number of bodies with their own pictures unless requested.
_MOST_PICTURED = 8


def make_parser() -> Parser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='report', description='Summarise a take on one HTML page, findings '
        'first.', epilog='The recording is a bag, a raw recording or a CSV export of Motive. Exit '
        'code: 0, also for a take with faults; with --strict 1 for warnings and 2 for errors. See '
        'docs/recording.md.')
    parser.add_argument('recording', type=Path)
    parser.add_argument('-o', '--output', type=Path, metavar='FILE',
                        help=f'default {PAGE}, with --json none')
    parser.add_argument('--json', action='store_true',
                        help='print findings and statistics as JSON')
    parser.add_argument('--strict', action='store_true',
                        help='exit code 1 for warnings, 2 for errors')
    add_force(parser)
    parser.add_argument('--compare', type=Path, metavar='FOLDER2', help='a second take')
    parser.add_argument('--body', action='append', default=[], metavar='NAME',
                        help='plot these bodies instead of the worst ones')
    parser.add_argument('--reference', metavar='BODY', help='evaluate an odometry against it')
    parser.add_argument('--estimate', metavar='TOPIC_OR_FILE',
                        help='the odometry: a recorded topic, or a file of TUM, EuRoC or TUM-VI')
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


class Assessed(NamedTuple):
    """What was found out about a take, an odometry in it, and a take to compare with."""

    take: Take
    figures: dict[str, Figures]
    found: list[Finding]
    evaluation: Optional[OdometryEvaluation] = None
    other: Optional['Assessed'] = None

    @property
    def severity(self) -> Severity:
        """Return the worst severity of all findings."""
        return severity_of([
            *self.found, *(self.evaluation.findings if self.evaluation else ()),
            *(self.other.found if self.other else ())])


def assess(arguments: argparse.Namespace) -> Assessed:
    """
    Read and assess the takes.

    :raises OptitrackVrpnError: if an input cannot be read or evaluated.
    """
    first = _assess_take(arguments.recording, absolute(arguments.estimate or ''))
    take = first.take
    take.check_bodies(*arguments.body, *filter(None, [arguments.reference]))
    evaluation = None if arguments.estimate is None else evaluate_odometry(
        take.bodies[arguments.reference].trajectory, _estimate(take, arguments.estimate),
        rpe_seconds=arguments.rpe_seconds, max_offset_s=arguments.max_offset)
    return first._replace(evaluation=evaluation, other=(
        None if arguments.compare is None else _assess_take(arguments.compare)))


def _assess_take(path: Path, estimate: str = '') -> Assessed:
    with Progress('reading') as reading:
        take = load_take(path, estimate, reading.show)
    figures = _figures(take)
    return Assessed(take, figures, findings(take, list(figures.values())))


def make_page(arguments: argparse.Namespace, assessed: Assessed) -> str:
    """
    Create the page.

    :raises BackendUnavailableError: if jinja2 is not installed.
    """
    take, figures, found, result, other = assessed
    sections = []
    if result is not None:
        sections.append(Section(
            f'{arguments.estimate} against {arguments.reference}', odometry_pictures(result),
            items(result.findings or find((GOOD_ESTIMATE,), None)), evaluation=result))
    if other is not None:
        sections.append(comparison((take.name, other.take.name), list(figures.values()),
                                   list(other.figures.values()), other.found))
    chosen = [name for name in arguments.body if name in figures] or _worst(
        list(figures), found)
    everyone = list(figures.values())
    common = [paths(everyone), heights(take, everyone)] if len(figures) > 1 else []
    clock = clock_picture(take, ReportClock(take).time)
    if common or clock is not None:
        sections.append(Section('Paths and clock' if common and clock else 'The take', [
            *common, *([clock] if clock is not None else [])]))
    sections += [Section(
        name, body_pictures(take, figures[name], take.kind != 'motive csv'), head=GAP_HEAD,
        rows=gap_rows(ReportClock(take), figures[name])) for name in chosen]
    sections += calibrations(arguments.recording)
    left = len(figures) - len(chosen)
    if left:
        sections.append(Section(f'{left} more', text='Plot other bodies with --body NAME.'))
    now = datetime.now().astimezone()
    made = (f'Made by optitrack_vrpn {__version__} on {now:%Y-%m-%d %H:%M %z} from '
            f'{arguments.recording.resolve().name}.')
    return page(take, found, list(figures.values()), sections, made)


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
    :returns: 0, even for a take with faults; with --strict 1 for warnings and 2 for errors; else
        see ``exit_code``.
    """
    parser = make_parser()
    arguments, _ = parser.parse(argv)
    if (arguments.reference is None) != (arguments.estimate is None):
        parser.error('--reference BODY and --estimate TOPIC_OR_FILE need each other')
    output = arguments.output or (None if arguments.json else Path(PAGE))
    inputs = [path for path in (arguments.recording, arguments.compare, Path(
        arguments.estimate or '')) if path is not None and path.name]
    if output is not None:
        check_available()
        check_output(output, OWN, inputs, arguments.force)
    assessed = assess(arguments)
    size = 0
    if output is not None:
        text = make_page(arguments, assessed)
        size = len(text) // 1000
        with whole_file(output, OWN, inputs, arguments.force) as path:
            path.write_text(text, encoding='utf-8')
    if arguments.json:
        print(json_text(report_data(
            assessed.take, assessed.found, list(assessed.figures.values()), assessed.severity,
            assessed.evaluation, None if assessed.other is None else (
                assessed.other.take, assessed.other.found))))
    else:
        for each in (assessed, *([assessed.other] if assessed.other else [])):
            clock, of = ReportClock(each.take), f'{each.take.name}: ' * (
                assessed.other is not None)
            for finding in each.found[:5]:
                when = f' {clock.of_span(finding.spans[0])}' if finding.spans else ''
                print(f'{finding.severity.word}: {of}{finding.text}{when}')
        if (evaluation := assessed.evaluation) is not None:
            print(f'{arguments.estimate} against {arguments.reference}: ATE '
                  f'{1e3 * evaluation.ate.translation.rmse:.1f} mm, RPE over '
                  f'{evaluation.rpe.seconds:g} s {1e3 * evaluation.rpe.translation.rmse:.1f} mm '
                  '(RMSE)')
            for finding in evaluation.findings[:5]:
                print(f'{finding.severity.word}: {finding.text}')
        print(f'{output}: {size} kB')
    return int(assessed.severity) if arguments.strict else 0
