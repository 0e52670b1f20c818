# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds by which a body's poses are believed or withheld."""

from __future__ import annotations

from dataclasses import dataclass, fields
import math

from optitrack_vrpn.errors import ConfigurationError


@dataclass(frozen=True)
class BodyConfig:
    """
    Say when a pose of one body is believed.

    The defaults suit a drone and a hand-held wand. Every check can be switched off; a body of
    its own kind gets its own with ``dataclasses.replace(config, max_speed=30.0)``.

    :ivar acquire_frames: consistent frames (count, at least 1) that make a body TRACKED, at first
        sight and after every fault; the last of them is published, so one less is withheld.
    :ivar stale_after_s: silence (s) after which a body is STALE; 0 takes ``stale_frames``.
    :ivar stale_frames: the same as a number of frame intervals of the body's own measured rate,
        but never less than ``stale_min_s``; 0 switches it off (if ``stale_after_s`` is 0 too,
        a body never becomes STALE).
    :ivar stale_min_s: shortest silence (s) that ``stale_frames`` may mean: a network holds
        frames back for longer than a fast body's ten intervals.
    :ivar frozen_after_s: time (s) of one bit-identical pose after which a body is FROZEN. While
        the check is on, the repeats before that are withheld as well. 0 switches it off: for
        simulated servers without noise, whose bodies really stand still.
    :ivar detect_zeroed: take exactly zero position with zero or identity attitude for lost.
    :ivar max_speed: fastest believed motion (m/s); 0 switches the check off.
    :ivar max_angular_rate: fastest believed rotation (rad/s); 0 switches the check off.
    :ivar position_margin: allowance (m) for noise, added to what ``max_speed`` allows.
    :ivar attitude_margin: allowance (rad) for noise, added to what ``max_angular_rate`` allows.
    :ivar max_turn: rotation (rad) that is not believed between two poses within ``memory_s``,
        however long apart: it tells a flip by a body's symmetry (90, 120 or 180 degrees) from a
        turn. A body that was lately seen to turn fast is granted twice what it would turn at that
        rate. 0 switches it off.
    :ivar memory_s: how long (s) the last good pose says anything about the next. After that
        (or four frame intervals, if longer) the body is acquired anew and a reset is counted.
    :ivar jump_accept_s: how long (s) a body must be seen consistently in its new place until a
        jump becomes the new truth (a reset is counted); 0 never accepts one.
    :ivar norm_tolerance: largest deviation of a quaternion's norm from 1 (1) that is restored;
        beyond it a pose is INVALID. 0 switches the check off (a zero norm stays INVALID).
    :ivar publish_untracked: hand every finite pose of this body through as it came (its
        quaternion normalised), whatever the state; the state is kept all the same.
    """

    acquire_frames: int = 3
    stale_after_s: float = 0.0
    stale_frames: float = 10.0
    stale_min_s: float = 0.1
    frozen_after_s: float = 0.2
    detect_zeroed: bool = True
    max_speed: float = 15.0
    max_angular_rate: float = 30.0
    position_margin: float = 0.02
    attitude_margin: float = 0.15
    max_turn: float = 1.4
    memory_s: float = 1.0
    jump_accept_s: float = 2.0
    norm_tolerance: float = 0.01
    publish_untracked: bool = False

    def __post_init__(self) -> None:
        """
        Check every field.

        :raises ConfigurationError: a value is not a number, negative, or out of its range.
        """
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool):
                continue
            if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                raise ConfigurationError(
                    f'body setting {field.name} is {value!r}: give a finite number of 0 or more')
        if self.acquire_frames < 1 or int(self.acquire_frames) != self.acquire_frames:
            raise ConfigurationError(
                f'body setting acquire_frames is {self.acquire_frames!r}: give a whole number of '
                '1 or more')
        if self.memory_s <= 0:
            raise ConfigurationError(
                'body setting memory_s is 0: give the time in seconds for which a last good pose '
                'is compared with; to switch the comparison off set max_speed, max_angular_rate '
                'and max_turn to 0')
        if self.max_turn > math.pi:
            raise ConfigurationError(
                f'body setting max_turn is {self.max_turn!r} rad: no rotation exceeds pi; set 0 '
                'to switch the check off')
        if self.norm_tolerance >= 1:
            raise ConfigurationError(
                f'body setting norm_tolerance is {self.norm_tolerance!r}: give less than 1, or 0 '
                'to switch the check off')
