# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""Poses and samples of an IMU on one axis of time, with the noise that the data show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Optional

import numpy as np
import numpy.typing as npt
from optitrack_vrpn.core.errors import ConfigurationError
from optitrack_vrpn.core.stats import array_interval
from scipy.spatial.transform import Rotation

Floats = npt.NDArray[Any]
Integers = npt.NDArray[Any]

#: Standard acceleration of gravity (m/s^2; 3rd CGPM, 1901).
STANDARD_GRAVITY = 9.80665
#: Noise of third differences of white noise: sqrt(1 + 9 + 9 + 1).
_THIRD = np.sqrt(20.0)
_MAD = 1.4826
#: The white noise of a quiet IMU (ICM-42688-P): rad/s and m/s^2, per sqrt(Hz).
_LEAST = (4.9e-5, 6.9e-4)
#: Chosen: least noise of poses: position (m) and attitude (rad).
LEAST_NOISE = (2e-5, 1e-4)
#: Random walks assumed for the biases (BMI088): rad/s^2 and m/s^3, per sqrt(Hz).
_WALKS = (2e-5, 2e-4)
#: Chosen: factor for vibration. Twice as much leaves 0.04 ms where noise of poses is correlated.
_VIBRATION = 1.2
#: Chosen: largest mean interval of the IMU's stamps, in medians: more are bursts or losses.
_MOST_SPREAD = 3.0
#: Chosen: faster IMUs are averaged to at least this rate (Hz).
_MOST_HZ = 400.0


class ImuNoise(NamedTuple):
    """White noise of gyro and accelerometer (rad/s and m/s^2 per sqrt(Hz)), walks of biases."""

    gyro: float
    accelerometer: float
    gyro_walk: float = _WALKS[0]
    accelerometer_walk: float = _WALKS[1]


@dataclass(frozen=True, eq=False)
class ImuData:
    """
    Samples of an IMU as sensor_msgs/Imu defines them (REP 145).

    :ivar stamps_ns: (n,) from the headers.
    :ivar gyro: (n, 3) rad/s.
    :ivar accelerometer: (n, 3) specific force, m/s^2: +9.8 on the axis that points up at rest.
    """

    stamps_ns: npt.NDArray[np.int64]
    gyro: Floats
    accelerometer: Floats
    frame_id: str = ''


@dataclass(frozen=True, eq=False)
class Problem:
    """
    Poses of a body and samples of an IMU, in seconds since ``origin_ns``.

    :ivar times: (m,) stamps of the poses (s).
    :ivar rotations: (m, 3, 3) world from body.
    :ivar positions: (m, 3) of the body in the world (m).
    :ivar begin: time of IMU sample 0 (s); sample i is at begin + i * interval.
    :ivar interval: of the IMU's samples (s).
    :ivar gyro: (n, 3), without gaps: lost samples are interpolated.
    :ivar accelerometer: likewise.
    :ivar filled: (n,) which samples are interpolated.
    :ivar jitter: of the IMU's stamps about the line that replaces them (s).
    :ivar bends: largest distance of a part of the stamps from that line (s).
    """

    origin_ns: int
    times: Floats
    rotations: Floats
    positions: Floats
    begin: float
    interval: float
    gyro: Floats
    accelerometer: Floats
    filled: npt.NDArray[np.bool_]
    noise: ImuNoise
    jitter: float = 0.0
    bends: float = 0.0
    gravity: float = STANDARD_GRAVITY

    @property
    def imu_times(self) -> Floats:
        """Return the time of each sample (s)."""
        times: Floats = self.begin + self.interval * np.arange(len(self.gyro))
        return times

    def between(self, begin: float, end: float) -> Problem:
        """Return the part between two times (s); the samples reach 0.6 s further."""
        kept = (self.times >= begin) & (self.times <= end)
        first = max(0, int((begin - 0.6 - self.begin) / self.interval))
        last = max(first + 1, int((end + 0.6 - self.begin) / self.interval))
        part = slice(first, last)
        return replace(
            self, times=self.times[kept], rotations=self.rotations[kept],
            positions=self.positions[kept], begin=self.begin + first * self.interval,
            gyro=self.gyro[part], accelerometer=self.accelerometer[part],
            filled=self.filled[part])


