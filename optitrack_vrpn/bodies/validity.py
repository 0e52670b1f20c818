# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Decide pose by pose whether a rigid body is where its sender says it is.

VRPN carries no validity flag, so a body's history is the only witness. ``Body.update`` returns the
quaternion to publish, or None: then ``body.reason`` says why. Nothing here reads a clock or logs:
changes of state are left in ``body.events``.

Two times are needed. The *sender time* orders frames and says how far a body may have moved; it
does not suffer from the network. The *receive time* says how long a body has been silent.

A body that is not TRACKED has a *track*: the run of consistent frames that may become the next
truth. What it takes depends on where the track began:

- NEAR the last good pose, or FRESH, with no good pose left to compare with: m frames;
- FAR from where the body can be: it is a jump, and stays one however long it lasts, until
  ``jump_accept_s`` have passed or the body is back where it was for m frames. Outliers on the
  way, silence and bad numbers change nothing about that.

A jump that turns the body further than it can turn, but leaves it in its place, is a *flip*: the
sender fits the markers to the wrong ones. Such a fit can last for minutes, so time alone never
makes it valid. It ends when the body turns back by the same angle about the same axis of its own,
wherever it has moved meanwhile, or when the user accepts it (``accept_jump``).

What only the other bodies can tell, that a name has gone over to one of them, is asked of
``rival`` wherever a body was out of sight, if only for a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
import math
from typing import NamedTuple

from optitrack_vrpn.bodies.config import BodyConfig
from optitrack_vrpn.bodies.states import BodyStatus, Reason, State
from optitrack_vrpn.bodies.statistics import Ledger, NEVER_NS
from optitrack_vrpn.motion.quaternion import (
    angle_between, conjugate, IDENTITY, multiply, normalised, Quat, Vector)

EPOCH_STEP_NS = 1_000_000_000
"""Sender time that falls by more than this has restarted; no network reorders that far."""
FALL_FRAMES = 3
"""So many frames in a row, all too late but in order, are no network's doing."""
SAMPLE_NS = 40_000_000
"""How far apart (ns) poses are, about, from which the rate of turning is measured."""
MAX_STRIDE = 64
LATE_NS = 20_000_000
"""A frame may be late by an interval, or by so much (ns) where that is less."""
AGAINST = 10
"""Frames for a new place that one frame against it outweighs."""
EXPECTED_NS = 500_000_000
"""For this long (ns) a body out of sight is expected to go on as it was last seen to move."""
LEVER = 0.1
"""Metres that one radian counts for when two explanations of a pose are compared."""
IN_PLACE_M = 0.3
"""
A flip moves the reported origin by less than this (m): twice its distance from the centroid of the
markers. Chosen for bodies of up to 0.3 m. Half of it takes flips of large bodies for bodies that
were carried elsewhere, which time makes valid; twice of it holds more bodies that were carried.
"""
IN_PLACE_SPEED = 1.5e-9
"""
And by so much more (m/ns) for the time it was unseen. Chosen: a drone that brakes or turns at
3.5 m/s^2 is no further from its course after 0.9 s. Halved or doubled: as above, after a gap.
"""
NO_TURN_LIMIT = 4.9
"""Angle (rad) that stands for no limit: there the short form of 1 - cos(angle / 2) exceeds 1."""
UNIT_ERROR = 4e-15
"""Squared norms this close to 1 are as near as doubles get: such a quaternion passes untouched."""


class Origin(Enum):
    """Where the track of a body that is not TRACKED began."""

    NEAR = 'near'
    FRESH = 'fresh'
    FAR = 'far'


class Flip(NamedTuple):
    """
    A turn in place that the body cannot have made.

    :ivar turn: what has turned it, about axes of its own: flipped attitude = true * turn.
    :ivar slack: angle (rad) by which the body itself may have turned meanwhile.
    """

    turn: Quat
    slack: float


class Rival(NamedTuple):
    """
    Name the body that a pose belongs to rather than to the one it is sent for.

    :ivar name: the other body.
    :ivar seen: whether that one is seen in this one's place.
    """

    name: str
    seen: bool


