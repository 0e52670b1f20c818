# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run a tool where there is no ``ros2 run``: ``python -m optitrack_vrpn TOOL ARGUMENTS``."""

import importlib
import sys

from optitrack_vrpn.cli.tools import TOOLS


def main() -> int:
    """Run the tool that the first argument names; the exit code is the tool's own."""
    names = {tool.name: tool for tool in TOOLS}
    if len(sys.argv) < 2 or sys.argv[1] in ('-h', '--help'):
        print('usage: python -m optitrack_vrpn TOOL [ARGUMENTS]\n')
        for tool in TOOLS:
            print(f'  {tool.name:20} {tool.summary}')
        return 0
    if sys.argv[1] not in names:
        print(f'optitrack_vrpn has no tool {sys.argv[1]!r}, only {", ".join(names)}',
              file=sys.stderr)
        return 2
    module, function = names[sys.argv[1]].function.split(':')
    # The tool finds the same as under `ros2 run`: its own name first.
    sys.argv = sys.argv[1:]
    result = getattr(importlib.import_module(module), function)()
    return int(result or 0)


if __name__ == '__main__':
    sys.exit(main())