def make_problem(
    trajectory: Any, imu: ImuData, noise: Optional[ImuNoise] = None,
    gravity: float = STANDARD_GRAVITY,
) -> Problem:
    """
    Put poses and samples on one axis of time.

    :param trajectory: a ``recording.Trajectory`` of the body in the world.
    :param noise: by default from the data.
    :raises ConfigurationError: if one of them is too short, or they have no time in common.
    """
    if len(trajectory) < 100 or len(imu.stamps_ns) < 100:
        raise ConfigurationError(
            f'{len(trajectory)} poses and {len(imu.stamps_ns)} samples of the IMU are too few: '
            'record 20 s or more')
    origin = int(trajectory.stamps_ns[0])
    times = (trajectory.stamps_ns - origin) * 1e-9
    order = np.argsort(imu.stamps_ns, kind='stable')
    stamps = (imu.stamps_ns[order] - origin) * 1e-9
    shared = min(times[-1], stamps[-1]) - max(times[0], stamps[0])
    if shared < 10.0:
        raise ConfigurationError(
            f'poses and IMU have {max(shared, 0.0):.0f} s in common, by their stamps: calibrate '
            'needs 20 s; a driver that stamps with the clock of the sensor cannot be used')
    near = (stamps > times[0] - 1.0) & (stamps < times[-1] + 1.0)
    order, stamps = order[near], stamps[near]
    begin, interval, places, jitter, bends = _index(stamps)
    gyro, filled = _fill(places, imu.gyro[order])
    accelerometer, _ = _fill(places, imu.accelerometer[order])
    average = int(1.0 / interval // _MOST_HZ) + (1.0 / interval > _MOST_HZ)
    if average > 1:
        count = len(gyro) // average
        gyro, accelerometer = (values[:count * average].reshape(count, average, 3).mean(1)
                               for values in (gyro, accelerometer))
        filled = np.asarray(filled[:count * average].reshape(count, average).any(1))
        begin, interval = begin + 0.5 * (average - 1) * interval, average * interval
    return Problem(
        origin, times, Rotation.from_quat(trajectory.quats_xyzw).as_matrix(),
        np.asarray(trajectory.positions), begin, interval, gyro, accelerometer, filled,
        noise or estimate_noise(gyro, accelerometer, interval), jitter, bends, gravity)


def _index(stamps: Floats) -> tuple[float, float, Integers, float, float]:
    """
    Count the samples, lost ones too, and fit a robust line of stamp over number.

    :returns: time of number 0, interval, numbers, jitter, and how far parts leave the line (s).
    """
    interval = array_interval(np.diff(stamps))
    if not interval > 0:
        raise ConfigurationError('the stamps of the IMU do not advance')
    mean = float(stamps[-1] - stamps[0]) / (len(stamps) - 1)
    if mean > _MOST_SPREAD * interval:
        raise ConfigurationError(
            f'the stamps of the IMU are {interval * 1e3:.3g} ms apart in the median and '
            f'{mean * 1e3:.3g} ms in the mean: its driver stamps samples in bursts, or most are '
            'lost; stamp each when it is measured')
    numbers = np.arange(len(stamps), dtype=float)
    phase = float(stamps[0])
    for at, late in enumerate((np.diff(stamps) > 1.5 * interval).tolist()):
        lost = 0
        if late:
            # Early stamps follow a late one; after a loss all are late.
            ahead = stamps[at + 1:at + 6]
            lost = max(0, round(float((ahead - phase - interval * np.arange(
                1, len(ahead) + 1)).min()) / interval))
            numbers[at + 1:] += lost
        phase += interval * (1 + lost)
        phase += 0.1 * (float(stamps[at + 1]) - phase)
    line = np.polyfit(numbers, stamps, 1)
    for _ in range(3):
        rest = stamps - np.polyval(line, numbers)
        scatter = _MAD * float(np.median(np.abs(rest - np.median(rest)))) + 1e-9
        kept = np.abs(rest - np.median(rest)) < 3.0 * scatter
        line = np.polyfit(numbers[kept], stamps[kept], 1)
    rest = stamps - np.polyval(line, numbers)
    parts = np.array_split(rest, max(2, int((stamps[-1] - stamps[0]) / 5.0)))
    bends = max(abs(float(np.median(part))) for part in parts)
    jitter = _MAD * float(np.median(np.abs(rest)))
    return float(line[1]), float(line[0]), numbers.astype(np.intp), jitter, bends


def _fill(places: Integers, values: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    count = int(places[-1]) + 1
    if count == len(values):
        return values.astype(float), np.zeros(count, dtype=bool)
    filled = np.ones(count, dtype=bool)
    filled[places] = False
    grid = np.arange(count)
    return np.stack([np.interp(grid, places, column) for column in values.T], axis=1), filled


def third_difference_sd(values: Floats) -> float:
    """Return the white noise of a smooth signal (n, 3), from its third differences."""
    return float(_MAD * np.median(np.abs(np.diff(values, n=3, axis=0))) / _THIRD)


def attitude_noise(rotations: Rotation) -> float:
    """Return the noise of attitudes (rad per axis), from third differences."""
    turns = (rotations[:-1].inv() * rotations[1:]).as_rotvec()
    return float(_MAD * np.median(np.abs(np.diff(turns, n=2, axis=0))) / _THIRD)


def pose_noise(problem: Problem) -> tuple[float, float]:
    """Return the noise of position (m) and attitude (rad) per axis."""
    return (max(third_difference_sd(problem.positions), LEAST_NOISE[0]),
            max(attitude_noise(Rotation.from_matrix(problem.rotations)), LEAST_NOISE[1]))


def estimate_noise(gyro: Floats, accelerometer: Floats, interval: float) -> ImuNoise:
    """
    Estimate the noise of an IMU: from third differences, and from the quietest second.

    A low-pass filter hides noise from third differences, motion adds to the deviation of a second.
    """
    found = []
    size = max(int(1.0 / interval), 10)
    for values, least in zip((gyro, accelerometer), _LEAST):
        parts = values[:len(values) // size * size].reshape(-1, size, 3)
        quiet = float(np.median(parts.std(axis=1), axis=1).min()) if len(parts) else np.inf
        noise = third_difference_sd(values)
        if quiet < 5.0 * noise:
            noise = max(noise, quiet)
        found.append(max(noise * np.sqrt(interval), least) * _VIBRATION)
    return ImuNoise(found[0], found[1], *(2.0 * walk for walk in _WALKS))
