# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Parameters of the node from results, composed with the values that the take was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
import math
from typing import Any, Optional

import numpy as np
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.rotation import angles_from_quat, body_from_base, compose, Transform
from optitrack_vrpn.takes.calibrate.results import CalibrationResult, text_of

#: Range of stamps.latency_ms.
_LATENCY_MS = (0.0, 1000.0)


def add_imu_rows(
    result: CalibrationResult, body: str, imu_frame: str, mode: str, transport: str,
    imu_in_base: Optional[Sequence[float]] = None,
) -> None:
    """
    Add the rows of a calibration against an IMU, and comments for other programs.

    :param mode: ``stamps.mode`` of the take, or ''.
    :param transport: protocol of the take as diagnostics have it, or ''.
    :param imu_in_base: x y z (m), roll pitch yaw (rad); None if unknown.
    """
    latency = result.quantities.get('latency_ms')
    if latency is not None:
        reason = ''
        if mode == 'sender':
            reason = 'stamps.mode sender does not subtract it'
        elif 'natnet' in transport.lower():
            reason = 'stamps are exposure times of NatNet'
        elif not _LATENCY_MS[0] <= latency.value <= _LATENCY_MS[1]:
            reason = 'it is outside of the range of stamps.latency_ms'
        if reason:
            result.notes.append(
                f'latency_ms is no parameter here: {reason}; the stamps of the IMU are late by '
                f'{-latency.value:.2f} ms against those of the poses')
        else:
            result.rows['stamps.latency_ms'] = round(float(latency.value), 3)
            result.comments.append('EKF2_EV_DELAY of PX4: 0, once the stamps are right')
    turn, arm = (result.quantities.get(name) for name in ('rotation_xyzw', 'lever_arm_m'))
    if turn is not None and arm is not None:
        angles = angles_from_quat(_quat(turn.value))
        frame = imu_frame or 'imu_link'
        result.comments.append(
            f'{body} to {frame}: xyz {text_of(arm.value, 5)} m, rpy {text_of(angles, 5)} rad')
        if imu_in_base is not None:
            base_from_imu = body_from_base(imu_in_base, '--imu-in-base')
            body_from_imu = Transform(
                _vector(arm.value), _quat(turn.value))
            offset = compose(body_from_imu, base_from_imu.inverse())
            result.rows[f'bodies.{body}.offset'] = [*offset.position, *offset.quat_xyzw]


def _vector(values: Any) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z


def _quat(values: Any) -> tuple[float, float, float, float]:
    x, y, z, w = (float(value) for value in values)
    return x, y, z, w


def compose_offset(
    result: CalibrationResult, body: str, in_force: Mapping[str, Any], motive_name: str = '',
) -> None:
    """
    Compose ``bodies.NAME.offset`` with the one that the poses already contain.

    :param motive_name: the parameter has Motive's name of the body; '' if the take does not tell.
    """
    offset = result.rows.pop(f'bodies.{body}.offset', None)
    if offset is None:
        return
    motive_name = motive_name or _motive_name(body, in_force)
    name = f'bodies.{motive_name or body}.offset'
    if not motive_name:
        result.notes.append(f"{name}: put Motive's name of the body there, if it differs")
    before = _offset_in_force(in_force, motive_name or body)
    if before:
        total = compose(body_from_base(before), body_from_base(offset))
        offset = [*total.position, *total.quat_xyzw]
        contains_force(result, name)
    result.rows[name] = offset


def _offset_in_force(in_force: Mapping[str, Any], name: str) -> Any:
    """Return the offset of a body; its name overrides patterns, later ones earlier ones."""
    found = None
    for key, value in in_force.items():
        if key.startswith('bodies.') and key.endswith('.offset'):
            if key == f'bodies.{name}.offset':
                return value
            if fnmatchcase(name, key[len('bodies.'):-len('.offset')]):
                found = value
    return found


def _motive_name(body: str, in_force: Mapping[str, Any]) -> str:
    """Return Motive's name of a body that a parameter file names; '' if it does not."""
    named = [key[len('bodies.'):-len('.name')] for key, value in in_force.items()
             if value == body and key.startswith('bodies.') and key.endswith('.name')]
    return named[0] if len(named) == 1 else ''


def contains_force(result: CalibrationResult, name: str) -> None:
    """Tell that a parameter was composed with its value in force."""
    result.notes.append(f'{name} contains the value in force')
    result.record.setdefault('composed', []).append(name)


def compose_world(result: CalibrationResult, in_force: Mapping[str, Any]) -> None:
    """Compose ``world_offset`` with the one that the poses already contain."""
    before = in_force.get('world_offset.origin', [0.0, 0.0, 0.0])
    yaw = number_in_force(in_force, 'world_offset.yaw')
    if not isinstance(before, list) or len(before) != 3 or not all(map(_is_number, before)):
        raise ConfigurationError(f'world_offset.origin is {before!r}: give x, y, z in metres')
    if 'world_offset.origin' not in result.rows or not (any(before) or yaw):
        return
    x, y, z = result.rows['world_offset.origin']
    cos, sin = math.cos(yaw), math.sin(yaw)
    result.rows['world_offset.origin'] = [
        float(value) for value in np.asarray(before) + (cos * x - sin * y, sin * x + cos * y, z)]
    total = result.rows['world_offset.yaw'] + yaw
    result.rows['world_offset.yaw'] = math.remainder(total, 2.0 * math.pi)
    result.notes.append('world_offset contains the value in force')
    result.record['composed'] = ['world_offset.origin', 'world_offset.yaw']


def number_in_force(in_force: Mapping[str, Any], name: str, default: float = 0.0) -> float:
    """Return a value in force; ConfigurationError if it is no number."""
    value = in_force.get(name, default)
    if not _is_number(value):
        raise ConfigurationError(f'{name} is {value!r}, not a number')
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
