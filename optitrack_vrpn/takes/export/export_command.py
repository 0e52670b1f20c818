# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Export a take: ``export FOLDER --format csv -o FILE``."""

import argparse
from collections.abc import Iterable, Sequence
import contextlib
import csv
import importlib.util
from pathlib import Path
import re
import sys
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.cli.arguments import duration, Parser
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.files_io import add_force, check_output, whole_file
from optitrack_vrpn.cli.terminal_io import Progress
from optitrack_vrpn.core.checks import listed
from optitrack_vrpn.core.errors import BackendUnavailableError, ConfigurationError
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.takes.bag_read_io import read_topics
from optitrack_vrpn.takes.columns import PoseColumns, TF, TopicBatch
from optitrack_vrpn.takes.export.export_table import (
    check_span, choose_bodies, COLUMNS, rows, Table, tables)
from optitrack_vrpn.takes.take import Take, trajectory_of
from optitrack_vrpn.takes.take_io import load_take
from optitrack_vrpn.takes.trajectory import Stamps
from optitrack_vrpn.takes.trajectory_text import format_tum

#: Rows of a row group of Parquet.
ROW_GROUP = 100_000
_DELIMITERS = {'csv': ',', 'csv-semicolon': ';', 'tum': ' '}
#: The begins of the files that are written.
_OWN = {kind: re.compile(begin) for kind, begin in {
    **{kind: re.escape(_DELIMITERS[kind].join(COLUMNS)).encode()
       for kind in ('csv', 'csv-semicolon')},
    'tum': rb'-?\d+\.\d{9}( \S+){7}\n', 'parquet': rb'PAR1', 'bvh': rb'HIERARCHY\n',
    'gantry': rb'time_ms;'}.items()}
_FORMATS = (*_DELIMITERS, 'parquet', 'bvh', 'gantry')
_POSE = ('x', 'y', 'z', 'qx', 'qy', 'qz', 'qw')


def make_parser() -> Parser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='export', description='Export the poses of a recording for other programs.',
        epilog='The recording is a bag, a raw recording or a CSV export of Motive. See '
        'docs/recording.md.')
    parser.add_argument('recording', type=Path)
    parser.add_argument('--format', choices=_FORMATS, default='csv',
                        help=f'{", ".join(_FORMATS)} (default %(default)s)')
    parser.add_argument('-o', '--output', type=Path, required=True, metavar='FILE')
    add_force(parser)
    parser.add_argument('--body', action='append', default=[], metavar='NAME',
                        help='only this body; may be repeated. With bvh, the skeleton')
    parser.add_argument('--frame', choices=('enu', 'ned', 'raw'), default='enu', help=(
        'axes; with bvh those of the recording: enu is turned to y up, raw stays as it is'))
    parser.add_argument('--start', type=duration, metavar='S', help='seconds after the first pose')
    parser.add_argument('--end', type=duration, metavar='S', help='likewise')
    parser.add_argument('--resample', type=float, metavar='HZ',
                        help='resample at this rate; no rows in gaps and across resets')
    return parser


