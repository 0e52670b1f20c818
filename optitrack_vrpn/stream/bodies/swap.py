# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise bodies that have exchanged names.

For a single body a swap is a jump, and the jump of a body that was carried settles after a time. A
jump to the place of another body is not a new place of this body; if it settled, two drones with
swapped labels would both become valid. Such a jump is held.

Labels are mostly swapped while few cameras see the bodies, so ``find_swap`` also checks a body
that returns after a gap, however near it is. Names are exchanged if both bodies are seen, each in
the other's place. While only one is, its place is a jump.
"""

from __future__ import annotations

from collections.abc import Collection
import math

from optitrack_vrpn.stream.bodies.hypotheses import Hypotheses, REMEMBERED_NS, SwapCandidate
from optitrack_vrpn.stream.bodies.poses import pose_distance, TimedPose
from optitrack_vrpn.stream.bodies.states import State
from optitrack_vrpn.stream.bodies.tracker import Tracker

CLEARANCE = 0.05
"""
Distance (m) between two origins above which bodies are always distinguished. Chosen: twice the
error of an expected position after a short gap.
"""


def find_swap(
    gate: Tracker, gates: Collection[Tracker], seen: TimedPose,
) -> SwapCandidate | None:
    """
    Find the body that a pose probably belongs to, instead of the one it is sent for.

    A body is expected to continue its last motion. A pose that is twice as close to the expected
    place of another body can be that body's, unless that body is seen and is not in the place of
    this one.

    :param gate: the body that the pose is sent for.
    :param gates: all bodies of one sender clock.
    :param seen: the pose.
    :returns: the other body, and whether it is seen in this one's place; None if there is none.
    """
    body, memory = gate.hypotheses, gate.hypotheses.memory_ns
    away = _from_expected(body, seen, memory)
    if away is None or away <= 2 * CLEARANCE:
        return None
    for each in gates:    # this one is no closer to itself
        other = each.hypotheses
        from_other = _from_expected(other, seen, memory, away / 2)
        if from_other is not None and 2 * from_other < away:
            confirmed = _in_place_of(body, other, seen.now)
            if confirmed is not False:
                return SwapCandidate(other, bool(confirmed))
    return None


def _from_expected(
    body: Hypotheses, seen: TimedPose, memory: int | None = None, at_most: float = math.inf,
) -> float | None:
    """
    Measure the distance (m) of a pose from the expected place of a body.

    :returns: None if that place is not known, or the position alone differs by more than
        ``at_most``.
    """
    good, place = body.last_good, body.expected(seen.now)
    if good is None or place is None or (memory is not None and seen.now - good[0] >= memory):
        return None
    if math.dist(seen.position, place) > at_most:
        return None
    return pose_distance(seen.position, seen.quat, place, good[2])


def _in_place_of(body: Hypotheses, other: Hypotheses, now: int) -> bool | None:
    """Return whether the other body is in this one's expected place; None if it is not seen."""
    good = other.last_good
    if good is None or not other.is_seen(now):
        return None
    if other.state is State.TRACKED:
        # Valid since this one returned: both are seen at once, and no names were exchanged.
        return False if good[0] >= body.seen_since(now) else None
    if other.candidate is None:
        return None
    ours, theirs = _from_expected(body, other.candidate), _from_expected(other, other.candidate)
    return None if ours is None or theirs is None else 2 * ours < theirs


def review(gates: Collection[Tracker]) -> None:
    """
    Hold the jumps of bodies that are seen in another's place, and release the others.

    Call it when a body became JUMPED, and with every ``tick``; it returns at once while no body is
    JUMPED.

    :param gates: all bodies of one sender clock.
    """
    for gate in gates:
        if gate.state is State.JUMPED:
            _review(gate.hypotheses, [each.hypotheses for each in gates])


def _review(body: Hypotheses, others: Collection[Hypotheses]) -> None:
    """Decide on one body that has jumped."""
    candidate, own = body.candidate, body.last_good
    if candidate is None or own is None:
        return
    if body.swapped is not None and body.swapped not in others:
        body.swapped = None    # the other body is no longer selected
    now, place, _ = candidate
    for other in others:
        good = other.last_good
        if good is None:
            continue
        distance = math.dist(place, good[1])
        # If both are seen at once and apart, the place is the body's own.
        apart = other.state is State.TRACKED and distance > 2 * CLEARANCE
        if body.swapped is other:
            if apart or other.unseen_ns(now) > REMEMBERED_NS:
                body.swapped = None
        elif body.swapped is None and not apart:
            dt = abs(now - good[0])
            if (dt < body.memory_ns and distance <= CLEARANCE + body.reach(dt)
                    and math.dist(place, own[1]) > 2 * distance
                    and _confirms(body, other, now)):
                body.swapped = other


def _confirms(body: Hypotheses, other: Hypotheses, now: int) -> bool:
    """Return whether the other body is seen in the place of this one, or in its own, now."""
    good = other.last_good
    if other.state is State.TRACKED:
        return good is not None and good[0] >= now
    return other.is_settled and _in_place_of(body, other, now) is True
