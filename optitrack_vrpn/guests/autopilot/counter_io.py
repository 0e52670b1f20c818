# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The reset counter over restarts of the bridge.

An autopilot sets its position when the counter changes. A restart must not begin with the counter
in use: the last one is kept in a file, and the first one is random, but never that one.
"""

import contextlib
import os
from pathlib import Path
import random
import re
import secrets

from optitrack_vrpn.core.state_io import state_folder


class CounterMemory:
    """
    Remember the reset counter of one bridge in a file.

    :param node: full name of the bridge.
    :ivar path: the file.
    """

    def __init__(self, node: str) -> None:
        name = re.sub(r'[^A-Za-z0-9]+', '_', node).strip('_')
        self.path: Path = state_folder() / f'reset_counter_{name}'
        self._kept: int | None = None

    def first(self) -> int:
        """Return a counter to begin with: random, and not the last one that was kept."""
        try:
            last = int(self.path.read_text(encoding='ascii'))
        except (OSError, ValueError):    # none yet, or damaged
            return random.SystemRandom().randrange(256)
        return (last + random.SystemRandom().randrange(1, 256)) % 256

    def keep(self, counter: int) -> str:
        """
        Write a counter before it is sent; the file is replaced in one step.

        :returns: why it could not be written, '' if it was.
        """
        if counter == self._kept:
            return ''
        self._kept = counter
        part = self.path.with_name(f'{self.path.name}.{secrets.token_hex(4)}.part')
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(str(counter), encoding='ascii')
            os.replace(part, self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            return f'{self.path}: {error.strerror}'
        return ''
