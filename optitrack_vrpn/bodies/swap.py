# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise bodies that have exchanged names.

For a single body a swap is a jump, and the jump of a body that was carried settles after a time. A
jump to the place of another body is not a new place of this body; if it settled, two drones with
swapped labels would both become valid. Such a jump is held.

Labels are mostly swapped while few cameras see the bodies, so ``find_swap`` also checks a body
that returns after a gap, however near it is. When both bodies are seen again, each must be in the
other's place; while only one is, its place is a jump too, until the other one is seen.
"""

from __future__ import annotations

from collections.abc import Collection
import math

from optitrack_vrpn.bodies.jumps import SwapCandidate
from optitrack_vrpn.bodies.poses import pose_distance, TimedPose
from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.bodies.validity import ValidityGate

CLEARANCE = 0.05
"""
Distance (m) between two origins above which bodies are always distinguished. Chosen: twice the
error of an expected position after a short gap.
"""
MISSED_FRAMES_NS = 1.5e9
"""
Frame intervals without a pose after which a body is not seen, times 1e9: compared with rate (Hz)
times silence (ns). Chosen: the middle between one and two intervals.
"""


def find_swap(
    gate: ValidityGate, gates: Collection[ValidityGate], seen: TimedPose,
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
    memory = round(gate.config.memory_s * 1e9)
    away = _from_expected(gate, seen, memory)
    if away is None or away <= 2 * CLEARANCE:
        return None
    for other in gates:    # this one is no closer to itself
        from_other = _from_expected(other, seen, memory, away / 2)
        if from_other is not None and 2 * from_other < away:
            confirmed = _in_place_of(gate, other, seen.now)
            if confirmed is not False:
                return SwapCandidate(other, bool(confirmed))
    return None


def _from_expected(
    gate: ValidityGate, seen: TimedPose, memory: int | None = None, at_most: float = math.inf,
) -> float | None:
    """
    Measure the distance (m) of a pose from the expected place of a body.

    :returns: None if that place is not known, or the position alone differs by more than
        ``at_most``.
    """
    good, place = gate.last_good, gate.expected(seen.now)
    if good is None or place is None or (memory is not None and seen.now - good[0] >= memory):
        return None
    if math.dist(seen.position, place) > at_most:
        return None
    return pose_distance(seen.position, seen.quat, place, good[2])


def _in_place_of(gate: ValidityGate, other: ValidityGate, now: int) -> bool | None:
    """Return whether the other body is in this one's expected place; None if it is not seen."""
    good = other.last_good
    if good is None or other.rate_hz * (now - other.last_seen_ns) > MISSED_FRAMES_NS:
        return None
    if other.state is State.TRACKED:
        # Valid since this one returned: both are seen at once, and no names were exchanged.
        return False if good[0] >= gate.seen_since(now) else None
    if other.candidate is None:
        return None
    ours, theirs = _from_expected(gate, other.candidate), _from_expected(other, other.candidate)
    return None if ours is None or theirs is None else 2 * ours < theirs


def review(gates: Collection[ValidityGate]) -> None:
    """
    Hold the jumps of bodies that are seen in another's place, and release the others.

    Call it when a body became JUMPED, and with every ``tick``; it returns at once while no body is
    JUMPED.

    :param gates: all bodies of one sender clock.
    """
    for gate in gates:
        if gate.state is State.JUMPED:
            _review(gate, gates)


def _review(gate: ValidityGate, gates: Collection[ValidityGate]) -> None:
    """Decide on one body that has jumped."""
    candidate, own = gate.candidate, gate.last_good
    if candidate is None or own is None:
        return
    if gate.swapped is not None and gate.swapped not in gates:
        gate.suspect(None)    # the other body is no longer selected
    now, place, _ = candidate
    for other in gates:
        good = other.last_good
        if good is None:
            continue
        distance = math.dist(place, good[1])
        # If both are seen at once and apart, the place is the body's own.
        apart = other.state is State.TRACKED and distance > 2 * CLEARANCE
        if gate.swapped is other:
            if apart:
                gate.suspect(None, gate.unconfirmed)
            elif gate.unconfirmed:
                _confirm(gate, other, now)
        elif gate.swapped is None and not apart:
            dt = abs(now - good[0]) * 1e-9
            reach = CLEARANCE + gate.config.max_speed * dt
            if (dt < gate.config.memory_s and distance <= reach
                    and math.dist(place, own[1]) > 2 * distance):
                gate.suspect(other, gate.unconfirmed)


def _confirm(gate: ValidityGate, other: ValidityGate, now: int) -> None:
    """Confirm or drop a swap, when the other body is seen or was not seen for a long time."""
    confirmed = _in_place_of(gate, other, now)
    if confirmed:
        gate.suspect(other)
    elif confirmed is False:
        gate.suspect(None, True)    # it was here all the time
    elif now - other.last_seen_ns > gate.config.memory_s * 1e9:
        # The other body does not return to confirm it: treat this as an ordinary jump.
        gate.suspect(None)
