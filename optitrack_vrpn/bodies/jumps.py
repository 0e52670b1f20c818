# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Jumps of one body: a jump continues, ends because the body returned, or settles.

A track that begins where the body cannot be is a jump. Waiting does not end it: the reach of a
body grows with time until every place is within it.

A jump that turns the body further than it can turn, but leaves it in its place, is a *flip*: the
sender fits the markers to the wrong ones. Such a fit can last for minutes, so time alone never
makes it valid. It ends when the body turns back by the same angle about the same body axis,
wherever it has moved meanwhile, or when the user accepts it (``accept_jump``).

Only the other bodies show whether a name has moved to another body. ``find_swap`` is called
whenever a body was out of sight, even for one frame; see ``swap.py``.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Any, NamedTuple

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.disposition import Disposition
from optitrack_vrpn.bodies.limits import MotionLimits
from optitrack_vrpn.bodies.states import State, StateChange
from optitrack_vrpn.bodies.statistics import NEVER_NS
from optitrack_vrpn.bodies.track import Flip, Origin, pose_distance, TimedPose, Track
from optitrack_vrpn.bodies.transitions import Observed, TRANSITIONS
from optitrack_vrpn.motion.quaternion import (
    angle_between, conjugate, IDENTITY, multiply, Vector)

OUTLIER_FRAMES = 10
"""
Frames in the new place that one frame elsewhere cancels. Chosen: a solution that is right in one
of ten frames never settles. Halved or doubled: in one of five, or of twenty.
"""
IN_PLACE_M = 0.3
"""
A flip moves the reported origin by less than this (m): twice its distance from the centroid of the
markers. Chosen for bodies of up to 0.3 m. Halved, flips of large bodies count as carried, which
settle with time; doubled, more bodies that were carried are held.
"""
IN_PLACE_SPEED = 1.5e-9
"""
Increase (m/ns) of that distance with the time out of sight. Chosen: a drone that brakes or turns
at 3.5 m/s^2 is no further from its course after 0.9 s. Halved or doubled: as above, after a gap.
"""


