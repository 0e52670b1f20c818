# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise bodies that have exchanged names.

Each body alone sees a jump, and a jump of a body that was carried settles after a time. When it
leads to where another body was just seen, it is not a new place but the other body: otherwise both
of two drones whose labels were swapped would be valid in the end. Such a jump is held.

Labels are swapped above all while the cameras see little, so the same is checked for a body that
comes back after a gap, however near it is: ``find_swap`` does. When both are back, each must be in
the other's place; while only one is, its place is a jump as well, until the other one shows up.
"""

from __future__ import annotations

from collections.abc import Collection
import math

from optitrack_vrpn.bodies.jumps import SwapCandidate
from optitrack_vrpn.bodies.states import State
from optitrack_vrpn.bodies.track import apart, Seen
from optitrack_vrpn.bodies.validity import ValidityGate

CLEARANCE = 0.05
"""
Distance (m) between two origins at which bodies are told apart in any case. Chosen: twice the
error of an expected position after a short gap. Halved, bodies that touch are suspected; doubled,
swaps of bodies nearer than 0.2 m pass.
"""
MISSED_FRAMES_NS = 1.5e9
"""A body that has sent nothing for 1.5 of its frames is not seen: this (ns) times its rate."""


def find_swap(
    gate: ValidityGate, gates: Collection[ValidityGate], seen: Seen,
) -> SwapCandidate | None:
    """
    Name the body that a pose belongs to rather than to the one it is sent for.

    A body goes on as it last moved, more or less. A pose that is twice as close to where another
    one should be may be that one's, unless that one is seen, and not likewise in the place of this
    one.

    :param gate: the body that the pose is sent for.
    :param gates: all bodies of one sender clock.
    :param seen: the pose.
    :returns: the other body, and whether it is seen in this one's place; None if there is none.
    """
    memory = round(gate.config.memory_s * 1e9)
    away = _from_expected(gate, seen, memory)
    if away is None or away <= 2 * CLEARANCE:
        return None
    for other in gates:
        if other is gate:
            continue
        from_other = _from_expected(other, seen, memory, away / 2)
        if from_other is not None and 2 * from_other < away:
            confirmed = _in_place_of(gate, other, seen.now)
            if confirmed is not False:
                return SwapCandidate(other.name, bool(confirmed))
    return None


def _from_expected(
    gate: ValidityGate, seen: Seen, memory: int | None = None, at_most: float = math.inf,
) -> float | None:
    """
    Measure how far (m) a pose is from where a body should be.

    :returns: None if that is not known (any more), or the position alone is farther off than
        ``at_most``.
    """
    good, place = gate.last_good, gate.expected(seen.now)
    if good is None or place is None or (memory is not None and seen.now - good[0] >= memory):
        return None
    if math.dist(seen.position, place) > at_most:
        return None
    return apart(seen.position, seen.quat, place, good[2])


def _in_place_of(gate: ValidityGate, other: ValidityGate, now: int) -> bool | None:
    """Tell whether the other body is seen where this one should be; None if it is not seen."""
    good = other.last_good
    if good is None or other.rate_hz * (now - other.last_seen_ns) > MISSED_FRAMES_NS:
        return None
    if other.state is State.TRACKED:
        # Valid since this one is back: both are seen at once, and each is itself.
        return False if good[0] >= gate.seen_since(now) else None
    if other.candidate is None:
        return None
    ours, theirs = _from_expected(gate, other.candidate), _from_expected(other, other.candidate)
    return None if ours is None or theirs is None else 2 * ours < theirs


def review(gates: Collection[ValidityGate]) -> None:
    """
    Hold the jumps of bodies that are seen in another's place, and release those that are not.

    Call it when a body became JUMPED, and with every ``tick``; it costs nothing while no body is
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
    now, place, _ = candidate
    for other in gates:
        good = other.last_good
        if other is gate or good is None:
            continue
        distance = math.dist(place, good[1])
        if gate.swapped_with == other.name:
            # Where both are tracked at once and apart, the place is the body's own.
            if other.state is State.TRACKED and distance > 2 * CLEARANCE:
                gate.swapped_with = ''
            elif gate.unconfirmed:
                _confirm(gate, other, now)
        elif not gate.swapped_with:
            dt = abs(now - good[0]) * 1e-9
            reach = CLEARANCE + gate.config.max_speed * dt
            if (dt < gate.config.memory_s and distance <= reach
                    and math.dist(place, own[1]) > 2 * distance):
                gate.swapped_with = other.name


def _confirm(gate: ValidityGate, other: ValidityGate, now: int) -> None:
    """Confirm or drop a swap, once the other body is seen or has not been for long."""
    confirmed = _in_place_of(gate, other, now)
    if confirmed:
        gate.unconfirmed = False
    elif confirmed is False:
        gate.swapped_with = ''
    elif now - other.last_seen_ns > gate.config.memory_s * 1e9:
        # The other body does not come back to confirm it: the jump is one like any other.
        gate.swapped_with, gate.unconfirmed = '', False
