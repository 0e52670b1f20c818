# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Simulate a mocap channel of a gantry in simulated time: noise, low-pass, latency, occlusion.

The values are those measured in the thesis: 3 sigma of a standing body is 1 mm and 0.11 degrees,
unfiltered; the low-pass is a Butterworth of order 5 at 5 Hz for 100 Hz; the time from exposure to
controller is 0.05 s.
"""

from collections import deque
import random
from typing import Any, Optional

from optitrack_vrpn.guests.machine.correction import Measurement

#: Chosen: noise of the thesis's installation (3 sigma of 1 mm and 0.11 deg, unfiltered), its
#: latency and its low-pass. They determine the figures of docs/gantry.md.
NOISE_M = 1e-3 / 3.0
NOISE_DEG = 0.11 / 3.0
LATENCY_S = 0.05
CUTOFF_HZ = 5.0
ORDER = 5


class SimulatedMocap:
    """
    Measure one axis once per cycle.

    :param noise: standard deviation of a raw value (unit).
    :param dt: duration of a cycle (s).
    :param seed: seed of the noise.
    :param latency_s: time from exposure to controller (s); it is rounded to whole cycles.
    :param cutoff_hz: cut-off frequency of the low-pass; 0: no low-pass.
    :param origin: mocap value at position 0 (unit).
    :ivar visible: False while the body is out of view.
    :ivar filter_delay_s: group delay of the low-pass, which is subtracted from the stamp (s).
    """

    def __init__(
        self, noise: float, dt: float, seed: int = 0, *, latency_s: float = LATENCY_S,
        cutoff_hz: float = CUTOFF_HZ, origin: float = 0.0,
    ) -> None:
        self.visible = True
        self.filter_delay_s = 0.0
        self._noise = noise
        self._random = random.Random(seed)
        self._origin = origin
        self._sections: list[list[float]] = []
        self._rest: list[list[float]] = []
        self._states: list[list[float]] = []
        self._queue: deque[Optional[Measurement]] = deque([None] * round(latency_s / dt))
        if cutoff_hz:
            self._design(cutoff_hz, dt)

    def _design(self, cutoff_hz: float, dt: float) -> None:
        from scipy import signal    # imported here, because the import takes a second
        sos: Any = signal.butter(ORDER, cutoff_hz, fs=1.0 / dt, output='sos')
        self._rest = signal.sosfilt_zi(sos).tolist()
        self._sections = sos.tolist()
        b, a = signal.sos2tf(sos)
        self.filter_delay_s = float(signal.group_delay((b, a), [1e-4], fs=1.0 / dt)[1][0]) * dt

    def measure(self, now: float, position: float) -> Optional[Measurement]:
        """
        Expose now, and return the measurement that arrives now.

        :param now: time (s).
        :param position: true position (unit).
        """
        value: Optional[Measurement] = None
        if self.visible:
            raw = position + self._origin + self._random.gauss(0.0, self._noise)
            value = Measurement(self._filter(raw), now - self.filter_delay_s)
        else:
            self._states = []    # the filter restarts after a gap
        self._queue.append(value)
        return self._queue.popleft()

    def _filter(self, value: float) -> float:
        if not self._states:
            self._states = [[zi[0] * value, zi[1] * value] for zi in self._rest]
        for (b0, b1, b2, _, a1, a2), state in zip(self._sections, self._states):
            out = b0 * value + state[0]
            state[0] = b1 * value - a1 * out + state[1]
            state[1] = b2 * value - a2 * out
            value = out
        return value
