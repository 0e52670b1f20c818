# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
The validity gate of bones: the rules of ``bodies.Tracker`` for all bones of a skeleton.

A pose that is not tracked, not finite, zero, of no unit attitude or equal to the one before is
withheld, and so are jumps. After each of them a bone is acquired again: it needs some consistent
frames. A jump is accepted when the bone was seen at its new place for ``jump_accept_s``, and an
attitude that turned out of sight, in place, for longer than ``memory_s``, after a second.
"""

import math
from typing import NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray

from optitrack_vrpn.stream.bodies.settings import BodyConfig

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
_NS = 1e-9
#: As for bodies: a turn (rad) out of sight that can be a flip, the distance (m) up to which it is
#: in place, and the time (ns) for which it is withheld.
_TURNED, _IN_PLACE_M, _TURNED_HELD_NS = math.radians(60.0), 1.8, 1e9

#: Chosen: a step of the sender's clock (ns) after which nothing before it counts: 36 years.
_MOST_NS = 1 << 60


class Checked(NamedTuple):
    """
    The bones of a frame after the gate.

    :ivar valid: (n,) whether a bone may be published.
    :ivar quats_xyzw: (n, 4) of unit norm and with continuous sign.
    """

    valid: Mask
    quats_xyzw: Array


class BoneGate:
    """
    Check the bones of one skeleton.

    :param count: number of bones.
    """

    def __init__(self, count: int) -> None:
        self._raw = np.full((count, 7), np.nan)
        # The last accepted pose, and the last good one, with their times (ns).
        self._position = np.full((count, 3), np.nan)
        self._quat = np.full((count, 4), np.nan)
        self._time = np.full(count, -(1 << 62), dtype=np.int64)
        self._seen_position = self._position.copy()
        self._seen_quat = self._quat.copy()
        self._seen_time = self._time.copy()
        # Consistent frames so far, their begin, whether they began with a jump, and the time (ns)
        # after which it is accepted.
        self._count = np.zeros(count, dtype=np.int64)
        self._since = self._time.copy()
        self._jumped = np.zeros(count, dtype=bool)
        self._held_ns = np.full(count, np.inf)
        self._origin_ns: Optional[int] = None
        # Time (ns) of the frame before if all its bones were valid.
        self._whole_ns: Optional[int] = None

    def update(
        self, time_ns: int, positions: Array, quats: Array, tracked: Mask, config: BodyConfig,
    ) -> Checked:
        """
        Check a frame.

        :param time_ns: on the sender's clock; a time that does not rise makes nothing valid.
        :param positions: (n, 3) m.
        :param quats: (n, 4), x y z w.
        :param tracked: (n,) what the sender states.
        """
        if self._origin_ns is None or abs(time_ns - self._origin_ns) > _MOST_NS:
            # A counter may have any 64-bit value: times in arrays are relative to the first one.
            self.__init__(len(tracked))    # type: ignore[misc]
            self._origin_ns = time_ns
        time_ns -= self._origin_ns
        with np.errstate(all='ignore'):    # what is not finite is compared, and refused
            return self._update(time_ns, positions, quats, tracked, config)

    def _update(
        self, time_ns: int, positions: Array, quats: Array, tracked: Mask, config: BodyConfig,
    ) -> Checked:
        good, quats = self._good(positions, quats, tracked, config)
        before_ns, self._whole_ns = self._whole_ns, None
        if before_ns is not None and before_ns < time_ns and good.all() and self._near(
                time_ns, before_ns, self._seen_position, self._seen_quat, positions, quats,
                config).all() and (self._count + 1 >= config.acquire_frames).all():
            return self._follow(time_ns, quats)
        late = time_ns <= self._seen_time
        good &= ~late
        near_seen = self._near(
            time_ns, self._seen_time, self._seen_position, self._seen_quat, positions, quats,
            config)
        memory_ns = config.memory_s * 1e9
        known = time_ns - self._time <= memory_ns
        near = known & self._near(
            time_ns, self._time, self._position, self._quat, positions, quats, config)
        chained = good & near_seen & (self._count > 0)
        begins = good & ~chained
        turned = ~known & self._is_turned(positions, quats)
        self._jumped = np.where(begins, (known & ~near) | turned, self._jumped & good)
        self._held_ns = np.where(begins, np.where(
            turned, _TURNED_HELD_NS, config.jump_accept_s * 1e9 or np.inf), self._held_ns)
        self._since = np.where(begins, time_ns, self._since)
        self._count = np.where(chained, self._count + 1, np.where(begins, 1, 0))
        self._jumped &= ~(good & (time_ns - self._since >= self._held_ns))
        valid = good & ~self._jumped & (self._count >= config.acquire_frames)
        self._keep(time_ns, good, valid, positions, quats)
        if valid.all():
            self._whole_ns = time_ns
        return Checked(valid, quats)

    def _follow(self, time_ns: int, quats: Array) -> Checked:
        """
        Accept a frame in which every bone is near its valid pose in the frame before.

        The result is that of the rules in ``_update`` without the cases in which a bone is lost,
        begins or jumped.
        """
        self._count = self._count + 1
        self._seen_position = self._position = self._raw[:, :3]
        self._seen_quat = self._quat = quats
        self._time = np.full(len(quats), time_ns)
        self._seen_time = self._time.copy()
        self._whole_ns = time_ns
        return Checked(np.ones(len(quats), dtype=bool), quats)

    def _good(
        self, positions: Array, quats: Array, tracked: Mask, config: BodyConfig,
    ) -> tuple[Mask, Array]:
        """Check single poses; also return the attitudes of unit norm and continuous sign."""
        raw = np.concatenate((positions, quats), axis=1)
        good = tracked & np.isfinite(raw).all(axis=1)
        norm = np.sqrt(np.einsum('ij,ij->i', quats, quats))
        if config.norm_tolerance:
            good &= np.abs(norm - 1.0) <= config.norm_tolerance
        good &= norm > 0.0
        if config.detect_zeroed:
            good &= positions.any(axis=1) | (quats[:, :3].any(axis=1))
        if config.frozen_after_s:
            good &= (raw != self._raw).any(axis=1)
        self._raw = raw
        safe = np.where(good, norm, 1.0)
        unit = np.where(good[:, None], quats, (0.0, 0.0, 0.0, 1.0)) / safe[:, None]
        against = np.einsum('ij,ij->i', unit, self._seen_quat) < 0.0
        return good, np.where(against[:, None], -unit, unit)

    @staticmethod
    def _near(
        time_ns: int, before_ns: int | NDArray[np.int64], position: Array, quat: Array,
        positions: Array, quats: Array, config: BodyConfig,
    ) -> Mask:
        """Return whether poses can follow others by the limits of speed and turn."""
        dt = (time_ns - before_ns) * _NS
        near = np.ones(len(positions), dtype=bool)
        if config.max_speed:
            away = positions - position
            limit = config.max_speed * dt + config.position_margin
            near &= np.einsum('ij,ij->i', away, away) <= limit * limit
        if config.max_angular_rate or config.max_turn:
            cosine = np.minimum(np.abs(np.einsum('ij,ij->i', quats, quat)), 1.0)
            turn = 2.0 * np.arccos(cosine)
            if config.max_angular_rate:
                near &= turn <= config.max_angular_rate * dt + config.attitude_margin
            if config.max_turn:
                near &= turn <= config.max_turn
        return near

    def _is_turned(self, positions: Array, quats: Array) -> Mask:
        """Return which bones have another attitude than when they were last valid, in place."""
        away = np.linalg.norm(positions - self._position, axis=1)
        cosine = np.minimum(np.abs(np.einsum('ij,ij->i', quats, self._quat)), 1.0)
        turned: Mask = (away <= _IN_PLACE_M) & (2.0 * np.arccos(cosine) > _TURNED)
        return turned

    def _keep(
        self, time_ns: int, good: Mask, valid: Mask, positions: Array, quats: Array,
    ) -> None:
        rows = good[:, None]
        self._seen_position = np.where(rows, positions, self._seen_position)
        self._seen_quat = np.where(rows, quats, self._seen_quat)
        self._seen_time = np.where(good, time_ns, self._seen_time)
        rows = valid[:, None]
        self._position = np.where(rows, positions, self._position)
        self._quat = np.where(rows, quats, self._quat)
        self._time = np.where(valid, time_ns, self._time)
