# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Angular rates as VRPN servers send them: a rotation over a time.

VRPN's velocity message contains ``vel_quat`` and ``vel_quat_dt``: the rotation of the body in dt
seconds (vrpn_Tracker.h of the VRPN library). Its acceleration message has the same layout.
"""

from __future__ import annotations

import math

from optitrack_vrpn.motion.quaternion import Quat, to_rotation_vector, Vector


def angular_rate(quat_xyzw: Quat, dt: float) -> Vector | None:
    """
    Convert a rotation over dt into a rate.

    The fastest rate that can be represented is half a turn in dt: q and -q are the same rotation,
    and the shorter of the two ways is used.

    :param quat_xyzw: rotation over dt, of any norm.
    :param dt: its duration (s).
    :returns: the rate (rad/s) along the axes of the quaternion's frame, or None where dt is zero,
        negative or not finite, or the quaternion has no usable norm. Servers without a rate send
        the identity over dt zero, which gives None too.
    """
    norm = math.hypot(*quat_xyzw)
    if not (dt > 0.0 and math.isfinite(dt) and 1e-9 < norm < 1e9):
        return None
    x, y, z = to_rotation_vector((
        quat_xyzw[0] / norm, quat_xyzw[1] / norm, quat_xyzw[2] / norm, quat_xyzw[3] / norm))
    rate = (x / dt, y / dt, z / dt)
    return rate if math.isfinite(sum(rate)) else None
