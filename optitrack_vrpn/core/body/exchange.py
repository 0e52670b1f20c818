# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise bodies that have exchanged names.

Each body alone sees a jump, and a jump that lasts becomes the new truth after a time. When it
leads to where another body was just seen, it is no new place but the other body: two drones whose
labels were swapped would otherwise both be believed in the end. Such a jump is held.

Labels change sides above all while the cameras see little, so the same is asked of a body that
comes back after a gap, however near it is: ``rival`` does, and what it suspects is a jump as well,
until the other body is seen to be elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
import math

from optitrack_vrpn.core.body.states import State
from optitrack_vrpn.core.body.truth import apart, Body
from optitrack_vrpn.core.quaternion import Quat, Vector

CLEARANCE = 0.05
"""Distance (m) between two origins at which bodies are told apart in any case."""


def rival(
    body: Body, bodies: Collection[Body], now: int, position: Vector, quat_xyzw: Quat,
) -> str:
    """
    Name the body that a pose belongs to rather than to the one it is sent for.

    A body goes on as it was last seen to move, more or less. A pose that is twice as close to
    where another one should be is that one's, unless that one is seen somewhere else.

    :param body: whose pose it is said to be.
    :param bodies: all bodies of one sender clock.
    :param now: sender time (ns) of the pose.
    :param position: position (m), as sent.
    :param quat_xyzw: attitude of unit norm.
    :returns: the other body's name, or nothing.
    """
    own = body.last_good
    if own is None or now - own[0] >= body.config.memory_s * 1e9:
        return ''
    away = apart(position, quat_xyzw, body.expected(now), own[2])
    if away <= 2 * CLEARANCE:
        return ''
    for other in bodies:
        good = other.last_good
        if other is body or good is None or now - good[0] >= body.config.memory_s * 1e9:
            continue
        from_other = apart(position, quat_xyzw, other.expected(now), good[2])
        if 2 * from_other < away and not _is_itself(other, now, position, body.seen_since(now)):
            return other.name
    return ''


def _is_itself(other: Body, now: int, place: Vector, since: int) -> bool:
    """Tell whether a body is seen as itself by now: elsewhere, or beside the one in question."""
    good = other.last_good
    if good is None:
        return False
    if other.state is State.TRACKED and good[0] >= since:
        return True    # both at once: they are fixed to each other, or one twice
    if other.state is State.TRACKED and other.rate_hz * (now - good[0]) < 1.5e9:
        return math.dist(place, good[1]) > 2 * CLEARANCE
    # It is back as well, and may come into its own just after this one.
    seen = other.candidate
    return (seen is not None and other.rate_hz * (now - seen[0]) < 1.5e9
            and math.dist(place, seen[1]) > 2 * CLEARANCE
            and apart(seen[1], seen[2], other.expected(seen[0]), good[2]) < apart(
                place, seen[2], other.expected(seen[0]), good[2]))


def review(bodies: Collection[Body]) -> None:
    """
    Hold the jumps of bodies that are seen in another's place, and release those that are not.

    Call it when a body's events tell of JUMPED, and with every ``tick``; it costs nothing while
    no body is JUMPED.

    :param bodies: all bodies of one sender clock.
    """
    for body in bodies:
        if body.state is State.JUMPED:
            _review(body, bodies)


def _review(body: Body, bodies: Collection[Body]) -> None:
    """Decide on one body that has jumped."""
    candidate = body.candidate
    own = body.last_good
    if candidate is None or own is None:
        return
    now, place, _ = candidate
    for other in bodies:
        good = other.last_good
        if other is body or good is None:
            continue
        distance = math.dist(place, good[1])
        if body.held_by == other.name:
            # Where both are tracked at once and apart, the place is the body's own. And a doubt
            # ends where nobody comes to confirm it: then the jump is one like any other.
            if other.state is State.TRACKED and distance > 2 * CLEARANCE:
                body.held_by = ''
            elif body.doubtful and now - other.last_seen_ns > body.config.memory_s * 1e9:
                body.held_by, body.doubtful = '', False
        elif not body.held_by:
            dt = abs(now - good[0]) * 1e-9
            reach = CLEARANCE + body.config.max_speed * dt
            if (dt < body.config.memory_s and distance <= reach
                    and math.dist(place, own[1]) > 2 * distance):
                body.held_by = other.name
