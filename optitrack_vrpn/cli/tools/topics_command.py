# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""List topics or print the messages of one, without ROS 2's own tools."""

import itertools
import time
from typing import Any, Optional, Sequence

from optitrack_vrpn.cli.arguments import duration, Parser, whole
from optitrack_vrpn.cli.command_io import command, loading
import yaml

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
        from optitrack_vrpn.cli.tools.topics_ros import read
        from optitrack_vrpn.node.base.tool_node import ToolNode
    with ToolNode('optitrack_vrpn_topics', start_parameter_services=False,
                  enable_rosout=False) as tool:
        if arguments.topic:
            messages = read(tool, '/' + arguments.topic.lstrip('/'), arguments.wait or 10.0)
            for message in itertools.islice(messages, arguments.count):
                print(f'{as_yaml(message)}---', flush=True)
            return 0
        time.sleep(arguments.wait or 1.0)
        for name, kinds in sorted(tool.node.get_topic_names_and_types()):
            print(f'{name}  {", ".join(kinds)}  {tool.node.count_publishers(name)} publishers, '
                  f'{tool.node.count_subscribers(name)} subscriptions')
    return 0


def as_yaml(message: Any) -> str:
    """Write a ROS message as YAML; long arrays are cut."""
    text: str = yaml.safe_dump(
        _plain(message), sort_keys=False, default_flow_style=None, width=1000)
    return text


def _plain(value: Any) -> Any:
    if hasattr(value, 'get_fields_and_field_types'):
        return {name: _plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, bytes):    # an octet
        return value[0]
    if isinstance(value, str) or not hasattr(value, '__len__'):
        return value
    items = list(value[:_MOST].tolist() if hasattr(value, 'tolist') else value[:_MOST])
    more = [f'... {len(value) - _MOST} more'] if len(value) > _MOST else []
    return [*map(_plain, items), *more]
