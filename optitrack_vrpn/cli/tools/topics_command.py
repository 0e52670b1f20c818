# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""List topics or print the messages of one, without ROS 2's own tools."""

from typing import Any, Optional, Sequence

from optitrack_vrpn.cli.arguments import duration, Parser, whole
from optitrack_vrpn.cli.command_io import command, loading

#: Elements of a long array that are shown: a covariance of 6 x 6 whole.
_MOST = 36


def make_parser() -> Parser:
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
    """Run the tool."""
    arguments, _ = make_parser().parse(argv)
    with loading('topics'):
        from optitrack_vrpn.cli.tools.topics_ros import TopicReader
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


def lines_of(value: Any, indent: int = 0) -> list[str]:
    """Format a ROS message as lines of YAML, indented by so many spaces."""
    lines: list[str] = []
    for name in value.get_fields_and_field_types():
        lines += _field(name, getattr(value, name), ' ' * indent)
    return lines


def _field(name: str, value: Any, space: str) -> list[str]:
    if hasattr(value, 'get_fields_and_field_types'):
        return [f'{space}{name}:', *lines_of(value, len(space) + 2)]
    if isinstance(value, str):
        return [f'{space}{name}: {value!r}']
    if not hasattr(value, '__len__'):
        return [f'{space}{name}: {value}']
    items = list(value)
    more = [f'{space}# and {len(items) - _MOST} more'] if len(items) > _MOST else []
    if items and hasattr(items[0], 'get_fields_and_field_types'):
        lines = [f'{space}{name}:']
        for item in items[:_MOST]:
            first, *rest = lines_of(item, len(space) + 2)
            lines += [f'{space}- {first.strip()}', *rest]
        return lines + more
    shown = ', '.join(repr(item) if isinstance(item, str) else str(item)
                      for item in items[:_MOST])
    return [f'{space}{name}: [{shown}]', *more]
