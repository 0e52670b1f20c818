# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Angular rates as VRPN servers send them: a rotation over a time.

VRPN's velocity message holds ``vel_quat`` and ``vel_quat_dt``: the quaternion turns as far as the
body turns in dt seconds (vrpn_Tracker.h of the VRPN library). Its acceleration message likewise.
"""

from __future__ import annotations

import math

from optitrack_vrpn.motion.quaternion import Quat, to_rotation_vector, Vector


def angular_rate(quat_xyzw: Quat, dt: float) -> Vector | None:
    """
    Turn a rotation over dt into a rate.

    Half a turn in dt is the fastest that can be told: q and -q are one rotation, taken the
    shorter way round.

    :param quat_xyzw: rotation over dt; its norm is immaterial.
    :param dt: the time it takes (s).
    :returns: the rate (rad/s) along the axes of the quaternion's frame, or None where there is
        none: dt zero, negative or not finite, or no quaternion. The identity over dt zero, as
        servers send it that know no rate, gives None too.
    """
    norm = math.hypot(*quat_xyzw)
    if not (dt > 0.0 and math.isfinite(dt) and 1e-9 < norm < 1e9):
        return None
    x, y, z = to_rotation_vector((
        quat_xyzw[0] / norm, quat_xyzw[1] / norm, quat_xyzw[2] / norm, quat_xyzw[3] / norm))
    rate = (x / dt, y / dt, z / dt)
    return rate if math.isfinite(sum(rate)) else None
