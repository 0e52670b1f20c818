# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Record a session: ``record -o FOLDER``."""

import argparse
from collections.abc import Sequence
from pathlib import Path
import shutil
import sys
from typing import Any, Optional

from optitrack_vrpn.cli.arguments import duration, Parser, server_address, split_ros_args
from optitrack_vrpn.cli.command_io import command, loading
from optitrack_vrpn.cli.files_io import use_profile
from optitrack_vrpn.cli.terminal_io import Progress
from optitrack_vrpn.core.names import counted
from optitrack_vrpn.drivers.table import AUTO, SOURCES
from optitrack_vrpn.takes.record.bag_io import recover
from optitrack_vrpn.takes.topics import TopicChoice

_MEGABYTE = 1_000_000
#: Chosen: duration of a capture (s): enough for clocks and rates, some megabytes.
_CAPTURE_S = 60.0
#: Chosen: period (s) of status lines if the output is not a terminal.
_LINE_S = 10


def patterns(text: str) -> list[str]:
    """Parse patterns of names, separated by commas."""
    found = [part.strip() for part in text.split(',')]
    if not all(found):
        raise argparse.ArgumentTypeError(f'{text!r} contains an empty pattern')
    return found


def make_parser() -> argparse.ArgumentParser:
    """Create the parser of the command line."""
    parser = Parser(
        prog='record', description='Record all data needed to assess a session, as a bag for '
        '`ros2 bag play` and Foxglove. Ctrl-C ends the recording.',
        epilog='Arguments for ROS follow --ros-args. See docs/recording.md.')
    parser.add_argument('-o', '--output', metavar='FOLDER', type=Path,
                        help='the new recording; with --control the folder of all sessions; with '
                        '--raw a file .mcap')
    parser.add_argument('--seconds', type=duration, default=0.0, metavar='N',
                        help='end after this time')
    parser.add_argument('--bodies', action='extend', type=patterns, default=[], metavar='PATTERN',
                        help='record only these bodies, as in drone*; may be repeated')
    parser.add_argument('--topic', action='extend', type=patterns, default=[], metavar='PATTERN',
                        help='record this topic too, whatever its type; may be repeated')
    parser.add_argument('--control', action='store_true',
                        help='wait for START of mocap control; each session has its own folder')
    parser.add_argument('--raw', action='store_true',
                        help="record the server's bytes instead, for `replay`; needs no "
                        'ROS and no privileges')
    parser.add_argument('--capture', action='store_true',
                        help='as --raw for 60 s (--seconds), with names and addresses replaced: a '
                        'file to send with an issue')
    parser.add_argument('--server', type=server_address,
                        default=None, metavar='HOST[:PORT]',
                        help='server for --raw and --capture; default 127.0.0.1')
    parser.add_argument('--protocol', choices=tuple(SOURCES), default=None,
                        help='of --raw and --capture (default auto, with a port vrpn)')
    parser.add_argument('--compression', choices=('zstd', 'lz4', 'none'), default='zstd',
                        help='of the file (default %(default)s)')
    parser.add_argument('--min-free', type=float, default=256.0, metavar='MB',
                        help='end when less space is free on the disk (default %(default)s)')
    parser.add_argument('--recover', type=Path, metavar='FILE',
                        help='repair a recording that was not closed, and end')
    return parser


def _checked(argv: Sequence[str]) -> argparse.Namespace:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if (arguments.output is None) == (arguments.recover is None):
        parser.error('give either -o FOLDER to record or --recover FILE to repair')
    if not 0 <= arguments.min_free < float('inf'):
        parser.error('--min-free must be 0 or more')
    if arguments.capture:
        arguments.raw, arguments.seconds = True, arguments.seconds or _CAPTURE_S
    if arguments.raw:
        for option in ('bodies', 'topic', 'control'):
            if getattr(arguments, option):
                parser.error(f'--{option} cannot be used with --raw, which records all bodies')
        port = arguments.server[1] if arguments.server is not None else 0
        arguments.protocol = arguments.protocol or ('vrpn' if port else AUTO)
        if port and arguments.protocol == AUTO:
            parser.error('--server HOST:PORT needs --protocol vrpn or natnet')
    elif arguments.server is not None or arguments.protocol is not None:
        parser.error('--server and --protocol need --raw or --capture; without them, topics are '
                     'recorded')
    if arguments.control and arguments.seconds:
        parser.error('--seconds cannot be used with --control: STOP ends a session')
    return arguments


