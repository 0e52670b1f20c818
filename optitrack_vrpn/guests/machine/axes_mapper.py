# Copyright 2026 The optitrack_vrpn authors
# SPDX-License-Identifier: BSD-3-Clause
"""
Convert the poses of bodies to the values of axes, with validity: the bridge without IO.

Poses are those that the main node publishes: validated, in ENU, stamped on the host's clock.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, IntEnum
import math
import statistics
from typing import NamedTuple, Optional

from optitrack_vrpn.core.axes import Pose
from optitrack_vrpn.core.doubt import Doubt, DoubtGuard
from optitrack_vrpn.core.rotation import Quat, Vector
from optitrack_vrpn.guests.machine.axes_settings import (
    AxesMapperSettings, AxisRow, AxisTable, Quantities, quantities_of, Unwrapper)
from optitrack_vrpn.stream.motion.lowpass import Lowpass, LowpassConfig

#: A stamp further in the future (ns) is not used: synchronised computers differ by less.
_AHEAD_NS = 50_000_000


class AxesStatus(IntEnum):
    """The status number in datagrams, as in the interface thesis."""

    NOT_CONNECTED = 0
    RECEIVING = 1
    UNABLE = 2
    ENDED = -1


class StatusEvent(Enum):
    """Events that change the status."""

    START = 'the stream was started'
    POSE = 'a valid pose of any body arrived'
    SILENCE = 'no pose for the connection timeout'
    END = 'the stream was ended on request'


#: (status, event) -> status; other pairs do not change the status.
TRANSITIONS = {
    (AxesStatus.NOT_CONNECTED, StatusEvent.POSE): AxesStatus.RECEIVING,
    (AxesStatus.UNABLE, StatusEvent.POSE): AxesStatus.RECEIVING,
    (AxesStatus.NOT_CONNECTED, StatusEvent.SILENCE): AxesStatus.UNABLE,
    (AxesStatus.RECEIVING, StatusEvent.SILENCE): AxesStatus.UNABLE,
    **{(status, StatusEvent.END): AxesStatus.ENDED for status in AxesStatus},
    (AxesStatus.ENDED, StatusEvent.START): AxesStatus.NOT_CONNECTED,
}


def after(status: AxesStatus, event: StatusEvent) -> AxesStatus:
    """Return the status after an event."""
    return TRANSITIONS.get((status, event), status)


class AxisState(NamedTuple):
    """
    One axis at one cycle.

    :ivar value: in its own unit; NaN if not valid.
    :ivar valid: whether the value is fresh and valid.
    :ivar reason: reason why it is not valid, or ''.
    """

    value: float
    valid: bool
    reason: str


class AxesSample(NamedTuple):
    """
    All axes at one cycle.

    :ivar axes: in the table's order.
    :ivar stamp_ns: stamp of the oldest measurement used (ns since 1970), never decreasing; 0
        before the first valid value.
    :ivar status: the status number.
    """

    axes: tuple[AxisState, ...]
    stamp_ns: int
    status: AxesStatus


@dataclass
class AxesCounters:
    """Numbers of poses received, and of those not used, by reason."""

    poses: int = 0
    not_finite: int = 0
    in_future: int = 0
    out_of_order: int = 0
    clock_steps: int = 0


@dataclass
class _Axis:
    """State of one axis; ``problem`` says why its value is not valid, '' if it is."""

    row: AxisRow
    value: float = math.nan
    problem: str = 'no pose yet'
    unwrapper: Optional[Unwrapper] = None


@dataclass
class _Body:
    """State of one body; stamps are 0 before its first pose."""

    axes: list[_Axis]
    lowpass: Optional[Lowpass]
    stamp_ns: int = 0
    published_ns: int = 0
    measured_ns: int = 0     # the stamp on the monotonic clock
    seen: bool = False
    guard: DoubtGuard = field(default_factory=DoubtGuard)
    intervals: deque[float] = field(default_factory=lambda: deque(maxlen=21))

    @property
    def rate_hz(self) -> float:
        """Return the rate from the last stamps (Hz), 0 while unknown; lost frames are ignored."""
        return 1.0 / statistics.median(self.intervals) if len(self.intervals) >= 8 else 0.0


class AxisMapper:
    """
    Keep the present value of every axis.

    :param table: the axes.
    :param settings: frames, filter, and the age at which a value is stale.
    :ivar counters: numbers of poses not used.
    """

    def __init__(self, table: AxisTable, settings: Optional[AxesMapperSettings] = None) -> None:
        self.table = table
        self.settings = settings or AxesMapperSettings()
        self.counters = AxesCounters()
        self._status = AxesStatus.NOT_CONNECTED
        self._discard(None)

    def _discard(self, started_ns: Optional[int]) -> None:
        self._started_ns = started_ns
        self._last_pose_ns: Optional[int] = None
        self._stamp_ns = 0
        self._axes = [_Axis(row, unwrapper=Unwrapper() if row.unwrap else None)
                      for row in self.table.axes]
        lowpass = self.settings.lowpass
        config = LowpassConfig(lowpass.cutoff_hz, lowpass.order, lowpass.compensate_delay)
        self._bodies = {
            body: _Body([axis for axis in self._axes if axis.row.body == body],
                        Lowpass(config) if config.cutoff_hz else None)
            for body in self.table.bodies}

    def rate_hz(self, body: str) -> float:
        """Return the rate of a body from its stamps (Hz), 0 while unknown."""
        return self._bodies[body].rate_hz

    def pose(
        self, body: str, stamp_ns: int, position: Vector, quat_xyzw: Quat, now_ns: int,
        host_ns: int,
    ) -> bool:
        """
        Process a pose.

        :param body: name of a body in the table.
        :param stamp_ns: its stamp (ns since 1970).
        :param position: in ENU (m).
        :param quat_xyzw: rotation from FLU to ENU.
        :param now_ns: present time (ns) on a monotonic clock.
        :param host_ns: present time on the clock of the stamps (ns since 1970).
        :returns: False if the pose was not used; ``counters`` has the reason.
        """
        state = self._bodies[body]
        norm = math.sqrt(sum(c * c for c in quat_xyzw))
        if not all(map(math.isfinite, position)) or not abs(norm - 1.0) < 0.01:
            self.counters.not_finite += 1
            return False
        if stamp_ns - host_ns > _AHEAD_NS:
            self.counters.in_future += 1
            return False
        if state.seen and stamp_ns <= state.stamp_ns:
            if state.stamp_ns - host_ns <= _AHEAD_NS:
                self.counters.out_of_order += 1
                return False
            self.counters.clock_steps += 1      # the host's clock was set back
            state.intervals.clear()
            self._stamp_ns = 0
            if state.lowpass is not None:
                state.lowpass.reset()
        elif state.seen:
            state.intervals.append((stamp_ns - state.stamp_ns) * 1e-9)
        self.counters.poses += 1
        state.stamp_ns = state.published_ns = stamp_ns
        if state.lowpass is not None:
            state.published_ns, position, quat_xyzw = state.lowpass.update(
                stamp_ns, position, quat_xyzw, state.rate_hz)
        state.measured_ns = now_ns - (host_ns - stamp_ns)
        state.seen = True
        self._last_pose_ns = now_ns
        self._status = after(self._status, StatusEvent.POSE)
        self._map(state, Pose(position, quat_xyzw))
        return True

    def doubt(self, body: str, doubt: Doubt) -> None:
        """Process what the status of a body says: its axes are invalid while it is in doubt."""
        guard = self._bodies[body].guard
        guard.report(doubt)
        guard.guard(True)   # the controller may be in closed loop at any time

    def _map(self, state: _Body, pose: Pose) -> None:
        """Compute the axes of one body."""
        found: dict[str, Quantities] = {}
        for axis in state.axes:
            row = axis.row
            if row.frame not in found:
                found[row.frame] = quantities_of(pose, row.frame, self.settings.motive_x)
            numbers, gimbal_lock = found[row.frame]
            if gimbal_lock and row.quantity in ('roll', 'yaw'):
                axis.problem = 'gimbal lock: pitch is within 1 degree of +-90 degrees'
                continue
            quantity = numbers[row.index]
            axis.value = row.value(
                axis.unwrapper.update(quantity) if axis.unwrapper is not None else quantity)
            outside = row.range is not None and not row.range[0] <= axis.value <= row.range[1]
            axis.problem = (
                f'{axis.value:.6g} is outside the range {row.range}' if outside else '')

    def sample(self, now_ns: int) -> AxesSample:
        """Return all axes at the present time (ns, on the monotonic clock of ``pose``)."""
        if self._started_ns is None:
            self._started_ns = now_ns
        since = self._started_ns if self._last_pose_ns is None else self._last_pose_ns
        if now_ns - since > self.settings.connect_timeout_s * 1e9:
            self._status = after(self._status, StatusEvent.SILENCE)
        found: list[AxisState] = []
        used: set[int] = set()
        for axis in self._axes:
            body = self._bodies[axis.row.body]
            age_s = (now_ns - body.measured_ns) * 1e-9
            reason = axis.problem
            if body.seen and age_s > self.settings.stale_after_s:
                reason = f'the last pose of body {axis.row.body!r} was measured {age_s:.1f} s ago'
            reason = reason or body.guard.reason
            if not reason:
                used.add(body.published_ns)
            found.append(AxisState(math.nan if reason else axis.value, not reason, reason))
        if used:
            self._stamp_ns = max(self._stamp_ns, min(used))
        return AxesSample(tuple(found), self._stamp_ns, self._status)

    def end(self) -> AxesStatus:
        """End the stream on request; ``start`` begins another one."""
        self._status = after(self._status, StatusEvent.END)
        return self._status

    def start(self, now_ns: int) -> None:
        """Begin a stream at a time (ns), and discard the values of the previous one."""
        self._status = after(self._status, StatusEvent.START)
        self._discard(now_ns)