class Body(Ledger):
    """
    Follow the truth of one rigid body.

    Feed every pose of the body to ``update`` and call ``tick`` some ten times a second.

    :ivar held_by: name of the body this one has exchanged places with, as far as can be seen
        (set by ``rival`` and ``exchange.review``); while it is set a jump is never accepted.
    :ivar doubtful: whether the jump shows by no more than that, and the other one is not seen.
    :ivar breaks: how often the sender's clock seems to have fallen by less than a restart would:
        the time from the last good pose to the next is not what it says.
    :ivar rival: names the body that a pose belongs to rather than to this one, or nobody; see
        ``exchange.rival``.
    """

    __slots__ = (
        'held_by', 'doubtful', 'rival', 'breaks', '_late_ns', '_late_run', '_good_ns',
        '_position', '_quat', '_raw', '_agility',
        '_velocity', '_sample_ns', '_sample_position', '_sample_quat', '_sample_mask',
        '_last_receive', '_good_receive', '_last_ns', '_seen_position', '_seen_raw',
        '_seen_since', '_reach_margin', '_reach_speed', '_turn_margin', '_turn_rate',
        '_turn_cap', '_memory_ns', '_frozen_ns', '_accept_ns', '_track', '_count', '_began_ns',
        '_track_ns', '_track_position', '_track_quat', '_back_count', '_back_ns',
        '_back_position', '_back_quat', '_back_left', '_back_flip', '_back_reason',
        '_shown', '_flip', '_accepted')

    def __init__(self, name: str, config: BodyConfig | None = None) -> None:
        """
        Begin with a body never seen.

        :param name: the body's name.
        :param config: thresholds; the defaults when None.
        """
        super().__init__(name, config if config is not None else BodyConfig())
        self.held_by = ''
        self.doubtful = False
        self.rival: Callable[[Body, int, Vector, Quat], Rival | None] = _no_rival
        self.breaks = 0
        # The last frame that came too late, and how many in a row have, each later than the last.
        self._late_ns = -NEVER_NS
        self._late_run = 0
        # The last good pose: time, position, attitude as published and as sent.
        self._good_ns = -NEVER_NS
        self._position: Vector = (0.0, 0.0, 0.0)
        self._quat: Quat = IDENTITY
        self._raw: Quat = IDENTITY
        # How fast the body has been seen to turn lately (rad/ns), a good pose some time ago to
        # measure that from, and how many poses (less one, a mask) lie between such.
        self._agility = 0.0
        self._sample_ns = 0
        self._sample_quat: Quat | None = None
        self._sample_mask = 0
        # How it has moved between those (m/ns), once that is known.
        self._sample_position: Vector = (0.0, 0.0, 0.0)
        self._velocity: Vector | None = None
        self._last_receive = self._good_receive = -NEVER_NS
        # The last pose of any kind, and since when it has been the same.
        self._last_ns = -NEVER_NS
        self._seen_position: Vector | None = None
        self._seen_raw: Quat | None = None
        self._seen_since = 0
        self._track: Origin | None = None
        self._count = 0
        self._began_ns = self._track_ns = 0
        self._track_position: Vector = self._position
        self._track_quat: Quat = self._quat
        # Frames that do not go on with a jump: outliers, or the body is back.
        self._back_count = self._back_ns = 0
        self._back_position: Vector = self._position
        self._back_quat: Quat = self._quat
        # Whether the first of them was farther off than what jumped can have gone.
        self._back_left = False
        # What ``untracked`` gave last, if no good pose has come since: its sign goes on.
        self._shown: Quat | None = None
        # How the track is turned against the body, if it is a flip; whether the user accepts it.
        self._flip: Flip | None = None
        self._back_flip: Flip | None = None
        self._back_reason: Reason | None = None
        self._accepted = False
        self.reconfigure(self.config)

    def reconfigure(self, config: BodyConfig) -> None:
        """
        Take new thresholds without losing the body.

        :param config: the thresholds that hold from now on.
        """
        self.config = config
        # A check that is off becomes a bound that nothing finite exceeds, so that the path of
        # every pose has no branch for it; infinity itself must still fail.
        self._reach_margin = config.position_margin if config.max_speed > 0 else 1e100
        self._reach_speed = config.max_speed * 1e-9
        self._turn_cap = config.max_turn if config.max_turn > 0 else NO_TURN_LIMIT
        self._turn_margin = (
            config.attitude_margin if config.max_angular_rate > 0 else NO_TURN_LIMIT)
        self._turn_rate = config.max_angular_rate * 1e-9
        self._memory_ns = round(config.memory_s * 1e9)
        self._frozen_ns = round(config.frozen_after_s * 1e9) or NEVER_NS
        self._accept_ns = round(config.jump_accept_s * 1e9) or NEVER_NS
        self._measure_silence()

    def update(self, sender_time_ns: int, receive_ns: int, position: Vector,
               quat_xyzw: Quat) -> Quat | None:
        """
        Judge one pose.

        :param sender_time_ns: when the sender says the pose was (ns, any epoch). Where its times
            are worthless (``stamps.mode: arrival``), pass the stamp.
        :param receive_ns: arrival (ns) on a clock that never steps.
        :param position: position (m), as sent.
        :param quat_xyzw: attitude, as sent.
        :returns: the attitude to publish, of unit norm and with the sign that continues the last
            one (the very tuple given where nothing is to be restored), or None when the pose must
            not be published.
        """
        # The path that nearly every pose takes: the checks of _examine in their cheapest form,
        # never more generous than those; what they do not wave through is examined.
        dt = sender_time_ns - self._good_ns
        if receive_ns - self._last_receive < self._patience and 0 < dt < 1.5 * self._interval:
            x, y, z = position
            lx, ly, lz = self._position
            lx -= x
            ly -= y
            lz -= z
            moved = lx * lx + ly * ly + lz * lz
            reach = self._reach_margin + self._reach_speed * dt
            if 0.0 < moved <= reach * reach and (x or y or z):
                a, b, c, d = quat_xyzw
                la, lb, lc, ld = quat = self._quat
                excess = a * a + b * b + c * c + d * d - 1.0
                dot = a * la + b * lb + c * lc + d * ld
                turn = self._turn_margin + self._turn_rate * dt
                if turn > self._turn_cap:
                    turn = self._turn_cap
                # 1 - cos(turn / 2) >= u - u^2 / 6 where u = turn^2 / 8: no trigonometry.
                turn *= 0.125 * turn
                turn -= turn * turn / 6.0
                # 1 / sqrt(1 + excess) to first order: wrong by less than 4e-13.
                scale = 1.0 - 0.5 * excess if dot >= 0.0 else 0.5 * excess - 1.0
                if -1e-6 < excess < 1e-6 and 1.0 - dot * scale <= turn:
                    self._good_ns = sender_time_ns
                    self._last_receive = receive_ns
                    self._interval += 0.01 * (dt - self._interval)
                    self._position = position
                    self._raw = quat_xyzw
                    self.published = count = self.published + 1
                    if not count & self._sample_mask:
                        self._measure_agility()
                    if -UNIT_ERROR < excess < UNIT_ERROR and dot >= 0.0:
                        self._quat = quat_xyzw
                        return quat_xyzw
                    self._quat = quat = (a * scale, b * scale, c * scale, d * scale)
                    return quat
        return self._examine(sender_time_ns, receive_ns, position, quat_xyzw)

    def refuse(self, sender_time_ns: int, receive_ns: int, position: Vector, quat_xyzw: Quat,
               reason: Reason) -> None:
        """
        Take a pose that the sender itself does not vouch for; it is withheld.

        :param sender_time_ns: as for ``update``, and so are the others.
        :param reason: ``NOT_TRACKED`` or ``MEAN_ERROR``.
        """
        self._examine(sender_time_ns, receive_ns, position, quat_xyzw, reason)

    def untracked(self, position: Vector, quat_xyzw: Quat) -> Quat | None:
        """
        Make the best of a pose that ``update`` has just withheld, for ``publish_untracked``.

        :param position: the position given to ``update``.
        :param quat_xyzw: the attitude given to ``update``.
        :returns: the attitude normalised, its sign continuous, or None where the numbers are no
            pose, or the frame is a duplicate or late.
        """
        norm = math.hypot(*quat_xyzw)
        if self.reason in (Reason.DUPLICATE, Reason.OUT_OF_ORDER) or not (
                1e-3 < norm < 1e9 and math.isfinite(sum(position))):
            return None
        self._shown = _continued(self._shown or self._quat, normalised(quat_xyzw))
        return self._shown

    def tick(self, now_ns: int) -> None:
        """
        Notice silence; whatever changes is left in ``events``.

        :param now_ns: the present on the clock of ``receive_ns``.
        """
        if self._last_receive > -NEVER_NS and self.state is not State.STALE:
            silent = now_ns - self._last_receive
            if silent >= self._silence:
                self._go_stale(now_ns, silent)

    def new_epoch(self) -> None:
        """
        Forget what rests on the sender's clock: it has restarted.

        Only for a restart of the *sender*; a step of the host's clock changes nothing here.
        """
        self._settle()
        self._last_ns = self._good_ns = -NEVER_NS
        self._seen_raw = None
        self._track = None
        self.held_by, self.doubtful = '', False
        self._patience = -1
        # A body that is silent stays STALE until it is seen again.
        if self.state not in (State.NEW, State.STALE):
            self._change(State.NEW, self._last_receive, "the sender's clock restarted")

    @property
    def held(self) -> str:
        """Say why time alone does not end the jump of this body; '' if it does, or if none is."""
        if self.state is not State.JUMPED:
            return ''
        if self._flip is not None:
            angle = math.degrees(angle_between(IDENTITY, self._flip.turn))
            return (f'it has turned in place by {angle:.0f} degrees, faster than it can: a wrong '
                    'marker solution')
        if self.held_by:
            return f'it seems to have exchanged names with {self.held_by!r}'
        return ''

    @property
    def jumped_s(self) -> float:
        """Give for how long (s) the body has been seen in the place that it jumped to."""
        return (self._track_ns - self._began_ns) * 1e-9 if self.state is State.JUMPED else 0.0

    def accept_jump(self) -> bool:
        """
        Accept the place and attitude that the body has jumped to, as the user asks for.

        The next consistent pose is published and a reset is counted.

        :returns: whether there was a jump to accept.
        """
        self._accepted = self.state is State.JUMPED
        return self._accepted

    def status(self, now_ns: int) -> BodyStatus:
        """
        Describe the body.

        :param now_ns: the present on the clock of ``receive_ns``.
        :returns: a snapshot.
        """
        good = self._last_receive if self._patience >= 0 else self._good_receive
        detail = self._detail
        held_by = self.held_by if self.state is State.JUMPED else ''
        if self.held:
            detail = f'{detail}; {self.held}'
        return BodyStatus(
            self.name, self.state, self._since, self.rate_hz,
            (now_ns - good) * 1e-9 if good > -NEVER_NS else math.nan,
            self.resets, self.published,
            {reason.value: count for reason, count in self._counts.items()},
            self._gaps, self._lost, detail, held_by)

    @property
    def last_good(self) -> tuple[int, Vector, Quat] | None:
        """Give sender time (ns), position and attitude of the last good pose, if there was one."""
        if self._good_ns == -NEVER_NS:
            return None
        return self._good_ns, self._position, self._quat

    @property
    def last_seen_ns(self) -> int:
        """Give the sender time (ns) of the last pose of any kind; far below zero before one."""
        return self._good_ns if self._patience >= 0 else self._last_ns

    @property
    def last_pose(self) -> tuple[Vector, Quat] | None:
        """Give position and attitude, as sent, of the last finite pose of any kind."""
        if self._patience >= 0:
            return self._position, self._raw
        if self._seen_position is None or self._seen_raw is None:
            return None
        return self._seen_position, self._seen_raw

    @property
    def last_receive_ns(self) -> int:
        """Give the arrival (ns) of the last pose of any kind; far below zero before one."""
        return self._last_receive

    @property
    def is_behind(self) -> bool:
        """Tell whether the last frame came too late, by its sender time."""
        return self._late_run > 0

    def seen_since(self, now: int) -> int:
        """
        Give the sender time (ns) since which the body has been seen where it is.

        :param now: sender time (ns) of the pose at hand, for a body that has no track yet.
        """
        return now if self._track is None else self._began_ns

    def expected(self, sender_time_ns: int) -> Vector | None:
        """
        Tell where the body should be, if it goes on as it was last seen to move.

        :param sender_time_ns: when (ns).
        :returns: position (m), as sent; None while it has not been seen to move or rest.
        """
        if self._velocity is None:
            return None
        dt = min(max(0, sender_time_ns - self._good_ns), EXPECTED_NS)
        x, y, z = self._position
        vx, vy, vz = self._velocity
        return x + vx * dt, y + vy * dt, z + vz * dt

    @property
    def candidate(self) -> tuple[int, Vector, Quat] | None:
        """Give the latest pose of the track that may become the next truth, if there is one."""
        if self._track is None:
            return None
        return self._track_ns, self._track_position, self._track_quat

    def _examine(self, now: int, receive_ns: int, position: Vector, raw: Quat,
                 refused: Reason | None = None) -> Quat | None:
        """Judge a pose in full."""
        self._settle()
        if now <= self._last_ns:
            if self._last_ns - now <= EPOCH_STEP_NS:
                self._late_run = self._late_run + 1 if now > self._late_ns else 1
                self._late_ns = now
                return self._withhold(
                    Reason.DUPLICATE if now == self._last_ns else Reason.OUT_OF_ORDER)
            self.new_epoch()
        elif self._late_run >= FALL_FRAMES:
            self.breaks += 1
        self._late_run = 0
        since = now - self._last_ns if self._last_ns > -NEVER_NS else 0
        silent = receive_ns - self._last_receive
        if silent >= self._silence and self._last_receive > -NEVER_NS:
            # A NEW body is seen at this moment: what was before its clock restarted is over.
            if self.state not in (State.NEW, State.STALE):
                self._go_stale(self._last_receive + self._silence, silent)
            if since:
                self._measure_interval(since, silent=True)
            self._interrupt(since)
            since = 0    # has been seen to
        elif since:
            self._measure_interval(since)
        self._last_ns = now
        self._last_receive = receive_ns
        if self._since == -NEVER_NS:
            self._since = receive_ns

        reason = refused or self._unfit(position, raw)
        if reason is not None:
            self._interrupt(since)
            if reason is refused:
                self._change(State.UNTRACKED, receive_ns, _REFUSED[reason])
            elif reason is Reason.ZEROED:
                self._change(State.ZEROED, receive_ns, 'exactly zero position, no attitude')
            else:
                self._change(State.INVALID, receive_ns, _describe(position, raw))
            return self._withhold(reason)
        if self._is_repeat(position, raw):
            if self._frozen_ns != NEVER_NS:
                self._began_ns += since    # only time seen counts
                if now - self._seen_since >= self._frozen_ns:
                    self._interrupt(0)
                    self._change(
                        State.FROZEN, receive_ns, 'the sender repeats one pose bit by bit')
                return self._withhold(Reason.REPEAT)
        else:
            self._seen_position = position
            self._seen_raw = raw
            self._seen_since = now

        quat = normalised(raw) if abs(_excess(raw)) >= UNIT_ERROR else raw
        if self.state is State.TRACKED:
            return self._continue(now, receive_ns, position, raw, quat)
        return self._acquire(now, receive_ns, position, raw, quat)

    def _unfit(self, position: Vector, raw: Quat) -> Reason | None:
        """Tell why these numbers are no pose at all."""
        if not math.isfinite(sum(position) + sum(raw)):
            return Reason.NOT_FINITE
        if self.config.detect_zeroed and not any(position) and not any(raw[:3]):
            if raw[3] in (0.0, 1.0, -1.0):
                return Reason.ZEROED
        norm = math.hypot(*raw)
        tolerance = self.config.norm_tolerance or 1e9
        if not 1e-3 < norm < 1e9 or abs(norm - 1.0) > tolerance:
            return Reason.NORM
        return None

    def _is_repeat(self, position: Vector, raw: Quat) -> bool:
        """Tell whether these are the bits of the last pose, or of the last good one."""
        if position == self._seen_position and self._seen_raw is not None:
            return raw == self._seen_raw or raw == _negated(self._seen_raw)
        return (self.state is not State.TRACKED and self._good_ns > -NEVER_NS
                and position == self._position and raw == self._raw)

    def _interrupt(self, dt: int) -> None:
        """
        Let a track begin anew; but a jump stays one, and only time seen counts for it.

        A jump of a single frame was an outlier.
        """
        outlier = self._began_ns == self._track_ns and not self.held_by
        self._count = self._back_count = 0
        self._began_ns += dt
        if self._track is not Origin.FAR or outlier:
            self._track = None

    def _continue(self, now: int, receive_ns: int, position: Vector, raw: Quat,
                  quat: Quat) -> Quat | None:
        """Judge a pose of a tracked body."""
        dt = now - self._good_ns
        if dt >= max(self._memory_ns, 4 * self._interval):
            self._change(State.STALE, receive_ns, f'no good pose for {dt * 1e-9:.2f} s')
            return self._acquire(now, receive_ns, position, raw, quat)
        reason = self._too_far(position, quat, dt)
        if reason is None:
            if dt < 1.5 * self._interval or self.rival(self, now, position, quat) is None:
                return self._accept(now, receive_ns, position, raw, quat)
            # Where the others are shows when they have been seen as well.
            self._change(State.STALE, receive_ns, f'not seen for {dt * 1e-9:.2f} s')
            return self._acquire(now, receive_ns, position, raw, quat)
        self._jump(now, receive_ns, position, quat, reason)
        return self._withhold(reason)

    def _acquire(self, now: int, receive_ns: int, position: Vector, raw: Quat,
                 quat: Quat) -> Quat | None:
        """Judge a pose of a body that is not tracked."""
        if self._track is Origin.FAR:
            return self._endure(now, receive_ns, position, raw, quat)
        if self._track is not None and self._too_far(
                position, quat, now - self._track_ns, self._track_position,
                self._track_quat) is None:
            self._count += 1
        else:
            dt = now - self._good_ns
            memory = max(self._memory_ns, 4 * self._interval)
            reason = self._too_far(position, quat, dt) if dt < memory else None
            if reason is not None:
                self._jump(now, receive_ns, position, quat, reason)
                return self._withhold(reason)
            self._begin(Origin.NEAR if dt < memory else Origin.FRESH, now)
        self._track_ns, self._track_position, self._track_quat = now, position, quat
        if self._count < self.config.acquire_frames:
            return self._withhold(Reason.ACQUIRING)
        if self._is_taken(now, position, quat):
            self._jump(now, receive_ns, position, quat, Reason.TAKEN)
            return self._withhold(Reason.TAKEN)
        return self._accept(now, receive_ns, position, raw, quat)

    def _endure(self, now: int, receive_ns: int, position: Vector, raw: Quat,
                quat: Quat) -> Quat | None:
        """Judge a pose of a body that has jumped, which may last, or be over."""
        if not self._follows_jump(now, position, quat):
            return self._leave_jump(now, receive_ns, position, raw, quat)
        self._count += 1
        self._back_count = 0
        self._track_ns, self._track_position, self._track_quat = now, position, quat
        if self._count >= self.config.acquire_frames and (self._accepted or not self.held_by):
            if self._accepted:
                return self._accept(now, receive_ns, position, raw, quat)
            if self.doubtful:
                self._track = Origin.NEAR    # the doubt is gone: it has been here all the time
                return self._accept(now, receive_ns, position, raw, quat)
            if now - self._began_ns >= self._accept_ns and self._flip is None:
                return self._accept(now, receive_ns, position, raw, quat)
        self._change(State.JUMPED, receive_ns, 'still where it cannot be')
        return self._withhold(Reason.JUMPED)

    def _follows_jump(self, now: int, position: Vector, quat: Quat) -> bool:
        """Tell whether a pose goes on where the body has jumped to."""
        dt = now - self._track_ns
        if self._too_far(position, quat, dt, self._track_position, self._track_quat) is not None:
            return False
        # A jump so short, or a silence so long, that the pose might belong to either: the closer
        # one has it. (What is possible since the last good pose grows with time until everything
        # is possible: that alone must never end a jump.)
        away = apart(position, quat, self._track_position, self._track_quat)
        if self._back_count and apart(position, quat, self._back_position, self._back_quat) < away:
            return False
        if self._flip is not None:
            return away <= apart(position, quat, self._track_position, self._turned_back())
        expected = self.expected(now)
        if expected is not None and not self.held_by and apart(
                position, quat, expected, self._quat) < away:
            return False
        return (self._too_far(position, quat, now - self._good_ns) is not None
                or away <= apart(position, quat, self._position, self._quat))

    def _leave_jump(self, now: int, receive_ns: int, position: Vector, raw: Quat,
                    quat: Quat) -> Quat | None:
        """
        Judge a pose that does not go on where the body has jumped to.

        It takes m of them in a row to end a jump. Who has another's name is not back by turning
        where that one is. Each is evidence against the new place, and weighs as much as
        ``AGAINST`` frames for it: a body whose marker solution flips to and fro has no new place.
        """
        dt = now - self._back_ns
        if self._back_count and self._too_far(
                position, quat, dt, self._back_position, self._back_quat) is None:
            self._back_count += 1
        else:
            self._back_count = 1
            reach = self._reach_margin + self._reach_speed * (now - self._track_ns)
            self._back_left = math.dist(position, self._track_position) > reach
            # Now, since the body itself turns while the frames are counted.
            self._back_flip = self._flip_to(now, position, quat)
            self._back_reason = self._not_back(now, position, quat)
        self._began_ns = min(now, self._began_ns + round(AGAINST * self._interval))
        self._back_ns, self._back_position, self._back_quat = now, position, quat
        reason = self._back_reason if self._flip is not None else self._not_back(
            now, position, quat)
        if self._back_count >= self.config.acquire_frames:
            held_by, doubtful = self.held_by, self.doubtful
            left = self._back_left or not held_by
            if reason is None and left and not self._is_taken(now, position, quat):
                self._track = Origin.NEAR
                return self._accept(now, receive_ns, position, raw, quat)
            self._jump(now, receive_ns, position, quat, reason or Reason.TAKEN, self._back_flip)
            if not left:
                self.held_by = held_by or self.held_by
                self.doubtful = doubtful and self.doubtful
        self._change(State.JUMPED, receive_ns, 'still where it cannot be')
        return self._withhold(reason or Reason.ACQUIRING)

    def _turned_back(self) -> Quat:
        """Give the attitude of the track without its flip."""
        assert self._flip is not None
        return multiply(self._track_quat, conjugate(self._flip.turn))

    def _not_back(self, now: int, position: Vector, quat: Quat) -> Reason | None:
        """
        Tell why a pose is not that of the body before its jump; None if it is.

        A body that has flipped is followed, so it is known where it is, and how it is turned but
        for the flip. Of any other, only the last good pose is known.
        """
        if self._flip is None:
            return self._too_far(position, quat, now - self._good_ns)
        dt = now - self._track_ns
        reach = IN_PLACE_M + self._reach_margin + self._reach_speed * dt
        if math.dist(position, self._track_position) > reach:
            return Reason.MOVED_TOO_FAR
        if angle_between(self._turned_back(), quat) > max(self._turn_limit(dt), self._flip.slack):
            return Reason.TURNED_TOO_FAR
        return None

    def _flip_to(self, now: int, position: Vector, quat: Quat) -> Flip | None:
        """
        Tell how a pose is flipped against the body.

        :returns: None if it is not, is elsewhere, or the body was unseen for too long to tell.
        """
        if self._track is Origin.FAR and self._flip is not None:
            places, attitude, at = [self._track_position], self._turned_back(), self._track_ns
        else:
            places, attitude, at = [self._position], self._quat, self._good_ns
            if self._velocity is not None:
                (x, y, z), (vx, vy, vz), dt = self._position, self._velocity, now - at
                places.append((x + vx * dt, y + vy * dt, z + vz * dt))
        if now - at >= max(self._memory_ns, 4 * self._interval):
            return None
        limit = self._turn_limit(now - at)
        reach = IN_PLACE_M + IN_PLACE_SPEED * (now - at)
        if (angle_between(attitude, quat) <= limit
                or min(math.dist(position, place) for place in places) > reach):
            return None
        return Flip(multiply(conjugate(attitude), quat), min(limit, self._turn_cap))

    def _is_taken(self, now: int, position: Vector, quat: Quat) -> bool:
        """Ask whether this is another body's place, and remember whose."""
        rival = self.rival(self, now, position, quat)
        if rival is None:
            return False
        self.held_by, self.doubtful = rival.name, not rival.seen
        return True

    def _too_far(self, position: Vector, quat: Quat, dt: int, origin: Vector | None = None,
                 attitude: Quat | None = None) -> Reason | None:
        """
        Tell why a body cannot be here after dt (ns); from the last good pose if none given.

        A frame that was late, or stamped late, is not followed by one that cannot be: the next
        may have come as far as in a whole interval.
        """
        dt = max(dt, min(round(self._interval), LATE_NS))
        reach = self._reach_margin + self._reach_speed * dt
        if math.dist(position, origin or self._position) > reach:
            return Reason.MOVED_TOO_FAR
        if angle_between(attitude or self._quat, quat) > self._turn_limit(dt):
            return Reason.TURNED_TOO_FAR
        return None

    def _turn_limit(self, dt: int) -> float:
        """Give the largest angle (rad) that the body can turn by in dt (ns)."""
        dt = max(dt, min(round(self._interval), LATE_NS))
        return min(self._turn_margin + self._turn_rate * dt,
                   max(self._turn_cap, 2.0 * self._agility * dt))

    def _begin(self, origin: Origin, now: int) -> None:
        """Start a track with its first pose."""
        self._track = origin
        self._count = 1
        self._began_ns = now
        self._back_count = 0
        self._flip = None
        self._accepted = False

    def _jump(self, now: int, receive_ns: int, position: Vector, quat: Quat,
              reason: Reason, flip: Flip | None = None) -> None:
        """Start a track in a place where the body cannot be, or where another one is."""
        if self._track is not Origin.FAR:
            flip = self._flip_to(now, position, quat)
        self._begin(Origin.FAR, now)
        self._flip = None if reason is Reason.TAKEN else flip
        if reason is not Reason.TAKEN:
            self.held_by, self.doubtful = '', False
        self._track_ns, self._track_position, self._track_quat = now, position, quat
        distance = math.dist(position, self._position)
        angle = math.degrees(angle_between(self._quat, quat))
        dt = (now - self._good_ns) * 1e-6
        self._change(
            State.JUMPED, receive_ns,
            f'{distance:.3f} m and {angle:.0f} degrees in {dt:.1f} ms: {reason.value}')

    def _accept(self, now: int, receive_ns: int, position: Vector, raw: Quat,
                quat: Quat) -> Quat:
        """Take a pose for good."""
        quat = _continued(self._shown or self._quat, quat)
        self._shown = None
        if self.state is not State.TRACKED:
            if self._track is not Origin.NEAR and self.published:
                self.resets += 1
            detail = {Origin.NEAR: 'seen again', Origin.FRESH: 'seen', Origin.FAR: (
                'the jump has lasted; its place is the new truth')}[self._track or Origin.FRESH]
            if self._accepted:
                detail = 'the user has accepted the pose that it jumped to'
            self._sample_quat = None
            if self._track is not Origin.NEAR:
                self._velocity = None
            self._change(State.TRACKED, receive_ns, detail)
            self._track = None
            self._flip = None
            self._accepted = False
            self.held_by, self.doubtful = '', False
        self._good_ns, self._position, self._quat, self._raw = now, position, quat, raw
        self._patience = self._silence
        self.published += 1
        if not self.published & self._sample_mask:
            self._measure_agility()
        return quat

    def _settle(self) -> None:
        """Write down what the short way has left implicit."""
        if self._patience >= 0:
            self._patience = -1
            self._last_ns = self._seen_since = self._good_ns
            self._good_receive = self._last_receive
            self._seen_position, self._seen_raw = self._position, self._raw

    def _go_stale(self, now_ns: int, silent: int) -> None:
        """Take note of silence."""
        self._settle()
        self._change(State.STALE, now_ns, f'silent for {silent * 1e-9:.2f} s')

    def _measure_agility(self) -> None:
        """Look, every twentieth of a second or so, at how fast the body turns."""
        dt = self._good_ns - self._sample_ns
        if self._sample_quat is not None and dt > 0:
            rate = angle_between(self._sample_quat, self._quat) / dt
            # A second after the last swing, a third of its rate is still expected.
            self._agility = max(rate, self._agility * math.exp(-1e-9 * dt))
            x, y, z = self._position
            lx, ly, lz = self._sample_position
            self._velocity = (x - lx) / dt, (y - ly) / dt, (z - lz) / dt
        self._sample_ns, self._sample_quat = self._good_ns, self._quat
        self._sample_position = self._position
        mask = 1
        while 0.0 < mask * self._interval < SAMPLE_NS and mask < MAX_STRIDE:
            mask *= 2
        self._sample_mask = mask - 1
        self._measure_silence()


