# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Jumps of one body: a jump continues, ends because the body returned, or settles.

A track that begins where the body cannot be is a jump. Waiting does not end it: the reach of a
body grows with time until every place is within it. A jump in place is a flip, see ``flips.py``.

Only the other bodies show whether a name has moved to another body. ``find_swap`` is called
whenever a body was out of sight, even for one frame; see ``swap.py``.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import NamedTuple

from optitrack_vrpn.core.rotation import angle_between, IDENTITY, Quat, Vector
from optitrack_vrpn.core.stats import GAP_INTERVALS
from optitrack_vrpn.stream.bodies.flips import (
    FlipDetector, IN_PLACE_M, TURNED_HELD_NS, TURNED_UNSEEN)
from optitrack_vrpn.stream.bodies.limits import EXPECTED_NS, ReachLimits
from optitrack_vrpn.stream.bodies.poses import (
    Flip, Origin, pose_distance, Return, TimedPose, Track)
from optitrack_vrpn.stream.bodies.states import (
    Disposition, NEVER_NS, Observed, State, StateMachine)
from optitrack_vrpn.stream.bodies.times import FrameTimes

OUTLIER_FRAMES = 10
"""
Frames in the new place that one frame elsewhere cancels. Chosen: a solution that is right in one
of ten frames never settles.
"""


def no_swap(seen: TimedPose) -> SwapCandidate | None:
    """Return None: the default for a body without others."""
    return None