def _by_pyarrow(path: Path, kind: str, tables: Iterable[Table], plain: bool) -> int:
    """
    Write the tables with pyarrow; gives the number of poses.

    :param plain: whether no name needs quotation marks.
    """
    import pyarrow as pa
    from pyarrow import csv as pa_csv, parquet
    count, writer = 0, None
    with contextlib.ExitStack() as stack:
        for part in tables:
            rows = part.rows
            found = {
                'stamp_ns': pa.array(rows['stamp']),
                'body': pa.repeat(part.body, len(rows)),
                **{name: pa.array(rows['pose'][:, at]) for at, name in enumerate(_POSE)},
                'arrival_ns': pa.array(rows['arrival']), 'segment': pa.array(part.segments),
                'resampled': pa.array(part.resampled)}
            if kind != 'parquet':
                found.update(stamp=_decimal(pa, rows['stamp']),
                             arrival=_decimal(pa, rows['arrival']),
                             resampled=found['resampled'].cast('int8'))
            names = {'parquet': tuple(found), 'tum': ('stamp', *_POSE)}.get(kind, COLUMNS)
            table = pa.table({name: found[name] for name in names})
            if writer is None and kind == 'parquet':
                # Measured: dictionaries of values that do not repeat cost two thirds of the time.
                writer = stack.enter_context(parquet.ParquetWriter(
                    path, table.schema, compression='zstd', use_dictionary=['body', 'segment'],
                    column_encoding=dict.fromkeys(
                        ('stamp_ns', 'arrival_ns'), 'DELTA_BINARY_PACKED')))
            elif writer is None:
                file = stack.enter_context(open(path, 'wb'))
                if kind != 'tum':
                    file.write((_DELIMITERS[kind].join(COLUMNS) + '\n').encode())
                writer = stack.enter_context(pa_csv.CSVWriter(
                    file, table.schema, write_options=pa_csv.WriteOptions(
                        include_header=False, delimiter=_DELIMITERS[kind],
                        quoting_style='none' if plain else 'needed')))
            writer.write_table(table)
            count += table.num_rows
    return count


def _decimal(pa: Any, times_ns: Stamps) -> Any:
    """Return times as texts of decimal seconds with nine digits; negative ones as null."""
    words = np.zeros((len(times_ns), 2), np.int64)
    words[:, 0] = times_ns
    valid = np.packbits(times_ns >= 0, bitorder='little').tobytes()
    texts = pa.Array.from_buffers(
        pa.decimal128(19, 9), len(times_ns), [pa.py_buffer(valid), pa.py_buffer(words)]).cast(
            pa.string())
    # Below a microsecond pyarrow writes an exponent: takes of Motive begin at 0.
    early = (times_ns >= 0) & (times_ns < 1000)
    return importlib.import_module('pyarrow.compute').replace_with_mask(
        texts, pa.array(early), pa.array([f'{time * 1e-9:.9f}' for time in times_ns[early]],
                                         pa.string())) if early.any() else texts


def _write(path: Path, kind: str, tables: Iterable[Table], plain: bool) -> int:
    """Write the bodies one after the other; gives the number of poses."""
    if importlib.util.find_spec('pyarrow') is not None:
        return _by_pyarrow(path, kind, tables, plain)
    if kind == 'parquet':
        raise BackendUnavailableError('the format parquet needs pyarrow: pip install pyarrow')
    count = 0
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.writer(file, delimiter=_DELIMITERS[kind], lineterminator='\n')
        if kind != 'tum':
            writer.writerow(COLUMNS)
        for made in tables:
            count += len(made.rows)
            if kind == 'tum':
                file.writelines(format_tum(trajectory_of(made.rows)))
            else:
                writer.writerows(rows(made))
    return count


def _export_bvh(arguments: argparse.Namespace) -> int:
    """Export the skeleton of a bag; return the exit code."""
    from optitrack_vrpn.takes.export import bvh
    if arguments.frame == 'ned' or arguments.resample:
        raise ConfigurationError('bvh has the frames of the recording, y up: --frame ned and '
                                 '--resample have no meaning')
    links: dict[str, bvh.BvhLink] = {}
    readers: dict[str, PoseColumns] = {}
    damaged = 0
    for part in read_topics(arguments.recording,
                            lambda name, kind: kind == TF and name.endswith('/tf')):
        if isinstance(part, TopicBatch):
            reader = readers.setdefault(part.topic, PoseColumns(TF, part.types, True))
            found, unread = reader.read(part.batch, part.batch.offsets)
            bvh.add_transforms(links, found)
            damaged += len(unread)
    skeleton = bvh.choose_skeleton(links, tuple(arguments.body))
    motion = bvh.make_motion(
        links, skeleton, arguments.start or 0.0,
        np.inf if arguments.end is None else arguments.end)
    written = bvh.format_bvh(skeleton, motion, arguments.frame == 'raw')
    with whole_file(*_output(arguments)) as path:
        path.write_text(written.text, encoding='utf-8')
    print(f'{arguments.output}: {counted(len(motion.positions), "frame")} of skeleton '
          f'{skeleton.name} with {counted(len(skeleton.frames), "bone")}; interpolated: '
          f'{motion.filled}, left out: {motion.left_out + damaged}; bones are up to '
          f'{1000 * written.deviation_m:.1f} mm from their places in the file')
    return _complain(load_take(arguments.recording))


