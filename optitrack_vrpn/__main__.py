# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run a tool where there is no ``ros2 run``: ``python -m optitrack_vrpn TOOL ARGUMENTS``."""

from collections.abc import Mapping
import sys
import textwrap

from optitrack_vrpn.cli.arguments import USAGE, VERSION
from optitrack_vrpn.cli.command_io import command, load
from optitrack_vrpn.cli.rows_io import Tool, tools
from optitrack_vrpn.cli.signals_io import end_with_parent
from optitrack_vrpn.core.removed import COMMANDS, refusal
from optitrack_vrpn.core.settings.schema import did_you_mean


def run_tool(names: Mapping[str, Tool]) -> int:
    """
    Run the command that the first argument names.

    :returns: its own exit code.
    """
    if len(sys.argv) < 2 or sys.argv[1] in ('-h', '--help'):
        print('usage: python -m optitrack_vrpn COMMAND [ARGUMENTS]\n')
        for tool in names.values():
            print(textwrap.fill(tool.summary, 80, initial_indent=f'  {tool.name:20} ',
                                subsequent_indent=' ' * 23))
        return 0
    if sys.argv[1] == '--version':
        print(VERSION)
        return 0
    if sys.argv[1] not in names:
        near = did_you_mean(sys.argv[1], names) or f'allowed: {", ".join(names)}'
        why = refusal(COMMANDS, sys.argv[1]) or f'there is no command {sys.argv[1]!r}; {near}'
        print(f'optitrack_vrpn: {why}', file=sys.stderr)
        return USAGE
    tool = names[sys.argv[1]]
    # The command finds the same as under `ros2 run`: its own name first.
    sys.argv = sys.argv[1:]
    return int(load(tool.name, tool.function)() or 0)


def main() -> int:
    """Run a command with what all commands share: one line per error, and its exit codes."""
    end_with_parent()
    names = {tool.name: tool for tool in tools()}
    given = sys.argv[1] if len(sys.argv) > 1 else ''
    return command(given if given in names else 'optitrack_vrpn')(lambda: run_tool(names))()


if __name__ == '__main__':
    sys.exit(main())
