# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Smooth a body's poses with a causal Butterworth low-pass.

The filter is that of the OptiTrack-LabVIEW interface thesis (order 5, cutoff at 1/20 of the
sampling rate). scipy designs it as second-order sections at the body's own rate; it runs here
(transposed direct form II) on plain floats, because a call of ``scipy.signal.sosfilt`` for one
sample costs many times the arithmetic.

The components of an attitude cannot be filtered: a quaternion has unit norm and two signs, angles
wrap. The filter input is the path: the sum c of the small rotations from pose to pose (rotation
vectors, world axes), which is unbounded and does not wrap. The difference between filtered and
true path is the small rotation by which the filter lags: q_filtered = exp(c_filtered - c) q. A
rotation about a fixed axis is filtered exactly as ``sosfilt`` filters the angle; in general the
error is of second order in the angle turned about changing axes within the filter's delay.

A filter that has just started has no delay yet: its output is the pose it started with. So the
stamps are not reduced by the group delay but by the present lag, which is the filter's response
to the time itself: for a body at constant speed, the pose is exact at its stamp.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import islice
import math

import numpy as np
from optitrack_vrpn.core.rotation import (
    conjugate, from_rotation_vector, IDENTITY, multiply, normalised, Quat, to_rotation_vector,
    Vector)
from optitrack_vrpn.core.settings.schema import checked, setting


Section = tuple[float, float, float, float, float]
Six = tuple[float, float, float, float, float, float]


@checked
@dataclass(frozen=True)
class LowpassConfig:
    """Settings of the low-pass of poses."""

    cutoff_hz: float = setting(0.0, unit='Hz', low=0.0, high=1000.0, doc=(
        'smooth poses with a causal Butterworth low-pass of this cutoff frequency (-3 dB); 0 '
        'switches it off'))
    order: int = 5
    compensate_delay: bool = False
    """
    Subtract the present lag from the stamps, so that pose and stamp agree: the gantry compares
    a measurement with the position commanded at its stamp. Poses of the node keep their stamps.
    """

    def check(self) -> None:
        """Import the filter design: it takes a second, which must not delay the first pose."""
        if self.cutoff_hz:
            import scipy.signal  # noqa: F401


class Channels:
    """Run a cascade of second-order sections (b0, b1, b2, a1, a2) over six channels."""

    __slots__ = ('sections', 'at_rest', 'states')

    def __init__(self, sections: list[Section], at_rest: list[tuple[float, float]]) -> None:
        self.sections = sections
        self.at_rest = at_rest
        self.states: list[list[float]] = []

    def settle(self, values: tuple[float, ...]) -> None:
        """Set the state to the steady state for six constant inputs."""
        self.states = [
            [first * value for value in values] + [second * value for value in values]
            for first, second in self.at_rest]

    def step(self, a: float, b: float, c: float, d: float, e: float, f: float) -> Six:
        """Process one sample of each channel; return the filtered ones."""
        for (b0, b1, b2, a1, a2), state in zip(self.sections, self.states):
            s0, s1, s2, s3, s4, s5, t0, t1, t2, t3, t4, t5 = state
            p = b0 * a + s0
            q = b0 * b + s1
            r = b0 * c + s2
            u = b0 * d + s3
            v = b0 * e + s4
            w = b0 * f + s5
            state[:] = (
                b1 * a - a1 * p + t0, b1 * b - a1 * q + t1, b1 * c - a1 * r + t2,
                b1 * d - a1 * u + t3, b1 * e - a1 * v + t4, b1 * f - a1 * w + t5,
                b2 * a - a2 * p, b2 * b - a2 * q, b2 * c - a2 * r,
                b2 * d - a2 * u, b2 * e - a2 * v, b2 * f - a2 * w)
            a, b, c, d, e, f = p, q, r, u, v, w
        return a, b, c, d, e, f


