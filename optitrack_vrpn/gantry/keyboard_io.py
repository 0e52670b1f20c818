# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Read single keys from the terminal, without Enter."""

import os
import select
import sys
import termios
import tty
from typing import Any, Optional

from optitrack_vrpn.errors import ConfigurationError


class Keyboard:
    """
    Read single keys; use it as a context manager.

    The exit restores the terminal settings, after an exception too.

    :raises ConfigurationError: if the standard input is closed.
    """

    def __init__(self) -> None:
        if sys.stdin is None:
            raise ConfigurationError('there is no standard input to read keys from')
        self._before: Any = None
        self._file = sys.stdin.fileno()

    def __enter__(self) -> 'Keyboard':
        if os.isatty(self._file):
            self._before = termios.tcgetattr(self._file)
            tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def read(self, timeout_s: float) -> Optional[str]:
        """
        Wait for a key.

        :returns: the key; None after the timeout; '' at the end of the input.
        """
        ready, _, _ = select.select([self._file], [], [], timeout_s)
        return os.read(self._file, 1).decode(errors='replace') if ready else None
