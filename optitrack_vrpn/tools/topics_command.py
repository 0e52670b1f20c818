# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""List topics or print the messages of one, without ROS 2's own tools."""

import argparse
import sys
from typing import Any, Optional, Sequence

from optitrack_vrpn.cli.arguments import duration, Parser, whole, without_ros_arguments
from optitrack_vrpn.cli.command_io import command
from optitrack_vrpn.cli.loading import loading
from optitrack_vrpn.tools.message_text import lines_of


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(
        prog='topics', description='List the topics in this ROS domain, or show one.',
        epilog='ROS_DOMAIN_ID chooses the domain, as in: ROS_DOMAIN_ID=5 topics /wand/pose')
    parser.add_argument('topic', nargs='?', help='show the messages of this topic')
    parser.add_argument('--count', type=whole(1), default=1, help='number of messages (default 1)')
    parser.add_argument('--wait', type=duration, default=None, metavar='SECONDS',
                        help='time to wait: default 1 for the list, 10 for a message')
    return parser


@command('topics')
def main(argv: Optional[Sequence[str]] = None) -> int:
    """
    Run the tool.

    :returns: exit code: 0 if there was output, 1 if not, 64 for a wrong command line.
    """
    arguments = make_parser().parse_args(
        without_ros_arguments(sys.argv[1:] if argv is None else argv))
    with loading('topics'):
        from optitrack_vrpn.tools.topic_reader_ros import TopicReader
    with TopicReader() as reader:
        if arguments.topic:
            topic = '/' + arguments.topic.lstrip('/')
            reader.read(topic, arguments.count, arguments.wait or 10.0, show)
            return 0
        for info in reader.list(arguments.wait or 1.0):
            print(f'{info.name}  {", ".join(info.kinds)}  '
                  f'{info.publishers} publishers, {info.subscriptions} subscriptions')
    return 0


def show(message: Any) -> None:
    """Print a message and a line after it."""
    print('\n'.join([*lines_of(message), '---']), flush=True)
