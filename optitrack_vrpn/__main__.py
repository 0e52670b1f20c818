# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run a tool where there is no ``ros2 run``: ``python -m optitrack_vrpn TOOL ARGUMENTS``."""

import sys

from optitrack_vrpn.cli.arguments import USAGE, VERSION
from optitrack_vrpn.cli.command_io import command, load
from optitrack_vrpn.cli.early import interrupt_code
from optitrack_vrpn.cli.rows_io import tools
from optitrack_vrpn.cli.signals_io import end_with_parent
from optitrack_vrpn.core.removed import COMMANDS, refusal
from optitrack_vrpn.core.settings.schema import did_you_mean


@command('optitrack_vrpn')
def main() -> int:
    """Run the tool that the first argument names; the exit code is the tool's own."""
    end_with_parent()
    names = {tool.name: tool for tool in tools()}
    if len(sys.argv) < 2 or sys.argv[1] in ('-h', '--help'):
        print('usage: python -m optitrack_vrpn TOOL [ARGUMENTS]\n')
        for tool in names.values():
            print(f'  {tool.name:20} {tool.summary}')
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
    # The tool finds the same as under `ros2 run`: its own name first.
    sys.argv = sys.argv[1:]
    code = interrupt_code(tool.name)
    run = load(tool.name, tool.function, code)
    try:
        return int(run() or 0)
    except KeyboardInterrupt:    # before the tool itself takes care of it
        if code:
            print(f'{tool.name}: stopped', file=sys.stderr)
        return code


if __name__ == '__main__':
    sys.exit(main())