def _export_gantry(arguments: argparse.Namespace) -> int:
    """Export the run of a gantry; return the exit code."""
    from optitrack_vrpn.takes.export.gantry import lines, read_run, wants
    if arguments.frame != 'enu' or arguments.resample or arguments.body:
        raise ConfigurationError('gantry has the axes of a machine, one row a cycle: --frame, '
                                 '--resample and --body have no meaning')
    run = read_run(read_topics(arguments.recording, wants))
    with whole_file(*_output(arguments)) as path, open(path, 'w', encoding='utf-8') as file:
        file.writelines(lines(run, arguments.start, arguments.end))
    print(f'{arguments.output}: {counted(len(run.cycles), "cycle")} of {len(run.units)} axes in '
          'the recording')
    if run.damaged:
        print('export: cycles of the recording are missing: '
              f'{counted(run.damaged, "damaged part")}', file=sys.stderr)
    return int(bool(run.damaged))


def _complain(take: Take) -> int:
    """Say in one line what is missing or was renamed; return 1 if poses can be missing, else 0."""
    if take.shared_names:
        print(f'export: several bodies have the name {listed(take.shared_names)}: the second is '
              'NAME_2', file=sys.stderr)
    losses = take.losses()
    if losses:
        known = '' if take.missing or take.kind == 'motive csv' else '; how many is unknown'
        print(f'export: poses of the recording are missing: {losses}{known}', file=sys.stderr)
    return int(bool(losses))


def _output(arguments: argparse.Namespace) -> tuple[Path, re.Pattern[bytes], list[Path], bool]:
    """Return what ``whole_file`` asks of an output."""
    return (arguments.output, _OWN[arguments.format], [arguments.recording], arguments.force)


@command('export')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0; 1 if poses of the recording can be missing; else see ``exit_code``.
    """
    arguments, _ = make_parser().parse(argv)
    check_output(*_output(arguments))
    if arguments.format == 'bvh':
        return _export_bvh(arguments)
    if arguments.format == 'gantry':
        return _export_gantry(arguments)
    if arguments.frame == 'raw':
        raise ConfigurationError('--frame raw is for --format bvh')
    with Progress('reading') as reading:
        take = load_take(arguments.recording, progress=reading.show)
    bodies = choose_bodies(take, tuple(arguments.body))
    if arguments.format == 'tum' and len(bodies) > 1:
        raise ConfigurationError(
            'a TUM file holds one body: choose it with --body '
            f'({", ".join(bodies)})')
    check_span(take, arguments.start, arguments.end, arguments.resample)
    bar = Progress('exporting', len(bodies))
    with whole_file(*_output(arguments)) as path, bar:
        count = _write(path, arguments.format, (
            part for name in bar.over(bodies) for part in tables(
                take, take.bodies[name], ROW_GROUP, frame=arguments.frame, start_s=arguments.start,
                end_s=arguments.end, resample_hz=arguments.resample)), not any(
                    set(name) & set(',;"\r\n') for name in bodies))
    left_out = [each for each in take.left_out.values() if each.poses]
    print(f'{arguments.output}: {counted(count, "pose")} of {counted(len(bodies), "body")}'
          + (f'; left out: {counted(sum(each.poses for each in left_out), "pose")} of the '
             f'recording: {", ".join(sorted({each.reason for each in left_out}))}'
             if left_out else ''))
    return _complain(take)
