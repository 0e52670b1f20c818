# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Recognise bodies that have exchanged names.

Each body alone sees a jump, and a jump that lasts becomes the new truth after a time. When it
leads to where another body was just seen, it is no new place but the other body: two drones whose
labels were swapped would otherwise both be believed in the end. Such a jump is held.
"""

from __future__ import annotations

from collections.abc import Collection
import math

from optitrack_vrpn.core.body.states import State
from optitrack_vrpn.core.body.truth import Body

CLEARANCE = 0.05
"""Distance (m) between two origins at which bodies are told apart in any case."""


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
        apart = math.dist(place, good[1])
        if body.held_by == other.name:
            # Where both are tracked at once and apart, the place is the body's own.
            if other.state is State.TRACKED and apart > 2 * CLEARANCE:
                body.held_by = ''
        elif not body.held_by:
            dt = abs(now - good[0]) * 1e-9
            reach = CLEARANCE + body.config.max_speed * dt
            if (dt < body.config.memory_s and apart <= reach
                    and math.dist(place, own[1]) > 2 * apart):
                body.held_by = other.name
