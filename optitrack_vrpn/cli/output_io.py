# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""End a command without a traceback when the reader of its output has ended, as in ``| head``."""

from collections.abc import Callable
import functools
import os
import sys
from typing import ParamSpec

#: 128 + SIGPIPE, as a shell reports a command whose output pipe was closed.
OUTPUT_CLOSED = 141

P = ParamSpec('P')


def ends_with_output(main: Callable[P, int]) -> Callable[P, int]:
    """
    Make the function of a command return ``OUTPUT_CLOSED`` once nothing reads its output.

    :param main: returns the exit code.
    """
    @functools.wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        try:
            code = main(*args, **kwargs)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            # At its end the interpreter would write the rest again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return OUTPUT_CLOSED
    return run