_REFUSED = {
    Reason.NOT_TRACKED: 'the sender says that it does not track it',
    Reason.MEAN_ERROR: 'its markers are too far from their places in the model',
}


def _no_rival(body: Body, now: int, position: Vector, quat: Quat) -> Rival | None:
    """Stand in where a body is alone."""
    return None


def _negated(q: Quat) -> Quat:
    """Give the same attitude with the other sign."""
    return -q[0], -q[1], -q[2], -q[3]


def _excess(q: Quat) -> float:
    """Give the squared norm less 1."""
    return q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] - 1.0


def _continued(before: Quat, quat: Quat) -> Quat:
    """Give an attitude the sign that continues the one before."""
    a, b, c, d = before
    x, y, z, w = quat
    return quat if a * x + b * y + c * z + d * w >= 0.0 else (-x, -y, -z, -w)


def apart(p: Vector, a: Quat, q: Vector, b: Quat) -> float:
    """
    Give one figure (m) for how far two poses are apart.

    :param p, a: position (m) and attitude of one.
    :param q, b: those of the other.
    :returns: the distance, and ``LEVER`` times the angle (rad) between them.
    """
    return math.dist(p, q) + LEVER * angle_between(a, b)


def _describe(position: Vector, raw: Quat) -> str:
    """Show numbers that are no pose."""
    numbers = ', '.join(f'{value:.6g}' for value in position + raw)
    return f'not a pose: x, y, z, qx, qy, qz, qw = {numbers}'
