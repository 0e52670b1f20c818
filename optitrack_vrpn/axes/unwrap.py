# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Unwrap an angle: continue past half a turn instead of jumping by a whole turn."""

import math

TURN = 2.0 * math.pi


class Unwrapper:
    """
    Count the turns of one angle.

    Between two samples the angle is assumed to change by the shorter way. If a body rotates by
    more than half a turn while it is not visible, the result is wrong by whole turns.

    :ivar angle: the unwrapped angle (rad), or None before the first sample.
    """

    def __init__(self) -> None:
        self.angle: float | None = None

    def update(self, wrapped: float) -> float:
        """
        Process a sample.

        :param wrapped: the angle (rad), modulo whole turns.
        :returns: the same angle plus whole turns, nearest to the previous result.
        """
        if self.angle is None:
            self.angle = wrapped
        else:
            self.angle += math.remainder(wrapped - self.angle, TURN)
        return self.angle
