# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Thresholds by which a body's poses are believed or withheld."""

from __future__ import annotations

from dataclasses import dataclass
import math

from optitrack_vrpn.errors import ConfigurationError
from optitrack_vrpn.settings import Change, checked, setting


@checked
@dataclass(frozen=True)
class BodyConfig:
    """
    When a pose of one body is valid.

    The defaults suit a drone and a hand-held wand. Fields that are not declared with ``setting``
    are constants: users have no reason to change them, tests and benchmarks do.
    """

    acquire_frames: int = setting(
        3, low=1, high=1000, change=Change.ANY_TIME, doc=(
            'consistent frames that make a body TRACKED, at first sight and after every fault; '
            'the last of them is published'))
    stale_after_s: float = setting(
        0.0, unit='s', low=0.0, high=60.0, change=Change.ANY_TIME, doc=(
            "time without a pose after which a body is STALE; 0 takes ten frames of the body's "
            'own rate, and at least 0.1 s'))
    frozen_after_s: float = setting(
        0.2, unit='s', low=0.0, high=60.0, change=Change.ANY_TIME, doc=(
            'time with one bit-identical pose after which a body is FROZEN; repeats before that '
            'are withheld too; 0 switches the check off, for simulators without noise'))
    detect_zeroed: bool = setting(
        True, change=Change.ANY_TIME, doc='treat an exactly zero pose as a body out of view')
    max_speed: float = setting(
        15.0, unit='m/s', low=0.0, high=1000.0, change=Change.ANY_TIME, doc=(
            'fastest motion that is accepted as valid; 0 switches the check off'))
    max_angular_rate: float = setting(
        30.0, unit='rad/s', low=0.0, high=1000.0, change=Change.ANY_TIME, doc=(
            'fastest rotation that is accepted as valid; 0 switches the check off'))
    jump_accept_s: float = setting(
        2.0, unit='s', low=0.0, high=600.0, change=Change.ANY_TIME, doc=(
            'time that a body must be seen at its new place before a jump is accepted; 0 never '
            'accepts one'))
    max_mean_error: float = setting(
        0.0, unit='m', low=0.0, high=1.0, change=Change.ANY_TIME, doc=(
            'a pose whose markers lie further than this from their places in the model, on '
            'average, is withheld (NatNet tells it, VRPN does not); 0 switches the check off'))
    publish_untracked: bool = setting(
        False, change=Change.ANY_TIME, doc=(
            "publish every finite pose whatever the body's state: for debugging, never for "
            'flight'))
    stale_frames: float = 10.0
    """
    Frame intervals of the body's own rate in the automatic ``stale_after_s``; 0 for never. Chosen:
    at 240 Hz it is 42 ms; half of it reports bursts of lost frames, twice as much delays the
    report.
    """
    stale_min_s: float = 0.1
    """
    Least automatic ``stale_after_s`` (s): networks hold frames back for longer than ten intervals
    of a fast body. Half of it reports delays of a wireless link as a loss of the body.
    """
    position_margin: float = 0.02
    """
    Allowance (m) for noise, added to what ``max_speed`` allows. Chosen: some ten times the noise
    of a poor calibration. Twice as much hides small jumps, half rejects noisy markers.
    """
    attitude_margin: float = 0.15
    """Allowance (rad) for noise, added to what ``max_angular_rate`` allows; chosen likewise."""
    max_turn: float = 1.4
    """
    Rotation (rad) between two poses within ``memory_s`` that is rejected; 0 for none. It separates
    flips by a body's symmetry (90 degrees, 1.57 rad, and more) from turns. A body that was seen
    to turn fast is granted twice what it would turn at that rate.
    """
    memory_s: float = 1.0
    """
    Time (s) for which the next pose is compared with the last good one. After it (or four frame
    intervals, if longer) the body is acquired again. Twice as much makes ``max_speed`` allow
    reaches of tens of metres, which detect nothing.
    """
    norm_tolerance: float = 0.01
    """
    Deviation of a quaternion's norm from 1 that is normalised; beyond it a pose is INVALID. 0
    switches the check off. Senders of 32-bit floats deviate by 1e-7; 0.01 rejects garbage only.
    """

    def check(self) -> None:
        """
        Check the constants.

        :raises ConfigurationError: a value is not a number, negative, or out of its range.
        """
        for name in ('stale_frames', 'stale_min_s', 'position_margin', 'attitude_margin',
                     'max_turn', 'memory_s', 'norm_tolerance'):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not (
                    0 <= value < math.inf):
                raise ConfigurationError(f'{name} is {value!r}; give a finite number of 0 or more')
        if self.memory_s <= 0:
            raise ConfigurationError('memory_s is 0; give a time above 0 s')
        if self.max_turn > math.pi:
            raise ConfigurationError(f'max_turn is {self.max_turn!r}; at most pi')
        if self.norm_tolerance >= 1:
            raise ConfigurationError(f'norm_tolerance is {self.norm_tolerance!r}; below 1')
