# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Settings of the validity gate: thresholds of time, speed and error, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from optitrack_vrpn.settings import Change, checked, setting


@checked
@dataclass(frozen=True)
class BodyConfig:
    """
    Thresholds for the poses of one body.

    The defaults suit a drone and a hand-held wand. Fields without ``setting`` are constants: users
    have no reason to change them, tests and benchmarks do.
    """

    acquire_frames: int = setting(
        3, low=1, high=1000, change=Change.ANY_TIME, doc=(
            'consistent frames that make a body TRACKED, at first sight and after every fault; '
            'the last of them is published'))
    stale_after_s: float = setting(
        0.0, unit='s', low=0.0, high=60.0, change=Change.ANY_TIME, doc=(
            'time without a pose after which a body is STALE, at least 1.5 frame intervals; 0 '
            'takes ten intervals, and at least 0.1 s'))
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
            'mean distance of the markers from their places in the model above which a pose is '
            'withheld (NatNet sends it, VRPN does not); 0 switches the check off'))
    stale_frames: float = 10.0
    """
    Frame intervals of the body's own rate in the automatic ``stale_after_s``; 0 for never. Chosen:
    at 50 Hz it is 0.2 s.
    """
    stale_min_s: float = 0.1
    """
    Smallest automatic ``stale_after_s`` (s). Chosen: networks delay frames for longer than ten
    intervals of a fast body.
    """
    position_margin: float = 0.02
    """
    Allowance (m) for noise, added to the distance by ``max_speed``. Chosen: ten times the noise of
    a poor calibration.
    """
    attitude_margin: float = 0.15
    """Allowance (rad) for noise, added to the angle by ``max_angular_rate``; chosen likewise."""
    max_turn: float = 1.4
    """
    Rotation (rad) between two poses within ``memory_s`` that is rejected; 0 for none. Chosen: it
    separates flips by a body's symmetry (90 degrees, 1.57 rad, and more) from turns. For a body
    that turned fast before, the limit is twice the angle at that rate.
    """
    memory_s: float = 1.0
    """
    Time (s) for which the next pose is compared with the last valid one. After it (or four frame
    intervals, if longer) the body is acquired again. Chosen: ``max_speed`` then allows 15 m.
    """
    norm_tolerance: float = 0.01
    """
    Deviation of a quaternion's norm from 1 that is normalised; beyond it a pose is INVALID. 0
    switches the check off. Chosen: senders of 32-bit floats deviate by 1e-7.
    """
