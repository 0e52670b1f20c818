# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compute stamps from recorded pairs of sender time and receive time, with the node's code.

Input and output are CSV with a header line. The columns ``sender_time`` and ``receive_time`` are
in seconds, each on its own clock with any origin; all other columns are copied. Two columns are
added: ``stamp`` (s on the receiver's clock; empty for a frame to drop) and ``epoch``.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
import contextlib
import csv
import os
from pathlib import Path
import re
import sys
from typing import IO, Optional

from optitrack_vrpn import units
from optitrack_vrpn.cli import command, Parser, Progress, whole_file
from optitrack_vrpn.clock import LIMIT_NS, MODES, StampConfig, StampSource
from optitrack_vrpn.errors import ConfigurationError, OptitrackVrpnError
from optitrack_vrpn.units import format_seconds, NS_PER_S

_REFUSED_NS = -1
#: The first line of an output.
_OWN = re.compile(rb'[^\n]*,stamp,epoch\n')
#: Chosen: number of refused rows that are reported individually.
_MOST_REPORTED = 5


def parse_seconds(text: Optional[str]) -> int:
    """
    Convert decimal seconds to integer nanoseconds, exactly.

    Invalid text and times without a stamp (NaN, infinite, negative, after 2116) give -1, which a
    ``StampSource`` refuses.
    """
    with contextlib.suppress(ValueError):
        time_ns = units.parse_seconds((text or '').strip())
        if 0 <= time_ns < LIMIT_NS:
            return time_ns
    return _REFUSED_NS


def refusal(row: dict[str, str]) -> str:
    """Return why a row cannot be stamped; '' for a valid row."""
    for column in ('sender_time', 'receive_time'):
        text = row[column]
        if parse_seconds(text) == _REFUSED_NS:
            given = 'is missing' if not (text or '').strip() else f'is {text.strip()!r}'
            return f'{column} {given}; allowed are seconds from 0 to {LIMIT_NS // NS_PER_S}'
    return ''


def restamp(
    rows: Iterable[dict[str, str]], source: StampSource, log: IO[str],
) -> Iterator[dict[str, str]]:
    """
    Add stamp and epoch to each row.

    :param rows: rows with ``sender_time`` and ``receive_time`` in seconds.
    :param source: source of the stamps.
    :param log: stream for one line per event of the clocks.
    """
    epoch = 0
    for row in rows:
        stamp = source.stamp(
            parse_seconds(row['sender_time']), parse_seconds(row['receive_time']))
        for event in source.events():
            epoch = event.data.epoch
            print(f'receive_time {row["receive_time"]}: {event.text}', file=log)
        yield {**row, 'stamp': '' if stamp is None else format_seconds(stamp),
               'epoch': str(epoch)}


def make_parser() -> Parser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='restamp',
        description='Convert the times of recorded frames to the clock of their receiver.',
        epilog='Columns sender_time and receive_time in seconds; stamp and epoch are added.')
    defaults = StampConfig()
    parser.add_argument('input', metavar='IN.csv', help='- is the standard input')
    parser.add_argument('output', metavar='OUT.csv', help='- is the standard output')
    parser.add_argument('--mode', choices=MODES, default=defaults.mode,
                        help='default %(default)s; see docs/stamps.md')
    parser.add_argument('--latency-ms', type=float, default=defaults.latency_ms, metavar='MS',
                        help='subtracted from every stamp (default %(default)s)')
    return parser


def _report_refused(reader: 'csv.DictReader[str]', log: IO[str]) -> Iterator[dict[str, str]]:
    """Pass rows on, and report the first ones that will be refused."""
    refused = 0
    for row in reader:
        reason = refusal(row)
        if reason:
            refused += 1
            if refused <= _MOST_REPORTED:
                print(f'line {reader.line_num}: {reason}', file=log)
            elif refused == _MOST_REPORTED + 1:
                print('and further lines', file=log)
        yield row


def _run(arguments: argparse.Namespace, source: StampSource) -> None:
    with _input(arguments.input) as read, _output(arguments.output, read) as write, Progress(
            'stamping') as bar:
        reader = csv.DictReader(read, skipinitialspace=True, restkey=None)
        names = [name.strip() for name in reader.fieldnames or ()]
        missing = [name for name in ('sender_time', 'receive_time') if name not in names]
        if missing:
            raise ConfigurationError(
                f'{arguments.input}: no column {" and no column ".join(missing)}; the first line '
                'must name them')
        taken = [name for name in ('stamp', 'epoch') if name in names]
        if taken:
            raise ConfigurationError(
                f'{arguments.input}: has a column {taken[0]} already; rename or remove it')
        if len(set(names)) < len(names):
            raise ConfigurationError(
                f'{arguments.input}: two columns have the same name; rename or remove one')
        reader.fieldnames = names
        writer = csv.DictWriter(
            write, [*names, 'stamp', 'epoch'], lineterminator='\n', extrasaction='ignore')
        writer.writeheader()
        writer.writerows(bar.over_file(
            restamp(_report_refused(reader, sys.stderr), source, sys.stderr), read))
    status = source.status()
    known = '' if status.uncertainty_s != status.uncertainty_s else (
        f' known to {status.uncertainty_s * 1e6:.0f} µs,')
    print(f'{status.mode}: {reader.line_num - 1} rows, epoch {status.epoch}, offset '
          f'{status.offset_ns / NS_PER_S:+.6f} s,{known} skew {status.skew_ppm:+.3f} ppm, '
          f'{status.refused} refused', file=sys.stderr)


def _input(name: str) -> contextlib.AbstractContextManager[IO[str]]:
    if name == '-':
        return contextlib.nullcontext(sys.stdin)
    try:
        return open(name, newline='', encoding='utf-8-sig')
    except OSError as error:
        raise ConfigurationError(f'{name}: {error.strerror}') from None


@contextlib.contextmanager
def _output(name: str, read: IO[str]) -> Iterator[IO[str]]:
    if name == '-':
        yield sys.stdout
        return
    path = Path(name)
    if path.exists() and read is not sys.stdin and os.path.samefile(path, read.fileno()):
        raise ConfigurationError(f'{name}: give the output another name than the input')
    with whole_file(path, _OWN) as part, open(part, 'w', newline='', encoding='utf-8') as write:
        yield write


@command('restamp')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0, 1 for bad input that was reported, 64 for a wrong command line.
    """
    arguments, _ = make_parser().parse(argv)
    config = StampConfig(mode=arguments.mode, latency_ms=arguments.latency_ms)
    try:
        _run(arguments, StampSource(config))
    except UnicodeDecodeError:
        print(f'restamp: {arguments.input}: is not UTF-8 text; save it as CSV in UTF-8',
              file=sys.stderr)
        return 1
    except (OptitrackVrpnError, csv.Error) as error:
        print(f'restamp: {error}', file=sys.stderr)
        return 1
    return 0