class Lines:
    """
    Print the state of a recording: one updated line on a terminal, else a line from time to time.

    :param stream: output stream.
    """

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._before = (0.0, 0)
        self._printed_s = -float(_LINE_S)

    def show(
        self, elapsed_s: float, messages: int, size: int, free: int, dropped: int, lost: int,
        what: str,
    ) -> None:
        """Print a line if its period has passed."""
        before_s, before = self._before
        rate = (messages - before) / (elapsed_s - before_s) if elapsed_s > before_s else 0.0
        self._before = (elapsed_s, messages)
        if not self._terminal and elapsed_s - self._printed_s < _LINE_S:
            return
        self._printed_s = elapsed_s
        trouble = ''.join(f', {count} {word}' for count, word in (
            (dropped, 'dropped'), (lost, 'lost on the way')) if count)
        line = (f'{_clock(elapsed_s)}  {counted(messages, "message")}, {rate:.0f}/s, '
                f'{size / _MEGABYTE:.1f} MB, {free / 1e9:.1f} GB free{trouble}, {what}')
        # A line that the terminal wraps cannot be replaced.
        self._stream.write(
            f'\r{line[:shutil.get_terminal_size().columns - 1]}\x1b[K' if self._terminal else
            f'{line}\n')
        self._stream.flush()

    def end(self) -> None:
        """Finish the line."""
        if self._terminal and self._printed_s >= 0.0:
            self._stream.write('\n')


def _clock(elapsed_s: float) -> str:
    whole = int(elapsed_s)
    return f'{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}'


def _record(arguments: argparse.Namespace, ros_arguments: Sequence[str]) -> int:
    use_profile()
    with loading('record'):
        from optitrack_vrpn.takes.record.recorder_ros import (
            record, RecorderConfig, RecordingProgress)
    lines = Lines()

    def report(progress: Optional[RecordingProgress]) -> None:
        if progress is not None:
            status = progress.status
            lines.show(progress.elapsed_s, status.messages, status.size, status.free,
                       status.dropped, progress.lost, counted(progress.topics, 'topic'))

    config = RecorderConfig(
        arguments.output, arguments.control,
        TopicChoice(tuple(arguments.bodies), tuple(arguments.topic)), arguments.compression,
        round(arguments.min_free * _MEGABYTE))
    try:
        return record(config, arguments.control, arguments.seconds, ['record', *ros_arguments],
                      report)
    finally:
        lines.end()


def _record_raw(arguments: argparse.Namespace) -> int:
    from optitrack_vrpn.takes.record.raw_recorder_io import record_raw
    from optitrack_vrpn.takes.record.raw_names import NameRemover
    lines = Lines()
    remover = NameRemover() if arguments.capture else None
    host, port = arguments.server or ('127.0.0.1', 0)
    try:
        problem = record_raw(
            arguments.output, arguments.protocol, host, port, arguments.seconds, lines.show,
            round(arguments.min_free * _MEGABYTE), remover=remover,
            compression=arguments.compression)
    finally:
        lines.end()
    if problem:
        print(f'record: {problem}', file=sys.stderr)
    elif remover is not None:
        shown = ', '.join(name.decode() for name in remover.bodies)
        print(f'{arguments.output}: poses, times and messages of '
              f'{counted(len(remover.bodies), "body")} ({shown}); names, texts and addresses are '
              'replaced. Look at it before you send it: report, or replay')
    return int(bool(problem))


@command('record')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :param argv: arguments, those of the process by default.
    :returns: 0; 1 if the recording is incomplete (see ``record``) or a repair lost messages; else
        see ``exit_code``.
    """
    own, ros_arguments = split_ros_args(sys.argv[1:] if argv is None else argv)
    arguments = _checked(own)
    if arguments.recover is not None:
        with Progress('repairing') as bar:
            path, repair = recover(arguments.recover, bar.show)
        if repair.reason:
            print(f'{path}: {counted(repair.messages, "message")} saved ({repair.reason}); the '
                  f'damaged file is kept as {path.name}.broken')
        else:
            print(f'{path}: is complete; no repair needed')
        if repair.lost:
            print(f'record: not saved: {repair.lost}', file=sys.stderr)
        return int(bool(repair.lost))
    return _record_raw(arguments) if arguments.raw else _record(arguments, ros_arguments)