class JumpTracker:
    """
    Follow a body that is not TRACKED: its track, and the jump that began it.

    :param states: the body's state.
    :param times: the times of its frames.
    :param limits: how far it can have moved.
    :ivar track: the poses that may make it TRACKED; None for none.
    :ivar swapped: the body this one has probably exchanged names with (also set by
        ``swap.review``); while it is set, a jump does not settle.
    :ivar unconfirmed: whether only this body shows the swap, because the other is not seen.
    :ivar find_swap: returns the body that a pose probably belongs to instead of this one, or None.
    :ivar acquire_frames: consistent frames that make the body TRACKED.
    :ivar settle_ns: time (ns) in the new place after which a jump is accepted.
    """

    __slots__ = (
        'track', 'swapped', 'unconfirmed', 'find_swap', 'acquire_frames', 'settle_ns', '_states',
        '_times', '_limits', 'flips', '_other', '_accepted')

    def __init__(self, states: StateMachine, times: FrameTimes, limits: ReachLimits) -> None:
        self.track: Track | None = None
        self.swapped: JumpTracker | None = None
        self.unconfirmed = False
        self.find_swap: Callable[[TimedPose], SwapCandidate | None] = no_swap
        self.acquire_frames = 1
        self.settle_ns = NEVER_NS
        self._states = states
        self._times = times
        self._limits = limits
        self.flips = FlipDetector(times, limits)
        # Poses that do not continue the jump: outliers, or the body returned.
        self._other: Return | None = None
        self._accepted = False

    # -- for comparison with other bodies (swap.py) --------------------------------------------

    @property
    def name(self) -> str:
        """Return the body's name."""
        return self._states.name

    @property
    def state(self) -> State:
        """Return the body's state."""
        return self._states.state

    @property
    def memory_ns(self) -> int:
        """Return the setting ``memory_s`` (ns)."""
        return self._limits.memory_ns

    @property
    def last_good(self) -> tuple[int, Vector, Quat] | None:
        """Return sender time (ns), position and attitude of the last valid pose, or None."""
        last = self._limits.last
        return None if last.now == -NEVER_NS else (last.now, last.position, last.quat)

    @property
    def candidate(self) -> TimedPose | None:
        """Return the latest pose of the track that may become the next valid one, if any."""
        return None if self.track is None else self.track.last

    def expected(self, sender_time_ns: int) -> Vector | None:
        """Predict the position of the body, see ``LastPose.expected``."""
        return self._limits.last.expected(sender_time_ns, EXPECTED_NS)

    def unseen_ns(self, now: int) -> int:
        """Return the time (ns) since the last pose, valid or not, at a sender time (ns)."""
        times = self._times
        return now - (self._limits.last.now if times.fast_ns >= 0 else times.last_ns)

    def is_seen(self, now: int) -> bool:
        """Return whether no pose is missing at a sender time (ns)."""
        interval = self._times.rate.interval
        return interval <= 0.0 or self.unseen_ns(now) <= GAP_INTERVALS * interval

    def seen_since(self, now: int) -> int:
        """
        Return the sender time (ns) since which the body has been seen where it is.

        :param now: sender time (ns) of the present pose, for a body that has no track yet.
        """
        return now if self.track is None else self.track.began_ns

    def reach(self, dt: int) -> float:
        """Return the distance (m) that the body can move in dt (ns), without noise."""
        return self._limits.speed * dt

    def suspect(self, other: JumpTracker | None, unconfirmed: bool = False) -> None:
        """
        Hold the jump as an exchange of names, or release it (None).

        :param unconfirmed: whether only this body shows the exchange.
        """
        self.swapped, self.unconfirmed = other, unconfirmed

    # -- the jump ------------------------------------------------------------------------------

    @property
    def lasted_s(self) -> float:
        """Return the time (s) for which the body has been seen in the place of the jump."""
        if self._states.state is not State.JUMPED or self.track is None:
            return 0.0
        return (self.track.last.now - self.track.began_ns) * 1e-9

    def accept_jump(self) -> bool:
        """Accept the present place and attitude; return whether there was a jump to accept."""
        self._accepted = self._states.state is State.JUMPED
        return self._accepted

    @property
    def held(self) -> str:
        """Explain why time alone does not end the jump of this body; '' if it does, or if none."""
        if self._states.state is not State.JUMPED:
            return ''
        flip = None if self.track is None else self.track.flip
        if flip is not None and flip.held_ns == NEVER_NS:
            angle = math.degrees(angle_between(IDENTITY, flip.turn))
            return (f'it turned in place by {angle:.0f} degrees, faster than it can: a wrong '
                    'marker solution')
        if self.swapped is not None:
            return f'it seems to have exchanged names with {self.swapped.name!r}'
        return ''

    def interrupt(self, unseen: int) -> None:
        """
        Restart the track; but a jump continues, without the time out of sight.

        A jump of a single frame was an outlier.
        """
        track, self._other = self.track, None
        if track is None:
            return
        outlier = (
            track.count == 1 and track.began_ns == track.last.now and self.swapped is None)
        track.count = 0
        track.began_ns += unseen
        if track.origin is not Origin.FAR or outlier:
            self.track = None

    def restart(self) -> bool:
        """Forget the track unless the body has jumped; return whether it is forgotten."""
        if self.track is not None and self.track.origin is Origin.FAR:
            return False
        self.track = None
        return True

    def shift(self, shift: int) -> None:
        """Shift all times after a step of the sender's clock (ns)."""
        self.flips.shift(shift)
        for track in (self.track, self._other):
            if track is not None:
                track.began_ns += shift
                track.last = track.last._replace(now=track.last.now + shift)

    def accept(self, seen: TimedPose, observed: Observed) -> str:
        """
        End the track: the body is TRACKED.

        :returns: the reason.
        """
        assert self.track is not None
        self.flips.remember(self.track, seen, observed)
        reason = ('the user accepted the pose that it jumped to'
                  if observed is Observed.ACCEPTED else self.track.origin.value)
        self.track = self._other = None
        self.swapped, self.unconfirmed = None, False
        return reason

    def check_tracked(self, seen: TimedPose, receive_ns: int, dt: int) -> Disposition | None:
        """
        Check a pose of a TRACKED body, dt (ns) after its last valid one.

        :returns: why it is withheld, or None if it continues the motion.
        """
        reason = self._limits.too_far(seen.position, seen.quat, dt)
        flips = self.flips
        flip = flips.find(self.track, seen) if reason is not None or flips.is_gap(dt) else None
        if reason is not None or flip is not None:
            return self._jump(seen, receive_ns, reason or Disposition.TURNED_TOO_FAR, flip)
        return None

    def check_untracked(self, seen: TimedPose, receive_ns: int) -> Disposition | Observed:
        """
        Check a pose of a body that is not TRACKED.

        :returns: why it is withheld, or what makes the body TRACKED.
        """
        track = self.track
        if track is not None and track.origin is Origin.FAR:
            return self._check_jumped(track, seen, receive_ns)
        if track is not None and self._follows(track, seen):
            track.add(seen)
        else:
            limits = self._limits
            dt = seen.now - limits.last.now
            fresh = dt >= limits.memory()
            reason = None if fresh else limits.too_far(seen.position, seen.quat, dt)
            flip = self.flips.find(self.track, seen)
            if reason is not None or flip is not None:
                return self._jump(seen, receive_ns, reason or Disposition.TURNED_TOO_FAR, flip)
            self.track = track = Track(Origin.FRESH if fresh else Origin.NEAR, seen)
        if track.count < self.acquire_frames:
            return Disposition.ACQUIRING
        if self._is_swapped(seen):
            return self._jump(seen, receive_ns, Disposition.SWAPPED)
        return Observed.ACQUIRED

    def _check_jumped(
        self, track: Track, seen: TimedPose, receive_ns: int,
    ) -> Disposition | Observed:
        """Check a pose of a body that has jumped: it continues or ends the jump."""
        if not self._continues(track, seen):
            return self._check_return(track, seen, receive_ns)
        self._other = None
        track.add(seen)
        if track.count >= self.acquire_frames:
            if self._accepted:
                return Observed.ACCEPTED
            if self.unconfirmed and self.swapped is None:
                track.origin = Origin.NEAR    # no swap: the body was here all the time
                return Observed.RETURNED
            held_ns = self.settle_ns if track.flip is None else track.flip.held_ns
            if seen.now - track.began_ns >= held_ns and self.swapped is None:
                return Observed.SETTLED
        self._states.observe(Observed.JUMP, receive_ns, 'still in the place of the jump')
        return Disposition.JUMPED

    def _follows(self, track: Track, seen: TimedPose) -> bool:
        """Return whether a body can have come from the latest pose of a track to this one."""
        last = track.last
        return self._limits.too_far(
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
            turned = angle_between(quat, last.quat) > TURNED_UNSEEN and self.flips.is_gap(
                seen.now - last.now)
            return not turned and away <= pose_distance(
                position, quat, last.position, track.true_quat)
        good = self._limits.last
        return all(away <= pose_distance(position, quat, place, good.quat)
                   for place in (good.position, good.expected(seen.now)) if place is not None)

    def _check_return(
        self, track: Track, seen: TimedPose, receive_ns: int,
    ) -> Disposition | Observed:
        """
        Check a pose that does not continue the jump.

        m such poses in a row end it. A body that has the name of another has not returned when it
        turns in the place of that one. Each such pose cancels ``OUTLIER_FRAMES`` frames in the new
        place: the place of a body whose marker solution flips back and forth does not settle.
        """
        if self._other is not None and self._follows(self._other, seen):
            self._other.add(seen)
        else:
            # All is determined by the first pose: the body turns while frames are counted.
            self._other = Return(
                seen, self.flips.find(self.track, seen), self._is_home(track, seen) or math.dist(
                    seen.position, track.last.position) > self._limits.reach(
                        seen.now - track.last.now), self.flips.not_back(track, seen))
        outliers_ns = round(OUTLIER_FRAMES * self._times.rate.interval)
        track.began_ns = min(seen.now, track.began_ns + outliers_ns)
        reason = self._other.reason
        if track.flip is None:
            dt = seen.now - self._limits.last.now
            reason = self._limits.too_far(seen.position, seen.quat, dt)
            if dt >= self._limits.memory() and self._other.flip and self.swapped is None:
                reason = reason or Disposition.TURNED_TOO_FAR
        if self._other.count >= self.acquire_frames:
            swap = self.swapped, self.unconfirmed
            left = self._other.left or self.swapped is None
            if reason is None and left and not self._is_swapped(seen):
                fresh = track.flip is not None and track.flip.held_ns < NEVER_NS and (
                    track.began_ns - self._limits.last.now >= self._limits.memory())
                track.origin = Origin.FRESH if fresh else Origin.NEAR
                return Observed.RETURNED
            self._jump(seen, receive_ns, reason or Disposition.SWAPPED, self._other.flip)
            if not left:
                self.swapped, self.unconfirmed = swap
        self._states.observe(Observed.JUMP, receive_ns, 'still in the place of the jump')
        return reason or Disposition.ACQUIRING

    def _is_home(self, track: Track, seen: TimedPose) -> bool:
        """
        Return whether a body with the name of another is seen where its own name was.

        After a gap it can have come to there from the place of its jump.
        """
        other = self.swapped
        if other is None:
            return False
        good = other.last_good
        if other.state is State.TRACKED and good is not None and good[0] > track.last.now:
            # The other one has its own name again: this is home if that one is elsewhere.
            return math.dist(seen.position, good[1]) > IN_PLACE_M
        home = other.candidate
        return home is not None and (
            2 * math.dist(seen.position, home.position)
            < math.dist(seen.position, track.last.position))

    def _is_swapped(self, seen: TimedPose) -> bool:
        """Return whether this is another body's place, and store that body's name."""
        swap = self.find_swap(seen)
        if swap is None:
            return False
        self.swapped, self.unconfirmed = swap.body, not swap.confirmed
        return True

    def _jump(self, seen: TimedPose, receive_ns: int, reason: Disposition,
              flip: Flip | None = None) -> Disposition:
        """Start a track in a place where the body cannot be, or where another body is."""
        swapped = reason is Disposition.SWAPPED
        self.track = Track(Origin.FAR, seen, None if swapped else flip)
        self._other = None
        self._accepted = False
        if not swapped:
            self.swapped, self.unconfirmed = None, False
        distance = math.dist(seen.position, self._limits.last.position)
        angle = math.degrees(angle_between(self._limits.last.quat, seen.quat))
        dt = (seen.now - self._limits.last.now) * 1e-6
        detail = f'{distance:.3f} m and {angle:.0f} degrees in {dt:.1f} ms: {reason.value}'
        if flip is not None and flip.held_ns == TURNED_HELD_NS:
            # A restarted clock can be ahead; after one that is behind, times have no difference.
            unseen = (f"after {dt * 1e-3:.2f} s out of sight by the sender's clock" if dt < 1e9
                      else "after the sender's clock restarted")
            detail = (
                f'{unseen} it is turned by {angle:.0f} degrees in '
                f'place: withheld for {TURNED_HELD_NS * 1e-9:g} s unless it turns back. If this '
                'is wrong, make its markers less symmetric; if not, accept_pose publishes it')
        self._states.observe(Observed.JUMP, receive_ns, detail)
        return reason


# Below the class that it names: compiled, the annotation is evaluated here.
class SwapCandidate(NamedTuple):
    """
    The body that a pose probably belongs to, instead of the one it is sent for.

    :ivar body: the other body.
    :ivar confirmed: whether the other body is seen in the place of this one.
    """

    body: JumpTracker
    confirmed: bool
