# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise bodies that have exchanged names.

Each body alone sees a jump, and a jump that lasts becomes the new truth after a time. When it
leads to where another body was just seen, it is no new place but the other body: two drones whose
labels were swapped would otherwise both be believed in the end. Such a jump is held.

Labels change sides above all while the cameras see little, so the same is asked of a body that
comes back after a gap, however near it is: ``rival`` does. When both are back, each must be in the
other's place; while only one is, its place is a jump as well, until the other one shows up.
"""

from __future__ import annotations

from collections.abc import Collection
import math

from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.bodies.validity import apart, Body, Rival
from optitrack_vrpn.motion.quaternion import Quat, Vector

CLEARANCE = 0.05
"""Distance (m) between two origins at which bodies are told apart in any case."""


def rival(
    body: Body, bodies: Collection[Body], now: int, position: Vector, quat_xyzw: Quat,
) -> Rival | None:
    """
    Name the body that a pose belongs to rather than to the one it is sent for.

    A body goes on as it was last seen to move, more or less. A pose that is twice as close to
    where another one should be may be that one's, unless that one is seen, and not likewise in
    the place of this one.

    :param body: whose pose it is said to be.
    :param bodies: all bodies of one sender clock.
    :param now: sender time (ns) of the pose.
    :param position: position (m), as sent.
    :param quat_xyzw: attitude of unit norm.
    :returns: the other body, and whether it is seen in this one's place; None for nobody.
    """
    memory = round(body.config.memory_s * 1e9)
    away = _from_expected(body, now, position, quat_xyzw, memory)
    if away is None or away <= 2 * CLEARANCE:
        return None
    for other in bodies:
        if other is body:
            continue
        from_other = _from_expected(other, now, position, quat_xyzw, memory, away / 2)
        if from_other is not None and 2 * from_other < away:
            seen = _in_place_of(body, other, now)
            if seen is not False:
                return Rival(other.name, bool(seen))
    return None


def _from_expected(
    body: Body, now: int, position: Vector, quat_xyzw: Quat, memory: int | None = None,
    at_most: float = math.inf,
) -> float | None:
    """
    Tell how far (m) a pose is from where a body should be.

    :returns: None if nobody knows (any more), or the position alone is farther off than asked for.
    """
    good, place = body.last_good, body.expected(now)
    if good is None or place is None or (memory is not None and now - good[0] >= memory):
        return None
    if math.dist(position, place) > at_most:
        return None
    return apart(position, quat_xyzw, place, good[2])


def _in_place_of(body: Body, other: Body, now: int) -> bool | None:
    """Tell whether the other body is seen where this one should be; None if it is not seen."""
    good = other.last_good
    if good is None or other.rate_hz * (now - other.last_seen_ns) > 1.5e9:
        return None
    if other.state is State.TRACKED:
        # Believed since this one is back: both are seen at once, and each is itself.
        return False if good[0] >= body.seen_since(now) else None
    if other.candidate is None:
        return None
    ours, theirs = _from_expected(body, *other.candidate), _from_expected(other, *other.candidate)
    return None if ours is None or theirs is None else 2 * ours < theirs


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


def _settle(body: Body, other: Body, now: int) -> None:
    """Come to an end with a doubt, once the other body is seen or has not been for long."""
    seen = _in_place_of(body, other, now)
    if seen:
        body.doubtful = False
    elif seen is False:
        body.held_by = ''
    elif now - other.last_seen_ns > body.config.memory_s * 1e9:
        # Nobody comes to confirm it: the jump is one like any other.
        body.held_by, body.doubtful = '', False


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
            # Where both are tracked at once and apart, the place is the body's own.
            if other.state is State.TRACKED and distance > 2 * CLEARANCE:
                body.held_by = ''
            elif body.doubtful:
                _settle(body, other, now)
        elif not body.held_by:
            dt = abs(now - good[0]) * 1e-9
            reach = CLEARANCE + body.config.max_speed * dt
            if (dt < body.config.memory_s and distance <= reach
                    and math.dist(place, own[1]) > 2 * distance):
                body.held_by = other.name
