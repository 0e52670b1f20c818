# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
What was sent last, over restarts of the bridge: reset counter and attitude.

An autopilot sets its position when the counter changes. A restart must not begin with the counter
in use: the last one is kept in a file, and the first one is random, but never that one. A vehicle
that is still armed after a restart must not follow another attitude than before.
"""

import contextlib
import math
import os
from pathlib import Path
import random
import re
import secrets
from typing import Optional

from optitrack_vrpn.core.rotation import angle_between, Quat
from optitrack_vrpn.core.state_io import state_folder

#: An attitude is written if it differs by more from the one in the file (rad). Chosen: 10
#: degrees, a fraction of the 45 of the gate, and few writes: nine a second at 90 deg/s.
_STEP_RAD = math.radians(10.0)
#: An attitude is written again after this time (s), so that its age is known.
_REPEAT_S = 1.0
#: Age (s) up to which an attitude is that of the present flight. Chosen: launch starts a node
#: again within seconds, and PX4 ends a flight without poses after 4.5 s.
_FLIGHT_S = 30.0


class SentMemory:
    """
    Remember in a file what one bridge has sent last.

    :param node: full name of the bridge.
    :ivar path: the file: the counter, and for an armed vehicle the time (s) and x, y, z, w.
    """

    def __init__(self, node: str) -> None:
        name = re.sub(r'[^A-Za-z0-9]+', '_', node).strip('_')
        self.path: Path = state_folder() / f'reset_counter_{name}'
        self._kept: tuple[Optional[int], Optional[Quat]] = (None, None)
        self._kept_s = 0.0

    def first(self, now_s: float) -> tuple[int, Optional[Quat]]:
        """
        Return what a bridge begins with.

        :param now_s: present time (s since 1970).
        :returns: a counter, random, and not the last one that was kept; and the attitude that was
            sent to an armed vehicle less than 30 s ago, None if there is none.
        """
        last, quat = self._read(now_s)
        if last is None:
            return random.SystemRandom().randrange(256), quat
        return (last + random.SystemRandom().randrange(1, 256)) % 256, quat

    def _read(self, now_s: float) -> tuple[Optional[int], Optional[Quat]]:
        try:
            counter, *rest = self.path.read_text(encoding='ascii').split()
            last = int(counter)
            if len(rest) != 5:
                return last, None
            at_s, x, y, z, w = map(float, rest)
        except (OSError, ValueError):    # none yet, or damaged
            return None, None
        good = abs(now_s - at_s) <= _FLIGHT_S and abs(math.hypot(x, y, z, w) - 1.0) <= 0.01
        return last, (x, y, z, w) if good else None

    def keep(self, counter: int, quat: Optional[Quat], now_s: float) -> str:
        """
        Write what is sent next; the file is replaced in one step.

        :param quat: attitude (x, y, z, w) of an armed vehicle; None of another one.
        :param now_s: present time (s since 1970).
        :returns: why it could not be written, '' if it was.
        """
        before = self._kept[1]
        if counter == self._kept[0] and (before is quat is None or (
                before is not None and quat is not None
                and abs(now_s - self._kept_s) < _REPEAT_S
                and angle_between(before, quat) < _STEP_RAD)):
            return ''
        self._kept, self._kept_s = (counter, quat), now_s
        part = self.path.with_name(f'{self.path.name}.{secrets.token_hex(4)}.part')
        words = (counter,) if quat is None else (counter, now_s, *quat)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(' '.join(map(str, words)), encoding='ascii')
            os.replace(part, self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            return f'{self.path}: {error.strerror}'
        return ''
