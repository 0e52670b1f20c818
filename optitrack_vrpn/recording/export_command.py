# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Export a take: ``export FOLDER --format csv -o FILE``."""

import argparse
from collections.abc import Iterable, Sequence
import csv
from pathlib import Path
import sys
from typing import Optional

from optitrack_vrpn.cli.arguments import duration, Parser, without_ros_arguments
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.whole_file_io import whole_file
from optitrack_vrpn.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.names import counted
from optitrack_vrpn.recording.export_table import (
    check_span, choose_bodies, COLUMNS, columns, rows, Table, table)
from optitrack_vrpn.recording.take_io import load_take
from optitrack_vrpn.recording.tum import format_tum

#: Chosen: rows of a row group of Parquet. Halved or doubled, so is the memory.
ROW_GROUP = 100_000
_FORMATS = ('csv', 'csv-semicolon', 'tum', 'parquet')


def make_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='export', description='Export the poses of a recording for other programs.',
        epilog='The recording is a bag, a raw recording (.pcap) or a CSV export of Motive. See '
        'docs/recording.md.')
    parser.add_argument('recording', type=Path)
    parser.add_argument('--format', choices=_FORMATS, default='csv')
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='FILE')
    parser.add_argument('--body', action='append', default=[], metavar='NAME',
                        help='only this body; may be repeated')
    parser.add_argument('--frame', choices=('enu', 'ned'), default='enu')
    parser.add_argument('--start', type=duration, metavar='S', help='seconds after the first pose')
    parser.add_argument('--end', type=duration, metavar='S', help='likewise')
    parser.add_argument('--resample', type=float, metavar='HZ',
                        help='resample at this rate; no rows in gaps and across resets')
    return parser


def _write_parquet(path: Path, tables: Iterable[Table]) -> int:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BackendUnavailableError(
            'the format parquet needs pyarrow: pip install pyarrow') from None
    count, writer = 0, None
    try:
        for made in tables:
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(
                    path, pyarrow.table(columns(made, slice(1))).schema)
            for at in range(0, len(made.trajectory), ROW_GROUP):
                writer.write_table(pyarrow.table(columns(made, slice(at, at + ROW_GROUP))))
            count += len(made.trajectory)
    finally:
        if writer is not None:
            writer.close()
    return count


def _write(path: Path, kind: str, tables: Iterable[Table]) -> int:
    """Write the bodies one after the other; gives the number of poses."""
    if kind == 'parquet':
        return _write_parquet(path, tables)
    count = 0
    with open(path, 'w', newline='', encoding='utf-8') as file:
        if kind == 'tum':
            for made in tables:
                count += len(made.trajectory)
                file.writelines(format_tum(made.trajectory))
            return count
        writer = csv.writer(file, delimiter=';' if kind == 'csv-semicolon' else ',',
                            lineterminator='\n')
        writer.writerow(COLUMNS)
        for made in tables:
            count += len(made.trajectory)
            writer.writerows(rows(made))
    return count


@command('export')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0, or see ``exit_code``.
    """
    arguments = make_parser().parse_args(
        without_ros_arguments(sys.argv[1:] if argv is None else argv))
    take = load_take(arguments.recording)
    bodies = choose_bodies(take, tuple(arguments.body))
    if arguments.format == 'tum' and len(bodies) > 1:
        raise ConfigurationError(
            'a TUM file holds one body: choose it with --body '
            f'({", ".join(bodies)})')
    check_span(take, arguments.start, arguments.end, arguments.resample)
    with whole_file(arguments.output) as path:
        count = _write(path, arguments.format, (
            table(take, take.bodies[name], frame=arguments.frame, start_s=arguments.start,
                  end_s=arguments.end, resample_hz=arguments.resample) for name in bodies))
    left_out = sum(take.left_out.values())
    print(f'{arguments.output}: {counted(count, "pose")} of {counted(len(bodies), "body")}'
          + (f'; left out: {counted(left_out, "pose")} of the recording that is not finite or '
             'whose stamp does not rise' if left_out else '')
          + (f'; the recording is incomplete: {take.cut}' if take.cut else ''))
    return 0
