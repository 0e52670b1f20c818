# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Compare the autopilot's own attitude and position with the sent ones, and report differences.

Both are compared at one time: TIMESYNC converts the autopilot's stamps to the host's clock. The
autopilot's values wait for the sample of their time, which arrives later by the age of the poses.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
import math
import statistics
from typing import Optional

from optitrack_vrpn.autopilot.messages import euler_zyx, State
from optitrack_vrpn.motion import Vector

#: Smallest number of comparisons in a verdict. Chosen.
ENOUGH = 3
#: Differences beyond these are reported. Chosen: an estimator that fuses a pose follows it within
#: a degree and some centimetres at rest; a compass that was calibrated differs by up to 10
#: degrees; a vehicle is placed by hand to 3 degrees for the creation of its rigid body.
YAW_DEG, TILT_DEG, POSITION_M = 10.0, 5.0, 0.5
#: The autopilot's value, and that of the poses: roll, pitch, yaw (rad) or north, east, down (m).
Pair = tuple[Vector, Vector]


class Agreement:
    """
    Collect comparisons; not safe from several threads at once.

    :ivar attitudes: recent pairs of attitudes.
    :ivar positions: recent pairs of positions.
    """

    def __init__(self) -> None:
        self._history: deque[State] = deque()
        #: Time on the host's clock (ns), the autopilot's value, and where its pair belongs.
        #: The length is 0.5 s of two messages at 50 Hz.
        self._waiting: deque[tuple[int, Vector, deque[Pair]]] = deque(maxlen=50)
        self.attitudes: deque[Pair] = deque(maxlen=20)
        self.positions: deque[Pair] = deque(maxlen=20)

    def clear(self) -> None:
        """Discard all samples and comparisons."""
        self._history.clear()
        self._waiting.clear()
        self.attitudes.clear()
        self.positions.clear()

    def sent(self, state: State) -> None:
        """Add a sample, whether it was sent or withheld; a clock that was set back restarts."""
        if self._history and state.time_us < self._history[-1].time_us:
            self._history.clear()
            self._waiting.clear()
        self._history.append(state)
        # Chosen: the autopilot's messages arrive within 1.5 s.
        while self._history[0].time_us < state.time_us - 1_500_000:
            self._history.popleft()
        self._compare()

    def attitude(self, time_ns: int, own: Vector) -> None:
        """Add the autopilot's roll, pitch and yaw (rad) at a time of the host's clock (ns)."""
        # After 5 s without a sample, longer than an occlusion, earlier comparisons do not count.
        if self._history and time_ns - self._history[-1].time_us * 1000 > 5_000_000_000:
            self.clear()
        self._wait(time_ns, own, self.attitudes)

    def position(self, time_ns: int, own: Vector) -> None:
        """Add the autopilot's position in the local frame: north, east, down (m)."""
        self._wait(time_ns, own, self.positions)

    def _wait(self, time_ns: int, own: Vector, pairs: deque[Pair]) -> None:
        if all(map(math.isfinite, own)):
            self._waiting.append((time_ns, own, pairs))
            self._compare()

    def _compare(self) -> None:
        """Compare the values whose time the samples have reached."""
        newest_ns = self._history[-1].time_us * 1000 if self._history else 0
        for one in [one for one in self._waiting if one[0] <= newest_ns]:
            self._waiting.remove(one)
            time_ns, own, pairs = one
            state = self._at(time_ns)
            if state is not None:
                pairs.append((own, euler_zyx(state.quat_wxyz) if pairs is self.attitudes
                              else state.position))

    def _at(self, time_ns: int) -> Optional[State]:
        nearest = min(self._history, default=None,
                      key=lambda state: abs(state.time_us * 1000 - time_ns))
        # Chosen: at 1 rad/s, 40 ms are 2 degrees.
        if nearest is None or abs(nearest.time_us * 1000 - time_ns) > 40_000_000:
            return None
        return nearest


def _means(attitudes: Iterable[Vector]) -> list[float]:
    """Return the circular means of roll, pitch and yaw (deg)."""
    return [math.degrees(math.atan2(sum(map(math.sin, angles)), sum(map(math.cos, angles))))
            for angles in zip(*attitudes)]


def difference(pair: Pair) -> Vector:
    """Return the autopilot's roll, pitch, yaw minus those of the pose (rad)."""
    roll, pitch, yaw = (math.remainder(a - b, 2 * math.pi) for a, b in zip(*pair))
    return roll, pitch, yaw


def judge_attitude(pairs: Sequence[Pair]) -> list[str]:
    """Describe how the autopilot's attitude differs from what was sent, in sentences."""
    if len(pairs) < ENOUGH:
        return []
    found = []
    roll, pitch, yaw = _means(map(difference, pairs))
    quarters = 90 * round(yaw / 90.0)
    if abs(yaw) > YAW_DEG and quarters and abs(yaw - quarters) < 15.0:
        found.append(
            f"yaw differs by {abs(quarters)} degrees: the body's x axis in Motive does not point "
            'out of the nose, or motive_x of the node is the other one')
    elif abs(yaw) > YAW_DEG:
        found.append(
            f'yaw differs by {abs(yaw):.0f} degrees: the body was created in Motive with its '
            'nose off the x axis, or the autopilot takes its yaw from the magnetometer')
    if math.hypot(roll, pitch) > TILT_DEG:
        found.append(_judge_tilt(roll, pitch, *(_means(side) for side in zip(*pairs))))
    return found


def _judge_tilt(roll: float, pitch: float, own: Sequence[float], sent: Sequence[float]) -> str:
    # At less tilt, signs and exchanges of roll and pitch cannot be determined.
    if math.hypot(*own[:2]) > 6.0:
        if math.hypot(own[0] + sent[0], own[1] + sent[1]) < TILT_DEG:
            return ("roll and pitch have the opposite sign: the body's x axis in Motive points "
                    'out of the tail')
        if min(math.hypot(own[0] - sent[1], own[1] + sent[0]),
               math.hypot(own[0] + sent[1], own[1] - sent[0])) < TILT_DEG:
            return ("roll and pitch are exchanged: the body's x axis in Motive points out of a "
                    'side')
    return (f'roll differs by {roll:.0f} and pitch by {pitch:.0f} degrees: the vehicle was not '
            'level when its rigid body was created; create it again on level ground')


def judge_position(positions: Sequence[tuple[Vector, Vector]]) -> list[str]:
    """Describe how the autopilot's position differs from what was sent; see ``judge_attitude``."""
    if len(positions) < ENOUGH:
        return []
    own, sent = ([statistics.fmean(values) for values in zip(*side)] for side in zip(*positions))
    if math.dist(own, sent) <= POSITION_M:
        return []
    return [f'the position differs by {math.dist(own, sent):.1f} m (the autopilot: north '
            f'{own[0]:.2f}, east {own[1]:.2f}, down {own[2]:.2f}; sent: {sent[0]:.2f}, '
            f'{sent[1]:.2f}, {sent[2]:.2f}): it does not fuse the position, or has another origin']
