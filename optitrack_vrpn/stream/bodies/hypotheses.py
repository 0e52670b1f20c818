# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Where a body is: two hypotheses, ``home`` and ``away``.

``home`` is the last valid pose; it is published. A pose that neither hypothesis can reach begins a
new ``away``, and ``away`` becomes ``home`` when it has lasted for its ``hold_ns``. Nothing but
this time depends on what has happened:

- 0 (m consistent frames): ``home`` can have come there, or it is the hypothesis before ``home``.
- ``jump_accept_s``: it is too far away, or perhaps in the place of another body.
- ``attitude_accept_s``: its place is possible, but it is turned further than it can turn. Such a
  solution fits the markers as well as the true one, if their pattern is nearly symmetric.
- ``TURNED_HOLD_NS``: likewise after a gap in which it can have turned; or it is turned by less
  than ``SMALL_TURN``, which no symmetry of a usual pattern explains: a bad fit, or a short gap.

When ``away`` becomes ``home`` by time, the turn back is remembered for ``REMEMBERED_NS``: a pose
that is turned back, in place, is then accepted without a hold. The body stays in doubt until that
happens, or the user accepts its pose.

Only the other bodies show whether a name has moved to another body. ``find_swap`` is called
whenever a body was out of sight, even for one frame; see ``swap.py``.
"""

from __future__ import annotations

from collections.abc import Callable
import math
from typing import Final, NamedTuple

from optitrack_vrpn.core.rotation import angle_between, IDENTITY, multiply, Quat, Vector
from optitrack_vrpn.core.stats import GAP_INTERVALS
from optitrack_vrpn.stream.bodies.judge import Before, IN_PLACE_M, Judge, PoseRun, Verdict
from optitrack_vrpn.stream.bodies.limits import EXPECTED_NS, ReachLimits
from optitrack_vrpn.stream.bodies.poses import pose_distance, TimedPose
from optitrack_vrpn.stream.bodies.states import (
    Disposition, NEVER_NS, Observed, State, StateMachine)
from optitrack_vrpn.stream.bodies.times import BodyTimes

REMEMBERED_NS: Final = 60_000_000_000
"""
Time (ns) for which the hypothesis before ``home`` is remembered, and a body out of sight whose
name another one has. Chosen: a wrong marker solution can last for a minute.
"""
CERTAIN: Final = math.radians(15.0)
"""
Turns accepted by time that add up to less (rad) leave no doubt. Chosen: below it are the motions
of a body during the turns there and back.
"""
OUTLIER_FRAMES: Final = 10
"""
Frames of ``away`` that one frame elsewhere cancels. Chosen: a solution that is right in one of ten
frames never becomes ``home``.
"""
BUILD_UP_FRAMES: Final = 5
"""Frames from which the turn of ``away`` is measured: a wrong solution builds up over some."""


def no_swap(seen: TimedPose) -> SwapCandidate | None:
    """Return None: the default for a body without others."""
    return None


class Hypotheses:
    """
    Decide between the hypotheses of one body.

    :param states: the body's state.
    :param times: the times of its frames.
    :param limits: ``home``, and how far the body can have moved.
    :ivar away: the poses that may become ``home``; None for none. While the body is acquired they
        are poses that ``home`` can reach.
    :ivar swapped: the body this one has exchanged names with (also set by ``swap.review``); while
        it is set, ``away`` does not become ``home``.
    :ivar find_swap: returns the body that a pose probably belongs to instead of this one, or None.
    :ivar judge: compares poses with ``home``, and knows the hypothesis before it.
    :ivar doubt: rotation about the body's axes from its last certain attitude to that of ``home``,
        as far as time alone has accepted it.
    :ivar by_time: number of times that ``away`` has become ``home`` by time alone.
    """

    __slots__ = (
        'away', 'swapped', 'find_swap', 'judge', 'doubt', 'by_time', '_states', '_times',
        '_limits', '_other', '_accepted')

    def __init__(self, states: StateMachine, times: BodyTimes, limits: ReachLimits) -> None:
        self.away: PoseRun | None = None
        self.swapped: Hypotheses | None = None
        self.find_swap: Callable[[TimedPose], SwapCandidate | None] = no_swap
        self.judge = Judge(times, limits)
        self.doubt: Quat = IDENTITY
        self.by_time = 0
        self._states = states
        self._times = times
        self._limits = limits
        # Poses that do not continue ``away``: outliers, ``home``, or a further hypothesis.
        self._other: PoseRun | None = None
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
        return self._limits.thresholds.memory_ns

    @property
    def last_good(self) -> tuple[int, Vector, Quat] | None:
        """Return sender time (ns), position and attitude of the last valid pose, or None."""
        last = self._limits.last
        return None if last.now == -NEVER_NS else (last.now, last.position, last.quat)

    @property
    def candidate(self) -> TimedPose | None:
        """Return the latest pose that may become the next valid one, if any."""
        return None if self.away is None else self.away.last

    def expected(self, sender_time_ns: int) -> Vector | None:
        """Predict the position of the body, see ``LastPose.expected``."""
        return self._limits.last.expected(sender_time_ns, EXPECTED_NS)

    @property
    def is_settled(self) -> bool:
        """Return whether enough consistent poses of ``away`` have been seen."""
        return self.away is not None and self.away.count >= self._limits.thresholds.acquire_frames

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

        :param now: sender time (ns) of the present pose, for a body that has no run yet.
        """
        return now if self.away is None else self.away.began_ns

    def reach(self, dt: int) -> float:
        """Return the distance (m) that the body can move in dt (ns), without noise."""
        return self._limits.thresholds.speed * dt

    # -- what the tracker asks and tells -------------------------------------------------------

    @property
    def lasted_s(self) -> float:
        """Return the time (s) for which the body has been seen in the place of the jump."""
        if self._states.state is not State.JUMPED or self.away is None:
            return 0.0
        return (self.away.last.now - self.away.began_ns) * 1e-9

    @property
    def doubt_rad(self) -> float:
        """Return the angle (rad) of ``doubt``; 0 if the attitude is certain."""
        angle = angle_between(IDENTITY, self.doubt)
        return angle if angle > CERTAIN else 0.0

    def accept_jump(self) -> bool:
        """Accept the present place and attitude; return whether they were in doubt."""
        self._accepted = self._states.state is State.JUMPED
        if self._accepted or self.doubt_rad == 0.0:
            return self._accepted
        self.doubt, self.judge.before = IDENTITY, None
        return True

    @property
    def held(self) -> str:
        """Explain why time alone does not end the jump of this body; '' if it does, or if none."""
        if self._states.state is not State.JUMPED or self.away is None:
            return ''
        if self.swapped is not None:
            return f'it seems to have exchanged names with {self.swapped.name!r}'
        verdict = self.away.verdict
        if verdict.hold_ns != NEVER_NS:
            return ''
        return (f'it turned in place by {_degrees(verdict.turn):.0f} degrees, faster than it can, '
                'and attitude_accept_s is 0: a wrong marker solution') if verdict.in_place else (
                    'it is further away than it can move, and jump_accept_s is 0')

    def interrupt(self, unseen: int) -> None:
        """
        Restart the run; but a jump continues, without the time out of sight.

        A jump of a single frame was an outlier.
        """
        away, self._other = self.away, None
        if away is None:
            return
        outlier = away.count == 1 and away.began_ns == away.last.now and self.swapped is None
        away.count = 0
        away.builds_up = False
        away.began_ns += unseen
        if not away.is_jump or outlier:
            self.away = None

    def skip(self, unseen: int) -> None:
        """Leave time (ns) in which the body was not seen out of the time of the run."""
        if self.away is not None:
            self.away.began_ns += unseen

    def restart(self) -> bool:
        """Forget ``away`` unless the body has jumped; return whether it is forgotten."""
        if self.away is not None and self.away.is_jump:
            return False
        self.away = None
        return True

    def shift(self, shift: int) -> None:
        """Shift all times after a step of the sender's clock (ns)."""
        for run in (self.away, self._other):
            if run is not None:
                run.began_ns += shift
                run.last = run.last._replace(now=run.last.now + shift)
        before = self.judge.before
        if before is not None:
            self.judge.before = before._replace(until_ns=before.until_ns + shift)

    def accept(self, seen: TimedPose, observed: Observed) -> tuple[str, bool]:
        """
        Make ``away``, or a return to ``home``, the valid hypothesis: the body is TRACKED.

        :returns: the reason, and whether the published poses have a discontinuity.
        """
        assert self.away is not None
        away, verdict = self.away, self.away.verdict
        self.away = self._other = self.swapped = None
        if observed is Observed.ACCEPTED:
            self.doubt, self.judge.before = IDENTITY, None
            return 'the user accepted the pose that it jumped to', True
        if observed is Observed.SETTLED:
            self.by_time += 1
            self.judge.before = None if verdict.reason is not Disposition.TURNED_TOO_FAR else (
                Before(verdict.turn, seen.now + REMEMBERED_NS, self.doubt))
            self.doubt = multiply(self.doubt, verdict.turn)
            if self.doubt_rad == 0.0:
                self.doubt = IDENTITY
            return (
                f'accepted by time, {_degrees(verdict.turn):.0f} degrees from the attitude before,'
                f' after {(seen.now - away.began_ns) * 1e-9:.1f} s there. If it is wrong, make its'
                ' markers less symmetric'), True
        if observed is Observed.ACQUIRED and verdict.before:
            assert self.judge.before is not None
            self.doubt, self.judge.before = self.judge.before.doubt, None
            return 'it returned to the attitude before the one that time had accepted', True
        return 'seen' if verdict.fresh else 'seen again', verdict.fresh

    # -- decisions -----------------------------------------------------------------------------

    def _judge(self, seen: TimedPose) -> Verdict:
        return self.judge.judge(seen, self.away, self.swapped is not None)

    def check_tracked(self, seen: TimedPose, receive_ns: int) -> Disposition | None:
        """
        Check a pose of a TRACKED body that was valid within ``memory_s``.

        :returns: why it is withheld, or None if it continues the motion.
        """
        verdict = self._judge(seen)
        if verdict.reason is None:
            return None
        return self._begin(PoseRun(seen, verdict), receive_ns, verdict.reason)

    def check_untracked(self, seen: TimedPose, receive_ns: int) -> Disposition | Observed:
        """
        Check a pose of a body that is not TRACKED.

        :returns: why it is withheld, or what makes the body TRACKED.
        """
        away = self.away
        if (away is not None and self.swapped is None
                and seen.now - away.last.now >= self._limits.memory()):
            away = self.away = self._other = None    # as old as ``home``: neither is known
        if away is not None and away.is_jump:
            return self._check_jumped(away, seen, receive_ns)
        if away is not None and self._follows(away, seen):
            away.add(seen)
        else:
            verdict = self._judge(seen)
            self.away = away = PoseRun(seen, verdict)
            if verdict.reason is not None:
                return self._begin(away, receive_ns, verdict.reason)
        if away.count < self._limits.thresholds.acquire_frames:
            return Disposition.ACQUIRING
        if self._is_swapped(seen):
            return self._begin(self._in_others_place(away), receive_ns, Disposition.SWAPPED)
        return Observed.ACQUIRED

    def _check_jumped(
        self, away: PoseRun, seen: TimedPose, receive_ns: int,
    ) -> Disposition | Observed:
        """Check a pose of a body that has jumped: it continues or ends the jump."""
        if not self._continues(away, seen):
            return self._check_other(away, seen, receive_ns)
        self._other = None
        away.add(seen)
        if (away.builds_up and away.count <= BUILD_UP_FRAMES
                and away.verdict.reason is Disposition.TURNED_TOO_FAR):
            self.judge.measure_turn(away)
        if away.count >= self._limits.thresholds.acquire_frames:
            if self._accepted:
                return Observed.ACCEPTED
            if (away.verdict.reason is Disposition.SWAPPED and self.swapped is None
                    and seen.now - self._limits.last.now < self._limits.thresholds.memory_ns
                    and not self._is_swapped(seen)):
                return Observed.ACQUIRED    # the other body is seen elsewhere
            if self.swapped is None and seen.now - away.began_ns >= away.verdict.hold_ns:
                return Observed.ACQUIRED if away.verdict.before else Observed.SETTLED
        self._states.observe(Observed.JUMP, receive_ns, 'still in the place of the jump')
        return Disposition.JUMPED

    def _follows(self, run: PoseRun, seen: TimedPose) -> bool:
        """Return whether a body can have come from the latest pose of a run to this one."""
        return self._limits.reaches(run.last, seen)

    def _continues(self, away: PoseRun, seen: TimedPose) -> bool:
        """
        Return whether a pose continues the jump.

        After a short jump, or a gap, a pose can be within reach of several places: it belongs to
        the closest one.
        """
        if not self._follows(away, seen) or self._is_home(away, seen):
            return False
        _, position, quat = seen
        last, other, home = away.last, self._other, self._limits.last
        distance = pose_distance(position, quat, last.position, last.quat)
        if other is not None and pose_distance(
                position, quat, other.last.position, other.last.quat) < distance:
            return False
        if away.verdict.in_place:
            return distance <= pose_distance(position, quat, last.position, away.true_quat)
        return all(distance <= pose_distance(position, quat, place, home.quat)
                   for place in (home.position, home.expected(seen.now)) if place is not None)

    def _check_other(
        self, away: PoseRun, seen: TimedPose, receive_ns: int,
    ) -> Disposition | Observed:
        """
        Check a pose that does not continue the jump.

        m such poses in a row end it: the body is ``home``, or in a further place. A body that has
        the name of another has not returned when it turns in the place of that one.
        """
        other = self._other
        if other is not None and self._follows(other, seen):
            other.add(seen)
        else:
            # All is determined by the first pose: the body turns while frames are counted.
            self._other = other = PoseRun(
                seen, self._judge(seen), self.swapped is None or self._is_home(away, seen)
                or math.dist(seen.position, away.last.position) > self._limits.reach(
                    seen.now - away.last.now))
        outliers_ns = round(OUTLIER_FRAMES * self._times.rate.interval)
        away.began_ns = min(seen.now, away.began_ns + outliers_ns)
        reason = other.verdict.reason
        if other.count >= self._limits.thresholds.acquire_frames:
            swapped = self.swapped
            if reason is None and other.left and not self._is_swapped(seen):
                return Observed.RETURNED
            if reason is None:
                other, reason = self._in_others_place(other), Disposition.SWAPPED
            self._begin(other, receive_ns, reason)
            if not other.left:
                self.swapped = swapped
        self._states.observe(Observed.JUMP, receive_ns, 'still in the place of the jump')
        return reason or Disposition.ACQUIRING

    def _is_home(self, away: PoseRun, seen: TimedPose) -> bool:
        """
        Return whether a body with the name of another is seen where its own name was.

        After a gap it can have come to there from the place of its jump.
        """
        other = self.swapped
        if other is None:
            return False
        good = other.last_good
        if other.state is State.TRACKED and good is not None and good[0] > away.last.now:
            # The other one has its own name again: this is home if that one is elsewhere.
            return math.dist(seen.position, good[1]) > IN_PLACE_M
        home = other.candidate
        return home is not None and (
            2 * math.dist(seen.position, home.position)
            < math.dist(seen.position, away.last.position))

    def _is_swapped(self, seen: TimedPose) -> bool:
        """Return whether this may be another body's place, and store a body that confirms it."""
        swap = self.find_swap(seen)
        if swap is None:
            return False
        if swap.confirmed:
            self.swapped = swap.body
        return True

    def _in_others_place(self, run: PoseRun) -> PoseRun:
        """Hold a run in the place of another body like a jump."""
        run.verdict = run.verdict._replace(
            reason=Disposition.SWAPPED, hold_ns=self._limits.thresholds.jump_ns, in_place=False)
        return run

    def _begin(self, run: PoseRun, receive_ns: int, reason: Disposition) -> Disposition:
        """Begin ``away`` in a place where the body cannot be, or where another body is."""
        self.away = run
        self._other = None
        self._accepted = False
        if reason is not Disposition.SWAPPED:
            self.swapped = None
        verdict, seen, last = run.verdict, run.last, self._limits.last
        unseen_s = verdict.unseen_ns * 1e-9
        # A restarted clock can be ahead; after one that is behind, times have no difference.
        when = f'in {unseen_s * 1e3:.1f} ms' if unseen_s < 1.0 else (
            f"in {unseen_s:.2f} s by the sender's clock" if unseen_s < 1e9
            else "after the sender's clock restarted")
        detail = (f'{math.dist(seen.position, last.position):.3f} m and '
                  f'{_degrees(verdict.turn):.0f} degrees {when}: {reason.value}')
        if 0 < verdict.hold_ns < NEVER_NS:
            detail += f', withheld for {verdict.hold_ns * 1e-9:g} s unless it returns'
        if reason is Disposition.TURNED_TOO_FAR:
            detail += (
                '. If this is wrong, make its markers less symmetric; if not, accept_pose '
                'publishes it')
        self._states.observe(Observed.JUMP, receive_ns, detail)
        return reason


def _degrees(turn: Quat) -> float:
    """Return the angle of a rotation (degrees)."""
    return math.degrees(angle_between(IDENTITY, turn))


# Below the class that it names: compiled, the annotation is evaluated here.
class SwapCandidate(NamedTuple):
    """
    The body that a pose probably belongs to, instead of the one it is sent for.

    :ivar body: the other body.
    :ivar confirmed: whether the other body is seen in the place of this one.
    """

    body: Hypotheses
    confirmed: bool
