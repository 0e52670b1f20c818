# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Run the node."""

import os
import signal
import sys
from types import FrameType
from typing import Optional

from optitrack_vrpn.errors import ConfigurationError


def _leave(number: int, frame: Optional[FrameType]) -> None:
    """End at once: while modules load there is nothing to release, only a traceback to show."""
    os._exit(0)


def main() -> int:
    """
    Run the lifecycle node until it is told to end; ``--ros-args`` as for any node.

    :returns: exit code.
    """
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if interruptible:
        signal.signal(signal.SIGINT, _leave)
    from optitrack_vrpn.ros.node import OptitrackVrpnNode
    from optitrack_vrpn.ros.run import run
    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run(OptitrackVrpnNode, sys.argv)
    except ConfigurationError as error:
        print(f'optitrack_vrpn_node: {error}', file=sys.stderr)
        return 2