class JumpRules(MotionLimits):
    """
    Evaluate the track of a body that is not TRACKED.

    :param name: the body's name.
    :param config: thresholds.
    :ivar state: the present state.
    :ivar changes: changes of state not fetched by ``take_changes`` yet.
    :ivar swapped: the body this one has probably exchanged names with (also set by
        ``swap.review``); while it is set, a jump does not settle.
    :ivar unconfirmed: whether only this body shows the swap, because the other is not seen.
    :ivar find_swap: returns the body that a pose probably belongs to instead of this one, or None.
    """

    __slots__ = (
        'name', 'state', 'changes', 'swapped', 'unconfirmed', 'find_swap', '_since',
        '_detail', '_settle_ns', '_track', '_other', '_other_left', '_other_reason', '_accepted')

    def __init__(self, name: str, config: BodyConfig) -> None:
        super().__init__(config)
        self.name = name
        self.state = State.NEW
        self.changes: list[StateChange] = []
        self.swapped: JumpRules | None = None
        self.unconfirmed = False
        self.find_swap: Callable[[Any, TimedPose], SwapCandidate | None] = _no_swap
        self._since = -NEVER_NS
        self._detail = 'not seen yet'
        self._settle_ns = NEVER_NS
        self._track: Track | None = None
        # Poses that do not continue the jump: outliers, or the body returned. Whether the first of
        # them was out of reach from the jump's place, and why it is not a return.
        self._other: Track | None = None
        self._other_left = False
        self._other_reason: Disposition | None = None
        self._accepted = False

    def accept_jump(self) -> bool:
        """
        Accept the place and attitude that the body has jumped to, on request of the user.

        The next consistent pose is published and a reset is counted.

        :returns: whether there was a jump to accept.
        """
        self._accepted = self.state is State.JUMPED
        return self._accepted

    def take_changes(self) -> list[StateChange]:
        """
        Fetch the changes of state since the last call.

        :returns: the changes, oldest first.
        """
        changes, self.changes = self.changes, []
        return changes

    @property
    def swapped_with(self) -> str:
        """Return the name of the body in ``swapped``; '' for none."""
        return '' if self.swapped is None else self.swapped.name

    @property
    def held(self) -> str:
        """Explain why time alone does not end the jump of this body; '' if it does, or if none."""
        if self.state is not State.JUMPED:
            return ''
        if self._track is not None and self._track.flip is not None:
            angle = math.degrees(angle_between(IDENTITY, self._track.flip.turn))
            return (f'it turned in place by {angle:.0f} degrees, faster than it can: a wrong '
                    'marker solution')
        if self.swapped is not None:
            return f'it seems to have exchanged names with {self.swapped_with!r}'
        return ''

    @property
    def jumped_s(self) -> float:
        """Return the time (s) for which the body has been seen in the place of the jump."""
        if self.state is not State.JUMPED or self._track is None:
            return 0.0
        return (self._track.last.now - self._track.began_ns) * 1e-9

    def seen_since(self, now: int) -> int:
        """
        Return the sender time (ns) since which the body has been seen where it is.

        :param now: sender time (ns) of the present pose, for a body that has no track yet.
        """
        return now if self._track is None else self._track.began_ns

    @property
    def candidate(self) -> TimedPose | None:
        """Return the latest pose of the track that may become the next valid one, if any."""
        return None if self._track is None else self._track.last

    def _observe(self, observed: Observed, time_ns: int, detail: str) -> None:
        """Apply the table of transitions, and report a change of state."""
        after = TRANSITIONS[self.state][observed]
        if after is not self.state:
            self.changes.append(StateChange(self.name, time_ns, self.state, after, detail))
            self.state, self._since, self._detail = after, time_ns, detail

    def _check_jumped(
        self, track: Track, seen: TimedPose, receive_ns: int,
    ) -> Disposition | Observed | None:
        """Check a pose of a body that has jumped: it continues or ends the jump."""
        if not self._continues(track, seen):
            return self._check_return(track, seen, receive_ns)
        self._other = None
        track.add(seen)
        if track.count >= self.config.acquire_frames:
            if self._accepted:
                return Observed.ACCEPTED
            if self.unconfirmed and self.swapped is None:
                track.origin = Origin.NEAR    # no swap: the body was here all the time
                return Observed.RETURNED
            if (seen.now - track.began_ns >= self._settle_ns and track.flip is None
                    and self.swapped is None):
                return Observed.SETTLED
        self._observe(Observed.JUMP, receive_ns, 'still in the place of the jump')
        return Disposition.JUMPED

    def _follows(self, track: Track, seen: TimedPose) -> bool:
        """Return whether a body can have come from the latest pose of a track to this one."""
        last = track.last
        return self._too_far(
            seen.position, seen.quat, seen.now - last.now, last.position, last.quat) is None

    def _continues(self, track: Track, seen: TimedPose) -> bool:
        """
        Return whether a pose continues the jump.

        After a short jump, or a long silence, a pose can be within reach of several places: it
        belongs to the closest one.
        """
        if not self._follows(track, seen) or self._is_home(track, seen):
            return False
        _, position, quat = seen
        last = track.last
        away = pose_distance(position, quat, last.position, last.quat)
        if self._other is not None and pose_distance(
                position, quat, self._other.last.position, self._other.last.quat) < away:
            return False
        if track.flip is not None:
            return away <= pose_distance(position, quat, last.position, track.true_quat)
        return all(away <= pose_distance(position, quat, place, self._quat)
                   for place in (self._position, self.expected(seen.now)) if place is not None)

    def _check_return(
        self, track: Track, seen: TimedPose, receive_ns: int,
    ) -> Disposition | Observed | None:
        """
        Check a pose that does not continue the jump.

        m such poses in a row end it. A body that has the name of another has not returned when it
        turns in the place of that one. Each such pose cancels ``OUTLIER_FRAMES`` frames in the new
        place: the place of a body whose marker solution flips back and forth does not settle.
        """
        if self._other is not None and self._follows(self._other, seen):
            self._other.add(seen)
        else:
            # The flip is determined by the first pose: the body turns while frames are counted.
            self._other = Track(Origin.FAR, seen, self._flip_of(seen))
            self._other_left = self._is_home(track, seen) or math.dist(
                seen.position, track.last.position) > self._reach(seen.now - track.last.now)
            self._other_reason = self._not_back(track, seen)
        track.began_ns = min(seen.now, track.began_ns + round(OUTLIER_FRAMES * self._interval))
        reason = (self._other_reason if track.flip is not None
                  else self._too_far(seen.position, seen.quat, seen.now - self._good_ns))
        if self._other.count >= self.config.acquire_frames:
            swap = self.swapped, self.unconfirmed
            left = self._other_left or self.swapped is None
            if reason is None and left and not self._is_swapped(seen):
                track.origin = Origin.NEAR
                return Observed.RETURNED
            self._jump(seen, receive_ns, reason or Disposition.SWAPPED, self._other.flip)
            if not left:
                self.swapped, self.unconfirmed = swap
        self._observe(Observed.JUMP, receive_ns, 'still in the place of the jump')
        return reason or Disposition.ACQUIRING

    def _is_home(self, track: Track, seen: TimedPose) -> bool:
        """
        Return whether a body with the name of another is seen where its own name was.

        After a gap it can have come to there from the place of its jump.
        """
        other = self.swapped
        if other is None:
            return False
        if other.state is State.TRACKED and other._good_ns > track.last.now:
            # The other one has its own name again: this is home if that one is elsewhere.
            return math.dist(seen.position, other._position) > IN_PLACE_M
        home = other.candidate
        return home is not None and (
            2 * math.dist(seen.position, home.position)
            < math.dist(seen.position, track.last.position))

    def _not_back(self, track: Track, seen: TimedPose) -> Disposition | None:
        """
        Explain why a pose is not a flipped body's return from its flip; None if it is.

        The track of a flipped body continues: its place is known, and its attitude up to the flip.
        """
        if track.flip is None:
            return None
        dt = seen.now - track.last.now
        if math.dist(seen.position, track.last.position) > IN_PLACE_M + self._reach(dt):
            return Disposition.MOVED_TOO_FAR
        limit = max(self._turn_limit(dt), track.flip.slack)
        if angle_between(track.true_quat, seen.quat) > limit:
            return Disposition.TURNED_TOO_FAR
        return None

    def _flip_of(self, seen: TimedPose) -> Flip | None:
        """
        Determine the flip between the body and a pose.

        :returns: None if there is none, if the pose is elsewhere, or after too long a gap.
        """
        track = self._track
        if track is not None and track.flip is not None:
            places: list[Vector | None] = [track.last.position]
            attitude, at = track.true_quat, track.last.now
        else:
            places = [self._position, self.expected(seen.now, NEVER_NS)]
            attitude, at = self._quat, self._good_ns
        dt = seen.now - at
        if dt >= self._memory():
            return None
        limit = self._turn_limit(dt)
        if (angle_between(attitude, seen.quat) <= limit
                or min(math.dist(seen.position, place) for place in places if place is not None)
                > IN_PLACE_M + IN_PLACE_SPEED * dt):
            return None
        return Flip(multiply(conjugate(attitude), seen.quat), min(limit, self._turn_cap))

    def _is_swapped(self, seen: TimedPose) -> bool:
        """Return whether this is another body's place, and store that body's name."""
        swap = self.find_swap(self, seen)
        if swap is None:
            return False
        self.swapped, self.unconfirmed = swap.body, not swap.confirmed
        return True

    def _jump(self, seen: TimedPose, receive_ns: int, reason: Disposition,
              flip: Flip | None = None) -> Disposition:
        """Start a track in a place where the body cannot be, or where another body is."""
        swapped = reason is Disposition.SWAPPED
        self._track = Track(Origin.FAR, seen, None if swapped else flip)
        self._other = None
        self._accepted = False
        if not swapped:
            self.swapped, self.unconfirmed = None, False
        distance = math.dist(seen.position, self._position)
        angle = math.degrees(angle_between(self._quat, seen.quat))
        dt = (seen.now - self._good_ns) * 1e-6
        self._observe(
            Observed.JUMP, receive_ns,
            f'{distance:.3f} m and {angle:.0f} degrees in {dt:.1f} ms: {reason.value}')
        return reason


class SwapCandidate(NamedTuple):
    """
    The body that a pose probably belongs to, instead of the one it is sent for.

    :ivar body: the other body.
    :ivar confirmed: whether the other body is seen in the place of this one.
    """

    body: JumpRules
    confirmed: bool


def _no_swap(gate: JumpRules, seen: TimedPose) -> SwapCandidate | None:
    """Return None: the default for a body without others."""
    return None