class Lag:
    """Compute the lag (s) of a filter since its start, for a motion at constant speed."""

    __slots__ = ('behind_s', '_sections', '_states')

    def __init__(self, sections: list[Section]) -> None:
        self.behind_s = 0.0
        self._sections = sections
        self._states = [[0.0, 0.0] for _ in sections]

    def step(self, dt: float) -> None:
        """Advance by one sample, ``dt`` (s) after the one before."""
        a = dt
        for (b0, b1, b2, a1, a2), state in zip(self._sections, self._states):
            p = b0 * a + state[0]
            state[:] = b1 * a - a1 * p + state[1], b2 * a - a2 * p
            a = p
        self.behind_s += dt - a


class Lowpass:
    """
    Smooth the poses of one body.

    :ivar rate_hz: the rate the filter is designed for (Hz), 0 before it is known.
    :ivar delay_s: group delay at low frequencies (s), 0 before the rate is known.
    :ivar starts: how often the filter has started, each time without a transient.
    """

    __slots__ = (
        'config', 'rate_hz', 'delay_s', 'starts', '_sos', '_at_rest', '_channels', '_lag',
        '_recent', 'stamp_ns', '_position', '_quat', '_turned')

    def __init__(self, config: LowpassConfig) -> None:
        """Begin without poses; the cutoff of the filter must not be 0."""
        self.config = config
        self.rate_hz = 0.0
        self.delay_s = 0.0
        self.starts = 0
        self._sos = np.empty((0, 6))
        self._at_rest = np.empty((0, 2))
        self._channels: Channels | None = None
        self._lag = Lag([])
        # The last inputs: position and path of the attitude, time since the input before.
        self._recent: deque[tuple[Six, float]] = deque()
        self.stamp_ns = 0
        self._position: Vector = (0.0, 0.0, 0.0)
        self._quat: Quat = IDENTITY
        self._turned: Vector = (0.0, 0.0, 0.0)

    def reset(self) -> None:
        """Restart with the next pose (a jump, an epoch, a body seen again)."""
        self._channels = None
        self._recent.clear()

    def update(self, stamp_ns: int, position: Vector, quat_xyzw: Quat,
               rate_hz: float) -> tuple[int, Vector, Quat]:
        """
        Process one valid pose.

        :param stamp_ns: its stamp (ns).
        :param position: position (m).
        :param quat_xyzw: attitude of unit norm, either sign.
        :param rate_hz: the body's own rate (Hz). While it is unknown or absurd, or the cutoff is
            not below half of it, poses pass unchanged.
        :returns: stamp (ns; earlier by the lag of the filter where that is configured), filtered
            position and attitude. The attitude has the sign of the one given.
        """
        # Relative change of a body's rate after which the filter is designed again. Chosen: the
        # cutoff then errs by less than 5 %.
        if abs(rate_hz - self.rate_hz) > 0.05 * rate_hz:
            self._design(rate_hz)
        if self.rate_hz <= 0.0:
            return stamp_ns, position, quat_xyzw
        steps = 0
        if self._channels is not None:
            steps = round((stamp_ns - self.stamp_ns) * 1e-9 * self.rate_hz) or 1
        turned = self._turned
        x, y, z = position
        # Up to ten missing frames are interpolated on a straight line; after more, the filter
        # restarts. Chosen: equal to ``stale_frames``.
        if not 1 <= steps <= 11:
            self._turned = turned = (0.0, 0.0, 0.0)
            filtered: Six = (x, y, z, *turned)
            self._recent.clear()
            self._start(filtered)
        else:
            dx, dy, dz = to_rotation_vector(multiply(quat_xyzw, conjugate(self._quat)))
            dt = (stamp_ns - self.stamp_ns) * 1e-9 / steps
            if steps > 1:
                px, py, pz = self._position
                for k in range(1, steps):
                    part = k / steps
                    self._step((
                        px + part * (x - px), py + part * (y - py), pz + part * (z - pz),
                        turned[0] + part * dx, turned[1] + part * dy, turned[2] + part * dz), dt)
            self._turned = turned = (turned[0] + dx, turned[1] + dy, turned[2] + dz)
            filtered = self._step((x, y, z, *turned), dt)
        self.stamp_ns = stamp_ns
        self._position = position
        self._quat = quat_xyzw
        lag = from_rotation_vector((
            filtered[3] - turned[0], filtered[4] - turned[1], filtered[5] - turned[2]))
        if self.config.compensate_delay:
            stamp_ns -= round(self._lag.behind_s * 1e9)
        return stamp_ns, filtered[:3], normalised(multiply(lag, quat_xyzw))

    def group_delay(self, frequency_hz: float) -> float:
        """Return the group delay (s) at a frequency (Hz); 0 before the rate is known."""
        if self.rate_hz <= 0.0:
            return 0.0
        order = np.arange(3)
        powers = np.exp(-2j * np.pi * frequency_hz / self.rate_hz * order)
        # The group delay of a polynomial in 1/z is minus the derivative of its phase: the real
        # part of sum(k c_k z^-k) / sum(c_k z^-k).
        above, below = (
            (taps @ (order * powers) / (taps @ powers)).real.sum()
            for taps in (self._sos[:, :3], self._sos[:, 3:]))
        return float(above - below) / self.rate_hz

    def _design(self, rate_hz: float) -> None:
        """Design the filter for a rate, and initialise it with the last poses."""
        continues = self._channels is not None
        self._channels = None
        self.rate_hz = 0.0
        self.delay_s = 0.0
        # No camera is this fast (Hz): stamps that make such a rate are wrong, and the design is
        # singular.
        if not 0.0 < 2.0 * self.config.cutoff_hz < rate_hz <= 1e5:
            return
        from scipy import signal  # see LowpassConfig
        self.rate_hz = rate_hz
        self._sos = signal.butter(self.config.order, self.config.cutoff_hz, output='sos',
                                  fs=rate_hz)
        self._at_rest = signal.sosfilt_zi(self._sos)
        self.delay_s = self.group_delay(0.0)
        recent = self._recent
        # Group delays of past input that initialise a new design. Chosen: the step response then
        # is within 0.7 % of its end (measured).
        # Limit of that memory (samples), reached by cutoffs below 1/390 of the rate. Chosen: 0.3
        # MB a body.
        self._recent = deque(
            maxlen=min(math.ceil(5.0 * self.delay_s * rate_hz), 1000))
        if continues and recent:
            self._initialise(recent)

    def _initialise(self, recent: deque[tuple[Six, float]]) -> None:
        """Start from the last inputs, resampled to the new rate."""
        ago = np.cumsum([0.0] + [dt for _, dt in islice(recent, 1, None)])
        ago -= ago[-1]
        # At most what the filter remembers: a rate estimate may be far above that of the inputs.
        first = max(math.ceil(ago[0] * self.rate_hz), 1 - (self._recent.maxlen or 1))
        times = np.arange(first, 1) / self.rate_hz
        paths = np.array([path for path, _ in recent])
        rows = np.column_stack([np.interp(times, ago, column) for column in paths.T]).tolist()
        self._start(tuple(rows[0]))
        for row in rows[1:]:
            self._step(tuple(row), 1.0 / self.rate_hz)

    def _start(self, path: Six) -> None:
        """Start in the steady state for this position (m) and path of the attitude (rad)."""
        sections = [(row[0], row[1], row[2], row[4], row[5]) for row in self._sos.tolist()]
        self._channels = Channels(
            sections, [(row[0], row[1]) for row in self._at_rest.tolist()])
        self._channels.settle(path)
        self._lag = Lag(sections)
        self.starts += 1

    def _step(self, path: Six, dt: float) -> Six:
        """Process one sample and return the filtered one."""
        assert self._channels is not None
        self._recent.append((path, dt))
        if self.config.compensate_delay:
            self._lag.step(dt)
        return self._channels.step(*path)
